# SPDX-License-Identifier: Apache-2.0
"""Compares the dynamic symbols of the shared library with the public headers.

Usage: check_exports.py NM LIBRARY SOURCE_ROOT"""
import pathlib
import re
import subprocess
import sys

nm, library, root = sys.argv[1], sys.argv[2], pathlib.Path(sys.argv[3])
sys.path.insert(0, str(root / "include"))
sys.dont_write_bytecode = True
import headers  # noqa: E402

output = subprocess.run([nm, "-D", "--defined-only", library], check=True, stdout=subprocess.PIPE,
                        text=True).stdout
words = [line.split() for line in output.splitlines()]
exported = {w[2].split("@")[0] for w in words if len(w) == 3}
declared = {name for _, name, _ in headers.functions(headers.read())}
# Where all layers' functions are visible, the headers decide what is exported; elsewhere RF_API of
# the definitions does.
defined = set()
for source in [*(root / "src").rglob("*.c"), *(root / "transport").rglob("*.c")]:
    defined |= set(re.findall(r"RF_API\b[^;(]*?\b(rf_\w+)\s*\(", source.read_text()))
wrong = ["%s: %s" % (title, name)
         for title, names in (("exported but in no public header", exported - declared),
                              ("in a public header but not exported", declared - exported),
                              ("RF_API where it is defined, but in no public header",
                               defined - declared)) for name in sorted(names)]
print("\n".join(wrong + ["%d symbols" % len(exported)]))
sys.exit(1 if wrong or len(exported) < 300 else 0)
