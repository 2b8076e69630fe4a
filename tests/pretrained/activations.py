# SPDX-License-Identifier: Apache-2.0
"""Activations by the names that configurations give them."""
import math

import torch
import torch.nn.functional as F

ACTIVATIONS = {
    "relu": torch.relu,
    "gelu": F.gelu,
    "gelu_new": lambda x: x / 2 * (1 + torch.tanh(math.sqrt(2 / math.pi)
                                                 * (x + 0.044715 * x**3))),
    "silu": lambda x: x * torch.sigmoid(x),
    "tanh": torch.tanh,
}
ACTIVATIONS["gelu_pytorch_tanh"] = ACTIVATIONS["gelu_new"]
