# SPDX-License-Identifier: Apache-2.0
"""The Keras programs of examples/python: what they print, and how well they learn.

Usage: test_keras_examples.py ROOT [whole]"""
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

WHOLE = sys.argv[-1] == "whole" and bool(sys.argv.pop())
ROOT = pathlib.Path(sys.argv.pop())
sys.path.insert(0, str(ROOT / "tests/support"))
from programs import free_port  # noqa: E402

LIMIT = [] if WHOLE else ["--limit", "2000"]
EPOCHS = 4 if WHOLE else 2


def start(name, *arguments, **environment):
    program = [sys.executable, str(ROOT / "examples/python" / name)]
    return subprocess.Popen([*program, *arguments, *LIMIT], env={**os.environ, **environment},
                            text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)


def epochs(text):
    """What stands behind the times in the lines of the epochs."""
    return re.findall(r"- (loss: .*) - \d+s/epoch", text)


@unittest.skipUnless(os.path.isdir("/usr/share/datasets/fashion-mnist"),
                     "dataset-fashion-mnist is not installed")
class Examples(unittest.TestCase):
    def finish(self, process):
        out, _ = process.communicate(timeout=900 if WHOLE else 100)
        self.assertEqual(process.returncode, 0, out)
        return out

    def test_fit(self):
        with tempfile.TemporaryDirectory() as folder:
            out = self.finish(start("keras_fit.py", "--epochs", str(EPOCHS), "--directory", folder))
            self.assertEqual(sorted(os.listdir(folder)),
                             ["logs", "my_model.keras", "training_checkpoints"])
        self.assertIn("Number of devices: ", out)
        self.assertEqual(len(epochs(out)), EPOCHS)
        self.assertIn("\n\nLearning rate for epoch 1 is 0.0010000000474974513\n", out)
        found = re.findall(r"^Eval loss: (\S+), Eval [aA]ccuracy: (\S+)$", out, re.M)
        self.assertEqual(len(found), 3)
        self.assertEqual(len(set(found)), 1, "a loaded model evaluates as the saved one did")
        self.assertGreater(float(found[0][1]), 0.895 if WHOLE else 0.65)

    def test_two_workers_train_as_one_does(self):
        cluster = {"worker": ["127.0.0.1:%d" % free_port() for _ in range(2)]}
        workers = [start("multi_worker_keras.py", "--epochs", str(EPOCHS), TF_CONFIG=json.dumps(
            {"cluster": cluster, "task": {"type": "worker", "index": i}})) for i in range(2)]
        chief, other = (self.finish(worker) for worker in workers)
        self.assertEqual(len(epochs(chief)), EPOCHS)
        self.assertEqual(epochs(other), [], "the chief prints for all")
        alone = epochs(self.finish(start("multi_worker_keras.py", "--epochs", str(EPOCHS))))
        for one, two in zip(epochs(chief), alone):
            for a, b in zip(re.findall(r"\d\.\d+", one), re.findall(r"\d\.\d+", two)):
                self.assertAlmostEqual(float(a), float(b), delta=0.02 if WHOLE else 2e-3)


if __name__ == "__main__":
    unittest.main(verbosity=2)
