# SPDX-License-Identifier: Apache-2.0
"""Activations by the names that configurations give them."""
import math

import torch
import torch.nn.functional as F


class Kink:
    """An activation whose slope jumps at some inputs, and how near one has come to them, relative
    to the mean input. An input that roundings move over a jump changes a gradient by more than
    they."""

    def __init__(self, function, *places):
        self.function, self.places, self.nearest = function, places, math.inf

    def __call__(self, x):
        with torch.no_grad():
            distance = min((x - place).abs().min() for place in self.places) / x.abs().mean()
            self.nearest = min(self.nearest, distance.item())
        return self.function(x)


KINKS = {"relu": Kink(torch.relu, 0), "hardswish": Kink(F.hardswish, -3, 3),
         "hardsigmoid": Kink(F.hardsigmoid, -3, 3)}


def nearest_kink(run):
    """How near the inputs of activations come to jumps in `run`."""
    for kink in KINKS.values():
        kink.nearest = math.inf
    run()
    return min(kink.nearest for kink in KINKS.values())


ACTIVATIONS = {
    "relu": KINKS["relu"],
    "gelu": F.gelu,
    "gelu_new": lambda x: x / 2 * (1 + torch.tanh(math.sqrt(2 / math.pi)
                                                 * (x + 0.044715 * x**3))),
    "silu": lambda x: x * torch.sigmoid(x),
    "tanh": torch.tanh,
}
ACTIVATIONS["gelu_pytorch_tanh"] = ACTIVATIONS["gelu_new"]
