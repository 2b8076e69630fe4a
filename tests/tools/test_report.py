# SPDX-License-Identifier: Apache-2.0
"""`ringfire report`: one page of all that a training has left.

Usage: test_report.py RINGFIRE FIT_CALLBACKS"""
import html.parser
import json
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
import digits  # noqa: E402
import events  # noqa: E402
import programs  # noqa: E402

RINGFIRE, TRAINER = sys.argv[1:3]


class Page(html.parser.HTMLParser):
    """Headings, cells and links of a page; an element that is not closed is an error."""

    def __init__(self, text):
        super().__init__()
        self.open, self.headings, self.texts, self.outside = [], [], [], []
        self.feed(text)
        assert not self.open, self.open

    def handle_starttag(self, tag, attrs):
        if tag not in ("meta",):
            self.open.append(tag)
        self.outside += [v for k, v in attrs if k in ("src", "href")]

    def handle_startendtag(self, tag, attrs):
        pass

    def handle_endtag(self, tag):
        assert self.open.pop() == tag, tag

    def handle_data(self, data):
        (self.headings if self.open and self.open[-1] in ("h1", "h2") else self.texts).append(data)


class Report(unittest.TestCase):

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name)

    def report(self, run, code=0):
        out = self.root / "page.html"
        done = subprocess.run([RINGFIRE, "report", run, "--out", out, "--json"],
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.assertEqual(done.returncode, code, done.stderr)
        return (json.loads(done.stdout), out.read_text()) if code == 0 else done.stderr

    def test_training(self):
        digits.write_both(self.root)
        run = self.root / "a <run>"
        programs.run(TRAINER, "--data", self.root, "--epochs", "2", "--batch-size", "16",
                     "--devices", "0,0", "--logdir", run, "--checkpoint-dir", run / "ckpt",
                     env={"RINGFIRE_TRACE": str(self.root / "a <run>.json"),
                          "RINGFIRE_TRACE_OPS": "2"})
        (self.root / "a <run>.json").rename(run / "trace.json")
        facts, text = self.report(run)
        self.assertEqual(facts["traces"], 1)
        self.assertEqual(facts["warnings"], [])
        self.assertGreater(len(facts["checkpoints"]), 0)
        self.assertIn("wait", [s["name"] for s in facts["host"]])
        self.assertGreater(len(facts["operations"]), 5)
        memory = {(m["replica"], m["memory"]): m for m in facts["memory"]}
        for replica in (0, 1):
            parts = [m["bytes"] for (r, name), m in memory.items()
                     if r == replica and name != "all"]
            self.assertEqual(memory[replica, "all"]["bytes"], sum(parts))
            for name in ("variables", "gradients", "activations", "optimizer state"):
                part = memory[replica, name]
                self.assertGreater(part["bytes"], 10000)
                self.assertGreaterEqual(part["most"], part["bytes"])
        self.assertIn("Device memory", text)
        page = Page(text)
        self.assertEqual(page.outside, [])  # it needs no other file
        self.assertEqual(page.headings[0], "Report of %s" % run)
        self.assertEqual([h for h in page.headings if "time" in h],
                         ["Where the host's time goes", "Where the devices' time goes"])
        self.assertEqual(sum("rank 0" in t for t in page.texts), 2)
        self.assertEqual(page.texts.count("50.0 %"), 2)
        self.assertLess(text.index("<title>epoch_loss"), text.index("<title>epoch_accuracy"))
        self.assertNotIn("<title>replica_0/share", text)  # it has not changed

    def test_damage(self):
        (self.root / "values.csv").write_text("epoch,loss,val_loss\n" + "".join(
            "%d,%g,%g\n" % (i, 1 / (i + 1), 1 + abs(i - 2)) for i in range(9)) + "9,nan,9\n")
        (self.root / "broken.rfck").write_bytes(b"no checkpoint")
        (self.root / "cut.json").write_text('[\n{"name":"ringfire_clock","pid":0,"args":'
                                            '{"wall_start_ns":5}},\n{"name":"wa')
        (self.root / "other.json").write_text('{"no": "trace"}')
        facts, text = self.report(self.root)
        self.assertEqual(len(facts["warnings"]), 4, facts["warnings"])
        for part in ("broken.rfck", "truncated", "not finite at 9", "least in epoch 3 of 10"):
            self.assertTrue(any(part in w for w in facts["warnings"]), part)
        self.assertEqual(len(re.findall("<li>", text)), 4)
        Page(text)

    def test_warnings_of_the_log(self):
        """Each text has the latest few: what comes twice is shown once, as it is."""
        (self.root / "train").mkdir()
        (self.root / "train/events.out.tfevents.1").write_bytes(b"".join(
            events.event(1.0, epoch, events.text("ringfire/warnings", lines))
            for epoch, lines in enumerate(("first\nsecond <b>\n", "second <b>\nthird\n"))) +
            events.event(1.0, 0, events.scalar("epoch_loss", 1.0)))
        facts, text = self.report(self.root)
        self.assertEqual(facts["warnings"], ["first", "second <b>", "third"])
        self.assertIn("second &lt;b&gt;", text)
        Page(text)

    def test_confusion_matrix(self):
        """The text of the last epoch, without the marks of Markdown."""
        (self.root / "train").mkdir()
        table = "```\n     0  1\n0  %3d  1\n1    0  2\n```\n"
        tag = "ringfire/confusion/val_<b>"
        (self.root / "train/events.out.tfevents.1").write_bytes(b"".join(
            events.event(1.0, epoch, events.text(tag, table % (40 + epoch)))
            for epoch in range(3)) + events.event(1.0, 0, events.scalar("epoch_loss", 1.0)))
        text = self.report(self.root)[1]
        self.assertIn("Labels and predictions: val_&lt;b&gt;", text)
        self.assertIn("<pre>     0  1\n0   42  1\n1    0  2\n</pre>", text)
        Page(text)

    def test_nothing(self):
        self.assertIn("has no event files", self.report(self.root, 1))
        self.assertIn("nowhere", self.report(self.root / "nowhere", 1))


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
