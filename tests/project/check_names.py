# SPDX-License-Identifier: Apache-2.0
"""Fails when two places define a type of one name: readers would take one for the other. Usage: check_names.py ROOT"""
import pathlib
import re
import sys

DEFINITIONS = (
    re.compile(r"^(?:typedef )?(?:struct|union|enum) (rf_\w+) \{", re.M),    # struct rf_x {, typedef struct rf_x {
    re.compile(r"^\} (rf_\w+);", re.M),                                      # } rf_x;
    re.compile(r"^typedef [^;{]*\(\*(rf_\w+)\)\(", re.M),                    # typedef int (*rf_x)(
)

# Opaque types of an interface, which each of its implementations defines for itself.
OF_IMPLEMENTATIONS = {"rf_bucket_exchange"}


def definitions(text):
    """The names of the types that a file defines, each once: `typedef struct rf_x { ... } rf_x;` is one definition."""
    text = re.sub(r"/\*.*?\*/", "", text, flags=re.S)
    return {name for pattern in DEFINITIONS for name in pattern.findall(text)}


def main():
    root = pathlib.Path(sys.argv[1])
    places = {}
    for folder in ("include", "src", "transport"):
        for path in sorted((root / folder).rglob("*.[ch]")):
            for name in definitions(path.read_text()):
                places.setdefault(name, []).append(str(path.relative_to(root)))
    twice = {name: files for name, files in places.items() if len(files) > 1 and name not in OF_IMPLEMENTATIONS}
    for name, files in sorted(twice.items()):
        print("%s is defined in %s" % (name, " and ".join(files)))
    print("%d types" % len(places))
    sys.exit(1 if twice or len(places) < 100 else 0)


main()
