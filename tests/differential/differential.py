#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Random operations and graphs through the library and through PyTorch in double precision:
results, and gradients by every input.

differential.py DRIVER                        the stored cases, then random ones for a fresh seed
differential.py DRIVER --count 2000           so many random cases (./dev differential 2000)
differential.py DRIVER --seconds 60           as many as fit
differential.py DRIVER --seed N --case K      one random case again
differential.py DRIVER --file CASE.json       one stored case

Every case runs on every device of --devices (lavapipe's and SwiftShader's by default; those that
are not installed are left out, and VK_DRIVER_FILES says where else drivers are). What differs by
more than the error model of oracle.py allows is written to tests/differential/failures (--failures
DIR); move it to tests/differential/cases once it is fixed: what lies there is run each time. Needs
Debian's python3-torch; exits with 77 where it is missing. """
import argparse
import glob
import json
import math
import os
import pathlib
import random
import subprocess
import sys
import time

SKIP = 77
HERE = pathlib.Path(__file__).resolve().parent
DEVICES = ["llvmpipe", "SwiftShader"]
DRIVERS = ["/usr/share/vulkan/icd.d/lvp_icd*.json", "/usr/lib/chromium/vk_swiftshader_icd.json"]
MAX_RESULTS = 8  # of one run of the driver

try:
    import numpy
    import torch
except ImportError as missing:
    print("SKIP: differential test: %s; Debian's python3-torch and libopenblas0-pthread have it"
          % missing)
    sys.exit(SKIP)
import generate  # noqa: E402
import oracle  # noqa: E402

TYPES = {"f32": numpy.float32, "i32": numpy.int32, "u8": numpy.uint8}


class Driver:
    """The library's side."""

    def __init__(self, program, devices):
        self.devices = [d for d in devices if self.has(program, d)]
        self.process = subprocess.Popen([program, *self.devices], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE) if self.devices else None
        if self.process and self.process.stdout.readline() != b"ready\n":
            raise SystemExit("the driver does not start")

    @staticmethod
    def has(program, device):
        done = subprocess.run([program, device], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, text=True)
        if done.returncode:
            print("left out: %s (%s)" % (device, done.stderr.strip()))
        return done.returncode == 0

    def run(self, case, leaves):
        """For each device the results and gradients, or a message."""
        outputs = list(case["results"]) + [len(case["steps"]) + i
                                           for i in range(len(case["targets"]))]
        parts = [self.run_part(case, leaves, outputs[i:i + MAX_RESULTS])
                 for i in range(0, len(outputs), MAX_RESULTS)]
        return [next((p[d] for p in parts if isinstance(p[d], str)), None)
                or [v for p in parts for v in p[d]] for d in range(len(self.devices))]

    def run_part(self, case, leaves, outputs):
        arrays, send = iter(leaves), self.process.stdin
        for step in case["steps"]:
            if "leaf" in step:
                shape = step["shape"]
                send.write(("leaf %s %d %s\n"
                            % (step["leaf"], len(shape), " ".join(map(str, shape)))).encode(
                                ).replace(b" \n", b"\n"))
                send.write(next(arrays).tobytes())
            else:
                numbers = step.get("numbers", [])
                words = [step["op"], len(step["in"]), *step["in"], len(numbers),
                         *map(repr, numbers)]
                send.write(("op %s\n" % " ".join(map(str, words))).encode())
        if case["targets"]:
            send.write(("gradients %d %d %s\n"
                        % (case["loss"], len(case["targets"]),
                           " ".join(map(str, case["targets"])))).encode())
        send.write("".join("result %d\n" % i for i in outputs).encode() + b"run\n")
        send.flush()
        return [self.read(len(outputs)) for _ in self.devices]

    def read(self, count):
        line = self.process.stdout.readline().decode()
        if not line:
            raise SystemExit("the driver ended with status %s" % self.process.wait())
        if line != "ok\n":
            return line.strip()
        values = []
        for _ in range(count):
            _, name, _, *shape = self.process.stdout.readline().decode().split()
            shape, dtype = [int(d) for d in shape], numpy.dtype(TYPES[name])
            values.append(
                numpy.frombuffer(self.process.stdout.read(math.prod(shape) * dtype.itemsize),
                                 dtype).reshape(shape))
        return values

    def close(self):
        if self.process:
            self.process.stdin.close()
            self.process.wait()


def difference(got, want, limit):
    """What is wrong with a result, or None."""
    if list(got.shape) != list(want.shape):
        return "its shape is %s, not %s" % (list(got.shape), list(want.shape))
    got = got.astype(numpy.float64)
    with numpy.errstate(invalid="ignore", divide="ignore"):
        same = (got == want) | (numpy.isnan(got) & numpy.isnan(want))
        excess = numpy.where(same, 0.0, numpy.abs(got - want) / limit)
    excess = numpy.where(numpy.isnan(excess) & ~numpy.isinf(limit), numpy.inf,
                         numpy.nan_to_num(excess, nan=0.0, posinf=numpy.inf))
    if not (excess > 1).any():
        return None
    at = numpy.unravel_index(numpy.argmax(excess), want.shape)
    return "element %s is %.9g, not %.9g (%.3g off, at most %.3g; %d of %d elements differ)" % (
        [int(i) for i in at], got[at], want[at], abs(got[at] - want[at]), limit[at], int(
            (excess > 1).sum()), want.size)


def describe(case):
    steps = [s["op"] if "op" in s else "leaf%s" % s["shape"] for s in case["steps"]]
    return " ".join(steps)


def check(driver, case):
    """What is wrong with a case: lines of text."""
    leaves = generate.leaves_of(case)
    want, limits = oracle.expect(case, leaves)
    names = ["value %d (%s)" % (i, case["steps"][i].get("op", "leaf")) for i in case["results"]]
    names += ["gradient by value %d (%s)" % (i, case["steps"][i].get("op", "leaf"))
              for i in case["targets"]]
    wrong = []
    for device, got in zip(driver.devices, driver.run(case, leaves)):
        if isinstance(got, str):
            wrong.append("%s: %s" % (device, got))
            continue
        for name, g, w, limit in zip(names, got, want, limits):
            text = difference(g, w, limit)
            if text:
                wrong.append("%s: %s: %s" % (device, name, text))
    return wrong


def report(name, case, wrong):
    print("FAIL %s: %s" % (name, describe(case)))
    for line in wrong:
        print("     " + line, flush=True)


def stored(driver, files):
    failed = 0
    for path in files:
        case = json.loads(path.read_text())
        wrong = check(driver, case)
        if wrong:
            report(path.name, case, wrong)
            failed += 1
    print("%d stored cases, %d failed" % (len(files), failed), flush=True)
    return failed


def write_failure(folder, seed, number, case, wrong):
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / ("%d_%d.json" % (seed, number))
    path.write_text(json.dumps({"found": wrong[:2], **case}, indent=1) + "\n")
    print("     stored as %s" % path, flush=True)


def random_cases(driver, args):
    """Numbers of cases that ran and failed."""
    numbers = [args.case] if args.case is not None else range(args.count) if args.count else iter(
        range(1 << 62))
    end = time.monotonic() + args.seconds if args.seconds else math.inf
    ran = failed = 0
    for number in numbers:
        if time.monotonic() > end:
            break
        case = generate.case(args.seed, number)
        try:
            wrong = check(driver, case)
        except SystemExit:
            report("--seed %d --case %d" % (args.seed, number), case, ["the driver ended"])
            raise
        ran += 1
        if wrong:
            failed += 1
            report("--seed %d --case %d" % (args.seed, number), case, wrong)
            write_failure(args.failures, args.seed, number, case, wrong)
        if ran % 100 == 0:
            print("%d cases, %d failed" % (ran, failed), flush=True)
    return ran, failed


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("driver")
    parser.add_argument("--count", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=0)
    parser.add_argument("--seed", type=int)
    parser.add_argument("--case", type=int)
    parser.add_argument("--file", type=pathlib.Path, action="append")
    parser.add_argument("--devices", default=",".join(DEVICES))
    parser.add_argument("--failures", type=pathlib.Path, default=HERE / "failures")
    args = parser.parse_args()
    if args.seed is None:
        args.seed = random.SystemRandom().randrange(1 << 31)
    if not args.count and not args.seconds:
        args.count = 200
    torch.set_num_threads(1)
    if not os.environ.get("VK_DRIVER_FILES"):
        os.environ["VK_DRIVER_FILES"] = ":".join(
            f for pattern in DRIVERS for f in glob.glob(pattern))
    driver = Driver(args.driver, args.devices.split(","))
    if not driver.devices:
        print("SKIP: differential test: none of the devices %s is installed" % args.devices)
        return SKIP
    failed = 0
    if args.case is None:
        failed = stored(driver, args.file or sorted((HERE / "cases").glob("*.json")))
    if not args.file:
        print("seed %d on %s (PyTorch %s)" % (args.seed, ", ".join(driver.devices),
                                              torch.__version__), flush=True)
        ran, bad = random_cases(driver, args)
        print("%d random cases of seed %d, %d failed" % (ran, args.seed, bad))
        failed += bad
    driver.close()
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
