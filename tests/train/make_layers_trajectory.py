#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes fixtures/layers_images.traj, fixtures/layers_sequences.traj and
fixtures/layers_merged.traj: 20 Adam steps each of three small networks, which hold all layers with
gradients of test_layers.c and of test_merge.c, on noise. Values are NHWC, kernels in Keras'
layouts, as the library has them.

Needs PyTorch (Debian: python3-torch). trajectory.py describes the files."""
import pathlib

import numpy as np
import torch
import torch.nn.functional as F
from torch import _VF

import trajectory
from recurrent import gates, weights

CLASSES, UNITS, BATCH, STEPS = 4, 5, 8, 20
IMAGE, SEQUENCE = (7, 6, 4), (17, 6)


def same(size, window, stride=1, dilation=1):
    """Keras' padding: zeros before and after."""
    reach = (window - 1) * dilation + 1
    total = max((-(-size // stride) - 1) * stride + reach - size, 0)
    return total // 2, total - total // 2


def depthwise(x, kernel, **options):
    """x is [n, c, h, w], the kernel [kh, kw, c, multiplier]."""
    kh, kw, channels, multiplier = kernel.shape
    return F.conv2d(x, kernel.permute(2, 3, 0, 1).reshape(channels * multiplier, 1, kh, kw),
                    groups=channels, **options)


def p_relu(x, alpha):
    return F.relu(x) - alpha * F.relu(-x)


def images(v, x, labels):
    x = F.pad(x.permute(0, 3, 1, 2), (2, 1, 1, 0))
    x = F.silu(depthwise(x, v["depthwise_conv2d/kernel"], stride=2)
               + v["depthwise_conv2d/bias"][:, None, None])
    x = p_relu(x, v["p_re_lu/alpha"].permute(2, 0, 1))
    x = F.interpolate(x, scale_factor=(3, 2), mode="bilinear", align_corners=False)
    x = F.pad(x, same(x.shape[3], 2) + same(x.shape[2], 3))
    x = F.conv2d(depthwise(x, v["separable_conv2d/depthwise_kernel"]),
                 v["separable_conv2d/pointwise_kernel"].permute(3, 2, 0, 1))
    x = F.leaky_relu(F.gelu(x + v["separable_conv2d/bias"][:, None, None], approximate="tanh"), 0.3)
    x = F.interpolate(x, scale_factor=2, mode="nearest")
    x = F.pad(x, same(x.shape[3], 2, dilation=2) + same(x.shape[2], 2, dilation=2))
    x = F.softplus(depthwise(x, v["depthwise_conv2d_1/kernel"], dilation=2)).amax((2, 3))
    return F.cross_entropy(x @ v["dense/kernel"] + v["dense/bias"], labels)


def sequences(v, x, labels):
    def convolve(x, name, **options):
        y = F.conv1d(x, v[name + "/kernel"].permute(2, 1, 0), **options)
        return y + v[name + "/bias"][:, None] if name + "/bias" in v else y

    x = F.pad(x.permute(0, 2, 1), (1, 2))
    x = F.max_pool1d(F.elu(convolve(F.pad(x, (4, 0)), "conv1d", dilation=2)), 2)
    x = F.selu(convolve(F.pad(x, same(x.shape[2], 4)), "conv1d_1", groups=2))
    x = p_relu(x, v["p_re_lu/alpha"].permute(1, 0))
    before_after = same(x.shape[2], 3, stride=2)
    ones = F.pad(torch.ones_like(x), before_after)
    x = F.avg_pool1d(F.pad(x, before_after), 3, 2) / F.avg_pool1d(ones, 3, 2)
    x = convolve(x, "conv1d_2", stride=2).mean(2).unflatten(1, (3, 4)).amax(1)
    return F.cross_entropy(x @ v["dense/kernel"] + v["dense/bias"], labels)


def both_ways(function, v, name, x, order=lambda w: w):
    """The two directions of a recurrent layer over the sequences of x, apart, and what each of them
    ends with."""
    zeros = torch.zeros(2, len(x), UNITS, dtype=x.dtype)
    states = (zeros, zeros) if function is _VF.lstm else zeros
    flat = weights(v, name + "/forward", order) + weights(v, name + "/backward", order)
    y, last = function(x, states, flat, True, 1, 0.0, True, True, True)[:2]
    return y.chunk(2, 2), last


def merged(v, x, labels):
    """Two convolutions that meet in many ways, and once more after pooling; and sequences whose two
    directions do."""
    def convolve(x, name):
        return torch.tanh(F.conv2d(x, v[name + "/kernel"].permute(3, 2, 0, 1), v[name + "/bias"]))

    x = F.pad(x.permute(0, 3, 1, 2), same(7, 3) + same(7, 3))
    a, b = convolve(x, "conv2d"), convolve(x, "conv2d_1")
    low, high = torch.minimum(a, b), torch.maximum(a, b)
    x = torch.cat([(high - low + a * b + a) / 3, low], 1)
    x = F.avg_pool2d(x, 2)
    (ahead, back), _ = both_ways(_VF.gru, v, "bidirectional", x.flatten(2).permute(0, 2, 1), gates)
    (ahead, back), _ = both_ways(_VF.lstm, v, "bidirectional_1", ahead + back)
    _, last = both_ways(_VF.rnn_tanh, v, "bidirectional_2", ahead * back)
    x = convolve(x, "conv2d_2")
    x = torch.cat([F.max_pool2d(x, 2).flatten(1), x.mean((2, 3)), (last[0] + last[1]) / 2], 1)
    return F.cross_entropy(x @ v["dense/kernel"] + v["dense/bias"], labels)


def write(name, seed, shape, initial, loss):
    rng = np.random.default_rng(seed)
    variables = {n: (0.4 * rng.standard_normal(s) + (0.25 if "alpha" in n else 0)).astype(
        np.float32) for n, s in initial.items()}

    def batch():
        labels = rng.integers(0, CLASSES, BATCH).astype(np.int32)
        x = rng.standard_normal((BATCH, *shape)) + np.eye(CLASSES, shape[-1])[labels].reshape(
            BATCH, *[1] * (len(shape) - 1), -1)
        return x.astype(np.float32), labels

    trajectory.write(pathlib.Path(__file__).parent / "fixtures" / name, variables,
                     [batch() for _ in range(STEPS)], loss)


def recurrent(name, inputs, count, *biases):
    """Shapes of the weights of a bidirectional layer with so many gates."""
    return {"%s/%s/%s" % (name, way, kind): shape for way in ("forward", "backward") for kind,
            shape in (
        ("kernel", (inputs, count * UNITS)), ("recurrent_kernel", (UNITS, count * UNITS)),
        *((b, (count * UNITS,)) for b in ("bias", *biases)))}


write("layers_images.traj", 21, IMAGE, {
    "depthwise_conv2d/kernel": (3, 3, 4, 2), "depthwise_conv2d/bias": (8,),
    "p_re_lu/alpha": (1, 1, 8),
    "separable_conv2d/depthwise_kernel": (3, 2, 8, 2),
    "separable_conv2d/pointwise_kernel": (1, 1, 16, 6), "separable_conv2d/bias": (6,),
    "depthwise_conv2d_1/kernel": (2, 2, 6, 1), "dense/kernel": (6, CLASSES),
    "dense/bias": (CLASSES,)}, images)
write("layers_sequences.traj", 22, SEQUENCE, {
    "conv1d/kernel": (3, 6, 8), "conv1d/bias": (8,), "conv1d_1/kernel": (4, 4, 8),
    "conv1d_1/bias": (8,), "p_re_lu/alpha": (10, 8),
    "conv1d_2/kernel": (2, 8, 12), "dense/kernel": (4, CLASSES), "dense/bias": (CLASSES,)},
      sequences)
write("layers_merged.traj", 23, (7, 7, 4), {
    "conv2d/kernel": (3, 3, 4, 5), "conv2d/bias": (5,), "conv2d_1/kernel": (3, 3, 4, 5),
    "conv2d_1/bias": (5,),
    "conv2d_2/kernel": (2, 2, 10, 3), "conv2d_2/bias": (3,),
    **recurrent("bidirectional", 10, 3, "recurrent_bias"),
    **recurrent("bidirectional_1", UNITS, 4), **recurrent("bidirectional_2", UNITS, 1),
    "dense/kernel": (6 + UNITS, CLASSES),
    "dense/bias": (CLASSES,)}, merged)
