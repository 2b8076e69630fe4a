# SPDX-License-Identifier: Apache-2.0
"""What fit, evaluate and predict are given, as datasets of the library."""

from __future__ import annotations

from typing import Any, Iterable, List, Mapping, Optional, Tuple

import numpy as np

from .._arrays import as_dense
from .._lib import ffi
from ..data import Dataset
from ._layer import as_list


def arrays_of(value: Any) -> List[np.ndarray]:
    """The arrays of inputs or labels: one, or a list, tuple or dict of them; numbers in lists are
    one array."""
    parts = as_list(value)
    if isinstance(value, list) and not any(hasattr(part, "shape") for part in parts):
        parts = [value]
    return [as_dense(part) for part in parts]


def class_weights(weights: Optional[Mapping[int, float]]) -> Any:
    """The weights of classes 0, 1, ... as a ``double[]``; those that are not named have 1."""
    listed = weights or {}
    count = max(listed, default=-1) + 1
    return ffi.new("double[]", [float(listed.get(i, 1.0)) for i in range(count)])


def split_arrays(parts: Iterable[np.ndarray], share: float) -> Tuple[List[Any], List[Any]]:
    """Arrays without their last rows, and these."""
    listed = list(parts)
    kept = int(len(listed[0]) * (1 - share))
    if not 0 < kept < len(listed[0]):
        raise ValueError(f"validation_split={share} leaves nothing of {len(listed[0])} examples")
    return [part[:kept] for part in listed], [part[kept:] for part in listed]


def batched(parts: List[np.ndarray], batch_size: Optional[int], shuffle: bool,
            seed: int = 0) -> Dataset:
    """Batches of arrays, one for each component."""
    for part in parts:
        if part.ndim == 0 or len(part) != len(parts[0]):
            raise ValueError("arrays of one call have different numbers of examples: "
                             f"{', '.join(str(p.shape) for p in parts)}")
    dataset = Dataset.from_tensor_slices(tuple(parts))
    if shuffle:
        dataset = dataset.shuffle(max(1, len(parts[0])), seed=seed)
    return dataset.batch(batch_size or 32)


def given(x: Any, y: Any, sample_weight: Any, who: str) -> List[np.ndarray]:
    """Inputs, labels and weights as arrays."""
    if y is None:
        raise ValueError(f"{who}: x is no Dataset, and y is missing")
    parts = arrays_of(x) + arrays_of(y)
    if sample_weight is not None:
        parts.append(as_dense(np.asarray(sample_weight, np.float32)))
    return parts


def only_dataset(dataset: Dataset, who: str, **others: Any) -> Dataset:
    """A dataset, beside which nothing may be given that it holds itself."""
    for name, value in others.items():
        if value is not None:
            raise ValueError(f"{who}: {name} goes with arrays; a Dataset has its own")
    if dataset.batch_size == 0:
        raise ValueError(f"{who}: the dataset is not batched; add .batch(n)")
    return dataset
