# SPDX-License-Identifier: Apache-2.0
"""GGUF files by other means: a reader (support/gguf_file.py) and a writer of the tests' own.
Usage: test_gguf.py GGUF_NUMBERS"""
import math
import os
import pathlib
import random
import struct
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from gguf_file import read, write  # noqa: E402

PROGRAM = sys.argv[1]


# ---- blocks, number by number ----
def half(data, at):
    return struct.unpack_from("<e", data, at)[0]


def q4_0(block):
    return [half(block, 0) * ((block[2 + i % 16] >> (4 if i >= 16 else 0) & 15) - 8)
            for i in range(32)]


def q8_0(block):
    return [half(block, 0) * q for q in struct.unpack_from("<32b", block, 2)]


def q4_k(block):
    d, of_minima, packed, out = half(block, 0), half(block, 2), block[4:16], []
    scales = [b & 63 for b in packed[:4]]
    minima = [b & 63 for b in packed[4:8]]
    for i in range(4):
        scales.append((packed[8 + i] & 15) + 16 * (packed[i] >> 6))
        minima.append((packed[8 + i] >> 4) + 16 * (packed[4 + i] >> 6))
    for i in range(256):
        pair = block[16 + i // 64 * 32 + i % 32]
        number = pair >> 4 if i % 64 >= 32 else pair & 15
        out.append(d * scales[i // 32] * number - of_minima * minima[i // 32])
    return out


def q6_k(block):
    d, out = half(block, 208), []
    scales = struct.unpack_from("<16b", block, 192)
    for i in range(256):
        side, quarter, k = i // 128, i % 128 // 32, i % 32
        low = block[64 * side + 32 * (quarter % 2) + k] >> (4 if quarter >= 2 else 0) & 15
        high = block[128 + 32 * side + k] >> (2 * quarter) & 3
        out.append(d * scales[i // 16] * (low + 16 * high - 32))
    return out


# Type, numbers, bytes of a block, where its scales of 16 bits are.
BLOCKS = {"q4_0": (2, 32, 18, (0,), q4_0), "q8_0": (8, 32, 34, (0,), q8_0),
          "q4_k": (12, 256, 144, (0, 2), q4_k), "q6_k": (14, 256, 210, (208,), q6_k)}


class Gguf(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.path = os.path.join(self.folder.name, "m.gguf")

    def tearDown(self):
        self.folder.cleanup()

    def numbers(self, name):
        out = subprocess.run([PROGRAM, "read", self.path, name], check=True, timeout=60,
                             stdout=subprocess.PIPE).stdout
        return struct.unpack("<%df" % (len(out) // 4), out)

    def test_blocks_are_read(self):
        rng = random.Random(5)
        tensors, expected = {}, {}
        for name, (kind, numbers, size, halves, decode) in BLOCKS.items():
            data, expected[name] = b"", []
            for _ in range(24):
                block = bytearray(rng.randbytes(size))
                for at in halves:
                    struct.pack_into("<e", block, at, rng.uniform(-2, 2))
                data += block
                expected[name] += decode(bytes(block))
            tensors[name] = [4 * numbers, 3, 2], kind, data
        with open(self.path, "wb") as file:
            file.write(write({}, tensors))
        for name, numbers in expected.items():
            read_back = self.numbers(name)
            self.assertEqual(len(read_back), len(numbers))
            for a, b in zip(read_back, numbers):
                self.assertLessEqual(abs(a - b), 1e-6 * (abs(b) + 100), name)

    def test_written_files_are_read(self):
        subprocess.run([PROGRAM, "write", self.path], check=True, timeout=60)
        with open(self.path, "rb") as file:
            values, tensors = read(file.read())
        self.assertEqual(values, {"general.architecture": "sample", "general.alignment": 64,
                                  "sample.pi": math.pi, "sample.small": [-1, 0, 127],
                                  "sample.yes": True,
                                  "tokenizer.ggml.tokens": ["first", "\u2581second"]})
        self.assertEqual({name: dims for name, (dims, _, _) in tensors.items()},
                         {"f32": [256, 4], "f16": [1024], "bf16": [256, 2, 2],
                          "q8_0": [32, 8, 4]})
        numbers = [math.sin(i) * i for i in range(1024)]
        f32 = struct.unpack_from("<1024f", tensors["f32"][2])
        f16 = struct.unpack_from("<1024e", tensors["f16"][2])
        bf16 = [struct.unpack("<f", bytes(2) + tensors["bf16"][2][2 * i:2 * i + 2])[0]
                for i in range(1024)]
        q8 = []
        for i in range(32):
            q8 += q8_0(tensors["q8_0"][2][34 * i:34 * i + 34])
        for i, x in enumerate(numbers):
            most = max(abs(y) for y in numbers[i // 32 * 32:i // 32 * 32 + 32])
            self.assertLessEqual(abs(f32[i] - x), 1e-4)
            self.assertLessEqual(abs(f16[i] - x), abs(x) / 2048 + 1e-4)
            self.assertLessEqual(abs(bf16[i] - x), abs(x) / 256 + 1e-4)
            self.assertLessEqual(abs(q8[i] - x), most / 127 * 0.57 + 1e-4)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
