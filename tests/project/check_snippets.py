# SPDX-License-Identifier: Apache-2.0
"""Fails where C code of a document is not in a tested source, word for word. Usage:
check_snippets.py DOCUMENT SOURCE"""
import re
import sys


def words(text):
    return " ".join(text.split())


with open(sys.argv[1], encoding="utf-8") as file:
    snippets = re.findall(r"^```c\n(.*?)^```", file.read(), re.MULTILINE | re.DOTALL)
with open(sys.argv[2], encoding="utf-8") as file:
    source = words(file.read())
missing = [s for s in snippets if words(s) not in source]
for snippet in missing:
    print("%s: not in %s:\n%s" % (sys.argv[1], sys.argv[2], snippet))
if not snippets:
    print(sys.argv[1], "has no C code")
sys.exit(bool(missing) or not snippets)
