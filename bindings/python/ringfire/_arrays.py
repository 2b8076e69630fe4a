# SPDX-License-Identifier: Apache-2.0
"""Types, shapes and arrays of the library, and NumPy's."""
from __future__ import annotations

from typing import Any, List, Optional, Sequence, Tuple, Union

import numpy as np

from ._lib import InvalidArgumentError, ffi, lib

ShapeLike = Union[int, Sequence[int]]


class DType:
    """An element type: `rf.float32` and its like. NumPy takes it, but for bfloat16, which NumPy
    does not have."""
    __slots__ = ("name", "code", "numpy")

    def __init__(self, name: str, code: int, numpy: Optional[str]) -> None:
        self.name, self.code = name, code
        self.numpy = None if numpy is None else np.dtype(numpy)

    @property
    def as_numpy_dtype(self) -> Any:
        return None if self.numpy is None else self.numpy.type

    @property
    def dtype(self) -> Any:  # by which NumPy recognises a type
        return self.numpy

    def __repr__(self) -> str:
        return "ringfire." + self.name

    def __eq__(self, other: Any) -> bool:
        try:
            return self.code == dtype(other).code
        except InvalidArgumentError:
            return False

    def __hash__(self) -> int:
        return hash(self.code)


float32 = DType("float32", lib.RF_F32, "float32")
float16 = DType("float16", lib.RF_F16, "float16")
bfloat16 = DType("bfloat16", lib.RF_BF16, None)
int32 = DType("int32", lib.RF_I32, "int32")
uint8 = DType("uint8", lib.RF_U8, "uint8")
int64 = DType("int64", lib.RF_I64, "int64")
_types = (float32, float16, bfloat16, int32, uint8, int64)
_by_code = {t.code: t for t in _types}
_by_name = {t.name: t for t in _types}
_by_numpy = {t.numpy: t for t in _types if t.numpy is not None}
# Types that the library does not have, and which of its types holds their values; whole numbers
# are looked at before they are narrowed.
_narrowed = {
    np.dtype("float64"): float32,
    np.dtype("int64"): int32,
    np.dtype("int8"): int32,
    np.dtype("int16"): int32,
    np.dtype("uint16"): int32,
    np.dtype("uint32"): int32,
    np.dtype("uint64"): int32,
    np.dtype("bool"): uint8,
}


def dtype(of: Any) -> DType:
    """The element type that a name, a type of NumPy, or a code of the library stands for."""
    if isinstance(of, DType):
        return of
    if isinstance(of, int) and of in _by_code:
        return _by_code[of]
    if isinstance(of, str) and of in _by_name:
        return _by_name[of]
    try:
        found = _by_numpy.get(np.dtype(of))
    except TypeError:
        found = None
    if found is None:
        raise InvalidArgumentError("%r is no element type; there are %s" %
                                   (of, ", ".join(_by_name)))
    return found


def shape_in(shape: Any) -> Any:
    """An rf_shape of a number or a sequence of numbers."""
    dims = (shape, ) if isinstance(shape, (int, np.integer)) else tuple(shape)
    if len(dims) > lib.RF_MAX_RANK:
        raise InvalidArgumentError("the shape %r has %d dimensions; at most %d" %
                                   (dims, len(dims), lib.RF_MAX_RANK))
    out = ffi.new("rf_shape *")
    out.rank = len(dims)
    for i, dim in enumerate(dims):
        out.dim[i] = int(dim)
    return out[0]


def shape_out(shape: Any) -> Tuple[int, ...]:
    """A tuple of an rf_shape."""
    return tuple(shape.dim[0:shape.rank])


def as_numpy(value: Any) -> np.ndarray:
    """Anything with __array__, a buffer, or DLPack, or numbers in lists, as NumPy sees it: without
    a copy where it has memory of the host."""
    if isinstance(value, np.ndarray):
        return value
    if (hasattr(value, "__dlpack__") and not hasattr(value, "__array__")
            and hasattr(np, "from_dlpack")):
        return np.from_dlpack(value)
    return np.asarray(value)


def as_dense(value: Any, want: Optional[DType] = None) -> np.ndarray:
    """`value` as an array whose bytes the library can read: one of its types, row-major. Numbers
    of other types are narrowed (float64 to float32, int64 to int32 where the numbers fit)."""
    array = as_numpy(value)
    if want is not None and want.numpy is not None:
        return np.ascontiguousarray(array, dtype=want.numpy).reshape(array.shape)
    kind = _by_numpy.get(array.dtype)
    if kind is None or kind is int64:
        narrowed = _narrowed.get(array.dtype)
        if narrowed is None:
            raise InvalidArgumentError("arrays of %s are not supported; convert it to one of %s" %
                                       (array.dtype, ", ".join(_by_name)))
        if narrowed is int32 and array.size and array.dtype.itemsize >= 4:
            low, high = array.min(), array.max()
            if low < -2**31 or high >= 2**31:
                raise InvalidArgumentError("whole numbers from %s to %s do not fit int32" %
                                           (low, high))
        array = array.astype(narrowed.numpy)
    if not array.flags.c_contiguous or not array.dtype.isnative:
        array = np.ascontiguousarray(array,
                                     dtype=array.dtype.newbyteorder("=")).reshape(array.shape)
    return array


def array_in(value: Any, want: Optional[DType] = None) -> Tuple[Any, np.ndarray]:
    """An rf_array * over the bytes of `value`, and what has to be kept as long as it is used. There
    is no copy where the type, the order and the place of the bytes allow it."""
    dense = as_dense(value, want)
    out = ffi.new("rf_array *")
    out.dtype = _by_numpy[dense.dtype].code
    out.shape.rank = dense.ndim
    if dense.ndim > lib.RF_MAX_RANK:
        raise InvalidArgumentError("an array of shape %r has too many dimensions; at most %d" %
                                   (dense.shape, lib.RF_MAX_RANK))
    for i, dim in enumerate(dense.shape):
        out.shape.dim[i] = dim
    out.data = ffi.cast("void *", dense.__array_interface__["data"][0])
    return out, dense


def array_view(array: Any) -> np.ndarray:
    """A NumPy view of an rf_array, whose memory somebody else keeps. bfloat16 is copied, to
    float32."""
    return _view(array, array.data)


def _view(array: Any, memory: Any) -> np.ndarray:
    """A NumPy view of memory of the type and shape of an rf_array; it keeps `memory`."""
    shape = shape_out(array.shape)
    kind = _by_code[array.dtype]
    count = 1
    for dim in shape:
        count *= dim
    if count == 0:
        return np.zeros(shape, kind.numpy or np.float32)
    size = count * lib.rf_dtype_size(array.dtype)
    raw = np.frombuffer(ffi.buffer(memory, size), np.uint8)
    if kind is bfloat16:
        wide = raw.view(np.uint16).astype(np.uint32) << 16
        return wide.view(np.float32).reshape(shape)
    return raw.view(kind.numpy).reshape(shape)


def array_out(array: Any) -> np.ndarray:
    """A NumPy array of an rf_array that the library allocated: without a copy, and the memory is
    freed with the array."""
    owned = ffi.new("rf_array *", array)
    array.data = ffi.NULL
    return _view(owned, ffi.gc(owned.data, lambda data: lib.rf_array_free(owned)))


def ints(kind: str, values: Sequence[int]) -> Any:
    """A C array of whole numbers; it is never empty, so that it has an address."""
    numbers: List[int] = [int(v) for v in values]
    return ffi.new(kind + "[]", numbers or [0])
