# SPDX-License-Identifier: Apache-2.0
"""ringfire plot on event files and CSV logs made here. Usage: test_plot.py RINGFIRE"""
import pathlib
import re
import struct
import sys
import tempfile
import unittest
import xml.etree.ElementTree

TESTS = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(TESTS / "support"))
import programs  # noqa: E402
from tfrecord import field, record, varint  # noqa: E402

RINGFIRE = sys.argv[1]
SVG = "{http://www.w3.org/2000/svg}"


def scalar(tag, step, value):
    """As TensorFlow 1 and PyTorch write it: simple_value."""
    inner = field(1, tag if isinstance(tag, bytes)
                  else tag.encode()) + b"\x15" + struct.pack("<f", value)
    return record(b"\x09" + struct.pack("<d", 1e9) + b"\x10" + varint(step)
                  + field(5, field(1, inner)))


def plot(*arguments, **environment):
    return programs.run(RINGFIRE, "plot", *arguments, timeout=60,
                        env={"COLUMNS": "80", **environment})


class Plot(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name)

    def events(self, name, records):
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(record(field(3, b"brain.Event:2")) + b"".join(records))
        return path

    def run_of(self, name, scale=1.0):
        for half, factor in (("train", 1.0), ("validation", 1.2)):
            self.events("%s/%s/events.out.tfevents.1.h.1.0.v2" % (name, half),
                        [scalar("epoch_loss", i, factor * scale / (1 + i)) for i in range(5)]
                        + [scalar("epoch_accuracy", i, 1 - 0.3 * factor / (1 + i))
                           for i in range(5)]
                        + [scalar("batch_loss", i, 1.0) for i in range(50)])

    def svg(self, *arguments):
        out = self.root / "out.svg"
        done = plot(*arguments, "--out", out)
        self.assertEqual((done.returncode, done.stderr, done.stdout), (0, "", ""))
        tree = xml.etree.ElementTree.parse(out).getroot()
        texts = [t.text for t in tree.iter(SVG + "text")]
        curves = [[tuple(map(float, p.split(","))) for p in line.get("points").split()]
                  for line in tree.iter(SVG + "polyline") if line.get("stroke-width") == "1.8"]
        for line in curves:
            for x, y in line:
                self.assertTrue(0 <= x <= float(tree.get("width"))
                                and 0 <= y <= float(tree.get("height")))
        return tree, texts, curves

    def test_svg(self):
        self.run_of("a")
        tree, texts, curves = self.svg(self.root / "a")
        for text in ("epoch_loss", "epoch_accuracy", "train", "validation", "epoch", "0", "4"):
            self.assertIn(text, texts)
        self.assertNotIn("batch_loss", texts)
        self.assertEqual([len(c) for c in curves], [5, 5, 5, 5])
        # falls, so it goes down on the page; a hyperbola, so the steps get smaller
        loss = curves[0]
        drops = [b[1] - a[1] for a, b in zip(loss, loss[1:])]
        self.assertTrue(all(d > 0 for d in drops) and sorted(drops, reverse=True) == drops)
        self.assertEqual(sum(1 for line in tree.iter(SVG + "polyline")
                             if line.get("stroke-dasharray")), 3)

    def test_comparison(self):
        self.run_of("a")
        self.run_of("b <&>", 0.5)
        tree, texts, curves = self.svg(self.root / "a", self.root / "b <&>", "--tag", "epoch_loss")
        self.assertEqual(len(curves), 4)
        for text in ("a/train", "a/validation", "b <&>/train", "b <&>/validation"):
            self.assertIn(text, texts)
        colors = {line.get("stroke") for line in tree.iter(SVG + "polyline")
                  if line.get("stroke-width") == "1.8"}
        self.assertEqual(len(colors), 2)

    def test_scale(self):
        """Ends of the curve are where the labels of the axis say."""
        self.events("events.out.tfevents.1",
                    [scalar("epoch_loss", 10 * i, 100.0 * i) for i in range(6)])
        tree, texts, curves = self.svg(self.root)
        places = {t.text: (float(t.get("x")), float(t.get("y"))) for t in tree.iter(SVG + "text")}
        self.assertAlmostEqual(curves[0][-1][0], places["50"][0], delta=0.1)
        self.assertAlmostEqual(curves[0][-1][1] + 4, places["500"][1], delta=0.1)
        self.assertAlmostEqual(curves[0][0][1], max(y for _, y in curves[0]), delta=0.1)

    def test_png(self):
        self.run_of("a")
        out = self.root / "out.png"
        done = plot(self.root / "a", "-o", out)
        if "no PNG" in done.stderr:
            self.skipTest("built without cairo")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        data = out.read_bytes()
        self.assertEqual(data[:8], b"\x89PNG\r\n\x1a\n")
        width, height = struct.unpack(">II", data[16:24])
        self.assertGreater(width, height)
        self.assertGreater(len(data), 5000)

    def test_text(self):
        self.run_of("a")
        done = plot(self.root / "a", LANG="C.UTF-8", TERM="xterm")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertTrue(done.stdout.isascii() and "\033" not in done.stdout)
        self.assertTrue(all(len(line) <= 80 and line == line.rstrip()
                            for line in done.stdout.splitlines()))
        self.assertIn("o train: 0.2\n", done.stdout)
        self.assertIn("x validation: 0.24\n", done.stdout)
        rows = [line for line in done.stdout.split("epoch_accuracy")[0].splitlines()
                if re.match(r"^[ .\d]{10}[+|]", line)]
        columns = {mark: [row.index(mark) for row in rows if mark in row] for mark in "ox"}
        for mark in "ox":  # falls from left to right
            self.assertEqual(columns[mark], sorted(columns[mark]))
            self.assertGreater(len(columns[mark]), 5)
        narrow = plot(self.root / "a", COLUMNS="50").stdout
        self.assertTrue(max(map(len, narrow.splitlines())) <= 50)

    def test_csv(self):
        for encoding in "utf-8", "utf-8-sig":  # with a byte order mark
            (self.root / "log.csv").write_text("epoch,loss,accuracy,val_loss,learning_rate\n"
                                               "0,1,0.5,1.5,0.001\n1,0.5,0.75,0.8,0.001\n",
                                               encoding=encoding)
            _, texts, curves = self.svg(self.root / "log.csv")
            self.assertEqual(len(curves), 3)
            for text in ("epoch_loss", "epoch_accuracy", "train", "validation"):
                self.assertIn(text, texts)
        _, texts, curves = self.svg(self.root, "--tag", "epoch_learning_rate")
        self.assertEqual(len(curves), 1)
        self.assertIn("log/train", texts)

    def test_resumed(self):
        """Of a step that two files have, the later file counts."""
        self.events("events.out.tfevents.1", [scalar("epoch_loss", i, 9) for i in range(4)])
        self.events("events.out.tfevents.2", [scalar("epoch_loss", i, 1) for i in range(2, 6)])
        _, _, curves = self.svg(self.root)
        self.assertEqual(len(curves[0]), 6)
        self.assertEqual(len({y for _, y in curves[0]}), 2)
        self.assertEqual(curves[0][1][1], curves[0][0][1])
        self.assertNotEqual(curves[0][2][1], curves[0][0][1])

    def test_gaps_and_odd_ranges(self):
        values = [1.0, float("nan"), float("inf"), 3.0, 2.0]
        self.events("a/events.out.tfevents.1", [scalar("loss", i, v) for i, v in enumerate(values)])
        _, _, curves = self.svg(self.root / "a")
        self.assertEqual([len(c) for c in curves], [2])  # and the lone first point as a dot
        for name, points in (("constant", [0.5] * 3), ("single", [7.0]), ("zero", [0.0]),
                             ("tiny", [1e-30, 2e-30]),
                             ("huge", [1e30, -1e30]), ("nans", [float("nan")])):
            self.events(name + "/events.out.tfevents.1",
                        [scalar("loss", i, v) for i, v in enumerate(points)])
            self.svg(self.root / name)
            done = plot(self.root / name)
            self.assertEqual((done.returncode, done.stderr), (0, ""), name)
            self.assertLess(len(done.stdout), 5000)

    def test_odd_bytes(self):
        """Tags that are no UTF-8 or would steer the terminal: SVG stays XML, text stays text."""
        tag, shown = (b"loss \xff\x1b[31m\xc2\x9b\xef\xbf\xbf <gr\xc3\xbcn>",
                      "loss \\xff\\x1b[31m\\xc2\\x9b\\xef\\xbf\\xbf <gr\u00fcn>")
        self.events("a/events.out.tfevents.1",
                    [scalar(tag, i, i) for i in range(3)] + [scalar("other\x1b", 0, 1)])
        _, texts, curves = self.svg(self.root / "a")
        self.assertIn(shown, texts)
        self.assertEqual([len(c) for c in curves], [3])
        self.svg(self.root / "a", "--tag", shown)
        done = plot(self.root / "a")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertIn(shown, done.stdout)
        lost = plot(self.root / "a", "--tag", "none")
        self.assertIn("other\\x1b", lost.stderr)
        out = self.root / "out.png"
        done = plot(self.root / "a", "-o", out)
        if "no PNG" not in done.stderr:
            self.assertEqual((done.returncode, done.stderr), (0, ""))
        folder = self.root / "b\x1b[2J"
        self.events(folder.name + "/events.out.tfevents.1", [scalar("loss", 0, 1)])
        (folder / "events.out.tfevents.1").write_bytes(b"no events at all")
        damaged = plot(self.root)
        self.assertIn("b\\x1b[2J", damaged.stderr)
        for done in (damaged, lost):
            self.assertNotIn("\x1b", done.stdout + done.stderr)

    def test_damaged_tail(self):
        path = self.events("events.out.tfevents.1", [scalar("loss", i, i) for i in range(4)])
        data = bytearray(path.read_bytes())
        data[-6] ^= 1
        path.write_bytes(data)
        done = plot(self.root)
        self.assertEqual(done.returncode, 0)
        self.assertIn("checksum", done.stderr)
        self.assertIn("o run: 2", done.stdout)

    def test_errors(self):
        self.run_of("a")
        for arguments, part in (((self.root / "none",), "none"),
                                ((self.root / "a", "--tag", "lost"), "batch_loss"),
                                ((self.root / "a", "-o", "x.pdf"), "x.pdf"), ((), "directories"),
                                ((self.root / "a", "-o", "/nonexistent/x.svg"),
                                 "/nonexistent/x.svg")):
            done = plot(*arguments)
            self.assertNotEqual(done.returncode, 0)
            self.assertIn(part, done.stderr)
        (self.root / "empty").mkdir()
        self.assertIn("no values", plot(self.root / "empty").stderr)


if __name__ == "__main__":
    suite = unittest.defaultTestLoader.loadTestsFromTestCase(Plot)
    sys.exit(0 if unittest.TextTestRunner(verbosity=2).run(suite).wasSuccessful() else 1)
