# SPDX-License-Identifier: Apache-2.0
"""The wheel: pip builds it by meson-python, and a virtual environment that knows nothing of this
tree trains with it, on two devices and in two workers that its command starts. NumPy and cffi are
the distribution's.
Usage: test_wheel.py ROOT"""
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest
import zipfile

ROOT = pathlib.Path(sys.argv.pop())

TRAIN = """
import os

import numpy as np
import ringfire as rf

print(rf.__file__)
print([line.split()[-1] for line in open('/proc/self/maps') if 'libringfire' in line][0])
x = np.random.default_rng(1).normal(size=(256, 8)).astype(np.float32)
y = (x.sum(1) > 0).astype(np.int32)
if 'RINGFIRE_RANK' in os.environ:
    strategy = rf.MultiWorkerMirroredStrategy(devices='0')
else:
    strategy = rf.MirroredStrategy(['0', '0'])
with strategy.scope():
    model = rf.keras.Sequential([rf.keras.layers.Dense(8, activation='relu'),
                                 rf.keras.layers.Dense(2)])
    model.compile(optimizer=rf.keras.optimizers.Adam(0.02), metrics=['accuracy'],
                  loss=rf.keras.losses.SparseCategoricalCrossentropy(from_logits=True))
data = rf.data.Dataset.from_tensor_slices((x, y)).batch(16)
print(strategy.num_replicas_in_sync)
print(model.fit(data, epochs=10, verbose=0).history['accuracy'][-1])
"""


def pip(python, *arguments):
    subprocess.run([python, "-m", "pip", *map(str, arguments)], check=True, timeout=3000,
                   stdout=subprocess.DEVNULL, env={**os.environ, "PYTHONPATH": ""})


class Wheel(unittest.TestCase):
    def train(self, target, *start):
        """What workers say that are started with these words, by rank."""
        environment = {k: v for k, v in os.environ.items()
                       if k not in ("LD_LIBRARY_PATH", "RINGFIRE_LIBRARY", "PYTHONPATH")}
        made = subprocess.run([*start, target / "bin/python3", "-c", TRAIN], cwd=target,
                              env=environment, text=True, capture_output=True, timeout=300)
        self.assertEqual(made.returncode, 0, made.stderr)
        said = {}
        for line in made.stdout.splitlines():
            rank, rest = re.match(r"(?:\[(\d+)\] )?(.*)", line).groups()
            said.setdefault(rank, []).append(rest)
        for package, library, number, accuracy in said.values():
            self.assertTrue(package.startswith(str(target)), package)
            self.assertEqual(library, str(pathlib.Path(package).with_name("libringfire.so.0")))
            self.assertEqual(int(number), 2)
            self.assertGreater(float(accuracy), 0.9)
        return sorted(said, key=str)

    def test_all(self):
        try:
            import mesonpy  # noqa: F401
            import venv
        except ImportError as missing:
            self.skipTest("not installed: %s" % missing.name)
        with tempfile.TemporaryDirectory() as folder:
            target = pathlib.Path(folder).resolve() / "environment"
            python = target / "bin/python3"
            pip(sys.executable, "wheel", "--no-build-isolation", "--no-deps", "-w", folder, ROOT)
            wheel, = pathlib.Path(folder).glob("ringfire-*.whl")
            self.assertRegex(wheel.name, r"-linux_\w+\.whl$")
            names = zipfile.ZipFile(wheel).namelist()
            self.assertEqual(sum("libringfire.so" in n for n in names), 1, names)
            for name in ("__init__.py", "_cdef.py", "_ops.py", "py.typed", "keras/__init__.py",
                         "libringfire.so.0", "_command.py", "bin/ringfire"):
                self.assertTrue(any(n.endswith("ringfire/" + name) for n in names), names)
            venv.create(target, system_site_packages=True, with_pip=True)
            pip(python, "install", "--no-deps", wheel)
            self.assertEqual(self.train(target), [None])
            self.assertEqual(self.train(target, target / "bin/ringfire", "run", "-n", "2"),
                             ["0", "1"])


if __name__ == "__main__":
    unittest.main(verbosity=2)
