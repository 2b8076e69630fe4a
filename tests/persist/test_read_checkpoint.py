# SPDX-License-Identifier: Apache-2.0
"""What read_checkpoint.py reads is what the formulas of test_archive_fixture.c say; what is damaged
it refuses.

Usage: test_read_checkpoint.py WRITER FILE...: checks FILEs, and two that WRITER
(test_archive_fixture) writes."""
import os
import subprocess
import sys
import tempfile

try:
    import read_checkpoint
except ImportError as missing:
    print("skipped:", missing)
    sys.exit(77)


def check(path):
    kind, values, tensors = read_checkpoint.read(path)
    assert kind == "checkpoint" and len(tensors) == 9
    assert values == {"train/step": 1234567890123, "train/rate": 0.001, "note": "gr\u00fcn",
                      "state": b"\0\1\2\3"}
    formula = {"f32": lambda i: (i * 7919 % 2000 - 1000) / 8, "bf16": lambda i: i % 100 - 50,
               "u8": lambda i: i * i % 251,
               "i32": lambda i: i * 2654435761 & 0xffffff, "i64": lambda i: i * 2 ** 33 - 7}
    formula["f16"] = formula["f32"]
    for name, (dtype, _, numbers) in tensors.items():
        assert numbers == [formula[dtype](i) for i in range(len(numbers))], name
    assert tensors["model/dense/kernel"][1] == [50, 40] and tensors["scalar"][1:] == ([], [-125.0])
    assert tensors["empty"][1:] == ([0, 3], []) and len(tensors["model/dense/kernel"][2]) == 2000
    print(path, "as expected")


def check_commands(path):
    def run(*arguments):
        command = [sys.executable, read_checkpoint.__file__, path, *arguments]
        return subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout.decode()
    lines = run().splitlines()
    assert lines[0] == "checkpoint" and "train/step = 1234567890123" in lines
    assert "model/dense/kernel f32 [50, 40]" in lines and "empty f32 [0, 3]" in lines, lines
    assert run("scalar") == "-125.0\n"


def check_damage(path, scratch):
    with open(path, "rb") as file:
        data = file.read()
    spoiled = [data[:-1], b"", data[:40]]
    spoiled += [data[:at] + bytes([data[at] ^ 1]) + data[at + 1:]
                for at in (3, 17, 50, 60, len(data) // 2, len(data) - 30)]
    for i, content in enumerate(spoiled):
        with open(scratch, "wb") as file:
            file.write(content)
        try:
            read_checkpoint.read(scratch)
        except ValueError:
            continue
        sys.exit("damage %d was not noticed" % i)


with tempfile.TemporaryDirectory() as folder:
    fresh = os.path.join(folder, "fresh")
    for options in (["parts"], [], ["raw"]):
        subprocess.run([sys.argv[1], "archive_fixture", "write", fresh, *options], check=True)
        check(fresh)
    check_commands(fresh)
    check_damage(fresh, os.path.join(folder, "spoiled"))
for fixture in sys.argv[2:]:
    check(fixture)
