# SPDX-License-Identifier: Apache-2.0
"""Numbers in 8 and 4 bits, and which weights check_pretrained.py stores so: written from the
descriptions of the formats, beside the library's own."""
import re

import numpy as np

NF4 = np.array([
    -1.0, -0.6961928009986877, -0.5250730514526367, -0.39491748809814453, -0.28444138169288635,
    -0.18477343022823334, -0.09105003625154495, 0.0, 0.07958029955625534, 0.16093020141124725,
    0.24611230194568634, 0.33791524171829224, 0.44070982933044434, 0.5626170039176941,
    0.7229568362236023, 1.0], np.float32)


def inverse_of(scale):
    return np.divide(np.float32(1), scale, out=np.zeros_like(scale), where=scale != 0)


def int8(blocks):
    d = np.abs(blocks).max(1, keepdims=True) / np.float32(127)
    scaled = blocks * inverse_of(d)
    return np.sign(scaled) * np.floor(np.abs(scaled) + 0.5) * d.astype(np.float16)


def q4_0(blocks):
    most = np.take_along_axis(blocks, np.abs(blocks).argmax(1)[:, None], 1)
    d = most / np.float32(-8)
    codes = np.minimum(15, np.floor(blocks * inverse_of(d) + np.float32(8.5)))
    return (codes - 8) * d.astype(np.float16)


def nf4(blocks):
    d = np.abs(blocks).max(1, keepdims=True).astype(np.float16).astype(np.float32)
    distances = np.abs((blocks * inverse_of(d))[:, :, None] - NF4)
    return NF4[distances.argmin(2)] * d


FORMS = {"int8": (int8, 32), "nf4": (nf4, 64), "q4_0": (q4_0, 32)}


def rounded(kind, lines):
    """The lines [n, length] as they are once they are stored."""
    form, block = FORMS[kind]
    n, length = lines.shape
    padded = np.zeros((n, -(-length // block) * block), np.float32)
    padded[:, :length] = lines
    return form(padded.reshape(-1, block)).astype(np.float32).reshape(n, -1)[:, :length]


TABLES = r"(wte|wpe|embed_tokens|embeddings\.\w+)\.weight$"


def is_quantized(name, weight, tables):
    if weight.ndim != 2 or re.search(r"wpe|position", name):
        return False
    return tables if re.search(TABLES, name) else tables or not name.startswith("lm_head")


def quantize(kind, config, weights, tables):
    """The weights with those in few bits rounded, and the names of these. GPT-2 has its matrices
    the other way round."""
    names = [name for name, w in weights.items() if is_quantized(name, w, tables)]
    turned = config["model_type"] == "gpt2"
    result = dict(weights)
    for name in names:
        lines = weights[name].astype(np.float32)
        if turned and name.startswith("h."):
            result[name] = rounded(kind, lines.T).T.astype(np.float64)
        else:
            result[name] = rounded(kind, lines).astype(np.float64)
    return result, names
