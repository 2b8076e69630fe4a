# SPDX-License-Identifier: Apache-2.0
"""Metrics: values that are accumulated over batches on the devices."""

from __future__ import annotations

from typing import Any, ClassVar, Dict, List, Optional, Sequence, Type

import numpy as np

from .._lib import Handle, check, create, ffi, lib, text
from .._strategy import get_strategy, has_strategy
from .._trace import optional, trace_of
from .._values import Value
from ._params import Configured, fill


class Metric(Configured, Handle):
    """A metric: made in a scope, updated in steps, read outside of them; or for compile()."""

    _kind: ClassVar[str]

    def __init__(self, name: Optional[str] = None) -> None:
        self._name = name
        self._scope = get_strategy() if has_strategy() else None

    def _values(self) -> Dict[str, Any]:
        return dict(self._config)

    def to_c(self, keep: List[Any]) -> Any:
        """The library's ``rf_metric_params *``."""
        return fill("rf_metric_params", {**self._values(), "kind": self._kind}, keep,
                    type(self).__name__, self._defaults)

    @property
    def strategy(self) -> Any:
        """That of the scope that it was made in, else the one of its first use."""
        if self._scope is None:
            self._scope = get_strategy()
        return self._scope

    @property
    def core(self) -> Any:
        """The library's metric, made when it is first needed."""
        if self._core is None:
            keep: List[Any] = []
            params = self.to_c(keep)
            self.adopt(create(lib.rf_metric_create, "rf_metric", self.strategy.pointer,
                              params), lib.rf_metric_destroy, self.strategy)
        return super().core

    @property
    def pointer(self) -> Any:
        """What functions of the library take."""
        return self.core.pointer

    @property
    def name(self) -> str:
        """Its name, in logs."""
        return self._name or self._kind

    def update_state(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> None:
        """In a step: adds the values of this batch."""
        trace = trace_of(f"{type(self).__name__}.update_state", y_true, y_pred)
        trace.check(lib.rf_metric_update(
            trace.pointer, self.pointer, trace.take(y_true, "y_true"),
            trace.take(y_pred, "y_pred"), optional(trace, sample_weight, "sample_weight")))

    def __call__(self, *args: Any, **kwargs: Any) -> None:
        """update_state()."""
        self.update_state(*args, **kwargs)

    def result(self) -> Value:
        """The value over all replicas. Collective."""
        out = ffi.new("double *")
        check(lib.rf_metric_result(self.pointer, out))
        return Value(np.asarray(out[0], np.float32))

    def results(self) -> np.ndarray:
        """All values, of metrics that have one for each class. Collective."""
        count = ffi.new("uint32_t *")
        capacity = self._num_values()
        out = np.empty(capacity, np.float64)
        check(lib.rf_metric_results(self.pointer, ffi.from_buffer("double[]", out), capacity,
                                    count))
        return out[:count[0]]

    def _num_values(self) -> int:
        return max(1, int(self._config.get("num_classes") or 1))

    def reset_state(self) -> None:
        """Sets it to nothing."""
        check(lib.rf_metric_reset(self.pointer))

    reset_states = reset_state

    def _add_to(self, checkpoint: Any, name: bytes) -> None:
        check(lib.rf_checkpoint_add_metric(checkpoint, name, self.pointer))

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name!r}>"


class _OfValues(Metric):
    def update_state(self, values: Any,  # type: ignore[override]
                     sample_weight: Any = None) -> None:
        """In a step: adds values of this batch."""
        trace = trace_of(f"{type(self).__name__}.update_state", values)
        nothing = ffi.new("rf_tensor *")[0]
        trace.check(lib.rf_metric_update(trace.pointer, self.pointer, nothing,
                                         trace.take(values, "values"),
                                         optional(trace, sample_weight, "sample_weight")))


class Mean(_OfValues):
    """Mean of values."""

    _kind = "mean"

    def __init__(self, name: Optional[str] = None) -> None:
        super().__init__(name)


class Sum(_OfValues):
    """Sum of values."""

    _kind = "sum"

    def __init__(self, name: Optional[str] = None) -> None:
        super().__init__(name)


class SparseCategoricalAccuracy(Metric):
    """How often the largest prediction is the class that the label names.

    Labels ``ignore_class`` do not count; in compile() nor do those that the loss ignores.
    """

    _kind = "sparse_categorical_accuracy"

    def __init__(self, name: Optional[str] = None, ignore_class: Optional[int] = None) -> None:
        super().__init__(name)


class CategoricalAccuracy(Metric):
    """How often the largest prediction is where the one-hot label is."""

    _kind = "categorical_accuracy"

    def __init__(self, name: Optional[str] = None) -> None:
        super().__init__(name)


class BinaryAccuracy(Metric):
    """How often a prediction is on the label's side of ``threshold``."""

    _kind = "binary_accuracy"

    def __init__(self, name: Optional[str] = None, threshold: float = 0.5,
                 from_logits: bool = False) -> None:
        super().__init__(name)


class _OfClasses(Metric):
    def _values(self) -> Dict[str, Any]:
        values = super()._values()
        values["average"] = values["average"] or "none"
        return values


class Precision(_OfClasses):
    """Of what is predicted to be 1, the part that is.

    ``average`` "elements": of all elements together; "micro", "macro", "weighted" or None (a value
    for each): over ``num_classes``.
    """

    _kind = "precision"

    def __init__(self, threshold: Optional[float] = None, name: Optional[str] = None,
                 from_logits: bool = False, average: Optional[str] = "elements",
                 num_classes: Optional[int] = None) -> None:
        super().__init__(name)


class Recall(_OfClasses):
    """Of what is 1, the part that is predicted to be; see :class:`Precision`."""

    _kind = "recall"

    def __init__(self, threshold: Optional[float] = None, name: Optional[str] = None,
                 from_logits: bool = False, average: Optional[str] = "elements",
                 num_classes: Optional[int] = None) -> None:
        super().__init__(name)


class F1Score(_OfClasses):
    """Harmonic mean of precision and recall; see :class:`Precision`."""

    _kind = "f1"

    def __init__(self, average: Optional[str] = "elements", threshold: Optional[float] = None,
                 name: Optional[str] = None, from_logits: bool = False,
                 num_classes: Optional[int] = None) -> None:
        super().__init__(name)

    @property
    def name(self) -> str:
        """Its name, in logs."""
        return self._name or "f1_score"


class SparseTopKCategoricalAccuracy(Metric):
    """How often the label's class is among the ``k`` largest predictions."""

    _kind = "sparse_top_k_categorical_accuracy"

    def __init__(self, k: int = 5, name: Optional[str] = None,
                 ignore_class: Optional[int] = None) -> None:
        super().__init__(name)


class TopKCategoricalAccuracy(Metric):
    """The same with one-hot labels."""

    _kind = "top_k_categorical_accuracy"

    def __init__(self, k: int = 5, name: Optional[str] = None) -> None:
        super().__init__(name)


class MeanSquaredError(Metric):
    """Mean of squared differences."""

    _kind = "mean_squared_error"

    def __init__(self, name: Optional[str] = None) -> None:
        super().__init__(name)


class MeanAbsoluteError(Metric):
    """Mean of absolute differences."""

    _kind = "mean_absolute_error"

    def __init__(self, name: Optional[str] = None) -> None:
        super().__init__(name)


class AUC(Metric):
    """Area under the curve "ROC" or "PR"."""

    _kind = "auc"

    def __init__(self, num_thresholds: int = 200, curve: str = "ROC", name: Optional[str] = None,
                 from_logits: bool = False) -> None:
        super().__init__(name)
        if curve not in ("ROC", "PR"):
            raise ValueError(f"AUC: curve={curve!r} is neither 'ROC' nor 'PR'")

    def to_c(self, keep: List[Any]) -> Any:
        """The library's ``rf_metric_params *``."""
        values = self._values()
        values["kind"] = f"auc_{values.pop('curve').lower()}"
        return fill("rf_metric_params", values, keep, "AUC", self._defaults)


class Perplexity(Metric):
    """e to the mean of the sparse categorical crossentropy."""

    _kind = "perplexity"

    def __init__(self, name: Optional[str] = None, from_logits: bool = False,
                 ignore_class: Optional[int] = None) -> None:
        super().__init__(name)


class ConfusionMatrix(Metric):
    """How often each class, a row, is taken for each, a column.

    ``normalize`` "labels" divides rows by their sums, "predictions" columns, "all" everything. In
    logs it is the part on the diagonal, the accuracy.
    """

    _kind = "confusion_matrix"

    def __init__(self, num_classes: int, normalize: str = "none", name: Optional[str] = None,
                 ignore_class: Optional[int] = None) -> None:
        super().__init__(name)

    def _num_values(self) -> int:
        return int(self._config["num_classes"])**2

    def result(self) -> Value:
        """The matrix over all replicas. Collective."""
        classes = self._config["num_classes"]
        return Value(self.results().reshape(classes, classes).astype(np.float32))

    def table(self, names: Optional[Sequence[str]] = None) -> str:
        """The matrix as text, with names of the classes. Collective."""
        if names is not None and len(names) != self._config["num_classes"]:
            raise ValueError(f"table: {len(names)} names of {self._config['num_classes']} classes")
        return table_of(self.pointer, names)


class HitRate(Metric):
    """How often the true candidate is among the ``k`` best."""

    _kind = "hit_rate"

    def __init__(self, k: int = 10, name: Optional[str] = None) -> None:
        super().__init__(name)


class NDCG(Metric):
    """Normalized discounted cumulative gain of the true candidate among the ``k`` best."""

    _kind = "ndcg"

    def __init__(self, k: int = 10, name: Optional[str] = None) -> None:
        super().__init__(name)


def table_of(metric: Any, names: Optional[Sequence[str]]) -> str:
    """rf_metric_table()."""
    kept = [ffi.new("char[]", name.encode()) for name in names or ()]
    out = ffi.new("char **")
    check(lib.rf_metric_table(metric, ffi.new("char *[]", kept) if kept else ffi.NULL, out))
    try:
        return text(out[0])
    finally:
        lib.rf_string_free(out[0])


def _all(kind: Type[Metric]) -> List[Type[Metric]]:
    return [found for sub in kind.__subclasses__() for found in [sub, *_all(sub)]]


_by_name: Dict[str, Type[Metric]] = {}
for _metric in _all(Metric):
    if "_kind" in _metric.__dict__ and not issubclass(_metric, _OfValues):
        _by_name[_metric._kind] = _by_name[_metric.__name__] = _metric
_by_name.update({"mse": MeanSquaredError, "mae": MeanAbsoluteError, "f1_score": F1Score})

# What "accuracy" is beside a loss.
ACCURACIES: Dict[str, Type[Metric]] = {
    "sparse_categorical_crossentropy": SparseCategoricalAccuracy,
    "categorical_crossentropy": CategoricalAccuracy,
    "binary_crossentropy": BinaryAccuracy,
}


def get(identifier: Any, loss_kind: Optional[str] = None) -> Any:
    """A metric from its name, a function, or itself; "accuracy" depends on the loss."""
    if isinstance(identifier, Metric) or (callable(identifier)
                                          and not isinstance(identifier, type)):
        return identifier
    if identifier in ("accuracy", "acc"):
        kind = ACCURACIES.get(loss_kind or "")
        if kind is None:
            raise ValueError(f"metrics: 'accuracy' has no meaning beside the loss {loss_kind}; "
                             f"name one of {', '.join(k.__name__ for k in ACCURACIES.values())}")
        return kind(name=identifier)
    if isinstance(identifier, type) and issubclass(identifier, Metric):
        return identifier()
    if not isinstance(identifier, str) or identifier not in _by_name:
        raise ValueError(f"metrics: {identifier!r} is none of accuracy, "
                         f"{', '.join(sorted(_by_name))}")
    return _by_name[identifier]()
