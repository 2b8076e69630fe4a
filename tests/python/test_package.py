# SPDX-License-Identifier: Apache-2.0
"""The Python package as a whole: it knows the library's results and functions, says where it found
the library, and its types are those that mypy finds.

Usage: test_package.py ROOT FOLDER"""
import ast
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

import ringfire as rf
from ringfire import _lib

FOLDER = pathlib.Path(sys.argv.pop())
ROOT = pathlib.Path(sys.argv.pop())
HEADERS = "".join(p.read_text() for p in sorted((ROOT / "include/ringfire").glob("*.h")))


def python(code, **environment):
    return subprocess.run([sys.executable, "-c", code], env={**os.environ, **environment},
                          timeout=60, capture_output=True, text=True)


class Package(unittest.TestCase):
    def test_each_failure_has_an_exception(self):
        codes = set(re.findall(r"^    (RF_ERROR_\w+) = -", HEADERS, re.M))
        kinds = [k for k in _lib.Error.__subclasses__() if k is not _lib.TraceError]
        self.assertEqual(codes, {k.code for k in kinds})
        self.assertEqual(len(kinds), len(codes))
        for kind in kinds:
            self.assertIs(getattr(rf, kind.__name__), kind)

    def test_each_function_is_there(self):
        for name in re.findall(r"^RF_API[^;{}]*?\b(rf_\w+)\(", HEADERS, re.M):
            getattr(_lib.lib, name)

    def test_messages(self):
        with self.assertRaises(rf.FileError) as caught:
            rf.train.Checkpoint(v=rf.Variable([1.0])).write("/proc/none.rfck")
        self.assertIsInstance(caught.exception, OSError)
        self.assertIn("/proc/none.rfck", str(caught.exception))

    def test_callbacks_of_other_threads(self):
        """What one raises comes out of the call that C cancels."""
        _lib.raised[-1] = ValueError("of a thread")
        with self.assertRaisesRegex(ValueError, "of a thread"):
            _lib.check(_lib.lib.RF_ERROR_CANCELLED)

    def test_a_prefix_of_its_own_is_below_no_other(self):
        """/usr/local lies below /usr, and packages for /usr are not installed there."""
        made = subprocess.run(
            [sys.executable, ROOT / "bindings/python/folder.py", "/usr", "/usr/nowhere"],
            stdout=subprocess.PIPE, text=True, check=True, timeout=60)
        self.assertRegex(made.stdout, r"^/usr/(?!local/)")

    def test_a_library_that_is_not_there(self):
        made = python("import ringfire", RINGFIRE_LIBRARY="/nowhere/libringfire.so.0")
        self.assertNotEqual(made.returncode, 0)
        self.assertIn("ImportError: ringfire's shared library cannot be loaded (", made.stderr)
        self.assertIn("/nowhere/libringfire.so.0", made.stderr)

    def test_a_library_beside_the_package(self):
        library = os.environ["RINGFIRE_LIBRARY"]
        with tempfile.TemporaryDirectory() as folder:
            copy = pathlib.Path(folder) / "ringfire"
            shutil.copytree(FOLDER, copy)
            shutil.copy(library, copy / "libringfire.so.0")
            made = python(
                "import ringfire; print(open('/proc/self/maps').read())", RINGFIRE_LIBRARY="",
                PYTHONPATH=folder)
            self.assertEqual(made.returncode, 0, made.stderr)
            self.assertIn(str(copy / "libringfire.so.0"), made.stdout)

    def test_an_installed_library(self):
        folder = os.path.dirname(os.environ["RINGFIRE_LIBRARY"])
        made = python("import ringfire; print(open('/proc/self/maps').read())",
                      RINGFIRE_LIBRARY="", LD_LIBRARY_PATH=folder)
        self.assertEqual(made.returncode, 0, made.stderr)
        self.assertIn(folder + "/libringfire.so.", made.stdout)

    def test_objects_that_are_left_at_the_end(self):
        made = python("""
import ringfire as rf
strategy = rf.MirroredStrategy([rf.config.list_physical_devices()[0]])
with strategy.scope():
    keep = [rf.Variable([1.0]), rf.train.Checkpoint(v=rf.Variable([2.0]))]
cycle = [keep]
cycle.append(cycle)
""")
        self.assertEqual((made.returncode, made.stdout, made.stderr), (0, "", ""))

    def test_the_guide(self):
        """Its blocks are one program."""
        guide = (ROOT / "docs/guides/python.md").read_text()
        blocks = re.findall(r"^```python\n(.*?)^```", guide, re.S | re.M)
        self.assertGreater(len(blocks), 4)
        with tempfile.TemporaryDirectory() as folder:
            program = pathlib.Path(folder) / "guide.py"
            program.write_text("\n\n".join(blocks))
            made = subprocess.run([sys.executable, str(program)], cwd=folder, timeout=60,
                                  capture_output=True, text=True)
        self.assertEqual(made.returncode, 0, made.stderr)
        accuracy, loss, refusal, largest = made.stdout.splitlines()
        self.assertGreater(float(accuracy), 0.8)
        self.assertLess(float(loss), 0.6)
        self.assertRegex(refusal, r"^guide.py:\d+: a condition needs a number")
        self.assertRegex(largest, r"^\[0\.\d+ 0\.\d+\]$")

    def test_names_on_pages(self):
        """The book names nothing that the package does not have."""
        names = {name for page in (ROOT / "docs").rglob("*.md")
                 for code in re.findall(r"`[^`\n]+`|(?s:```python\n.*?```)", page.read_text())
                 for name in re.findall(r"(?<![\w.:])rf\.[A-Za-z_][\w.]*\w", code)}
        self.assertGreater(len(names), 30)
        for name in sorted(names):
            with self.subTest(name):
                found = rf
                for part in name.split(".")[1:]:
                    found = getattr(found, part)

    def test_syntax(self):
        """That of Python 3.9; mypy knows its library."""
        least = re.search(r'^requires-python = ">=3.(\d+)"$', (ROOT / "pyproject.toml").read_text(),
                          re.M)[1]
        sources = [*(ROOT / "bindings/python").rglob("*.py"), *(ROOT / "examples").rglob("*.py")]
        self.assertGreater(len(sources), 40)
        for source in sources:
            with self.subTest(source.name):
                ast.parse(source.read_text(), source.name, feature_version=(3, int(least)))

    def test_types(self):
        mypy = shutil.which("mypy")
        if mypy is None:
            self.skipTest("mypy is not installed")
        made = subprocess.run(
            [mypy, "--config-file", str(ROOT / "pyproject.toml"), "--cache-dir",
             str(FOLDER.parent / "mypy"), str(FOLDER)], capture_output=True, text=True)
        self.assertEqual(made.returncode, 0, made.stdout)

    def test_version(self):
        project = (ROOT / "pyproject.toml").read_text()
        self.assertEqual(re.search(r'^version = "(.*)"$', project, re.M)[1], rf.__version__)


if __name__ == "__main__":
    unittest.main(verbosity=2)
