# SPDX-License-Identifier: Apache-2.0
"""Fails on a helper that two tests define alike, or that goes by the name of a macro of
tests/support: it belongs there. Usage: check_support.py TESTS"""
import ast
import collections
import pathlib
import re
import sys

MACRO = re.compile(r"^#define (\w+(?:\([^)]*\))?)((?:[^\n]*\\\n)*[^\n]*)", re.M)
FUNCTION = re.compile(r"^(?!typedef|struct|enum)[\w* "
                      r"]+?\**(\w+)\(([^;{}()]*(?:\([^()]*\)[^;{}()]*)*)\)\n\{\n(.*?)^\}",
                      re.M | re.S)
SHORTEST = 60  # characters: what is shorter need not be shared


ENTRY_POINTS = ("main", "LLVMFuzzerTestOneInput")


def squeezed(text):
    return re.sub(r"\(void\)\w+[,;]|[\s\\]+", "", re.sub(r"\s+", "", text))


def helpers_of_c(text):
    """(what it is, all that makes it up but its name)"""
    for m in MACRO.finditer(text):
        yield m[1], re.sub(r"^\w+", "", m[1]) + squeezed(m[2])
    for m in FUNCTION.finditer(text):
        yield m[1], squeezed(m[2] + m[3])


def helpers_of_python(text):
    for node in ast.parse(text).body:
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            body = node.body[1:] if ast.get_docstring(node) else node.body
            yield node.name, "".join(map(ast.dump, body)) + (
                ast.dump(node.args) if isinstance(node, ast.FunctionDef) else "")


def main():
    tests = pathlib.Path(sys.argv[1])
    shared, macros = {}, []
    places, checked = collections.defaultdict(list), 0
    for path in sorted(p for p in tests.rglob("*") if p.suffix in (".c", ".h", ".py")):
        checked += 1
        text = path.read_text()
        for name, body in (helpers_of_python if path.suffix == ".py" else helpers_of_c)(text):
            macro = re.match(r"(\w+)\(", name)
            if macro and path.parent.name == "support":
                shared[macro[1]] = path.name
            elif macro:
                macros.append((macro[1], str(path.relative_to(tests))))
            if len(body) >= SHORTEST and name not in ENTRY_POINTS:
                places[body].append("%s of %s" % (name, path.relative_to(tests)))
    wrong = [p for p in places.values() if len(p) > 1]
    for p in wrong:
        print("defined alike, so it belongs to tests/support: " + ", ".join(p))
    wrong += [m for m in macros if m[0] in shared]
    for name, file in macros:
        if name in shared:
            print("%s: %s is a macro of tests/support/%s" % (file, name, shared[name]))
    print("%d files checked, %d helpers" % (checked, len(places)))
    return 1 if wrong or checked < 150 or len(places) < 1000 else 0


if __name__ == "__main__":
    sys.exit(main())
