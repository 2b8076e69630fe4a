# SPDX-License-Identifier: Apache-2.0
"""Fails where numbers become text, or text numbers, by the locale of the program, which may have
another decimal point. src/base/numbers.h has functions that do not. Programs (tools, examples)
print as C does: none of them sets a locale. Usage: check_numbers.py ROOT"""
import pathlib
import re
import sys

READS = re.compile(r"\b(strtod|strtof|strtold|atof|wcstod)\(")
SETS = re.compile(r"\b(setlocale|newlocale|uselocale)\(")
JSON = re.compile(r"\bjson_(?:load|dump)\w*\(")
PRINTS = re.compile(r"\b((?:f|d|s|sn|as)printf)\(")
LISTS = re.compile(r"\b(v(?:f|d|s|sn|as)printf)\(")
SCANS = re.compile(r"\b(\w*scanf)\(")
FLOAT = re.compile(r"%[-+ #0-9.*]*[lL]?[aefgAEFG]")
STRING = re.compile(r'"(?:[^"\\]|\\.)*"')
OWN = "src/base/numbers.c"


def without_comments(text):
    """The code, in the same lines."""
    return re.sub(r"/\*.*?\*/", lambda c: "\n" * c.group().count("\n"), text, flags=re.S)


def call_at(text, start):
    """A call whose opening bracket is before `start`, with its arguments."""
    depth = 1
    for at in range(start, len(text)):
        depth += {"(": 1, ")": -1}.get(text[at], 0)
        if depth == 0:
            return text[start:at]
    return text[start:]


def is_wrapped(text, place):
    """Whether a statement up to there begins in the locale of C."""
    return "RF_WITH_C_NUMBERS(" in text[:place].rpartition(";")[2]


def find_faults(text, library):
    """Pairs of a place and what is wrong there."""
    for found in READS.finditer(text):
        yield found.start(), "%s() reads by the locale; use rf_number_parse()" % found.group(1)
    for found in SETS.finditer(text):
        yield found.start(), "%s() sets a locale; use what base/numbers.h has" % found.group(1)
    for found in SCANS.finditer(text):
        if FLOAT.search("".join(STRING.findall(call_at(text, found.end())))):
            yield found.start(), "%s() reads by the locale; use rf_number_parse()" % found.group(1)
    if not library:
        return
    for found in JSON.finditer(text):
        if not is_wrapped(text, found.start()):
            yield found.start(), "%s) goes by the locale; use RF_WITH_C_NUMBERS()" % found.group()
    for found in PRINTS.finditer(text):
        if FLOAT.search("".join(STRING.findall(call_at(text, found.end())))):
            yield found.start(), "%s() prints by the locale; use rf_number_print()" % found.group(1)
    for found in LISTS.finditer(text):
        if not is_wrapped(text, found.start()):
            fault = "%s() prints by the locale; use rf_number_vprint()"
            yield found.start(), fault % found.group(1)


def main():
    root, faults, files = pathlib.Path(sys.argv[1]), 0, 0
    for folder in ("src", "transport", "tools", "examples"):
        for path in sorted((root / folder).rglob("*.[ch]")):
            name = str(path.relative_to(root))
            files += 1
            if name == OWN:
                continue
            text = without_comments(path.read_text())
            for place, fault in find_faults(text, folder in ("src", "transport")):
                print("%s:%d: %s" % (name, text.count("\n", 0, place) + 1, fault))
                faults += 1
    print("%d files" % files)
    sys.exit(1 if faults or files < 500 else 0)


main()
