#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The networks of `ringfire bench zoo` beside the same ones in PyTorch on the CPU, in turns, each in a process of its own.

Prints for each network how many images or tokens a second each of them trains, PyTorch with as many threads as there are cores, and
the median of the ratios of the rounds. For an idle machine. Needs PyTorch (Debian: python3-torch and libopenblas0-pthread).

Usage: tests/bench/pytorch_zoo.py [--ringfire PATH] [--device NAME] [--models NAME,...] [--rounds N] [--seconds X] [--threads N]"""
import argparse
import importlib.util
import json
import os
import pathlib
import resource
import statistics
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/support"))
import kept_memory  # noqa: E402
SIDE, CLASSES, BLOCK, VOCABULARY = 28, 10, 64, 96
PAIR, WORDS, USERS, ITEMS = 16, 100, 6040, 3706  # lengths of translations and texts, rows of the tables
UNITS = {"cnn": ("images", 1), "resnet": ("images", 1), "densenet": ("images", 1), "vae": ("images", 1), "gpt": ("tokens", BLOCK), "bert": ("tokens", 64),
         "transformer": ("tokens", PAIR), "gru": ("tokens", PAIR), "lstm": ("texts", 1), "ncf": ("ratings", 1)}


def measure_torch(name, batch, seconds, threads):
    """Trains for so many seconds after three steps; prints units a second and the peak of memory."""
    import torch
    import torch.nn.functional as F

    import pytorch_networks as networks

    torch.set_num_threads(threads)
    torch.manual_seed(1)

    def numbers(bound, *shape):
        return torch.randint(1, bound, shape)

    network = networks.NETWORKS[name]()
    criterion, optimizer = F.cross_entropy, torch.optim.Adam(network.parameters())
    if name == "vae":
        labels = (torch.arange(batch * SIDE * SIDE) % 2).float().reshape(batch, 1, SIDE, SIDE)
        inputs, criterion = [labels], networks.vae_loss
    elif UNITS[name][0] == "images":
        if name != "cnn":
            optimizer = torch.optim.SGD(network.parameters(), lr=0.01, momentum=0.9, nesterov=True)
        inputs, labels = [torch.rand(batch, 1, SIDE, SIDE)], torch.arange(batch) % CLASSES
    elif name == "gpt":
        inputs, labels = [numbers(VOCABULARY, batch, BLOCK)], numbers(VOCABULARY, batch * BLOCK)
    elif name == "bert":
        optimizer = torch.optim.AdamW(network.parameters(), lr=1e-4, weight_decay=0.01)
        passages, masked = (batch, network.length), (batch, network.predictions)
        inputs = [numbers(network.vocabulary, *passages), torch.randint(0, 2, passages), torch.randint(0, network.length, masked)]
        labels = numbers(network.vocabulary, batch * network.predictions), torch.randint(0, 2, (batch,))

        def criterion(outputs, labels):
            return sum(F.cross_entropy(output, label) for output, label in zip(outputs, labels))
    elif UNITS[name][0] == "tokens":
        inputs, labels = [numbers(network.vocabulary, batch, PAIR) for _ in range(2)], numbers(network.vocabulary, batch * PAIR)
    else:
        criterion, labels = F.binary_cross_entropy_with_logits, (torch.arange(batch) % 2).float()[:, None]
        inputs = [numbers(1000, batch, WORDS)] if name == "lstm" else [numbers(USERS, batch), numbers(ITEMS, batch)]

    def step():
        optimizer.zero_grad(set_to_none=True)
        criterion(network(*inputs), labels).backward()
        if name == "bert":
            torch.nn.utils.clip_grad_norm_(network.parameters(), 1.0)
        optimizer.step()

    for _ in range(3):
        step()
    slices = []
    for _ in range(5):
        start, steps = time.perf_counter(), 0
        while steps == 0 or time.perf_counter() - start < seconds / 5:
            step()
            steps += 1
        slices.append((time.perf_counter() - start) / steps)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    print(json.dumps({"units_per_second": batch * UNITS[name][1] / statistics.median(slices), "peak_bytes": peak}))


def start(command):
    done = subprocess.run([str(c) for c in command], stdout=subprocess.PIPE, text=True, env=kept_memory.ENVIRONMENT)
    if done.returncode:
        sys.exit("failed: %s" % " ".join(map(str, command)))
    return json.loads(done.stdout)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, usage=argparse.SUPPRESS)
    parser.add_argument("--ringfire", type=pathlib.Path, default=ROOT / "build/release/tools/ringfire")
    parser.add_argument("--device", default="llvmpipe")
    parser.add_argument("--models", type=lambda text: text.split(","), default=list(UNITS))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=5)
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--torch", nargs=2, metavar=("MODEL", "BATCH"), help=argparse.SUPPRESS)
    o = parser.parse_args()
    if o.torch:
        return measure_torch(o.torch[0], int(o.torch[1]), o.seconds, o.threads)
    unknown = set(o.models) - set(UNITS)
    if unknown:
        parser.error("there is no network %s; possible are %s" % (", ".join(sorted(unknown)), ", ".join(UNITS)))
    if not importlib.util.find_spec("torch"):
        parser.error("%s has no PyTorch; Debian's python3-torch belongs to /usr/bin/python3" % sys.executable)
    print("%-10s %20s %20s   ratio (range)        peak MB, PyTorch's" % ("network", "ringfire", "PyTorch %d threads" % o.threads))
    for name in o.models:
        rounds = []
        for _ in range(o.rounds):
            ours = start([o.ringfire, "bench", "zoo", "--device", o.device, "--model", name, "--seconds", o.seconds, "--json"])["networks"][0]
            theirs = start([sys.executable, __file__, "--seconds", o.seconds, "--threads", o.threads, "--torch", name, ours["batch"]])
            rounds.append((ours, theirs))
        ratios = sorted(a["units_per_second"] / b["units_per_second"] for a, b in rounds)
        median = [statistics.median(r[i]["units_per_second"] for r in rounds) for i in (0, 1)]
        memory = [max(r[i]["peak_bytes"] for r in rounds) / 1e6 for i in (0, 1)]
        print("%-10s %12.0f %s/s %12.0f %s/s   %.2f (%.2f to %.2f)   %.0f, %.0f" % (
            name, median[0], UNITS[name][0], median[1], UNITS[name][0], statistics.median(ratios), ratios[0], ratios[-1], *memory), flush=True)


main()
