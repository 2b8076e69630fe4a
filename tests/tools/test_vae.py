# SPDX-License-Identifier: Apache-2.0
"""The variational autoencoder as a user meets it: it learns, goes on from its checkpoints as if it
had not stopped, and paints a picture.

Usage: test_vae.py VAE"""
import pathlib
import re
import struct
import sys
import tempfile
import unittest
import zlib

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
import digits  # noqa: E402
import programs  # noqa: E402

VAE = sys.argv[1]
EPOCH = re.compile(r"Epoch (\d+), Loss: (\S+), Divergence: (\S+), Test ELBO: (\S+)  ")
COLUMNS, ROWS, CELL, GAP = 16, 10, 30, 2  # of the picture; a cell is an image and a gap


def read_png(data):
    """Width, height and rows of a gray PNG file of eight bits, with every filter undone."""
    place, body = 8, b""
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    while place < len(data):
        size, kind = struct.unpack(">I4s", data[place:place + 8])
        content = data[place + 8:place + 8 + size]
        assert zlib.crc32(kind + content) == struct.unpack(
            ">I", data[place + 8 + size:place + 12 + size])[0]
        if kind == b"IHDR":
            width, height, depth, color = struct.unpack(">IIBB", content[:10])
            assert (depth, color) == (8, 0)
        body += content if kind == b"IDAT" else b""
        place += 12 + size
    raw, rows, above = zlib.decompress(body), [], bytes(width)
    for y in range(height):
        kind, line = raw[y * (width + 1)], bytearray(raw[y * (width + 1) + 1:(y + 1) * (width + 1)])
        for x in range(width):
            left, up, corner = (line[x - 1] if x else 0), above[x], (above[x - 1] if x else 0)
            paeth = min((left, up, corner), key=lambda v: abs(left + up - corner - v))
            line[x] = (line[x] + (0, left, up, (left + up) // 2, paeth)[kind]) % 256
        rows.append(bytes(line))
        above = bytes(line)
    return width, height, rows


class Vae(unittest.TestCase):
    """One replica in four epochs."""
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.folder = pathlib.Path(folder.name)
        # all black or all white
        digits.write_both(cls.folder, digits.shades, count=100, test_count=20)
        cls.picture = cls.folder / "vae.png"
        cls.train = [VAE, "--data", cls.folder, "--devices", "llvmpipe", "--batch-size", "10",
                     "--epochs", "4", "--picture", cls.picture]
        cls.whole = programs.run(*cls.train)
        cls.first_picture = cls.picture.read_bytes() if cls.picture.exists() else b""

    def test_learns(self):
        self.assertEqual(self.whole.returncode, 0, self.whole.stderr)
        self.assertIn("69989 parameters, global batch 10", self.whole.stdout)
        self.assertEqual(len(programs.numbers(EPOCH, self.whole)), 4)
        # -543 with chances of a half
        self.assertGreater(programs.numbers(EPOCH, self.whole)[-1][3], -450)
        width, height, rows = read_png(self.first_picture)
        self.assertEqual((width, height), (COLUMNS * CELL + GAP, ROWS * CELL + GAP))

        def cell(column, row):
            return [rows[y + GAP + row * CELL][GAP + column * CELL:(column + 1) * CELL]
                    for y in range(28)]
        for i in range(COLUMNS):
            # 25 * 5 is less than half of 255
            self.assertEqual(cell(i, 0), [bytes([255 * (i % 10 > 5)]) * 28] * 28, i)
            mean = sum(map(sum, cell(i, 1))) / 784
            self.assertTrue(mean > 128 if i % 10 > 5 else mean < 128,
                            "reconstruction %d: %g" % (i, mean))
        samples = [b"".join(cell(column, row)) for row in range(2, ROWS)
                   for column in range(COLUMNS)]
        # far out in the latent plane a few are alike
        self.assertGreater(len(set(samples)), len(samples) // 2)
        self.assertFalse(list(self.folder.glob("*.tmp")))

    def test_resumes(self):
        """Stopped and started again, a training ends with the numbers and the picture of one that
        was never stopped."""
        self.picture.unlink(missing_ok=True)
        command = [*self.train, "--checkpoint-dir", self.folder / "checkpoints"]
        programs.stop_at("Epoch 1,", command)
        self.assertFalse(self.picture.exists())
        resumed = programs.run(*command)
        self.assertEqual(resumed.returncode, 0, resumed.stderr)
        self.assertIn("Continuing in epoch", resumed.stdout)
        self.assertEqual(programs.numbers(EPOCH, resumed)[-1],
                         programs.numbers(EPOCH, self.whole)[-1])
        self.assertEqual(self.picture.read_bytes(), self.first_picture)

    def test_bad_input(self):
        for arguments, text in ((("--epochs", "0"), "'0'"),
                                (("--learning-rate", "-1"), "positive learning rate"),
                                (("--picture", self.folder / "none" / "a.png"), "No such file"),
                                (("--limit", "x"), "'x'")):
            done = programs.run(*self.train, *arguments)
            self.assertGreater(done.returncode, 0, arguments)
            self.assertIn(text, done.stderr)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
