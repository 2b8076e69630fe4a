# SPDX-License-Identifier: Apache-2.0
"""Operations outside of steps: each is a step of its own, traced once for each kind of operands."""
from __future__ import annotations

import functools
from typing import Any, Callable, List, TypeVar, cast

import numpy as np

from . import _arrays as arrays
from ._function import find_step
from ._structure import flatten
from ._trace import Tensor, current
from ._values import Value

F = TypeVar("F", bound=Callable[..., Any])


def _is_operand(x: Any) -> bool:
    return isinstance(x, (np.ndarray, Value)) or hasattr(x, "_traced") or hasattr(x, "__dlpack__")


def operation(function: F) -> F:
    """A function of tensors of a step that arrays can be given, too, outside of steps; it gives
    arrays then."""

    def step(*args: Any, **kwargs: Any) -> Any:
        # Operands have a dimension before their own, that of the batch.
        from ._functions import squeeze
        return function(*_without_batch(args, squeeze),
                        **dict(zip(kwargs, _without_batch(tuple(kwargs.values()), squeeze))))

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        if current() is not None:
            return function(*args, **kwargs)
        from ._strategy import eager_strategy
        leaves: List[Any] = []
        definition = flatten((args, kwargs), _is_operand, leaves)
        if not leaves:
            # Numbers alone are operands as well.
            args = tuple(np.asarray(a) if isinstance(a, (float, int, list)) and i == 0 else a
                         for i, a in enumerate(args))
            definition = flatten((args, kwargs), _is_operand, leaves)
        operands = [arrays.as_dense(leaf)[None] for leaf in leaves]
        strategy = eager_strategy()
        made = find_step(strategy, step, definition).run(operands)
        return made

    return cast(F, call)


def _without_batch(values: Any, squeeze: Any) -> Any:
    if isinstance(values, Tensor):
        return squeeze(values, 0)
    if isinstance(values, (tuple, list)):
        return type(values)(_without_batch(v, squeeze) for v in values)
    return values
