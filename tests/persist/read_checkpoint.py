#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Reads Ringfire's checkpoints and models, by docs/reference/checkpoint-format.md, with msgpack
and zstandard.

Usage: read_checkpoint.py FILE: lists what it holds; read_checkpoint.py FILE NAME: the numbers of a
tensor, one per line."""
import os
import struct
import sys

import msgpack
import zstandard

MASK = (1 << 64) - 1
P1, P2, P3, P4, P5 = (0x9E3779B185EBCA87, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9,
                      0x85EBCA77C2B2AE63, 0x27D4EB2F165667C5)
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
        h, at = (rotate(h ^ lane(0, struct.unpack_from("<Q", data, at)[0]), 27) * P1
                 + P4) & MASK, at + 8
    if at + 4 <= len(data):
        h, at = (rotate(h ^ struct.unpack_from("<I", data, at)[0] * P1 & MASK, 23) * P2
                 + P3) & MASK, at + 4
    for byte in data[at:]:
        h = rotate(h ^ byte * P5 & MASK, 11) * P1 & MASK
    h = (h ^ h >> 33) * P2 & MASK
    h = (h ^ h >> 29) * P3 & MASK
    return h ^ h >> 32


def expect(truth, what):
    if not truth:
        raise ValueError(what)


def read(path, expected=None):
    """(type, values, {name: (dtype, shape, numbers)})"""
    with open(path, "rb") as file:
        data = file.read()
    expect(len(data) >= 80 and data[:8] == b"\x89RFCK\r\n\x1a",
           "no checkpoint, or one that is not complete")
    version, size, begin, length, digest, own = struct.unpack_from("<6Q", data, 8)
    expect(own == xxh64(data[:48]) and data[-24:] == data[16:24] + data[48:56] + data[:8],
           "damaged or cut")
    expect(version in (1, 2) and size == len(data) and begin + length + 24 == size,
           "another version or size")
    expect(expected in (None, [size, own]), path + " is of another save")
    expect(digest == xxh64(data[begin:begin + length]), "the header is damaged")
    header = msgpack.unpackb(data[begin:begin + length])
    tensors, at = {}, 56
    parts = [read(os.path.join(os.path.dirname(path), name), rest)[2] for name,
             *rest in header.get("parts", [])]
    for name, dtype, shape, *rest in header["tensors"]:
        if version == 2:
            slices = [iter(part[name][2]) if name in part else None for part in parts]
            tensors[name] = dtype, shape, [next(slices[part]) for part, count in rest[0]
                                           for _ in range(count)]
            continue
        offset, blocks = rest
        expect(offset == at, name + " is not where it should be")
        content = b""
        for transposed, frames in blocks:
            block = b""
            for stored, raw, compressed, frame_digest in frames:
                frame, at = data[at:at + stored], at + stored
                expect(xxh64(frame) == frame_digest, name + " is damaged")
                block += zstandard.ZstdDecompressor().decompress(
                    frame, max_output_size=raw) if compressed else frame
            n = len(block) // SIZES[dtype]
            content += bytes(block[p * n + i] for i in range(n)
                             for p in range(SIZES[dtype])) if transposed else block
        if dtype == "bf16":
            content = b"".join(b"\0\0" + content[i:i + 2] for i in range(0, len(content), 2))
        tensors[name] = dtype, shape, [x
                                       for (x,
                                            ) in struct.iter_unpack("<" + FORMATS[dtype], content)]
    expect(at == begin, "bytes that belong to nothing")
    return header["type"], header["values"], tensors


if __name__ == "__main__":
    if len(sys.argv) not in (2, 3):
        sys.exit(__doc__)
    kind, values, tensors = read(sys.argv[1])
    if len(sys.argv) == 3:
        print(*tensors[sys.argv[2]][2], sep="\n")
    else:
        print(kind, *("%s = %r" % item for item in values.items()), sep="\n")
        print(*("%s %s %s" % (name, dtype, shape) for name, (dtype, shape, _) in tensors.items()),
              sep="\n")
