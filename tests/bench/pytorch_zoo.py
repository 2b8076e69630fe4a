#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The networks of `ringfire-bench zoo` beside the same ones in PyTorch on the CPU, in turns, each
in a process of its own.

PyTorch has the setting that it is fastest with here (pytorch_settings.py), which a first pass finds
for each network: threads of its own and of its BLAS, layout of images, compiled or not. Prints for
each network how many images or tokens a second each of them trains, the median of the ratios of the
rounds, and which setting won (--all: how all of them did); at the end the geometric mean of the
ratios. For an idle machine. Needs PyTorch (Debian: python3-torch and libopenblas0-pthread).

With another driver, such as lavapipe of Debian testing (tests/fleet): --ringfire 'tests/fleet
--exec lavapipe build/release/tools/ringfire-bench'.

Usage: tests/bench/pytorch_zoo.py [--ringfire COMMAND] [--device NAME] [--models NAME,...]
                                  [--rounds N] [--seconds X] [--threads N] [--all]"""
import argparse
import importlib.metadata
import importlib.util
import json
import os
import pathlib
import resource
import shlex
import statistics
import subprocess
import sys

import pytorch_settings

ROOT = pathlib.Path(__file__).resolve().parents[2]


def measure_torch(name, batch, seconds, setting):
    """Trains for so many seconds after three steps; prints units a second and the peak of
    memory."""
    import torch

    import pytorch_training

    torch.set_num_threads(setting.threads)
    form = pytorch_training.Form(setting.channels_last, setting.compiled)
    rate = pytorch_training.units_per_second(name, batch, seconds, form=form)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    print(json.dumps({"units_per_second": rate, "peak_bytes": peak}))


def start(command, environment=pytorch_settings.kept_memory.ENVIRONMENT):
    """What a program prints, or None where it fails."""
    done = subprocess.run([str(c) for c in command], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          text=True, env=environment)
    if done.returncode:
        why = (done.stderr.strip().splitlines() or [""])[-1]
        print("failed: %s: %s" % (" ".join(map(str, command)), why), file=sys.stderr)
    return None if done.returncode else json.loads(done.stdout)


def start_ringfire(o, name):
    found = start([*o.ringfire, "zoo", "--device", o.device, "--model", name,
                   "--seconds", o.seconds, "--json"])
    return found["networks"][0] if found else sys.exit(1)


def start_torch(name, batch, seconds, setting):
    if setting.compiled and not can_compile():
        return None
    command = [sys.executable, __file__, "--seconds", seconds, "--torch", name, batch]
    return start([*command, *setting.arguments], setting.environment)


def can_compile():
    return int(importlib.metadata.version("torch").split(".")[0]) >= 2


def compare(o, name, unit):
    """The median of the ratios."""
    rounds = [[start_ringfire(o, name)]]
    batch = rounds[0][0]["batch"]

    def rate(setting):
        found = start_torch(name, batch, o.seconds / 2, setting)
        return found and found["units_per_second"]

    setting, rates = pytorch_settings.find_best(o.threads, unit == "images", rate)
    for other in sorted(filter(rates.get, rates), key=rates.get) if o.all else ():
        print("  PyTorch, %s: %.0f %s/s" % (other, rates[other], unit))
    for i in range(o.rounds):
        if i > 0:
            rounds.append([start_ringfire(o, name)])
        rounds[i].append(start_torch(name, batch, o.seconds, setting) or sys.exit(1))
    ratios = sorted(a["units_per_second"] / b["units_per_second"] for a, b in rounds)
    median = [statistics.median(r[i]["units_per_second"] for r in rounds) for i in (0, 1)]
    memory = [max(r[i]["peak_bytes"] for r in rounds) / 1e6 for i in (0, 1)]
    ratio = statistics.median(ratios)
    print("%-11s %10.0f %7s/s %10.0f %7s/s   %.2f (%.2f to %.2f)   %5.0f, %5.0f   %s" % (
        name, median[0], unit, median[1], unit, ratio, ratios[0], ratios[-1], *memory, setting),
          flush=True)
    return ratio


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter,
                                     usage=argparse.SUPPRESS)
    parser.add_argument("--ringfire", type=shlex.split,
                        default=[str(ROOT / "build/release/tools/ringfire-bench")])
    parser.add_argument("--device", default="llvmpipe")
    parser.add_argument("--models", type=lambda text: text.split(","))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=5)
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)),
                        help="at most, of PyTorch and of its BLAS each")
    parser.add_argument("--all", action="store_true", help="print the rates of all settings")
    parser.add_argument("--torch", nargs=6, help=argparse.SUPPRESS)
    o = parser.parse_args()
    if o.torch:
        name, batch, *setting = o.torch
        return measure_torch(name, int(batch), o.seconds, pytorch_settings.of_arguments(setting))
    if not importlib.util.find_spec("torch"):
        parser.error("%s has no PyTorch; Debian's python3-torch belongs to /usr/bin/python3"
                     % sys.executable)
    from pytorch_training import UNITS

    if unknown := set(o.models or ()) - set(UNITS):
        parser.error("there is no network %s; possible are %s"
                     % (", ".join(sorted(unknown)), ", ".join(UNITS)))
    print("%-11s %20s %20s   %-21s  peak MB, PyTorch's   its best setting: own + BLAS threads" % (
        "network", "ringfire", "PyTorch", "ratio (range)"))
    ratios = [compare(o, name, UNITS[name][0]) for name in o.models or UNITS]
    print("geometric mean of %d: %.2f" % (len(ratios), statistics.geometric_mean(ratios)))


main()
