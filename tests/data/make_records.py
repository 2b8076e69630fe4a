# SPDX-License-Identifier: Apache-2.0
"""Writes the files of tests/data/test_tfrecord.c. Usage: make_records.py FOLDER"""
import gzip
import pathlib
import sys
import zlib

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from pictures import png  # noqa: E402
from tfrecord import entry, example, field, floats, integers, record, strings, varint  # noqa: E402

ROWS = 12, 5, 9  # records of the three parts


def numbered(i):
    """Record i of the parts; even ones have packed numbers, the others have not."""
    packed = i % 2 == 0
    entries = [("id", integers([i], packed)),
               ("values", floats([i + 0.25 * k for k in range(3)], packed)),
               ("pixels", strings(bytes(range(i, i + 4)))),
               ("tokens", integers([10 * i + k for k in range(i % 4)], packed)),
               ("below", integers([-i, -2**31], packed)),
               ("not asked for", strings(b"a", b"\xff" * i, b"")),
               ("large", integers([2**62], packed))]
    return example(*(entries if i % 3 else reversed(entries)))


def odd():
    """Messages each of which has something about it; the test names them by their place."""
    good = integers([7])
    unknown = varint(9 << 3) + varint(5) + varint(10 << 3 | 1) + bytes(8) + varint(
        11 << 3 | 5) + bytes(4) + field(12, b"later")
    return [
        example(("id", good)),                                           # 0: as it should be
        example(("other", good)),                                        # 1: no "id"
        # 2: without a kind, so missing
        example(("id", b"")),
        example(("id", floats([7]))),                                    # 3: another kind
        example(("id", integers([]))),                                   # 4: no value
        example(("id", integers([7, 8]))),                               # 5: too many
        example(("id", integers([2**31]))),                              # 6: more than i32 holds
        example(("id", integers([-2**31 - 1], packed=False))),           # 7: less than it does
        b"\xff\xff\xff",                                                 # 8: no message
        example(("id", integers([1])), ("id", integers([7]))),           # 9: twice: the last counts
        field(1, entry("other", good)) + field(1, entry("id", good)),    # 10: features in two parts
        # 11: of a later version
        unknown + field(1, unknown + field(1, unknown + field(1, b"id") + field(2, good))
                        + unknown) + unknown,
        b"",                                                             # 12: nothing at all
        example(("id", strings(b"7"))),                                  # 13: bytes
        # 14: an entry without a value
        field(1, field(1, field(1, b"id"))),
        example(("id", integers([7])[:-1])),                             # 15: cut within a list
        # 16: packed and unpacked in one list
        example(("id", field(3, field(1, b"") + varint(8) + varint(7)))),
        # 17: three kinds: the last counts
        example(("id", integers([1]) + floats([2]) + good)),
    ]


def main(folder):
    def write(name, data):
        (folder / name).write_bytes(data)

    first = 0
    for number, rows in enumerate(ROWS):
        data = b"".join(record(numbered(i)) for i in range(first, first + rows))
        write("part%d.tfrecord" % number, data)
        write("part%d.tfrecord.gz" % number, gzip.compress(data, mtime=0))
        write("part%d.tfrecord.zlib" % number, zlib.compress(data))
        if number == 0:
            cut = len(data) // 2  # within a record
            write("members.tfrecord.gz",
                  gzip.compress(data[:cut], mtime=0) + gzip.compress(data[cut:], mtime=0))
        first += rows
    write("empty.tfrecord", b"")
    write("empty.tfrecord.gz", gzip.compress(b"", mtime=0))
    write("odd.tfrecord", b"".join(map(record, odd())))
    grey = [png(2, 1, bytes([v] * 6)) for v in (9, 200)]
    small, large = png(3, 2, bytes(range(18))), png(6, 4, bytes(72))
    write("images.tfrecord",
          b"".join(record(example(("image", strings(v)), ("label", integers([i]))))
                                      for i,
                                      v in enumerate([small, large, *grey, b"GIF89a", small[:40]])))
    # Lengths that begin as gzip and zlib do.
    for name, size in ("gzip", 0x8b1f), ("zlib", 0x178):
        message = example(("id", integers([0])))
        message += field(12, bytes(size - len(message) - len(field(12, bytes(size))) + size))
        assert len(message) == size
        write("like_%s.tfrecord" % name, record(message))
    # Small values that each take a field: what unpacking needs the most memory for. Records longer
    # than what is read at once.
    write("long.tfrecord",
          b"".join(
              record(example(("many", integers([k % 100 for k in range(count)], packed=False))))
                                    for count in (70000, 3, 70000, 0)))


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]))
