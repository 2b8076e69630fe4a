# SPDX-License-Identifier: Apache-2.0
"""Compares the dynamic symbols of the shared library with the list in the tree, and both with the public headers.

Usage: check_exports.py NM LIBRARY LIST SOURCE_ROOT [--update]"""
import pathlib
import re
import subprocess
import sys

nm, library, list_path, root = sys.argv[1:5]
root = pathlib.Path(root)
sys.path.insert(0, str(root / "src"))
sys.dont_write_bytecode = True
import exports  # noqa: E402
output = subprocess.run([nm, "-D", "--defined-only", library], check=True, stdout=subprocess.PIPE, text=True).stdout
exported = sorted({line.split()[2].split("@")[0] for line in output.splitlines() if len(line.split()) == 3})
if "--update" in sys.argv:
    pathlib.Path(list_path).write_text("\n".join(exported) + "\n")
    sys.exit(0)
listed = pathlib.Path(list_path).read_text().split()
declared = exports.declared((root / "include/ringfire").glob("*.h"))
# Where all layers' functions are visible, the headers decide what is exported; elsewhere RF_API of the definitions does.
defined = set()
for source in [*(root / "src").rglob("*.c"), *(root / "transport").rglob("*.c")]:
    defined |= set(re.findall(r"RF_API\b[^;(]*?\b(rf_\w+)\s*\(", source.read_text()))
bad = False
for title, names in (("exported but not listed", set(exported) - set(listed)), ("listed but not exported", set(listed) - set(exported)),
                     ("exported but in no public header", set(exported) - declared),
                     ("in a public header but not exported", declared - set(exported)),
                     ("RF_API where it is defined, but in no public header", defined - declared)):
    for name in sorted(names):
        print("%s: %s" % (title, name))
        bad = True
print("%d symbols" % len(exported))
sys.exit(1 if bad else 0)
