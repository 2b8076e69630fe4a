# SPDX-License-Identifier: Apache-2.0
"""The page of `ringfire report` as a browser shows it: wide, on a phone, in the dark.

Usage: test_report_pictures.py RINGFIRE PNG_COMPARE
       test_report_pictures.py RINGFIRE PNG_COMPARE --renew   keeps today's pictures

Look at the pictures in tests/tools/report before you commit them. They depend on the font: where
the system's is another one, there is nothing to compare."""
import json
import math
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from events import event, scalar, text  # noqa: E402

RINGFIRE, COMPARE = (pathlib.Path(a).resolve() for a in sys.argv[1:3])
RENEW = "--renew" in sys.argv[3:]
KEPT = pathlib.Path(__file__).resolve().parent / "report"
MODEL = pathlib.Path(__file__).resolve().parents[1] / "train/fixtures/model1.rfck"
SHOTS = {  # name: size, width of a frame (0: none), options
    "wide": ((1280, 2100), 0, []),
    "phone": ((500, 3000), 390, []),
    "dark": ((1280, 2100), 0, ["--blink-settings=preferredColorScheme=0"]),
}


BROWSER = shutil.which("chromium") or shutil.which("chromium-browser")


def obstacle():
    """A reason why nothing can be compared."""
    if not BROWSER:
        return "chromium is not installed"
    kept = (KEPT / "font.txt").read_text() if not RENEW else None
    if kept not in (None, font()):
        return "the system's font is %s, that of the pictures %s" % (font().strip(), kept.strip())
    return None


def font():
    found = shutil.which("fc-match")
    return found and subprocess.run([found, "system-ui"], stdout=subprocess.PIPE, text=True,
                                    check=True).stdout


def write_run(folder):
    """A training of which everything is known."""
    begun = 1.7e9
    for part, shift in (("train", 0.0), ("validation", 0.15)):
        (folder / part).mkdir(parents=True)
        events = []
        for epoch in range(12):
            at = begun + 60 * epoch
            events.append(event(at, epoch, scalar("epoch_loss", 2 * math.exp(-epoch / 3) + shift)))
            events.append(event(at, epoch, scalar("epoch_accuracy", 1 - math.exp(-epoch / 4) / 1.2
                                                  - shift)))
            if part == "train":
                events.append(event(at, epoch, scalar("epoch_learning_rate", 1e-3 / (1 + epoch))))
                for replica, side in ((0, 1), (1, -1)):
                    events.append(event(at, epoch, scalar("replica_%d/share" % replica,
                                                          0.5 + side * 0.02 * epoch)))
        if part == "train":
            events.append(event(begun, 0, text("ringfire/devices", "A card (rank 0)\n"
                                               "A processor with a long name (rank 1)\n")))
            rows = (("all", 7, 9), ("variables", 1, 1), ("activations", 6, 8))
            table = "".join("| 0 | %s | %d000000 | %d000000 |\n" % row for row in rows)
            events.append(event(begun, 0, text("ringfire/memory", "| replica |\n" + table)))
        (folder / part / "events.out.tfevents.1.test").write_bytes(b"".join(events))
    spans = [{"ph": "X", "pid": 0, "tid": 1, "ts": 0, "name": name, "cat": category, "dur": micros}
             for name, category, micros in (
                 ("wait", "replica", 5e6), ("submit", "replica", 1e6),
                 ("matmul (lanes8)", "op", 3e6), ("conv2d (few)", "op", 2e6))]
    clock = {"ph": "M", "pid": 0, "name": "ringfire_clock", "args": {"wall_start_ns": 1}}
    (folder / "trace.json").write_text(json.dumps([clock, *spans]))
    (folder / "cut.rfck").write_bytes(MODEL.read_bytes()[:300])
    shutil.copy(MODEL, folder / "ckpt-3.rfck")
    os.utime(folder / "ckpt-3.rfck", (begun + 200, begun + 200))


class Pictures(unittest.TestCase):

    @classmethod
    def setUpClass(cls):
        holder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(holder.cleanup)
        cls.folder = pathlib.Path(holder.name)
        write_run(cls.folder / "run")
        subprocess.run([RINGFIRE, "report", "run"], cwd=cls.folder, check=True,
                       stdout=subprocess.DEVNULL, env={**os.environ, "TZ": "UTC"})
        cls.page = cls.folder / "report.html"

    def shoot(self, page, size, options=()):
        shot = self.folder / "shot.png"
        shot.unlink(missing_ok=True)
        subprocess.run([BROWSER, "--headless", "--no-sandbox", "--disable-gpu",
                        "--hide-scrollbars", "--force-device-scale-factor=1",
                        "--user-data-dir=%s" % (self.folder / "browser"),
                        "--window-size=%d,%d" % size, "--screenshot=%s" % shot, *options,
                        page.as_uri()], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                       check=True, timeout=120)
        return shot

    def compare(self, shot, name, *options):
        return subprocess.run([COMPARE, shot, KEPT / (name + ".png"), *options],
                              stdout=subprocess.PIPE, text=True)

    def test_pictures(self):
        for name, (size, frame, options) in SHOTS.items():
            page = self.page
            if frame:  # no window is as narrow as a phone
                page = self.folder / "frame.html"
                page.write_text('<!DOCTYPE html><body style="margin:0"><iframe src="report.html" '
                                'style="border:0;width:%dpx;height:%dpx">' % (frame, size[1]))
            shot = self.shoot(page, size, options)
            done = self.compare(shot, name, *(["--renew"] if RENEW else []))
            self.assertEqual(done.returncode, 0, "%s: %s" % (name, done.stdout))
        if RENEW:
            (KEPT / "font.txt").write_text(font())

    def test_differences_are_seen(self):
        """A table less, and other colours."""
        page = self.folder / "less.html"
        whole = self.page.read_text()
        begin = whole.index("<h2>Device memory")
        page.write_text(whole[:begin] + whole[whole.index("<h2>", begin + 1):])
        size = SHOTS["wide"][0]
        self.assertEqual(self.compare(self.shoot(page, size), "wide").returncode, 1)
        self.assertEqual(self.compare(self.shoot(self.page, size), "dark").returncode, 1)


if __name__ == "__main__":
    if obstacle():
        print(obstacle())
        sys.exit(77)
    unittest.main(argv=sys.argv[:1] + (["Pictures.test_pictures"] if RENEW else []), verbosity=2)
