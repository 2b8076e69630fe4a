# SPDX-License-Identifier: Apache-2.0
"""Input pipelines, as tf.data: a dataset describes elements, and iterating over it makes them.

An element is an array, or a tuple or dict of arrays. Iteration gives values that NumPy takes, whose
numpy() is an array of it. Each pass over a dataset is another epoch of its shuffles.

Functions in Python (:meth:`Dataset.map`, :meth:`Dataset.filter`, ...) are called for one element
at a time and hold Python's lock meanwhile: a call costs some 50 microseconds besides what the
function does, whatever the number of cores. Put ``cache()`` behind a function whose results are
the same in each epoch, and ``batch()`` before one that NumPy computes as well for whole batches.
"""

from __future__ import annotations

import os
from typing import Any, Callable, Dict, Iterable, Iterator as TypingIterator, List, Mapping
from typing import Optional, Sequence, Tuple, Union

import numpy as np

from ._arrays import array_in, array_out, as_dense, dtype as element_type, shape_in, shape_out
from ._elements import ARRAY, PAIR, ElementFunction, ElementGenerator, c_spec, components
from ._elements import flatten_element, inside_function, on_filter, on_flat_map, on_generate
from ._elements import on_map, on_random_map, pack_element, raise_failure, signature_of
from ._function import TensorSpec
from ._lib import Handle, check, create, ffi, lib, path_bytes, raised, take_raised, text
from ._parts import Columns as Columns, FixedLenFeature as FixedLenFeature
from ._parts import TarField as TarField, VarLenFeature as VarLenFeature
from ._parts import WindowPart as WindowPart, pack_params, tar_params
from ._parts import Paths as Paths, Strings as Strings, paths_of as paths_of
from ._parts import Path as Path, read_image as read_image, write_image as write_image
from ._values import Batch

AUTOTUNE = -1
"""Where a number of elements is wanted: the library's own choice."""
INFINITE_CARDINALITY = -1
"""The cardinality of a dataset that never ends."""
UNKNOWN_CARDINALITY = -2
"""The cardinality of a dataset that has to be read to be counted."""



class AutoShardPolicy:
    """The part of a dataset that each worker of a job reads."""

    AUTO = "auto"
    FILE = "by_file"
    DATA = "by_example"
    OFF = "off"


class _DistributeOptions:
    auto_shard_policy: str = AutoShardPolicy.AUTO


class Options:
    """Options of :meth:`Dataset.with_options`."""

    def __init__(self) -> None:
        self.experimental_distribute = _DistributeOptions()


def _distribute_policy(options: Optional[Options]) -> int:
    policy = options.experimental_distribute.auto_shard_policy if options else AutoShardPolicy.AUTO
    return int(getattr(lib, "RF_DISTRIBUTE_" + policy.upper()))


# ---- iterating ----

class Iterator(Handle):
    """One pass over a dataset."""

    def __init__(self, dataset: Dataset, pointer: Any) -> None:
        self._dataset = dataset
        self._batch = None
        self._out = ffi.new("rf_element **")
        structure = dataset._structure
        self._flat = isinstance(structure, tuple) and structure == (tuple, ) + (None, ) * (
            len(structure) - 1)
        self._ranks: Tuple[int, ...] = ()  # known with the first element
        self.adopt(pointer, lib.rf_iterator_destroy, dataset)

    def __iter__(self) -> Iterator:
        return self

    def next_element(self) -> Any:
        """The next element as the library's ``rf_element *``, or None at the end.

        It is valid until the next call, and costs no copy: for steps of a strategy.
        """
        if raised:
            take_raised()
        result = lib.rf_iterator_next(self.pointer, self._out)
        if result == 0:
            return self._out[0]
        raise_failure(result, self._dataset)
        return None

    def __next__(self) -> Any:
        # The devices' threads drive what a loop needs out of the caches. A step from Python takes
        # as long as it has code to fetch: few calls are made here, and on the way to run().
        batch = self._batch
        if batch is not None:
            if batch.used:
                batch.expired, batch.values = True, ()
            else:
                batch.expire()
            self._batch = None
        if raised:
            take_raised()
        result = lib.rf_iterator_next(self.pointer, self._out)
        if result != 0:
            raise_failure(result, self._dataset)
            raise StopIteration
        element = self._out[0]
        if not self._ranks:
            self._ranks = tuple(element.component[i].shape.rank
                                for i in range(element.num_components))
        self._batch = batch = Batch(element, self._ranks)
        return batch.values if self._flat else pack_element(self._dataset._structure, batch.values)

    _batch: Optional[Batch] = None

    def close(self) -> None:
        """Ends the pass. The last element stays valid: it gets memory of its own."""
        batch, self._batch = self._batch, None
        if batch is not None:
            batch.used = False
            batch.expire()
        super().close()

    def get_next(self) -> Any:
        """The next element."""
        return next(self)

    def save(self) -> bytes:
        """The position, for :meth:`Dataset.restore_iterator`."""
        state, size = ffi.new("void **"), ffi.new("size_t *")
        check(lib.rf_iterator_save(self.pointer, state, size))
        try:
            return bytes(ffi.buffer(state[0], size[0]))
        finally:
            lib.rf_iterator_state_free(state[0])


class Dataset(Handle):
    """A description of elements: a source, and the steps that are applied to it."""

    def __init__(self, pointer: Any, template: Any, keep: Sequence[Any] = (),
                 options: Optional[Options] = None) -> None:
        self._structure = template
        self._options = options
        self._epoch = 0
        self.adopt(pointer, lib.rf_dataset_destroy)
        self.keep(*keep)

    def _derive(self, function: Any, *arguments: Any, template: Any = ...,
                keep: Sequence[Any] = ()) -> Dataset:
        """The dataset of a C function of this one; what it refers to in Python is kept."""
        return Dataset(create(function, "rf_dataset", self.pointer, *arguments),
                       self._structure if template is ... else template,
                       [*self.core.kept, *keep], self._options)

    # -- sources --

    @staticmethod
    def from_tensor_slices(tensors: Any) -> Dataset:
        """Slices arrays along their first axis.

        Arrays of f32, f16, i32 and u8 in C order are used in place: do not change them as long as
        the dataset is used. Others are converted: f64 to f32, integers to i32.
        """
        definition, leaves = flatten_element(tensors)
        arrays = [array_in(leaf) for leaf in leaves]
        for _, array in arrays:
            if array.ndim == 0:
                raise ValueError("from_tensor_slices(): a scalar has no slices")
        items = ffi.new("rf_array[]", [item[0] for item, _ in arrays])
        # A function of a pipeline makes datasets that outlive their Python objects.
        params = ffi.new("rf_dataset_arrays_params *", {
            "arrays": items, "num_arrays": len(arrays),
            "borrow": not inside_function()})
        return _source(lib.rf_dataset_from_arrays, params, template=definition,
                       keep=[array for _, array in arrays])

    @staticmethod
    def from_tensors(tensors: Any) -> Dataset:
        """A dataset of one element."""
        definition, leaves = flatten_element(tensors)
        rows = [as_dense(leaf)[None] for leaf in leaves]
        return Dataset.from_tensor_slices(pack_element(definition, rows))

    @staticmethod
    def range(*args: int) -> Dataset:
        """The integers of Python's range() with the same arguments, i32."""
        return Dataset.from_tensor_slices(np.arange(*args, dtype=np.int32))

    @staticmethod
    def from_generator(generator: Callable[[], Iterable[Any]],
                       output_signature: Any = None) -> Dataset:
        """The elements that an iterable gives; ``generator`` makes a new one for each pass.

        Without an ``output_signature`` (a :class:`TensorSpec`, or a tuple or dict of them) the
        first element says what all are like, for which it is made once.
        """
        caller = ElementGenerator(generator)
        signature = output_signature
        if signature is None:
            try:
                signature = signature_of(next(iter(generator())))
            except StopIteration:
                raise ValueError("from_generator(): there is no first element; give an "
                                 "output_signature") from None
        params = ffi.new("rf_dataset_generator_params *")
        params.generate = on_generate
        params.user = caller.user
        params.spec = c_spec(signature)[0]
        return _source(lib.rf_dataset_from_generator, params,
                       template=flatten_element(signature)[0], keep=[caller])

    @staticmethod
    def windows(tokens: Any, length: int, step: int = 0) -> Dataset:
        """Windows of a long sequence, each with the sequence that is one further: (i32, i32).

        ``step`` is how far a window begins after the one before; 0: ``length``.
        """
        item, _ = array_in(tokens, element_type("int32"))
        return _source(lib.rf_dataset_from_tokens, item, length, step, template=PAIR)

    @staticmethod
    def zip(*datasets: Any) -> Dataset:
        """Elements of several datasets side by side, given one by one or as a tuple or dict."""
        inputs = datasets[0] if len(datasets) == 1 and not isinstance(datasets[0], Dataset) \
            else datasets
        if isinstance(inputs, dict):
            leaves = list(inputs.values())
            template: Any = (dict, tuple(inputs), tuple(d._structure for d in leaves))
        else:
            leaves = list(inputs)
            template = (tuple, *(d._structure for d in leaves))
        handles = ffi.new("rf_dataset *[]", [d.pointer for d in leaves])
        return Dataset(create(lib.rf_dataset_zip, "rf_dataset", handles, len(leaves)), template,
                       [kept for d in leaves for kept in d.core.kept], leaves[0]._options)

    @staticmethod
    def sample_from_datasets(datasets: Sequence[Dataset],
                             weights: Optional[Sequence[float]] = None, seed: int = 0,
                             stop_on_empty_dataset: bool = False) -> Dataset:
        """Elements of several datasets, of which one is drawn for each element, by weight.

        One that has ended is not drawn any more, or ends the pass. Each pass has other draws.
        """
        listed = list(datasets)
        if not listed:
            raise ValueError("sample_from_datasets(): no datasets")
        if weights is not None and len(weights) != len(listed):
            raise ValueError(f"sample_from_datasets(): {len(weights)} weights for {len(listed)} "
                             "datasets")
        handles = ffi.new("rf_dataset *[]", [d.pointer for d in listed])
        params = ffi.new("rf_sample_params *",
                         {"seed": seed, "stop_on_empty": stop_on_empty_dataset})
        shares = ffi.new("double[]", [1.0] * len(listed) if weights is None else list(weights))
        params.weights = shares
        return Dataset(create(lib.rf_dataset_sample, "rf_dataset", handles, len(listed), params),
                       listed[0]._structure, [kept for d in listed for kept in d.core.kept],
                       listed[0]._options)

    # -- transformations --

    def _pass(self, epoch: int) -> Iterator:
        return Iterator(self, create(lib.rf_iterator_create, "rf_iterator", self.pointer, epoch))

    def _infer(self, function: ElementFunction) -> Any:
        iterator = self._pass(0)  # which owns the element
        element = iterator.next_element()
        if element is None:
            raise ValueError(f"{function.name} cannot be tried: there is no element; give an "
                             "output_signature")
        return function.call(element)

    def map(self, map_func: Callable[..., Any], output_signature: Any = None) -> Dataset:
        """Applies a function of NumPy arrays to every element; it gets a tuple's parts one by one.

        Without an ``output_signature`` the function is tried once with the first element to see
        what it gives. It must be pure, and may be called by other threads than this one. Parts
        may be shorter than their signature where :meth:`padded_batch` follows. The module says
        what a call costs.
        """
        caller = ElementFunction(map_func, self._structure, "map")
        signature = signature_of(self._infer(caller)) if output_signature is None \
            else output_signature
        spec = c_spec(signature)
        return self._derive(lib.rf_dataset_map, on_map, caller.user, spec,
                            template=flatten_element(signature)[0], keep=[caller])

    def map_random(self, map_func: Callable[..., Any], seed: int = 0,
                   output_signature: Any = None) -> Dataset:
        """:meth:`map` with a function that draws: its first argument is a NumPy Generator.

        The numbers depend on the seed, the epoch and the place of the element alone.
        """
        caller = ElementFunction(map_func, self._structure, "map_random")
        if output_signature is None:
            drawing = ElementFunction(lambda *args: map_func(np.random.default_rng(seed), *args),
                                self._structure, "map_random")
            output_signature = signature_of(self._infer(drawing))
        spec = c_spec(output_signature)
        return self._derive(lib.rf_dataset_map_random, on_random_map, caller.user, seed, spec,
                            template=flatten_element(output_signature)[0], keep=[caller])

    def map_scale(self, index: int = 0) -> Dataset:
        """Array number ``index``, u8, becomes f32, divided by 255, without Python."""
        return self._derive(lib.rf_dataset_map_scale_u8, index)

    def map_one_hot(self, depth: int, index: int = 1) -> Dataset:
        """Array number ``index``, a class number, becomes an f32 one-hot vector, without Python."""
        return self._derive(lib.rf_dataset_map_one_hot, index, depth)

    def map_augment(self, index: int = 0, seed: int = 0, flip: bool = False, pad: int = 0,
                    mean: Sequence[float] = (), deviation: Sequence[float] = ()) -> Dataset:
        """Varies images, array number ``index``, without Python: they become f32.

        ``flip`` exchanges left and right one time in two; ``pad`` zeros are put around the image,
        from which its size is cut out at random; then (value - mean) / deviation by channel.
        """
        params = ffi.new("rf_augment_params *", {"flip": flip, "pad": pad})
        params.mean[0:len(mean)] = list(mean)
        params.deviation[0:len(deviation)] = list(deviation)
        return self._derive(lib.rf_dataset_map_augment, index, seed, params)

    def map_color_jitter(self, index: int = 0, seed: int = 0, brightness: float = 0,
                         contrast: float = 0, saturation: float = 0, hue: float = 0,
                         max_value: float = 1) -> Dataset:
        """Varies the colours of images, array number ``index``, which keeps its type.

        Brightness, contrast and saturation change by factors from 1 - x to 1 + x; ``hue`` turns
        the circle of colours by up to so much, at most 0.5. White is 255, or ``max_value`` in f32.
        """
        params = ffi.new("rf_color_jitter_params *", {
            "brightness": brightness, "contrast": contrast, "saturation": saturation, "hue": hue,
            "max_value": 0 if max_value == 1 else max_value})
        return self._derive(lib.rf_dataset_map_color_jitter, index, seed, params)

    def map_affine(self, index: int = 0, seed: int = 0, degrees: float = 0,
                   zoom: Tuple[float, float] = (1, 1), translate: Tuple[float, float] = (0, 0),
                   fill_mode: str = "constant", fill_value: float = 0,
                   interpolation: str = "bilinear") -> Dataset:
        """Turns, enlarges and moves images, array number ``index``, about their centre.

        ``zoom`` is the least and the greatest enlargement; ``translate`` are parts of height and
        width; ``fill_mode`` is "constant", "nearest", "reflect" or "wrap". Another array moves the
        same way with the same seed: a mask, with ``interpolation="nearest"``.
        """
        modes = ("constant", "nearest", "reflect", "wrap")
        kinds = ("bilinear", "nearest")
        for name, value, known in (("fill_mode", fill_mode, modes),
                                   ("interpolation", interpolation, kinds)):
            if value not in known:
                raise ValueError(f"{name}={value!r} is none of {', '.join(known)}")
        params = ffi.new("rf_affine_params *", {
            "degrees": degrees, "zoom": list(zoom), "translate": list(translate),
            "fill_mode": modes.index(fill_mode), "fill_value": fill_value,
            "nearest": interpolation == "nearest"})
        return self._derive(lib.rf_dataset_map_affine, index, seed, params)

    def map_erase(self, index: int = 0, seed: int = 0, probability: float = 0.5,
                  area: Tuple[float, float] = (0.02, 0.33),
                  ratio: Tuple[float, float] = (0.3, 3.3), value: float = 0) -> Dataset:
        """Erases a rectangle of images, array number ``index``: random erasing, or cutout.

        ``area`` is the least and the greatest part of the image, ``ratio`` height by width.
        """
        params = ffi.new("rf_erase_params *", {
            "probability": probability, "area": list(area), "ratio": list(ratio), "value": value})
        return self._derive(lib.rf_dataset_map_erase, index, seed, params)

    def mixup(self, alpha: float = 0.2, seed: int = 0) -> Dataset:
        """Mixes the examples of each batch in pairs; all arrays are f32, labels one-hot."""
        params = ffi.new("rf_mixup_params *", {"alpha": alpha})
        return self._derive(lib.rf_dataset_mixup, seed, params)

    def cutmix(self, index: int = 0, alpha: float = 1, seed: int = 0) -> Dataset:
        """Puts a rectangle of another image of the batch, array number ``index``, into each one.

        The other arrays are mixed by the part of the area that stays.
        """
        params = ffi.new("rf_mixup_params *", {"alpha": alpha})
        return self._derive(lib.rf_dataset_cutmix, index, seed, params)

    def table_windows(self, parts: Union[WindowPart, Sequence[WindowPart]],
                      stride: int = 1) -> Dataset:
        """Windows of rows that are in the order of time: a tuple of the ``parts``, or the one part.

        ``[WindowPart(0, length=24), WindowPart(1, offset=24)]`` are 24 rows of array 0, and array 1
        of the row that follows them. ``stride`` is how far a window begins after the one before.
        """
        listed = [parts] if isinstance(parts, WindowPart) else list(parts)
        items = ffi.new("rf_window_part[]", [{
            "component": part.index, "length": part.length or 0, "offset": part.offset,
            "sampling_rate": part.sampling_rate} for part in listed])
        params = ffi.new("rf_windows_params *",
                         {"parts": items, "num_parts": len(listed), "stride": stride})
        template = ARRAY if isinstance(parts, WindowPart) else (tuple, *([ARRAY] * len(listed)))
        return self._derive(lib.rf_dataset_windows, params, template=template)

    def moments(self, index: int = 0,
                axis: Optional[int] = -1) -> Tuple[np.ndarray, np.ndarray]:
        """Mean and variance of array number ``index`` in a pass: for each place along ``axis``,
        which counts the batch as 0, or of all numbers (None)."""
        params = ffi.new("rf_moments_params *",
                         {"component": index, "axis": axis or 0, "whole": axis is None})
        out = ffi.new("rf_array[2]")
        check(lib.rf_dataset_moments(self.pointer, params, out, out + 1))
        return array_out(out[0]), array_out(out[1])

    def filter(self, predicate: Callable[..., Any]) -> Dataset:
        """The elements for which a function gives true."""
        caller = ElementFunction(predicate, self._structure, "filter")
        return self._derive(lib.rf_dataset_filter, on_filter, caller.user,
            keep=[caller])

    def _flat(self, function: Any, map_func: Callable[..., Dataset], what: str,
              *params: Any) -> Dataset:
        caller = ElementFunction(map_func, self._structure, what)
        first = self._infer(caller)
        if not isinstance(first, Dataset):
            raise TypeError(f"{caller.name} gave {type(first).__name__}, not a Dataset")
        spec = ffi.new("rf_element_spec *")
        lib.rf_dataset_spec(first.pointer, spec)
        return self._derive(function, on_flat_map, caller.user, spec, *params,
                            template=first._structure, keep=[caller])

    def flat_map(self, map_func: Callable[..., Dataset]) -> Dataset:
        """The elements of the datasets that a function makes of each element, one by one."""
        return self._flat(lib.rf_dataset_flat_map, map_func, "flat_map")

    def interleave(self, map_func: Callable[..., Dataset], cycle_length: int,
                   block_length: int = 1) -> Dataset:
        """:meth:`flat_map` with ``cycle_length`` datasets that take turns."""
        params = ffi.new("rf_interleave_params *",
                         {"cycle_length": cycle_length, "block_length": block_length})
        return self._flat(lib.rf_dataset_interleave, map_func, "interleave", params)

    def ignore_errors(self, log_warning: bool = False) -> Dataset:
        """Leaves out the elements that cannot be made; see :attr:`ignored_errors`."""
        return self._derive(lib.rf_dataset_ignore_errors, log_warning)

    @property
    def ignored_errors(self) -> int:
        """How many elements :meth:`ignore_errors` has left out so far, and rows of tables."""
        return int(lib.rf_dataset_ignored_errors(self.pointer))

    @property
    def cut_elements(self) -> int:
        """How many elements the sources have cut so far: long chats, fields with ``truncate``."""
        return int(lib.rf_dataset_cut_elements(self.pointer))

    def cache(self) -> Dataset:
        """Keeps the elements in memory."""
        return self._derive(lib.rf_dataset_cache)

    def shuffle(self, buffer_size: int, seed: int = 0,
                reshuffle_each_iteration: bool = True) -> Dataset:
        """Shuffles through a buffer; one that holds all elements is a full shuffle."""
        return self._derive(lib.rf_dataset_shuffle, buffer_size, seed, reshuffle_each_iteration)

    def batch(self, batch_size: int, drop_remainder: bool = False) -> Dataset:
        """Groups elements along a new first axis."""
        return self._derive(lib.rf_dataset_batch, batch_size, drop_remainder)

    def padded_batch(self, batch_size: int, padded: Optional[Sequence[int]] = None,
                     padding_values: Union[float, Mapping[int, float]] = 0,
                     bucket_boundaries: Sequence[int] = (),
                     drop_remainder: bool = False) -> Dataset:
        """Batches of elements of unequal length, in buckets of ``bucket_boundaries``.

        ``padded`` are the numbers of the arrays whose length varies (all that have one, by
        default); ``padding_values`` is what follows their rows, one for all or by number.
        """
        spec = ffi.new("rf_element_spec *")
        lib.rf_dataset_spec(self.pointer, spec)
        if padded is None:
            padded = [i for i in range(spec.num_components) if spec.shape[i].rank > 0]
        params = ffi.new("rf_padded_batch_params *",
                         {"batch_size": batch_size, "drop_remainder": drop_remainder})
        for i in padded:
            params.padded[i] = True
            params.pad_value[i] = padding_values.get(i, 0) \
                if isinstance(padding_values, Mapping) else padding_values
        borders = ffi.new("uint32_t[]", list(bucket_boundaries))
        if bucket_boundaries:
            params.borders = borders
            params.num_borders = len(bucket_boundaries)
        return self._derive(lib.rf_dataset_padded_batch, params)

    def pack(self, length: int, padding_values: Union[float, Sequence[float]] = 0,
             num_open: int = 0, segments: bool = False) -> Dataset:
        """Several elements in each row of ``length`` steps: ((first array, positions), the others).

        Positions count the steps of each element from 0. ``padding_values`` fill the end of a row,
        one for all arrays or one for each. With ``segments`` they follow the positions: 1 for the
        steps of a row's first element, and so on, 0 behind the last one. Of (tokens, labels) come
        elements ((tokens, positions), labels), as ``fit()`` takes them.
        """
        spec = ffi.new("rf_element_spec *")
        lib.rf_dataset_spec(self.pointer, spec)
        params, template = pack_params(spec.num_components, length, padding_values, num_open,
                                       segments)
        return self._derive(lib.rf_dataset_pack, params, template=template)

    def unbatch(self) -> Dataset:
        """The rows of each element as elements."""
        return self._derive(lib.rf_dataset_unbatch)

    def concatenate(self, dataset: Dataset) -> Dataset:
        """The elements of this dataset, then those of another."""
        return self._derive(lib.rf_dataset_concatenate, dataset.pointer,
            keep=dataset.core.kept)

    def repeat(self, count: Optional[int] = None) -> Dataset:
        """``count`` passes; None or -1: without end."""
        if count == 0:
            return self.take(0)
        passes = 0 if count is None or count == -1 else count
        return self._derive(lib.rf_dataset_repeat, passes)

    def take(self, count: int) -> Dataset:
        """The first ``count`` elements; -1: all."""
        most = 2**63 - 1 if count == -1 else count
        return self._derive(lib.rf_dataset_take, most)

    def skip(self, count: int) -> Dataset:
        """The elements after the first ``count``; -1: none."""
        most = 2**63 - 1 if count == -1 else count
        return self._derive(lib.rf_dataset_skip, most)

    def shard(self, num_shards: int, index: int) -> Dataset:
        """Every ``num_shards``-th element, from element ``index`` on."""
        return self._derive(lib.rf_dataset_shard, num_shards, index)

    def split(self, first: Union[int, float], shuffle: bool = False,
              seed: int = 0) -> Tuple[Dataset, Dataset]:
        """Two parts without a common element; ``first`` is the number or the share of the first."""
        params = ffi.new("rf_split_params *", {"shuffle": shuffle, "seed": seed})
        if isinstance(first, float):
            params.fraction = first
        else:
            params.count = first
        rest = ffi.new("rf_dataset **")
        out = ffi.new("rf_dataset *[2]")
        check(lib.rf_dataset_split(self.pointer, params, out, out + 1))
        left, right = (Dataset(pointer, self._structure, self.core.kept, self._options)
                       for pointer in out)
        return left, right

    def prefetch(self, buffer_size: int = AUTOTUNE) -> Dataset:
        """Prepares elements in advance, in a thread."""
        size = 0 if buffer_size == AUTOTUNE else buffer_size
        return self._derive(lib.rf_dataset_prefetch, size)

    def parallel(self, num_threads: int = AUTOTUNE) -> Dataset:
        """:meth:`prefetch` with several threads, which make the next elements side by side.

        It is tf.data's ``num_parallel_calls`` for all steps below, and belongs last, behind
        ``batch()``. Images are decoded and varied by as many threads; functions in Python still
        run one at a time. AUTOTUNE: a thread for each processor, at most 16.
        """
        count = 0 if num_threads == AUTOTUNE else num_threads
        return self._derive(lib.rf_dataset_parallel, count)

    def apply(self, transformation: Callable[[Dataset], Dataset]) -> Dataset:
        """The dataset that a function makes of this one."""
        return transformation(self)

    def with_options(self, options: Options) -> Dataset:
        """The same dataset with options for how workers of a job read it."""
        same = self.skip(0)
        same._options = options
        return same

    def distributed(self, strategy: Any) -> Dataset:
        """The same batches, with the rows of each that this worker computes: for loops around
        strategy.run()."""
        params = ffi.new("rf_distribute_params *", {"policy": self.distribute_policy})
        return Dataset(create(lib.rf_strategy_distribute_dataset, "rf_dataset", strategy.pointer,
                              self.pointer, params), self._structure, self.core.kept, self._options)

    # -- facts --

    @property
    def element_spec(self) -> Any:
        """Shapes and types of an element: of a batch, the first dimension is the nominal size."""
        spec = ffi.new("rf_element_spec *")
        lib.rf_dataset_spec(self.pointer, spec)
        return pack_element(self._structure, [
            TensorSpec(shape_out(spec.shape[i]), element_type(spec.dtype[i]))
            for i in range(spec.num_components)])

    def cardinality(self) -> int:
        """The number of elements, INFINITE_CARDINALITY or UNKNOWN_CARDINALITY."""
        return int(lib.rf_dataset_cardinality(self.pointer))

    def __len__(self) -> int:
        count = self.cardinality()
        if count < 0:
            raise TypeError("the dataset is infinite" if count == INFINITE_CARDINALITY else
                            "the number of elements is unknown until they have been read")
        return count

    def __bool__(self) -> bool:
        return True

    @property
    def batch_size(self) -> int:
        """The size of the batches; 0 where elements are not batched."""
        return int(lib.rf_dataset_batch_size(self.pointer))

    @property
    def class_names(self) -> List[str]:
        """The classes of an image directory; empty for all other datasets."""
        names: List[str] = []
        while True:
            name = lib.rf_dataset_class_name(self.pointer, len(names))
            if name == ffi.NULL:
                return names
            names.append(text(name))

    @property
    def distribute_policy(self) -> int:
        """The library's ``rf_distribute_policy`` of the options."""
        return _distribute_policy(self._options)

    def __iter__(self) -> Iterator:
        self._epoch += 1
        return self._pass(self._epoch - 1)

    def as_numpy_iterator(self) -> TypingIterator[Any]:
        """A pass over the dataset whose elements are arrays of NumPy."""
        iterator = iter(self)
        while True:
            element = iterator.next_element()
            if element is None:
                return
            yield pack_element(self._structure, components(element))

    def restore_iterator(self, position: bytes) -> Iterator:
        """A pass that continues where another one of the same dataset was saved."""
        return Iterator(self, create(lib.rf_iterator_restore, "rf_iterator", self.pointer,
                                     position, len(position)))


def _source(function: Any, *arguments: Any, template: Any, keep: Sequence[Any] = ()) -> Dataset:
    return Dataset(create(function, "rf_dataset", *arguments), template, keep)


# ---- files ----

def tar(paths: Paths, fields: Dict[str, TarField], max_bytes: int = 0) -> Dataset:
    """The examples of tar archives, as WebDataset has them: dicts with the fields that are named.

    Files that share the name before its first point are an example. ``max_bytes`` is the most that
    a file may have; 0: 64 MiB.
    """
    params, _kept = tar_params(paths, fields, max_bytes)
    return _source(lib.rf_dataset_from_tar, params,
                   template=(dict, tuple(fields), (ARRAY, ) * len(fields)))


def csv(paths: Paths, components: Union[Columns, Sequence[Columns]], header: bool = True,
        separator: str = ",", fill_value: Optional[float] = None,
        skip_damaged: bool = False) -> Dataset:
    """The rows of CSV files, plain or gzipped.

    ``fill_value`` is that of empty fields, which are an error otherwise. ``skip_damaged`` leaves
    out rows with a mistake, and :attr:`Dataset.ignored_errors` counts them.
    """
    files = Strings(paths_of(paths))
    parts = [components] if isinstance(components, Columns) else list(components)
    items = ffi.new("rf_csv_component[]", len(parts))
    keep: List[Any] = []
    for item, part in zip(items, parts):
        item.dtype = element_type(part.dtype).code
        item.num_columns = len(part.columns)
        if all(isinstance(column, str) for column in part.columns):
            names = Strings([str(column) for column in part.columns])
            keep.append(names)
            item.names = names.pointer
        else:
            numbers = ffi.new("uint32_t[]", part.columns)
            keep.append(numbers)
            item.columns = numbers
        if part.shape is not None:
            item.shape = shape_in(part.shape)
    params = ffi.new("rf_csv_params *", {
        "paths": files.pointer, "num_paths": files.count, "num_components": len(parts),
        "components": items, "separator": separator.encode(), "header": header,
        "fill_empty": fill_value is not None, "fill_value": fill_value or 0.0,
        "skip_damaged": skip_damaged})
    template = ARRAY if isinstance(components, Columns) else (tuple, *([ARRAY] * len(parts)))
    return _source(lib.rf_dataset_from_csv, params, template=template)


def TextLineDataset(filenames: Paths, max_bytes: int = 4096, skip_empty: bool = False) -> Dataset:
    """The lines of text files as arrays of bytes, u8 [n]: ``bytes(line)`` is the text in UTF-8."""
    files = Strings(paths_of(filenames))
    params = ffi.new("rf_text_lines_params *", {
        "paths": files.pointer, "num_paths": files.count, "max_bytes": max_bytes,
        "skip_empty": skip_empty})
    return _source(lib.rf_dataset_from_text_lines, params, template=ARRAY)


def gettext(filenames: Paths, max_bytes: int = 4096) -> Dataset:
    """The messages of catalogues (.mo) with their translations: (msgid u8 [n], msgstr u8 [m])."""
    files = Strings(paths_of(filenames))
    params = ffi.new("rf_gettext_params *", {
        "paths": files.pointer, "num_paths": files.count, "max_bytes": max_bytes})
    return _source(lib.rf_dataset_from_gettext, params, template=PAIR)


def idx(images: Paths, labels: Paths) -> Dataset:
    """Pairs of IDX files in sequence: (image u8 [rows, columns, 1], label i32)."""
    pictures, classes = Strings(paths_of(images)), Strings(paths_of(labels))
    if pictures.count != classes.count:
        raise ValueError(f"idx(): {pictures.count} files of images, {classes.count} of labels")
    return _source(lib.rf_dataset_from_idx_files, pictures.pointer, classes.pointer,
                   pictures.count, template=PAIR)


def pairs_with_negatives(users: Any, items: Any, num_items: int, negatives: int, seed: int = 0,
                         others: Optional[Tuple[Any, Any]] = None) -> Dataset:
    """Who took what, and with each pair items that its user does not have: (user, item, label).

    The label is f32 [1], 1 or 0. ``negatives`` are drawn anew in each pass; ``others`` are pairs
    (users, items) that are no elements, but not drawn either.
    """
    kind = element_type("int32")
    given = [array_in(array, kind) for array in (users, items, *(others or ()))]
    params = ffi.new("rf_pairs_params *", {
        "users": given[0][0], "items": given[1][0], "num_items": num_items,
        "negatives": negatives, "seed": seed})
    if others is not None:
        params.other_users, params.other_items = given[2][0], given[3][0]
    return _source(lib.rf_dataset_from_pairs, params, template=(tuple, ARRAY, ARRAY, ARRAY))


def TFRecordDataset(filenames: Paths, features: Mapping[str, FixedLenFeature]) -> Dataset:
    """The records of TFRecord files, each a tf.train.Example: dicts of the features by name."""
    files = Strings(paths_of(filenames))
    names = Strings(list(features))
    items = ffi.new("rf_tfrecord_feature[]", len(features))
    keep: List[Any] = [names]
    for item, (i, feature) in zip(items, enumerate(features.values())):
        item.name = names.pointer[i]
        kind = element_type("int32" if feature.dtype == np.int64 else feature.dtype)
        item.dtype = kind.code
        item.shape = shape_in(feature.shape)
        item.image = feature.image
        item.variable = feature.variable
        if feature.default_value is not None:
            array, memory = array_in(feature.default_value, kind)
            keep += [array, memory]
            item.default_value = array
    params = ffi.new("rf_tfrecord_params *", {
        "paths": files.pointer, "num_paths": files.count, "num_features": len(features),
        "features": items})
    return _source(lib.rf_dataset_from_tfrecord, params,
                   template=(dict, tuple(features), (ARRAY,) * len(features)))


def image_directory(directory: Path,
                    image_size: Optional[Tuple[int, int]] = None, channels: int = 3) -> Dataset:
    """The images of a directory whose sub-directories are the classes: (image u8, label i32).

    Without an ``image_size`` all have to have the size of the first one.
    """
    path = ffi.new("char[]", path_bytes(directory))
    height, width = image_size or (0, 0)
    params = ffi.new("rf_image_directory_params *", {
        "directory": path, "height": height, "width": width, "channels": channels})
    return _source(lib.rf_dataset_from_image_directory, params, template=PAIR)


class experimental:
    """Names that tf.data has here."""

    AUTOTUNE = AUTOTUNE
    AutoShardPolicy = AutoShardPolicy
    INFINITE_CARDINALITY = INFINITE_CARDINALITY
    UNKNOWN_CARDINALITY = UNKNOWN_CARDINALITY
