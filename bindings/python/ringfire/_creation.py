# SPDX-License-Identifier: Apache-2.0
"""Constants and random numbers: tensors in a step, arrays outside of it."""
from __future__ import annotations

from typing import Any, Optional

import numpy as np

from . import _arrays as arrays
from ._lib import lib
from ._trace import Tensor, current
from ._values import Value


def _made(array: np.ndarray) -> Any:
    trace = current()
    return Value(array) if trace is None else trace.constant(array)


def constant(value: Any, dtype: Any = None, shape: Any = None) -> Any:
    """Numbers as an array, or in a step as a tensor."""
    array = arrays.as_dense(value, None if dtype is None else arrays.dtype(dtype))
    return _made(array if shape is None else np.broadcast_to(array, shape).copy())


def convert_to_tensor(value: Any, dtype: Any = None) -> Any:
    """A tensor as it is; anything else as constant()."""
    return value if isinstance(value, (Tensor, Value)) else constant(value, dtype)


def zeros(shape: arrays.ShapeLike, dtype: Any = arrays.float32) -> Any:
    """Zeros."""
    return _made(np.zeros(shape, arrays.dtype(dtype).numpy))


def ones(shape: arrays.ShapeLike, dtype: Any = arrays.float32) -> Any:
    """Ones."""
    return _made(np.ones(shape, arrays.dtype(dtype).numpy))


def fill(dims: arrays.ShapeLike, value: Any) -> Any:
    """An array of one number."""
    return _made(arrays.as_dense(np.full(dims, value)))


def zeros_like(x: Any) -> Any:
    """Zeros in the shape of x, also where that depends on the batch."""
    if isinstance(x, Tensor):
        # An element that is not taken has no part in the result, not even as NaN.
        trace = x.trace
        zero = trace.constant(0.0)
        return trace.made(lib.rf_where(trace.pointer, zero.handle, x.handle, zero.handle))
    return zeros(np.shape(x), arrays.as_dense(x).dtype)


def ones_like(x: Any) -> Any:
    """Ones in the shape of x, also where that depends on the batch."""
    if isinstance(x, Tensor):
        return zeros_like(x) + 1.0
    return ones(np.shape(x), arrays.as_dense(x).dtype)


_generator = np.random.default_rng()


def set_seed(seed: int) -> None:
    """The seed of arrays outside of steps, and of what is made on the strategy of the scope from
    here on."""
    from ._strategy import get_strategy
    global _generator
    _generator = np.random.default_rng(seed)
    get_strategy().set_seed(seed)


def normal(shape: arrays.ShapeLike, mean: float = 0.0, stddev: float = 1.0,
           dtype: Any = arrays.float32, seed: Optional[int] = None) -> Any:
    """Normally distributed numbers; in a step others in each run, the same on all devices."""
    trace = current()
    if trace is None:
        generator = _generator if seed is None else np.random.default_rng(seed)
        return Value(
            np.asarray(generator.normal(mean, stddev, shape)).astype(arrays.dtype(dtype).numpy))
    made = trace.made(
        lib.rf_random_normal(trace.pointer, zeros(shape).handle, 0 if seed is None else seed))
    return made * stddev + mean


def uniform(shape: arrays.ShapeLike, minval: float = 0.0, maxval: Optional[float] = None,
            dtype: Any = arrays.float32, seed: Optional[int] = None) -> Any:
    """Numbers from minval to maxval (1, without its end); whole ones for a dtype of whole numbers.
    In a step others in each run, the same on all devices."""
    trace = current()
    kind = arrays.dtype(dtype)
    whole = kind.numpy is not None and kind.numpy.kind in "iu"
    high = 1.0 if maxval is None else maxval
    if trace is None:
        generator = _generator if seed is None else np.random.default_rng(seed)
        if whole:
            return Value(np.asarray(generator.integers(int(minval), int(high), shape, kind.numpy)))
        return Value(np.asarray(generator.uniform(minval, high, shape)).astype(kind.numpy))
    made = trace.made(
        lib.rf_random_uniform(trace.pointer, zeros(shape).handle, minval, high,
                              0 if seed is None else seed))
    return trace.made(lib.rf_cast(trace.pointer, made.handle, kind.code)) if whole else made
