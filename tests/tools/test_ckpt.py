# SPDX-License-Identifier: Apache-2.0
"""ringfire ckpt on the files that earlier versions wrote. Usage: test_ckpt.py RINGFIRE TESTS (the
folder of all tests)"""
import json
import os
import pathlib
import re
import shutil
import struct
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
import programs  # noqa: E402

RINGFIRE, TESTS = sys.argv[1], pathlib.Path(sys.argv[2])
# version1.rfck, version1-raw.rfck and version2.rfck (in parts) hold the same
SAMPLE = TESTS / "persist/fixtures"
TRAIN = TESTS / "train/fixtures"
SAMPLE_TENSORS = {"empty": ("f32", "[0,3]", 0), "model/brain": ("bf16", "[300]", 600),
                  "model/bytes": ("u8", "[1000]", 1000),
                  "model/dense/kernel": ("f32", "[50,40]", 8000),
                  "model/half": ("f16", "[300]", 600),
                  "model/ids": ("i32", "[10,200]", 8000), "model/tiny": ("i32", "[3,1,1]", 12),
                  "optimizer/longs": ("i64", "[129]", 1032), "scalar": ("f32", "[]", 4)}
SAMPLE_VALUES = {"note": "gr\u00fcn", "state": "4 bytes: 00 01 02 03", "train/rate": "0.001",
                 "train/step": "1234567890123"}


def ckpt(*arguments):
    return programs.run(RINGFIRE, "ckpt", *arguments, timeout=60)


def read_safetensors(path):
    data = path.read_bytes()
    length = struct.unpack("<Q", data[:8])[0]
    return json.loads(data[8:8 + length]), bytearray(data[8 + length:])


def write_safetensors(path, header, data):
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)
    return path


class Ckpt(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name)

    def good(self, *arguments):
        done = ckpt(*arguments)
        self.assertEqual((done.returncode, done.stderr), (0, ""), arguments)
        return done.stdout

    def fails(self, part, *arguments, code=1):
        done = ckpt(*arguments)
        self.assertEqual(done.returncode, code, arguments)
        self.assertTrue(done.stderr.startswith("ringfire"), done.stderr)
        self.assertIn(part, done.stderr)

    def converted(self, path, name="x.safetensors"):
        self.good("convert", path, self.root / name)
        return self.root / name

    def test_show(self):
        for name, parts in (("version1.rfck", 0), ("version1-raw.rfck", 0), ("version2.rfck", 3)):
            lines = self.good("show", SAMPLE / name).splitlines()
            self.assertEqual(lines[0], "%s: %scheckpoint, 9 tensors, 4 values%s" %
                             (SAMPLE / name, "sharded " if parts else "", " in 3 parts" if parts
                              else ""))
            rows = (re.match(r"  (\S+) +(\w+) +(\[\S*\]) +(\d+)", l) for l in lines)
            tensors = {m[1]: (m[2], m[3], int(m[4])) for m in rows if m}
            self.assertEqual(tensors, SAMPLE_TENSORS)
            values = dict(re.match(r"  (\S+) +(.*)", l).groups() for l in lines[10:14])
            self.assertEqual(values, SAMPLE_VALUES)
            self.assertEqual(
                len([l for l in lines if l.startswith("  part version2.rfck.part-0000")]), parts)
        text = self.good("show", TRAIN / "checkpoint1.rfck")
        self.assertRegex(text, r"(?m)^  epoch +71$")
        self.assertRegex(text, r"(?m)^  iterator/position +56 bytes: 52 46 .*\.\.\.$")
        text = self.good("show", "--full", TRAIN / "checkpoint1.rfck")
        self.assertRegex(text, r"(?m)^  iterator/position +56 bytes: 52 46 .* \.\.\. \(xxh64 "
                               r"[0-9a-f]{16}\)$")
        self.assertEqual(json.loads(re.search(r"(?m)^  architecture +(.*)$",
                                              self.good("show", "--full",
                                                        TRAIN / "model1.rfck"))[1])
                         ["input_shape"], [6, 5, 2])
        lines = self.good("show", self.converted(SAMPLE / "version1.rfck")).splitlines()
        self.assertEqual((len(lines), lines[0].split(": ")[1]), (11, "safetensors, 9 tensors"))
        self.fails("none.rfck", "show", self.root / "none.rfck")

    def test_ls(self):
        for source in sorted(SAMPLE.iterdir()):
            shutil.copy(source, self.root)
        (self.root / "notes.txt").write_text("no archive")
        for name in ("layers-export.rfck", "layers-model.rfck"):
            shutil.copy(TRAIN / name, self.root)
        self.converted(SAMPLE / "version1.rfck", "x.safetensors")
        (self.root / "net.onnx").write_bytes(b"\x08\x08")
        lines = self.good("ls", self.root).splitlines()
        kinds = {name: kind for name, kind in (re.match(r"(\S+) +\d+ bytes  ([^:]+)", l).groups()
                                               for l in lines)}
        parts = sorted(p.name for p in self.root.glob("version2.rfck.part-*"))
        self.assertEqual(kinds, {"layers-export.rfck": "exported model",
                                 "layers-model.rfck": "model", "net.onnx": "ONNX model",
                                 "version1-raw.rfck": "checkpoint", "version1.rfck": "checkpoint",
                                 "version2.rfck": "sharded checkpoint",
                                 "x.safetensors": "safetensors",
                                 **{p: "part of version2.rfck" for p in parts}})
        self.assertEqual(list(kinds), sorted(kinds))
        for line in lines:
            if kinds[line.split()[0]].endswith("checkpoint"):
                self.assertIn("9 tensors, 4 values", line)
        size = sum(path.stat().st_size for path in self.root.glob("version2*"))
        self.assertRegex(lines[list(kinds).index("version2.rfck")],
                         r" %d bytes .*, 3 parts$" % size)

        for name in ("layers-export.rfck", "layers-model.rfck", "net.onnx"):
            (self.root / name).unlink()
        whole = (self.root / "version1.rfck").read_bytes()
        (self.root / "cut\x1b[2J.rfck").write_bytes(whole[:-100])
        (self.root / "empty.rfck").write_bytes(b"")
        (self.root / "x.safetensors").write_bytes(b"\x10")
        (self.root / parts[1]).unlink()
        done = ckpt("ls", self.root)
        self.assertEqual((done.returncode, done.stderr), (1, ""))
        lines = done.stdout.splitlines()
        good = {"cut\\x1b[2J.rfck": False, "empty.rfck": False, "version1-raw.rfck": True,
                "version1.rfck": True, "version2.rfck": False,
                parts[0]: True, parts[2]: True, "x.safetensors": False}
        self.assertEqual([l.split()[0] for l in lines], list(good))
        for line in lines:
            self.assertEqual(" tensors" in line, good[line.split()[0]], line)
            self.assertEqual(" bytes  damaged: " in line, not good[line.split()[0]], line)
        self.assertIn("truncated", lines[1])
        self.assertIn("part-00001", lines[4])
        (self.root / "version2.rfck").unlink()
        self.assertIn("part of version2.rfck, which is not there", ckpt("ls", self.root).stdout)
        self.fails("nowhere", "ls", self.root / "nowhere")

    def test_verify(self):
        for path in [*SAMPLE.glob("*.rfck"), *TRAIN.glob("*.rfck"),
                     self.converted(SAMPLE / "version2.rfck")]:
            self.assertEqual(self.good("verify", path), "%s: good\n" % path)
        data = bytearray((SAMPLE / "version1-raw.rfck").read_bytes())
        at = data.index(bytes(self.tensor("model/ids")[:400]))
        data[at + 5] ^= 1
        (self.root / "bad.rfck").write_bytes(data)
        self.fails("model/ids", "verify", self.root / "bad.rfck")
        cut = self.root / "cut.safetensors"
        cut.write_bytes((self.root / "x.safetensors").read_bytes()[:-1])
        self.fails("cut.safetensors", "verify", cut)

    def tensor(self, name):
        header, data = read_safetensors(
            self.converted(SAMPLE / "version1.rfck", "tensor.safetensors"))
        begin, end = header[name]["data_offsets"]
        return data[begin:end]

    def test_diff(self):
        self.assertEqual(self.good("diff", SAMPLE / "version1.rfck", SAMPLE / "version2.rfck"), "")
        new, old = TRAIN / "checkpoint1.rfck", TRAIN / "checkpoint1-kindless.rfck"
        done = ckpt("diff", new, old)
        self.assertEqual((done.returncode, done.stderr), (1, ""))
        self.assertEqual(done.stdout, "value only in the first: optimizer/kind\nvalue only in the "
                                      "first: optimizer/settings\n")
        self.assertEqual(ckpt("diff", old, new).stdout, done.stdout.replace("first", "second"))
        done = ckpt("diff", TRAIN / "layers-model.rfck", TRAIN / "model1.rfck")
        self.assertEqual(done.returncode, 1)
        lines = done.stdout.splitlines()
        for line in ("only in the first: model/conv2d/bias", "only in the second: model/first/bias",
                     "other type or shape: model/dense/kernel: f32 [27,4], f32 [60,4]",
                     "other value: optimizer/iterations: 0 and 12",
                     "value only in the second: optimizer/kind"):
            self.assertIn(line, lines)
        self.fails("none.rfck", "diff", new, self.root / "none.rfck", code=2)
        self.fails("none.rfck", "diff", self.root / "none.rfck", new, code=2)

    def test_diff_tensors(self):
        original = SAMPLE / "version1.rfck"
        path = self.converted(original)
        self.assertEqual(self.good("diff", original, path), "")
        header, data = read_safetensors(path)
        begin = header["scalar"]["data_offsets"][0]
        value = struct.unpack("<f", data[begin:begin + 4])[0]
        data[begin:begin + 4] = struct.pack("<f", value + 0.5)
        data[header["model/bytes"]["data_offsets"][1] - 1] ^= 1
        header["\x1b[31m"] = header.pop("model/half")
        header["model/tiny"]["shape"] = [3]
        write_safetensors(path, header, data)
        done = ckpt("diff", original, path)
        self.assertEqual((done.returncode, done.stderr), (1, ""))
        self.assertEqual(sorted(done.stdout.splitlines()),
                         ["differs: model/bytes", "differs: scalar, by up to 0.5",
                          "only in the first: model/half",
                          "only in the second: \\x1b[31m",
                          "other type or shape: model/tiny: i32 [3,1,1], i32 [3]"])
        self.assertNotIn("\x1b", self.good("show", path))

    def test_types_of_others(self):
        """A tensor that cannot be read is shown, and stands in the way of nothing but of its own
        values."""
        header = {"q": {"dtype": "F8_E4M3", "shape": [2, 2], "data_offsets": [4, 8]},
                  "w": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}}
        path = write_safetensors(self.root / "x.safetensors", header, bytes(8))
        lines = self.good("show", path).splitlines()
        self.assertEqual([line.split() for line in lines[1:3]],
                         [["q", "F8_E4M3", "[2,2]", "4"], ["w", "f32", "[1]", "4"]])
        self.assertEqual(self.good("verify", path), "%s: good\n" % path)
        other = write_safetensors(self.root / "y.safetensors",
                                  {**header, "q": {**header["q"], "dtype": "BOOL", "shape": [4]}},
                                  bytes(8))
        done = ckpt("diff", path, other)
        self.assertEqual((done.returncode, done.stdout), (1, "other type or shape: q: F8_E4M3 "
                                                             "[2,2], BOOL [4]\n"))
        self.fails("'q' is of type F8_E4M3; supported are", "convert", path, self.root / "x.rfck")

    def test_diff_many(self):
        count = 30000
        for odd in (0, 1):
            write_safetensors(self.root / ("%d.safetensors" % odd),
                              {"layer%d/w"
                               % (i + odd): {"dtype": "U8", "shape": [1],
                                             "data_offsets": [i, i + 1]}
                               for i in range(count)}, bytes(count))
        done = ckpt("diff", self.root / "0.safetensors", self.root / "1.safetensors")
        self.assertEqual(done.stdout,
                         "only in the first: layer0/w\nonly in the second: layer%d/w\n" % count)

    def test_convert(self):
        for source in (SAMPLE / "version1.rfck", SAMPLE / "version2.rfck"):
            out = self.root / "out.safetensors"
            self.assertEqual(self.good("convert", source, out),
                             "%s: 9 tensors\nleft out, because safetensors files hold tensors "
                             "only: "
                             "note, state, train/rate, train/step\n" % out)
            header, data = read_safetensors(out)
            self.assertEqual({n: e["data_offsets"][1] - e["data_offsets"][0] for n,
                              e in header.items()},
                             {n: size for n, (_, _, size) in SAMPLE_TENSORS.items()})
            self.assertEqual({n: (e["dtype"].lower(), e["shape"]) for n, e in header.items()},
                             {n: (t, json.loads(s)) for n, (t, s, _) in SAMPLE_TENSORS.items()})
            back = self.root / "back.rfck"
            self.assertEqual(self.good("convert", out, back), "%s: 9 tensors\n" % back)
            self.good("verify", back)
            done = ckpt("diff", source, back)  # all tensors, no values
            self.assertEqual(done.stdout,
                             "".join("value only in the first: %s\n" % n for n in SAMPLE_VALUES))
        for source in (TRAIN / "model1.rfck", TRAIN / "checkpoint1.rfck"):
            text = self.good("convert", source, self.root / "out.safetensors")
            self.assertIn("optimizer/learning_rate", text)
            self.good("diff", source, self.root / "out.safetensors")
        self.fails("*.safetensors", "convert", SAMPLE / "version1.rfck", self.root / "x.rfck",
                   code=2)
        self.fails("none.rfck", "convert", self.root / "none.rfck", self.root / "x.safetensors")
        self.assertFalse((self.root / "x.safetensors").exists())

    def peak(self, *arguments, code=0):
        """Bytes that the command had in memory at most."""
        # AddressSanitizer keeps 256 MB of freed memory unless told otherwise, which is not the
        # command's.
        sanitizer = os.environ.get("ASAN_OPTIONS", "") + ":quarantine_size_mb=1"
        with open(os.devnull, "w") as nothing:
            process = subprocess.Popen([RINGFIRE, "ckpt", *map(str, arguments)], stdout=nothing,
                                       stdin=subprocess.DEVNULL,
                                       env={**os.environ, "ASAN_OPTIONS": sanitizer.lstrip(":")})
            _, status, usage = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)
        self.assertEqual(process.returncode, code, arguments)
        return usage.ru_maxrss * 1024

    def test_memory(self):
        """One tensor that is larger than what any of the commands may take."""
        size = 160 << 20
        header = json.dumps({"a": {"dtype": "F32", "shape": [size // 4], "data_offsets": [0, size]},
                             "b": {"dtype": "U8", "shape": [3],
                                   "data_offsets": [size, size + 3]}}).encode()
        big, other = self.root / "big.safetensors", self.root / "other.safetensors"
        for path in (big, other):
            with open(path, "wb") as file:
                file.write(struct.pack("<Q", len(header)) + header)
                file.seek(8 + len(header) + size // 2)
                file.write(struct.pack("<f", 1.5 if path == big else 1.25))
                file.seek(8 + len(header) + size)
                file.write(b"end")
        archive, back = self.root / "big.rfck", self.root / "back.safetensors"
        least = self.peak("show", self.converted(SAMPLE / "version1.rfck", "small.safetensors"))
        for arguments, code in ((("show", big), 0), (("verify", big), 0),
                                (("convert", big, archive), 0), (("show", archive), 0),
                                (("verify", archive), 0), (("diff", big, archive), 0),
                                (("diff", archive, other), 1),
                                (("convert", archive, back), 0), (("diff", archive, archive), 0)):
            self.assertLess(self.peak(*arguments, code=code) - least, 64 << 20, arguments)
        self.assertEqual(back.read_bytes()[-3 - size:], big.read_bytes()[-3 - size:])
        self.assertEqual(ckpt("diff", other, archive).stdout, "differs: a, by up to 0.25\n")

    def test_usage(self):
        for arguments in ((), ("dance",), ("show",), ("diff", "a"), ("ls", "a", "b"),
                          ("diff", "a", "b", "c")):
            self.assertEqual(ckpt(*arguments).returncode, 2, arguments)


if __name__ == "__main__":
    suite = unittest.defaultTestLoader.loadTestsFromTestCase(Ckpt)
    sys.exit(0 if unittest.TextTestRunner(verbosity=2).run(suite).wasSuccessful() else 1)
