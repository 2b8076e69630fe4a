# SPDX-License-Identifier: Apache-2.0
"""Activations: their names go into layers; in a step they are called."""

from __future__ import annotations

from typing import Any, Callable

from .._lib import ffi, lib
from .._trace import Tensor, trace_of
from ._params import enum_value, enum_values

__all__ = sorted(enum_values(ffi.typeof("rf_activation"))) + ["get"]


def get(identifier: Any) -> Callable[[Any], Tensor]:
    """The function of an activation's name."""
    code = enum_value(ffi.typeof("rf_activation"), identifier, "activation")

    def activation(x: Any) -> Tensor:
        trace = trace_of(str(identifier), x)
        return trace.made(lib.rf_activate(trace.pointer, trace.take(x, "x"), code))

    activation.__name__ = getattr(identifier, "__name__", identifier) or "linear"
    return activation


def __getattr__(name: str) -> Callable[[Any], Tensor]:
    if name in __all__ or name in ("swish", "hard_swish"):
        return get(name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
