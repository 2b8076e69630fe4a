# SPDX-License-Identifier: Apache-2.0
"""Checkpoints of the Python package, and those that it shares with C.

Usage: test_checkpoints.py CHECKPOINT"""
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

import numpy as np
import ringfire as rf
from ringfire._tape import Optimizer

CHECKPOINT = sys.argv.pop(1)
X = np.float32([[1, 2]])


class Training:
    """What tests/python/checkpoint.c does."""

    def __init__(self):
        self.weight = rf.Variable([0.5, -1.0], name="weight")
        self.optimizer = Optimizer("adam", learning_rate=0.1)
        self.checkpoint = rf.train.Checkpoint(weight=self.weight, optimizer=self.optimizer)

    def train(self, updates):
        def step(x):
            loss = rf.nn.compute_average_loss(rf.reduce_mean(rf.square(x - x * self.weight), 1))
            self.optimizer.minimize(loss, [self.weight])

        for _ in range(updates):
            rf.distribute.get_strategy().run(step, (X, ))
        return self

    def state(self):
        return [float(v) for v in self.weight.numpy()] + [int(self.optimizer.iterations)]


class Checkpoints(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def c(self, what, path, updates):
        made = subprocess.run([CHECKPOINT, what, str(path), str(updates)], timeout=60, check=True,
                              capture_output=True, text=True)
        a, b, n = made.stdout.split()
        return [float.fromhex(a), float.fromhex(b), int(n)]

    def test_python_continues_what_c_saved(self):
        path = self.folder / "of-c.rfck"
        saved = self.c("save", path, 3)
        continued = Training()
        continued.checkpoint.restore(path).assert_consumed()
        self.assertEqual(continued.state(), saved)
        self.assertEqual(continued.train(2).state(), self.c("restore", path, 2))

    def test_c_continues_what_python_saved(self):
        training = Training().train(3)
        path = training.checkpoint.write(self.folder / "of-python")
        self.assertEqual(os.path.basename(path), "of-python.rfck")
        restored = self.c("restore", path, 2)
        # Two languages trace graphs that differ, and so may the last bit.
        np.testing.assert_allclose(training.train(2).state(), restored, rtol=1e-6)

    def test_numbers_of_files(self):
        training = Training()
        prefix = self.folder / "deep" / "ckpt"
        self.assertIsNone(rf.train.latest_checkpoint(self.folder))
        paths = [training.train(1).checkpoint.save(prefix) for _ in range(2)]
        self.assertEqual([os.path.basename(p) for p in paths], ["ckpt-1.rfck", "ckpt-2.rfck"])
        latest = rf.train.latest_checkpoint(prefix.parent)
        self.assertEqual(latest, paths[1])
        other = Training()
        other.checkpoint.restore(latest)
        self.assertEqual(other.state(), training.state())
        self.assertEqual(os.path.basename(other.checkpoint.save(prefix)), "ckpt-3.rfck")

    def test_whole_numbers(self):
        epoch = rf.Variable(3, name="epoch")
        epoch.assign_add(2)
        path = rf.train.Checkpoint(epoch=epoch).save(self.folder / "ckpt")
        restored = rf.Variable(rf.constant(0, dtype=rf.int64))
        rf.train.Checkpoint(epoch=restored).restore(path).assert_consumed()
        self.assertEqual(int(restored), 5)
        self.assertEqual(list(range(restored)), [0, 1, 2, 3, 4])
        self.assertEqual("{} {}".format(restored, restored + 1), "5 6")
        with self.assertRaisesRegex(rf.InvalidArgumentError, "from 0 on, not -1"):
            restored.assign_sub(6)

    def test_what_does_not_fit(self):
        path = Training().checkpoint.save(self.folder / "ckpt")
        other = rf.train.Checkpoint(weight=rf.Variable([1.0, 2.0, 3.0]))
        status = other.restore(path)
        status.expect_partial()
        with self.assertRaisesRegex(rf.InvalidArgumentError, "not all was restored:\n.*weight"):
            status.assert_consumed()
        with self.assertRaisesRegex(rf.NotFoundError, "no checkpoint '.*missing.rfck'"):
            other.restore(self.folder / "missing")
        (self.folder / "damaged.rfck").write_bytes(b"no checkpoint")
        with self.assertRaisesRegex(rf.CorruptDataError, "damaged.rfck"):
            other.restore(self.folder / "damaged")
        with self.assertRaisesRegex(rf.InvalidArgumentError, "cannot hold rate=0.1"):
            rf.train.Checkpoint(rate=0.1)
        with self.assertRaisesRegex(rf.InvalidArgumentError, "of no objects"):
            rf.train.Checkpoint()
        self.assertEqual(other.restore(None).report, "")

    def test_a_manager_keeps_the_newest(self):
        training = Training()
        manager = rf.train.CheckpointManager(training.checkpoint, self.folder, max_to_keep=2)
        self.assertIsNone(manager.restore_or_initialize())
        for _ in range(3):
            training.train(1)
            saved = manager.save()
        self.assertEqual(manager.latest_checkpoint, saved)
        self.assertEqual(sorted(p.name for p in self.folder.glob("*.rfck")),
                         ["ckpt-2.rfck", "ckpt-3.rfck"])
        manager.close()
        other = Training()
        again = rf.train.CheckpointManager(
            other.checkpoint, self.folder,
            options=rf.train.CheckpointOptions(asynchronous=True, level=3))
        self.assertEqual(again.restore_or_initialize(), saved)
        self.assertEqual(other.state(), training.state())
        self.assertEqual(os.path.basename(again.save()), "ckpt-4.rfck")
        other.checkpoint.wait()
        self.assertEqual(os.path.basename(again.latest_checkpoint), "ckpt-4.rfck")

    def test_what_is_not_built_yet_is_restored_when_it_is(self):
        path = rf.train.Checkpoint(late=rf.Variable([7.0, 8.0])).save(self.folder / "ckpt")

        class Late:
            """As a model: its variable comes with the first call."""
            built, strategy = False, rf.distribute.get_strategy()
            variable = rf.Variable([0.0, 0.0])

            def _add_to(self, checkpoint, name):
                self.variable._add_to(checkpoint, name)

            def __call__(self, x):
                self.built = True
                return x * self.variable

        late = Late()
        status = rf.train.Checkpoint(late=late).restore(path)
        with self.assertRaisesRegex(rf.InvalidArgumentError, "has not been built"):
            status.assert_consumed()
        np.testing.assert_array_equal(late.variable.numpy(), [0, 0])
        made = rf.function(lambda x: late(x))(X)
        np.testing.assert_array_equal(made.numpy(), [[7, 16]])
        status.assert_consumed()


if __name__ == "__main__":
    unittest.main(verbosity=2)
