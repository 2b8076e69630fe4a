# SPDX-License-Identifier: Apache-2.0
"""Functions that are traced: the steps of strategies, and rf.function."""
from __future__ import annotations

import functools
import types
from collections import OrderedDict
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple
from weakref import ref

import numpy as np

from . import _arrays as arrays
from ._lib import (Handle, InvalidArgumentError, TraceError, callback, check, ffi, forget_raised,
                   lib, raised, take_raised)
from ._structure import count_leaves, flatten, is_array, pack
from ._trace import Tensor, Trace, current, tensors
from ._values import BatchValue, Elements, Value

# So many steps are kept in one place; the oldest goes.
MAX_STEPS = 64


class Orchestrates(BaseException):
    """A function is no step: it runs one."""


class Recount(BaseException):
    """A step returns another number of tensors than was guessed."""


class Restore(BaseException):
    """A step has built what a checkpoint waits for: it begins again once that is restored."""


class PerReplica:
    """What a step returned: a value for each replica of this worker."""
    _read: Any = None  # arrays by replica

    def __init__(self, step: "Step", pointer: Any) -> None:
        self.step: Optional["Step"] = step
        self.strategy, self.pointer = step.strategy, pointer

    @property
    def values(self) -> Tuple[Value, ...]:
        """The values, in the order of the replicas."""
        return tuple(Result(self, r) for r in self.strategy.local_replicas)

    def read(self, replica: int) -> np.ndarray:
        if self._read is None:
            self._read = {}
        found = self._read.get(replica)
        if found is None:
            out = ffi.new("rf_array *")
            check(lib.rf_per_replica_local(self.live, replica, out))
            found = self._read[replica] = arrays.array_view(out).copy()
        return found

    @property
    def live(self) -> Any:
        """The library's object; it belongs to the function, until its next but one run."""
        if self.step is None:
            raise InvalidArgumentError(
                "this result belongs to an earlier run; reduce or gather it before the function "
                "has run twice more")
        return self.pointer

    def detach(self) -> None:
        """Reads all values of this worker, before the library forgets them."""
        if self.step is not None:
            for replica in self.strategy.local_replicas:
                self.read(replica)
            self.step = None

    def __repr__(self) -> str:
        return "<ringfire.PerReplica of %d>" % len(self.values)


class Result(Value):
    """One of the values of a PerReplica. It is read from the device when it is first looked at."""
    _data: Any = None

    def __init__(self, source: PerReplica, replica: int) -> None:
        self.source, self.replica = source, replica

    @property
    def view(self) -> np.ndarray:
        if self._data is None:
            self._data = self.source.read(self.replica)
        return self._data


class OnlyResult(Result, PerReplica):
    """What a step returned where this worker has one replica."""

    def __init__(self, step: "Step", pointer: Any) -> None:
        self.step, self.pointer = step, pointer
        self.strategy = strategy = step.strategy
        self.replica = strategy.first_local

    @property
    def source(self) -> PerReplica:  # type: ignore[override]
        return self

    __repr__ = Value.__repr__


def _is_tensor(x: Any) -> bool:
    return isinstance(x, (Tensor, Value, np.ndarray)) or hasattr(x, "_traced")


class Step(Handle):
    """A function of Python as a function of the library, for arguments of one structure."""

    def __init__(self, strategy: Any, function: Callable[..., Any], definition: Any) -> None:
        self.strategy, self.function, self.definition = strategy, function, definition
        self.num_inputs = count_leaves(definition)
        self.name = getattr(function, "__name__", type(function).__name__)
        self.outer = False  # of an rf.function: what it calls may be the step
        self._made: Any = ()  # the structure that the step returned when it was traced last
        self._known: Optional[int] = None
        self._recent: Tuple[Any, Any] = ((), ())
        self._elements = Elements()
        self._create(1)

    def _create(self, num_outputs: int) -> None:
        """The number of results is not known before the function was called: it is called again
        where the guess was wrong."""
        self._detach(*self._recent)
        self.close()
        self.num_outputs = num_outputs
        me = ref(self)

        def step(t: Any, inputs: Any, out: Any, user: Any) -> Any:
            return me().trace(t, inputs, out)  # type: ignore[union-attr]

        called = callback("rf_step_fn", step)
        name = ffi.new("char[]", self.name.encode())
        settings = ffi.new("rf_function_params *")
        settings.step, settings.name, settings.num_outputs = called, name, num_outputs
        settings.training = True
        out = ffi.new("rf_function **")
        check(lib.rf_function_create(self.strategy.pointer, settings, out))
        self.adopt(out[0], lib.rf_function_destroy, self.strategy)
        self.keep(called)
        self._results = ffi.new("rf_per_replica *[]", max(num_outputs, 1))

    def trace(self, pointer: Any, inputs: Any, out: Any) -> int:
        # A batch of one is traced as two first: what went wrong there is tried again, but an
        # interrupt or a step that begins again is not.
        earlier = take_raised()
        if earlier is not None and not isinstance(earlier, Exception):
            raise earlier
        with Trace(pointer, self.strategy) as trace:
            trace.outer_step = self.outer
            arguments = iter(tensors(trace, inputs, self.num_inputs))
            args, kwargs = pack(self.definition, arguments)
            made = self.function(*args, **kwargs)
            leaves: List[Any] = []
            self._made = flatten(made, _is_tensor, leaves)
            if len(leaves) > lib.RF_MAX_COMPONENTS:
                raise TraceError("%s() returns %d tensors; at most %d" %
                                 (self.name, len(leaves), lib.RF_MAX_COMPONENTS))
            self._known = len(leaves)
            if self._known != self.num_outputs:
                raise Recount
            for i, leaf in enumerate(leaves):
                out[i] = trace.take(leaf, "what %s() returns" % self.name)
            if self.strategy.restores:
                raise Restore
            return int(lib.rf_trace_status(pointer))

    def run(self, values: List[Any]) -> Any:
        """run_element() of arrays."""
        if not values:
            # Each replica gets an example that the step does not see.
            values = [np.zeros((self.strategy.num_replicas_in_sync, 1), np.uint8)]
        return self.run_element(self._elements.of(values))

    def run_element(self, element: Any) -> Any:
        """Runs the step on every replica; the structure that it returned, of its results."""
        if raised:
            forget_raised()
        strategy, (older, newer) = self.strategy, self._recent
        for reference in older:
            if reference() is not None:
                self._detach(older)
        results = self._results
        result = lib.rf_strategy_run(strategy.pointer, self.pointer, element, results)
        if result < 0:
            self._failed(result, element)
            results = self._results
        kind = OnlyResult if strategy.one_local else PerReplica
        if self._made is None:
            only = kind(self, results[0])
            self._recent = newer, (ref(only), )
            return only
        leaves = [kind(self, results[i]) for i in range(self.num_outputs)]
        self._recent = newer, tuple(ref(leaf) for leaf in leaves)
        return pack(self._made, iter(leaves))

    def _detach(self, *runs: Any) -> None:
        """Results that somebody still holds get numbers of their own."""
        for run in runs:
            for reference in run:
                old = reference()
                if old is not None:
                    old.detach()

    def _failed(self, result: int, element: Any) -> None:
        """Runs once more what only the trace could tell; raises what has failed."""
        for _ in range(3):
            try:
                check(result)
                return
            except Recount:
                self._create(self._known or 0)
            except Restore:
                self.strategy.restore_waiting()
            result = lib.rf_strategy_run(self.strategy.pointer, self.pointer, element,
                                         self._results)
        check(result)

    @property
    def num_traces(self) -> int:
        return int(lib.rf_function_num_traces(self.pointer))


def _same(a: Any, b: Any) -> bool:
    """Whether a step would find the same in two places: one object, or equal constants."""
    return a is b or (type(a) is type(b) and isinstance(a, (int, float, str, bytes, tuple))
                      and bool(a == b))


def _inside(function: Any) -> Tuple[Any, List[Any]]:
    """What a function does, and what it has from around it: a function that is defined again in
    each turn of a loop, with the same variables in sight, is the same step."""
    if isinstance(function, functools.partial):
        code, around = _inside(function.func)
        return code, around + list(function.args) + [
            x for pair in sorted(function.keywords.items()) for x in pair
        ]
    around = []
    bound = getattr(function, "__self__", None)
    if bound is not None and hasattr(function, "__func__"):
        around.append(bound)
        function = function.__func__
    code = getattr(function, "__code__", None)
    if code is None:
        return type(function), around + [function]
    for cell in function.__closure__ or ():
        try:
            around.append(cell.cell_contents)
        except ValueError:  # not set yet
            around.append(cell)
    around += list(function.__defaults__ or ())
    return code, around


def _steps_of(strategy: Any, function: Any, around: List[Any]) -> "OrderedDict[Any, Any]":
    """Where the steps of a function are kept: with something that it holds on to, so that they go
    when it goes. A function of a module keeps them itself."""
    if "<locals>" not in getattr(function, "__qualname__", "<locals>") and not around:
        around = [function]
    for owner in around:
        if owner is strategy or isinstance(owner, (type, types.ModuleType)):
            continue
        attributes = getattr(owner, "__dict__", None)
        if isinstance(attributes, dict):
            steps = attributes.get("_ringfire_steps")
            if steps is None:
                steps = attributes["_ringfire_steps"] = OrderedDict()
            return steps
    return strategy.steps


def find_step(strategy: Any, function: Any, definition: Any) -> Step:
    """The step that a function is for arguments of this structure, which it remembers."""
    # A function of a module remembers the last one, too: there is nothing around that changes.
    plain = type(function) is types.FunctionType and not function.__closure__
    if plain:
        last = function.__dict__.get("_ringfire_step")
        if last is not None and last[0] is strategy and last[1] == definition:
            return last[2]
    step = _search_step(strategy, function, definition)
    if plain and "<locals>" not in function.__qualname__:
        function.__dict__["_ringfire_step"] = (strategy, definition, step)
    return step


def _search_step(strategy: Any, function: Any, definition: Any) -> Step:
    code, around = _inside(function)
    steps = _steps_of(strategy, function, around)
    key = (strategy.serial, code, definition)
    known = steps.get(key)
    if known is None:
        known = steps[key] = []
        if len(steps) > MAX_STEPS:
            steps.popitem(last=False)
    for old, step in known:
        if len(old) == len(around) and all(_same(a, b) for a, b in zip(old, around)):
            return step
    step = Step(strategy, function, definition)
    known.append((around, step))
    if len(known) > MAX_STEPS:
        known.pop(0)
    return step


# What flatten() makes of one argument that is a batch of so many arrays.
_BATCHES = [(tuple, (tuple, (tuple, ) + (None, ) * n), (dict, (), ()))
            for n in range(lib.RF_MAX_COMPONENTS + 1)]


def run_step(strategy: Any, function: Any, args: Sequence[Any], kwargs: Dict[str, Any],
             outer: bool = False) -> Any:
    """Runs a function on every replica of a strategy."""
    if len(args) == 1 and type(args[0]) is tuple and args[0] and not kwargs:
        # A batch, as datasets make them: nothing has to be looked for.
        first = args[0][0]
        batch = first._batch if type(first) is BatchValue else None
        if batch is not None and batch.values is args[0] and 0 not in batch.ranks:
            definition = _BATCHES[len(batch.ranks)]
            known = type(function) is types.FunctionType and function.__dict__.get("_ringfire_step")
            step = known[2] if known and known[0] is strategy and known[1] is definition else \
                find_step(strategy, function, definition)
            step.outer, batch.used = outer, True
            return step.run_element(batch.element)
    leaves: List[Any] = []
    definition = flatten((tuple(args), kwargs), is_array, leaves)
    step = find_step(strategy, function, definition)
    step.outer = outer
    return step.run(leaves)


class TensorSpec:
    """Type and shape of an argument of rf.function; a dimension None may vary."""

    def __init__(self, shape: Sequence[Optional[int]], dtype: Any = arrays.float32,
                 name: Optional[str] = None) -> None:
        self.shape, self.dtype, self.name = tuple(shape), arrays.dtype(dtype), name

    def convert(self, value: Any, who: str) -> Any:
        """`value` if it is of this kind, or its numbers in this type."""
        array: Any = value if isinstance(value, Value) else arrays.as_numpy(value)
        fits = len(array.shape) == len(self.shape) and all(
            want is None or want == have for want, have in zip(self.shape, array.shape))
        if not fits:
            raise InvalidArgumentError("%s: an array of shape %r does not fit TensorSpec(%r)" %
                                       (who, array.shape, self.shape))
        if isinstance(array, Value) and array.dtype == self.dtype:
            return array
        return arrays.as_dense(array, self.dtype)


def _is_of_loops(x: Any) -> bool:
    """Whether x is for loops around steps: a dataset, an iterator, or what a step returned."""
    return (isinstance(x, PerReplica) or hasattr(x, "__next__")
            or isinstance(x, Handle) and hasattr(x, "__iter__"))


class Function:
    """What rf.function makes of a function. Called outside of steps it is a step of its own on the
    strategy of the scope, traced once for each kind of arguments; one that itself calls
    strategy.run() runs as it stands, and what it runs is the step. In a step it is part of it."""

    def __init__(self, function: Callable[..., Any],
                 input_signature: Optional[Sequence[TensorSpec]] = None) -> None:
        self.python_function = function
        self.input_signature = input_signature
        self.plain = False  # runs steps instead of being one
        functools.update_wrapper(self, function)

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        return self if instance is None else _Bound(self, instance)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self.plain:
            return self.python_function(*args, **kwargs)
        return self.call(self.python_function, args, kwargs)

    def call(self, function: Any, args: Tuple[Any, ...], kwargs: Dict[str, Any]) -> Any:
        if current() is not None or self.plain:
            return function(*args, **kwargs)
        from ._strategy import get_strategy
        if self.input_signature is not None:
            if kwargs or len(args) != len(self.input_signature):
                raise InvalidArgumentError("%s() takes %d arguments, by its input_signature" %
                                           (self.__name__, len(self.input_signature)))
            args = tuple(
                spec.convert(a, "%s()" % self.__name__)
                for spec, a in zip(self.input_signature, args))
        strategy = get_strategy()
        if strategy.num_replicas_in_sync > 1 or any(
                _is_of_loops(a) for a in (*args, *kwargs.values())):
            return function(*args, **kwargs)
        try:
            return run_step(strategy, function, args, kwargs, outer=True)
        except Orchestrates:
            self.plain = True
            return function(*args, **kwargs)

    __name__ = "function"


class _Bound:
    """A method that is an rf.function."""

    def __init__(self, function: Function, instance: Any) -> None:
        self.function = function
        self.python_function = function.python_function.__get__(instance)
        functools.update_wrapper(self, function.python_function)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.function.call(self.python_function, args, kwargs)


def function(func: Any = None, input_signature: Optional[Sequence[TensorSpec]] = None,
             **ignored: Any) -> Any:
    """Traces a function once and replays it; after tf.function. As a decorator with or without
    settings."""
    if ignored:
        raise InvalidArgumentError("rf.function has no setting %s" % ", ".join(sorted(ignored)))
    if func is None:
        return lambda f: Function(f, input_signature)
    return Function(func, input_signature)
