# SPDX-License-Identifier: Apache-2.0
"""The library's operations in PyTorch, in double precision, and how far a correct result in single
precision may be from them (error_model.py)."""
import math

import numpy
import torch

from error_model import (BF16, Ctc, EXPLICIT, Edge, Errors, F16, F32, FACTOR, FromResult, Gelu, I32,
                         LOG_NEAR_ONE, NORMAL_CDF, Power, ROUNDED, ROUNDOFF, Rounded, SAMPLES, Sums,
                         TINY, U8, VALID)

# ---- operations: what(errors, operands, numbers); operands have been on an edge ----

def broadcast(function):
    """Of two operands. A repeated operand's gradient is a sum."""

    def op(errors, operands, numbers):
        shape = torch.broadcast_shapes(*[x.shape for x in operands])
        return function(*[x if x.shape == shape
                          else Sums.apply(lambda v: v.expand(shape), errors, x) for x in operands])

    return op


def unary(function):
    return lambda errors, operands, numbers: function(operands[0])


def step(function):
    """Gradients stop there: they are not zeros, which would make NaN of an infinite slope before
    it."""
    return lambda errors, operands, numbers: function(operands[0].detach())


def from_result(function, slope):
    return lambda errors, operands, numbers: FromResult.apply(function, slope, errors, operands[0])


tanh = from_result(torch.tanh, lambda y: 1 - y * y)
sigmoid = from_result(torch.sigmoid, lambda y: y * (1 - y))


def logarithm(errors, operands, numbers):
    x = operands[0]
    near = ((x > 0.5) & (x < 2)).double() * LOG_NEAR_ONE
    return Edge.apply(x.log(), errors, near)


def power(errors, operands, numbers):
    """By exp2(b log2 a)."""
    a, b = operands
    y = Power.apply(a, b)
    exponent = torch.nan_to_num((b * a.abs().log()).abs() * ROUNDOFF * 4 + b.abs() * LOG_NEAR_ONE,
                                nan=0.0, posinf=0.0)
    return Edge.apply(y, errors, (exponent * y.abs()).detach())


def exponential(errors, operands, numbers):
    x = operands[0]
    y = x.exp()
    return Edge.apply(y, errors, (y * (3 + 2 * x.abs()) * 2 * ROUNDOFF).detach())


def gelu(errors, operands, numbers):
    y = Gelu.apply(operands[0], errors, "tanh" if numbers[0] else "none")
    return Edge.apply(y, errors, (operands[0].abs() * NORMAL_CDF).detach())


class WithSlope(torch.autograd.Function):
    """A function whose slope has errors of its own, besides those of gradients on their way."""

    @staticmethod
    def forward(ctx, function, slope, limit, errors, x):
        ctx.slope, ctx.limit, ctx.errors = slope, limit, errors
        ctx.save_for_backward(x)
        return function(x)

    @staticmethod
    def backward(ctx, g):
        x, = ctx.saved_tensors
        slope = ctx.slope(x)
        if ctx.errors.generator is not None:
            slope = slope + ctx.errors.within(ctx.limit(x) * slope.abs())
        return None, None, None, None, g * slope


def of_exp(x):
    """Relative error of exp(x)."""
    return (3 + 2 * x.abs()) * 2 * ROUNDOFF


def absolute(function, limit):
    """With an absolute error."""
    return lambda errors, operands, numbers: Edge.apply(function(operands[0]), errors, limit)


def log1p(errors, operands, numbers):
    x = operands[0]
    return Edge.apply(x.log1p(), errors, (LOG_NEAR_ONE * x.abs().clamp(max=1)).detach())


def expm1(errors, operands, numbers):
    y = WithSlope.apply(torch.expm1, torch.exp, of_exp, errors, operands[0])
    x = operands[0].detach()
    return Edge.apply(y, errors, of_exp(x) * x.exp() * (x.abs() > 0.4))


def erf(errors, operands, numbers):
    y = WithSlope.apply(torch.erf, lambda x: 2 / math.sqrt(math.pi) * (-x * x).exp(),
                        lambda x: of_exp(x * x), errors, operands[0])
    return Edge.apply(y, errors, 2 * NORMAL_CDF)


def softplus(errors, operands, numbers):
    y = WithSlope.apply(lambda x: -torch.nn.functional.logsigmoid(-x), torch.sigmoid, of_exp,
                        errors, operands[0])
    x = operands[0].detach()
    return Edge.apply(y, errors, (of_exp(x) + LOG_NEAR_ONE) * (-x.abs()).exp())


def elu(errors, operands, numbers):
    x, alpha = operands[0], float(numpy.float32(numbers[0]))
    return torch.relu(x) + alpha * expm1(errors, [torch.where(x > 0, torch.zeros_like(x), x)], [])


def hard_silu(errors, operands, numbers):
    return operands[0] * clip(errors, [operands[0] + 3], [0, 6]) / 6


def hard_sigmoid(errors, operands, numbers):
    return clip(errors, [operands[0] + 3], [0, 6]) / 6


def mish(errors, operands, numbers):
    return operands[0] * tanh(errors, [softplus(errors, operands, [])], [])


ACTIVATIONS = {0: unary(lambda x: x * 1), 1: unary(torch.relu),
               2: unary(lambda x: torch.nn.functional.leaky_relu(x, 0.2)), 3: sigmoid, 4: tanh,
               5: lambda errors, operands, numbers: gelu(errors, operands, [0]), 6: lambda errors,
               operands, numbers: softmax(errors, operands, []),
               7: lambda errors, operands, numbers: gelu(errors, operands, [1]), 8: lambda errors,
               operands, numbers: operands[0] * sigmoid(errors, operands, []),
               9: lambda errors, operands, numbers: elu(errors, operands, [1.0]),
               10: lambda errors, operands,
               numbers: 1.05070098 * elu(errors, operands, [1.67326324]), 11: softplus,
               12: mish, 13: hard_silu, 14: hard_sigmoid}


def activate(errors, operands, numbers):
    return ACTIVATIONS[numbers[0]](errors, operands, [])


def matmul(errors, operands, numbers):
    def product(a, b):
        return (a.transpose(-1, -2) if numbers[0]
                else a) @ (b.transpose(-1, -2) if numbers[1] else b)

    return Sums.apply(product, errors, *operands)


def padding_of(numbers, pads, size, extent, stride):
    """Zeros before and after, for height and width."""
    if numbers[0] == VALID:
        return [0, 0, 0, 0]
    if numbers[0] == EXPLICIT:
        return list(pads)
    out = []
    for n, k, s in zip(size, extent, stride):
        total = max((-(-n // s) - 1) * s + k - n, 0)
        out += [total // 2, total - total // 2]
    return out


def conv2d(errors, operands, numbers):
    stride, dilation = [n or 1 for n in numbers[1:3]], [n or 1 for n in numbers[3:5]]
    groups, pads = numbers[5] or 1, numbers[6:10]
    size, kernel = operands[0].shape[1:3], operands[1].shape[:2]
    extent = [(k - 1) * d + 1 for k, d in zip(kernel, dilation)]
    top, bottom, left, right = padding_of(numbers, pads, size, extent, stride)

    def convolution(x, k):
        images = torch.nn.functional.pad(x.permute(0, 3, 1, 2), (left, right, top, bottom))
        y = torch.nn.functional.conv2d(images.contiguous(), k.permute(3, 2, 0, 1).contiguous(),
                                       stride=stride, dilation=dilation, groups=groups)
        return y.permute(0, 2, 3, 1)

    return Sums.apply(convolution, errors, *operands)


def conv2d_transpose(errors, operands, numbers):
    stride, dilation = [n or 1 for n in numbers[1:3]], [n or 1 for n in numbers[3:5]]
    groups, pads = numbers[5] or 1, numbers[6:10]
    size, kernel = operands[0].shape[1:3], operands[1].shape[:2]
    extent = [(k - 1) * d + 1 for k, d in zip(kernel, dilation)]
    if numbers[0] == 0:
        out, before = [n * s + max(k - s, 0) for n, s, k in zip(size, stride, extent)], [0, 0]
    elif numbers[0] == 1:
        out, before = [n * s for n,
                       s in zip(size, stride)], [max(k - s, 0) // 2 for s, k in zip(stride, extent)]
    else:
        out = [(n - 1) * s + k - pads[2 * i] - pads[2 * i + 1] for i,
               (n, s, k) in enumerate(zip(size, stride, extent))]
        before = [pads[0], pads[2]]

    def convolution(x, k):
        y = torch.nn.functional.conv_transpose2d(
            x.permute(0, 3, 1, 2).contiguous(), k.permute(3, 2, 0, 1).contiguous(), stride=stride,
                                                 dilation=dilation, groups=groups)
        after = [o + b - n for o, b, n in zip(out, before, y.shape[2:])]  # below 0: cut off
        return torch.nn.functional.pad(y, (-before[1], after[1], -before[0],
                                           after[0])).permute(0, 2, 3, 1)

    return Sums.apply(convolution, errors, *operands)


def pool_geometry(x, numbers):
    window = [n or 2 for n in numbers[1:3]]
    stride = [n or w for n, w in zip(numbers[3:5], window)]
    return window, stride, padding_of(numbers, numbers[5:9], x.shape[1:3], window, stride)


def parts_of_results(n, factor, bilinear):
    """What each of n elements has in each of n * factor results, by PyTorch, but without the
    rounding of its coordinates: it would give a neighbour a part of 1e-17 where there is none."""
    mode = {"mode": "linear", "align_corners": False} if bilinear else {"mode": "nearest"}
    parts = torch.nn.functional.interpolate(torch.eye(n, dtype=torch.float64)[:, None, :],
                                            scale_factor=factor, **mode)[:, 0, :]
    return (parts * 2 * factor).round() / (2 * factor)


def upsample2d(errors, operands, numbers):
    down, right = (parts_of_results(operands[0].shape[1 + axis], numbers[1 + axis], numbers[0])
                   for axis in range(2))
    return Sums.apply(lambda x: torch.einsum("nhwc,hy,wx->nyxc", x, down, right), errors,
                      operands[0])


# Method, coordinates and rounding of resize2d, as PyTorch calls them.
RESIZES = {
    (0, 2, 2): {"mode": "nearest"}, (0, 0, 1): {"mode": "nearest-exact"},
    (1, 0, 0): {"mode": "bilinear", "align_corners": False},
    (1, 1, 0): {"mode": "bilinear", "align_corners": True},
    (2, 0, 0): {"mode": "bicubic", "align_corners": False},
    (2, 1, 0): {"mode": "bicubic", "align_corners": True},
}


def resize2d(errors, operands, numbers):
    """By what each pixel has in each result along either axis, as upsample2d()."""
    mode = RESIZES[tuple(numbers[2:5])]
    parts = [
        torch.nn.functional.interpolate(torch.eye(n, dtype=torch.float64)[:, None, :, None],
                                        size=(to, 1), **mode)[:, 0, :, 0]
        for n, to in zip(operands[0].shape[1:3], numbers)
    ]
    parts = [torch.where(p.abs() < 1e-12, torch.zeros_like(p), p) for p in parts]
    return Sums.apply(lambda x: torch.einsum("nhwc,hy,wx->nyxc", x, *parts), errors, operands[0])


def depth_to_space(errors, operands, numbers):
    """PyTorch has the one order; the other one is that of the channels' own."""
    x, (block, outer) = operands[0].permute(0, 3, 1, 2), numbers
    if not outer:
        n, c, h, w = x.shape
        x = x.reshape(n, block * block, -1, h, w).transpose(1, 2).reshape(n, c, h, w)
    return torch.nn.functional.pixel_shuffle(x, block).permute(0, 2, 3, 1) * 1


def space_to_depth(errors, operands, numbers):
    block, outer = numbers
    x = torch.nn.functional.pixel_unshuffle(operands[0].permute(0, 3, 1, 2), block)
    if not outer:
        n, c, h, w = x.shape
        x = x.reshape(n, -1, block * block, h, w).transpose(1, 2).reshape(n, c, h, w)
    return x.permute(0, 2, 3, 1) * 1


def max_pool2d(errors, operands, numbers):
    window, stride, (top, bottom, left, right) = pool_geometry(operands[0], numbers)
    images = torch.nn.functional.pad(operands[0].permute(0, 3, 1, 2), (left, right, top, bottom),
                                     value=-math.inf)
    return torch.nn.functional.max_pool2d(images, window, stride).permute(0, 2, 3, 1)


def avg_pool2d(errors, operands, numbers):
    window, stride, (top, bottom, left, right) = pool_geometry(operands[0], numbers)

    def total(x):
        images = torch.nn.functional.pad(x.permute(0, 3, 1, 2), (left, right, top, bottom))
        return torch.nn.functional.avg_pool2d(images, window, stride,
                                              divisor_override=1).permute(0, 2, 3, 1)

    return Sums.apply(total, errors, operands[0]) / total(torch.ones_like(operands[0]))


def add_up(errors, x, axes, keep):
    return Sums.apply(lambda v: v.sum(axes, keepdim=keep), errors, x)


def axes_of(x, numbers):
    return [int(a) % x.dim() for a in numbers[1:]] or list(range(x.dim()))


def reduce_sum(errors, operands, numbers):
    axes = axes_of(operands[0], numbers)
    return add_up(errors, operands[0], axes, bool(numbers[0])) if axes else operands[0] * 1


def reduce_mean(errors, operands, numbers):
    axes = axes_of(operands[0], numbers)
    count = math.prod(operands[0].shape[a] for a in axes)
    return reduce_sum(errors, operands, numbers) / count


def reduce_max(errors, operands, numbers):
    """The gradient is shared by all that attain the maximum."""
    axes = axes_of(operands[0], numbers)
    return operands[0].amax(axes, keepdim=bool(numbers[0])) if axes else operands[0] * 1


def reduce_min(errors, operands, numbers):
    return -reduce_max(errors, [-operands[0]], numbers)


def moments(errors, operands, numbers):
    """Whether dimensions stay, whether it is the variance, and the axes."""
    keep, variance, *axes = numbers
    if not variance:
        return reduce_mean(errors, operands, [keep, *axes])
    mean = Edge.apply(reduce_mean(errors, operands, [1, *axes]), errors, 0.0)
    return reduce_mean(errors, [torch.square(Edge.apply(operands[0] - mean, errors, 0.0))],
                       [keep, *axes])


def pad(errors, operands, numbers):
    """The value, then before and after each of the first axes. Torch begins with the last one."""
    x, value = operands[0], float(numpy.float32(numbers[0]))
    both = list(zip(numbers[1::2], numbers[2::2])) + [(0, 0)] * (x.dim() - len(numbers) // 2)
    return torch.nn.functional.pad(x, [n for pair in reversed(both) for n in pair], value=value) * 1


def tile(errors, operands, numbers):
    x = operands[0]
    return Sums.apply(lambda v: v.repeat(numbers + [1] * (x.dim() - len(numbers))), errors, x)


def cumsum(errors, operands, numbers):
    exclusive, backwards = numbers

    def scan(x):
        y = (x.flip(-1) if backwards else x).cumsum(-1)
        if exclusive:
            y = torch.nn.functional.pad(y, (1, 0))[..., :-1]
        return y.flip(-1) if backwards else y

    return Sums.apply(scan, errors, operands[0])


def cumprod(errors, operands, numbers):
    exclusive, backwards = numbers
    x = operands[0].flip(-1) if backwards else operands[0]
    if exclusive:
        x = torch.nn.functional.pad(x, (1, 0), value=1.0)[..., :-1]
    y = x.cumprod(-1)
    return y.flip(-1) if backwards else y * 1


def softmax(errors, operands, numbers):
    x = operands[0]
    e = exponential(errors, [x - x.amax(-1, keepdim=True).detach()], [])
    return e / add_up(errors, e, [-1], True)


def log_softmax(errors, operands, numbers):
    x = operands[0]
    shifted = Edge.apply(x - x.amax(-1, keepdim=True).detach(), errors, 0.0)
    return shifted - logarithm(errors,
                               [add_up(errors, exponential(errors, [shifted], []), [-1], True)], [])


def normalized(errors, x, epsilon):
    """By the root of the mean of squares; the epsilon as the library has it."""
    squares = Edge.apply(add_up(errors, x * x, [-1], True) / x.shape[-1], errors, 0.0)
    return x * Edge.apply(1 / (squares + float(numpy.float32(epsilon))).sqrt(), errors, 0.0)


def standardized(errors, x, epsilon):
    """Rows without their mean, by their deviation."""
    centred = Edge.apply(x - Edge.apply(add_up(errors, x, [-1], True) / x.shape[-1], errors, 0.0),
                         errors, 0.0)
    return normalized(errors, centred, epsilon)


def layer_norm(errors, operands, numbers):
    x, gamma, beta = operands
    y = broadcast(torch.mul)(errors, [standardized(errors, x, numbers[0]), gamma], [])
    return broadcast(torch.add)(errors, [y, beta], [])


def group_norm(errors, operands, numbers):
    """Torch has its channels in the second place. Whether gamma and beta are there is what the
    numbers end with."""
    x, vectors = operands[0], list(operands[1:])
    axis = numbers[1] % x.dim()
    first = x.movedim(axis, 1)
    groups = first.shape[1] if numbers[0] == -1 else numbers[0]
    y = standardized(errors, first.reshape(x.shape[0], groups, -1),
                     numbers[2]).reshape(first.shape).movedim(1, axis)
    for has, function in zip(numbers[3:], (torch.mul, torch.add)):
        if has:
            vector = vectors.pop(0).reshape([-1] + [1] * (x.dim() - 1 - axis))
            y = broadcast(function)(errors, [y, vector], [])
    return y


def rms_norm(errors, operands, numbers):
    return broadcast(torch.mul)(errors, [normalized(errors, operands[0], numbers[0]), operands[1]],
                                [])


def sigmoid_of(errors, x):
    return sigmoid(errors, [Edge.apply(x, errors, 0.0)], [])


def tanh_of(errors, x):
    return tanh(errors, [Edge.apply(x, errors, 0.0)], [])


def rnn_step(errors, kind, reset_before, x, recurrent, bias, h, c):
    """The states after a step. Gates are in the library's order."""
    def product(state, kernel, offset):
        y = matmul(errors, [state, kernel], [0, 0])
        return y if offset is None else broadcast(torch.add)(errors, [y, offset], [])

    units = h.shape[1]
    sums = product(h, recurrent, bias)
    x, parts = x.split(units, 1), sums.split(units, 1)
    if kind == 2:
        return tanh_of(errors, x[0] + parts[0]), c
    if kind == 1:
        into, forget, out = (sigmoid_of(errors, x[i] + parts[i]) for i in (0, 1, 3))
        c = Edge.apply(forget * c + into * tanh_of(errors, x[2] + parts[2]), errors, 0.0)
        return out * tanh_of(errors, c), c
    z, r = (sigmoid_of(errors, x[i] + parts[i]) for i in (0, 1))
    if reset_before:
        last = product(Edge.apply(r * h, errors, 0.0), recurrent[:, 2 * units:],
                       None if bias is None else bias[2 * units:])
    else:
        last = r * parts[2]
    return z * h + (1 - z) * tanh_of(errors, x[2] + last), c


def rnn(errors, operands, numbers):
    kind, reset_before, backwards, which, has_bias, has_state, has_mask = numbers
    rest = list(operands[2:])
    x, recurrent = operands[:2]
    bias = rest.pop(0) if has_bias else None
    h = rest.pop(0) if has_state else x.new_zeros(x.shape[0], recurrent.shape[0])
    c = rest.pop(0) if has_state and kind == 1 else torch.zeros_like(h)
    counts = rest.pop(0).detach().round() != 0 if has_mask else torch.ones(
        x.shape[:2], dtype=torch.bool)
    sequence = [None] * x.shape[1]
    for t in reversed(range(x.shape[1])) if backwards else range(x.shape[1]):
        h = Edge.apply(h, errors, 0.0)
        after, cell = rnn_step(errors, kind, reset_before, x[:, t], recurrent, bias, h, c)
        h, c = torch.where(counts[:, t, None], after, h), torch.where(counts[:, t, None], cell, c)
        sequence[t] = h
    return (torch.stack(sequence, 1), h, c)[which] * 1


def probabilities(errors, predictions):
    q = predictions / add_up(errors, predictions, [-1], True)
    low, high = float(numpy.float32(1e-7)), float(numpy.float32(1) - numpy.float32(1e-7))
    return Edge.apply(q, errors, 0.0).clamp(low, high)


def categorical_crossentropy(errors, operands, numbers):
    labels, predictions = operands
    logs = log_softmax(errors, [predictions],
                       []) if numbers[0] else logarithm(
                           errors, [probabilities(errors, predictions)], [])
    return -Sums.apply(lambda a, b: (a * b).sum(-1), errors, labels, logs)


def sparse_categorical_crossentropy(errors, operands, numbers):
    labels, predictions = operands
    known = (labels >= 0) & (labels < predictions.shape[-1])
    chosen = torch.nn.functional.one_hot(torch.where(known, labels, 0),
                                         predictions.shape[-1]).double()
    losses = categorical_crossentropy(errors, [chosen, predictions], numbers)
    return torch.where(known, losses, math.nan)


def ctc_loss(errors, operands, numbers):
    (labels, logits, *lengths), (blank, zero_infinity) = operands, numbers
    steps = lengths[0] if lengths else torch.full(labels.shape[:1], logits.shape[1])
    return Ctc.apply(log_softmax(errors, [logits], []), labels, steps, blank, bool(zero_infinity),
                     errors)


def mean_squared_error(errors, operands, numbers):
    labels, predictions = operands
    return add_up(errors, Edge.apply(predictions - labels, errors, 0.0) ** 2, [-1],
                  False) / predictions.shape[-1]


def mean_of_last(errors, x):
    return add_up(errors, Edge.apply(x, errors, 0.0), [-1], False) / x.shape[-1]


def binary_crossentropy(errors, operands, numbers):
    labels, x = operands
    if numbers[0]:
        return mean_of_last(errors, softplus(errors, [x], []) - Edge.apply(labels * x, errors, 0.0))
    p = probability(x, float(numpy.float32(1) - numpy.float32(1e-7)))
    yes, no = (logarithm(errors, [Edge.apply(q, errors, 0.0)], []) for q in (p, 1 - p))
    return -mean_of_last(errors, Edge.apply(labels * yes, errors, 0.0)
                         + Edge.apply(1 - labels, errors, 0.0) * no)


def mean_absolute_error(errors, operands, numbers):
    labels, predictions = operands
    return mean_of_last(errors, (predictions - labels).abs())


def huber(errors, operands, numbers):
    """Torch's takes the mean where it reduces."""
    labels, predictions = operands
    delta = float(numpy.float32(numbers[0])) or 1.0
    error = Edge.apply(predictions - labels, errors, 0.0)
    return mean_of_last(errors,
                        torch.nn.functional.huber_loss(
                            error, torch.zeros_like(error), reduction="none", delta=delta))


def probability(x, most=1.0):
    return x.clamp(float(numpy.float32(1e-7)), most)


def kl_divergence(errors, operands, numbers):
    y, p = (probability(x) for x in operands)
    difference = Edge.apply(logarithm(errors, [y], []) - logarithm(errors, [p], []), errors, 0.0)
    return Sums.apply(lambda a, b: (a * b).sum(-1), errors, y, difference)


def attention(errors, operands, numbers):
    """Whether causal, how it is computed (which is the library's affair), scale, whether there is a
    mask. Rows that attend to nothing are 0."""
    causal, _, scale, has_mask = numbers
    query, key, value = operands[:3]
    t, s = query.shape[-2], key.shape[-2]
    kept = torch.ones(t, s, dtype=torch.bool)
    if causal:
        kept = kept.tril(s - t)
    if has_mask:
        kept = kept & (operands[3].detach().round() != 0)
    scores = Edge.apply(matmul(errors, [query, key],
                               [0, 1]) * (float(numpy.float32(scale)) or query.shape[-1] ** -0.5),
                        errors, 0.0)
    kept = kept.expand(scores.shape)
    largest = scores.detach().masked_fill(~kept, -math.inf).amax(-1, keepdim=True).clamp(min=-1e30)
    powers = exponential(errors, [torch.where(kept, scores - largest, torch.zeros_like(scores))],
                         []) * kept.double()
    total = add_up(errors, powers, [-1], True)
    total = torch.where(total == 0, torch.ones_like(total), total).expand(powers.shape)
    # What a weight's gradient loses to the mean of its row is rounded apart from that gradient.
    weights = powers / Edge.apply(total, errors, 0.0)
    return matmul(errors, [Edge.apply(weights, errors, 0.0), value], [0, 0])


def one_hot(errors, operands, numbers):
    return (operands[0].unsqueeze(-1) == torch.arange(numbers[0])).double()


def argmax(errors, operands, numbers):
    """The first maximum."""
    return torch.from_numpy(numpy.asarray(numpy.argmax(operands[0].detach().numpy(), -1),
                                          numpy.int64))


def top_k(errors, operands, numbers):
    x, (k, which) = operands[0], numbers
    places = x.detach().topk(k, -1)[1]
    return places if which else x.gather(-1, places)


def sort(errors, operands, numbers):
    """Axis, whether descending, whether places are asked for."""
    x, (axis, descending, which) = operands[0], numbers
    places = x.detach().sort(dim=axis, descending=bool(descending), stable=True)[1]
    return places if which else x.gather(axis, places)


def einsum(errors, operands, numbers):
    """The numbers are the characters of the equation."""
    equation = "".join(map(chr, numbers))
    return Sums.apply(lambda *x: torch.einsum(equation, *x) * 1, errors, *operands)


def cast(errors, operands, numbers):
    """The types of 16 bits hold what fits, integers what they can."""
    x, to = operands[0], numbers[0]
    if to in ROUNDED:
        return Rounded.apply(x, ROUNDED[to])
    if to in (I32, U8):
        least, most = (0, 255) if to == U8 else (-2 ** 31, 2 ** 31 - 1)
        return x.detach().double().trunc().clamp(least, most).long()
    return x.double() * 1


def strided_slice(errors, operands, numbers):
    """Torch has no negative steps: by the places that NumPy takes."""
    x = operands[0]
    places = numpy.arange(x.numel()).reshape(x.shape)[
        tuple(slice(*numbers[i:i + 3]) for i in range(0, len(numbers), 3))]
    return x.reshape(-1)[torch.from_numpy(places.copy())] * 1


def part(errors, operands, numbers):
    axis, count, which = numbers
    return operands[0].chunk(count, axis)[which] * 1


def gather(errors, operands, numbers):
    """What was taken several times has a sum for its gradient."""
    x, indices = operands
    axis = numbers[0] % x.dim()
    shape = [*x.shape[:axis], *indices.shape, *x.shape[axis + 1:]]
    return Sums.apply(lambda v: v.index_select(axis, indices.reshape(-1)).reshape(shape), errors, x)


def gather_positions(errors, operands, numbers):
    x, positions = operands
    return Sums.apply(lambda v: torch.stack([row[taken] for row, taken in zip(v, positions)]),
                      errors, x)


COMPARISONS = [torch.eq, torch.ne, torch.lt, torch.le, torch.gt, torch.ge]


def compare(errors, operands, numbers):
    """Of whole numbers, which no error makes others."""
    return COMPARISONS[numbers[0]](*[x.detach().double().round() for x in operands]).double()


def slice_update(errors, operands, numbers):
    """Each place of x takes the update at its distance from the start, if there is one."""
    x, updates, start = operands
    axis = numbers[0] % x.dim()
    distance = torch.arange(x.shape[axis]) - int(start)
    moved = updates.index_select(axis, distance.clamp(0, updates.shape[axis] - 1))
    inside = (distance >= 0) & (distance < updates.shape[axis])
    return torch.where(inside.reshape([-1] + [1] * (x.dim() - 1 - axis)), moved, x)


def clip(errors, operands, numbers):
    low, high = (torch.tensor(float(numpy.float32(n)), dtype=torch.float64) for n in numbers)
    x = operands[0]
    return torch.where(x < low, low, torch.where(x > high, high, x))


OPS = {
    "add": broadcast(torch.add), "subtract": broadcast(torch.sub), "multiply": broadcast(torch.mul),
    "divide": broadcast(torch.div),
    "maximum": broadcast(lambda a, b: torch.where(a >= b, a, b)),
    "minimum": broadcast(lambda a, b: torch.where(a <= b, a, b)),
    "pow": lambda errors, operands,
    numbers: broadcast(lambda a, b: power(errors, [a, b], []))(errors, operands, numbers),
    "negative": unary(torch.neg), "abs": unary(torch.abs), "square": unary(torch.square),
    "sqrt": from_result(torch.sqrt, lambda y: 0.5 / y),
    "exp": exponential, "log": logarithm, "tanh": tanh, "sigmoid": sigmoid,
    "relu": unary(torch.relu),
    "leaky_relu": lambda errors, operands,
    numbers: torch.nn.functional.leaky_relu(operands[0], float(numpy.float32(numbers[0]))),
    "rsqrt": lambda errors, operands, numbers: 1 / Edge.apply(operands[0].sqrt(), errors, 0.0),
    "log1p": log1p, "expm1": expm1, "erf": erf,
    "sin": absolute(torch.sin, 2e-7), "cos": absolute(torch.cos, 2e-7), "sign": step(torch.sign),
    "floor": step(torch.floor),
    "round": step(torch.round), "softplus": softplus, "silu": lambda errors, operands,
    numbers: operands[0] * sigmoid(errors, operands, []),
    "hard_sigmoid": hard_sigmoid, "hard_silu": hard_silu, "mish": mish, "elu": elu,
    "selu": lambda errors, operands,
    numbers: 1.05070098 * elu(errors, operands, [1.67326324]),
    "gelu": gelu, "activate": activate, "matmul": matmul, "einsum": einsum,
    "bias_add": broadcast(torch.add), "conv2d": conv2d, "conv2d_transpose": conv2d_transpose,
    "max_pool2d": max_pool2d, "avg_pool2d": avg_pool2d, "upsample2d": upsample2d,
    "resize2d": resize2d, "depth_to_space": depth_to_space, "space_to_depth": space_to_depth,
    "global_avg_pool2d": lambda errors, operands, numbers: reduce_mean(errors, operands, [0, 1, 2]),
    "ctc_loss": ctc_loss,
    "reshape": lambda errors, operands, numbers: operands[0].reshape(numbers) * 1,
    "flatten": unary(lambda x: x.reshape(x.shape[0], -1) * 1),
    "transpose": lambda errors, operands, numbers: operands[0].permute(numbers) * 1,
    "slice": strided_slice,
    "slice_update": slice_update,
    "compare": compare,
    "where": broadcast(lambda mask, a, b: torch.where(mask.detach().round() != 0, a, b)),
    "clip": clip,
    "concat": lambda errors, operands, numbers: torch.cat(operands, numbers[0]), "split": part,
    "stack": lambda errors, operands, numbers: torch.stack(operands, numbers[0]),
    "expand_dims": lambda errors, operands, numbers: operands[0].unsqueeze(numbers[0]) * 1,
    "squeeze": lambda errors, operands, numbers: operands[0].squeeze(numbers[0]) * 1,
    "gather": gather, "gather_positions": gather_positions,
    "reduce_sum": reduce_sum, "reduce_mean": reduce_mean, "reduce_max": reduce_max,
    "reduce_min": reduce_min, "moments": moments, "argmax": argmax,
    "argmin": lambda errors, operands, numbers: argmax(errors, [-operands[0]], numbers), "pad": pad,
    "tile": tile,
    "reverse": lambda errors, operands, numbers: operands[0].flip(numbers[0]) * 1, "cumsum": cumsum,
    "cumprod": cumprod,
    "softmax": softmax, "log_softmax": log_softmax, "layer_norm": layer_norm, "rms_norm": rms_norm,
    "group_norm": group_norm, "one_hot": one_hot,
    "sparse_categorical_crossentropy": sparse_categorical_crossentropy,
    "categorical_crossentropy": categorical_crossentropy,
    "mean_squared_error": mean_squared_error, "mean_absolute_error": mean_absolute_error,
    "huber": huber, "kl_divergence": kl_divergence,
    "binary_crossentropy": binary_crossentropy, "attention": attention, "cast": cast,
    "top_k": top_k, "sort": sort, "rnn": rnn, "stop_gradient": unary(lambda x: x.detach() * 1),
    "dropout": unary(lambda x: x * 1),  # not in training
    "constant": lambda errors, operands,
    numbers: torch.tensor(float(numpy.float32(numbers[0])), dtype=torch.float64),
    "global_batch_size": lambda errors, operands, numbers: torch.tensor(1.0, dtype=torch.float64),
}


def apply(errors, node, values):
    """The value of an op of a case."""
    operands = [Edge.apply(values[i], errors, 0.0) if values[i].is_floating_point() else values[i]
                for i in node["in"]]
    return OPS[node["op"]](errors, operands, node.get("numbers", []))


def evaluate(case, leaves, generator=None):
    """Values of all results of a case, gradients last. `leaves` are the arrays of its leaves in
    order."""
    errors, values, arrays = Errors(generator), [], iter(leaves)
    for step in case["steps"]:
        if "op" in step:
            y = apply(errors, step, values)
        else:
            y = torch.from_numpy(next(arrays))
            y = y.double() if y.is_floating_point() else y.long()
        values.append(y if y.requires_grad or not y.is_floating_point() else y.requires_grad_())
    targets = [values[i] for i in case["targets"]]
    grads = torch.autograd.grad(values[case["loss"]], targets, allow_unused=True) if targets else []
    grads = [torch.zeros_like(t) if g is None else g for g, t in zip(grads, targets)]
    results = [v.detach() for v in [values[i] for i in case["results"]] + list(grads)]
    return [(errors.disturb(v) if v.is_floating_point() else v).numpy() for v in results]


def expect(case, leaves):
    """The results, and how far each element may be from it."""
    exact = evaluate(case, leaves)
    squares = [numpy.zeros(numpy.shape(x)) for x in exact]
    # finite in one evaluation, not in another
    odd = [numpy.zeros(numpy.shape(x), bool) for x in exact]
    for sample in range(SAMPLES):
        disturbed = evaluate(case, leaves, torch.Generator().manual_seed(sample))
        for total, strange, x, y in zip(squares, odd, exact, disturbed):
            with numpy.errstate(invalid="ignore"):
                difference = numpy.where(numpy.isfinite(x) & numpy.isfinite(y), y - x, 0)
            total += difference ** 2
            strange |= numpy.isfinite(x) != numpy.isfinite(y)
    return exact, [numpy.where(strange, math.inf, FACTOR * (numpy.sqrt(total / SAMPLES) + TINY))
                   for total, strange in zip(squares, odd)]
