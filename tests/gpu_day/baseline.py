# SPDX-License-Identifier: Apache-2.0
"""What PyTorch reaches on this machine's GPU, or with --small on its processor: products (on an NVIDIA GPU cuBLAS', on AMD rocBLAS'), and
the training of the reference CNN, step by step and as a captured graph, and of the networks of the examples step by step. Prints one JSON object. Matrix units that round float32 to
TF32 are off unless a figure's name says tf32.

Usage: baseline.py [--small] [--seconds X]"""
import argparse
import json
import pathlib
import sys
import time

import torch
import torch.nn.functional as F

from phases import NETWORKS, PRODUCTS

sys.path.append(str(pathlib.Path(__file__).resolve().parent.parent / "bench"))  # a bundle has these beside it
import pytorch_training  # noqa: E402
from pytorch_networks import cnn  # noqa: E402

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
    kinds = {"float32": torch.float32} if small else {"float32": torch.float32, "tf32": torch.float32, "bfloat16": torch.bfloat16,
                                                      "float16": torch.float16}
    for name, kind in kinds.items():
        torch.backends.cuda.matmul.allow_tf32 = name == "tf32"
        for n in PRODUCTS[:2] if small else PRODUCTS:
            a, b = (torch.randn(n, n, device=meter.device).to(kind) for _ in range(2))
            found["%s %d" % (name, n)] = 2 * n ** 3 / meter(lambda: torch.mm(a, b)) / 1e9
    torch.backends.cuda.matmul.allow_tf32 = False
    return found


def training(meter, channels_last, graph):
    """Images a second of the CNN's training."""
    model = cnn().to(meter.device)
    images, labels = torch.rand(BATCH, 1, 28, 28, device=meter.device), torch.arange(BATCH, device=meter.device) % 10
    if channels_last:
        model, images = model.to(memory_format=torch.channels_last), images.to(memory_format=torch.channels_last)
    adam = torch.optim.Adam(model.parameters(), capturable=True) if graph else torch.optim.Adam(model.parameters())

    def step():
        adam.zero_grad(set_to_none=True)
        F.cross_entropy(model(images), labels).backward()
        adam.step()

    work = step
    if graph:
        side = torch.cuda.Stream()
        with torch.cuda.stream(side):  # what the capture allocates must have run before, on another stream
            for _ in range(WARM_UP):
                step()
        torch.cuda.current_stream().wait_stream(side)
        captured = torch.cuda.CUDAGraph()
        with torch.cuda.graph(captured):
            step()
        work = captured.replay
    return BATCH / meter(work)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, usage=argparse.SUPPRESS)
    parser.add_argument("--small", action="store_true", help="what fits some seconds, on the processor")
    parser.add_argument("--seconds", type=float, help="for each figure (1, with --small 0.1)")
    o = parser.parse_args()
    on_gpu = torch.cuda.is_available() and not o.small
    meter = Meter(torch.device("cuda" if on_gpu else "cpu"), o.seconds or (0.1 if o.small else 1))
    torch.backends.cudnn.allow_tf32 = False
    found = {"pytorch": torch.__version__, "device": torch.cuda.get_device_name() if on_gpu else "cpu", "images_per_second": {}, "errors": {}}
    forms = {"eager": (False, False), "eager, channels last": (True, False)}
    if on_gpu:
        forms.update({"graph": (False, True), "graph, channels last": (True, True)})
    for name, form in forms.items():
        try:
            found["images_per_second"][name] = training(meter, *form)
        except RuntimeError as e:  # a version that cannot capture costs that figure, not the others
            found["errors"][name] = str(e).splitlines()[0]
    found["gflops"] = products(meter, not on_gpu)
    found["units_per_second"] = {}
    for name, batch in NETWORKS.items():
        if o.small and name != "ncf":
            continue
        try:
            found["units_per_second"][name] = pytorch_training.units_per_second(name, batch, meter.seconds / 2, meter.device.type)
        except (RuntimeError, AttributeError, TypeError) as e:  # of a version that lacks something
            found["errors"][name] = str(e).splitlines()[0]
    print(json.dumps(found))


main()
