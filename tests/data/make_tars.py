# SPDX-License-Identifier: Apache-2.0
"""Writes the archives of tests/data/test_tar.c. Usage: make_tars.py FOLDER"""
import gzip
import io
import pathlib
import sys
import tarfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from make_records import png  # noqa: E402

EXAMPLES = 9, 4, 8  # of the three parts


def files_of(i):
    """Those of example i, in an order that changes; names are long, and not all ASCII."""
    base = "train/%s%03d" % ("\u00fc" if i % 2 else "long" * 40, i)
    files = [(base + ".cls", b" %d\n" % i), (base + ".Score.TXT", b"%.2f" % (i + 0.25)),
             (base + ".png", png(2, 2, bytes([i] * 12))),
             (base + ".txt", b"\xc3\xa4" * (i % 4)), (base + ".bin", bytes(range(i, i + 6))),
             (base + ".other", bytes(70000 if i == 3 else i))]
    return files[i % 6:] + files[:i % 6]


def archive(files, kind=tarfile.PAX_FORMAT):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=kind) as tar:
        for name, data in files:
            member = tarfile.TarInfo(name)
            if data is None:
                member.type = tarfile.DIRTYPE
                data = b""
            elif isinstance(data, str):
                member.type, member.linkname, data = tarfile.SYMTYPE, data, b""
            member.size = len(data)
            tar.addfile(member, io.BytesIO(data))
    return out.getvalue()


def main():
    folder = pathlib.Path(sys.argv[1])
    first = 0
    for part, count in enumerate(EXAMPLES):
        files = [file for i in range(first, first + count) for file in files_of(i)]
        if part == 1:  # names that are of no example
            files[6:6] = [("train", None), ("train/.hidden", b"x"), ("train/README", b"x"),
                          ("train/link.cls", "elsewhere")]
        data = archive(files, (tarfile.PAX_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT)[part])
        (folder / ("part%d.tar" % part)).write_bytes(data)
        if part == 1:
            (folder / "part1.tar.gz").write_bytes(gzip.compress(data, 1, mtime=0))
        first += count
    mistakes = [("0.cls", b"1"), ("1.txt", b""), ("2.cls", b"1x"), ("3.cls", b"9e9"),
                ("4.cls", b"\0"), ("5.cls", b"2.5"), ("6.cls", b"7" * 100), ("7.cls", b"")]
    (folder / "mistakes.tar").write_bytes(archive(mistakes))
    (folder / "empty.tar").write_bytes(archive([]))
    (folder / "cut.tar").write_bytes(archive([("0.cls", b"1"), ("1.cls", bytes(9000))])[:4000])


if __name__ == "__main__":
    main()
