# SPDX-License-Identifier: Apache-2.0
"""The translating example as a user meets it: it learns, goes on from its checkpoints as if it had
not stopped, computes the same on two workers, translates what it is given, paints its attention,
and names bad input.

Usage: test_nmt.py NMT"""
import pathlib
import re
import struct
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
import programs  # noqa: E402

NMT = sys.argv[1]
EPOCH = r"Epoch (\d+), Loss: (\S+), Accuracy: (\S+) %"
RESULT = re.compile(r"Test: (\S+) % of 160 dates exact")


def catalogue(pairs):
    """A .mo file of these messages."""
    head = ("", "Content-Type: text/plain; charset=UTF-8\n")
    texts = [text.encode() for side in (0, 1)
             for text in ((head[side], *(pair[side] for pair in pairs)))]
    count, end = len(texts) // 2, 28 + 8 * len(texts)
    table = b""
    for text in texts:
        table += struct.pack("<II", len(text), end)
        end += len(text) + 1
    return struct.pack("<7I", 0x950412de, 0, count, 28, 28 + 8 * count, 0,
                       28 + 16 * count) + table + b"".join(t + b"\0" for t in texts)


class Nmt(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.folder = pathlib.Path(folder.name)
        cls.train = [NMT, "--devices", "llvmpipe", "--batch-size", "16", "--limit", "160",
                     "--epochs", "3", "--network", "transformer", "--pairs", "dates"]
        cls.picture = cls.folder / "attention.png"
        cls.whole = programs.run(*cls.train, "--picture", cls.picture, "--translate",
                                 "3 March 1998", "--translate", "1.2.2003")

    def test_learns(self):
        self.assertEqual(self.whole.returncode, 0, self.whole.stderr)
        self.assertIn("160 dates, 88398 parameters, global batch 16", self.whole.stdout)
        epochs = programs.numbers(EPOCH, self.whole)
        self.assertEqual([e[0] for e in epochs], [1, 2, 3])
        self.assertLess(epochs[-1][1], 0.9 * epochs[0][1])
        self.assertRegex(self.whole.stdout, RESULT)
        lines = self.whole.stdout.splitlines()
        self.assertEqual([line.partition(": ")[0] for line in lines
                          if line.startswith(("3 March", "1.2."))], ["3 March 1998", "1.2.2003"])
        data = self.picture.read_bytes()
        self.assertEqual(data[:8], b"\x89PNG\r\n\x1a\n")
        self.assertIn('%s: what the translation of "3 March 1998" attends to' % self.picture, lines)

    def test_resumes(self):
        """Stopped and started again, a training ends with the numbers of one that was never
        stopped."""
        command = [*self.train, "--checkpoint-dir", self.folder / "checkpoints"]
        programs.stop_at("Epoch 1,", command)
        resumed = programs.run(*command)
        self.assertEqual(resumed.returncode, 0, resumed.stderr)
        self.assertIn("Continuing in epoch", resumed.stdout)
        self.assertEqual(programs.numbers(EPOCH, resumed)[-1],
                         programs.numbers(EPOCH, self.whole)[-1])
        self.assertEqual(RESULT.search(resumed.stdout)[1], RESULT.search(self.whole.stdout)[1])

    def test_recurrent(self):
        done = programs.run(*self.train, "--network", "gru", "--epochs", "2")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("160 dates, 236879 parameters", done.stdout)
        (_, first, _), (_, last, _) = programs.numbers(EPOCH, done)
        self.assertLess(last, first)
        self.assertRegex(done.stdout, RESULT)

    def test_messages(self):
        """Catalogues of a language that does not exist: three messages of four words, and one for
        each number."""
        locale = self.folder / "locale"
        catalogues = locale / "xx" / "LC_MESSAGES"
        catalogues.mkdir(parents=True)
        pairs = [("Cannot open the file", "Ne peut ouvrir le fichier"),
                 ("Two\nlines", "Deux\nlignes")]
        pairs += [("%s file number %d" % (en, i), "%s du fichier %d" % (xx, i)) for i in range(1800)
                  for en, xx in (("Read", "Lecture"), ("Write", "Ecriture"), ("Copy", "Copie"))]
        (catalogues / "one.mo").write_bytes(catalogue(pairs[:4000]))
        (catalogues / "two.mo").write_bytes(catalogue(pairs[2000:]))
        (catalogues / "broken.mo").write_bytes(b"\0" * 40)
        command = [NMT, "--devices", "llvmpipe", "--locales", locale, "--pairs", "xx", "--limit",
                   "64", "--epochs", "1", "--translate", "Read file number 3"]
        done = programs.run(*command)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("broken.mo", done.stderr)
        self.assertIn("64 messages, ", done.stdout)
        self.assertRegex(done.stdout, r"Test: [\d.]+ % of 64 messages exact, BLEU [\d.]+")
        self.assertIn("Read file number 3: ", done.stdout)
        for arguments, text in ((("--pairs", "yy"), "yy: there are fewer than 5000 messages"),
                                (("--pairs", "x/x"), "'x/x'"),
                                (("--translate", ""), "'' is empty")):
            done = programs.run(*command, *arguments)
            self.assertGreater(done.returncode, 0, arguments)
            self.assertIn(text, done.stderr)
        none = self.folder / "none"
        (none / "fr" / "LC_MESSAGES").mkdir(parents=True)
        (none / "fr" / "LC_MESSAGES" / "broken.mo").write_bytes(b"\0" * 40)
        done = programs.run(NMT, "--devices", "llvmpipe", "--locales", none, "--limit", "64",
                            "--epochs", "1")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("64 dates, ", done.stdout)
        self.assertNotIn("broken.mo", done.stderr)

    def test_bad_input(self):
        for arguments, text in ((("--epochs", "0"), "'0'"), (("--network", "cnn"), "'cnn'"),
                                (("--beam", "65"), "'65'"),
                                (("--translate", "3 march 1998 + 2"), "+ 2"),
                                (("--picture", self.folder / "none" / "a.png"), "No such file"),
                                (("--limit", "x"), "'x'")):
            done = programs.run(*self.train, *arguments)
            self.assertGreater(done.returncode, 0, arguments)
            self.assertIn(text, done.stderr)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
