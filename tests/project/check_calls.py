# SPDX-License-Identifier: Apache-2.0
"""Fails where two files of a layer call each other, directly or through others: within a layer
calls go one way. Usage: check_calls.py NM ARCHIVE..."""
import collections
import re
import subprocess
import sys


def read_symbols(nm, archive):
    """By object file: what it defines for others and what it takes from elsewhere."""
    defined, used = {}, {}
    done = subprocess.run([nm, "--print-file-name", archive], stdout=subprocess.PIPE, text=True,
                          check=True)
    for line in done.stdout.splitlines():
        place, _, symbol = line.rpartition(":")
        name = re.split("[/:]", place)[-1].removesuffix(".c.o")
        kind, symbol = symbol.split()[-2:]
        defined.setdefault(name, set())
        used.setdefault(name, set())
        if kind == "U":
            used[name].add(symbol)
        elif kind.isupper():
            defined[name].add(symbol)
    return defined, used


def find_cycles(calls):
    """Strongly connected components of more than one file (Tarjan's algorithm)."""
    order, low, stack, cycles = {}, {}, [], []

    def visit(v):
        order[v] = low[v] = len(order)
        stack.append(v)
        for w in calls[v]:
            if w not in order:
                visit(w)
            if w in stack:
                low[v] = min(low[v], low[w])
        if low[v] == order[v]:
            cut = stack.index(v)
            if len(stack) - cut > 1:
                cycles.append(stack[cut:])
            del stack[cut:]

    for v in list(calls):
        if v not in order:
            visit(v)
    return cycles


def main():
    nm, archives = sys.argv[1], sys.argv[2:]
    wrong = checked = 0
    for archive in archives:
        defined, used = read_symbols(nm, archive)
        home = {symbol: name for name, symbols in defined.items() for symbol in symbols}
        calls = {name: collections.defaultdict(list) for name in defined}
        for name in sorted(used):
            for symbol in sorted(used[name]):
                if symbol in home:
                    calls[name][home[symbol]].append(symbol)
        checked += len(defined)
        for cycle in find_cycles(calls):
            wrong += 1
            print("these files call each other:")
            for caller in cycle:
                for callee in cycle:
                    if callee in calls[caller]:
                        print("    %s -> %s: %s"
                              % (caller, callee, ", ".join(calls[caller][callee])))
    print("%d files checked" % checked)
    sys.exit(1 if wrong or checked < 10 * len(archives) // 2 else 0)


main()
