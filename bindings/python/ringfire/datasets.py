# SPDX-License-Identifier: Apache-2.0
"""Data sets that lie on the disk. Nothing is downloaded.

Fashion-MNIST comes with Debian's package ``dataset-fashion-mnist``; ``path``, or the environment
variable ``RINGFIRE_DATA``, names a directory with the four files of MNIST or of one like it.
"""

from __future__ import annotations

from typing import Any, Optional, Tuple

import numpy as np

from ._elements import PAIR
from ._lib import create, ffi, lib, path_bytes
from .data import Dataset, Path

Arrays = Tuple[Tuple[np.ndarray, np.ndarray], Tuple[np.ndarray, np.ndarray]]


def _read(dataset: Dataset) -> Tuple[np.ndarray, np.ndarray]:
    count = len(dataset)
    images, labels = next(dataset.batch(count).as_numpy_iterator())
    return images, labels


def _arrays(make: Any) -> Arrays:
    train, test = (_read(make(split)) for split in (lib.RF_SPLIT_TRAIN, lib.RF_SPLIT_TEST))
    return train, test


class _Mnist:
    """Images u8 [n, 28, 28] and labels, as Keras has them."""

    def __init__(self, name: str, doc: str) -> None:
        self.__name__ = name
        self.__doc__ = doc

    @staticmethod
    def dataset(split: str = "train", path: Optional[Path] = None) -> Dataset:
        """Elements (image u8 [28, 28, 1], label i32); ``split`` is "train" or "test"."""
        directory = ffi.NULL if path is None else path_bytes(path)
        code = getattr(lib, "RF_SPLIT_" + split.upper())
        return Dataset(create(lib.rf_dataset_from_mnist_directory, "rf_dataset", directory, code),
                       PAIR)

    def load_data(self, path: Optional[Path] = None) -> Arrays:
        """(train_images, train_labels), (test_images, test_labels)."""
        def read(split: int) -> Dataset:
            return self.dataset("train" if split == lib.RF_SPLIT_TRAIN else "test", path)

        (x, y), (x_test, y_test) = _arrays(read)
        return (x[..., 0], y.astype(np.uint8)), (x_test[..., 0], y_test.astype(np.uint8))


fashion_mnist = _Mnist("fashion_mnist", "Fashion-MNIST: 70,000 pictures of clothes.")
mnist = _Mnist("mnist", "MNIST, or a set of the same form, of a directory.")


def load_cifar(path: Path) -> Arrays:
    """CIFAR-10 or CIFAR-100 of a directory with its binary files: images u8 [n, 32, 32, 3]."""
    def read(split: int) -> Dataset:
        return Dataset(create(lib.rf_dataset_from_cifar_directory, "rf_dataset", path_bytes(path),
                              split, ffi.NULL), PAIR)

    return _arrays(read)
