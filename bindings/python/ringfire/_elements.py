# SPDX-License-Identifier: Apache-2.0
"""Elements of datasets, and functions in Python that datasets call for them."""

from __future__ import annotations

import threading
from typing import (TYPE_CHECKING, Any, Callable, Dict, Iterable, Iterator, List, Optional,
                    Sequence, Tuple)

import numpy as np

from ._arrays import array_view, as_dense, dtype as element_type, shape_in, shape_out
from ._function import TensorSpec
from ._lib import callback, check, ffi, lib
from ._structure import flatten, pack

if TYPE_CHECKING:
    from .data import Dataset

# Structures of elements as flatten() describes them.
ARRAY = None
PAIR = (tuple, ARRAY, ARRAY)


def flatten_element(value: Any) -> Tuple[Any, List[Any]]:
    """The structure of an element and its arrays. A list is an array, as in tf.data."""
    leaves: List[Any] = []
    definition = flatten(value, lambda part: not isinstance(part, (tuple, dict)), leaves)
    return definition, leaves


def pack_element(definition: Any, leaves: Sequence[Any]) -> Any:
    """An element of that structure."""
    return pack(definition, iter(leaves))


_inside = threading.local()


def inside_function() -> bool:
    """Whether this thread is in a function that a dataset calls."""
    return getattr(_inside, "depth", 0) > 0


def components(element: Any) -> List[np.ndarray]:
    """The arrays of an ``rf_element *``, copied."""
    return [_copied(element.component[i]) for i in range(element.num_components)]


def _copied(component: Any) -> np.ndarray:
    kind = element_type(component.dtype).numpy
    if kind is None:
        return array_view(component).copy()
    made = np.empty(shape_out(component.shape), kind)
    if made.size:
        ffi.memmove(made, component.data, made.nbytes)
    return made


def _write(out: Any, value: Any, name: str) -> None:
    leaves = flatten_element(value)[1]
    if len(leaves) != out.num_components:
        raise ValueError(f"{name} gave {len(leaves)} arrays, not {out.num_components}")
    for i, leaf in enumerate(leaves):
        component = out.component[i]
        array = np.ascontiguousarray(leaf, element_type(component.dtype).numpy)
        array = array.reshape(np.shape(leaf))  # a scalar has become a row
        shape = shape_out(component.shape)
        if array.shape != shape:
            shorter = array.ndim == len(shape) and array.ndim > 0 and array.shape[0] < shape[0]
            if not shorter or array.shape[1:] != shape[1:]:
                raise ValueError(f"{name} gave an array {array.shape} where its first one, or its "
                                 f"output_signature, has {shape}")
            component.shape.dim[0] = array.shape[0]
        if array.size:
            ffi.memmove(component.data, array, array.nbytes)


class Caller:
    """A function of Python that the library calls through one of the callbacks below.

    What it raises is the failure of its element, which ignore_errors() may leave out; otherwise
    :func:`raise_failure` raises it in the thread that wanted the element. Each thread that calls
    the function has its own: the success of one is not that of another.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.raised: Dict[int, Exception] = {}
        self.user = ffi.new_handle(self)


def calling(signature: str, body: Callable[..., Optional[int]]) -> Any:
    def call(user: Any, *arguments: Any) -> int:
        caller: Caller = ffi.from_handle(user)
        try:
            result = body(caller, *arguments)
        except Exception as raised:
            caller.raised[threading.get_ident()] = raised
            return int(lib.RF_ERROR_INVALID_ARGUMENT)
        if caller.raised:
            caller.raised.pop(threading.get_ident(), None)
        return result or 0

    return callback(signature, call)


def raise_failure(result: int, *datasets: Dataset) -> int:
    """check(), where a function in Python over these datasets may have raised."""
    if result < 0 and result != lib.RF_ERROR_CANCELLED:
        for dataset in datasets:
            for kept in dataset.core.kept:
                if isinstance(kept, Caller) and kept.raised:
                    raise kept.raised.pop(next(iter(kept.raised)))
    return check(result)


class ElementFunction(Caller):
    """A function of elements."""

    def __init__(self, fn: Callable[..., Any], definition: Any, what: str) -> None:
        super().__init__(f"the function of {what}()")
        self.fn = fn
        self.definition = definition

    def call(self, element: Any, *first: Any) -> Any:
        """What the function makes of an ``rf_element *``."""
        _inside.depth = getattr(_inside, "depth", 0) + 1
        try:
            value = pack_element(self.definition, components(element))
            if isinstance(value, tuple):
                return self.fn(*first, *value)
            return self.fn(*first, value)
        finally:
            _inside.depth -= 1


def _map_one(function: ElementFunction, element: Any, out: Any) -> None:
    _write(out, function.call(element), function.name)


def _map_one_random(function: ElementFunction, key: Any, element: Any, out: Any) -> None:
    _write(out, function.call(element, _generator(key)), function.name)


def _filter_one(function: ElementFunction, element: Any, keep: Any) -> None:
    keep[0] = bool(np.asarray(function.call(element)).all())


def _dataset_of_one(function: ElementFunction, element: Any, out: Any) -> int:
    from .data import Dataset
    dataset = function.call(element)
    if not isinstance(dataset, Dataset):
        raise TypeError(f"{function.name} gave {type(dataset).__name__}, not a Dataset")
    return check(lib.rf_dataset_skip(dataset.pointer, 0, out))


def _generator(key: Any) -> np.random.Generator:
    return np.random.Generator(
        np.random.Philox(counter=[0, 0, key.index, key.epoch], key=[key.seed, 0]))


class ElementGenerator(Caller):
    """A generator of Python, of which the library asks for elements by number."""

    MOST_PASSES = 8

    def __init__(self, make: Callable[[], Iterable[Any]]) -> None:
        super().__init__("the generator of from_generator()")
        self.make = make
        self.passes: List[Tuple[int, Iterator[Any]]] = []

    def element(self, index: int) -> Any:
        """Element number ``index`` of a pass: that of the pass that has come there."""
        for place, (following, iterator) in enumerate(self.passes):
            if following == index:
                del self.passes[place]
                break
        else:
            iterator = iter(self.make())
            for _ in range(index):
                next(iterator)
        value = next(iterator)
        self.passes.append((index + 1, iterator))
        del self.passes[:-self.MOST_PASSES]
        return value


def _generate_one(generator: ElementGenerator, index: int, out: Any) -> Optional[int]:
    try:
        value = generator.element(index)
    except StopIteration:
        return int(lib.RF_END)
    _write(out, value, generator.name)
    return None


on_map = calling("rf_map_fn", _map_one)
on_random_map = calling("rf_random_map_fn", _map_one_random)
on_filter = calling("rf_filter_fn", _filter_one)
on_flat_map = calling("rf_flat_map_fn", _dataset_of_one)
on_generate = calling("rf_generator_fn", _generate_one)


def signature_of(value: Any) -> Any:
    """The TensorSpecs of an element."""
    definition, leaves = flatten_element(value)
    arrays = [as_dense(leaf) for leaf in leaves]
    return pack_element(definition, [TensorSpec(array.shape, array.dtype) for array in arrays])


def c_spec(signature: Any) -> Any:
    """The library's ``rf_element_spec *`` of TensorSpecs."""
    leaves = flatten_element(signature)[1]
    if len(leaves) > lib.RF_MAX_COMPONENTS:
        raise ValueError(
            f"{len(leaves)} arrays in an element; {lib.RF_MAX_COMPONENTS} are the most")
    spec = ffi.new("rf_element_spec *")
    spec.num_components = len(leaves)
    for i, leaf in enumerate(leaves):
        if element_type(leaf.dtype).numpy is None:
            raise ValueError(f"functions of Python make no {leaf.dtype.name}: NumPy lacks it")
        spec.dtype[i] = element_type(leaf.dtype).code
        spec.shape[i] = shape_in([int(n) for n in leaf.shape])
    return spec
