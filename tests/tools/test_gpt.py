# SPDX-License-Identifier: Apache-2.0
"""The GPT example as a user meets it: it learns, saves when it is asked to stop, computes the same
on two workers, and names bad input.

Usage: test_gpt.py GPT"""
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
import programs  # noqa: E402

GPT = sys.argv[1]
ROOT = pathlib.Path(__file__).resolve().parents[2]
# One sentence many times: what follows each character is nearly always known, so that a few steps
# teach much.
SENTENCE = "the quick brown fox jumps over the lazy dog. "
RESTARTABLE = 75  # RF_EXIT_RESTARTABLE
REPORT = re.compile(r"Step (\d+): loss (\S+), validation (\S+), ")


def losses(done):
    return [(int(step), float(loss), float(validation)) for step, loss,
            validation in REPORT.findall(done.stdout)]


class Gpt(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.text = self.folder / "fox.txt"
        self.text.write_text(SENTENCE * 60)
        self.train = [GPT, "--text", self.text, "--batch-size", "4", "--devices", "llvmpipe"]

    def test_learns(self):
        done = programs.run(*self.train, "--steps", "60", "--sample", "8", "--prompt", "the quick")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("%d bytes of text, %d different ones"
                      % (len(SENTENCE) * 60, len(set(SENTENCE))), done.stdout)
        (step, loss, validation), = losses(done)
        self.assertEqual(step, 60)
        self.assertLess(validation, loss)
        self.assertLess(validation, 1.5)  # 3.3 when it begins
        self.assertRegex(done.stdout.rsplit("\nthe quick", 1)[1],
                         r"(?s)\A.{8}\n\([\d.]+ tokens/s\)\n\Z")

    def test_own_documentation(self):
        """Without a text it learns from all pages of the book, in whatever folder they lie."""
        pages = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")]
        done = programs.run(GPT, "--steps", "1", "--batch-size", "1", "--sample", "1", "--devices",
                            "llvmpipe")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("%d bytes of text" % sum(p.stat().st_size for p in pages), done.stdout)

    def test_folders(self):
        """Files below folders are read, but no hidden ones and nothing behind a link to a
        folder."""
        below = self.folder / "text/a/b"
        below.mkdir(parents=True)
        (self.folder / "text/.hidden").mkdir()
        for path in below / "c.md", below / "d.c", below / ".e.md", below / "../../.hidden/f.md":
            path.write_text(SENTENCE * 60)
        (below / "circle").symlink_to(self.folder / "text")
        done = programs.run(GPT, "--text", self.folder / "text", "--steps", "1", "--sample", "1",
                            "--devices", "llvmpipe")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("%d bytes of text" % (len(SENTENCE) * 60), done.stdout)

    def test_without_cache(self):
        """Keys and values that are kept, and a text that is read again for each token: the same is
        written, beyond what the model sees."""
        command = [*self.train, "--steps", "3", "--sample", "90", "--prompt", "the lazy", "--seed",
                   "5"]
        texts = []
        for arguments in ((), ("--no-cache",)):
            done = programs.run(*command, *arguments)
            self.assertEqual(done.returncode, 0, done.stderr)
            texts.append(done.stdout.rsplit("\nthe lazy", 1)[1].rpartition("\n(")[0])
        self.assertEqual(*texts)
        self.assertEqual(len(texts[0]), 90)

    def test_byte_pairs(self):
        """The tokens are learned once; who goes on reads them, also where the text is another one
        by then."""
        pairs = self.folder / "pairs.json"
        command = [*self.train, "--byte-pairs", pairs, "--vocabulary", "280", "--steps", "3",
                   "--sample", "2", "--prompt", "the lazy"]
        done = programs.run(*command, errors="replace")  # after so few steps any bytes are written
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(done.stdout, r"%d bytes of text, \d+ byte pairs, 280 different ones"
                         % (len(SENTENCE) * 60))
        self.assertIn("\nthe lazy", done.stdout)
        learned = pairs.read_bytes()
        self.text.write_text(SENTENCE.upper() * 60)
        done = programs.run(*command, errors="replace")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("280 different ones", done.stdout)
        self.assertEqual(pairs.read_bytes(), learned)
        pairs.write_bytes(learned[:-2])
        done = programs.run(*command, errors="replace")
        self.assertGreater(done.returncode, 0)
        self.assertIn("pairs.json", done.stderr)

    def test_stopped(self):
        """A request to stop saves what the same command goes on from."""
        folder = self.folder / "checkpoints"
        command = [*self.train, "--batch-size", "1", "--steps", "5000", "--sample", "1",
                   "--checkpoint-dir", folder]
        with subprocess.Popen([str(c) for c in command], stdout=subprocess.PIPE,
                              text=True) as running:
            for line in running.stdout:
                # before the first step there would be nothing to save
                if line.startswith("Step 250"):
                    break
            running.send_signal(signal.SIGTERM)
            rest = running.stdout.read()
            self.assertEqual(running.wait(120), RESTARTABLE)
        self.assertIn("Stopped on request", rest)
        self.assertTrue(list(folder.glob("backup-*.rfck")))

    def test_bad_input(self):
        empty = self.folder / "empty.txt"
        empty.touch()
        for arguments, texts in (((GPT, "--text", self.folder / "none"), ("none", "No such file")),
                                 ((GPT, "--text", empty), ("empty.txt", "no text")),
                                 ((*self.train, "--full", "--text", empty),
                                  ("windows of 256 tokens",)),
                                 ((GPT, "--steps", "0"), ("'0'",)),
                                 ((GPT, "--vocabulary", "255"), ("'255'",)),
                                 ((GPT, "--temperature", "-1"), ("temperature",))):
            self.text.write_text(SENTENCE)
            done = programs.run(*arguments)
            self.assertGreater(done.returncode, 0, arguments)
            for text in texts:
                self.assertIn(text, done.stderr)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
