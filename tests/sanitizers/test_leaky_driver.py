# SPDX-License-Identifier: Apache-2.0
"""A driver that keeps memory and is unloaded before leaks are looked for fails no test, under the
environment that all tests of a build with AddressSanitizer have. Without the preloaded library that
keeps drivers loaded, and for libraries that are no drivers, it does.

Usage: test_leaky_driver.py OPEN_DRIVERS DRIVER"""
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

PROGRAM, DRIVER = map(os.path.abspath, sys.argv[1:3])
del sys.argv[1:]
LEAK = "128 byte(s)"


class LeakyDriver(unittest.TestCase):
    def setUp(self):
        holder = tempfile.TemporaryDirectory()
        self.addCleanup(holder.cleanup)
        self.folder = pathlib.Path(holder.name)

    def open_driver(self, library, **changes):
        """Opens and closes the driver; a variable that changes to None is left out."""
        manifest = self.folder / "leaky_icd.json"
        manifest.write_text(json.dumps({"file_format_version": "1.0.0",
                                        "ICD": {"library_path": str(library),
                                                "api_version": "1.3.0"}}))
        env = {**os.environ, "VK_DRIVER_FILES": str(manifest), "VK_ICD_FILENAMES": str(manifest),
               **changes}
        done = subprocess.run([PROGRAM], env={k: v for k, v in env.items() if v is not None},
                              stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, text=True, timeout=50)
        self.assertIn("no Vulkan driver offers a device", done.stdout, done.stderr)
        return done

    def test_kept_loaded(self):
        done = self.open_driver(DRIVER)
        self.assertEqual((done.returncode, done.stderr), (0, ""))

    def test_unloaded(self):
        done = self.open_driver(DRIVER, LD_PRELOAD=None)
        self.assertNotEqual(done.returncode, 0)
        self.assertIn(LEAK, done.stderr)
        self.assertIn("<unknown module>", done.stderr)

    def test_other_names_are_not_suppressed(self):
        library = shutil.copy(DRIVER, self.folder / "libother.so")
        done = self.open_driver(library)
        self.assertNotEqual(done.returncode, 0)
        self.assertIn(LEAK, done.stderr)
        self.assertIn(" in on_load ", done.stderr)


unittest.main()
