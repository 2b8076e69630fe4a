# SPDX-License-Identifier: Apache-2.0
"""Holds GLSL, Python and Meson to 100 columns, as .clang-format does C, and comments of C and GLSL
to sentences: none begins with "What" or "Of", which leave out the subject.

Usage: check_prose.py ROOT"""
import pathlib
import re
import sys

COLUMNS = 100
GLSL = {".comp", ".glsl", ".frag", ".vert"}
FOLDERS = ("bindings", "docs", "examples", "include", "packaging", "shaders", "src", "tests",
           "tools", "transport")
COMMENT = re.compile(r"/\*.*?\*/|//[^\n]*(?:\n[ \t]*//[^\n]*)*", re.S)
STARTS = re.compile(r"(?:\A[*!\s]*|[.!?]\s+)(What|Of)\b")


def files(root):
    """Every file of the tree, and what it is written in."""
    yield root / "meson.build", "meson"
    yield root / "meson_options.txt", "meson"
    for path in sorted(p for f in FOLDERS for p in (root / f).rglob("*") if p.is_file()):
        if path.name == "meson.build":
            yield path, "meson"
        elif path.suffix in GLSL:
            yield path, "glsl"
        elif path.suffix in (".c", ".h", ".cpp", ".hpp"):
            yield path, "c"
        elif path.suffix == ".py" or not path.suffix and path.read_bytes()[:40].startswith(
                b"#!/usr/bin/env python3"):
            yield path, "python"


def long_lines(text):
    for number, line in enumerate(text.splitlines(), 1):
        if len(line) > COLUMNS:
            yield number, "%d columns, more than %d" % (len(line), COLUMNS)


def sentence_starts(text):
    """Where a sentence of a comment begins with one of the two words."""
    for comment in COMMENT.finditer(text):
        inside = re.sub(r"(?m)^[ \t]*(?://|\*(?!/))", lambda m: " " * len(m[0]), comment[0][2:])
        for start in STARTS.finditer(inside):
            line = text.count("\n", 0, comment.start() + 2 + start.start(1)) + 1
            yield line, 'a sentence begins with "%s"' % start[1]


def main():
    root = pathlib.Path(sys.argv[1])
    wrong, checked = [], 0
    for path, kind in files(root):
        name = str(path.relative_to(root))
        checked += 1
        text = path.read_text()
        found = [] if kind == "c" else list(long_lines(text))
        if kind in ("c", "glsl"):
            found += sentence_starts(text)
        wrong += ["%s:%d: %s" % (name, line, what) for line, what in sorted(found)]
    print("\n".join(wrong + ["%d files checked" % checked]))
    sys.exit(1 if wrong or checked < 500 else 0)


main()
