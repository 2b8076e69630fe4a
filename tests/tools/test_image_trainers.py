# SPDX-License-Identifier: Apache-2.0
"""Examples that classify images as a user meets them: ResNet learns, goes on from its checkpoints
as if it had not stopped, trains on two workers, and its moving averages are in the checkpoint and
in what is converted from it; DenseNet learns from CIFAR's files.

Usage: test_image_trainers.py RINGFIRE RESNET DENSENET"""
import json
import pathlib
import random
import re
import struct
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
import programs  # noqa: E402

RINGFIRE, RESNET, DENSENET = sys.argv[1:4]
EPOCH = re.compile(r"Epoch (\d+)/\d+: loss: (\S+), accuracy: (\S+), val_loss: (\S+), "
                   r"val_accuracy: (\S+),")
SIDE = 28


def write_split(folder, name, count, seed):
    """Stripes across or down, with noise: flips and moves change nothing."""
    rng = random.Random(seed)
    labels = bytes(rng.randrange(2) for _ in range(count))
    pixels = bytes(rng.randrange(60) + 180 * ((y, x)[label] // 2 % 2) for label in labels
                   for y in range(SIDE) for x in range(SIDE))
    (folder / (name + "-images-idx3-ubyte")).write_bytes(
        struct.pack(">4I", 0x803, count, SIDE, SIDE) + pixels)
    (folder / (name + "-labels-idx1-ubyte")).write_bytes(struct.pack(">2I", 0x801, count) + labels)


def write_cifar(folder, name, count, seed):
    """The same in red, green or blue: which one is the class."""
    rng = random.Random(seed)
    records = []
    for _ in range(count):
        label = rng.randrange(3)
        records.append(bytes([label]) + bytes(rng.randrange(60) + 180 * (channel == label)
                                              for channel in range(3) for _ in range(1024)))
    (folder / name).write_bytes(b"".join(records))


def read_safetensors(path):
    data = path.read_bytes()
    size, = struct.unpack("<Q", data[:8])
    header, body = json.loads(data[8:8 + size]), data[8 + size:]
    tensors = {}
    for name, entry in header.items():
        if name != "__metadata__" and entry["dtype"] == "F32":
            begin, end = entry["data_offsets"]
            tensors[name] = struct.unpack("<%df" % ((end - begin) // 4), body[begin:end])
    return tensors


class Resnet(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.folder = pathlib.Path(folder.name)
        write_split(cls.folder, "train", 192, 1)
        write_split(cls.folder, "t10k", 32, 2)
        cls.train = [RESNET, "--data", cls.folder, "--devices", "llvmpipe", "--batch-size", "16",
                     "--learning-rate", "0.05"]

    def succeed(self, *command):
        done = programs.run(*command)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done

    def test_learns_and_resumes(self):
        """Stopped and started again, a training ends with the numbers of one that was never
        stopped."""
        whole = self.succeed(*self.train, "--epochs", "3")
        self.assertIn("75482 parameters, 36 steps of 16 images", whole.stdout)
        # 2.3 when it begins; 0.7 is chance
        self.assertLess(programs.numbers(EPOCH, whole)[-1][1], 0.5)
        checkpoints = self.folder / "checkpoints"
        command = [*self.train, "--epochs", "3", "--checkpoint-dir", checkpoints]
        programs.stop_at("Epoch 1/", command)
        resumed = self.succeed(*command)
        self.assertEqual(programs.numbers(EPOCH, resumed)[-1], programs.numbers(EPOCH, whole)[-1])
        self.check_checkpoint(max(checkpoints.glob("backup-*.rfck")))

    def check_checkpoint(self, path):
        shown = self.succeed(RINGFIRE, "ckpt", "show", path).stdout
        self.assertIn("stage_3/block_1/norm_2/moving_variance", shown)
        converted = self.folder / "converted.safetensors"
        self.succeed(RINGFIRE, "ckpt", "convert", path, converted)
        averages = {name: values for name, values in read_safetensors(converted).items()
                    if "moving_" in name}
        self.assertEqual(len(averages), 14)
        for name, values in averages.items():
            initial = 1.0 if name.endswith("variance") else 0.0
            self.assertTrue(all(v != initial for v in values), name)
            if name.endswith("variance"):
                self.assertTrue(all(v > 0 for v in values), name)

    def test_two_workers(self):
        """Each normalizes its own half: not what one computes with the whole batch, but a training
        of its own that ends."""
        two = self.succeed(RINGFIRE, "run", "-n", "2", *self.train, "--batch-size", "8", "--epochs",
                           "2")
        self.assertIn("24 steps of 16 images", two.stdout)
        self.assertEqual(len(programs.numbers(EPOCH, two)), 2)
        self.assertLess(programs.numbers(EPOCH, two)[1][1], programs.numbers(EPOCH, two)[0][1])

    def test_synchronized(self):
        """Two workers with half of each batch learn what one learns with all of it. Images are
        flipped and moved alike, too."""
        command = [*self.train, "--limit", "64", "--epochs", "1", "--synchronized", "--batch-size"]
        one, two = self.succeed(*command,
                                "16"), self.succeed(RINGFIRE, "run", "-n", "2", *command, "8")
        for loss in 1, 3:
            a, b = (programs.numbers(EPOCH, done)[0][loss] for done in (one, two))
            self.assertAlmostEqual(a, b, delta=1e-3 * a)

    def test_one_step(self):
        """The rate falls twice within it."""
        self.assertIn("1 steps of 16 images",
                      self.succeed(*self.train, "--limit", "16", "--epochs", "1").stdout)

    def test_bad_input(self):
        for arguments, text in ((("--epochs", "0"), "'0'"),
                                (("--data", self.folder / "none"), "none")):
            done = programs.run(RESNET, *arguments)
            self.assertGreater(done.returncode, 0, arguments)
            self.assertIn(text, done.stderr)

    def test_densenet_on_cifar(self):
        folder = self.folder / "cifar"
        folder.mkdir()
        write_cifar(folder, "test_batch.bin", 32, 9)
        for i in range(1, 6):
            write_cifar(folder, "data_batch_%d.bin" % i, 20, i)
        command = [DENSENET, "--data", folder, "--devices", "llvmpipe", "--batch-size", "16",
                   "--epochs", "3"]
        done = self.succeed(*command, "--limit", "96")
        self.assertIn("45634 parameters, 18 steps of 16 images", done.stdout)
        self.assertLess(programs.numbers(EPOCH, done)[-1][1], 0.5)
        (folder / "data_batch_3.bin").write_bytes(bytes(100))
        done = programs.run(*command)
        self.assertEqual(done.returncode, 1)
        self.assertIn("data_batch_3.bin: 100 bytes are not a number of CIFAR-10 records",
                      done.stderr)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
