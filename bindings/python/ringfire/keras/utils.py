# SPDX-License-Identifier: Apache-2.0
"""Small helpers for data."""

from __future__ import annotations

from typing import Any, Optional, Sequence, Tuple, Union

import numpy as np

from ..data import Dataset, image_directory, Path, WindowPart
from .._strategy import get_strategy

_CHANNELS = {"grayscale": 1, "rgb": 3, "rgba": 4}


def to_categorical(x: Any, num_classes: Optional[int] = None) -> np.ndarray:
    """Class numbers as one-hot vectors, f32."""
    classes = np.asarray(x, np.int64)
    if classes.ndim > 1 and classes.shape[-1] == 1:
        classes = classes[..., 0]
    depth = int(classes.max(initial=-1)) + 1 if num_classes is None else num_classes
    return np.eye(depth, dtype=np.float32)[classes]


def normalize(x: Any, axis: int = -1, order: int = 2) -> np.ndarray:
    """Vectors along an axis divided by their norm."""
    norm = np.linalg.norm(x, order, axis, keepdims=True)
    return np.asarray(x / np.where(norm == 0, 1, norm))


def set_random_seed(seed: int) -> None:
    """The seed of NumPy, and of variables and dropout of the strategy of the scope."""
    np.random.seed(seed)
    get_strategy().set_seed(seed)


def split_dataset(dataset: Dataset, left_size: Union[int, float], shuffle: bool = False,
                  seed: int = 0) -> Tuple[Dataset, Dataset]:
    """Two parts of a dataset without a common element."""
    return dataset.split(left_size, shuffle, seed)


def timeseries_dataset_from_array(data: Any, targets: Any, sequence_length: int,
                                  sequence_stride: int = 1, sampling_rate: int = 1,
                                  batch_size: Optional[int] = 128, shuffle: bool = False,
                                  seed: int = 0, start_index: Optional[int] = None,
                                  end_index: Optional[int] = None) -> Dataset:
    """Windows of a table whose rows are in the order of time, each with its target.

    ``targets[i]`` belongs to the window that begins with row i; without targets (None) elements
    are windows alone.
    """
    rows = np.asarray(data)[start_index:end_index]
    dataset = Dataset.from_tensor_slices(rows).table_windows(
        WindowPart(0, sequence_length, sampling_rate=sampling_rate), sequence_stride)
    if targets is not None:
        chosen = np.asarray(targets)[start_index:end_index][::sequence_stride]
        dataset = Dataset.zip(dataset, Dataset.from_tensor_slices(chosen))
    if shuffle:
        dataset = dataset.shuffle(len(dataset), seed=seed)
    return dataset if batch_size is None else dataset.batch(batch_size)


def image_dataset_from_directory(directory: Path, color_mode: str = "rgb",
                                 batch_size: Optional[int] = 32,
                                 image_size: Optional[Sequence[int]] = (256, 256),
                                 shuffle: bool = True, seed: int = 0) -> Dataset:
    """The images of a directory whose sub-directories are the classes, u8, with their numbers."""
    if color_mode not in _CHANNELS:
        raise ValueError(f"color_mode={color_mode!r} is none of {', '.join(_CHANNELS)}")
    size = None if image_size is None else (int(image_size[0]), int(image_size[1]))
    dataset = image_directory(directory, size, _CHANNELS[color_mode])
    if shuffle:
        dataset = dataset.shuffle(len(dataset), seed=seed)
    return dataset if batch_size is None else dataset.batch(batch_size)
