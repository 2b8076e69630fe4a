# SPDX-License-Identifier: Apache-2.0
"""The classifier of texts as a user meets it: it learns what only the order of words tells, goes on
from its checkpoints as if it had not stopped, computes the same on two workers, reads files, saves
its model, and names bad input.

Usage: test_lstm.py RINGFIRE LSTM"""
import gzip
import pathlib
import re
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
import programs  # noqa: E402

RINGFIRE, LSTM = sys.argv[1:3]
EPOCH = r"Epoch (\d+)/\d+: loss: (\S+), accuracy: (\S+),"
RESULT = re.compile(r"Test: (\S+) % of (\d+) texts right")


class Lstm(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.folder = pathlib.Path(folder.name)
        cls.train = [LSTM, "--devices", "llvmpipe", "--batch-size", "16", "--limit", "320"]
        cls.whole = programs.run(*cls.train, "--epochs", "3")

    def test_learns(self):
        """The default, smaller: what a bag of words could not tell apart. Lines of a compressed
        file have the same class as texts."""
        lines = self.folder / "lines.gz"
        lines.write_bytes(gzip.compress(b"the plot was not dull.\n\nthe cast was good, but the "
                                        b"music was bad.\r\n" * 40))
        done = programs.run(LSTM, "--devices", "llvmpipe", "--save", self.folder / "net.rfck",
                            "--classify", "the plot was not dull.",
                            "--classify", "the cast was good, but the music was bad.",
                            "--classify-lines", lines)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("4000 texts, 95 words, 21793 parameters, global batch 64", done.stdout)
        self.assertGreater(float(RESULT.search(done.stdout)[1]), 99)
        likely = [float(x) for x in re.findall(r"^ *(\S+) %  the", done.stdout, re.MULTILINE)]
        self.assertEqual(likely[2:], likely[:2] * 40)
        self.assertGreater(likely[0], 90)
        self.assertLess(likely[1], 10)
        listed = programs.run(RINGFIRE, "ckpt", "show", self.folder / "net.rfck")
        self.assertIn("bidirectional/backward/recurrent_kernel", listed.stdout)
        self.assertTrue((self.folder / "net.rfck.words").stat().st_size > 0)

    def test_resumes(self):
        """Stopped and started again, a training ends with the numbers of one that was never
        stopped."""
        command = [*self.train, "--epochs", "3", "--checkpoint-dir", self.folder / "checkpoints"]
        programs.stop_at("Epoch 1/", command)
        resumed = programs.run(*command)
        self.assertEqual(resumed.returncode, 0, resumed.stderr)
        self.assertEqual(programs.numbers(EPOCH, resumed)[-1],
                         programs.numbers(EPOCH, self.whole)[-1])
        self.assertEqual(RESULT.search(resumed.stdout)[1], RESULT.search(self.whole.stdout)[1])

    def test_files(self):
        """Texts whose class is their first word."""
        path = self.folder / "texts.tsv"
        path.write_text("".join("%d\t%s %s\n"
                                % (i % 2, "yes" if i % 2 else "no", "and so on " * (i % 5))
                                for i in range(200)))
        done = programs.run(LSTM, "--devices", "llvmpipe", "--batch-size", "16", "--reviews", path,
                            "--epochs", "4")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("180 texts, 7 words", done.stdout)
        self.assertEqual(RESULT.search(done.stdout).groups(), ("100.00", "20"))

    def test_bad_input(self):
        path = self.folder / "wrong.tsv"
        path.write_text("1\tgood\nbad\n")
        for arguments, text in ((("--epochs", "0"), "'0'"), (("--learning-rate", "x"), "'x'"),
                                (("--reviews", path), "wrong.tsv, line 2: no class"),
                                (("--reviews", self.folder / "none"), "none")):
            done = programs.run(*self.train, *arguments)
            self.assertGreater(done.returncode, 0, arguments)
            self.assertIn(text, done.stderr)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
