#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The cases of `ringfire-bench ops` beside the same operations in PyTorch on the CPU, in turns.

For each case that PyTorch has an operation for: its time in Ringfire, in PyTorch on one thread and
with its best setting (pytorch_settings.py: threads of its own and of its BLAS, each setting in a
process of its own; images in whichever of PyTorch's two layouts is faster), and how many times as
fast Ringfire is, the best time of all rounds each; then which settings won, the geometric means of
each family, of all cases, and of those that are not over before a driver has woken its threads. The
last line is what the driver would reach where every case took no longer than the shortest one, its
bytes at the pace of the first of PACES and its operations at that of the second, or its own time
where that is less. For an idle machine. Needs PyTorch (Debian: python3-torch and
libopenblas0-pthread).

With another driver, such as lavapipe of Debian testing (tests/fleet): --ringfire 'tests/fleet
--exec lavapipe build/release/tools/ringfire-bench'.

Usage: tests/bench/pytorch_ops.py [--ringfire COMMAND] [--device NAME] [--ops NAME,...] [--rounds N]
[--seconds X] [--threads N] [--json FILE]
       tests/bench/pytorch_ops.py --check [--ringfire COMMAND]      only says which cases have no
                                                                    place in the table below"""
import argparse
import collections
import importlib.util
import json
import math
import os
import pathlib
import shlex
import subprocess
import sys
import time

import pytorch_settings

LONG_CASES = 0.1e-3, 0.3e-3, 1e-3  # seconds on one thread of PyTorch, or longer
# what mostly moves and what mostly multiplies, with simple shaders
PACES = "elementwise add_4M", "matmul square_1024"

ROOT = pathlib.Path(__file__).resolve().parents[2]
ONE = pytorch_settings.Setting(1, 1)

# Operations that PyTorch 1.13 does not have as one call, or that count something else there.
WITHOUT = {"normalize", "conv2d_pool_filter_grad", "fill_like", "random_uniform", "slice_grad",
           "concat_grad", "lion_update", "lamb_moments", "lamb_update", "muon_momentum",
           "muon_update", "average_update",
           "overwrite", "accumulate", "assign", "block_squares", "lamb_norms", "batch_averages",
           "batch_sums", "rnn", "rnn_grad", "attention", "attention_grad",
           "metric_accumulate", "dropout_grad", "top_k", "bias_add", "recurrence", "cumprod_grad",
           "unscale", "overflow_check"}
MILLIONS = 4194304


def families():
    """By family and "op case": functions that take torch and its functional module, and return what
    is to be timed. Several: any of them does it, such as the same in two layouts."""
    def pointwise(make):
        return lambda t, F: [make(t, F)]

    def two(shape_a, shape_b, function):
        def make(t, F):
            a, b = t.randn(shape_a), t.randn(shape_b)
            return lambda: function(t, a, b)
        return pointwise(make)

    def one(shape, function):
        def make(t, F):
            x = t.randn(shape)
            return lambda: function(t, F, x)
        return pointwise(make)

    def product(m, k, n, ta=False, tb=False, bias=False, relu=False, sums=False):
        def make(t, F):
            a, b = t.randn((k, m) if ta else (m, k)), t.randn((n, k) if tb else (k, n))
            left, right, row = a.t() if ta else a, b.t() if tb else b, t.randn(n)
            if sums:
                return lambda: (t.mm(left, right), b.sum(0))
            if bias:
                return (lambda: t.addmm(row, left, right).relu_()) if relu else (
                    lambda: t.addmm(row, left, right))
            return lambda: t.mm(left, right)
        return pointwise(make)

    def convolution(what, n, side, c, filters, groups=1, padding=0, stride=1, bias=True, relu=True):
        mask = {"forward": None, "data": [True, False, False], "filter": [False, True, True],
                "filter_alone": [False, True, False]}[what]

        def build(t, F, layout):
            x = t.randn(n, c, side, side).contiguous(memory_format=layout)
            w = t.randn(filters, c // groups, 3, 3).contiguous(memory_format=layout)
            b = t.randn(filters) if bias else None
            y = F.conv2d(x, w, b, stride, padding, 1, groups)
            if mask is None:
                return (lambda: F.conv2d(x, w, b, stride, padding, 1,
                                         groups).relu_()) if relu else (
                    lambda: F.conv2d(x, w, b, stride, padding, 1, groups))
            dy = t.randn_like(y)
            return lambda: t.ops.aten.convolution_backward(dy, x, w, [filters], [stride] * 2, [
                padding] * 2, [1, 1], False, [0, 0], groups, mask)
        return lambda t, F: [build(t, F, layout)
                             for layout in (t.contiguous_format, t.channels_last)]

    def transposed(t, F):
        def build(layout):
            x, w = t.randn(64, 64, 14, 14).contiguous(memory_format=layout), t.randn(64, 32, 3, 3)
            return lambda: F.conv_transpose2d(x, w, None, 2, 1, 1)
        return [build(layout) for layout in (t.contiguous_format, t.channels_last)]

    def pooling(kind, side, c, window, stride, padding=0, gradient=False):
        def build(t, F, layout):
            x = t.randn(64, c, side, side).contiguous(memory_format=layout)
            if kind == "max":
                y, places = F.max_pool2d(x, window, stride, padding, return_indices=True)
                dy = t.randn_like(y)
                if gradient:
                    return lambda: t.ops.aten.max_pool2d_with_indices_backward(
                        dy, x, [window] * 2, [stride] * 2, [padding] * 2, [1, 1], False, places)
                return lambda: F.max_pool2d(x, window, stride, padding)
            dy = t.randn_like(F.avg_pool2d(x, window, stride, padding))
            if gradient:
                return lambda: t.ops.aten.avg_pool2d_backward(
                    dy, x, [window] * 2, [stride] * 2, [padding] * 2, False, True, None)
            return lambda: F.avg_pool2d(x, window, stride, padding)
        return lambda t, F: [build(t, F, layout)
                             for layout in (t.contiguous_format, t.channels_last)]

    def enlarging(n, side, c, factor, mode, gradient):
        def build(t, F, layout):
            x = t.randn(n, c, side, side).contiguous(memory_format=layout)
            dy = t.randn(n, c, side * factor, side * factor).contiguous(memory_format=layout)
            sizes = [side * factor] * 2, [n, c, side, side]
            if gradient and mode == "nearest":
                return lambda: t.ops.aten.upsample_nearest2d_backward(dy, *sizes)
            if gradient:
                return lambda: t.ops.aten.upsample_bilinear2d_backward(dy, *sizes, False)
            return lambda: F.interpolate(x, scale_factor=factor, mode=mode)
        return lambda t, F: [build(t, F, layout)
                             for layout in (t.contiguous_format, t.channels_last)]

    def looking_up(rows, width, shape, gradient=False, only=None):
        def make(t, F):
            table, dy = t.randn(rows, width), t.randn(*shape, width)
            index = t.randint(0, rows, shape) if only is None else t.full(shape, only)
            if gradient:
                return lambda: t.ops.aten.embedding_dense_backward(dy, index, rows, -1, False)
            return lambda: F.embedding(index, table)
        return pointwise(make)

    def positions(gradient):
        def make(t, F):
            x, dy = t.randn(32, 128, 128), t.randn(32, 20, 128)
            index = t.randint(0, 128, (32, 20, 1)).expand(32, 20, 128)
            return (lambda: t.zeros(32, 128, 128).scatter_add_(1, index, dy)) if gradient else (
                lambda: x.gather(1, index))
        return pointwise(make)

    def rows(shape, function):
        def make(t, F):
            x, dy, labels = t.randn(shape), t.randn(shape), t.randint(0, shape[1], shape[:1])
            return lambda: function(t, F, x, dy, labels)
        return pointwise(make)

    def softmax_gradient(shape, logarithm):
        def make(t, F):
            x, dy = t.randn(shape), t.randn(shape)
            y = F.log_softmax(x, 1) if logarithm else F.softmax(x, 1)
            backward = (t.ops.aten._log_softmax_backward_data if logarithm
                        else t.ops.aten._softmax_backward_data)
            return lambda: backward(dy, y, 1, t.float32)
        return pointwise(make)

    def norm_gradient(t, F):
        x, dy, gamma, beta = t.randn(2048, 128), t.randn(2048, 128), t.randn(128), t.randn(128)
        y, mean, rstd = t.native_layer_norm(x, [128], gamma, beta, 1e-3)
        return [lambda: t.ops.aten.native_layer_norm_backward(
            dy, x, [128], mean, rstd, gamma, beta, [True, True, True])]

    def losses(shape, gradient, both=False, dense=False):
        def make(t, F):
            x, labels = t.randn(shape), t.randint(0, shape[1], shape[:1])
            given, leaf = t.randn(shape).softmax(1), t.randn(shape).requires_grad_()
            target = given if dense else labels
            if not gradient:
                return lambda: F.cross_entropy(x, target, reduction="none")

            def run():
                leaf.grad = None
                F.cross_entropy(leaf, target, reduction="sum").backward()
            return run
        return pointwise(make)

    def optimizer(name, count, **settings):
        def make(t, F):
            p = t.randn(count).requires_grad_()
            p.grad = t.randn(count)
            o = getattr(t.optim, name)([p], **settings)
            return o.step
        return pointwise(make)

    def reduction(shape, function):
        return one(shape, lambda t, F, x: function(x))

    def moments(shape):
        def make(t, F):
            x, parameter = t.randn(shape), t.ones(shape[1])
            return [lambda: t.var_mean(x, 0, unbiased=False),
                    lambda: (x.mean(0), x.square().mean(0)),
                    lambda: t.native_batch_norm(x, parameter, parameter, None, None, True, 0.1,
                                                1e-3)]
        return make

    updates = (("sgd_update", "SGD", {"lr": 0.1}),
               ("momentum_update", "SGD", {"lr": 0.1, "momentum": 0.9}),
               ("adam_update", "Adam", {}),
               ("rmsprop_update", "RMSprop", {}), ("adagrad_update", "Adagrad", {}),
               ("nadam_update", "NAdam", {}))
    sizes = (("121930", 121930), ("4M", MILLIONS))
    return {
        "element-wise": {
            "elementwise add_4M": two(MILLIONS, MILLIONS, lambda t, a, b: a + b),
            "elementwise add_4M_less_1": two(MILLIONS - 1, MILLIONS - 1, lambda t, a, b: a + b),
            "elementwise add_row_4M": two((65536, 64), 64, lambda t, a, b: a + b),
            "elementwise multiply_column_4M": two((65536, 64), (65536, 1), lambda t, a, b: a * b),
            "elementwise gap_4M": two((64, 1024, 64), (64, 1, 64), lambda t, a, b: a * b),
            "elementwise relu_4M": one(MILLIONS, lambda t, F, x: t.relu(x)),
            "elementwise gelu_4M": one(MILLIONS, lambda t, F, x: F.gelu(x)),
            "elementwise chain4_4M": two(MILLIONS, MILLIONS, lambda t, a, b: t.relu(a * b + a) - a),
            "dropout 4M": one(MILLIONS, lambda t, F, x: F.dropout(x, 0.5)),
            "cast u8_to_f32_4M": pointwise(lambda t,
                                           F: (lambda x: lambda: x.float())(
                                               t.randint(0, 256, (MILLIONS,), dtype=t.uint8))),
            "cast f32_to_f16_4M": one(MILLIONS, lambda t, F, x: x.half()),
            "one_hot 64_10": pointwise(lambda t,
                                       F: (lambda x: lambda: F.one_hot(x, 10).float())(
                                           t.randint(0, 10, (64,)))),
        },
        "moving": {
            "broadcast_like row_4M": one((1, 64), lambda t, F, x: x.expand(65536, 64).contiguous()),
            "transpose 2048x2048": one((2048, 2048), lambda t, F, x: x.t().contiguous()),
            "transpose 64x26x26x32_to_nchw": one(
                (64, 26, 26, 32), lambda t, F, x: x.permute(0, 3, 1, 2).contiguous()),
            "slice half_of_2048x2048": one((2048, 2048), lambda t, F, x: x[:, 1024:].contiguous()),
            "slice every_second_of_4096x1024": one(
                (4096, 1024), lambda t, F, x: x[::2, 1::2].contiguous()),
            "pad images_64x32x32x16": one((64, 32, 32, 16), lambda t, F,
                                          x: F.pad(x, (0, 0, 4, 4, 4, 4))),
            "concat channels_64x28x28x24_12": two(
                (64, 28, 28, 24), (64, 28, 28, 12), lambda t, a, b: t.cat((a, b), 3)),
            "concat channels_64x28x28x84_12": two(
                (64, 28, 28, 84), (64, 28, 28, 12), lambda t, a, b: t.cat((a, b), 3)),
            "concat odd_channels_64x28x28x25_13": two(
                (64, 28, 28, 25), (64, 28, 28, 13), lambda t, a, b: t.cat((a, b), 3)),
            "concat rows_2x1024x1024": two((1024, 1024), (1024, 1024), lambda t, a,
                                           b: t.cat((a, b), 0)),
            "split query_key_value_8x256x768": one(
                (8, 256, 768), lambda t, F, x: [part.contiguous() for part in x.chunk(3, 2)]),
            "upsample2d nearest_2_32x28x28x16": enlarging(32, 28, 16, 2, "nearest", False),
            "upsample2d bilinear_2_32x28x28x16": enlarging(32, 28, 16, 2, "bilinear", False),
            "upsample2d bilinear_4_8x64x64x3": enlarging(8, 64, 3, 4, "bilinear", False),
            "upsample2d_grad nearest_2_32x28x28x16": enlarging(32, 28, 16, 2, "nearest", True),
            "upsample2d_grad bilinear_2_32x28x28x16": enlarging(32, 28, 16, 2, "bilinear", True),
            "upsample2d_grad bilinear_4_8x64x64x3": enlarging(8, 64, 3, 4, "bilinear", True),
        },
        "looking up": {
            "gather 8192x128_by_32x64": looking_up(8192, 128, (32, 64)),
            "gather 400x64_by_64x256": looking_up(400, 64, (64, 256)),
            "gather positions_32x128x128_by_32x20": positions(False),
            "gather_grad 8192x128_by_32x64": looking_up(8192, 128, (32, 64), True),
            "gather_grad 400x64_by_64x256": looking_up(400, 64, (64, 256), True),
            "gather_grad one_of_400x64_by_64x256": looking_up(400, 64, (64, 256), True, 7),
            "gather_grad positions_32x128x128_by_32x20": positions(True),
        },
        "products": {
            "matmul square_1024": product(1024, 1024, 1024),
            "matmul square_1024_ta": product(1024, 1024, 1024, ta=True),
            "matmul square_1024_tb": product(1024, 1024, 1024, tb=True),
            "matmul odd_1000": product(1000, 1003, 997),
            "matmul dense_hidden": product(64, 1600, 64, bias=True, relu=True),
            "matmul dense_hidden_dx": product(64, 64, 1600, tb=True),
            "matmul dense_hidden_dw": product(1600, 64, 64, ta=True),
            "matmul dense_logits": product(64, 64, 10, bias=True),
            "matmul dense_logits_dx": product(64, 10, 64, tb=True),
            "matmul dense_logits_dw": product(64, 64, 10, ta=True),
            "matmul sums_dense": product(1600, 64, 64, ta=True, sums=True),
            "matmul sums_logits": product(64, 64, 10, ta=True, sums=True),
        },
        "convolution": {
            "conv2d conv1_b64": convolution("forward", 64, 28, 1, 32),
            "conv2d conv1_odd": convolution("forward", 61, 28, 1, 31),
            "conv2d conv2_b64": convolution("forward", 64, 13, 32, 64),
            "conv2d conv2_odd": convolution("forward", 61, 13, 31, 61),
            "conv2d depthwise_64": convolution("forward", 32, 28, 64, 64, groups=64, padding=1,
                                               bias=False, relu=False),
            "conv2d_data_grad conv1_b64": convolution("data", 64, 28, 1, 32),
            "conv2d_data_grad conv1_odd": convolution("data", 61, 28, 1, 31),
            "conv2d_data_grad conv2_b64": convolution("data", 64, 13, 32, 64),
            "conv2d_data_grad conv2_odd": convolution("data", 61, 13, 31, 61),
            "conv2d_data_grad depthwise_64": convolution(
                "data", 32, 28, 64, 64, groups=64, padding=1),
            "conv2d_filter_grad conv1_b64": convolution("filter", 64, 28, 1, 32),
            "conv2d_filter_grad conv1_odd": convolution("filter", 61, 28, 1, 31),
            "conv2d_filter_grad conv2_b64": convolution("filter", 64, 13, 32, 64),
            "conv2d_filter_grad conv2_odd": convolution("filter", 61, 13, 31, 61),
            "conv2d_filter_grad depthwise_64": convolution(
                "filter_alone", 32, 28, 64, 64, groups=64, padding=1),
            "conv2d_transpose images_64x14x14x32": transposed,
        },
        "pooling": {
            "max_pool2d 64x26x26x32": pooling("max", 26, 32, 2, 2),
            "max_pool2d 64x11x11x64": pooling("max", 11, 64, 2, 2),
            "max_pool2d 64x56x56x64_3x3_s2": pooling("max", 56, 64, 3, 2),
            "max_pool2d_grad 64x26x26x32": pooling("max", 26, 32, 2, 2, gradient=True),
            "max_pool2d_grad 64x11x11x64": pooling("max", 11, 64, 2, 2, gradient=True),
            "max_pool2d_grad 64x56x56x64_3x3_s2": pooling("max", 56, 64, 3, 2, gradient=True),
            "avg_pool2d 64x26x26x32": pooling("average", 26, 32, 2, 2),
            "avg_pool2d 64x11x11x64": pooling("average", 11, 64, 2, 2),
            "avg_pool2d 64x56x56x64_3x3_s2": pooling("average", 56, 64, 3, 2),
            "avg_pool2d_grad 64x26x26x32": pooling("average", 26, 32, 2, 2, gradient=True),
        },
        "reductions": {
            "sum_to_like all_1M": reduction(1 << 20, lambda x: x.sum()),
            "sum_to_like row_4096x1024": reduction((4096, 1024), lambda x: x.sum(1, keepdim=True)),
            "sum_to_like column_65536x64": reduction((65536, 64), lambda x: x.sum(0)),
            "reduce sum_0_43264x32": reduction((43264, 32), lambda x: x.sum(0)),
            "reduce sum_0_7744x64": reduction((7744, 64), lambda x: x.sum(0)),
            "reduce sum_0_64x10": reduction((64, 10), lambda x: x.sum(0)),
            "reduce squares_all_121930": reduction(121930, lambda x: x.square().sum()),
            "reduce max_1_4096x1024": reduction((4096, 1024), lambda x: x.amax(1)),
            "reduce sum_all_4194301": reduction(4194301, lambda x: x.sum()),
            "batch_moments 64x28x28x16": moments((64 * 28 * 28, 16)),
            "batch_moments 64x7x7x256": moments((64 * 7 * 7, 256)),
        },
        "rows": {
            "argmax 64x10": rows((64, 10), lambda t, F, x, dy, labels: x.argmax(1)),
            "argmax 1024x1009": rows((1024, 1009), lambda t, F, x, dy, labels: x.argmax(1)),
            **{"%s %s" % (name, text): rows(shape, lambda t, F, x, dy, labels,
                                            name=name: getattr(x, name)(1))
               for name in ("cumsum", "cumprod")
               for text, shape in (("64x10", (64, 10)), ("2x4096", (2, 4096)),
                                   ("1024x1024", (1024, 1024)), ("8x65536", (8, 65536)),
                                   ("1000003", (1, 1000003)))},
            "softmax 64x10": rows((64, 10), lambda t, F, x, dy, labels: F.softmax(x, 1)),
            "softmax 4096x1024": rows((4096, 1024), lambda t, F, x, dy, labels: F.softmax(x, 1)),
            "log_softmax 64x10": rows((64, 10), lambda t, F, x, dy, labels: F.log_softmax(x, 1)),
            "softmax_grad 1024x1024": softmax_gradient((1024, 1024), False),
            "log_softmax_grad 1024x1024": softmax_gradient((1024, 1024), True),
            "layer_norm 2048x128": rows((2048, 128), lambda t, F, x, dy,
                                        labels: F.layer_norm(x, [128], x[0], x[1])),
            "layer_norm_grad 2048x128": norm_gradient,
            "sparse_crossentropy logits_64x10": losses((64, 10), False),
            "sparse_crossentropy logits_1024x1009": losses((1024, 1009), False),
            "sparse_crossentropy_grad logits_64x10": losses((64, 10), True),
            "sparse_crossentropy_grad logits_1024x1009": losses((1024, 1009), True),
            "sparse_crossentropy_grad both_64x10": losses((64, 10), True),
            "sparse_crossentropy_grad both_1024x1009": losses((1024, 1009), True),
            "crossentropy logits_64x10": losses((64, 10), False, dense=True),
            "crossentropy_grad logits_64x10": losses((64, 10), True, dense=True),
            "accuracy 64x10": rows((64, 10), lambda t, F, x, dy,
                                   labels: (x.argmax(1) == labels).float()),
            "accuracy 1024x1009": rows((1024, 1009), lambda t, F, x, dy,
                                       labels: (x.argmax(1) == labels).float()),
        },
        "updates": {"%s %s" % (op, text): optimizer(name, count, **settings) for op, name,
                    settings in updates for text, count in sizes
                    if (op, text) != ("momentum_update", "121930")},
    }


def best_of(function, seconds):
    """The shortest of at least three runs after the first."""
    function()
    best, start, runs = math.inf, time.perf_counter(), 0
    while runs < 3 or time.perf_counter() - start < seconds:
        before = time.perf_counter()
        function()
        best = min(best, time.perf_counter() - before)
        runs += 1
    return best


def serve(setting):
    """Measures what it is told to, a line of JSON with cases and seconds each, and answers with a
    line of their best times."""
    import torch
    import torch.nn.functional as F

    torch.set_num_threads(setting.threads)
    makers = {case: make for cases in families().values() for case, make in cases.items()}
    for line in sys.stdin:
        cases, seconds = json.loads(line)
        times = []
        for case in cases:
            torch.manual_seed(1)
            ways = makers[case](torch, F)
            times.append(min(best_of(way, seconds / len(ways)) for way in ways))
        print(json.dumps(times), flush=True)


class Torch:
    """A process of PyTorch with a setting, which waits until it is asked."""

    def __init__(self, setting):
        command = [sys.executable, __file__, "--torch", *map(str, setting.arguments)]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        text=True,
                                        env=setting.environment)

    def measure(self, cases, seconds):
        self.process.stdin.write(json.dumps([cases, seconds]) + "\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        return dict(zip(cases, json.loads(line))) if line else sys.exit("PyTorch ended")

    def close(self):
        self.process.communicate()


Cost = collections.namedtuple("Cost", "seconds gbytes gflop")


def bench_ops(o, op, seconds):
    """By case: the least time of Ringfire, and what it moves and computes."""
    command = [*o.ringfire, "ops", "--device", o.device, "--seconds", seconds, "--json",
               *(["--op", op] if op else [])]
    done = subprocess.run([str(c) for c in command], stdout=subprocess.PIPE, text=True,
                          env=pytorch_settings.kept_memory.ENVIRONMENT)
    if done.returncode:
        sys.exit("failed: %s" % " ".join(map(str, command)))
    rows = [row for row in json.loads(done.stdout)["ops"] if row["chosen"]]
    return {"%s %s" % (row["op"],
                       row["case"]): Cost(row["seconds"], row["gbytes"] * row["seconds"],
                                          row["gflops"] * row["seconds"]) for row in rows}


def mean(ratios):
    return math.exp(sum(map(math.log, ratios)) / len(ratios))


def check(o, table):
    """Says which cases of the benchmark have no place in the table, and which places no case."""
    known = {case for cases in table.values() for case in cases}
    measured = set(bench_ops(o, None, 1e-6))
    missing = sorted(case for case in measured - known if case.split()[0] not in WITHOUT)
    stale = sorted(known - measured) + sorted(WITHOUT - {case.split()[0] for case in measured})
    for text, cases in (("has no counterpart here", missing), ("is not measured any more", stale)):
        for case in cases:
            print("%s %s" % (case, text))
    sys.exit(1 if missing or stale else 0)


def measure(o, table):
    """By case: the cheapest of Ringfire's runs, and the best of PyTorch's times by setting."""
    ours, theirs = {}, {}
    wanted = [case for cases in table.values() for case in cases
              if not o.ops or case.split()[0] in o.ops]
    rivals = {setting: Torch(setting) for setting in pytorch_settings.of_threads(o.threads)}
    for _ in range(o.rounds):
        for op in dict.fromkeys(case.split()[0] for case in wanted):
            cases = [case for case in wanted if case.split()[0] == op]
            for case, cost in bench_ops(o, op, o.seconds).items():
                ours[case] = min(cost, ours.get(case, cost))
            for setting, rival in rivals.items():
                for case, seconds in rival.measure(cases, o.seconds).items():
                    times = theirs.setdefault(case, {})
                    times[setting] = min(seconds, times.get(setting, math.inf))
    for rival in rivals.values():
        rival.close()
    return ours, theirs


def at_pace(ours, case):
    """Seconds, were a case as short as the shortest and as fast as those of PACES."""
    cost, moving, multiplying = ours[case], *(ours[pace] for pace in PACES)
    least = min(each.seconds for each in ours.values())
    return min(cost.seconds, max(least, cost.gbytes * moving.seconds / moving.gbytes,
                                 cost.gflop * multiplying.seconds / multiplying.gflop))


def report(o, table, ours, theirs):
    print("%-46s %10s %10s %10s   ratio: 1 thread, best" % ("case", "ms", "1 thread", "best"))
    rows = []

    def ratio(row):
        return row["pytorch_1"] / row["seconds"], row["pytorch_best"] / row["seconds"]

    def summary(name, those):
        if those:
            means = [mean([ratio(row)[i] for row in those]) for i in (0, 1)]
            print("%-68s %23.2f, %.2f" % ("%s, geometric mean of %d" % (name, len(those)), *means))

    for family, cases in table.items():
        first = len(rows)
        for case in cases:
            if case not in theirs or case not in ours:
                continue
            times = theirs[case]
            winner = min(times, key=times.get)
            rows.append({"family": family, "case": case, "seconds": ours[case].seconds,
                         "pytorch_1": times[ONE], "pytorch_best": times[winner],
                         "best_setting": str(winner)})
            milliseconds = [1e3 * x for x in (ours[case].seconds, times[ONE], times[winner])]
            print("%-46s %10.3f %10.3f %10.3f   %.2f, %.2f   %s" % (
                case, *milliseconds, *ratio(rows[-1]), winner))
        if len(rows) > first:
            summary(family, rows[first:])
            print()
    won = collections.Counter(row["best_setting"] for row in rows)
    print("won, own + BLAS threads: "
          + "; ".join("%s in %d cases" % pair for pair in won.most_common()))
    summary("all", rows)
    for least in LONG_CASES:
        summary("of %.1f ms or more on one thread" % (least * 1e3),
                [row for row in rows if row["pytorch_1"] >= least])
    if all(case in ours for case in PACES):
        summary("all at the pace of %s and %s" % tuple(case.split()[1] for case in PACES),
                [dict(row, seconds=at_pace(ours, row["case"])) for row in rows])
    if o.json:
        o.json.write_text(json.dumps({"threads": o.threads, "rows": rows}, indent=1))


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter,
                                     usage=argparse.SUPPRESS)
    parser.add_argument("--ringfire", type=shlex.split,
                        default=[str(ROOT / "build/release/tools/ringfire-bench")])
    parser.add_argument("--device", default="llvmpipe")
    parser.add_argument("--ops", type=lambda text: text.split(","))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=0.2)
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--json", type=pathlib.Path)
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--torch", nargs=4, help=argparse.SUPPRESS)
    o = parser.parse_args()
    if o.torch:
        return serve(pytorch_settings.of_arguments(o.torch))
    table = families()
    if o.check:
        check(o, table)
    if not importlib.util.find_spec("torch"):
        parser.error("%s has no PyTorch; Debian's python3-torch belongs to /usr/bin/python3"
                     % sys.executable)
    unknown = set(o.ops or ()) - {case.split()[0] for cases in table.values() for case in cases}
    if unknown:
        parser.error("there is nothing to compare %s with" % ", ".join(sorted(unknown)))
    report(o, table, *measure(o, table))


main()
