# SPDX-License-Identifier: Apache-2.0
"""fit from Python gives the numbers that a trainer in C prints, from the same data and seeds.

Usage: test_keras_same.py ROOT FIT_CALLBACKS"""
import pathlib
import sys
import tempfile
import unittest

import ringfire as rf
from ringfire import keras

TRAINER = sys.argv.pop()
ROOT = pathlib.Path(sys.argv.pop())
sys.path.insert(0, str(ROOT / "tests/support"))
import digits  # noqa: E402
from programs import run  # noqa: E402

SEED, EPOCHS = 1, 3


def images(folder, split):
    data = rf.datasets.mnist.dataset(split, folder).map_scale().cache()
    return (data.shuffle(len(data), seed=SEED) if split == "train" else data).batch(64)


class Same(unittest.TestCase):
    def test_numbers(self):
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            digits.write_both(folder, digits.patterns, 600, 100)
            done = run(TRAINER, "--data", folder, "--epochs", EPOCHS, "--devices", "0")
            self.assertEqual(done.returncode, 0, done.stderr)
            strategy = rf.MirroredStrategy(["0"])
            strategy.set_seed(SEED)
            with strategy.scope():
                model = keras.Sequential([
                    keras.layers.Conv2D(32, 3, activation="relu"), keras.layers.MaxPooling2D(),
                    keras.layers.Flatten(), keras.layers.Dense(64, activation="relu"),
                    keras.layers.Dense(10)])
                model.compile(
                    keras.optimizers.Adam(), keras.losses.SparseCategoricalCrossentropy(
                        from_logits=True), ["accuracy"], steps_per_execution=20)
            history = model.fit(images(folder, "train"), epochs=EPOCHS, verbose=0,
                                validation_data=images(folder, "test")).history
        for i in range(EPOCHS):
            values = ", ".join("%s: %.4g" % (k, v[i]) for k, v in history.items())
            self.assertIn("Epoch %d/%d: %s\n" % (i + 1, EPOCHS, values), done.stdout)


if __name__ == "__main__":
    unittest.main(verbosity=2)
