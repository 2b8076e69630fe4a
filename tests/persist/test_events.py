# SPDX-License-Identifier: Apache-2.0
"""What the library writes as event files, read by other means. Usage: test_events.py
WRITE_EVENTS"""
import math
import os
import re
import struct
import subprocess
import sys
import tempfile
import time
import unittest
import zlib

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import read_events  # noqa: E402

WRITER = sys.argv[1]


def png_pixels(data):
    """Width, height, channels and the bytes of a PNG with 8 bits per channel that is not
    interlaced."""
    assert data[:8] == b"\x89PNG\r\n\x1a\n", data[:8]
    at, idat = 8, b""
    while at < len(data):
        size, kind = struct.unpack(">I4s", data[at:at + 8])
        body = data[at + 8:at + 8 + size]
        assert zlib.crc32(kind + body) == struct.unpack(">I", data[at + 8 + size:at + 12 + size])[0]
        if kind == b"IHDR":
            width, height, depth, color, _, _, interlace = struct.unpack(">IIBBBBB", body)
            assert depth == 8 and interlace == 0
        idat += body if kind == b"IDAT" else b""
        at += 12 + size
    channels = {0: 1, 4: 2, 2: 3, 6: 4}[color]
    raw, out, above = zlib.decompress(idat), b"", bytes(width * channels)
    for y in range(height):
        line = bytearray(raw[y * (width * channels + 1):][:width * channels + 1])
        method, line = line[0], line[1:]
        for i, _ in enumerate(line):
            a = line[i - channels] if i >= channels else 0
            b, c = above[i], above[i - channels] if i >= channels else 0
            p = a + b - c
            paeth = min((abs(p - a), 0, a), (abs(p - b), 1, b), (abs(p - c), 2, c))[2]
            line[i] = (line[i] + (0, a, b, (a + b) // 2, paeth)[method]) & 255
        out, above = out + bytes(line), bytes(line)
    return width, height, channels, out


class Events(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.logdir = os.path.join(cls.folder.name, "a", "run")
        before = time.time()
        done = subprocess.run([WRITER, cls.logdir], check=True, stdout=subprocess.PIPE, text=True,
                              timeout=60)
        cls.path = done.stdout.strip()
        cls.events = list(read_events.events(cls.path))
        cls.between = before, time.time()

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def of(self, tag):
        return [e for e in self.events if e.get("tag") == tag]

    def test_file(self):
        self.assertEqual(os.listdir(self.logdir), [os.path.basename(self.path)])
        self.assertRegex(os.path.basename(self.path),
                         r"^events\.out\.tfevents\.\d{10}\.[^/]+\.\d+\.\d+\.v2$")
        self.assertEqual(self.events[0]["kind"], "version")
        self.assertEqual(self.events[0]["text"], "brain.Event:2")
        for event in self.events:
            self.assertTrue(self.between[0] <= event["time"] <= self.between[1])

    def test_checksum_matters(self):
        data = bytearray(open(self.path, "rb").read())
        for at in (3, 9, 20, len(data) - 2):
            data[at] ^= 16
            with self.assertRaises((ValueError, struct.error)):
                list(read_events.records(bytes(data)))
            data[at] ^= 16

    def test_scalars(self):
        found = self.of("epoch_loss")
        self.assertEqual([e["step"] for e in found], list(range(100)))
        for i, event in enumerate(found):
            self.assertEqual((event["kind"], event["class"], event["shape"]), ("scalars", 1, []))
            self.assertAlmostEqual(event["values"][0], 1 / (1 + i), delta=1e-7)
        nan, = self.of("not a number")
        self.assertTrue(math.isnan(nan["values"][0]))
        self.assertEqual(nan["step"], -1)

    def test_histograms(self):
        event, = self.of("dense/kernel/histogram")
        self.assertEqual((event["kind"], event["class"], event["shape"], event["step"]),
                         ("histograms", 2, [30, 3], 7))
        rows = [event["values"][3 * i:3 * i + 3] for i in range(30)]
        self.assertEqual((rows[0][0], rows[-1][1]), (0, 999))
        self.assertEqual(sum(r[2] for r in rows), 1000)
        for row, following in zip(rows, rows[1:]):
            self.assertAlmostEqual(row[1], following[0])
            self.assertIn(row[2], (33, 34))
        event, = self.of("constant")
        self.assertEqual(event["values"], [4.5, 5.5, 1])
        event, = self.of("nothing")
        self.assertEqual((event["shape"], event["values"]), ([0, 3], []))

    def test_text(self):
        event, = self.of("notes")
        self.assertEqual((event["kind"], event["class"], event["shape"], event["step"]),
                         ("text", 2, [], 3))
        self.assertEqual(event["values"][0].decode(), "**bold** and Ünïcödé")

    def test_images(self):
        event, = self.of("pictures/rgb")
        self.assertEqual((event["kind"], event["class"], event["shape"]), ("images", 3, [4]))
        self.assertEqual(event["values"][:2], [b"5", b"3"])
        pixels = bytes(i * 2 & 255 for i in range(90))
        self.assertEqual(png_pixels(event["values"][2]), (5, 3, 3, pixels[:45]))
        self.assertEqual(png_pixels(event["values"][3]), (5, 3, 3, pixels[45:]))
        event, = self.of("pictures/grey")
        self.assertEqual(png_pixels(event["values"][2]), (2, 2, 1, bytes((0, 128, 255, 0))))

    def test_hparams(self):
        start, = self.of("_hparams_/session_start_info")
        self.assertEqual(start["hparams"]["start"],
                         {"learning_rate": 0.001, "optimizer": "adam", "zero": 0.0})
        self.assertTrue(self.between[0] <= start["hparams"]["time"] <= self.between[1])
        end, = self.of("_hparams_/session_end_info")
        self.assertEqual(end["hparams"]["status"], 1)
        self.assertEqual((start["shape"], start["values"]), ([1], [0.0]))

    def test_graph(self):
        event, = [e for e in self.events if e["kind"] == "graph"]
        self.assertEqual([n["name"] for n in event["nodes"]], ["x", "dense/kernel", "dense/matmul"])
        self.assertEqual(event["nodes"][2],
                         {"name": "dense/matmul", "op": "MatMul", "inputs": ["x", "dense/kernel"],
                                             "shapes": [[64, 10]]})

    def test_names_differ(self):
        first = subprocess.run([WRITER, self.logdir], check=True, stdout=subprocess.PIPE, text=True,
                               timeout=60).stdout
        self.assertNotEqual(first.strip(), self.path)
        os.unlink(first.strip())
        self.assertTrue(re.search(r"\.0\.v2$", self.path))


if __name__ == "__main__":
    suite = unittest.defaultTestLoader.loadTestsFromTestCase(Events)
    sys.exit(0 if unittest.TextTestRunner(verbosity=2).run(suite).wasSuccessful() else 1)
