# SPDX-License-Identifier: Apache-2.0
"""Weights of the library's recurrent layers in the form of PyTorch's."""
import torch


def gates(x):
    """Columns in the order update, reset, candidate -> rows in PyTorch's: reset, update,
    candidate."""
    update, reset, candidate = x.chunk(3, -1)
    return torch.cat([reset, update, candidate], -1)


def weights(v, name, order=lambda x: x):
    bias = order(v[name + "/bias"])
    recurrent = (order(v[name + "/recurrent_bias"]) if name + "/recurrent_bias" in v
                 else torch.zeros_like(bias))
    return [order(v[name + "/kernel"]).T.contiguous(),
            order(v[name + "/recurrent_kernel"]).T.contiguous(), bias, recurrent]
