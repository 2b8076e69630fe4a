# SPDX-License-Identifier: Apache-2.0
"""Reads checkpoints by docs/checkpoint-format.md alone, and compares them with the formulas of test_archive_fixture.c.

Usage: read_checkpoint.py WRITER FILE...: checks FILEs, and two that WRITER (test_archive_fixture) writes."""
import os
import struct
import subprocess
import sys
import tempfile

try:
    import msgpack
    import zstandard
except ImportError as missing:
    print("skipped:", missing)
    sys.exit(77)

MASK = (1 << 64) - 1
P1, P2, P3, P4, P5 = (0x9E3779B185EBCA87, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9, 0x85EBCA77C2B2AE63, 0x27D4EB2F165667C5)
SIZES = {"f32": 4, "f16": 2, "bf16": 2, "i32": 4, "u8": 1, "i64": 8}
FORMATS = {"f32": "f", "f16": "e", "bf16": "f", "i32": "i", "u8": "B", "i64": "q"}


def rotate(x, n):
    return (x << n | x >> (64 - n)) & MASK


def lane(a, word):
    return rotate((a + word * P2) & MASK, 31) * P1 & MASK


def xxh64(data):
    at, h = 0, P5
    if len(data) >= 32:
        lanes = [(P1 + P2) & MASK, P2, 0, -P1 & MASK]
        while at + 32 <= len(data):
            lanes = [lane(a, w) for a, w in zip(lanes, struct.unpack_from("<4Q", data, at))]
            at += 32
        h = sum(rotate(a, n) for a, n in zip(lanes, (1, 7, 12, 18))) & MASK
        for a in lanes:
            h = ((h ^ lane(0, a)) * P1 + P4) & MASK
    h = (h + len(data)) & MASK
    while at + 8 <= len(data):
        h, at = (rotate(h ^ lane(0, struct.unpack_from("<Q", data, at)[0]), 27) * P1 + P4) & MASK, at + 8
    if at + 4 <= len(data):
        h, at = (rotate(h ^ struct.unpack_from("<I", data, at)[0] * P1 & MASK, 23) * P2 + P3) & MASK, at + 4
    for byte in data[at:]:
        h = rotate(h ^ byte * P5 & MASK, 11) * P1 & MASK
    h = (h ^ h >> 33) * P2 & MASK
    h = (h ^ h >> 29) * P3 & MASK
    return h ^ h >> 32


def read(path):
    """(type, values, {name: (dtype, shape, numbers)})"""
    data = open(path, "rb").read()
    magic, version, size, begin, length, digest, own = struct.unpack_from("<8s6Q", data)
    assert magic == b"\x89RFCK\r\n\x1a" and version == 1 and size == len(data) and begin + length + 24 == size
    assert own == xxh64(data[:48]) and data[-24:] == data[16:24] + data[48:56] + magic
    assert digest == xxh64(data[begin:begin + length])
    header = msgpack.unpackb(data[begin:begin + length])
    tensors, at = {}, 56
    for name, dtype, shape, offset, blocks in header["tensors"]:
        assert offset == at
        content = b""
        for transposed, frames in blocks:
            block = b""
            for stored, raw, compressed, frame_digest in frames:
                frame, at = data[at:at + stored], at + stored
                assert xxh64(frame) == frame_digest
                block += zstandard.ZstdDecompressor().decompress(frame, max_output_size=raw) if compressed else frame
            n = len(block) // SIZES[dtype]
            content += bytes(block[p * n + i] for i in range(n) for p in range(SIZES[dtype])) if transposed else block
        if dtype == "bf16":
            content = b"".join(b"\0\0" + content[i:i + 2] for i in range(0, len(content), 2))
        tensors[name] = dtype, shape, [x for (x,) in struct.iter_unpack("<" + FORMATS[dtype], content)]
    assert at == begin
    return header["type"], header["values"], tensors


def check(path):
    kind, values, tensors = read(path)
    assert kind == "checkpoint" and len(tensors) == 9
    assert values == {"train/step": 1234567890123, "train/rate": 0.001, "note": "gr\u00fcn", "state": b"\0\1\2\3"}
    formula = {"f32": lambda i: (i * 7919 % 2000 - 1000) / 8, "bf16": lambda i: i % 100 - 50, "u8": lambda i: i * i % 251,
               "i32": lambda i: i * 2654435761 & 0xffffff, "i64": lambda i: i * 2 ** 33 - 7}
    formula["f16"] = formula["f32"]
    for name, (dtype, _, numbers) in tensors.items():
        assert numbers == [formula[dtype](i) for i in range(len(numbers))], name
    assert tensors["model/dense/kernel"][1] == [50, 40] and tensors["scalar"][1:] == ([], [-125.0])
    assert tensors["empty"][1:] == ([0, 3], []) and len(tensors["model/dense/kernel"][2]) == 2000
    print(path, "as expected")


with tempfile.TemporaryDirectory() as folder:
    for options in ([], ["raw"]):
        subprocess.run([sys.argv[1], "write", os.path.join(folder, "fresh"), *options], check=True)
        check(os.path.join(folder, "fresh"))
for fixture in sys.argv[2:]:
    check(fixture)
