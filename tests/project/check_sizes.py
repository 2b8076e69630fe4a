# SPDX-License-Identifier: Apache-2.0
"""Fails on source files that have outgrown one sitting. Usage: check_sizes.py ROOT"""
import pathlib
import sys

LIMIT = 800
root = pathlib.Path(sys.argv[1])
wrong = 0
for folder in ("include", "src", "transport", "shaders", "tools", "examples", "tests", "bindings"):
    for path in (root / folder).rglob("*"):
        if path.suffix in (".c", ".h", ".cpp", ".hpp", ".comp", ".glsl", ".py"):
            lines = len(path.read_text().splitlines())
            if lines > LIMIT:
                wrong += 1
                print("%s: %d lines" % (path.relative_to(root), lines))
sys.exit(1 if wrong else 0)
