# SPDX-License-Identifier: Apache-2.0
"""What the scripts share that compute a model's first steps with PyTorch in double precision.

A trajectory file is gzip of, little-endian and without padding:

    8 bytes   "RFTRAJ02"
    u32 x 3   number of variables V, of steps B, of components of a batch C
    V times   u32 length and bytes of the name, u32 rank, u32 x rank dimensions, f32 x count
              initial value
    C times   u32 type (0: f32, 1: i32), u32 rank, u32 x rank dimensions, that of the batch included
    B times   the components' elements
    f64 x B   loss of each step, before its update
    V times   f32 x count gradient of the first step
"""
import gzip
import struct

import numpy as np
import torch

TYPES = {np.dtype(np.float32): 0, np.dtype(np.int32): 1}


def normal(rng, *shape, mean=0.0):
    """An initial value."""
    return (mean + 0.4 * rng.standard_normal(shape)).astype(np.float32)


def dimensions(array):
    return struct.pack("<%dI" % (1 + array.ndim), array.ndim, *array.shape)


def adam(parameters):
    return torch.optim.Adam(parameters, lr=1e-3, eps=1e-7)


def follow(variables, batches, loss, create_optimizer):
    """Trains `variables`, a dictionary of f32 arrays. loss(variables, *components) is a scalar
    tensor of double precision. Returns the losses and the gradients of the first step."""
    torch.manual_seed(0)
    parameters = {name: torch.tensor(value, dtype=torch.float64, requires_grad=True) for name,
                  value in variables.items()}
    optimizer = create_optimizer(parameters.values())
    losses, first = [], None
    for batch in batches:
        optimizer.zero_grad()
        value = loss(parameters,
                     *(torch.tensor(c, dtype=torch.float64 if c.dtype == np.float32
                                    else torch.int64) for c in batch))
        value.backward()
        first = first or {name: p.grad.numpy().copy() for name, p in parameters.items()}
        losses.append(value.item())
        optimizer.step()
    return losses, first


def write_results(path, variables, batches, losses, gradients):
    # Without name and time the same run gives the same bytes.
    with open(path, "wb") as raw, gzip.GzipFile(filename="", mode="wb", fileobj=raw, mtime=0) as f:
        f.write(b"RFTRAJ02" + struct.pack("<3I", len(variables), len(batches), len(batches[0])))
        for name, value in variables.items():
            f.write(struct.pack("<I", len(name)) + name.encode() + dimensions(value)
                    + value.astype("<f4").tobytes())
        for component in batches[0]:
            f.write(struct.pack("<I", TYPES[component.dtype]) + dimensions(component))
        for batch in batches:
            for component in batch:
                f.write(component.astype(component.dtype.newbyteorder("<")).tobytes())
        f.write(struct.pack("<%dd" % len(losses), *losses))
        for name in variables:
            f.write(gradients[name].astype("<f4").tobytes())
    print("%s: %d parameters, losses %.6f ... %.6f"
          % (path, sum(v.size for v in variables.values()), losses[0], losses[-1]))


def write(path, variables, batches, loss, create_optimizer=adam):
    write_results(path, variables, batches, *follow(variables, batches, loss, create_optimizer))
