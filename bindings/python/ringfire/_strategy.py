# SPDX-License-Identifier: Apache-2.0
"""Strategies: where replicas live and how they stay in sync; after tf.distribute."""
from __future__ import annotations

import json
import os
import threading
import types
from collections import OrderedDict
from enum import Enum
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple, Union

import numpy as np

from . import _arrays as arrays
from ._devices import PhysicalDevice, device_list
from ._function import (Function, OnlyResult, Orchestrates, PerReplica, Result, _Bound,
                        run_step)
from ._lib import (Handle, InvalidArgumentError, TraceError, check, create, ffi, lib, params, text,
                   where)
from ._trace import current, local
from ._values import Number, Value

_local = threading.local()
_serial = 0


_kinds = {None: "NONE", "int8": "INT8", "nf4": "NF4", "q4_0": "Q4_0"}


def quantize_params(kind: Optional[str], weights: Sequence[str]) -> Tuple[Any, List[Any]]:
    """The library's ``rf_quantize_params *``, and what it points into."""
    if kind not in _kinds:
        raise ValueError(f"the quantization {kind!r} is none of 'int8', 'nf4' and 'q4_0'")
    names = [ffi.new("char[]", name.encode()) for name in weights]
    listed = ffi.new("const char *[]", names)
    given = ffi.new("rf_quantize_params *", {"kind": getattr(lib,
                                                             "RF_QUANTIZATION_" + _kinds[kind]),
                                             "weights": listed if names else ffi.NULL,
                                             "num_weights": len(names)})
    return given, [names, listed]


class ReduceOp(Enum):
    """How values of replicas are combined."""
    SUM = "SUM"
    MEAN = "MEAN"


# Before Python 3.12 a member is looked up by a call, which loops would make in each turn.
for _op in ReduceOp:
    type.__setattr__(ReduceOp, _op.name, _op)


class ReplicaContext:
    """What a step may ask about where it runs."""

    def __init__(self, strategy: "Strategy") -> None:
        self.strategy = strategy

    @property
    def num_replicas_in_sync(self) -> int:
        """Number of replicas, over all workers."""
        return self.strategy.num_replicas_in_sync

    def all_reduce(self, reduce_op: Any, value: Any) -> Any:
        """Combines a tensor over all replicas, inside of the step."""
        from ._ops import all_replica_sum
        total = all_replica_sum(value)
        if _reduce_op(reduce_op) is ReduceOp.MEAN:
            total = total / float(self.num_replicas_in_sync)
        return total


class InputContext:
    """What a function that makes a dataset for a strategy is told. There is one pipeline, whose
    batches the strategy divides: sharding by it changes nothing."""
    num_input_pipelines = 1
    input_pipeline_id = 0

    def __init__(self, strategy: "Strategy") -> None:
        self.num_replicas_in_sync = strategy.num_replicas_in_sync

    def get_per_replica_batch_size(self, global_batch_size: int) -> int:
        """The part of a batch that a replica gets."""
        if global_batch_size % self.num_replicas_in_sync != 0:
            raise InvalidArgumentError("a global batch of %d does not divide by %d replicas" %
                                       (global_batch_size, self.num_replicas_in_sync))
        return global_batch_size // self.num_replicas_in_sync


class Strategy(Handle):
    """Where replicas live and how they stay in sync. Variables, models and optimizers are made in
    its scope()."""
    can_fit = True

    def __init__(self, pointer: Any) -> None:
        global _serial
        _serial += 1
        self.serial = _serial
        self.adopt(pointer, lib.rf_strategy_destroy)
        self.num_replicas_in_sync = int(lib.rf_strategy_num_replicas_in_sync(pointer))
        first = int(lib.rf_strategy_first_local_replica(pointer))
        self.local_replicas = range(first,
                                    first + int(lib.rf_strategy_num_local_replicas(pointer)))
        self.first_local, self.one_local = first, len(self.local_replicas) == 1
        self._number = ffi.new("float *")
        self.steps = OrderedDict()
        self.restores: List[Any] = []  # checkpoints that wait until models are built

    # ---- facts ----

    @property
    def rank(self) -> int:
        """Number of this worker."""
        return int(lib.rf_strategy_rank(self.pointer))

    @property
    def world_size(self) -> int:
        """Number of workers."""
        return int(lib.rf_strategy_world_size(self.pointer))

    @property
    def is_chief(self) -> bool:
        """Whether this worker is the first, which writes files."""
        return bool(lib.rf_strategy_is_chief(self.pointer))

    @property
    def device_names(self) -> Tuple[str, ...]:
        """The devices of all replicas."""
        return tuple(
            text(lib.rf_strategy_device_name(self.pointer, r))
            for r in range(self.num_replicas_in_sync))

    def close(self) -> None:
        """Gives up the devices, once nothing that was made on the strategy is left. A worker leaves
        its job then."""
        self.steps.clear()
        super().close()

    steps: "OrderedDict[Any, Any]" = OrderedDict()

    def __repr__(self) -> str:
        return "<ringfire.%s on %s>" % (type(self).__name__, ", ".join(self.device_names))

    # ---- where things are made ----

    def scope(self) -> "_Scope":
        """A context in which variables, models and optimizers belong to this strategy."""
        return _Scope(self)

    def note(self, thing: Any) -> None:
        """Learns of a variable, a model or an optimizer that was made in the scope."""

    def create_optimizer(self, settings: Any) -> Any:
        """An rf_optimizer of these rf_optimizer_params."""
        return create(lib.rf_optimizer_create, "rf_optimizer", self.pointer, settings)

    # ---- steps ----

    def run(self, fn: Callable[..., Any], args: Sequence[Any] = (),
            kwargs: Optional[Dict[str, Any]] = None, options: Any = None) -> Any:
        """Runs a function as a step on every replica. Arrays among the arguments are batches, which
        are divided along their first dimension; the function sees the part of one replica, as
        symbolic tensors, once for each kind of arguments. The result has a value for each replica
        of this worker; where that is one, it is this value."""
        trace = getattr(local, "trace", None)
        if trace is not None:
            if trace.outer_step:
                raise Orchestrates
            raise TraceError("%s: strategy.run() in a step; call the function itself" % where())
        if type(fn) is not types.FunctionType and isinstance(fn, (Function, _Bound)):
            fn = fn.python_function
        return run_step(self, fn, args, kwargs or {})

    def reduce(self, reduce_op: Any, value: Any, axis: Optional[int] = None) -> Any:
        """Combines what a step returned over all replicas: scalars in the library; with axis=0 the
        sum or mean over all rows."""
        op = reduce_op if type(reduce_op) is ReduceOp else _reduce_op(reduce_op)
        trace = getattr(local, "trace", None)
        if trace is not None:
            if trace.outer_step:
                raise Orchestrates
            raise TraceError("%s: strategy.reduce() in a step; use "
                             "rf.distribute.get_replica_context().all_reduce()" % where())
        source = value
        if type(value) is not OnlyResult and isinstance(value, Result):
            source = value.source
        if not isinstance(source, PerReplica):
            if isinstance(value, (tuple, list)):
                return type(value)(self.reduce(op, v, axis) for v in value)
            if isinstance(value, dict):
                return {k: self.reduce(op, v, axis) for k, v in value.items()}
            raise InvalidArgumentError("reduce() combines what run() returned, not %s" %
                                       type(value).__name__)
        if axis is not None:
            rows = self.gather(source, axis).view
            return Value(
                np.asarray(rows.sum(axis) if op is ReduceOp.SUM else rows.mean(axis)))
        if source.step is not None:
            out = self._number
            result = lib.rf_strategy_reduce(
                self.pointer, lib.RF_REDUCE_SUM if op is ReduceOp.SUM else lib.RF_REDUCE_MEAN,
                source.pointer, out)
            if result >= 0:
                return Number(out[0])
            if self.world_size > 1:
                check(result)
        parts = [a for a in (source.read(r) for r in self.local_replicas) if a.size > 0]
        if self.world_size > 1 or any(p.shape != parts[0].shape for p in parts):
            check(lib.rf_strategy_reduce(self.pointer, _code(op), source.live,
                                         ffi.new("float *")))
        total = sum(parts[1:], parts[0].copy())
        return Value(np.asarray(total if op is ReduceOp.SUM else total / np.float32(len(parts))))

    def gather(self, value: Any, axis: int = 0) -> Value:
        """The rows of all replicas one after the other, in the order of the batch. Collective."""
        if axis != 0:
            raise InvalidArgumentError("gather() joins along axis 0, not %d" % axis)
        source = value.source if isinstance(value, Result) else value
        out = ffi.new("rf_array *")
        check(lib.rf_strategy_gather(self.pointer, source.live, out))
        return Value(arrays.array_out(out[0]))

    def experimental_local_results(self, value: Any) -> Tuple[Value, ...]:
        """The values of this worker's replicas."""
        return value.values if isinstance(value, PerReplica) else (value, )

    # ---- input ----

    def experimental_distribute_dataset(self, dataset: Any, options: Any = None) -> Any:
        """A dataset of global batches for a loop around run(): each worker gets the rows of its
        replicas."""
        return dataset.distributed(self)

    def distribute_datasets_from_function(self, dataset_fn: Callable[[InputContext], Any],
                                          options: Any = None) -> Any:
        """The same for a function that makes batches of the size of one replica."""
        dataset = dataset_fn(InputContext(self))
        size = int(lib.rf_dataset_batch_size(dataset.pointer))
        if size == 0:
            raise InvalidArgumentError("the function of distribute_datasets_from_function() must "
                                       "return a dataset with batch()")
        if self.num_replicas_in_sync > 1:
            dataset = dataset.unbatch().batch(size * self.num_replicas_in_sync)
        return dataset.distributed(self)

    experimental_distribute_datasets_from_function = distribute_datasets_from_function

    # ---- the job ----

    def request_stop(self) -> None:
        """Asks all workers to stop; see stop_agreed."""
        lib.rf_strategy_request_stop(self.pointer)

    @property
    def stop_agreed(self) -> bool:
        """Whether some worker had asked to stop before the latest run: the same on all workers."""
        return bool(lib.rf_strategy_stop_agreed(self.pointer))

    def set_seed(self, seed: int) -> None:
        """The seed of variables and dropout that are made from here on."""
        lib.rf_strategy_set_seed(self.pointer, seed)

    def set_quantization(self, kind: Optional[str], weights: Sequence[str] = ()) -> None:
        """Stores weights of layers that are called for the first time from here on as "int8", "nf4"
        or "q4_0"; None: as float32. They are not trained. `weights` are names such as
        "h/0/mlp/c_fc/kernel", where "*" stands for any characters; none: all kernels of dense
        layers and attention but that of "lm_head"."""
        given, _kept = quantize_params(kind, weights)
        check(lib.rf_strategy_set_quantization(self.pointer, given))

    def set_progress(self, epoch: int, epochs: int = 0, batch: int = 0, batches: int = 0,
                     **values: float) -> None:
        """Tells `ringfire top` how far a loop of the program's own has come, and its latest
        values: set_progress(epoch, epochs, loss=0.5). Epochs count from 0; 0 epochs or batches of
        an epoch are not known. Steps that run afterwards count as batches."""
        names = [ffi.new("char[]", name.encode()) for name in values]
        kept: List[Any] = []
        progress = params("rf_progress", kept, epoch=epoch, num_epochs=epochs, batch=batch,
                          batches_per_epoch=batches, num_values=len(names))
        progress.names = listed = ffi.new("char *[]", names)
        progress.values = numbers = ffi.new("double[]", list(map(float, values.values())))
        kept += [listed, numbers]
        check(lib.rf_strategy_set_progress(self.pointer, progress))

    def memory_uses(self, replica: int = 0) -> Dict[str, Tuple[int, int]]:
        """Bytes of the device of a replica of this worker, now and at most, by what they are for;
        "all" is all of them."""
        use = ffi.new("rf_memory_use *")
        found: Dict[str, Tuple[int, int]] = {}
        while lib.rf_strategy_memory_use(self.pointer, replica, len(found), use):
            found[text(use.name)] = int(use.bytes), int(use.peak)
        return found

    def synchronize(self) -> None:
        """Waits until the devices have done all that they were given."""
        check(lib.rf_strategy_synchronize(self.pointer))

    def check_identical(self) -> None:
        """Compares all variables of all replicas. Collective."""
        check(lib.rf_strategy_check_identical(self.pointer, ffi.NULL, ffi.NULL))

    def restore_waiting(self) -> None:
        """Restores what waited for models that are built now."""
        waiting, self.restores = self.restores, []
        for restore in waiting:
            restore()


def read_status(address: Optional[str] = None, directory: Any = None, key_file: Any = None,
                insecure: bool = False, timeout: float = 5.0) -> Dict[str, Any]:
    """The status of a job that was started with RINGFIRE_STATUS: the address or the directory that
    the variable names. With an address the job's key file is needed. The book lists the members
    (reference, wire format)."""
    kept: List[Any] = []
    where_from = params("rf_status_params", kept, address=address, directory=directory,
                        key_file=key_file, insecure=insecure, timeout=timeout)
    out = ffi.new("char **")
    check(lib.rf_status_read(where_from, out))
    try:
        return dict(json.loads(text(out[0])))
    finally:
        lib.rf_string_free(out[0])


def _code(op: ReduceOp) -> int:
    return lib.RF_REDUCE_SUM if op is ReduceOp.SUM else lib.RF_REDUCE_MEAN


def _reduce_op(of: Any) -> ReduceOp:
    if isinstance(of, ReduceOp):
        return of
    try:
        return ReduceOp[str(of).upper()]
    except KeyError:
        raise InvalidArgumentError("%r is no ReduceOp; use SUM or MEAN" % (of, )) from None


# ---- scopes ----


class _Scope:

    def __init__(self, strategy: Optional[Strategy]) -> None:
        self.strategy = strategy

    def __enter__(self) -> Any:
        _scopes().append(self.strategy)
        return self.strategy

    def __exit__(self, *exception: Any) -> None:
        _scopes().pop()


def _scopes() -> List[Optional[Strategy]]:
    stack = getattr(_local, "scopes", None)
    if stack is None:
        stack = _local.scopes = []
    return stack


_default: Optional[Strategy] = None


def has_strategy() -> bool:
    """Whether there is a scope around."""
    scopes = _scopes()
    return bool(scopes) and scopes[-1] is not None


def get_strategy() -> Strategy:
    """The strategy of the step or of the scope; without one, that of the best device."""
    global _default
    trace = current()
    if trace is not None:
        return trace.strategy
    scopes = _scopes()
    if scopes and scopes[-1] is not None:
        return scopes[-1]
    if _default is None or _default._core is None:
        _default = OneDeviceStrategy()
    return _default


def eager_strategy() -> Strategy:
    """Where operations outside of steps are computed, by this process alone."""
    strategy = get_strategy()
    if strategy.num_replicas_in_sync > 1 or strategy.world_size > 1:
        with _Scope(None):
            return get_strategy()
    return strategy


def get_replica_context() -> Optional[ReplicaContext]:
    """In a step, what it may ask about where it runs."""
    trace = current()
    return None if trace is None else ReplicaContext(trace.strategy)


def in_cross_replica_context() -> bool:
    """Whether no step is being traced."""
    return current() is None


# ---- kinds ----

Devices = Union[None, str, PhysicalDevice, Sequence[Union[str, PhysicalDevice]]]


def _mirrored(kept: List[Any], devices: Devices, settings: Dict[str, Any]) -> Any:
    """An rf_mirrored_params. Settings are its fields, with `shares` a list, and those of its
    `device`."""
    options = {
        name: settings.pop(name)
        for name in ("validation", "clamp_limits", "no_cache", "cache_directory")
        if name in settings
    }
    shares = settings.pop("shares", None)
    if shares is not None:
        settings["shares"] = ffi.new("double[]", [float(s) for s in shares])
        settings["num_shares"] = len(shares)
        kept.append(settings["shares"])
    made = params("rf_mirrored_params", kept, devices=device_list(devices), **settings)
    made.device = params("rf_device_options", kept, **options)[0]
    return made


class MirroredStrategy(Strategy):
    """One process with a replica on each device: by default on every GPU, of any vendor."""

    def __init__(self, devices: Devices = None, cross_device_ops: Any = None,
                 **settings: Any) -> None:
        kept: List[Any] = []
        super().__init__(
            create(lib.rf_strategy_create_mirrored, "rf_strategy",
                   _mirrored(kept, devices, settings)))


class OneDeviceStrategy(Strategy):
    """One process with one replica."""

    def __init__(self, device: Union[None, str, PhysicalDevice] = None, **options: Any) -> None:
        kept: List[Any] = []
        made = params("rf_one_device_params", kept, device=device_list(device))
        made.options = params("rf_device_options", kept, **options)[0]
        super().__init__(create(lib.rf_strategy_create_one_device, "rf_strategy", made))


class CentralStorageStrategy(Strategy):
    """One process in which the first device holds and updates the variables."""

    def __init__(self, devices: Devices = None, **settings: Any) -> None:
        kept: List[Any] = []
        made = params("rf_central_storage_params", kept)
        made.mirrored = _mirrored(kept, devices, settings)[0]
        super().__init__(create(lib.rf_strategy_create_central_storage, "rf_strategy", made))


class ClusterSpec:
    """The tasks of a job, as TF_CONFIG lists them."""

    def __init__(self, tasks: Dict[str, List[str]]) -> None:
        self._tasks = tasks

    def as_dict(self) -> Dict[str, List[str]]:
        """Addresses by the kind of task."""
        return dict(self._tasks)

    @property
    def jobs(self) -> List[str]:
        """Kinds of tasks."""
        return sorted(self._tasks)

    def num_tasks(self, job_name: str) -> int:
        """Number of tasks of a kind."""
        return len(self._tasks.get(job_name, ()))


class TFConfigClusterResolver:
    """What TF_CONFIG says."""

    def __init__(self) -> None:
        self._config = json.loads(os.environ.get("TF_CONFIG") or "{}")

    @property
    def task_type(self) -> Optional[str]:
        """ "chief", "worker", "ps" or "evaluator"; None without TF_CONFIG."""
        return self._config.get("task", {}).get("type")

    @property
    def task_id(self) -> Optional[int]:
        """Number among the tasks of its kind."""
        index = self._config.get("task", {}).get("index")
        return None if index is None else int(index)

    def cluster_spec(self) -> ClusterSpec:
        """All tasks."""
        return ClusterSpec(self._config.get("cluster", {}))


class MultiWorkerMirroredStrategy(Strategy):
    """A mirrored strategy over all workers of the job that the environment describes: TF_CONFIG, or
    what `ringfire run`, mpirun, srun and torchrun set. Every worker runs the same program."""

    def __init__(self, cluster_resolver: Optional[TFConfigClusterResolver] = None,
                 communication_options: Any = None, devices: Devices = None,
                 compression: Union[str, int] = 0, top_k_share: float = 0.0,
                 comm: Optional[Dict[str, Any]] = None, **settings: Any) -> None:
        """`comm` has fields of rf_comm_params, such as {"key_file": path}."""
        kept: List[Any] = []
        made = params("rf_multi_worker_params", kept, compression=compression,
                      top_k_share=top_k_share)
        made.mirrored = _mirrored(kept, devices, settings)[0]
        made.comm = params("rf_comm_params", kept, **(comm or {}))[0]
        super().__init__(create(lib.rf_strategy_create_multi_worker, "rf_strategy", made))
        self.cluster_resolver = cluster_resolver or TFConfigClusterResolver()
