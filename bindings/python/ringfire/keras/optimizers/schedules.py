# SPDX-License-Identifier: Apache-2.0
"""Learning rates that depend on the step."""

from __future__ import annotations

from typing import Any, ClassVar, Dict, List, Sequence

from ..._lib import ffi, lib
from .._params import Configured, enum_value


class LearningRateSchedule(Configured):
    """A learning rate as a function of the step.

    All take ``warmup_steps``: during so many steps the rate goes from ``warmup_initial`` in a
    straight line to where the schedule begins.
    """

    _kind: ClassVar[str]
    _names: ClassVar[Dict[str, str]] = {"initial_learning_rate": "initial",
                                        "end_learning_rate": "end"}

    def __init__(self, *, warmup_steps: int = 0, warmup_initial: float = 0.0) -> None:
        pass

    def to_c(self, keep: List[Any]) -> Any:
        """The library's ``rf_schedule *``."""
        out = ffi.new("rf_schedule *")
        out.kind = enum_value(ffi.typeof("rf_schedule_kind"), self._kind, "schedule")
        for argument, value in self._config.items():
            field = self._names.get(argument, argument)
            if field in ("boundaries", "values"):
                getattr(out, field)[0:len(value)] = list(value)
                if field == "boundaries":
                    out.num_boundaries = len(value)
            elif value is not None:
                setattr(out, field, value)
        keep.append(out)
        return out

    def __call__(self, step: int) -> float:
        """The learning rate at a step."""
        return float(lib.rf_schedule_value(self.to_c([]), int(step)))


class ExponentialDecay(LearningRateSchedule):
    """initial * rate^(step / decay_steps); with ``staircase`` the exponent is rounded down."""

    _kind = "exponential_decay"

    def __init__(self, initial_learning_rate: float, decay_steps: int, decay_rate: float,
                 staircase: bool = False, **warmup: Any) -> None:
        super().__init__(**warmup)


class PiecewiseConstantDecay(LearningRateSchedule):
    """values[i] while step <= boundaries[i]."""

    _kind = "piecewise_constant"

    def __init__(self, boundaries: Sequence[int], values: Sequence[float], **warmup: Any) -> None:
        super().__init__(**warmup)
        if len(values) != len(boundaries) + 1 or len(boundaries) > 15:
            raise ValueError(f"PiecewiseConstantDecay: {len(boundaries)} boundaries and "
                             f"{len(values)} values; there is one value more than boundaries, of "
                             "which there are at most 15")


class PolynomialDecay(LearningRateSchedule):
    """(initial - end) * (1 - p)^power + end, p = step / decay_steps up to 1."""

    _kind = "polynomial_decay"

    def __init__(self, initial_learning_rate: float, decay_steps: int,
                 end_learning_rate: float = 0.0001, power: float = 1.0, cycle: bool = False,
                 **warmup: Any) -> None:
        super().__init__(**warmup)


class InverseTimeDecay(LearningRateSchedule):
    """initial / (1 + rate * step / decay_steps); ``staircase`` rounds the quotient down."""

    _kind = "inverse_time_decay"

    def __init__(self, initial_learning_rate: float, decay_steps: int, decay_rate: float,
                 staircase: bool = False, **warmup: Any) -> None:
        super().__init__(**warmup)


class CosineDecay(LearningRateSchedule):
    """A half cosine from initial to alpha * initial over ``decay_steps``, after the warm-up.

    As in Keras, ``warmup_target`` is where a warm-up from ``initial_learning_rate`` ends.
    """

    _kind = "cosine_decay"

    def __init__(self, initial_learning_rate: float, decay_steps: int, alpha: float = 0.0,
                 warmup_target: Any = None, warmup_steps: int = 0) -> None:
        super().__init__(warmup_steps=warmup_steps)
        self._config.pop("warmup_target")
        if warmup_target is not None:
            self._config["warmup_initial"] = initial_learning_rate
            self._config["initial_learning_rate"] = warmup_target


class CosineDecayRestarts(LearningRateSchedule):
    """Cosine decay again and again: periods ``t_mul`` times as long, ``m_mul`` times as high."""

    _kind = "cosine_restarts"
    _names = {"initial_learning_rate": "initial", "first_decay_steps": "decay_steps"}

    def __init__(self, initial_learning_rate: float, first_decay_steps: int, t_mul: float = 2.0,
                 m_mul: float = 1.0, alpha: float = 0.0, **warmup: Any) -> None:
        super().__init__(**warmup)


class InverseSquareRoot(LearningRateSchedule):
    """initial * min(step^(-1/2), step * warmup_steps^(-3/2)), as for transformers."""

    _kind = "inverse_sqrt"

    def __init__(self, initial_learning_rate: float, warmup_steps: int) -> None:
        super().__init__(warmup_steps=warmup_steps)
