# SPDX-License-Identifier: Apache-2.0
"""Holds the compilation of every shader to a budget, so that the project builds on a laptop: one
tool takes at most 500 MB, which is much the same on any machine, and 60 s of CPU time, a multiple
of what the most expensive shader takes on a slow one.

check_shader_cost.py shaders.cost"""
import pathlib
import re
import sys

MEGABYTES, SECONDS = 500, 60


def verdict(name, cost):
    """What is wrong with the cost that compile_shaders.py wrote, or None."""
    numbers = re.fullmatch(r"(\d+) MB (\d+\.\d) s\n", cost)
    if not numbers:
        return "%s: no cost in '%s'" % (name, cost.strip())
    if int(numbers[1]) > MEGABYTES or float(numbers[2]) > SECONDS:
        return ("%s takes %s; at most %d MB and %d s: see 'What a shader may cost' in "
                "docs/internals/adding-an-op.md" % (
            name, cost.strip(), MEGABYTES, SECONDS))
    return None


for over in ("501 MB 0.1 s\n", "10 MB 60.1 s\n", "4211 MB 45.3 s\n", "", "10 MB\n"):
    assert verdict("made up", over), over
assert not verdict("made up", "500 MB 60.0 s\n")

costs = dict(line.split(" ", 1)
             for line in pathlib.Path(sys.argv[1]).read_text().splitlines(keepends=True))
assert len(costs) > 100, "%d shaders only" % len(costs)
# The largest shaders take tens of megabytes: smaller numbers mean that nothing was measured.
largest = max(costs, key=lambda name: int((re.match(r"\d+", costs[name]) or "0")[0]))
assert int(re.match(r"\d+", costs[largest])[0]) > 20, "no shader takes more than " + costs[largest]
print("%d modules, the largest: %s, %s" % (len(costs), largest, costs[largest].strip()))
wrong = [message for message in map(verdict, costs.keys(), costs.values()) if message]
print("\n".join(wrong))
sys.exit(1 if wrong else 0)
