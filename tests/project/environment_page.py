# SPDX-License-Identifier: Apache-2.0
"""Holds docs/reference/environment.md to the table of src/base/environment.c, and that to its
readers.

Usage: environment_page.py ROOT [--write]"""
import pathlib
import re
import sys

HEAD = """# Environment variables

Ringfire reads these variables and no others; an empty one counts as unset.
`tests/project/environment_page.py . --write` writes this page from `src/base/environment.c`.

The variables of launchers, Vulkan's loader and the system are theirs: Ringfire only reads them.
"""
# Headings and the words that begin the meaning of a variable below it.
SECTIONS = (
    ("Ringfire", ""),
    ("torchrun", "torchrun: "),
    ("Open MPI", "Open MPI: "),
    ("Slurm", "Slurm: "),
    ("PMIx", "PMIx: "),
    ("Vulkan's loader", "Vulkan's loader: "),
    ("Mesa", "Mesa: "),
    ("Aids of the tests", "Test aid: "),
)
STRING = r'"((?:[^"\\]|\\.)*)"'
ROW = re.compile(r'\{ "(\w+)", "([^"]*)",\s*((?:%s\s*)+)\}' % STRING)


def entries(text):
    for name, value, parts, _ in ROW.findall(text):
        yield name, value, "".join(re.findall(STRING, parts)).replace(r'\"', '"')


def page(rows):
    sections = {heading: [] for heading, _ in SECTIONS}
    for name, value, meaning in rows:
        heading, start = next((s for s in SECTIONS[1:] if meaning.startswith(s[1])), SECTIONS[0])
        sections[heading].append("| `%s` | %s | %s |\n" %
                                 (name, value, meaning.removeprefix(start)))
    return HEAD + "".join("\n## %s\n\n| variable | value | meaning |\n|---|---|---|\n%s" %
                          (heading, "".join(lines)) for heading, lines in sections.items())


def main():
    root = pathlib.Path(sys.argv[1])
    table = root / "src/base/environment.c"
    written = root / "docs/reference/environment.md"
    rows = list(entries(table.read_text()))
    if "--write" in sys.argv:
        written.write_text(page(rows))
    sources = "".join(
        p.read_text() for folder, kind in (("src", "*.[ch]"), ("transport", "*.[ch]"),
                                           ("examples", "*.[ch]"), ("tools", "*.[ch]"),
                                           ("bindings", "*.py"))
        for p in sorted((root / folder).rglob(kind)) if p != table)
    names = {name for name, _, _ in rows}
    wrong = ["%s is read by rf_env(), but is not in %s" % (name, table.name)
             for name in sorted(set(re.findall(r'\brf_env\("(\w+)"\)', sources)) - names)]
    wrong += ["%s is in %s, but nothing reads it" % (name, table.name)
              for name in sorted(names) if '"%s"' % name not in sources]
    if not written.exists() or written.read_text() != page(rows):
        wrong.append("docs/reference/environment.md is not what %s says: %s %s --write" %
                     (table.name, sys.argv[0], root))
    print("\n".join(wrong + ["%d variables" % len(rows)]))
    sys.exit(1 if wrong or len(rows) < 40 else 0)


main()
