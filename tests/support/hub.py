# SPDX-License-Identifier: Apache-2.0
"""Directories in the form of the Hugging Face hub: config.json and safetensors files, written and
read from the description of the format."""
import json
import struct

import numpy as np

TYPES = {"F64": "<f8", "F32": "<f4", "F16": "<f2", "BF16": "<u2", "I64": "<i8", "I32": "<i4",
         "U8": "u1", "BOOL": "?"}


def encode(array, kind):
    """The bytes of an array in a type of the format."""
    if kind != "BF16":
        return np.ascontiguousarray(array, TYPES[kind]).tobytes()
    bits = np.ascontiguousarray(array, "<f4").view("<u4").astype(np.uint64)
    return ((bits + 0x7fff + (bits >> 16 & 1)) >> 16).astype("<u2").tobytes()


def decode(data, kind, shape):
    values = np.frombuffer(data, TYPES[kind])
    if kind == "BF16":
        values = (values.astype("<u4") << 16).view("<f4")
    return values.reshape(shape)


def write_tensors(path, tensors):
    """tensors: {name: (type, shape, bytes)}."""
    header, at = {"__metadata__": {"format": "pt"}}, 0
    for name, (kind, shape, data) in tensors.items():
        header[name] = {"dtype": kind, "shape": list(shape), "data_offsets": [at, at + len(data)]}
        at += len(data)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(struct.pack("<Q", len(text)) + text + b"".join(t[2] for t in tensors.values()))


def read_tensors(path):
    """{name: (type, shape, bytes)}, and the metadata."""
    data = path.read_bytes()
    size, = struct.unpack("<Q", data[:8])
    header = json.loads(data[8:8 + size])
    metadata = header.pop("__metadata__", {})
    return {name: (e["dtype"], tuple(e["shape"]), data[8 + size + e["data_offsets"][0]:
                                                       8 + size + e["data_offsets"][1]])
            for name, e in header.items()}, metadata


def read_values(path):
    """{name: array}."""
    return {name: decode(data, kind, shape) for name, (kind, shape, data) in
            read_tensors(path)[0].items()}


def write_directory(path, config, weights, kind="F32", shards=1):
    """weights: {name: array}. Integers are I64."""
    path.mkdir(parents=True)
    (path / "config.json").write_text(json.dumps(config, indent=2))
    tensors = {name: (of, array.shape, encode(array, of)) for name, array in weights.items()
               for of in ("I64" if array.dtype == np.int64 else kind,)}
    if shards == 1:
        write_tensors(path / "model.safetensors", tensors)
        return
    names, index = list(tensors), {}
    for i in range(shards):
        file = "model-%05d-of-%05d.safetensors" % (i + 1, shards)
        part = names[i::shards]
        write_tensors(path / file, {name: tensors[name] for name in part})
        index.update({name: file for name in part})
    (path / "model.safetensors.index.json").write_text(json.dumps(
        {"metadata": {"total_size": sum(len(t[2]) for t in tensors.values())},
         "weight_map": index}))


def read_directory(path):
    """{name: (type, shape, bytes)} of all its files."""
    tensors = {}
    for file in sorted(path.glob("*.safetensors")):
        tensors.update(read_tensors(file)[0])
    return tensors
