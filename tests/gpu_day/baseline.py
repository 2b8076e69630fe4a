# SPDX-License-Identifier: Apache-2.0
"""What PyTorch reaches on this machine's GPU, or with --small on its processor: products (on an
NVIDIA GPU cuBLAS', on AMD rocBLAS'), and the training of the reference CNN and of the networks of
the examples, in each form that a user may choose: step by step, as a captured graph, compiled, and
pictures in either layout. Prints one JSON object. Matrix units that round float32 to TF32 are off
unless a figure's name says tf32.

Usage: baseline.py [--small] [--seconds X] [--budget SECONDS]"""
import argparse
import itertools
import json
import os
import pathlib
import signal
import sys
import time

# Of the pools' threads only those of PyTorch itself: on a processor those of its BLAS get in their
# way (tests/bench/pytorch_settings.py).
os.environ.setdefault("OMP_NUM_THREADS", str(len(os.sched_getaffinity(0))))
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
import torch  # noqa: E402

from phases import NETWORKS, PRODUCTS  # noqa: E402

# a bundle has these beside it
sys.path.append(str(pathlib.Path(__file__).resolve().parent.parent / "bench"))
import pytorch_training  # noqa: E402

BATCH, WARM_UP, SLICES = 64, 3, 5


class Meter:
    def __init__(self, device, seconds):
        self.device, self.seconds = device, seconds

    def wait(self):
        if self.device.type == "cuda":
            torch.cuda.synchronize()

    def __call__(self, work):
        """Seconds that a call takes, the best of some slices."""
        for _ in range(WARM_UP):
            work()
        self.wait()
        best = None
        for _ in range(SLICES):
            start, calls = time.perf_counter(), 0
            while calls == 0 or time.perf_counter() - start < self.seconds / SLICES:
                for _ in range(8 if calls else 1):
                    work()
                    calls += 1
                self.wait()
            taken = (time.perf_counter() - start) / calls
            best = taken if best is None else min(best, taken)
        return best


def products(meter, small):
    found = {}
    kinds = {"float32": torch.float32} if small else {
        "float32": torch.float32, "tf32": torch.float32, "bfloat16": torch.bfloat16,
                                                      "float16": torch.float16}
    for name, kind in kinds.items():
        torch.backends.cuda.matmul.allow_tf32 = name == "tf32"
        for n in PRODUCTS[:2] if small else PRODUCTS:
            a, b = (torch.randn(n, n, device=meter.device).to(kind) for _ in range(2))
            found["%s %d" % (name, n)] = 2 * n ** 3 / meter(lambda: torch.mm(a, b)) / 1e9
    torch.backends.cuda.matmul.allow_tf32 = False
    return found


class Forms:
    """What the networks reach in each form that a user may choose. Compiling can take a minute a
    network: it comes last, and goes as far as the time does."""

    def __init__(self, meter, on_gpu, budget):
        self.meter, self.captures = meter, on_gpu
        self.compiles = on_gpu and hasattr(torch, "compile")
        self.deadline, self.rates, self.errors = time.monotonic() + budget, {}, {}

    def measure(self, name, batch, form):
        """Keeps the rate: a form that this version cannot do costs that figure, not the others."""
        def too_late(*_):
            raise TimeoutError("no time was left")

        before = signal.signal(signal.SIGALRM, too_late)
        try:
            signal.setitimer(signal.ITIMER_REAL, max(0.001, self.deadline - time.monotonic()))
            step = pytorch_training.step_of(name, batch, self.meter.device.type, form)
            units = batch * pytorch_training.UNITS[name][1]
            self.rates.setdefault(name, {})[str(form)] = units / self.meter(step)
        except Exception as e:
            self.errors["%s, %s" % (name, form)] = (str(e).splitlines() or [type(e).__name__])[0]
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, before)

    def measure_all(self, batches):
        either = False, True
        ways = itertools.product(either[:1 + self.compiles], either[:1 + self.captures])
        for (compiled, captured), (name, batch) in itertools.product(ways, batches.items()):
            for channels_last in either[:1 + pytorch_training.takes_pictures(name)]:
                self.measure(name, batch, pytorch_training.Form(channels_last, compiled, captured))


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter,
                                     usage=argparse.SUPPRESS)
    parser.add_argument("--small", action="store_true",
                        help="what fits some seconds, on the processor")
    parser.add_argument("--seconds", type=float, help="for each figure (0.4, with --small 0.1)")
    parser.add_argument("--budget", type=float, default=1e6, help="seconds for everything")
    o = parser.parse_args()
    start, on_gpu = time.monotonic(), torch.cuda.is_available() and not o.small
    meter = Meter(torch.device("cuda" if on_gpu else "cpu"), o.seconds or (0.1 if o.small else 0.4))
    torch.backends.cudnn.allow_tf32 = False
    found = {"pytorch": torch.__version__, "gflops": products(meter, not on_gpu),
             "device": torch.cuda.get_device_name() if on_gpu else "cpu"}
    forms = Forms(meter, on_gpu, o.budget - (time.monotonic() - start))
    forms.measure_all({"cnn": BATCH, **({"ncf": NETWORKS["ncf"]} if o.small else NETWORKS)})
    print(json.dumps({**found, "rates": forms.rates, "errors": forms.errors}))


main()
