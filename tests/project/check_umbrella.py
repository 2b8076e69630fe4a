# SPDX-License-Identifier: Apache-2.0
"""Fails where ringfire.h leaves a public header out. Usage: check_umbrella.py INCLUDE"""
import pathlib
import re
import sys

folder = pathlib.Path(sys.argv[1], "ringfire")
included = set(re.findall(r"^#include <ringfire/(.+)>", (folder / "ringfire.h").read_text(), re.M))
headers = {p.name for p in folder.glob("*.h")} - {"ringfire.h"}
for name in sorted(headers - included):
    print("ringfire.h says that it is everything, but leaves out <ringfire/%s>" % name)
sys.exit(1 if headers - included or not headers else 0)
