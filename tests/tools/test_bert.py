# SPDX-License-Identifier: Apache-2.0
"""BERT as a user meets it: it learns from text, goes on from its checkpoints as if it had not
stopped, computes the same on two workers and on two replicas, keeps its vocabulary, fine-tunes, and
names bad input.

Usage: test_bert.py BERT"""
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
import programs  # noqa: E402

BERT = sys.argv[1]
RESTARTABLE = 75  # RF_EXIT_RESTARTABLE
REPORT = (r"Step (\d+): masked words: loss (\S+), held out (\S+), (\S+) % right; next sentence: "
          r"(\S+) % right, held out (\S+) %")
RESULT = (r"Of (\d+) held-out examples, of which the largest class has (\S+) %, right are: from "
          r"the checkpoint (\S+) %, from scratch (\S+) %")
COLOURS = "red green blue white black grey pink brown gold".split()


def document(thing):
    """Sections about colours: each word follows from those around it."""
    line = "The %s %s number %d is here and the %s one is not.\n"
    return "".join("# About %s %s\n" % (colour, thing)
                   + "".join(line % (colour, thing, i, colour) for i in range(6))
                   for colour in COLOURS * 2)


class Bert(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.folder = pathlib.Path(folder.name)
        texts = cls.folder / "texts"
        texts.mkdir()
        for name, thing in ("cats", "cat"), ("cars", "car"):
            (texts / (name + ".md")).write_text(document(thing))
        cls.train = [BERT, "--devices", "llvmpipe", "--text", texts, "--batch-size", "4",
                     "--vocabulary", "160", "--learning-rate", "0.004"]
        cls.pretrain = [*cls.train, "--task", "none"]
        cls.whole = programs.run(*cls.pretrain, "--steps", "104")

    def test_learns(self):
        """Words follow from the other ones of their sentences, so that a short training gets many
        right; and a few labels do for documents."""
        self.assertEqual(self.whole.returncode, 0, self.whole.stderr)
        entropy = float(re.search(r"unigram entropy of what is held out: (\S+)",
                                  self.whole.stdout)[1])
        first, last = programs.numbers(REPORT, self.whole)
        self.assertEqual((first[0], last[0]), (100, 104))
        self.assertLess(first[2], entropy)
        done = programs.run(*self.train, "--steps", "1", "--labels", "8", "--task", "document")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(done.stdout, "16 labelled ones of cats.md cars.md")
        (count, largest, with_checkpoint, from_scratch), = programs.numbers(RESULT, done)
        self.assertEqual((count, largest), (21, 66.7))
        self.assertTrue(0 <= with_checkpoint <= 100 and 0 <= from_scratch <= 100)
        done = programs.run(*self.train, "--steps", "1", "--labels", "8")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("16 labelled pairs", done.stdout)
        self.assertEqual(programs.numbers(RESULT, done)[0][0], 18)

    def test_resumes(self):
        """Stopped and started again, a training ends with the numbers of one that was never
        stopped."""
        command = [*self.pretrain, "--steps", "104", "--checkpoint-dir",
                   self.folder / "checkpoints"]
        with subprocess.Popen([str(c) for c in command], stdout=subprocess.PIPE,
                              text=True) as running:
            for line in running.stdout:
                if "unigram entropy" in line:
                    break
            self.assertEqual(running.poll(), None)
            running.terminate()
            rest = running.stdout.read()
            self.assertEqual(running.wait(120), RESTARTABLE, rest)
        stopped = re.search(r"Stopped on request after step (\d+)", rest)
        self.assertLess(int(stopped[1]), 104)
        resumed = programs.run(*command)
        self.assertEqual(resumed.returncode, 0, resumed.stderr)
        self.assertIn("Continuing after step " + stopped[1], resumed.stdout)
        self.assertEqual(programs.numbers(REPORT, resumed)[-1],
                         programs.numbers(REPORT, self.whole)[-1])
        again = programs.run(*command)
        self.assertEqual(again.returncode, 0, again.stderr)
        self.assertIn("Continuing after step 104", again.stdout)
        self.assertNotIn("masked words", again.stdout)

    def test_word_pieces(self):
        """The vocabulary is learned once; who goes on reads it, also where the text is another one
        by then."""
        pieces = self.folder / "pieces.json"
        command = [*self.pretrain, "--steps", "1", "--word-pieces", pieces]
        done = programs.run(*command)
        self.assertEqual(done.returncode, 0, done.stderr)
        size = re.search(r"tokens, (\d+) different ones", done.stdout)[1]
        learned = pieces.read_bytes()
        other = self.folder / "other.txt"
        other.write_text(document("dog"))
        done = programs.run(*command, "--text", other)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("tokens, %s different ones" % size, done.stdout)
        self.assertEqual(pieces.read_bytes(), learned)
        pieces.write_bytes(learned[:-2])
        done = programs.run(*command)
        self.assertGreater(done.returncode, 0)
        self.assertIn("pieces.json", done.stderr)

    def test_bad_input(self):
        small, one = self.folder / "small.txt", self.folder / "one.md"
        small.write_text("Only this.\n")
        one.write_text(document("dog") * 2)
        for arguments, text in (((BERT, "--text", self.folder / "none"), "No such file"),
                                ((BERT, "--text", small), "two sections"),
                                ((*self.train, "--task", "poem"), "'poem'"),
                                ((*self.train, "--vocabulary", "9"), "'9'"),
                                ((*self.train, "--steps", "0"), "'0'"),
                                ((BERT, "--devices", "llvmpipe", "--text", one, "--steps", "1",
                                  "--batch-size", "2", "--task", "document"), "--task none")):
            done = programs.run(*arguments)
            self.assertGreater(done.returncode, 0, arguments)
            self.assertIn(text, done.stderr)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
