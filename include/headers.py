# SPDX-License-Identifier: Apache-2.0
"""Reads the public headers, and writes what follows from them alone.

headers.py exports OUT DEPENDENCIES   the linker's version script: of a library whose symbols are
                                      all visible it exports what the headers declare
headers.py params OUT DEPENDENCIES    every struct with reserved words, and those of them inside it
                                      (src/base/params.h)"""
import pathlib
import re
import sys

FOLDER = pathlib.Path(__file__).resolve().parent / "ringfire"


def paths():
    return sorted(FOLDER.glob("*.h"))


def read():
    """The text of all headers without comments."""
    text = "\n".join(path.read_text() for path in paths())
    return re.sub(r"/\*.*?\*/", "", text, flags=re.S)


def functions(text):
    """(result, name, [(type, parameter)]) of every function that is declared as RF_API."""
    text = re.sub(r"RF_MUST_USE|RF_PRINTF\([^)]*\)", "", text)
    for result, name, inside in re.findall(r"^RF_API\s+([^;{}]*?)\b(rf_\w+)\(([^;]*?)\)\s*;", text,
                                           re.S | re.M):
        parameters = [" ".join(p.split()) for p in inside.split(",")]
        yield " ".join(result.split()), name, [
            re.fullmatch(r"(.*?)\s*(\w+)", p).groups() for p in parameters
            if p not in ("void", "...")
        ]


def structs(text):
    """The fields of every struct, as text, by its name."""
    found = re.findall(r"^typedef struct rf_\w+ \{\n(.*?)^\} (rf_\w+);", text, re.M | re.S)
    return {name: body for body, name in found}


def growing(text):
    """Those that end in reserved words."""
    return {
        name: body
        for name, body in structs(text).items()
        if re.search(r"\buint64_t reserved\[\d+\];\s*$", body)
    }


def fields(body):
    """(type, stars, name, array) of every field."""
    for declaration in body.split(";"):
        m = re.fullmatch(r"(?:const )?(\w+) (.*)", " ".join(declaration.split()))
        for declarator in m[2].split(",") if m else ():
            d = re.fullmatch(r"\s*(\**)(\w+)(\[\w+\])?", declarator)
            if d:
                yield m[1], d[1], d[2], d[3]


def nested(name, body, others):
    """What macros of src/base/params.c make of the structs of `others` inside one."""
    names = {field for _, _, field, _ in fields(body)}
    for kind, stars, field, array in fields(body):
        if kind not in others:
            continue
        if array or len(stars) > 1:
            sys.exit("%s::%s: headers.py knows no way to check such a field" % (name, field))
        if not stars:
            yield "MEMBER(%s, %s, %s)" % (name, field, kind)
        elif "num_" + field in names:
            yield "ARRAY(%s, %s, %s, num_%s)" % (name, field, kind, field)
        else:
            yield "POINTER(%s, %s, %s)" % (name, field, kind)


def write_exports(text):
    names = sorted(name for _, name, _ in functions(text))
    return "{\n  global:\n%s  local:\n    *;\n};\n" % "".join("    %s;\n" % name for name in names)


def write_params(text):
    others = growing(text)
    return "/* Written by headers.py. */\n" + "".join(
        "PARAMS_STRUCT(%s, %s)\n" % (name, ", ".join(nested(name, body, others)) or "{ 0 }")
        for name, body in others.items())


def main():
    kind, out, dependencies = sys.argv[1:4]
    made = {"exports": write_exports, "params": write_params}[kind](read())
    pathlib.Path(out).write_text(made)
    pathlib.Path(dependencies).write_text("%s: %s\n" % (out, " ".join(map(str, paths()))))


if __name__ == "__main__":
    main()
