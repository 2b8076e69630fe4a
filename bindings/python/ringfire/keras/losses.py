# SPDX-License-Identifier: Apache-2.0
"""Losses: for compile(), and to be called in a step."""

from __future__ import annotations

from typing import Any, Callable, ClassVar, Dict, List, Optional, Type, Union

from .._lib import ffi, lib
from .._trace import Tensor, Trace, optional, trace_of
from ._params import Configured, enum_value, fill


class Reduction:
    """How losses of examples become the result of a loss."""

    AUTO = "auto"
    NONE = "none"
    SUM = "sum"
    SUM_OVER_BATCH_SIZE = "sum_over_batch_size"
    MEAN_WITH_SAMPLE_WEIGHT = "mean_with_sample_weight"


class Loss(Configured):
    """A loss.

    Called in a step, "none" gives a loss for each example and "sum" their sum. "auto" and
    "sum_over_batch_size" divide the sum by the number of examples of the **global** batch, so that
    losses and gradients of replicas may be summed; "mean_with_sample_weight" divides it by the sum
    of the weights on all replicas.
    """

    _kind: ClassVar[str]
    name: Optional[str]
    reduction: str

    def __init__(self, reduction: str = Reduction.AUTO, name: Optional[str] = None) -> None:
        enum_value(ffi.typeof("rf_reduction"), reduction, "reduction")
        self.reduction = reduction
        self.name = name

    def to_c(self, keep: List[Any], reduction: Optional[str] = None) -> Any:
        """The library's ``rf_loss *``."""
        values = {key: value for key, value in self._config.items() if key != "name"}
        values["kind"] = self._kind
        values["reduction"] = reduction or self.reduction
        return fill("rf_loss", values, keep, type(self).__name__, self._defaults)

    def __call__(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> Tensor:
        """In a step: the loss of these predictions."""
        trace = trace_of(type(self).__name__, y_true, y_pred)
        plain = sample_weight is None and self.reduction in (Reduction.NONE, Reduction.SUM)
        keep: List[Any] = []
        losses: Tensor = trace.made(lib.rf_loss_call(
            trace.pointer, self.to_c(keep, self.reduction if plain else Reduction.NONE),
            trace.take(y_true, "y_true"), trace.take(y_pred, "y_pred")))
        return losses if plain else self._reduced(trace, losses, y_true, sample_weight)

    def _counts(self, trace: Trace, losses: Tensor, labels: Any) -> Optional[Tensor]:
        """1 where the label counts, like the losses; None where all do."""
        return None

    def _reduced(self, trace: Trace, losses: Tensor, labels: Any, weight: Any) -> Tensor:
        if self.reduction in (Reduction.NONE, Reduction.SUM):
            weighted = _weigh(trace, losses, weight)
            return weighted if self.reduction == Reduction.NONE else trace.made(
                lib.rf_reduce_sum(trace.pointer, weighted.handle, ffi.NULL, 0, lib.RF_DROP_DIMS))
        counts = self._counts(trace, losses, labels)
        if counts is not None:
            if weight is not None and self.reduction == Reduction.MEAN_WITH_SAMPLE_WEIGHT:
                counts = _weigh(trace, counts, weight)
            elif weight is not None:
                losses = _weigh(trace, losses, weight)
            return trace.made(lib.rf_compute_weighted_loss(trace.pointer, losses.handle,
                                                           counts.handle))
        if self.reduction == Reduction.MEAN_WITH_SAMPLE_WEIGHT and weight is not None:
            return trace.made(lib.rf_compute_weighted_loss(
                trace.pointer, losses.handle, trace.take(weight, "sample_weight")))
        params = ffi.new("rf_average_loss_params *")
        params.sample_weight = optional(trace, weight, "sample_weight")
        return trace.made(lib.rf_compute_average_loss(trace.pointer, losses.handle, params))


def _weigh(trace: Trace, values: Tensor, weight: Any) -> Tensor:
    factor = Tensor(trace, trace.take(weight, "sample_weight"))
    for _ in range(values.ndim - factor.ndim):
        factor = trace.made(lib.rf_expand_dims(trace.pointer, factor.handle, -1))
    return trace.made(lib.rf_multiply(trace.pointer, values.handle, factor.handle))


class SparseCategoricalCrossentropy(Loss):
    """Crossentropy of class numbers.

    Where the label is ``ignore_class``, such as -100, the loss is 0 and has no gradient, and means
    are over the other labels.
    """

    _kind = "sparse_categorical_crossentropy"

    def __init__(self, from_logits: bool = False, ignore_class: Optional[int] = None,
                 reduction: str = Reduction.AUTO, name: Optional[str] = None) -> None:
        super().__init__(reduction, name)

    def _counts(self, trace: Trace, losses: Tensor, labels: Any) -> Optional[Tensor]:
        ignored = self._config["ignore_class"]
        if ignored is None:
            return None
        numbers = Tensor(trace, trace.take(labels, "y_true"))
        if numbers.ndim > losses.ndim:
            numbers = trace.made(lib.rf_squeeze(trace.pointer, numbers.handle, -1))
        counts: Tensor = numbers != ignored
        return counts


class CategoricalCrossentropy(Loss):
    """Crossentropy of one-hot labels."""

    _kind = "categorical_crossentropy"

    def __init__(self, from_logits: bool = False, label_smoothing: float = 0.0,
                 reduction: str = Reduction.AUTO, name: Optional[str] = None) -> None:
        super().__init__(reduction, name)


class BinaryCrossentropy(Loss):
    """Crossentropy of labels between 0 and 1."""

    _kind = "binary_crossentropy"

    def __init__(self, from_logits: bool = False, label_smoothing: float = 0.0,
                 reduction: str = Reduction.AUTO, name: Optional[str] = None) -> None:
        super().__init__(reduction, name)


class MeanSquaredError(Loss):
    """Mean of squared differences."""

    _kind = "mean_squared_error"


class MeanAbsoluteError(Loss):
    """Mean of absolute differences."""

    _kind = "mean_absolute_error"


class Huber(Loss):
    """Quadratic below ``delta``, linear above."""

    _kind = "huber"

    def __init__(self, delta: float = 1.0, reduction: str = Reduction.AUTO,
                 name: Optional[str] = None) -> None:
        super().__init__(reduction, name)


class KLDivergence(Loss):
    """Kullback-Leibler divergence of predictions from labels."""

    _kind = "kl_divergence"


class CTC(Loss):
    """Connectionist temporal classification: labels [n, s], filled up with -1, of predictions [n,
    steps, classes], whose class 0 is the blank."""

    _kind = "ctc"

    def __init__(self, from_logits: bool = False, reduction: str = Reduction.AUTO,
                 name: Optional[str] = None) -> None:
        super().__init__(reduction, name)


LossLike = Union[str, Loss, Callable[[Any, Any], Any]]

_by_name: Dict[str, Type[Loss]] = {kind._kind: kind for kind in Loss.__subclasses__()}
_by_name.update({kind.__name__: kind for kind in Loss.__subclasses__()})
_by_name.update({"mse": MeanSquaredError, "MSE": MeanSquaredError, "mae": MeanAbsoluteError,
                 "MAE": MeanAbsoluteError, "kld": KLDivergence})


def get(identifier: LossLike) -> Union[Loss, Callable[[Any, Any], Any]]:
    """A loss from its name, its function, or itself."""
    if isinstance(identifier, Loss):
        return identifier
    if isinstance(identifier, str):
        if identifier not in _by_name:
            raise ValueError(f"loss={identifier!r} is none of {', '.join(sorted(_by_name))}")
        return _by_name[identifier]()
    if getattr(identifier, "_kind", None) in _by_name:
        return _by_name[identifier._kind]()  # type: ignore[attr-defined]
    if callable(identifier):
        return identifier
    raise ValueError(f"loss={identifier!r} is no loss")


def _function(kind: Type[Loss]) -> Callable[..., Tensor]:
    def call(y_true: Any, y_pred: Any, **options: Any) -> Tensor:
        loss: Tensor = kind(reduction=Reduction.NONE, **options)(y_true, y_pred)
        return loss

    call.__name__ = kind._kind
    call.__doc__ = f"In a step: losses of examples; see :class:`{kind.__name__}`."
    call._kind = kind._kind  # type: ignore[attr-defined]
    return call


sparse_categorical_crossentropy = _function(SparseCategoricalCrossentropy)
categorical_crossentropy = _function(CategoricalCrossentropy)
binary_crossentropy = _function(BinaryCrossentropy)
mean_squared_error = _function(MeanSquaredError)
mean_absolute_error = _function(MeanAbsoluteError)
huber = _function(Huber)
kl_divergence = _function(KLDivergence)
ctc = _function(CTC)
