# SPDX-License-Identifier: Apache-2.0
"""Penalties on weights, which are added to the loss."""

from __future__ import annotations

from typing import Any, List, Union

from .._lib import ffi
from ._params import Configured


class L1L2(Configured):
    """l1 * sum|w| + l2 * sum w^2."""

    def __init__(self, l1: float = 0.0, l2: float = 0.0) -> None:
        self.l1 = float(l1)
        self.l2 = float(l2)

    def to_c(self, keep: List[Any]) -> Any:
        """The library's ``rf_regularizer *``."""
        return ffi.new("rf_regularizer *", {"l1": self.l1, "l2": self.l2})


class L1(L1L2):
    """l1 * sum|w|."""

    def __init__(self, l1: float = 0.01) -> None:
        super().__init__(l1=l1)


class L2(L1L2):
    """l2 * sum w^2."""

    def __init__(self, l2: float = 0.01) -> None:
        super().__init__(l2=l2)


def l1(l1: float = 0.01) -> L1:
    """l1 * sum|w|."""
    return L1(l1)


def l2(l2: float = 0.01) -> L2:
    """l2 * sum w^2."""
    return L2(l2)


def l1_l2(l1: float = 0.01, l2: float = 0.01) -> L1L2:
    """Both."""
    return L1L2(l1, l2)


RegularizerLike = Union[None, str, L1L2]


def get(identifier: Any) -> L1L2:
    """A regularizer from its name or itself."""
    if isinstance(identifier, L1L2):
        return identifier
    known = {"l1": L1, "l2": L2, "l1_l2": L1L2, "L1": L1, "L2": L2, "L1L2": L1L2}
    if identifier not in known:
        raise ValueError(f"{identifier!r} is no regularizer; there are {', '.join(sorted(known))}")
    made: L1L2 = known[identifier]()
    return made
