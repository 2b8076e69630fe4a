# SPDX-License-Identifier: Apache-2.0
"""Training with parameter servers; after tf.distribute's ParameterServerStrategy and
ClusterCoordinator.

All tasks run the same program. A parameter server stays in Server().join(). A worker reads the
program up to the first join() or fetch() of its coordinator: it then does what the chief schedules,
until the job has ended, and leaves the program."""
from __future__ import annotations

import contextlib
import signal
import threading
import weakref
from typing import Any, Callable, Dict, Iterator, List, NoReturn, Optional, Sequence, Tuple, Union

from ._devices import PhysicalDevice, device_list
from ._elements import pack_element
from ._function import Function
from ._lib import (Error, Handle, InvalidArgumentError, TraceError, callback, check, create, ffi,
                   lib, params, where)
from ._strategy import (Devices, ReduceOp, Strategy, TFConfigClusterResolver, _mirrored,
                        _reduce_op)
from ._structure import flatten, pack
from ._trace import Trace, current, tensors
from ._variable import Variable, variable_list


def _task() -> Any:
    task = ffi.new("rf_cluster_task *")
    check(lib.rf_cluster_task_get(task))
    return task


@contextlib.contextmanager
def _interruptible() -> Iterator[None]:
    """Ctrl-C ends a task that serves others: Python would hear of it when the job has ended."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, signal.SIG_DFL)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


class Server:
    """A parameter server: the task of type "ps" that TF_CONFIG names."""

    def __init__(self, device: Union[None, str, PhysicalDevice] = None,
                 comm: Optional[Dict[str, Any]] = None) -> None:
        """The parameters are on `device`. `comm` has fields of rf_comm_params."""
        self._kept: List[Any] = []
        self._params = params("rf_parameter_server_params", self._kept)
        self._params.device = params("rf_one_device_params", self._kept,
                                     device=device_list(device))[0]
        self._params.comm = params("rf_comm_params", self._kept, **(comm or {}))[0]

    def join(self) -> None:
        """Serves until the chief ends the job."""
        with _interruptible():
            check(lib.rf_parameter_server_run(self._params))


class ParameterServerStrategy(Strategy):
    """The devices of a chief or of a worker, in a job whose variables are on parameter servers.
    TF_CONFIG says which task this is. A ClusterCoordinator schedules the training."""
    can_fit = False

    def __init__(self, cluster_resolver: Optional[TFConfigClusterResolver] = None,
                 devices: Devices = None, **settings: Any) -> None:
        task = _task()
        if task.role not in (lib.RF_ROLE_CHIEF, lib.RF_ROLE_WORKER):
            raise InvalidArgumentError(
                "ParameterServerStrategy() is for chief and workers, and TF_CONFIG names another "
                'task; a parameter server ("ps") calls rf.distribute.Server().join()')
        self.is_worker = task.role == lib.RF_ROLE_WORKER
        self.num_workers, self.num_servers = int(task.num_workers), int(task.num_servers)
        kept: List[Any] = []
        super().__init__(
            create(lib.rf_strategy_create_mirrored, "rf_strategy",
                   _mirrored(kept, devices, settings)))
        self.cluster_resolver = cluster_resolver or TFConfigClusterResolver()
        self._made: List[Any] = []  # weak references

    @property
    def is_chief(self) -> bool:
        return not self.is_worker

    def note(self, thing: Any) -> None:
        self._made.append(weakref.ref(thing))

    def made(self, kind: Any) -> List[Any]:
        """What has been made in the scope and is still there."""
        return [thing for thing in (of() for of in self._made) if isinstance(thing, kind)]

    def create_optimizer(self, settings: Any) -> Any:
        if not self.is_worker:
            return super().create_optimizer(settings)
        return create(lib.rf_optimizer_create_remote, "rf_optimizer", self.pointer)

    def run(self, fn: Callable[..., Any], args: Sequence[Any] = (),
            kwargs: Optional[Dict[str, Any]] = None, options: Any = None) -> Any:
        """As with other strategies; in a scheduled function it is what the function computes."""
        if isinstance(current(), _Scheduled):
            return fn(*args, **(kwargs or {}))
        return super().run(fn, args, kwargs, options)

    def reduce(self, reduce_op: Any, value: Any, axis: Optional[int] = None) -> Any:
        """As with other strategies; in a scheduled function, scalars alone."""
        if not isinstance(current(), _Scheduled):
            return super().reduce(reduce_op, value, axis)
        if axis is not None:
            raise TraceError("%s: reduce() in a scheduled function combines scalars: axis=None" %
                             where())
        if _reduce_op(reduce_op) is ReduceOp.MEAN:
            return value / float(self.num_replicas_in_sync)
        return value  # the library adds what replicas return


class _Scheduled(Trace):
    """The recording of a function that a coordinator schedules."""


class PerWorkerDataset:
    """A dataset of each worker. iter() gives what scheduled functions take batches from."""

    def __init__(self, dataset: Any, whole_data: bool) -> None:
        self.dataset, self.whole_data = dataset, whole_data

    def __iter__(self) -> "PerWorkerIterator":
        return PerWorkerIterator(self)


class PerWorkerIterator:
    """Gives a scheduled function its batch."""

    def __init__(self, source: PerWorkerDataset) -> None:
        self.source = source
        self.batch: Any = None

    def __iter__(self) -> "PerWorkerIterator":
        return self

    def __next__(self) -> Any:
        if self.batch is None:
            raise TraceError("%s: the batches of a per-worker dataset are on the workers; call "
                             "next() in a function that is scheduled" % where())
        return self.batch


class _Work(Handle):
    """A scheduled function on a worker."""

    def __init__(self, strategy: ParameterServerStrategy, name: str, function: Any, args: Any,
                 kwargs: Any, iterator: PerWorkerIterator) -> None:
        dataset = iterator.source.dataset
        spec = ffi.new("rf_element_spec *")
        lib.rf_dataset_spec(dataset.pointer, spec)
        count = int(spec.num_components)

        def step(t: Any, inputs: Any, out: Any, user: Any) -> Any:
            try:
                with _Scheduled(t, strategy) as trace:
                    iterator.batch = pack_element(dataset._structure,
                                                  list(tensors(trace, inputs, count)))
                    try:
                        made = function(*args, **kwargs)
                    finally:
                        iterator.batch = None
                    if made is None:
                        raise TraceError("%s() returns nothing; it has to return a scalar, such "
                                         "as the loss" % name)
                    out[0] = trace.take(made, "what %s() returns" % name)
                    return lib.rf_trace_status(t)
            except Exception as failure:  # whose text the chief sees
                said = str(failure) if isinstance(failure, Error) else repr(failure)
                return lib.rf_trace_fail(t, lib.RF_ERROR_INVALID_ARGUMENT, b"%s",
                                         ffi.new("char[]", said.encode()))

        called = callback("rf_step_fn", step)
        self.name = ffi.new("char[]", name.encode())
        settings = ffi.new("rf_function_params *", {
            "step": called, "name": self.name, "num_outputs": 1, "training": True})
        self.adopt(create(lib.rf_function_create, "rf_function", strategy.pointer, settings),
                   lib.rf_function_destroy, strategy, dataset)
        self.keep(called, self.name)
        self.iterator = iterator


class RemoteValue(Handle):
    """What a scheduled function will have returned."""

    def __init__(self, coordinator: "ClusterCoordinator", pointer: Any) -> None:
        self._coordinator = coordinator
        if pointer is not None:
            self.adopt(pointer, lib.rf_remote_value_destroy, coordinator)

    def fetch(self) -> float:
        """Waits for the value, added over replicas."""
        if self._core is None:
            self._coordinator.serve()
        out = ffi.new("float *")
        check(lib.rf_remote_value_fetch(self.pointer, out, 1))
        return float(out[0])

    get = fetch


class ClusterCoordinator(Handle):
    """Schedules functions on workers."""

    def __init__(self, strategy: ParameterServerStrategy, synchronous: bool = False,
                 max_ahead: int = 0, max_shard_bytes: int = 0, global_clipnorm: float = 0.0,
                 comm: Optional[Dict[str, Any]] = None) -> None:
        """Settings are those of rf_coordinator_params; with `global_clipnorm` workers limit the
        norm of the gradients that they push. `comm` has fields of rf_comm_params."""
        if not isinstance(strategy, ParameterServerStrategy):
            raise InvalidArgumentError("a ClusterCoordinator needs a ParameterServerStrategy, not "
                                       "%s" % type(strategy).__name__)
        self.strategy = strategy
        self._settings = dict(synchronous=synchronous, max_ahead=max_ahead,
                              max_shard_bytes=max_shard_bytes)
        self._clip, self._comm = global_clipnorm, comm or {}
        self._functions: Dict[str, Tuple[Any, Any, Any, PerWorkerIterator, bool]] = {}
        self._optimizer: Any = None

    # ---- data ----

    def create_per_worker_dataset(self, dataset_fn: Any,
                                  whole_data: bool = True) -> PerWorkerDataset:
        """The dataset that a function makes on each worker. With `whole_data` it is the same on
        all of them, and work number i has batch i, whoever does it. Otherwise each worker takes
        the batches of its own one after the other."""
        dataset = dataset_fn() if callable(dataset_fn) else dataset_fn
        if int(lib.rf_dataset_batch_size(dataset.pointer)) == 0:
            raise InvalidArgumentError("the dataset of create_per_worker_dataset() needs batch()")
        return PerWorkerDataset(dataset, whole_data)

    # ---- work ----

    def register(self, fn: Any, args: Sequence[Any] = (), kwargs: Optional[Dict[str, Any]] = None,
                 update: bool = True) -> str:
        """Tells workers of a function before their first join(); schedule() does it otherwise.
        `update` False: the function has no optimizer, as one that evaluates. Its name."""
        function = fn.python_function if isinstance(fn, Function) else fn
        name = str(getattr(function, "__name__", type(function).__name__))
        iterators = [a for a in (*args, *(kwargs or {}).values())
                     if isinstance(a, PerWorkerIterator)]
        if len(iterators) != 1:
            raise InvalidArgumentError("%s() has to have one argument that is an iterator over a "
                                       "per-worker dataset, and has %d" % (name, len(iterators)))
        known = self._functions.get(name)
        if known is not None and known[0] is not function:
            raise InvalidArgumentError("two functions that are scheduled have the name %s()" % name)
        if known is None:
            self._functions[name] = (function, tuple(args), dict(kwargs or {}), iterators[0],
                                     update)
        return name

    def schedule(self, fn: Any, args: Sequence[Any] = (),
                 kwargs: Optional[Dict[str, Any]] = None) -> RemoteValue:
        """Adds work for whichever worker is free, or for all of them in synchronous training. The
        function takes a batch from an iterator among its arguments, and returns a scalar."""
        name = self.register(fn, args, kwargs)
        if self.strategy.is_worker:
            return RemoteValue(self, None)
        out = ffi.new("rf_remote_value **")
        check(lib.rf_coordinator_schedule(self._started(), name.encode(), 0, 0, out))
        return RemoteValue(self, out[0])

    def join(self) -> None:
        """Waits until all scheduled work is done, and reads variables and optimizer back. On a
        worker: does the work, and ends the program with the job."""
        if self.strategy.is_worker:
            self.serve()
        pointer = self._started()
        check(lib.rf_coordinator_join(pointer))
        check(lib.rf_coordinator_read_variables(pointer))
        check(lib.rf_coordinator_read_optimizer(pointer))

    def done(self) -> bool:
        """Whether all scheduled work is done. False on a worker."""
        return not self.strategy.is_worker and bool(lib.rf_coordinator_done(self._started()))

    def fetch(self, val: Any) -> Any:
        """The numbers of remote values, in their structure."""
        leaves: List[Any] = []
        definition = flatten(val, lambda x: isinstance(x, RemoteValue), leaves)
        return pack(definition, iter([leaf.fetch() for leaf in leaves]))

    @property
    def stats(self) -> Dict[str, Any]:
        """The counts of rf_coordinator_stats."""
        out = ffi.new("rf_coordinator_stats *")
        lib.rf_coordinator_get_stats(self._started(), out)
        return {name: getattr(out, name) for name, _ in ffi.typeof("rf_coordinator_stats").fields
                if name != "reserved"}

    # ---- the library's objects ----

    def _variables(self) -> Tuple[Any, Any, List[Any]]:
        """Lists of the variables of the scope: those that optimizers update, and the others."""
        from .keras.models import Model
        found: List[Variable] = self.strategy.made(Variable)
        for model in self.strategy.made(Model):
            found += [*model.trainable_variables, *model.non_trainable_variables]
            if not model.built:
                raise InvalidArgumentError(
                    "model '%s' has no variables yet; give its first layer an input_shape, or call "
                    "build() before work is scheduled" % model.name)
        trainable, first = variable_list(v for v in found if v.trainable)
        others, second = variable_list(v for v in found if not v.trainable)
        return trainable[0], others[0], [trainable, first, others, second, found]

    def _started(self) -> Any:
        """The library's coordinator, made when it is first needed."""
        if self._core is None:
            from ._tape import Optimizer
            if self.strategy.is_worker:
                raise InvalidArgumentError("a worker has no coordinator: the chief has it")
            optimizers = self.strategy.made(Optimizer)
            if len(optimizers) != 1:
                raise InvalidArgumentError("servers run one optimizer; %d were made in the scope "
                                           "of the strategy" % len(optimizers))
            self._optimizer = optimizers[0]
            kept: List[Any] = []
            trainable, others, held = self._variables()
            settings = params("rf_coordinator_params", kept, variables=trainable,
                              state_variables=others, local_optimizer=self._optimizer.pointer,
                              **self._settings)
            settings.comm = params("rf_comm_params", kept, **self._comm)[0]
            self.adopt(create(lib.rf_coordinator_create, "rf_coordinator", settings),
                       lib.rf_coordinator_destroy, self.strategy)
            self.keep(kept, held)
        return self.pointer

    def serve(self) -> NoReturn:
        """On a worker: does what the chief schedules until the job ends, then ends the program."""
        if not self._functions:
            raise InvalidArgumentError("a worker has nothing to do: schedule work before the "
                                       "first join()")
        kept: List[Any] = []
        functions = ffi.new("rf_worker_function[]", len(self._functions))
        for made, (name, (fn, args, kwargs, iterator, update)) in zip(functions,
                                                                      self._functions.items()):
            work = _Work(self.strategy, name, fn, args, kwargs, iterator)
            kept.append(work)
            made.name, made.function, made.num_results = work.name, work.pointer, 1
            made.no_update = not update
            made.data = iterator.source.dataset.pointer
            made.whole_data = iterator.source.whole_data
        trainable, others, held = self._variables()
        settings = params("rf_worker_params", kept, strategy=self.strategy.pointer,
                          variables=trainable, state_variables=others, functions=functions,
                          num_functions=len(functions), global_clip_norm=self._clip)
        settings.comm = params("rf_comm_params", kept, **self._comm)[0]
        with _interruptible():
            check(lib.rf_worker_run(settings))
        del held
        raise SystemExit(0)
