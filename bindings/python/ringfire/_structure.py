# SPDX-License-Identifier: Apache-2.0
"""Nested tuples, lists and dictionaries of arrays."""
from __future__ import annotations

from typing import Any, Callable, Iterator, List

import numpy as np

from ._trace import Tensor
from ._values import Value


def is_array(x: Any) -> bool:
    """Whether x is an array with a batch, rather than a setting that a step is traced for."""
    if isinstance(x, (Value, np.ndarray)):
        return x.ndim > 0
    return hasattr(x, "__dlpack__") and not isinstance(x, (Tensor, np.generic))


def flatten(structure: Any, leaf: Callable[[Any], bool], leaves: List[Any]) -> Any:
    """Appends the leaves to a list. The result describes the structure for pack(), with all that is
    no leaf in it, and can be a key where those are hashable."""
    if leaf(structure):
        leaves.append(structure)
        return None
    if isinstance(structure, (tuple, list)):
        kind = type(structure)
        return (kind, ) + tuple(flatten(item, leaf, leaves) for item in structure)
    if isinstance(structure, dict):
        return (dict, tuple(structure), tuple(flatten(v, leaf, leaves) for v in structure.values()))
    return (Static, Static(structure))


def count_leaves(definition: Any) -> int:
    """How many leaves a structure has."""
    if definition is None:
        return 1
    if definition[0] is Static:
        return 0
    parts = definition[2] if definition[0] is dict else definition[1:]
    return sum(count_leaves(d) for d in parts)


class Static:
    """A value that is part of a structure itself. 1, 1.0 and True are different ones."""
    __slots__ = ("value", )

    def __init__(self, value: Any) -> None:
        self.value = value.numpy() if isinstance(value, Value) else value

    def __eq__(self, other: Any) -> bool:
        if not isinstance(other, Static) or type(self.value) is not type(other.value):
            return False
        return self.value is other.value or bool(np.all(self.value == other.value))

    def __hash__(self) -> int:
        try:
            return hash(self.value)
        except TypeError:
            return hash(type(self.value))


def pack(definition: Any, leaves: Iterator[Any]) -> Any:
    """A structure as flatten() found it, with other leaves."""
    if definition is None:
        return next(leaves)
    kind = definition[0]
    if kind is Static:
        return definition[1].value
    if kind is dict:
        return dict(zip(definition[1], (pack(d, leaves) for d in definition[2])))
    items = [pack(d, leaves) for d in definition[1:]]
    if issubclass(kind, tuple) and kind is not tuple:
        return kind(*items) if hasattr(kind, "_fields") else tuple(items)
    return kind(items)
