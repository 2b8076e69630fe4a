#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measures this tree and writes docs/reference/figures.md and its charts.

Each section keeps its figures in docs/reference/figures.json, with the day, the machine, its load
and the commit, until the section is measured again: the page says so of each. Sections that take
long (pytorch, accuracy) are measured only when they are named. Figures of a machine that other
programs used are marked as such.

Usage: tests/bench/figures.py [SECTION...] [--programs DIR] [--device NAME] [--seconds X]
                              [--rounds N] [--machine TEXT]
       tests/bench/figures.py --page    only write the page, from figures.json
       tests/bench/figures.py --check   fail where the page is not what figures.json gives"""
import argparse
import datetime
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGE, KEPT = ROOT / "docs/reference/figures.md", ROOT / "docs/reference/figures.json"
PICTURES = ROOT / "docs/images"
IDLE_LOAD = 0.3  # of each processor: above it others used the machine
OPERATIONS = {"matmul": ("square_1024", "odd_1000"), "conv2d": ("conv2_b64",),
              "conv2d_data_grad": ("conv2_b64",), "conv2d_filter_grad": ("conv2_b64",),
              "elementwise": ("add_4M", "add_4M_less_1")}


def run(options, *command):
    done = subprocess.run([str(c) for c in command], cwd=ROOT, text=True, stdout=subprocess.PIPE)
    if done.returncode:
        sys.exit("figures: %s ended with %d" % (" ".join(map(str, command)), done.returncode))
    return done.stdout


def bench(options, command, *arguments):
    return json.loads(run(options, options.programs / "tools/ringfire-bench", command, "--json",
                          *arguments))


def figure(value):
    """With three digits, in groups of three."""
    return "{:,.{}f}".format(value, 3 - len("%d" % min(abs(value), 999)) if abs(value) >= 1 else 3)


# ---- measuring: rows of each section ----

def networks(options):
    found = bench(options, "zoo", "--device", options.device, "--seconds", options.seconds)
    return [[n["model"], n["batch"], figure(n["step_seconds"] * 1e3),
             "%s %s" % ("{:,.0f}".format(n["units_per_second"]), n["unit"]),
             figure(n["first_step_seconds"])] for n in found["networks"]]


def operations(options):
    rows = []
    for op, cases in OPERATIONS.items():
        for row in bench(options, "ops", "--op", "=" + op, "--device", options.device, "--seconds",
                         options.seconds / 10)["ops"]:
            if row["case"] in cases and row["chosen"]:
                rows.append([op, row["case"], row["kernel"], figure(row["seconds"] * 1e3),
                             "%s GB/s" % figure(row["gbytes"]) if op == "elementwise"
                             else "%s GFLOP/s" % figure(row["gflops"])])
    return rows


def attention(options):
    found = bench(options, "attention", "--device", options.device, "--rounds", options.rounds,
                  "--seconds", options.seconds / 10)
    return [[n["length"], "%s, %s" % tuple(figure(n[k + "_forward_seconds"] * 1e3)
                                           for k in ("composed", "fused")),
             "%.2f" % n["forward_ratio"],
             "%s, %s" % tuple(figure(n[k + "_training_seconds"] * 1e3)
                              for k in ("composed", "fused")),
             "%.2f" % n["training_ratio"]] for n in found["lengths"]]


def exchange(options):
    sizes = [word for size in ("4K", "64K", "1M", "16M") for word in ("--size", size)]
    found = bench(options, "allreduce", *sizes, "--seconds", options.seconds / 5)
    return [["{:,}".format(r["bytes"]), figure(r["seconds"] * 1e6),
             figure(r["bytes"] / r["seconds"] / 1e9), figure(r["ratio_to_shared_ring"]),
             figure(r["ratio_to_plain_ring"])]
            for r in found["results"] if r["algorithm"] == "auto"]


def saving(options):
    with tempfile.TemporaryDirectory(dir=options.programs) as folder:
        found = bench(options, "checkpoint", "--size", options.gigabytes, "--rounds",
                      options.rounds, "--directory", folder)
    return [[what, figure(found[key]), figure(found["bytes"] / found[key] / 1e9)]
            for what, key in (("raw write", "raw_write_seconds"), ("save", "save_seconds"),
                              ("load", "load_seconds"), ("verify", "verify_seconds"))]


def pytorch(options):
    return read_pytorch(run(
        options, "/usr/bin/python3", ROOT / "tests/bench/pytorch_zoo.py", "--ringfire",
        options.programs / "tools/ringfire-bench", "--device", options.device, "--rounds",
        options.rounds, "--seconds", options.seconds))


def read_pytorch(text):
    """The rows of what pytorch_zoo.py prints."""
    rows = re.findall(r"(?m)^(\w+) +(\d+) +(\w+)/s +(\d+) +\w+/s +([\d.]+) ", text)
    mean = re.search(r"geometric mean of \d+: ([\d.]+)", text)[1]
    return [[name, "{:,} {}".format(int(ours), unit), "{:,} {}".format(int(theirs), unit), ratio]
            for name, ours, unit, theirs, ratio in rows] + [["geometric mean", "", "", mean]]


def accuracy(options):
    return read_accuracy(run(options, ROOT / "tests/accuracy", "--networks", "cnn,resnet",
                             "--examples", options.programs / "examples"))


def read_accuracy(text):
    """The rows of what tests/accuracy prints."""
    means = dict(re.findall(r"(?m)^(\w+, \w+): [^\n]*? ([\d.]+ \+- [\d.]+) \(", text))
    return [[name, means[name + ", Ringfire"], means[name + ", PyTorch"], difference, "p " + p]
            for name, difference, p in re.findall(
                r"(?m)^(\w+), Ringfire - PyTorch: difference of the means (\S+), p (\S+)", text)]


# Each a function, a heading, what the page says of it (a sentence on a line), columns.
SECTIONS = {
    "networks": (networks, "Networks", (
        "`ringfire-bench zoo` trains the networks of the examples.",
        "A first step includes compiling where the caches are empty.",
    ), ["network", "batch", "step, ms", "a second", "first step, s"]),
    "pytorch": (pytorch, "Beside PyTorch", (
        "`tests/bench/pytorch_zoo.py` trains the same networks in PyTorch on the processor, in "
        "turns.",
        "PyTorch has the setting of threads with which it is fastest.",
    ), ["network", "Ringfire, a second", "PyTorch, a second", "ratio"]),
    "accuracy": (accuracy, "Accuracy", (
        "`tests/accuracy` trains networks with several seeds in both libraries.",
        "The means are compared by Welch's t-test; p is the probability of such a difference by "
        "chance.",
    ), ["network", "Ringfire", "PyTorch", "difference", "test"]),
    "operations": (operations, "Operations", (
        "`ringfire-bench ops` times single operations.",
        "They are products of 1024 x 1024 and odd matrices, a convolution of 3x3 from 32 to 64 "
        "channels with its gradients, and additions of 4 million elements.",
    ), ["operation", "case", "kernel", "ms", "rate"]),
    "attention": (attention, "Attention", (
        "`ringfire-bench attention`, 8 heads of 64, causal.",
        "Times are those of the composed form and of the fused one, in ms.",
    ), ["length", "forward", "ratio", "with gradients", "ratio"]),
    "exchange": (exchange, "Between workers", (
        "`ringfire-bench allreduce` sums f32 over two ranks of this host, which share memory.",
        "The ratios are to a plain ring in shared memory and to one over two sockets, in the same "
        "run.",
    ), ["bytes", "us", "GB/s", "of a shared ring", "of a socket ring"]),
    "saving": (saving, "Saving", (
        "`ringfire-bench checkpoint` saves and loads random normal numbers, compressed and "
        "synced.",
    ), ["what", "seconds", "GB/s"]),
}
LONG = {"pytorch", "accuracy"}


def machine():
    name = re.search(r"model name\s*: (.*)", pathlib.Path("/proc/cpuinfo").read_text())
    return name[1].strip() if name else os.uname().machine


def conditions(options):
    commit = run(options, "git", "describe", "--always", "--dirty").strip()
    load = os.getloadavg()[0]
    return {"day": str(datetime.date.today()), "machine": options.machine or machine(),
            "processors": len(os.sched_getaffinity(0)), "load": round(load, 1), "commit": commit,
            "device": options.device}


# ---- the page ----

def told(taken):
    loaded = (" that other programs used at the same time (load %.1f)" % taken["load"]
              if taken["load"] > IDLE_LOAD * taken["processors"] else ", otherwise idle")
    lines = ["Measured on %s at commit %s, with %s." % (taken["day"], taken["commit"],
                                                      taken["device"]),
             "The machine: %d processors of an %s%s." % (taken["processors"], taken["machine"],
                                                           loaded)]
    return "\n".join(lines + ([taken["note"]] if "note" in taken else []))


def markdown(heads, rows):
    """Without the columns of which nothing is known."""
    known = [i for i in range(len(heads)) if any(str(row[i]) for row in rows)]
    heads, rows = [heads[i] for i in known], [[row[i] for i in known] for row in rows]
    lines = [heads, ["---"] * len(heads), *rows]
    return "".join("| %s |\n" % " | ".join(map(str, line)) for line in lines).replace("  ", " ")


def chart(title, pairs):
    """Horizontal bars; a line marks 1."""
    most = max([1.0, *(value for _, value in pairs)])
    width, left, row = 640, 170, 24
    scale = (width - left - 60) / most
    height = row * len(pairs) + 40
    parts = ['<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" font-family="sans-serif" '
             'font-size="13" fill="currentColor">' % (width, height),
             '<text x="4" y="16" font-weight="bold">%s</text>' % title]
    for i, (name, value) in enumerate(pairs):
        y = 28 + i * row
        parts += ['<text x="%d" y="%d" text-anchor="end">%s</text>' % (left - 8, y + 14, name),
                  '<rect x="%d" y="%d" width="%.1f" height="16" opacity="0.55"/>'
                  % (left, y, value * scale),
                  '<text x="%.1f" y="%d">%.2f</text>' % (left + value * scale + 6, y + 13, value)]
    parts.append('<path d="M%.1f 24V%d" stroke="currentColor" stroke-dasharray="4 3"/>'
                 % (left + scale, height - 8))
    return "\n".join(parts) + "\n</svg>\n"


def pages(kept):
    """What is written: names of files and their texts."""
    text = """# Figures

`./dev figures` measures this tree and writes this page; changes are made by running it again.
`./dev figures SECTION...` measures sections by name, and the others keep their figures.
Rely on ratios: absolute figures change with the machine and its load.

GPUs have [records of their own](devices.md).
"""
    charts = {}
    for key, (_, heading, words, heads) in SECTIONS.items():
        if key not in kept:
            continue
        rows = kept[key]["rows"]
        text += "\n## %s\n\n%s\n%s\n\n%s" % (heading, "\n".join(words), told(kept[key]),
                                              markdown(heads, rows))
        if key == "pytorch":
            pairs = [(row[0], float(row[3])) for row in rows]
            charts[PICTURES / "figures-pytorch.svg"] = chart(
                "Speed as a part of PyTorch's", pairs)
            text += ("\n![Speed of each network as a part of PyTorch's]"
                     "(../images/figures-pytorch.svg)\n")
    return {PAGE: text, **charts}


def main():
    parser = argparse.ArgumentParser(description=__doc__, usage=argparse.SUPPRESS,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sections", nargs="*", metavar="SECTION",
                        help="%s (default: all but %s)" % (", ".join(SECTIONS), " and ".join(
                            sorted(LONG))))
    parser.add_argument("--programs", type=pathlib.Path, default=ROOT / "build/release",
                        help="the build that is measured (default: build/release)")
    parser.add_argument("--device", default="llvmpipe")
    parser.add_argument("--seconds", type=float, default=5, help="for each network (default: 5)")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--gigabytes", type=float, default=1, help="saved and loaded (default: 1)")
    parser.add_argument("--machine", help="in words, where the system does not know")
    parser.add_argument("--page", action="store_true", help="only write the page anew")
    parser.add_argument("--check", action="store_true", help="only compare the page")
    options = parser.parse_args()
    if unknown := set(options.sections) - set(SECTIONS):
        parser.error("there is no section %s; there are %s" % (", ".join(sorted(unknown)),
                                                               ", ".join(SECTIONS)))
    kept = json.loads(KEPT.read_text()) if KEPT.exists() else {}
    if options.check:
        wrong = [p for p, text in pages(kept).items() if not p.exists() or p.read_text() != text]
        print("\n".join("%s is not what figures.json gives: %s --page" % (p, sys.argv[0])
                        for p in wrong) or "%d sections" % len(kept))
        return 1 if wrong or len(kept) < len(SECTIONS) else 0
    if not options.page:
        for key in options.sections or [key for key in SECTIONS if key not in LONG]:
            print("measuring: %s" % key, file=sys.stderr)
            taken = conditions(options)
            kept[key] = {**taken, "rows": SECTIONS[key][0](options)}
        KEPT.write_text(json.dumps(kept, indent=1) + "\n")
    for path, text in pages(kept).items():
        path.write_text(text)
        print("wrote %s" % path.relative_to(ROOT))
    return 0


if __name__ == "__main__":
    sys.exit(main())
