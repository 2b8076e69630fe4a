# SPDX-License-Identifier: Apache-2.0
"""Callbacks of fit: the library's, and classes of one's own.

They are called by the thread that calls fit, between steps. ``logs`` are those of the library: an
``on_train_batch_end`` makes fit wait for the devices after each batch (or group of
``steps_per_execution``), because it gets the loss so far.
"""

from __future__ import annotations

import inspect
import os
from typing import TYPE_CHECKING, Any, Callable, Dict, List, Mapping, Optional, Union

from .._lib import Handle, callback, create, ffi, lib, path_bytes, text

if TYPE_CHECKING:
    from .models import Model

Path = Union[str, "os.PathLike[str]"]
Logs = Mapping[str, float]


class Callback:
    """A class of one's own: override what is of interest. ``self.model`` is the model."""

    model: Any = None
    params: Mapping[str, Any] = {}

    def set_model(self, model: Model) -> None:
        """Called before training."""
        self.model = model

    def set_params(self, params: Mapping[str, Any]) -> None:
        """Called before training: epochs, steps, verbose."""
        self.params = params

    def on_train_begin(self, logs: Optional[Logs] = None) -> None:
        """When fit begins."""

    def on_train_end(self, logs: Optional[Logs] = None) -> None:
        """When fit ends."""

    def on_epoch_begin(self, epoch: int, logs: Optional[Logs] = None) -> None:
        """Before an epoch, which counts from 0."""

    def on_epoch_end(self, epoch: int, logs: Optional[Logs] = None) -> None:
        """After an epoch and its validation."""

    def on_batch_begin(self, batch: int, logs: Optional[Logs] = None) -> None:
        """The same as on_train_batch_begin."""

    def on_batch_end(self, batch: int, logs: Optional[Logs] = None) -> None:
        """The same as on_train_batch_end."""

    def on_train_batch_begin(self, batch: int, logs: Optional[Logs] = None) -> None:
        """Before a batch."""
        self.on_batch_begin(batch, logs)

    def on_train_batch_end(self, batch: int, logs: Optional[Logs] = None) -> None:
        """After a batch; fit waits for its loss."""
        self.on_batch_end(batch, logs)

    def on_test_begin(self, logs: Optional[Logs] = None) -> None:
        """When evaluate begins."""

    def on_test_end(self, logs: Optional[Logs] = None) -> None:
        """When evaluate ends."""

    def on_predict_begin(self, logs: Optional[Logs] = None) -> None:
        """When predict begins."""

    def on_predict_end(self, logs: Optional[Logs] = None) -> None:
        """When predict ends."""

    def _overrides(self, *names: str) -> bool:
        return any(getattr(type(self), name) is not getattr(Callback, name)
                   or name in self.__dict__ for name in names)

    def _to_c(self) -> Handle:
        """The library's callback."""
        return _Python(self)


def logs_of(pointer: Any) -> Dict[str, float]:
    """A dict of an ``rf_logs *``."""
    return {text(pointer.name[i]): pointer.value[i] for i in range(pointer.count)}


class _Python(Handle):
    """A callback in Python as the library's. It lives as long as one fit."""

    def __init__(self, of: Callback) -> None:
        fns = ffi.new("rf_callback_fns *")
        types = {name: field.type for name, field in ffi.typeof("rf_callback_fns").fields}

        def bind(name: str, call: Callable[..., None]) -> Any:
            def entry(user: Any, state: Any, *logs: Any) -> int:
                call(state, *(logs_of(pointer) for pointer in logs))
                if of.model is not None and of.model.stop_training:
                    state.stop_training = True
                return 0

            made = callback(ffi.getctype(types[name]), entry)
            setattr(fns, name, made)
            return made

        kept = [fns,
                bind("on_train_begin", lambda state: of.on_train_begin({})),
                bind("on_train_end", lambda state, logs: of.on_train_end(logs)),
                bind("on_epoch_begin", lambda state: of.on_epoch_begin(state.epoch, {})),
                bind("on_epoch_end", lambda state, logs: of.on_epoch_end(state.epoch, logs))]
        if of._overrides("on_batch_begin", "on_train_batch_begin"):
            kept.append(bind("on_batch_begin",
                             lambda state: of.on_train_batch_begin(state.batch, {})))
        if of._overrides("on_batch_end", "on_train_batch_end"):
            kept.append(bind("on_batch_end",
                             lambda state, logs: of.on_train_batch_end(state.batch, logs)))
        self.adopt(create(lib.rf_callback_create, "rf_callback", fns, ffi.NULL),
                   lib.rf_callback_destroy)
        self.keep(*kept)


class _Native(Callback, Handle):
    """A callback of the library: it is made once, and remembers what it saw in earlier fits."""

    def _make(self) -> Any:
        raise NotImplementedError

    def _to_c(self) -> Handle:
        if self._core is None:
            self.adopt(self._make(), lib.rf_callback_destroy)
            self.keep(self.__dict__.pop("_kept", None))
        return self


def _maximize(mode: str, monitor: str) -> bool:
    if mode not in ("auto", "min", "max"):
        raise ValueError(f"mode={mode!r} is none of auto, min, max")
    larger = ("acc", "auc", "precision", "recall", "f1", "hit_rate", "ndcg")
    return mode == "max" or (mode == "auto" and any(part in monitor for part in larger))


class LearningRateScheduler(_Native):
    """Sets the learning rate at the beginning of each epoch: ``schedule(epoch)``, or
    ``schedule(epoch, rate)``."""

    def __init__(self, schedule: Callable[..., float], verbose: int = 0) -> None:
        self.schedule = schedule
        self.verbose = verbose

    def _make(self) -> Any:
        parameters = list(inspect.signature(self.schedule).parameters.values())
        two = len(parameters) > 1 or any(p.kind is p.VAR_POSITIONAL for p in parameters)

        schedule, verbose = self.schedule, self.verbose

        def rate(user: Any, epoch: int, old: float) -> float:
            new = float(schedule(epoch, old) if two else schedule(epoch))
            if verbose:
                print(f"\nEpoch {epoch + 1}: LearningRateScheduler setting learning rate to {new}.")
            return new

        self._kept = callback("rf_learning_rate_fn", rate, float("nan"))
        return create(lib.rf_callback_learning_rate_scheduler, "rf_callback", self._kept, ffi.NULL)


class EarlyStopping(_Native):
    """Stops when a value has not improved for ``patience`` epochs."""

    def __init__(self, monitor: str = "val_loss", min_delta: float = 0, patience: int = 0,
                 mode: str = "auto", restore_best_weights: bool = False) -> None:
        self.monitor = monitor
        self._params = {"min_delta": min_delta, "patience": patience,
                        "maximize": _maximize(mode, monitor),
                        "restore_best_weights": restore_best_weights}

    def _make(self) -> Any:
        monitor = ffi.new("char[]", self.monitor.encode())
        params = ffi.new("rf_early_stopping_params *", {**self._params, "monitor": monitor})
        return create(lib.rf_callback_early_stopping, "rf_callback", params)


class ModelCheckpoint(_Native):
    """Saves the model after each epoch.

    ``filepath`` may have places: {epoch} (from 1), {epoch:03d}, values as {val_loss:.2f}; ".rfck"
    is added where it is missing.
    """

    def __init__(self, filepath: Path, monitor: str = "val_loss", save_best_only: bool = False,
                 save_weights_only: bool = False, mode: str = "auto",
                 initial_value_threshold: Optional[float] = None, sharded: bool = False) -> None:
        self.filepath = os.fspath(filepath)
        self.monitor = monitor
        self._threshold = initial_value_threshold
        self._best = save_best_only or (monitor, mode) != ("val_loss", "auto")
        self._params = {"maximize": self._best and _maximize(mode, monitor),
                        "save_best_only": save_best_only,
                        "save_weights_only": save_weights_only, "save": {"sharded": sharded}}

    def _make(self) -> Any:
        path = ffi.new("char[]", path_bytes(self.filepath))
        monitor = ffi.new("char[]", self.monitor.encode())
        params = ffi.new("rf_model_checkpoint_params *", {**self._params, "path": path})
        if self._best:
            params.monitor = monitor
        if self._threshold is not None:
            threshold = ffi.new("double *", self._threshold)
            params.initial_value_threshold = threshold
        return create(lib.rf_callback_model_checkpoint, "rf_callback", params)


class BackupAndRestore(_Native):
    """An interrupted fit continues where it was, when the same program is started again.

    ``save_freq`` is "epoch" or a number of batches. The backup is removed when training has ended,
    unless ``delete_checkpoint`` is false.
    """

    def __init__(self, backup_dir: Path, save_freq: Union[str, int] = "epoch",
                 delete_checkpoint: bool = True, sharded: bool = False) -> None:
        if isinstance(save_freq, str) and save_freq != "epoch":
            raise ValueError(f"save_freq={save_freq!r} is neither 'epoch' nor a number of batches")
        self.backup_dir = os.fspath(backup_dir)
        self._params = {"save_every_batches": 0 if save_freq == "epoch" else save_freq,
                        "keep": not delete_checkpoint, "save": {"sharded": sharded}}

    def _make(self) -> Any:
        directory = ffi.new("char[]", path_bytes(self.backup_dir))
        params = ffi.new("rf_backup_params *", {**self._params, "directory": directory})
        return create(lib.rf_callback_backup_and_restore, "rf_callback", params)


class TensorBoard(_Native):
    """Writes event files to ``log_dir``/train and ``log_dir``/validation.

    ``update_freq`` is "epoch" or a number: also the values after every so many batches, for which
    fit waits.
    """

    def __init__(self, log_dir: Path = "logs", histogram_freq: int = 0, write_graph: bool = True,
                 update_freq: Union[str, int] = "epoch") -> None:
        if isinstance(update_freq, str) and update_freq not in ("epoch", "batch"):
            raise ValueError(f"update_freq={update_freq!r} is none of 'epoch', 'batch', a number")
        batches = {"epoch": 0, "batch": 1}.get(str(update_freq), update_freq)
        self.log_dir = os.fspath(log_dir)
        self._params = {"histogram_freq": histogram_freq, "no_graph": not write_graph,
                        "update_freq": batches}

    def _make(self) -> Any:
        directory = ffi.new("char[]", path_bytes(self.log_dir))
        params = ffi.new("rf_tensorboard_params *", {**self._params, "directory": directory})
        return create(lib.rf_callback_tensorboard, "rf_callback", params)


class CSVLogger(_Native):
    """Writes a line for each epoch."""

    def __init__(self, filename: Path, append: bool = False) -> None:
        self.filename = os.fspath(filename)
        self.append = append

    def _make(self) -> Any:
        return create(lib.rf_callback_csv_log, "rf_callback", path_bytes(self.filename),
                      self.append)


class Throughput(_Native):
    """Calls ``function(epoch, examples_per_second)`` at the end of each epoch: the speed over all
    workers, without validation."""

    def __init__(self, function: Callable[[int, float], Any]) -> None:
        self.function = function

    def _make(self) -> Any:
        function = self.function
        self._kept = callback("rf_throughput_fn",
                              lambda user, state, rate: function(int(state.epoch), rate))
        return create(lib.rf_callback_throughput, "rf_callback", self._kept, ffi.NULL)


class LambdaCallback(Callback):
    """A callback of functions, by the names of the methods of :class:`Callback`."""

    def __init__(self, **functions: Callable[..., Any]) -> None:
        for name, function in functions.items():
            if not name.startswith("on_") or not hasattr(Callback, name):
                raise TypeError(f"LambdaCallback() got an unexpected keyword argument {name!r}")
            setattr(self, name, function)


class History(Callback):
    """What fit returns: ``history`` has a list of the epochs' values for each name in the logs."""

    def __init__(self) -> None:
        self.epoch: List[int] = []
        self.history: Dict[str, List[float]] = {}

    def _add(self, epoch: int, logs: Logs) -> None:
        self.epoch.append(epoch)
        for name, value in logs.items():
            self.history.setdefault(name, []).append(value)

    def __repr__(self) -> str:
        return f"<History of {len(self.epoch)} epochs: {', '.join(self.history)}>"
