# SPDX-License-Identifier: Apache-2.0
"""Numbers of the tensors that gguf_file.py reads."""
import numpy as np


def numbers_of(tensor):
    """The numbers of a tensor of the reader, row-major."""
    dims, kind, data = tensor
    count = int(np.prod(dims))
    if kind in (2, 8):
        numbers = ("q", "u1", 16) if kind == 2 else ("q", "i1", 32)
        blocks = np.frombuffer(data, np.dtype([("d", "<f2"), numbers]), count // 32)
        q = blocks["q"]
        if kind == 2:
            q = np.concatenate([q & 15, q >> 4], 1).astype(np.int32) - 8
        values = blocks["d"].astype(np.float64)[:, None] * q
    elif kind == 30:
        values = (np.frombuffer(data, "<u2", count).astype("<u4") << 16).view("<f4")
    else:
        values = np.frombuffer(data, {0: "<f4", 1: "<f2"}[kind], count)
    return values.astype(np.float64).reshape(dims[::-1])
