# SPDX-License-Identifier: Apache-2.0
"""Variables: tensors that last between steps, and whole numbers of the program."""
from __future__ import annotations

from enum import Enum
from typing import Any, Iterable, List, Optional, Tuple

import numpy as np
from numpy.lib.mixins import NDArrayOperatorsMixin

from . import _arrays as arrays
from ._lib import (Handle, InvalidArgumentError, TraceError, check, create, ffi, lib, params, text,
                   where)
from ._trace import Tensor, Trace, current, operators
from ._values import Value


class VariableAggregation(Enum):
    """How the values that replicas assign to one variable become one."""
    MEAN = "mean"
    SUM = "sum"
    ONLY_FIRST_REPLICA = "first_replica"


class _Readable(NDArrayOperatorsMixin):
    """In a step a symbolic tensor, outside of it the numbers of now."""

    def _traced(self, trace: Trace) -> Tensor:
        raise NotImplementedError

    def numpy(self) -> Any:
        raise NotImplementedError

    def value(self) -> Any:
        """The value: a tensor of the step where there is one."""
        trace = current()
        return Value(np.asarray(self.numpy())) if trace is None else self._traced(trace)

    read_value = value

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **keywords: Any) -> Any:
        if method != "__call__" or keywords:
            return NotImplemented
        operands = [x.value() if isinstance(x, _Readable) else x for x in inputs]
        if not any(isinstance(x, Tensor) for x in operands):
            made = ufunc(*operands)
            return made if isinstance(made, Value) else Value(np.asarray(made))
        function = operators.get(ufunc)
        if function is None:
            raise TraceError("%s: numpy.%s() is no operation of a step; use the one of this package"
                             % (where(), ufunc.__name__))
        return function(*operands)

    def __array__(self, dtype: Any = None, copy: Optional[bool] = None) -> np.ndarray:
        if current() is not None:
            raise TraceError("%s: NumPy needs numbers, but a variable has none while a step is "
                             "traced; use the function of this package" % where())
        made = np.asarray(self.numpy())
        return made if dtype is None else made.astype(dtype)

    def __getitem__(self, key: Any) -> Any:
        return self.value()[key]

    def __float__(self) -> float:
        return float(self.value())

    def __int__(self) -> int:
        return int(self.value())

    def __bool__(self) -> bool:
        return bool(self.value())

    def __format__(self, spec: str) -> str:
        return format(self.value(), spec)

    __hash__ = object.__hash__

    # A variable is itself among others; its values are compared with rf.equal or NumPy.
    def __eq__(self, other: Any) -> Any:
        return self is other

    def __ne__(self, other: Any) -> Any:
        return self is not other


class Variable(Handle, _Readable):
    """A tensor that lasts between steps, f32, with the same value on every replica of the strategy
    whose scope it is made in. Whole numbers make a variable of the program, which no step sees: an
    epoch, say, that a checkpoint keeps."""

    def __new__(cls, initial_value: Any = None, *arguments: Any, **keywords: Any) -> Any:
        kind = keywords.get("dtype")
        if cls is Variable and not callable(initial_value) and initial_value is not None:
            whole = np.asarray(initial_value).dtype.kind in "iu"
            if (whole if kind is None else arrays.dtype(kind) in (arrays.int32, arrays.int64)):
                return Counter(initial_value, name=keywords.get("name"))
        return super().__new__(cls)

    def __init__(self, initial_value: Any, trainable: bool = True, name: Optional[str] = None,
                 dtype: Any = None, shape: Any = None,
                 aggregation: VariableAggregation = VariableAggregation.MEAN) -> None:
        """`initial_value` is an array, or a function that makes one."""
        from ._strategy import get_strategy
        if dtype is not None and arrays.dtype(dtype) != arrays.float32:
            raise InvalidArgumentError("variables are float32, not %s" % arrays.dtype(dtype).name)
        strategy = get_strategy()
        value = arrays.as_dense(initial_value() if callable(initial_value) else initial_value,
                                arrays.float32)
        if shape is not None and tuple(shape) != value.shape:
            raise InvalidArgumentError("a variable of shape %r was given an initial value of %r" %
                                       (tuple(shape), value.shape))
        kept: List[Any] = []
        settings = params("rf_variable_params", kept, name=name, shape=arrays.shape_in(value.shape),
                          value=ffi.from_buffer("float[]", value), not_trainable=not trainable)
        self.adopt(create(lib.rf_variable_create, "rf_variable", strategy.pointer, settings),
                   lib.rf_variable_destroy, strategy)
        self.strategy, self._aggregation = strategy, aggregation
        strategy.note(self)

    _name_there: Optional[str] = None

    @classmethod
    def borrowed(cls, pointer: Any, owner: Handle, strategy: Any,
                 name: Optional[str] = None) -> "Variable":
        """A variable that belongs to a model, under its name there, or to a layer."""
        made = Handle.__new__(cls)
        made.adopt(pointer, None, owner)
        made._name_there = name
        made.strategy, made._aggregation = strategy, VariableAggregation.MEAN
        return made

    def _traced(self, trace: Trace) -> Tensor:
        return trace.made(lib.rf_variable_tensor(trace.pointer, self.pointer))

    # ---- facts ----

    @property
    def name(self) -> str:
        """Name; of a model's variable that in the model."""
        return self._name_there or text(lib.rf_variable_name(self.pointer))

    @property
    def shape(self) -> Tuple[int, ...]:
        """Dimensions."""
        return arrays.shape_out(lib.rf_variable_shape(self.pointer))

    @property
    def dtype(self) -> arrays.DType:
        """Element type: float32."""
        return arrays.float32

    @property
    def trainable(self) -> bool:
        """Whether optimizers may update it."""
        return bool(lib.rf_variable_trainable(self.pointer))

    def __repr__(self) -> str:
        return "<ringfire.Variable %r shape=%r>" % (self.name, self.shape)

    # ---- values ----

    def numpy(self) -> Any:
        """The value that this worker's first replica has. Waits for the devices."""
        if current() is not None:
            raise TraceError("%s: a variable has no numbers while a step is traced; compute with "
                             "the variable itself" % where())
        out = np.empty(self.shape, np.float32)
        check(lib.rf_variable_read(self.pointer, ffi.from_buffer("float[]", out)))
        return out[()] if out.ndim == 0 else out

    def assign(self, value: Any) -> None:
        """Sets the value: at once outside of a step; inside, once this step has ended, which only
        variables that are not trainable allow."""
        trace = current()
        if trace is not None:
            if self.trainable:
                raise InvalidArgumentError(
                    "%s: variable '%s' is trainable: optimizers update it; create it with "
                    "trainable=False to assign it in steps" % (where(), self.name))
            kind = {"mean": lib.RF_AGGREGATE_MEAN, "sum": lib.RF_AGGREGATE_SUM,
                    "first_replica": lib.RF_AGGREGATE_FIRST_REPLICA}[self._aggregation.value]
            trace.check(
                lib.rf_variable_update(trace.pointer, self.pointer, trace.take(value, "value"),
                                       kind))
            return
        array = arrays.as_dense(value, arrays.float32)
        if array.shape != self.shape:
            array = np.ascontiguousarray(np.broadcast_to(array, self.shape))
        check(lib.rf_variable_assign(self.pointer, ffi.from_buffer("float[]", array)))

    def assign_add(self, delta: Any) -> None:
        """Adds to the value; see assign()."""
        self.assign(self + delta)

    def assign_sub(self, delta: Any) -> None:
        """Subtracts from the value; see assign()."""
        self.assign(self - delta)

    def gradient(self) -> np.ndarray:
        """The gradient of the last update, over all replicas. Collective."""
        out = np.empty(self.shape, np.float32)
        check(lib.rf_variable_read_gradient(self.pointer, ffi.from_buffer("float[]", out)))
        return out

    def _add_to(self, checkpoint: Any, name: bytes) -> None:
        check(lib.rf_checkpoint_add_variable(checkpoint, name, self.pointer))


class Counter(_Readable):
    """A whole number of the program, at least 0, such as an epoch: what rf.Variable() of a whole
    number makes. Checkpoints keep it; steps do not see it."""

    def __init__(self, initial_value: Any, name: Optional[str] = None) -> None:
        self.name = name or "counter"
        self._number = ffi.new("uint64_t *")
        self.assign(initial_value)

    def _traced(self, trace: Trace) -> Tensor:
        raise TraceError(
            "%s: '%s' is a whole number of the program, which a step does not see; give the step "
            "an array, or make the variable of float32" % (where(), self.name))

    def numpy(self) -> Any:
        return np.int64(self._number[0])

    @property
    def shape(self) -> Tuple[int, ...]:
        return ()

    @property
    def dtype(self) -> arrays.DType:
        return arrays.int64

    def assign(self, value: Any) -> None:
        """Sets the number."""
        number = int(value)
        if number < 0:
            raise InvalidArgumentError("'%s' is a whole number from 0 on, not %d; make the "
                                       "variable of float32" % (self.name, number))
        self._number[0] = number

    def assign_add(self, delta: Any) -> None:
        """Adds to the number."""
        self.assign(int(self._number[0]) + int(delta))

    def assign_sub(self, delta: Any) -> None:
        """Subtracts from the number."""
        self.assign(int(self._number[0]) - int(delta))

    def __index__(self) -> int:
        return int(self._number[0])

    def __lt__(self, other: Any) -> Any:
        return int(self) < other

    def __repr__(self) -> str:
        return "<ringfire.Variable %r = %d>" % (self.name, self._number[0])

    def _add_to(self, checkpoint: Any, name: bytes) -> None:
        check(lib.rf_checkpoint_add_counter(checkpoint, name, self._number))


def variable_list(variables: Iterable[Variable]) -> Any:
    """An rf_variable_list, with what it borrows."""
    listed = list(variables)
    items = ffi.new("rf_variable *[]", [v.pointer for v in listed] or 1)
    made = ffi.new("rf_variable_list *")
    made.items, made.count = items, len(listed)
    return made, items
