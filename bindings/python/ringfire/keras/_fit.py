# SPDX-License-Identifier: Apache-2.0
"""compile, fit, evaluate and predict."""

from __future__ import annotations

import time
from typing import Any, List, Mapping, Optional, Sequence, Tuple, Union

import numpy as np

from .._arrays import array_out
from .._elements import raise_failure
from .._lib import UnsupportedError, callback, check, ffi, lib, take_raised
from .._trace import tensors
from ..data import Dataset
from . import losses, metrics, optimizers
from ._data import arrays_of, batched, class_weights, given, only_dataset, split_arrays
from ._layer import as_list, tracing
from ._progress import Progress, print_evaluation
from .callbacks import Callback, History, logs_of

DEVICE_CACHE = {None: "RF_DEVICE_CACHE_OFF", False: "RF_DEVICE_CACHE_OFF",
                "auto": "RF_DEVICE_CACHE_AUTO", True: "RF_DEVICE_CACHE_ON"}


class Compiled:
    """What a model is compiled with, and the C functions that it needs meanwhile."""

    def __init__(self, model: Any, optimizer: Any, loss: Any, loss_weights: Any,
                 metric_list: Any, weighted: Any, steps_per_execution: Optional[int]) -> None:
        self.strategy = model.strategy
        self.names: List[str] = []
        self.keep: List[Any] = []
        self.params = ffi.new("rf_compile_params *")
        self.params.optimizer = optimizer.pointer
        self.params.steps_per_execution = steps_per_execution or 0
        kinds = self._losses(model, loss, loss_weights)
        self._metrics(model, kinds, metric_list, weighted)

    def _losses(self, model: Any, loss: Any, weights: Any) -> List[Optional[str]]:
        several = isinstance(loss, (list, tuple, dict))
        made = [losses.get(one) for one in _by_output(model, loss, "loss")]
        if any(not isinstance(one, losses.Loss) for one in made):
            if len(made) > 1:
                raise ValueError("compile: a function as loss is that of all outputs together; "
                                 "give it alone")
            self.params.loss_fn = self._loss_function(made[0], model.num_outputs)
            return [None] * model.num_outputs
        structs = [one.to_c(self.keep) for one in made]  # type: ignore[union-attr]
        if several:
            array = ffi.new("rf_loss[]", [struct[0] for struct in structs])
            self.params.losses, self.params.num_losses = array, len(made)
            self.keep.append(array)
        else:
            self.params.loss = structs[0][0]
        if weights is not None:
            numbers = ffi.new("double[]", [float(w) for w in _by_output(model, weights,
                                                                        "loss_weights")])
            self.params.loss_weights = numbers
            self.keep.append(numbers)
        return [one._kind for one in made]  # type: ignore[union-attr]

    def _loss_function(self, function: Any, count: int) -> Any:
        def call(t: Any, labels: Any, predictions: Any, user: Any) -> Any:
            with tracing(t, self.strategy) as trace:
                given = [tensors(trace, part, count) for part in (labels, predictions)]
                made = function(*(part[0] if count == 1 else part for part in given))
                return trace.take(made, "the result of the loss")

        self.keep.append(callback("rf_loss_fn", call))
        return self.keep[-1]

    def _metrics(self, model: Any, kinds: Sequence[Optional[str]], plain: Any,
                 weighted: Any) -> None:
        entries: List[Tuple[int, Any, bool]] = []
        for listed, counts in ((plain, False), (weighted, True)):
            for output, of_output in enumerate(_metrics_by_output(model, listed)):
                kind = kinds[output] if output < len(kinds) else None
                entries += [(output, metrics.get(one, kind), counts) for one in as_list(of_output)]
        if not entries:
            return
        array = ffi.new("rf_output_metric[]", len(entries))
        several = model.num_outputs > 1
        for entry, (output, metric, counts) in zip(array, entries):
            entry.output = output
            entry.weighted = counts
            if isinstance(metric, metrics.Metric):
                entry.metric = metric.to_c(self.keep)[0]
                name = metric.name
            else:
                entry.fn = self._metric_function(metric)
                name = metric.__name__
            text = ffi.new("char[]", name.encode())
            self.keep.append(text)
            entry.metric.name = text
            self.names.append(f"{model.output_names[output]}_{name}" if several else name)
        self.params.output_metrics, self.params.num_output_metrics = array, len(entries)
        self.keep.append(array)

    def _metric_function(self, function: Any) -> Any:
        def call(t: Any, labels: Any, predictions: Any, user: Any) -> Any:
            with tracing(t, self.strategy) as trace:
                given = ffi.new("rf_tensor[]", [labels, predictions])
                made = function(*tensors(trace, given, 2))
                return trace.take(made, "the result of the metric")

        self.keep.append(callback("rf_metric_fn", call))
        return self.keep[-1]


def _by_output(model: Any, value: Any, who: str) -> List[Any]:
    """One value for each output that has one, given alone, in a list, or by the outputs' names."""
    if isinstance(value, dict):
        unknown = set(value) - set(model.output_names)
        if unknown or len(value) != model.num_outputs:
            raise ValueError(f"compile: {who} names {', '.join(value)}; the outputs are "
                             f"{', '.join(model.output_names)}")
        return [value[name] for name in model.output_names]
    return as_list(value)


def _metrics_by_output(model: Any, value: Any) -> List[Any]:
    if value is None:
        return []
    if isinstance(value, dict):
        unknown = set(value) - set(model.output_names)
        if unknown:
            raise ValueError(f"compile: metrics name {', '.join(sorted(unknown))}; the outputs are "
                             f"{', '.join(model.output_names)}")
        return [value.get(name, []) for name in model.output_names]
    listed = as_list(value)
    if model.num_outputs == 1:
        return [listed]
    if len(listed) == model.num_outputs:
        return listed
    raise ValueError(f"compile: metrics are a list of {model.num_outputs} lists, one for each "
                     "output, or a dict by their names")


class Trainer:
    """The training half of a model."""

    pointer: Any
    strategy: Any
    name: str
    optimizer: Any
    stop_training: bool
    _num_outputs: int
    history: Optional[History]
    _used_data: Tuple[Any, ...]
    _compiled: Optional[Compiled]

    def _begin_training(self) -> None:
        self.optimizer, self._compiled, self.history = None, None, None
        self.stop_training = False
        self._used_data = ()

    def _compiled_in_file(self) -> None:
        pointer = lib.rf_model_optimizer(self.pointer)
        if pointer != ffi.NULL:
            self.optimizer = optimizers.Borrowed(pointer, self)

    # -- compile --

    def compile(self, optimizer: Any = "rmsprop", loss: Any = None, metrics: Any = None,
                loss_weights: Any = None, weighted_metrics: Any = None,
                steps_per_execution: Optional[int] = None) -> None:
        """Says how the model is trained.

        ``loss`` and ``metrics`` are names, objects, or functions of (y_true, y_pred) that trace;
        for several outputs lists or dicts by their names. ``steps_per_execution`` batches are one
        execution, with one callback: steps that are short then cost the host less.
        """
        if loss is None:
            raise ValueError("compile: loss is missing")
        several = isinstance(loss, (list, tuple, dict))
        core = getattr(self, "_core", None)
        if core is None and several:
            self._num_outputs = max(len(loss), self._num_outputs)
        with self.strategy.scope():
            new_optimizer = optimizers.get(optimizer)
        compiled = Compiled(self, new_optimizer, loss, loss_weights, metrics, weighted_metrics,
                            steps_per_execution)
        take_raised()
        check(lib.rf_model_compile(self.pointer, compiled.params))
        self.optimizer, self._compiled = new_optimizer, compiled

    def _want_compiled(self, who: str) -> None:
        if self.optimizer is None:
            raise ValueError(f"{who}: the model is not compiled; call compile() first")

    def _metric_names(self) -> List[str]:
        return self._compiled.names if self._compiled is not None else []

    # -- fit --

    def fit(self, x: Any = None, y: Any = None, batch_size: Optional[int] = None, epochs: int = 1,
            verbose: Any = "auto", callbacks: Union[None, Callback, Sequence[Callback]] = None,
            validation_split: float = 0.0, validation_data: Any = None, shuffle: bool = True,
            class_weight: Optional[Mapping[int, float]] = None, sample_weight: Any = None,
            initial_epoch: int = 0, steps_per_epoch: Optional[int] = None,
            validation_steps: Optional[int] = None, validation_batch_size: Optional[int] = None,
            validation_freq: int = 1, device_cache: Any = None) -> History:
        """Trains the compiled model. Collective.

        ``x`` is a batched Dataset, whose elements are inputs, labels and perhaps weights, or
        arrays. Arrays are shuffled as a whole before each epoch, unless ``shuffle`` is false.
        ``device_cache`` True or "auto": the data is kept in the memory of the devices. Ctrl-C
        stops before the next batch and raises KeyboardInterrupt; the model stays as it is then.
        """
        self._want_compiled("fit")
        if not self.strategy.can_fit:
            raise UnsupportedError("fit() does not train with parameter servers; schedule steps "
                                   "with rf.distribute.ClusterCoordinator")
        train, held_out = self._train_data(x, y, batch_size, validation_split, shuffle,
                                           sample_weight)
        validation = held_out if validation_data is None else self._validation_data(
            validation_data, validation_batch_size or batch_size)
        if validation is not None and validation_steps is not None:
            validation = validation.take(validation_steps)
        if device_cache not in DEVICE_CACHE:
            raise ValueError(f"fit: device_cache={device_cache!r} is none of True, False, 'auto'")
        params = ffi.new("rf_fit_params *", {
            "data": train.pointer, "epochs": epochs, "initial_epoch": initial_epoch,
            "steps_per_epoch": steps_per_epoch or 0, "distribute": train.distribute_policy,
            "validation_freq": validation_freq,
            "device_cache": getattr(lib, DEVICE_CACHE[device_cache])})
        used = [train]
        if validation is not None:
            params.validation_data = validation.pointer
            used.append(validation)
        # The model may hold a place in the data until its next fit.
        self._used_data = (used, self._used_data[:1])
        return self._fit(params, used, callbacks, verbose, epochs,
                         steps_per_epoch or train.cardinality(), class_weight)

    def _fit(self, params: Any, used: List[Dataset], given_callbacks: Any, verbose: Any,
             epochs: int, steps: int, weights: Optional[Mapping[int, float]]) -> History:
        history = History()
        progress = Progress(verbose, self._metric_names, self.strategy.is_chief, history)
        listed: List[Callback] = [] if given_callbacks is None else as_list(given_callbacks)
        listed = [*listed, progress]
        steps = -1 if steps < 0 else -(-steps // max(1, self._steps_per_execution()))
        for one in [*listed, history]:
            if not isinstance(one, Callback):
                raise TypeError(f"fit: {one!r} is no Callback")
            one.set_model(self)  # type: ignore[arg-type]
            one.set_params({"epochs": epochs, "steps": steps, "verbose": verbose})
        self.stop_training = False
        from .callbacks import _Native
        made = [one._to_c() for one in listed]
        pointers = ffi.new("rf_callback *[]", [one.pointer for one in made])
        params.callbacks, params.num_callbacks = pointers, len(made)
        table = class_weights(weights)
        params.class_weights, params.num_class_weights = table, len(table)
        take_raised()
        try:
            raise_failure(lib.rf_model_fit(self.pointer, params, ffi.NULL), *used)
        finally:
            self.history = history
            for handle in made:
                if not isinstance(handle, _Native):
                    handle.close()
        return history

    def _steps_per_execution(self) -> int:
        return int(self._compiled.params.steps_per_execution) if self._compiled is not None else 1

    def _train_data(self, x: Any, y: Any, batch_size: Optional[int], split: float, shuffle: bool,
                    sample_weight: Any) -> Tuple[Dataset, Optional[Dataset]]:
        if isinstance(x, Dataset):
            only_dataset(x, "fit", y=y, batch_size=batch_size, sample_weight=sample_weight,
                         validation_split=split or None)
            return x, None
        parts = given(x, y, sample_weight, "fit")
        if not split:
            return batched(parts, batch_size, shuffle), None
        first, last = split_arrays(parts, split)
        return batched(first, batch_size, shuffle), batched(last, batch_size, False)

    def _validation_data(self, data: Any, batch_size: Optional[int]) -> Dataset:
        if isinstance(data, Dataset):
            return only_dataset(data, "fit: validation_data")
        parts = tuple(data)
        return batched(given(parts[0], parts[1], parts[2] if len(parts) > 2 else None,
                             "fit: validation_data"), batch_size, False)

    # -- evaluate and predict --

    def evaluate(self, x: Any = None, y: Any = None, batch_size: Optional[int] = None,
                 verbose: Any = "auto", sample_weight: Any = None, steps: Optional[int] = None,
                 callbacks: Union[None, Callback, Sequence[Callback]] = None,
                 return_dict: bool = False) -> Any:
        """Loss and metrics over data: the loss alone, a list, or a dict. Collective."""
        self._want_compiled("evaluate")
        if isinstance(x, Dataset):
            data = only_dataset(x, "evaluate", y=y, batch_size=batch_size,
                                sample_weight=sample_weight)
        else:
            data = batched(given(x, y, sample_weight, "evaluate"), batch_size, False)
        if steps is not None:
            data = data.take(steps)
        listed = [] if callbacks is None else as_list(callbacks)
        for one in listed:
            one.set_model(self)
            one.on_test_begin({})
        out = ffi.new("rf_logs *")
        began = time.monotonic()
        take_raised()
        raise_failure(lib.rf_model_evaluate(self.pointer, data.pointer, out), data)
        logs = logs_of(out)
        print_evaluation(verbose, self.strategy.is_chief, data.cardinality(),
                         time.monotonic() - began, logs)
        for one in listed:
            one.on_test_end(logs)
        if return_dict:
            return logs
        values = list(logs.values())
        return values[0] if len(values) == 1 else values

    def predict(self, x: Any, batch_size: Optional[int] = None, verbose: Any = "auto",
                steps: Optional[int] = None,
                callbacks: Union[None, Callback, Sequence[Callback]] = None) -> Any:
        """Predictions for all examples: an array, or a list of one for each output. Collective."""
        data = only_dataset(x, "predict", batch_size=batch_size) if isinstance(x, Dataset) \
            else batched(arrays_of(x), batch_size, False)
        if steps is not None:
            data = data.take(steps)
        listed = [] if callbacks is None else as_list(callbacks)
        for one in listed:
            one.set_model(self)
            one.on_predict_begin({})
        began = time.monotonic()
        made = self._predict(data)
        print_evaluation(verbose, self.strategy.is_chief, data.cardinality(),
                         time.monotonic() - began, {})
        for one in listed:
            one.on_predict_end({})
        return made[0] if len(made) == 1 else made

    def _predict(self, data: Dataset) -> List[np.ndarray]:
        count = lib.rf_model_num_outputs(self.pointer)
        out = ffi.new("rf_array[]", count)
        take_raised()
        raise_failure(lib.rf_model_predict_many(self.pointer, data.pointer, out, count), data)
        return [array_out(out[i]) for i in range(count)]

    def _predict_arrays(self, arrays: Sequence[Any]) -> List[np.ndarray]:
        parts = arrays_of(list(arrays))
        return self._predict(batched(parts, max(1, len(parts[0])), False))

    # -- single batches --

    def train_on_batch(self, x: Any, y: Any = None, sample_weight: Any = None,
                       class_weight: Optional[Mapping[int, float]] = None,
                       return_dict: bool = False) -> Any:
        """One step with one batch: the loss alone, a list, or a dict."""
        self._want_compiled("train_on_batch")
        parts = given(x, y, sample_weight, "train_on_batch")
        data = batched(parts, len(parts[0]), False)
        params = ffi.new("rf_fit_params *", {"data": data.pointer, "epochs": 1})
        history = self._fit(params, [data], None, 0, 1, 1, class_weight).history
        names = ["loss", *self._metric_names()]
        logs = {name: values[0] for name, values in history.items()
                if name != "learning_rate" and (name in names or self._compiled is None
                                                or name.endswith("_loss"))}
        values = list(logs.values())
        return logs if return_dict else values[0] if len(values) == 1 else values

    def test_on_batch(self, x: Any, y: Any = None, sample_weight: Any = None,
                      return_dict: bool = False) -> Any:
        """evaluate() of one batch."""
        return self.evaluate(x, y, batch_size=len(arrays_of(x)[0]), verbose=0,
                             sample_weight=sample_weight, return_dict=return_dict)

    def predict_on_batch(self, x: Any) -> Any:
        """predict() of one batch."""
        made = self._predict_arrays(as_list(x))
        return made[0] if len(made) == 1 else made
