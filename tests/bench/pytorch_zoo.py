#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The networks of `ringfire bench zoo` beside the same ones in PyTorch on the CPU, in turns, each in a process of its own.

Prints for each network how many images or tokens a second each of them trains, PyTorch with as many threads as there are cores, and
the median of the ratios of the rounds. For an idle machine. Needs PyTorch (Debian: python3-torch and libopenblas0-pthread).

With another driver, such as lavapipe of Debian testing (tests/fleet): --ringfire 'tests/fleet --exec lavapipe build/release/tools/ringfire'.

Usage: tests/bench/pytorch_zoo.py [--ringfire COMMAND] [--device NAME] [--models NAME,...] [--rounds N] [--seconds X] [--threads N]"""
import argparse
import importlib.util
import json
import os
import pathlib
import resource
import shlex
import statistics
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/support"))
import kept_memory  # noqa: E402


def measure_torch(name, batch, seconds, threads):
    """Trains for so many seconds after three steps; prints units a second and the peak of memory."""
    import torch

    import pytorch_training

    torch.set_num_threads(threads)
    rate = pytorch_training.units_per_second(name, batch, seconds)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    print(json.dumps({"units_per_second": rate, "peak_bytes": peak}))


def start(command):
    done = subprocess.run([str(c) for c in command], stdout=subprocess.PIPE, text=True, env=kept_memory.ENVIRONMENT)
    if done.returncode:
        sys.exit("failed: %s" % " ".join(map(str, command)))
    return json.loads(done.stdout)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, usage=argparse.SUPPRESS)
    parser.add_argument("--ringfire", type=shlex.split, default=[str(ROOT / "build/release/tools/ringfire")])
    parser.add_argument("--device", default="llvmpipe")
    parser.add_argument("--models", type=lambda text: text.split(","))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=5)
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--torch", nargs=2, metavar=("MODEL", "BATCH"), help=argparse.SUPPRESS)
    o = parser.parse_args()
    if o.torch:
        return measure_torch(o.torch[0], int(o.torch[1]), o.seconds, o.threads)
    if not importlib.util.find_spec("torch"):
        parser.error("%s has no PyTorch; Debian's python3-torch belongs to /usr/bin/python3" % sys.executable)
    from pytorch_training import UNITS

    if unknown := set(o.models or ()) - set(UNITS):
        parser.error("there is no network %s; possible are %s" % (", ".join(sorted(unknown)), ", ".join(UNITS)))
    print("%-10s %20s %20s   ratio (range)        peak MB, PyTorch's" % ("network", "ringfire", "PyTorch %d threads" % o.threads))
    for name in o.models or UNITS:
        rounds = []
        for _ in range(o.rounds):
            ours = start([*o.ringfire, "bench", "zoo", "--device", o.device, "--model", name, "--seconds", o.seconds, "--json"])["networks"][0]
            theirs = start([sys.executable, __file__, "--seconds", o.seconds, "--threads", o.threads, "--torch", name, ours["batch"]])
            rounds.append((ours, theirs))
        ratios = sorted(a["units_per_second"] / b["units_per_second"] for a, b in rounds)
        median = [statistics.median(r[i]["units_per_second"] for r in rounds) for i in (0, 1)]
        memory = [max(r[i]["peak_bytes"] for r in rounds) / 1e6 for i in (0, 1)]
        print("%-10s %12.0f %s/s %12.0f %s/s   %.2f (%.2f to %.2f)   %.0f, %.0f" % (
            name, median[0], UNITS[name][0], median[1], UNITS[name][0], statistics.median(ratios), ratios[0], ratios[-1], *memory), flush=True)


main()
