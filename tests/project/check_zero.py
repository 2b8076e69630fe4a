# SPDX-License-Identifier: Apache-2.0
"""Every setting of a floating-point type whose 0 means a default takes RF_ZERO or refuses it
(include/ringfire/common.h): each that the headers have is in tests/train/test_zero.c, by its name.
Usage: check_zero.py ROOT"""
import pathlib
import re
import sys

root = pathlib.Path(sys.argv[1])
NUMBER = r"(?:float|double)"
# "0: 0.9", "0 means 1", "(b = 0: 0.05)", "the kind says".
DEFAULT = re.compile(r"\b0(?:\.0)?(?: means\b|:\s)")
text = "\n".join(p.read_text() for p in sorted((root / "include/ringfire").glob("*.h")))
# The library fills these in.
OUTPUTS = {"rf_event", "rf_exchange_stats", "rf_coordinator_stats", "rf_loss_scale",
           "rf_fit_state"}


def members(body):
    """(name, comment) of every number of a struct: the comment before it or behind it."""
    for m in re.finditer(r"(?:/\*\*((?:(?!\*/).)*)\*/\s*)?^ *" + NUMBER +
                         r" ([\w, \[\]]+);[ ]*(?:/\*\*<((?:(?!\*/).)*)\*/)?", body, re.M | re.S):
        for name in m[2].split(","):
            yield name.strip().split("[")[0], m[3] or m[1] or ""


found = set()
for body, struct in re.findall(r"^typedef struct rf_\w+ \{\n(.*?)^\} (rf_\w+);", text, re.M | re.S):
    if struct in OUTPUTS:
        continue
    found |= {"%s.%s" % (struct, name) for name, comment in members(body)
              if DEFAULT.search(comment)}
FUNCTION = r"/\*\*((?:(?!\*/).)*)\*/\nRF_API [^;{}]*?\b(rf_\w+)\(([^;]*?)\)"
for comment, name, inside in re.findall(FUNCTION, text, re.S):
    words = re.sub(r"\s*\n \*\s*", " ", comment)
    for number in re.findall(NUMBER + r" (\w+)(?:,|$)", inside):
        told = re.findall(r"(?:`%s`|@param %s\b)((?:(?!@|`).)*)" % (number, number), words)
        if any(DEFAULT.search(part) for part in told):
            found.add("%s(%s)" % (name, number))

test = (root / "tests/train/test_zero.c").read_text()
held = set(re.findall(r'"(rf_\w+\.\w+|rf_\w+\(\w+\))"', test))
held |= {"rf_optimizer_params." + field for field in re.findall(r"SETTING\([A-Z]\w+, (\w+),", test)}
wrong = ["%s has a default for 0, and is not in tests/train/test_zero.c" % name
         for name in sorted(found - held)]
wrong += ["tests/train/test_zero.c: the headers give %s no default for 0" % name
          for name in sorted(held - found)]
print("\n".join(wrong + ["%d settings" % len(found)]))
sys.exit(1 if wrong or len(found) < 40 else 0)
