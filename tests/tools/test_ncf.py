# SPDX-License-Identifier: Apache-2.0
"""The recommender as a user meets it: it learns planted ratings nearly as well as they can be
known, goes on from its checkpoints as if it had not stopped, computes the same on two workers,
reads files of ratings, and names bad input.

Usage: test_ncf.py NCF"""
import pathlib
import re
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
import programs  # noqa: E402

NCF = sys.argv[1]
EPOCH = r"Epoch (\d+)/\d+: loss: (\S+), accuracy: (\S+),"
RANKS = r"Epoch (\d+)/\d+: HR@10 (\S+), NDCG@10 (\S+)"
TEST = re.compile(r"Test: HR@10 (\S+), NDCG@10 (\S+)")


class Ncf(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.folder = pathlib.Path(folder.name)
        cls.train = [NCF, "--devices", "llvmpipe", "--batch-size", "200", "--users", "120",
                     "--items", "120", "--per-user", "12", "--epochs", "3"]
        cls.whole = programs.run(*cls.train)

    def test_learns(self):
        """The default: the published measure, next to that of the truth."""
        done = programs.run(NCF, "--devices", "llvmpipe")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("1000 users, 400 items, 40000 ratings (planted), 58761 parameters, global "
                      "batch 1000", done.stdout)
        self.assertGreater(float(re.search(r"reached: (\S+) %", done.stdout)[1]), 95)

    def test_resumes(self):
        """Stopped and started again, a training ends with the numbers of one that was never
        stopped."""
        self.assertEqual(self.whole.returncode, 0, self.whole.stderr)
        command = [*self.train, "--checkpoint-dir", self.folder / "checkpoints"]
        programs.stop_at("Epoch 1/3: HR", command)
        resumed = programs.run(*command)
        self.assertEqual(resumed.returncode, 0, resumed.stderr)
        for pattern in EPOCH, RANKS:
            self.assertEqual(programs.numbers(pattern, resumed)[-1],
                             programs.numbers(pattern, self.whole)[-1])
        self.assertEqual(TEST.search(resumed.stdout).groups(),
                         TEST.search(self.whole.stdout).groups())

    def test_files(self):
        """Users of one kind take even items, the others odd ones."""
        path = self.folder / "ratings.dat"
        path.write_text("".join("%d::%d::5::%d\n"
                                % (user + 100, 2 * ((user * 7 + 3 * k) % 100) + user % 2, k)
                                for user in range(60) for k in range(8)),
                        encoding="utf-8-sig")
        done = programs.run(NCF, "--devices", "llvmpipe", "--batch-size", "100", "--ratings", path,
                            "--epochs", "2")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(done.stdout, r"60 users, \d+ items, 420 ratings")
        self.assertRegex(done.stdout, TEST)
        self.assertNotIn("Planted", done.stdout)

    def test_bad_input(self):
        path = self.folder / "wrong.csv"
        path.write_text("user,item\n1,2\n1;x\n")
        for arguments, text in ((("--epochs", "0"), "'0'"), (("--learning-rate", "x"), "'x'"),
                                (("--per-user", "60"), "more than half of 120"),
                                (("--ratings", path), "wrong.csv, line 3: no item"),
                                (("--ratings", self.folder / "none"), "No such file")):
            done = programs.run(*self.train, *arguments)
            self.assertGreater(done.returncode, 0, arguments)
            self.assertIn(text, done.stderr)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
