# SPDX-License-Identifier: Apache-2.0
"""Compares the walk through a training step in docs/internals/step.md with the sources: every row
of its tables names a file that defines its function, and every other function that a row
mentions is defined somewhere. Usage: check_walk.py ROOT"""
import pathlib
import re
import sys

LEAST_ROWS = 30


def defines(text, function):
    """Whether a C file defines the function: its name begins a definition that has a body, on lines
    of its own."""
    return re.search(r"^[A-Za-z_][^;{}()=]*\b%s\([^;{}]*\)\n\{" % re.escape(function), text,
                     re.M) is not None


def main():
    root = pathlib.Path(sys.argv[1])
    page = (root / "docs/internals/step.md").read_text()
    walk = page[page.index("## One step, function by function"):]
    sources = {p: p.read_text() for folder in ("src", "transport")
               for p in sorted((root / folder).rglob("*.c"))}
    rows = re.findall(r"^\| [. ]*`(\w+)\(\)` \| `([\w./]+)` \| (.*) \|$", walk, re.M)
    wrong = []
    for function, name, what in rows:
        path = root / name
        if path not in sources:
            wrong.append("%s: there is no such file" % name)
        elif not defines(sources[path], function):
            wrong.append("%s does not define %s()" % (name, function))
        for other in re.findall(r"`(\w+)\(\)`", what):
            if not any(defines(text, other) for text in sources.values()):
                wrong.append("%s() is mentioned beside %s(), but nothing defines it"
                             % (other, function))
    print("\n".join(wrong + ["%d rows" % len(rows)]))
    sys.exit(1 if wrong or len(rows) < LEAST_ROWS
             or len(rows) != len(re.findall(r"^\| [. ]*`\w+\(\)` \|", walk, re.M)) else 0)


main()
