# SPDX-License-Identifier: Apache-2.0
"""Fails when two places define a type of one name, which readers would take one for the other, and
when a function of one file is named by a single word: `frame_begin` can be searched, `begin`
cannot. Usage: check_names.py ROOT"""
import pathlib
import re
import sys

DEFINITIONS = (
    # struct rf_x {, typedef struct rf_x {
    re.compile(r"^(?:typedef )?(?:struct|union|enum) (rf_\w+) \{", re.M),
    re.compile(r"^\} (rf_\w+);", re.M),                                      # } rf_x;
    re.compile(r"^typedef [^;{]*\(\*(rf_\w+)\)\(", re.M),                    # typedef int (*rf_x)(
)

# The first line of a definition or declaration with file scope.
STATIC = re.compile(r"^static (?:inline |const |unsigned |struct |enum )*\w+ \**(\w+)\(", re.M)

# Opaque types of an interface, which each of its implementations defines for itself.
OF_IMPLEMENTATIONS = {"rf_bucket_exchange"}


def definitions(text):
    """The names of the types that a file defines, each once: `typedef struct rf_x { ... } rf_x;` is
    one definition."""
    text = re.sub(r"/\*.*?\*/", "", text, flags=re.S)
    return {name for pattern in DEFINITIONS for name in pattern.findall(text)}


def main():
    root = pathlib.Path(sys.argv[1])
    places, words, functions = {}, [], 0
    for folder in ("include", "src", "transport", "tools"):
        for path in sorted((root / folder).rglob("*.[ch]")):
            text = path.read_text()
            for name in STATIC.findall(text):
                functions += 1
                if "_" not in name:
                    words.append("%s: %s() needs a name of two words, what and does what"
                                 % (path.relative_to(root), name))
            if folder == "tools":  # programs: their types never meet those of the library's files
                continue
            for name in definitions(text):
                places.setdefault(name, []).append(str(path.relative_to(root)))
    twice = {name: files for name, files in places.items() if len(files) > 1
             and name not in OF_IMPLEMENTATIONS}
    for name, files in sorted(twice.items()):
        print("%s is defined in %s" % (name, " and ".join(files)))
    print("\n".join([*words, "%d types, %d functions of one file" % (len(places), functions)]))
    sys.exit(1 if twice or words or len(places) < 100 or functions < 1000 else 0)


main()
