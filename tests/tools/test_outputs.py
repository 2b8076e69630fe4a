# SPDX-License-Identifier: Apache-2.0
"""Files that commands write: what was there stays until the new one is complete. Usage:
test_outputs.py RINGFIRE"""
import errno
import fcntl
import json
import os
import pathlib
import resource
import signal
import struct
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
import programs  # noqa: E402

RINGFIRE = sys.argv[1]


def run(*arguments, limit=None):
    """`limit`: bytes that a file may have, as on a full disk."""
    def full_disk():
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
    return programs.run(RINGFIRE, *arguments, timeout=60, preexec_fn=full_disk if limit is not None
                        else None)


class Outputs(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name)
        for rank in (0, 1):
            self.trace(rank)
        (self.root / "log.csv").write_text("epoch,loss\n"
                                           + "".join(
                                               "%d,%g\n" % (i, 1 / (i + 1)) for i in range(50)))

    def trace(self, rank, end="\n]\n"):
        events = [{"ph": "M", "pid": rank, "name": "ringfire_clock",
                   "args": {"wall_start_ns": 1000 * rank, "host": "h"}}]
        events += [{"ph": "X", "pid": rank, "tid": 1, "ts": i, "dur": 0.5, "cat": "c",
                    "name": "span %d" % i} for i in range(100)]
        path = self.root / ("trace.rank%d.json" % rank)
        path.write_text("[\n" + ",\n".join(json.dumps(e) for e in events) + end)
        return path

    def good(self, *arguments):
        done = run(*arguments)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done

    def refused(self, part, *arguments, limit=None):
        before = {p: p.read_bytes() for p in self.root.iterdir()}
        done = run(*arguments, limit=limit)
        self.assertEqual(done.returncode, 1, (arguments, done))
        self.assertIn(part, done.stderr)
        self.assertEqual({p: p.read_bytes() for p in self.root.iterdir()}, before)

    def merge(self, out="job.json"):
        return ("trace", "merge", self.root / out, self.root / "trace.rank0.json",
                self.root / "trace.rank1.json")

    # ---- traces ----

    def test_empty_traces(self):
        (self.root / "trace.rank2.json").write_bytes(b"")
        done = self.good(*self.merge(), self.root / "trace.rank2.json")
        self.assertIn("trace.rank2.json' is empty and skipped", done.stderr)
        self.assertIn("of 2 files", done.stdout)
        self.assertEqual({e["pid"] for e in json.loads((self.root / "job.json").read_text())},
                         {0, 1})
        self.refused("all traces are empty", "trace", "merge", self.root / "job.json",
                     self.root / "trace.rank2.json")
        (self.root / "broken.json").write_text("x")
        self.refused("broken.json", "trace", "merge", self.root / "job.json",
                     self.root / "trace.rank2.json", self.root / "trace.rank0.json",
                     self.root / "broken.json")

    def test_cut_traces(self):
        self.trace(1, end="")
        done = self.good(*self.merge())
        self.assertIn("trace.rank1.json' is truncated (its program was killed, or the disk was "
                      "full)", done.stderr)
        self.assertNotIn("rank0", done.stderr)

    def test_no_trace_is_overwritten(self):
        first, second = self.root / "trace.rank0.json", self.root / "trace.rank1.json"
        self.refused("is both an input and the output", "trace", "merge", first, first, second)
        os.link(second, self.root / "linked.json")
        self.refused("is both an input and the output", "trace", "merge", self.root / "linked.json",
                     first, second)
        # the name of the output is missing
        self.refused("is a worker's trace", "trace", "merge", first, second)
        self.good(*self.merge())
        self.good(*self.merge())  # over the one before
        self.assertEqual(len(json.loads((self.root / "job.json").read_text())), 2 * 101 + 1)

    # ---- all ----

    def commands(self):
        """What writes a file of each kind."""
        yield "job.json", self.merge()
        yield "plot.svg", ("plot", self.root / "log.csv", "--tag", "epoch_loss", "--out",
                           self.root / "plot.svg")
        yield "plot.png", ("plot", self.root / "log.csv", "--tag", "epoch_loss", "--out",
                           self.root / "plot.png")

    def tag(self):
        done = run("plot", self.root / "log.csv", "--tag", "none")
        return done.stderr.split()[-1]

    def test_full_disk(self):
        for name, command in self.commands():
            command = [self.tag() if c == "epoch_loss" else c for c in command]
            (self.root / name).write_text("old")
            self.refused(name, *command, limit=100)
            self.assertEqual((self.root / name).read_text(), "old")
            (self.root / (name + ".tmp")).write_text("left by one that was killed" * 10000)
            self.good(*command)
            self.assertNotEqual((self.root / name).read_bytes()[:3], b"old")
            self.assertNotIn(b"killed", (self.root / name).read_bytes())
            self.assertFalse((self.root / (name + ".tmp")).exists())

    def test_two_writers(self):
        with open(self.root / "job.json.tmp", "w") as file:
            try:
                fcntl.fcntl(file, getattr(fcntl, "F_OFD_SETLK", 37),
                            struct.pack("hhqqi", fcntl.F_WRLCK, 0, 0, 0, 0))
            except OSError as problem:
                self.skipTest("no locks here: %s" % problem)
            self.refused(os.strerror(errno.EBUSY), *self.merge())
        self.good(*self.merge())

    def test_no_file(self):
        link = self.root / "link.json"
        link.symlink_to(self.root / "target.json")
        (self.root / "target.json").write_text("old")
        self.good(*self.merge("link.json"))
        self.assertTrue(link.is_symlink())
        self.assertIn("span 7", (self.root / "target.json").read_text())
        done = self.good("trace", "merge", "/dev/stdout", *self.merge()[3:])
        self.assertIn("span 7", done.stdout)
        self.refused("/nonexistent/x", "trace", "merge", "/nonexistent/x", *self.merge()[3:])

    def test_key(self):
        key = self.root / "key"
        self.refused("key", "keygen", key, limit=10)
        self.good("keygen", key)
        self.assertEqual((key.stat().st_mode & 0o777, len(key.read_text()), key.stat().st_nlink),
                         (0o600, 65, 1))
        self.refused("exists already", "keygen", key)


if __name__ == "__main__":
    suite = unittest.defaultTestLoader.loadTestsFromTestCase(Outputs)
    sys.exit(0 if unittest.TextTestRunner(verbosity=2).run(suite).wasSuccessful() else 1)
