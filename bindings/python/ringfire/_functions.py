# SPDX-License-Identifier: Apache-2.0
"""Operations of a step in the form that users of TensorFlow and NumPy know. Those whose arguments
are tensors and numbers only are in _ops.py."""
from __future__ import annotations

from typing import Any, List, Optional, Sequence, Tuple, Union

import numpy as np

from . import _arrays as arrays
from ._eager import operation
from ._lib import InvalidArgumentError, TraceError, enum, ffi, lib, params, where
from ._ops import matmul as _matmul
from ._trace import Tensor, TensorLike, Trace, current, handles, optional, tensors, trace_of
from ._values import Value

Axis = Union[None, int, Sequence[int]]
Pair = Union[int, Sequence[int]]
_END = 2**63 - 1

# ---- types and shapes ----


def cast(x: TensorLike, dtype: Any) -> Any:
    """Converts the element type. Arrays outside of steps are converted by NumPy, without a device:
    functions over datasets begin with it."""
    kind = arrays.dtype(dtype)
    if current() is None and kind.numpy is not None:
        return Value(np.asarray(x).astype(kind.numpy))
    return _cast(x, kind)


@operation
def _cast(x: TensorLike, kind: arrays.DType) -> Tensor:
    t = trace_of("cast", x)
    return t.made(lib.rf_cast(t.pointer, t.take(x, "x"), kind.code))


@operation
def reshape(x: TensorLike, shape: arrays.ShapeLike) -> Tensor:
    """The same elements in another shape, one dimension of which may be -1: that of the batch, for
    example."""
    t = trace_of("reshape", x)
    return t.made(lib.rf_reshape(t.pointer, t.take(x, "x"), arrays.shape_in(shape)))


@operation
def transpose(x: TensorLike, perm: Optional[Sequence[int]] = None) -> Tensor:
    """Permutes dimensions: dimension i of the result is dimension perm[i] of x; without `perm` they
    are reversed."""
    t = trace_of("transpose", x)
    x = _tensor(t, x, "x")
    order = list(reversed(range(x.ndim))) if perm is None else [p % x.ndim for p in perm]
    if sorted(order) != list(range(x.ndim)):
        raise InvalidArgumentError("%s: transpose: perm=%r does not permute %d dimensions" %
                                   (where(), perm, x.ndim))
    return t.made(lib.rf_transpose(t.pointer, x.handle, arrays.ints("int32_t", order)))


@operation
def expand_dims(x: TensorLike, axis: int) -> Tensor:
    """x with a dimension of 1 more, which is number `axis` of the result."""
    t = trace_of("expand_dims", x)
    return t.made(lib.rf_expand_dims(t.pointer, t.take(x, "x"), axis))


@operation
def squeeze(x: TensorLike, axis: Axis = None) -> Tensor:
    """x without the dimensions `axis`, each of which must be 1; without `axis`, without all that
    are 1 but for the first."""
    t = trace_of("squeeze", x)
    x = _tensor(t, x, "x")
    if axis is None:
        axes = [i for i, dim in enumerate(x.shape) if i > 0 and dim == 1]
    else:
        axes = [a % max(x.ndim, 1) for a in ([axis] if isinstance(axis, int) else axis)]
    for a in sorted(axes, reverse=True):
        x = t.made(lib.rf_squeeze(t.pointer, x.handle, a))
    return x


def item(x: Tensor, key: Any) -> Tensor:
    """x[key], as NumPy has it, of numbers, slices, ... and None; a tensor of i32 takes rows."""
    t = x.trace
    if isinstance(key, Tensor):
        return t.made(lib.rf_gather(t.pointer, x.handle, key.handle, 0))
    keys = list(key) if isinstance(key, tuple) else [key]
    if sum(k is Ellipsis for k in keys) > 1:
        raise IndexError("%s: a tensor's index can have one ... only" % where())
    if not any(k is Ellipsis for k in keys):
        keys.append(Ellipsis)
    taken = sum(k is not None and k is not Ellipsis for k in keys)
    if taken > x.ndim:
        raise IndexError("%s: %d indices for a tensor of shape %r" % (where(), taken, x.shape))
    at = next(i for i, k in enumerate(keys) if k is Ellipsis)
    keys[at:at + 1] = [slice(None)] * (x.ndim - taken)
    ranges = [k for k in keys if k is not None]
    x = _ranges(t, x, ranges)
    axis = 0
    for k in keys:
        if k is None:
            x = t.made(lib.rf_expand_dims(t.pointer, x.handle, axis))
        elif not isinstance(k, slice):
            x = t.made(lib.rf_squeeze(t.pointer, x.handle, axis))
            continue
        axis += 1
    return x


def _ranges(t: Trace, x: Tensor, ranges: List[Any]) -> Tensor:
    begin, end, step = [], [], []
    for k in ranges:
        if isinstance(k, slice):
            s = 1 if k.step is None else int(k.step)
            begin.append((0 if s > 0 else _END) if k.start is None else int(k.start))
            end.append((_END if s > 0 else -_END - 1) if k.stop is None else int(k.stop))
            step.append(s)
        elif isinstance(k, (int, np.integer)):
            begin.append(int(k))
            end.append(_END if k == -1 else int(k) + 1)
            step.append(1)
        else:
            raise TraceError(
                "%s: a tensor cannot be indexed by %s while its step is traced; use numbers, "
                "slices, rf.gather() or rf.where()" % (where(), type(k).__name__))
    used = [i for i in range(len(ranges)) if (begin[i], end[i], step[i]) != (0, _END, 1)]
    if not used:
        return x
    n = used[-1] + 1
    return t.made(
        lib.rf_slice(t.pointer, x.handle, arrays.ints("int64_t", begin[:n]),
                     arrays.ints("int64_t", end[:n]), arrays.ints("int64_t", step[:n]), n))


@operation
def concat(values: Sequence[TensorLike], axis: int) -> Tensor:
    """Joins tensors along an axis."""
    t = trace_of("concat", *values)
    return t.made(lib.rf_concat(t.pointer, handles(t, values, "values"), len(values), axis))


@operation
def stack(values: Sequence[TensorLike], axis: int = 0) -> Tensor:
    """Joins tensors of one shape along a new axis."""
    t = trace_of("stack", *values)
    return t.made(lib.rf_stack(t.pointer, handles(t, values, "values"), len(values), axis))


@operation
def split(x: TensorLike, num_or_size_splits: Union[int, Sequence[int]],
          axis: int = 0) -> List[Tensor]:
    """Splits a tensor along an axis: into so many equal parts, or into parts of these sizes."""
    t = trace_of("split", x)
    x = _tensor(t, x, "x")
    if isinstance(num_or_size_splits, int):
        out = ffi.new("rf_tensor[]", max(num_or_size_splits, 1))
        t.check(lib.rf_split_tensor(t.pointer, x.handle, axis, num_or_size_splits, out))
        return tensors(t, out, num_or_size_splits)
    parts, at = [], 0
    for size in num_or_size_splits:
        parts.append(item(x, (slice(None), ) * (axis % x.ndim) + (slice(at, at + size), )))
        at += size
    return parts


@operation
def tile(x: TensorLike, multiples: Sequence[int]) -> Tensor:
    """multiples[i] copies of x one after the other along axis i."""
    t = trace_of("tile", x)
    return t.made(
        lib.rf_tile(t.pointer, t.take(x, "x"), arrays.ints("int64_t", multiples), len(multiples)))


@operation
def pad(x: TensorLike, paddings: Sequence[Sequence[int]], constant_values: float = 0.0) -> Tensor:
    """x with paddings[i] = (before, after) elements more along axis i."""
    t = trace_of("pad", x)
    return t.made(
        lib.rf_pad(t.pointer, t.take(x, "x"), arrays.ints("int64_t", [p[0] for p in paddings]),
                   arrays.ints("int64_t", [p[1] for p in paddings]), len(paddings),
                   constant_values))


@operation
def slice_update(x: TensorLike, updates: TensorLike, start: TensorLike, axis: int) -> Tensor:
    """x with `updates` in the place of the elements start, start + 1, ... along `axis`; `start` is
    i32 of one element."""
    t = trace_of("slice_update", x)
    return t.made(
        lib.rf_slice_update(t.pointer, t.take(x, "x"), t.take(updates, "updates"),
                            t.take(start, "start"), axis))


# ---- reductions ----


@operation
def add_n(inputs: Sequence[TensorLike]) -> Tensor:
    """The sum of several tensors."""
    t = trace_of("add_n", *inputs)
    total = _tensor(t, inputs[0], "inputs")
    for other in inputs[1:]:
        total = total + other
    return total


def _reduced_dims(keepdims: bool) -> int:
    return lib.RF_KEEP_DIMS if keepdims else lib.RF_DROP_DIMS


def _reduce(name: str, function: Any, x: TensorLike, axis: Axis, keepdims: bool) -> Tensor:
    t = trace_of(name, x)
    axes = [] if axis is None else [axis] if isinstance(axis, int) else list(axis)
    if axis is not None and not axes:
        return _tensor(t, x, "x")
    return t.made(
        function(t.pointer, t.take(x, "x"), arrays.ints("int32_t", axes), len(axes),
                 _reduced_dims(keepdims)))


@operation
def reduce_sum(x: TensorLike, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """Sum over the axes, all by default."""
    return _reduce("reduce_sum", lib.rf_reduce_sum, x, axis, keepdims)


@operation
def reduce_mean(x: TensorLike, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """Mean over the axes, of the elements that this replica has: over the batch this is not the
    mean over all replicas; see rf.nn.compute_average_loss()."""
    return _reduce("reduce_mean", lib.rf_reduce_mean, x, axis, keepdims)


@operation
def reduce_max(x: TensorLike, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """Maximum over the axes, all by default."""
    return _reduce("reduce_max", lib.rf_reduce_max, x, axis, keepdims)


@operation
def reduce_min(x: TensorLike, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """Minimum over the axes, all by default."""
    return _reduce("reduce_min", lib.rf_reduce_min, x, axis, keepdims)


@operation
def moments(x: TensorLike, axes: Axis, keepdims: bool = False) -> Tuple[Tensor, Tensor]:
    """Mean and variance over the axes, of the elements that this replica has."""
    t = trace_of("moments", x)
    listed = [] if axes is None else [axes] if isinstance(axes, int) else list(axes)
    out = ffi.new("rf_tensor[2]")
    t.check(
        lib.rf_moments(t.pointer, t.take(x, "x"), arrays.ints("int32_t", listed), len(listed),
                       _reduced_dims(keepdims), out, out + 1))
    first, second = tensors(t, out, 2)
    return first, second


def _along_last(t: Trace, x: Tensor, axis: int, function: Any, drops: bool) -> Tensor:
    """A function of the last axis along another one."""
    last = x.ndim - 1
    axis %= max(x.ndim, 1)
    if axis == last:
        return function(x)
    order = [i for i in range(x.ndim) if i != axis] + [axis]
    made = function(transpose(x, order))
    return made if drops else transpose(made, [order.index(i) for i in range(x.ndim)])


@operation
def argmax(x: TensorLike, axis: int) -> Tensor:
    """Index (i32) of the first maximum along an axis."""
    t = trace_of("argmax", x)
    return _along_last(t, _tensor(t, x, "x"), axis, lambda y: t.made(
        lib.rf_argmax(t.pointer, y.handle)), True)


@operation
def argmin(x: TensorLike, axis: int) -> Tensor:
    """Index (i32) of the first minimum along an axis."""
    t = trace_of("argmin", x)
    return _along_last(t, _tensor(t, x, "x"), axis, lambda y: t.made(
        lib.rf_argmin(t.pointer, y.handle)), True)


def _scan_form(exclusive: bool, reverse: bool) -> int:
    if reverse:
        return lib.RF_SCAN_EXCLUSIVE_REVERSE if exclusive else lib.RF_SCAN_INCLUSIVE_REVERSE
    return lib.RF_SCAN_EXCLUSIVE if exclusive else lib.RF_SCAN_INCLUSIVE


@operation
def cumsum(x: TensorLike, axis: int, exclusive: bool = False, reverse: bool = False) -> Tensor:
    """Cumulative sums along an axis."""
    t = trace_of("cumsum", x)
    return _along_last(t, _tensor(t, x, "x"), axis, lambda y: t.made(
        lib.rf_cumsum(t.pointer, y.handle, _scan_form(exclusive, reverse))), False)


@operation
def cumprod(x: TensorLike, axis: int, exclusive: bool = False, reverse: bool = False) -> Tensor:
    """Cumulative products along an axis."""
    t = trace_of("cumprod", x)
    return _along_last(t, _tensor(t, x, "x"), axis, lambda y: t.made(
        lib.rf_cumprod(t.pointer, y.handle, _scan_form(exclusive, reverse))), False)


@operation
def sort(x: TensorLike, axis: int = -1, direction: str = "ASCENDING") -> Tensor:
    """Sorts along an axis, "ASCENDING" or "DESCENDING"; NaN comes last."""
    t = trace_of("sort", x)
    return t.made(lib.rf_sort(t.pointer, t.take(x, "x"), axis, _order(direction)))


@operation
def argsort(x: TensorLike, axis: int = -1, direction: str = "ASCENDING") -> Tensor:
    """Where the elements of sort() were along the axis: i32."""
    t = trace_of("argsort", x)
    return t.made(lib.rf_argsort(t.pointer, t.take(x, "x"), axis, _order(direction)))


def _order(direction: str) -> int:
    if direction not in ("ASCENDING", "DESCENDING"):
        raise InvalidArgumentError('direction=%r is neither "ASCENDING" nor "DESCENDING"' %
                                   (direction, ))
    return lib.RF_DESCENDING if direction == "DESCENDING" else lib.RF_ASCENDING


@operation
def top_k(x: TensorLike, k: int = 1) -> Tuple[Tensor, Tensor]:
    """The k largest elements along the last axis, the largest first, and where they are (i32)."""
    t = trace_of("top_k", x)
    out = ffi.new("rf_tensor[2]")
    t.check(lib.rf_top_k(t.pointer, t.take(x, "x"), k, out, out + 1))
    first, second = tensors(t, out, 2)
    return first, second


@operation
def softmax(x: TensorLike, axis: int = -1) -> Tensor:
    """Softmax along an axis."""
    t = trace_of("softmax", x)
    return _along_last(t, _tensor(t, x, "x"), axis, lambda y: t.made(
        lib.rf_softmax(t.pointer, y.handle)), False)


@operation
def log_softmax(x: TensorLike, axis: int = -1) -> Tensor:
    """Logarithm of the softmax along an axis."""
    t = trace_of("log_softmax", x)
    return _along_last(t, _tensor(t, x, "x"), axis, lambda y: t.made(
        lib.rf_log_softmax(t.pointer, y.handle)), False)


# ---- products ----


@operation
def einsum(equation: str, *operands: TensorLike) -> Tensor:
    """Einstein's sum convention, as NumPy's einsum: "bthd,bshd->bhts"."""
    t = trace_of("einsum", *operands)
    return t.made(
        lib.rf_einsum(t.pointer, equation.encode(), handles(t, operands, "operands"),
                      len(operands)))


@operation
def matrix_product(a: TensorLike, b: TensorLike) -> Tensor:
    """a @ b, as NumPy has it: vectors count as a row on the left and as a column on the right."""
    t = trace_of("matmul", a, b)
    a, b = _tensor(t, a, "a"), _tensor(t, b, "b")
    row, column = a.ndim == 1, b.ndim == 1
    made = _matmul(expand_dims(a, 0) if row else a, expand_dims(b, 1) if column else b)
    if row:
        made = squeeze(made, made.ndim - 2)
    return squeeze(made, made.ndim - 1) if column else made


def _pair(value: Pair) -> List[int]:
    return [value, value] if isinstance(value, int) else [int(v) for v in value]


def _padding(padding: Any) -> Tuple[Any, List[int]]:
    """ "VALID", "SAME", or ((top, bottom), (left, right))."""
    if isinstance(padding, str):
        return enum("rf_padding", padding), [0, 0, 0, 0]
    (top, bottom), (left, right) = padding
    return lib.RF_PADDING_EXPLICIT, [top, bottom, left, right]


def _convolution(strides: Pair, padding: Any, dilations: Pair, groups: int, kept: List[Any]) -> Any:
    kind, explicit = _padding(padding)
    return params("rf_conv2d_params", kept, padding=kind, stride=_pair(strides),
                  dilation=_pair(dilations), groups=groups, explicit_padding=explicit)


@operation
def conv2d(x: TensorLike, kernel: TensorLike, strides: Pair = 1, padding: Any = "VALID",
           dilations: Pair = 1, groups: int = 1) -> Tensor:
    """x [n, h, w, cin], kernel [kh, kw, cin / groups, cout] -> [n, oh, ow, cout].
    `padding` is "VALID", "SAME" or ((top, bottom), (left, right))."""
    t = trace_of("conv2d", x, kernel)
    settings = _convolution(strides, padding, dilations, groups, t.kept)
    return t.made(lib.rf_conv2d(t.pointer, t.take(x, "x"), t.take(kernel, "kernel"), settings))


@operation
def conv2d_transpose(x: TensorLike, kernel: TensorLike, strides: Pair = 1, padding: Any = "VALID",
                     dilations: Pair = 1, groups: int = 1) -> Tensor:
    """Transposed convolution, which enlarges images: x [n, h, w, cin], kernel
    [kh, kw, cout / groups, cin] -> [n, oh, ow, cout]."""
    t = trace_of("conv2d_transpose", x, kernel)
    settings = _convolution(strides, padding, dilations, groups, t.kept)
    return t.made(
        lib.rf_conv2d_transpose(t.pointer, t.take(x, "x"), t.take(kernel, "kernel"), settings))


def _pool(name: str, function: Any, x: TensorLike, ksize: Pair, strides: Optional[Pair],
          padding: Any) -> Tensor:
    t = trace_of(name, x)
    kind, explicit = _padding(padding)
    settings = params("rf_pool2d_params", t.kept, window=_pair(ksize),
                      stride=_pair(ksize if strides is None else strides), padding=kind,
                      explicit_padding=explicit)
    return t.made(function(t.pointer, t.take(x, "x"), settings))


@operation
def max_pool2d(x: TensorLike, ksize: Pair = 2, strides: Optional[Pair] = None,
               padding: Any = "VALID") -> Tensor:
    """Maximum over windows: [n, h, w, c] -> [n, oh, ow, c]."""
    return _pool("max_pool2d", lib.rf_max_pool2d, x, ksize, strides, padding)


@operation
def avg_pool2d(x: TensorLike, ksize: Pair = 2, strides: Optional[Pair] = None,
               padding: Any = "VALID") -> Tensor:
    """Mean over windows, padding excluded: [n, h, w, c] -> [n, oh, ow, c]."""
    return _pool("avg_pool2d", lib.rf_avg_pool2d, x, ksize, strides, padding)


@operation
def upsample2d(x: TensorLike, factor: Pair = 2, interpolation: str = "nearest") -> Tensor:
    """Enlarges images by whole factors, "nearest" or "bilinear"."""
    t = trace_of("upsample2d", x)
    return t.made(
        lib.rf_upsample2d(t.pointer, t.take(x, "x"), arrays.ints("int32_t", _pair(factor)),
                          enum("rf_interpolation", interpolation)))


@operation
def resize2d(x: TensorLike, size: Pair, method: str = "bilinear", coordinates: str = "half_pixel",
             rounding: str = "half_down", cubic: float = 0.0, skip_outside: bool = False) -> Tensor:
    """Images of another size, "nearest", "bilinear" or "bicubic"; nothing is smoothed where they
    become smaller. `coordinates` are "half_pixel", "align_corners" or "asymmetric", `rounding` of
    the nearest pixel "half_down", "half_up", "down" or "up"."""
    t = trace_of("resize2d", x)
    settings = params("rf_resize2d_params", t.kept, size=_pair(size),
                      method=enum("rf_resize_method", method),
                      coordinates=enum("rf_resize_coordinates", coordinates),
                      rounding=enum("rf_resize_rounding", rounding), cubic=cubic,
                      skip_outside=skip_outside)
    return t.made(lib.rf_resize2d(t.pointer, t.take(x, "x"), settings))


@operation
def depth_to_space(x: TensorLike, block_size: int, order: str = "inner") -> Tensor:
    """[n, h, w, c * block * block] -> [n, h * block, w * block, c]; the channels of a pixel are the
    "inner" ones, as in TensorFlow, or the "outer" ones, as in PyTorch's PixelShuffle."""
    t = trace_of("depth_to_space", x)
    return t.made(
        lib.rf_depth_to_space(t.pointer, t.take(x, "x"), block_size, enum("rf_block_order", order)))


@operation
def space_to_depth(x: TensorLike, block_size: int, order: str = "inner") -> Tensor:
    """The reverse of depth_to_space()."""
    t = trace_of("space_to_depth", x)
    return t.made(
        lib.rf_space_to_depth(t.pointer, t.take(x, "x"), block_size, enum("rf_block_order", order)))


# ---- normalization and attention ----


@operation
def layer_norm(x: TensorLike, gamma: Optional[TensorLike] = None, beta: Optional[TensorLike] = None,
               epsilon: float = 1e-3) -> Tensor:
    """Layer normalization: of each row by itself."""
    t = trace_of("layer_norm", x)
    return t.made(
        lib.rf_layer_norm(t.pointer, t.take(x, "x"), optional(t, gamma, "gamma"),
                          optional(t, beta, "beta"), epsilon))


@operation
def rms_norm(x: TensorLike, gamma: Optional[TensorLike] = None, epsilon: float = 1e-6) -> Tensor:
    """Root mean square normalization: x / sqrt(mean of squares + epsilon) * gamma."""
    t = trace_of("rms_norm", x)
    return t.made(lib.rf_rms_norm(t.pointer, t.take(x, "x"), optional(t, gamma, "gamma"), epsilon))


@operation
def group_norm(x: TensorLike, gamma: Optional[TensorLike] = None, beta: Optional[TensorLike] = None,
               groups: int = 32, axis: int = -1, epsilon: float = 1e-3) -> Tensor:
    """Group normalization: of the channels in `groups` of consecutive ones, -1 for as many as there
    are channels."""
    t = trace_of("group_norm", x)
    return t.made(
        lib.rf_group_norm(t.pointer, t.take(x, "x"), optional(t, gamma, "gamma"),
                          optional(t, beta, "beta"), groups, axis, epsilon))


@operation
def attention(query: TensorLike, key: TensorLike, value: TensorLike,
              mask: Optional[TensorLike] = None, causal: bool = False, scale: float = 0.0,
              dropout: float = 0.0, form: str = "auto",
              first_query: Optional[TensorLike] = None) -> Tensor:
    """Scaled dot-product attention: query [n, heads, t, k], key [n, heads, s, k], value
    [n, heads, s, v] -> [n, heads, t, v]. `mask` is 0 where a query does not attend to a key;
    `scale` 0 means 1 / sqrt(k)."""
    t = trace_of("attention", query, key, value)
    settings = params("rf_attention_params", t.kept, causal=causal, scale=scale, dropout=dropout,
                      form=enum("rf_attention_form", form))
    if mask is not None:
        settings.mask = t.take(mask, "mask")
    if first_query is not None:
        settings.first_query = t.take(first_query, "first_query")
    return t.made(
        lib.rf_attention(t.pointer, t.take(query, "query"), t.take(key, "key"),
                         t.take(value, "value"), settings))


# ---- losses of examples ----


@operation
def softmax_cross_entropy_with_logits(labels: TensorLike, logits: TensorLike) -> Tensor:
    """Losses [n...] of logits [n..., c] for labels [n..., c] that are probabilities."""
    t = trace_of("softmax_cross_entropy_with_logits", labels, logits)
    return t.made(
        lib.rf_categorical_crossentropy(t.pointer, t.take(labels, "labels"),
                                        t.take(logits, "logits"), lib.RF_LOGITS))


@operation
def sparse_softmax_cross_entropy_with_logits(labels: TensorLike, logits: TensorLike) -> Tensor:
    """Losses [n...] of logits [n..., c] for labels i32 [n...] that are class numbers."""
    t = trace_of("sparse_softmax_cross_entropy_with_logits", labels, logits)
    return t.made(
        lib.rf_sparse_categorical_crossentropy(t.pointer, t.take(labels, "labels"),
                                               t.take(logits, "logits"), lib.RF_LOGITS))


@operation
def ctc_loss(labels: TensorLike, predictions: TensorLike, blank: int = 0, from_logits: bool = True,
             input_lengths: Optional[TensorLike] = None,
             label_lengths: Optional[TensorLike] = None, zero_infinity: bool = False) -> Tensor:
    """Losses [n] of connectionist temporal classification: labels i32 [n, s], of which a negative
    one ends those of its example, and predictions [n, steps, classes]. Labels that cannot be spelt
    have an infinite loss, or 0 with `zero_infinity`."""
    t = trace_of("ctc_loss", labels, predictions)
    settings = params("rf_ctc_params", t.kept, blank=blank, zero_infinity=zero_infinity,
                      input_lengths=optional(t, input_lengths, "input_lengths"),
                      label_lengths=optional(t, label_lengths, "label_lengths"))
    return t.made(lib.rf_ctc_loss(t.pointer, t.take(labels, "labels"),
                                  t.take(predictions, "predictions"),
                                  lib.RF_LOGITS if from_logits else lib.RF_PROBABILITIES, settings))


@operation
def compute_average_loss(per_example_loss: TensorLike, sample_weight: Optional[TensorLike] = None,
                         global_batch_size: Optional[int] = None) -> Tensor:
    """Sum of all losses, divided by the global batch size: the loss whose gradients may be summed
    over replicas. Without a size, by the number of examples of the step, over all replicas."""
    t = trace_of("compute_average_loss", per_example_loss)
    if isinstance(per_example_loss, Tensor) and per_example_loss.ndim == 0:
        raise InvalidArgumentError(
            "%s: compute_average_loss() takes the losses of examples, not their sum or mean; give "
            'the loss reduction="none"' % where())
    settings = params("rf_average_loss_params", t.kept, global_batch_size=global_batch_size or 0)
    if sample_weight is not None:
        settings.sample_weight = t.take(sample_weight, "sample_weight")
    return t.made(
        lib.rf_compute_average_loss(t.pointer, t.take(per_example_loss, "per_example_loss"),
                                    settings))


@operation
def compute_weighted_loss(per_example_loss: TensorLike, sample_weight: TensorLike) -> Tensor:
    """The mean of losses by their weights, such as a mask: divided by the weights of all replicas.
    """
    t = trace_of("compute_weighted_loss", per_example_loss)
    return t.made(
        lib.rf_compute_weighted_loss(t.pointer, t.take(per_example_loss, "per_example_loss"),
                                     t.take(sample_weight, "sample_weight")))


@operation
def scale_regularization_loss(loss: TensorLike) -> Tensor:
    """A regularization loss, divided by the number of replicas that have examples in this step."""
    t = trace_of("scale_regularization_loss", loss)
    return t.made(lib.rf_scale_regularization_loss(t.pointer, t.take(loss, "loss")))


def _tensor(t: Trace, x: TensorLike, argument: str) -> Tensor:
    return x if isinstance(x, Tensor) and x.trace is t else Tensor(t, t.take(x, argument))
