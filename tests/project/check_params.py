# SPDX-License-Identifier: Apache-2.0
"""Holds the public structs to the rule by which they may grow (CONTRIBUTING.md): each ends in
reserved words, but for those that are named here. Usage: check_params.py ROOT"""
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(sys.argv[1], "include")))
sys.dont_write_bytecode = True
import headers  # noqa: E402

# Values of a few words, which stay as they are: another meaning gets another name.
FIXED = {"rf_shape", "rf_array", "rf_tensor", "rf_symbol", "rf_variable_list", "rf_named_array",
         "rf_array_set", "rf_random_key", "rf_custom_tensor", "rf_logs", "rf_history"}
# The library's own, which callbacks see through a pointer: they grow at their end.
SEEN = {"rf_custom_call", "rf_custom_gradient", "rf_fit_state", "rf_update_inputs"}

text = headers.read()
structs, growing = headers.structs(text).keys(), headers.growing(text).keys()
wrong = ["%s is no public struct any more: take it out of check_params.py" % name
         for name in sorted((FIXED | SEEN) - structs)]
wrong += ["%s has reserved words: it is not in FIXED or SEEN of check_params.py then" % name
          for name in sorted((FIXED | SEEN) & growing)]
wrong += ["%s does not end with `uint64_t reserved[4];` or more words" % name
          for name in sorted(structs - growing - FIXED - SEEN)]
print("\n".join(wrong + ["%d structs" % len(structs)]))
sys.exit(1 if wrong or len(growing) < 40 else 0)
