# SPDX-License-Identifier: Apache-2.0
"""Little data sets in the form of MNIST, for the trainers of examples/."""
import pathlib

STEMS = ("train", "t10k")


def idx(rank, sizes, data):
    """An IDX file of bytes."""
    return bytes([0, 0, 8, rank]) + b"".join(s.to_bytes(4, "big") for s in sizes) + data


def image_file(pixels):
    return idx(3, (len(pixels) // 784, 28, 28), pixels)


def label_file(count):
    return idx(1, (count,), bytes(i % 10 for i in range(count)))


def shades(count):
    """Images whose brightness is their class."""
    return b"".join(bytes([25 * (i % 10)]) * 784 for i in range(count))


def patterns(count):
    """Images whose classes have patterns of their own, at shifting brightness."""
    return b"".join(bytes((7 * i + k * (i % 10)) % 256 for k in range(784)) for i in range(count))


def write(folder, stem, images, labels):
    """The two files of a set, as bytes."""
    pathlib.Path(folder, stem + "-images-idx3-ubyte").write_bytes(images)
    pathlib.Path(folder, stem + "-labels-idx1-ubyte").write_bytes(labels)


def write_both(folder, pixels=shades, count=70, test_count=None):
    """Training and test set."""
    for stem, n in zip(STEMS, (count, count if test_count is None else test_count)):
        write(folder, stem, image_file(pixels(n)), label_file(n))
