# SPDX-License-Identifier: Apache-2.0
"""Compares the dynamic symbols of the shared library with the list in the tree, and both with the public headers.

Usage: check_exports.py NM LIBRARY LIST HEADERS [--update]"""
import pathlib
import re
import subprocess
import sys

nm, library, list_path, headers = sys.argv[1:5]
output = subprocess.run([nm, "-D", "--defined-only", library], check=True, stdout=subprocess.PIPE, text=True).stdout
exported = sorted({line.split()[2].split("@")[0] for line in output.splitlines() if len(line.split()) == 3})
if "--update" in sys.argv:
    pathlib.Path(list_path).write_text("\n".join(exported) + "\n")
    sys.exit(0)
listed = pathlib.Path(list_path).read_text().split()
declared = set()
for header in pathlib.Path(headers).glob("*.h"):
    text = re.sub(r"/\*.*?\*/", "", header.read_text(), flags=re.S)
    declared |= set(re.findall(r"RF_API\b[^;(]*?\b(rf_\w+)\s*\(", text))
bad = False
for title, names in (("exported but not listed", set(exported) - set(listed)), ("listed but not exported", set(listed) - set(exported)),
                     ("exported but in no public header", set(exported) - declared),
                     ("in a public header but not exported", declared - set(exported))):
    for name in sorted(names):
        print("%s: %s" % (title, name))
        bad = True
print("%d symbols" % len(exported))
sys.exit(1 if bad else 0)
