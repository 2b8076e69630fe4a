# SPDX-License-Identifier: Apache-2.0
"""Optimizers. Make them in the scope of the strategy that trains.

Besides their own arguments all take ``clipnorm``, ``clipvalue``, ``global_clipnorm`` (one of
them), ``gradient_accumulation_steps``, ``use_ema`` with ``ema_momentum`` and
``ema_overwrite_frequency``, ``weight_decay``, ``parameter_groups``, ``loss_scale`` and
``state_type``: "bf16" or "8bit" for what Adam, AdamW, Lion and SGD with a momentum keep.
``learning_rate`` is a number or a schedule.
"""

from __future__ import annotations

import re
from typing import Any, Callable, ClassVar, Dict, List, Mapping, Optional, Sequence, Tuple, Type
from typing import Union

from ..._lib import callback, check, ffi, lib
from ..._strategy import get_strategy
from ..._tape import Optimizer as CoreOptimizer
from ..._trace import Tensor, tensors
from .._layer import tracing
from .._params import ZERO, Configured, convert, fill, find, zero_or
from . import schedules
from .schedules import LearningRateSchedule

LearningRate = Union[float, LearningRateSchedule]


class MuonOptions(Configured):
    """How Muon updates the matrices of a :class:`ParameterGroup`."""

    def __init__(self, adamw: bool = False, embeddings: bool = False, plain_momentum: bool = False,
                 row_dimensions: int = 0, scale: Optional[str] = None,
                 rms_rate: Optional[float] = None, steps: Optional[int] = None) -> None:
        pass

    def to_c(self, keep: List[Any]) -> Any:
        """The library's ``rf_muon_params *``."""
        return fill("rf_muon_params", self._config, keep, "MuonOptions", {})


class ParameterGroup(Configured):
    """Variables that an optimizer treats in a way of their own.

    ``names`` are patterns of variables' names, separated by commas, such as "*bias,*gamma".
    """

    def __init__(self, names: str, rate_factor: float = 1.0, no_weight_decay: bool = False,
                 muon: Optional[MuonOptions] = None) -> None:
        pass

    def to_c(self, keep: List[Any]) -> Any:
        """The library's ``rf_parameter_group *``."""
        return fill("rf_parameter_group", self._config, keep, "ParameterGroup", self._defaults)


class LossScale(Configured):
    """Multiplies losses before they are differentiated: for mixed_float16."""

    def __init__(self, initial: float = 32768.0, growth_steps: Optional[int] = None,
                 fixed: bool = False) -> None:
        pass

    def to_c(self, keep: List[Any]) -> Any:
        """The library's ``rf_loss_scale_params *``."""
        return fill("rf_loss_scale_params", self._config, keep, "LossScale", {})


class Optimizer(Configured, CoreOptimizer):
    """What all optimizers have."""

    _kind: ClassVar[str]
    # Arguments that are no fields of that name.
    _apart: ClassVar[Tuple[str, ...]] = ("name", "learning_rate", "parameter_groups")

    def __init__(self, *, weight_decay: Optional[float] = None, clipnorm: Optional[float] = None,
                 clipvalue: Optional[float] = None, global_clipnorm: Optional[float] = None,
                 use_ema: bool = False, ema_momentum: float = 0.99,
                 ema_overwrite_frequency: Optional[int] = None,
                 gradient_accumulation_steps: Optional[int] = None,
                 parameter_groups: Sequence[ParameterGroup] = (),
                 loss_scale: Optional[LossScale] = None, state_type: str = "f32",
                 name: Optional[str] = None) -> None:
        struct = ffi.typeof("rf_optimizer_params")
        keep: List[Any] = []
        fields: Dict[str, Any] = {}
        for argument, value in self._config.items():
            if argument in self._apart or value is None:
                continue
            if argument == "ema_momentum" and not use_ema:
                continue
            place = find(struct, argument)
            assert place is not None, argument
            path, kind, _ = place
            value = zero_or(kind, type(self).__name__, argument, value,
                            self._defaults.get(argument))
            fields[path[0]] = convert(kind, value, argument, keep)
        if use_ema:
            fields["ema_momentum"] = ema_momentum or ZERO
        if parameter_groups:
            groups = ffi.new("rf_parameter_group[]", [g.to_c(keep)[0] for g in parameter_groups])
            keep.append(groups)
            fields.update(groups=groups, num_groups=len(parameter_groups))
        fields.update(self._more_fields(keep))
        rate = self._config.get("learning_rate")
        if isinstance(rate, LearningRateSchedule):
            rate = rate.to_c(keep)
        elif rate == 0:
            rate = ZERO
        super().__init__(self._kind, name or self._kind, rate, **fields)

    def _more_fields(self, keep: List[Any]) -> Dict[str, Any]:
        return {}

    @property
    def lr(self) -> Any:
        """The learning rate of the next step."""
        return self.learning_rate

    @lr.setter
    def lr(self, rate: Any) -> None:
        self.learning_rate = rate

    @property
    def loss_scale(self) -> float:
        """The scale of losses, of an optimizer that has one. Waits for the devices."""
        out = ffi.new("rf_loss_scale *")
        check(lib.rf_optimizer_loss_scale(self.pointer, out))
        return float(out.scale)

    def swap_averages(self) -> None:
        """Exchanges the weights with their averages (``use_ema``); again exchanges them back."""
        check(lib.rf_optimizer_swap_averages(self.pointer))

    def finalize_variable_values(self, variables: Any = None) -> None:
        """Overwrites the weights with their averages (``use_ema``)."""
        check(lib.rf_optimizer_finalize_variables(self.pointer))


class SGD(Optimizer):
    """Gradient descent with momentum."""

    _kind = "sgd"

    def __init__(self, learning_rate: LearningRate = 0.01, momentum: float = 0.0,
                 nesterov: bool = False, **options: Any) -> None:
        super().__init__(**options)


class Adam(Optimizer):
    """Adam. ``epsilon_form`` "corrected" is PyTorch's place of epsilon, "uncorrected" Keras'."""

    _kind = "adam"

    def __init__(self, learning_rate: LearningRate = 0.001, beta_1: float = 0.9,
                 beta_2: float = 0.999, epsilon: float = 1e-7, epsilon_form: str = "corrected",
                 **options: Any) -> None:
        super().__init__(**options)


class AdamW(Optimizer):
    """Adam with decoupled weight decay; see :class:`Adam`."""

    _kind = "adamw"

    def __init__(self, learning_rate: LearningRate = 0.001, weight_decay: float = 0.004,
                 beta_1: float = 0.9, beta_2: float = 0.999, epsilon: float = 1e-7,
                 epsilon_form: str = "corrected", **options: Any) -> None:
        super().__init__(**options)


class RMSprop(Optimizer):
    """Divides by a moving average of squared gradients."""

    _kind = "rmsprop"

    def __init__(self, learning_rate: LearningRate = 0.001, rho: float = 0.9,
                 momentum: float = 0.0, epsilon: float = 1e-7, **options: Any) -> None:
        super().__init__(**options)


class Adagrad(Optimizer):
    """Divides by the root of the sum of squared gradients."""

    _kind = "adagrad"

    def __init__(self, learning_rate: LearningRate = 0.001,
                 initial_accumulator_value: float = 0.1, epsilon: float = 1e-7,
                 **options: Any) -> None:
        super().__init__(**options)


class Nadam(Optimizer):
    """Adam with Nesterov's momentum."""

    _kind = "nadam"

    def __init__(self, learning_rate: LearningRate = 0.001, beta_1: float = 0.9,
                 beta_2: float = 0.999, epsilon: float = 1e-7, **options: Any) -> None:
        super().__init__(**options)


class Lion(Optimizer):
    """Steps of one size, by the sign of a moving average."""

    _kind = "lion"

    def __init__(self, learning_rate: LearningRate = 0.001, beta_1: float = 0.9,
                 beta_2: float = 0.99, **options: Any) -> None:
        super().__init__(**options)


class LAMB(Optimizer):
    """Adam's step of each variable in proportion to the variable, for large batches."""

    _kind = "lamb"

    def __init__(self, learning_rate: LearningRate = 0.001, beta_1: float = 0.9,
                 beta_2: float = 0.999, epsilon: float = 1e-7, **options: Any) -> None:
        super().__init__(**options)


class Muon(Optimizer):
    """Along orthogonal matrices; what is no matrix is updated as by AdamW."""

    _kind = "muon"

    def __init__(self, learning_rate: LearningRate = 0.001, momentum: float = 0.95,
                 weight_decay: float = 0.004, beta_1: float = 0.9, beta_2: float = 0.999,
                 epsilon: float = 1e-7, epsilon_form: str = "corrected", **options: Any) -> None:
        super().__init__(**options)


Update = Callable[[Tensor, Tensor, Dict[str, Tensor], Dict[str, Tensor]], Any]


class Custom(Optimizer):
    """An update of one's own: ``update(weight, gradient, slots, numbers)`` gives the new weight, or
    it and a dict of the slots that change.

    It is traced once, with operations that are element-wise: weight, gradient and slots are
    tensors [n], ``numbers`` are scalars by name: "learning_rate", "step" and the hyper-parameters.
    ``slots`` are numbers that are kept for each weight, with what they begin as. ``name``, by
    default the function's, tells checkpoints of different updates apart.
    """

    _kind = "custom"
    _apart = (*Optimizer._apart, "update", "slots", "hyperparameters")

    def __init__(self, update: Update, learning_rate: LearningRate = 0.001,
                 slots: Optional[Mapping[str, float]] = None,
                 hyperparameters: Optional[Mapping[str, float]] = None, **options: Any) -> None:
        self._slots = dict(slots or {})
        self._hyperparameters = dict(hyperparameters or {})
        super().__init__(**options)
        self.keep(self._called)

    def _more_fields(self, keep: List[Any]) -> Dict[str, Any]:
        self._called = callback("rf_update_fn", self._calling(self._config["update"]))
        texts = {name: ffi.new("char[]", name.encode())
                 for name in (*self._slots, *self._hyperparameters)}
        function = getattr(self._config["update"], "__name__", "update")
        title = ffi.new("char[]", re.sub(r"\W", "_", self._config.get("name") or function).encode())
        slots = ffi.new("rf_optimizer_slot[]", [
            {"name": texts[name], "initial": value} for name, value in self._slots.items()])
        numbers = ffi.new("rf_hyperparameter[]", [
            {"name": texts[name], "value": value}
            for name, value in self._hyperparameters.items()])
        made = ffi.new("rf_custom_optimizer *", {
            "name": title, "update": self._called, "slots": slots, "num_slots": len(slots),
            "hyperparameters": numbers, "num_hyperparameters": len(numbers)})
        keep += [texts, title, slots, numbers, made]
        return {"custom": made}

    def _calling(self, update: Update) -> Callable[..., int]:
        names, strategy = list(self._slots), get_strategy()
        numbers = list(self._hyperparameters)

        def call(pointer: Any, given: Any, weight: Any, slots: Any, user: Any) -> int:
            with tracing(pointer, strategy) as trace:
                scalars = dict(zip(numbers, tensors(trace, given.hyperparameters, len(numbers))))
                parts = ffi.new("rf_tensor[]", [given.weight, given.gradient, given.learning_rate,
                                                given.step])
                old, gradient, rate, step = tensors(trace, parts, 4)
                scalars.update(learning_rate=rate, step=step)
                kept = dict(zip(names, tensors(trace, given.slots, len(names))))
                made = update(old, gradient, kept, scalars)
                new, changed = made if isinstance(made, tuple) else (made, {})
                weight[0] = trace.take(new, "the new weight")
                for name, value in changed.items():
                    slots[names.index(name)] = trace.take(value, name)
            return 0

        return call

    def set_hyperparameter(self, name: str, value: float) -> None:
        """Replaces a hyper-parameter from the next step on."""
        check(lib.rf_optimizer_set_hyperparameter(self.pointer, name.encode(), value))

    def hyperparameter(self, name: str) -> float:
        """The value of a hyper-parameter."""
        out = ffi.new("double *")
        check(lib.rf_optimizer_hyperparameter(self.pointer, name.encode(), out))
        return float(out[0])


class Borrowed(CoreOptimizer):
    """The optimizer of a loaded model."""

    def __init__(self, pointer: Any, owner: Any) -> None:
        self.strategy, self.name = owner.strategy, "optimizer"
        self.adopt(pointer, None, owner)

    lr = Optimizer.lr


_named = [kind for kind in Optimizer.__subclasses__() if kind._kind != "custom"]
_by_name: Dict[str, Type[Optimizer]] = {kind._kind: kind for kind in _named}
_by_name.update({kind.__name__: kind for kind in _named})


def get(identifier: Any) -> CoreOptimizer:
    """An optimizer from its name or itself."""
    if isinstance(identifier, CoreOptimizer):
        return identifier
    if identifier not in _by_name:
        raise ValueError(f"optimizer={identifier!r} is none of {', '.join(sorted(_by_name))}")
    made: CoreOptimizer = _by_name[identifier]()
    return made


__all__ = ["AdamW", "Adagrad", "Adam", "Custom", "LAMB", "LearningRate", "Lion", "LossScale",
           "Muon", "MuonOptions", "Nadam", "Optimizer", "ParameterGroup", "RMSprop", "SGD", "get",
           "schedules"]
