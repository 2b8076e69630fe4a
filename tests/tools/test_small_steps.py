# SPDX-License-Identifier: Apache-2.0
"""A step that is too small for the threads of lavapipe: the library says so once.

Usage: test_small_steps.py LINEAR_MODEL CUSTOM_LOOP"""
import pathlib
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
import digits  # noqa: E402
import programs  # noqa: E402

SMALL, LARGE = sys.argv[1:3]
ADVICE = "set LP_NUM_THREADS=0, unless"


class SmallSteps(unittest.TestCase):

    def advice(self, *command, **env):
        done = programs.run(*command, env={"RINGFIRE_LOG": "info", "LP_NUM_THREADS": "16", **env})
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stderr.count(ADVICE)

    def test_small(self):
        small = (SMALL, "--devices", "llvmpipe", "--batch-size", "4")
        self.assertEqual(self.advice(*small), 1)
        self.assertEqual(self.advice(*small, LP_NUM_THREADS="0"), 0)
        self.assertEqual(self.advice(*small, RINGFIRE_LOG="warn"), 0)

    def test_large(self):
        with tempfile.TemporaryDirectory() as folder:
            digits.write_both(pathlib.Path(folder), digits.shades, 128, 64)
            self.assertEqual(self.advice(LARGE, "--data", folder, "--devices", "llvmpipe",
                                         "--epochs", "1", "--batch-size", "64"), 0)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
