# SPDX-License-Identifier: Apache-2.0
"""Writes the linker's version script: of a library whose symbols are all visible it exports what the public headers
declare.

Usage: exports.py HEADERS SCRIPT DEPENDENCIES"""
import pathlib
import re
import sys


def declared(headers):
    """The functions that the headers of a folder declare as RF_API."""
    names = set()
    for header in headers:
        text = re.sub(r"/\*.*?\*/", "", header.read_text(), flags=re.S)
        names |= set(re.findall(r"RF_API\b[^;(]*?\b(rf_\w+)\s*\(", text))
    return names


def main():
    folder, script, dependencies = sys.argv[1:4]
    headers = sorted(pathlib.Path(folder).glob("*.h"))
    names = sorted(declared(headers))
    pathlib.Path(script).write_text(
        "{\n  global:\n%s  local:\n    *;\n};\n" % "".join("    %s;\n" % name for name in names))
    pathlib.Path(dependencies).write_text("%s: %s\n" % (script, " ".join(map(str, headers))))


if __name__ == "__main__":
    main()
