# SPDX-License-Identifier: Apache-2.0
"""The wheel: pip builds it by meson-python, and a Python that knows nothing of this tree trains
with it. Usage: test_wheel.py ROOT"""
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest
import zipfile

ROOT = pathlib.Path(sys.argv.pop())
TRAIN = """
import numpy as np
import ringfire as rf

print(rf.__file__)
print([line.split()[-1] for line in open('/proc/self/maps') if 'libringfire' in line][0])
x = np.random.default_rng(1).normal(size=(256, 8)).astype(np.float32)
y = (x.sum(1) > 0).astype(np.int32)
model = rf.keras.Sequential([rf.keras.layers.Dense(8, activation='relu'), rf.keras.layers.Dense(2)])
model.compile(optimizer=rf.keras.optimizers.Adam(0.02), metrics=['accuracy'],
              loss=rf.keras.losses.SparseCategoricalCrossentropy(from_logits=True))
data = rf.data.Dataset.from_tensor_slices((x, y)).batch(16)
print(model.fit(data, epochs=10, verbose=0).history['accuracy'][-1])
"""


def pip(*arguments):
    subprocess.run([sys.executable, "-m", "pip", *map(str, arguments)], check=True, timeout=3000,
                   stdout=subprocess.DEVNULL, env={**os.environ, "PYTHONPATH": ""})


class Wheel(unittest.TestCase):
    def test_all(self):
        try:
            import mesonpy  # noqa: F401
        except ImportError:
            self.skipTest("meson-python is not installed")
        with tempfile.TemporaryDirectory() as folder:
            target = pathlib.Path(folder) / "installed"
            pip("wheel", "--no-build-isolation", "--no-deps", "-w", folder, ROOT)
            wheel, = pathlib.Path(folder).glob("ringfire-*.whl")
            names = zipfile.ZipFile(wheel).namelist()
            for name in ("__init__.py", "_cdef.py", "_ops.py", "py.typed", "keras/__init__.py",
                         "libringfire.so.0"):
                self.assertTrue(any(n.endswith("ringfire/" + name) for n in names), names)
            pip("install", "--no-deps", "--target", target, wheel)
            environment = {k: v for k, v in os.environ.items()
                           if k not in ("LD_LIBRARY_PATH", "RINGFIRE_LIBRARY")}
            made = subprocess.run([sys.executable, "-c", TRAIN], cwd=folder, text=True, timeout=300,
                                  env={**environment, "PYTHONPATH": str(target)},
                                  capture_output=True)
            self.assertEqual(made.returncode, 0, made.stderr)
            package, library, accuracy = made.stdout.splitlines()
            self.assertEqual(package, str(target / "ringfire/__init__.py"))
            self.assertEqual(library, str(target / "ringfire/libringfire.so.0"))
            self.assertGreater(float(accuracy), 0.9)


if __name__ == "__main__":
    unittest.main(verbosity=2)
