# SPDX-License-Identifier: Apache-2.0
"""The custom loops of examples/python: the tutorials' output, from little data.

Usage: test_examples.py CUSTOM_LOOP ROOT"""
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(sys.argv.pop())
CUSTOM_LOOP = sys.argv.pop()
sys.path.insert(0, str(ROOT / "tests/support"))
import digits  # noqa: E402
from programs import free_port, numbers, run  # noqa: E402

EXAMPLES = ROOT / "examples/python"
NUMBER = r"(\d+\.\d+(?:e-\d+)?)"


class Examples(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        digits.write_both(self.folder, digits.patterns, 640, 100)  # whole batches
        self.options = ["--data", self.folder, "--checkpoints", self.folder / "checkpoints"]

    def test_custom_training(self):
        settings = ["--data", self.folder, "--epochs", 3, "--batch-size", 10, "--devices", "0,0"]
        done = run(sys.executable, EXAMPLES / "custom_training.py", *settings, "--checkpoints",
                   self.folder / "checkpoints")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("Number of devices: 2\n", done.stdout)
        epochs = numbers(r"(?m)^Epoch (\d+), Loss: %s, Accuracy: %s, Test Loss: %s, Test Accuracy: "
                         r"%s$" % ((NUMBER, ) * 4), done)
        self.assertEqual([e[0] for e in epochs], [1, 2, 3])
        self.assertLess(epochs[-1][1], epochs[0][1] / 2, done.stdout)
        # The C example trains the same network, in the same order, from the same values.
        of_c = numbers(r"(?m)^Epoch (\d+), Loss: %s, Accuracy: %s, Test Loss: %s, Test Accuracy: %s"
                       % ((NUMBER, ) * 4), run(CUSTOM_LOOP, *settings))
        self.assertEqual(len(of_c), 3)
        for ours, theirs in zip(epochs, of_c):
            for a, b in zip(ours, theirs):
                self.assertAlmostEqual(a, b, delta=0.02 + 0.01 * b)
        restored = re.findall("Accuracy after restoring the saved model without strategy: "
                              + NUMBER, done.stdout)
        self.assertEqual([float(r) for r in restored], [epochs[-1][4]])
        further = numbers(r"(?m)^Epoch (\d+), Loss: %s, Accuracy: %s$" % (NUMBER, NUMBER), done)
        self.assertEqual([f[0] for f in further], [3, 3, 3, 1, 2, 3])
        self.assertLess(further[-1][1], epochs[-1][1])

    def workers(self, *options):
        """Two workers as the tutorial starts them: what each has printed."""
        cluster = {"worker": ["127.0.0.1:%d" % free_port() for _ in range(2)]}
        started = []
        for index in range(2):
            config = {"cluster": cluster, "task": {"type": "worker", "index": index}}
            started.append(
                subprocess.Popen(
                    [sys.executable, EXAMPLES / "multi_worker_custom.py",
                     *map(str, self.options + list(options))],
                    env={**os.environ, "TF_CONFIG": json.dumps(config), "RINGFIRE_DEVICES": "0"},
                    stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True))
        self.addCleanup(lambda: [p.kill() for p in started if p.poll() is None])
        made = [p.communicate(timeout=240) for p in started]
        for process, (_, errors) in zip(started, made):
            self.assertEqual(process.returncode, 0, errors)
        return [out for out, _ in made]

    def test_multi_worker_custom(self):
        first, second = self.workers("--epochs", 2, "--steps", 5, "--batch-size", 20)
        self.assertEqual(first, second)
        pattern = r"^Epoch: (\d), accuracy: %s, train_loss: %s\.$" % (NUMBER, NUMBER)
        self.assertEqual(len(re.findall(pattern, first, re.M)), 2, first)
        self.assertEqual(sorted(p.name for p in (self.folder / "checkpoints").rglob("*.rfck")),
                         ["ckpt-1.rfck", "ckpt-2.rfck"])
        again, _ = self.workers("--epochs", 3, "--steps", 5, "--batch-size", 20)
        self.assertEqual([m[0] for m in re.findall(pattern, again, re.M)], ["2"])


if __name__ == "__main__":
    unittest.main(verbosity=2)
