# SPDX-License-Identifier: Apache-2.0
"""What a newer version of a dependency deprecates is a warning even where warnings are errors;
other warnings are errors there.

Usage: check_deprecations.py BUILD_ROOT COMPILER...: compiles small sources with the flags of the
build's own C files"""
import json
import pathlib
import shlex
import subprocess
import sys
import tempfile
import unittest

BUILD = pathlib.Path(sys.argv[1])
COMPILER = sys.argv[2:]
CALL = ("__attribute__((deprecated)) void old(void);\nvoid new(void);\nvoid new(void)\n{\n    "
        "old();\n}\n")
WRONG = "void new(void);\nvoid new(void)\n{\n    int nothing;\n}\n"


def flags():
    """Those of a C file of the tests, without the compiler, the file and what is written."""
    for entry in json.loads((BUILD / "compile_commands.json").read_text()):
        if entry["file"].endswith("tests/project/skips.c"):
            words = shlex.split(entry["command"])
            first = next(i for i, word in enumerate(words) if word.startswith("-"))
            return words[first:next(i for i, word in enumerate(words) if word in ("-MD", "-o"))]
    raise AssertionError("no command for skips.c")


class Deprecations(unittest.TestCase):
    def compile(self, text):
        with tempfile.TemporaryDirectory() as folder:
            source = pathlib.Path(folder, "source.c")
            source.write_text(text)
            return subprocess.run([*COMPILER, "-Werror", *flags(), "-c", source, "-o",
                                   source.with_suffix(".o")], cwd=BUILD,
                                  stderr=subprocess.PIPE, text=True)

    def test_warnings_only(self):
        done = self.compile(CALL)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("deprecated", done.stderr)

    def test_others_are_errors(self):
        self.assertNotEqual(self.compile(WRONG).returncode, 0)


unittest.main(argv=sys.argv[:1])
