# SPDX-License-Identifier: Apache-2.0
"""The step that is being traced, and its tensors."""
from __future__ import annotations

import operator
import threading
from typing import TYPE_CHECKING, Any, List, Optional, Tuple, Union

import numpy as np

from . import _arrays as arrays
from ._lib import Error, TraceError, fail, ffi, lib, where

if TYPE_CHECKING:
    from ._variable import Variable

local = threading.local()  # its `trace` is that of the thread

# NumPy's functions that are operators.
operators: Any = {
    np.add: operator.add,
    np.subtract: operator.sub,
    np.multiply: operator.mul,
    np.true_divide: operator.truediv,
    np.floor_divide: operator.floordiv,
    np.remainder: operator.mod,
    np.power: operator.pow,
    np.matmul: operator.matmul,
    np.less: operator.lt,
    np.less_equal: operator.le,
    np.greater: operator.gt,
    np.greater_equal: operator.ge,
    np.equal: operator.eq,
    np.not_equal: operator.ne,
    np.negative: operator.neg,
    np.positive: operator.pos,
    np.absolute: operator.abs,
}


class Trace:
    """The recording of one call of a step. Only functions of this package see it."""

    def __init__(self, pointer: Any, strategy: Any) -> None:
        self.pointer, self.strategy = pointer, strategy
        self.outer: Optional["Trace"] = None
        self.outer_step = False  # of rf.function: a step only if it does not run one
        self.kept: List[Any] = []  # what the library reads after the call that was given it

    def __enter__(self) -> "Trace":
        self.outer = getattr(local, "trace", None)
        local.trace = self
        return self

    def __exit__(self, *exception: Any) -> None:
        local.trace = self.outer

    def made(self, handle: Any) -> "Tensor":
        """The tensor that an operation made; its failure as an exception that names the line."""
        if handle.id == 0:
            self.fail()
        return Tensor(self, handle)

    def fail(self) -> None:
        """Raises the error that the trace has recorded."""
        try:
            fail(lib.rf_trace_status(self.pointer))
        except Error as failure:
            if failure.line is None:
                failure.line = where()
                failure.args = ("%s: %s" % (failure.line, failure.args[0]), )
            raise

    def check(self, result: int) -> None:
        """The result of a tracing function that returns one."""
        if result < 0:
            self.fail()

    def take(self, value: Any, argument: str) -> Any:
        """The handle of an operand: a tensor, a variable's value, or a constant."""
        if isinstance(value, Tensor):
            if value.trace is not self:
                raise TraceError(
                    "%s: %s is a tensor of another step, or of an earlier trace of this one; "
                    "return it from the step, and give it to the next one as an argument" %
                    (where(), argument))
            return value.handle
        traced = getattr(value, "_traced", None)  # a variable, or what else has a value in a step
        if traced is not None:
            return traced(self).handle
        return self.constant(value).handle

    def constant(self, value: Any, dtype: Optional[arrays.DType] = None) -> "Tensor":
        """A constant of numbers."""
        if isinstance(value, (bool, int, float)) and dtype is None:
            return self.made(lib.rf_constant(self.pointer, float(value)))
        if isinstance(value, (list, tuple)) and any(isinstance(v, Tensor) for v in value):
            from ._functions import stack
            return stack(value)
        array, dense = arrays.array_in(value, dtype)
        if dense.dtype == np.uint8 and dtype is None and arrays.as_numpy(value).dtype == np.bool_:
            array, dense = arrays.array_in(dense, arrays.float32)
        return self.made(lib.rf_constant_array(self.pointer, array))


def current() -> Optional[Trace]:
    """The trace of this thread; None outside of a step."""
    return getattr(local, "trace", None)


def trace_of(name: str, *operands: Any) -> Trace:
    """The trace that an operation belongs to."""
    trace = getattr(local, "trace", None)
    if trace is None:
        raise TraceError("%s: %s() is an operation of a step; call it in a function that "
                         "strategy.run() or rf.function calls" % (where(), name))
    return trace


class Tensor:
    """A symbolic tensor: a value of the step that is being traced, which has no numbers yet.
    Operators and slices are recorded, and broadcast as NumPy's do."""
    __slots__ = ("trace", "handle", "__weakref__")

    def __init__(self, trace: Trace, handle: Any) -> None:
        self.trace, self.handle = trace, handle

    # ---- facts ----

    @property
    def shape(self) -> Tuple[int, ...]:
        """Dimensions in this trace. The first one is the batch, which may differ in other runs."""
        return arrays.shape_out(lib.rf_tensor_shape(self.trace.pointer, self.handle))

    @property
    def dtype(self) -> arrays.DType:
        """Element type."""
        return arrays.dtype(lib.rf_tensor_dtype(self.trace.pointer, self.handle))

    @property
    def ndim(self) -> int:
        """Number of dimensions."""
        return len(self.shape)

    def __repr__(self) -> str:
        return "<ringfire.Tensor shape=%r dtype=%s>" % (self.shape, self.dtype.name)

    # ---- what cannot be traced ----

    def _no_value(self, what: str, instead: str) -> TraceError:
        return TraceError("%s: %s needs a number, but a tensor has none while its step "
                          "is traced; %s" %
                          (where(), what, instead))

    def __bool__(self) -> bool:
        raise self._no_value("a condition", "choose elements with rf.where()")

    def __float__(self) -> float:
        raise self._no_value("float()", "return the tensor from the step, and read it there")

    def __int__(self) -> int:
        raise self._no_value("int()", "return the tensor from the step, and read it there")

    __index__ = __int__

    def __array__(self, *arguments: Any, **keywords: Any) -> Any:
        raise self._no_value("NumPy", "use the function of this package, such as rf.exp()")

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **keywords: Any) -> Any:
        """NumPy's operators of an array and a tensor are those of tensors."""
        function = operators.get(ufunc)
        if function is None or method != "__call__" or keywords:
            raise self._no_value("numpy.%s()" % ufunc.__name__, "use the function of this package")
        return function(*(x if isinstance(x, Tensor) else self.trace.constant(x) for x in inputs))

    def numpy(self) -> Any:
        """Raises: return the tensor from the step, and read it there."""
        raise self._no_value("numpy()", "return the tensor from the step, and read it there")

    def __len__(self) -> int:
        shape = self.shape
        if not shape:
            raise TypeError("a scalar has no length")
        return shape[0]

    def __iter__(self) -> Any:
        raise self._no_value("a loop over a tensor", "compute with all elements at once, or take "
                             "parts with slices")

    __hash__ = object.__hash__

    # ---- operators ----

    def __add__(self, other: Any) -> "Tensor":
        return _binary(lib.rf_add, self, other)

    def __radd__(self, other: Any) -> "Tensor":
        return _binary(lib.rf_add, other, self)

    def __sub__(self, other: Any) -> "Tensor":
        return _binary(lib.rf_subtract, self, other)

    def __rsub__(self, other: Any) -> "Tensor":
        return _binary(lib.rf_subtract, other, self)

    def __mul__(self, other: Any) -> "Tensor":
        return _binary(lib.rf_multiply, self, other)

    def __rmul__(self, other: Any) -> "Tensor":
        return _binary(lib.rf_multiply, other, self)

    def __truediv__(self, other: Any) -> "Tensor":
        return _binary(lib.rf_divide, self, other)

    def __rtruediv__(self, other: Any) -> "Tensor":
        return _binary(lib.rf_divide, other, self)

    def __floordiv__(self, other: Any) -> "Tensor":
        return self.trace.made(lib.rf_floor(self.trace.pointer, (self / other).handle))

    def __rfloordiv__(self, other: Any) -> "Tensor":
        return self.trace.made(lib.rf_floor(self.trace.pointer, (other / self).handle))

    def __mod__(self, other: Any) -> "Tensor":
        return self - (self // other) * other

    def __pow__(self, other: Any) -> "Tensor":
        if isinstance(other, (int, float)) and other == 2:
            return self.trace.made(lib.rf_square(self.trace.pointer, self.handle))
        return _binary(lib.rf_pow, self, other)

    def __rpow__(self, other: Any) -> "Tensor":
        return _binary(lib.rf_pow, other, self)

    def __matmul__(self, other: Any) -> "Tensor":
        from ._functions import matrix_product
        return matrix_product(self, other)

    def __rmatmul__(self, other: Any) -> "Tensor":
        from ._functions import matrix_product
        return matrix_product(other, self)

    def __neg__(self) -> "Tensor":
        return self.trace.made(lib.rf_negative(self.trace.pointer, self.handle))

    def __pos__(self) -> "Tensor":
        return self

    def __abs__(self) -> "Tensor":
        return self.trace.made(lib.rf_abs(self.trace.pointer, self.handle))

    def __lt__(self, other: Any) -> "Tensor":
        return _compare(lib.RF_LESS, self, other)

    def __le__(self, other: Any) -> "Tensor":
        return _compare(lib.RF_LESS_EQUAL, self, other)

    def __gt__(self, other: Any) -> "Tensor":
        return _compare(lib.RF_GREATER, self, other)

    def __ge__(self, other: Any) -> "Tensor":
        return _compare(lib.RF_GREATER_EQUAL, self, other)

    def __eq__(self, other: Any) -> Any:
        return _compare(lib.RF_EQUAL, self, other)

    def __ne__(self, other: Any) -> Any:
        return _compare(lib.RF_NOT_EQUAL, self, other)

    def __getitem__(self, key: Any) -> "Tensor":
        from ._functions import item
        return item(self, key)

    @property
    def T(self) -> "Tensor":
        """The dimensions in reverse order."""
        from ._functions import transpose
        return transpose(self)


def _binary(function: Any, a: Any, b: Any) -> Tensor:
    trace = a.trace if isinstance(a, Tensor) else b.trace
    return trace.made(function(trace.pointer, trace.take(a, "a"), trace.take(b, "b")))


def _compare(comparison: int, a: Tensor, b: Any) -> Tensor:
    trace = a.trace
    if isinstance(b, (bool, int, float)) and a.dtype == arrays.int32:
        b = trace.constant(b, arrays.int32)
    return trace.made(lib.rf_compare(trace.pointer, comparison, a.handle, trace.take(b, "b")))


def tensors(trace: Trace, array: Any, count: int) -> List[Tensor]:
    """Tensors of a C array of handles, which they copy."""
    return [Tensor(trace, ffi.new("rf_tensor *", array[i])[0]) for i in range(count)]


def optional(trace: Trace, value: Any, argument: str) -> Any:
    """The handle of an operand that may be left out."""
    return ffi.new("rf_tensor *")[0] if value is None else trace.take(value, argument)


def handles(trace: Trace, values: Any, argument: str) -> Any:
    """A C array of operands, which is never empty."""
    return ffi.new("rf_tensor[]", [trace.take(v, argument) for v in values] or 1)


TensorLike = Union[Tensor, "Variable", np.ndarray, float, int, Any]
