# SPDX-License-Identifier: Apache-2.0
"""Holds the public structs to the rule by which they may grow (CONTRIBUTING.md): none without its kind, none without its tail, and no
function that takes one without looking at it. Usage: check_params.py ROOT"""
import pathlib
import re
import sys

ROOT = pathlib.Path(sys.argv[1])
LEAST_WORDS = 1  # a new struct begins with 4 or more; later fields take theirs from them, and the size stays (the ABI dump)
# Values of a few words, which stay as they are: another meaning gets another name.
FIXED = {"rf_shape", "rf_array", "rf_tensor", "rf_symbol", "rf_variable_list", "rf_named_array", "rf_array_set", "rf_random_key", "rf_custom_tensor", "rf_logs", "rf_history"}
# The library's own, which callbacks see through a pointer: they grow at their end.
SEEN = {"rf_custom_call", "rf_custom_gradient", "rf_fit_state", "rf_update_inputs"}
# Filled by the library in memory of the caller, or handed out as arrays: a tail, which the library zeroes.
FILLED = {"rf_error_info", "rf_device_info", "rf_archive_entry", "rf_cluster_task", "rf_exchange_stats", "rf_loss_scale",
          "rf_coordinator_stats", "rf_event"}
# All others come from the caller: a tail, which the library looks at. Functions that have no way to refuse:
CANNOT_FAIL = {"rf_element_global_rows"}

headers = "\n".join(re.sub(r"/\*.*?\*/", "", p.read_text(), flags=re.S) for p in sorted((ROOT / "include/ringfire").glob("*.h")))
structs = {m.group(2): m.group(1) for m in re.finditer(r"typedef struct rf_\w+ \{\n(.*?)^\} (rf_\w+);", headers, re.M | re.S)}
table = " ".join((ROOT / "src/base/params.c").read_text().split())
tested = (ROOT / "tests/project/test_reserved.c").read_text()
wrong = []

for name in sorted((FIXED | SEEN | FILLED) - structs.keys()):
    wrong.append("%s is no public struct any more: take it out of check_params.py" % name)
passed = structs.keys() - FIXED - SEEN - FILLED
for name, body in structs.items():
    tail = re.search(r"\buint64_t reserved\[(\d+)\];\s*$", body)
    if name in FIXED | SEEN:
        if tail:
            wrong.append("%s has reserved words: it is not in FIXED or SEEN of check_params.py then" % name)
    elif not tail or int(tail.group(1)) < LEAST_WORDS:
        wrong.append("%s does not end with `uint64_t reserved[%d];` or more words" % (name, LEAST_WORDS))

rows = {m.group(1): m.group(2) for m in re.finditer(r"\bLAYOUT\((rf_\w+), (.*?)\);", table)}
for name in sorted(rows.keys() ^ passed):
    wrong.append("%s is %s src/base/params.c" % (name, "only in" if name in rows else "not in"))
for name in sorted(rows.keys() & passed):
    inside = set()
    for type_name, pointer, field in re.findall(r"\b(rf_\w+) (\*?)(\w+)[;,]", " ".join(structs[name].split())):
        if type_name in passed:
            count = "num_" + field
            kind = "MEMBER" if not pointer else "ARRAY" if re.search(r"\b%s;" % count, structs[name]) else "POINTER"
            inside.add("%s(%s, %s, %s%s)" % (kind, name, field, type_name, ", " + count if kind == "ARRAY" else ""))
    listed = set(re.findall(r"(?:MEMBER|POINTER|ARRAY)\([^)]*\)", rows[name]))
    for text in sorted(inside ^ listed):
        wrong.append("%s in src/base/params.c: %s %s" % (name, text, "is missing" if text in inside else "is not in the header"))

functions = 0
for function, arguments in re.findall(r"\bRF_API\b[^;]*?\b(rf_\w+)\(([^;]*?)\)[^;()]*(?:RF_PRINTF\([^)]*\))?;", headers):
    for name in re.findall(r"\bconst (rf_\w+) \*(?!\*)", " ".join(arguments.split())):
        if name in passed and function not in CANNOT_FAIL:
            functions += 1
            if not re.search(r"REFUSED\w*\(\s*%s,[^;]*\b%s\b" % (name, function), tested):
                wrong.append("%s takes a %s: tests/project/test_reserved.c does not try it" % (function, name))
print("\n".join(wrong + ["%d structs, %d functions that take one" % (len(structs), functions)]))
sys.exit(1 if wrong or len(structs) < 40 or functions < 40 else 0)
