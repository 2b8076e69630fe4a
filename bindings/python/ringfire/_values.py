# SPDX-License-Identifier: Apache-2.0
"""Numbers outside of steps: what datasets give, what steps return, and what variables hold."""
from __future__ import annotations

from typing import Any, List, Optional, Sequence, Tuple

import numpy as np
from numpy.lib.mixins import NDArrayOperatorsMixin

from . import _arrays as arrays
from ._lib import InvalidArgumentError, ffi, lib


class Value(NDArrayOperatorsMixin):
    """An array with its numbers, as TensorFlow's eager tensors are. Operators and NumPy's functions
    take it; numpy() gives its array."""
    _batch: Any = None  # whose memory it is, where that is not its own

    def __init__(self, data: np.ndarray) -> None:
        self._data = data

    @property
    def view(self) -> np.ndarray:
        """The numbers in place: of a batch valid until the next one of the dataset."""
        return self._data

    def numpy(self) -> Any:
        """The numbers as an array of NumPy, a scalar as a number of NumPy."""
        data = self.view
        if self._batch is not None:
            data = data.copy()
        return data[()] if data.ndim == 0 else data

    def __array__(self, dtype: Any = None, copy: Optional[bool] = None) -> np.ndarray:
        data = self.view
        if self._batch is not None or copy:
            data = data.copy()
        return data if dtype is None else data.astype(dtype)

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **keywords: Any) -> Any:
        out = keywords.pop("out", None)  # of `x += y`, which gives a new value
        if out is not None and not all(isinstance(o, Value) for o in out):
            return NotImplemented
        made = getattr(ufunc, method)(
            *(x.view if isinstance(x, Value) else x for x in inputs), **keywords)
        if isinstance(made, tuple):
            return tuple(Value(np.asarray(m)) for m in made)
        return Value(np.asarray(made))

    def __dlpack__(self, **keywords: Any) -> Any:
        return self.__array__().__dlpack__(**keywords)

    def __dlpack_device__(self) -> Tuple[int, int]:
        return (1, 0)

    @property
    def shape(self) -> Tuple[int, ...]:
        """Dimensions."""
        return self.view.shape

    @property
    def ndim(self) -> int:
        """Number of dimensions."""
        return self.view.ndim

    @property
    def dtype(self) -> arrays.DType:
        """Element type."""
        return arrays.dtype(self.view.dtype) if self.view.dtype != np.float64 else arrays.float32

    def __getitem__(self, key: Any) -> "Value":
        part = np.asarray(self.view[key])
        return Value(part.copy() if self._batch is not None else part)

    def __len__(self) -> int:
        return len(self.view)

    def __iter__(self) -> Any:
        return (self[i] for i in range(len(self)))

    def __float__(self) -> float:
        return float(self.view)

    def __int__(self) -> int:
        return int(self.view)

    def __index__(self) -> int:
        return self.view.__index__()

    def __bool__(self) -> bool:
        return bool(self.view)

    def __repr__(self) -> str:
        return "<ringfire.Value %s>" % np.array2string(self.view, separator=", ")

    def __str__(self) -> str:
        return format(self)

    def __format__(self, spec: str) -> str:
        data = self.view
        return format(data.item(), spec) if data.ndim == 0 else format(str(data), spec)

    __hash__ = object.__hash__


class Number(Value):
    """A number, as loops add them up in each turn."""
    _data: Any = None

    def __init__(self, number: float) -> None:
        self.number = number

    @property
    def view(self) -> np.ndarray:
        if self._data is None:
            self._data = np.asarray(self.number, np.float32)
        return self._data

    def __add__(self, other: Any) -> Any:
        kind = type(other)
        if kind is float:
            return Number(self.number + other)
        return Number(self.number + other.number) if kind is Number else super().__add__(other)

    __iadd__ = __add__

    def __radd__(self, other: Any) -> Any:
        return Number(other + self.number) if type(other) is float else super().__radd__(other)

    def __float__(self) -> float:
        return self.number

    def __format__(self, spec: str) -> str:
        return format(self.number, spec)


class BatchValue(Value):
    """A component of a batch. Its numbers are looked at when somebody asks for them: most batches
    only go through a loop to a step."""
    _data: Any = None

    def __init__(self, batch: "Batch", index: int) -> None:
        self._batch, self.index = batch, index

    @property
    def view(self) -> np.ndarray:
        batch = self._batch
        if batch is not None and batch.expired:
            raise InvalidArgumentError(
                "this array belongs to an earlier batch of its dataset, whose memory holds a later "
                "one now; call numpy() before the loop goes on")
        if self._data is None:
            assert batch is not None
            self._data = arrays.array_view(batch.element.component[self.index])
        return self._data

    @property
    def ndim(self) -> int:
        return self.view.ndim if self._batch is None else self._batch.ranks[self.index]


class Batch:
    """An element of an iterator, whose memory is the iterator's until its next element. expire()
    has to be called before that."""
    __slots__ = ("element", "ranks", "values", "used", "expired")

    def __init__(self, element: Any, ranks: Sequence[int]) -> None:
        """`element` is a const rf_element *, whose components have so many dimensions."""
        self.element, self.ranks = element, ranks
        self.used = self.expired = False  # used by a step, after which a loop rarely looks at it
        self.values: Tuple[BatchValue, ...] = (
            (BatchValue(self, 0), BatchValue(self, 1)) if len(ranks) == 2  # as most batches have
            else tuple([BatchValue(self, i) for i in range(len(ranks))]))

    def expire(self) -> None:
        """Gives values memory of their own, unless a step has had them: those a loop would copy in
        each turn for nothing."""
        if not self.used:
            for value in self.values:
                value._data, value._batch = value.view.copy(), None
        self.expired, self.values = True, ()


class Elements:
    """Makes rf_elements of arrays, or of the values of a batch, in one struct: of arrays that have
    types and shapes of the ones before only the addresses are new."""
    __slots__ = ("element", "_known", "_kept")

    def __init__(self) -> None:
        self.element: Any = ffi.new("rf_element *")
        self._known: List[Any] = []
        self._kept: List[Any] = []  # memory that the element borrows

    def of(self, values: List[Any]) -> Any:
        """An rf_element *, valid until the next one is made."""
        element = self.element
        if len(values) != len(self._known):
            if len(values) > lib.RF_MAX_COMPONENTS:
                raise InvalidArgumentError("a step takes at most %d arrays, not %d" %
                                           (lib.RF_MAX_COMPONENTS, len(values)))
            self._known = [(None, None)] * len(values)
            self._kept = [None] * len(values)
            element.num_components = len(values)
        first_row = global_rows = 0
        for i, value in enumerate(values):
            if isinstance(value, Value):
                batch = value._batch
                if isinstance(value, BatchValue) and batch is not None and not batch.expired:
                    batch.used = True
                    first_row = batch.element.first_row
                    global_rows = batch.element.global_rows
                    element.component[i] = batch.element.component[value.index]
                    self._known[i] = (None, None)
                    continue
                value = value.view
            if type(value) is np.ndarray and (value.dtype, value.shape) == self._known[i] and (
                    value.flags.c_contiguous):
                self._kept[i] = memory = ffi.from_buffer(value)
                element.component[i].data = memory
                continue
            array, dense = arrays.array_in(value)
            self._kept[i] = dense
            element.component[i] = array[0]
            self._known[i] = (dense.dtype, dense.shape) if dense.size > 0 else (None, None)
        element.first_row, element.global_rows = first_row, global_rows
        return element
