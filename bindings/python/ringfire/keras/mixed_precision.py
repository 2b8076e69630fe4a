# SPDX-License-Identifier: Apache-2.0
"""The types that layers compute with."""

from __future__ import annotations

from typing import Any, Optional, Union

from .._lib import check, ffi, lib

_computed = {"float32": "RF_F32", "mixed_float16": "RF_F16", "mixed_bfloat16": "RF_BF16"}


class Policy:
    """ "float32", "mixed_float16" or "mixed_bfloat16"; variables are f32 in any case.

    With "mixed_float16" give the optimizer a ``loss_scale``.
    """

    def __init__(self, name: str) -> None:
        if name not in _computed:
            raise ValueError(f"the policy {name!r} is none of {', '.join(_computed)}")
        self.name = name

    @property
    def compute_dtype(self) -> str:
        """The type that products are computed from."""
        return self.name.replace("mixed_", "")

    @property
    def variable_dtype(self) -> str:
        """The type of variables."""
        return "float32"

    def to_c(self) -> Any:
        """The library's ``rf_dtype_policy *``."""
        return ffi.new("rf_dtype_policy *", {"compute": getattr(lib, _computed[self.name])})


_global: Optional[Policy] = None


def set_global_policy(policy: Union[str, Policy]) -> None:
    """The policy of models that are made from here on."""
    global _global
    _global = policy if isinstance(policy, Policy) else Policy(policy)


def global_policy() -> Policy:
    """The policy of models that are made now."""
    return _global or Policy("float32")


def apply_policy(strategy: Any) -> None:
    """Tells a strategy the policy, once one has been set."""
    if _global is not None:
        check(lib.rf_strategy_set_dtype_policy(strategy.pointer, _global.to_c()))
