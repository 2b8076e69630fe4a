# SPDX-License-Identifier: Apache-2.0
"""Operations of the Python package against NumPy: of tensors in steps, and of arrays outside."""
import inspect
import math
import unittest

import numpy as np
import ringfire as rf
from ringfire import _functions, _ops

X = np.array([[0.5, -1.25, 2.0, 0.25], [1.5, -0.5, -2.0, 3.0], [0.75, 1.0, -3.0, -0.125]],
             np.float32)
P = np.abs(X) + 0.5
ROW = np.array([1.0, 2.0, -0.5, 4.0], np.float32)
COLUMN = np.array([[2.0], [0.5], [-1.0]], np.float32)
CLASSES = np.array([0, 2, 1], np.int32)
IMAGE = np.arange(2 * 4 * 4 * 1, dtype=np.float32).reshape(2, 4, 4, 1)


def softmax(x, axis=-1):
    e = np.exp(x - x.max(axis, keepdims=True))
    return e / e.sum(axis, keepdims=True)



# Probabilities of four signs at three steps, and their logits.
SIGNS = softmax(X.astype(np.float64))
READ = X + 2


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def softplus(x):
    return np.log1p(np.exp(x))


erf = np.vectorize(math.erf)
PROBABILITIES = softmax(X)

# Function, its arguments, and what NumPy makes of them.
CASES = [
    (rf.abs, (X, ), np.abs(X)),
    (rf.add, (X, ROW), X + ROW),
    (rf.subtract, (X, COLUMN), X - COLUMN),
    (rf.multiply, (COLUMN, ROW), COLUMN * ROW),
    (rf.divide, (X, 4.0), X / 4),
    (rf.pow, (P, ROW), P**ROW),
    (rf.maximum, (X, ROW), np.maximum(X, ROW)),
    (rf.minimum, (X, 0.5), np.minimum(X, 0.5)),
    (rf.where, (np.float32([[1, 0, 0, 1]]), X, ROW), np.where([[1, 0, 0, 1]], X, ROW)),
    (rf.math.divide_no_nan, (X, np.float32([0, 1, 0, 2])), np.float32(
        [[0, -1.25, 0, 0.125], [0, -0.5, 0, 1.5], [0, 1, 0, -0.0625]])),
    (rf.math.multiply_no_nan, (np.float32([np.inf, 2]), np.float32([0, 3])), np.float32([0, 6])),
    (rf.math.xlogy, (np.float32([0, 2]), np.float32([0, 3])), np.float32([0, 2 * math.log(3)])),
    (rf.math.xlog1py, (np.float32([0, 2]), np.float32([-1, 3])), np.float32(
        [0, 2 * math.log(4)])),
    (_ops.xdivy, (np.float32([0, 2]), np.float32([0, 4])), np.float32([0, 0.5])),
    (rf.clip, (X, -1.0, 1.0), X.clip(-1, 1)),
    (rf.negative, (X, ), -X),
    (rf.square, (X, ), X * X),
    (rf.exp, (X, ), np.exp(X)),
    (rf.log, (P, ), np.log(P)),
    (rf.sqrt, (P, ), np.sqrt(P)),
    (rf.rsqrt, (P, ), 1 / np.sqrt(P)),
    (rf.math.log1p, (P, ), np.log1p(P)),
    (rf.math.expm1, (X, ), np.expm1(X)),
    (rf.sin, (X, ), np.sin(X)),
    (rf.cos, (X, ), np.cos(X)),
    (rf.erf, (X, ), erf(X)),
    (rf.sign, (X, ), np.sign(X)),
    (rf.floor, (X, ), np.floor(X)),
    (rf.round, (X, ), np.round(X)),
    (rf.tanh, (X, ), np.tanh(X)),
    (rf.sigmoid, (X, ), sigmoid(X)),
    (rf.nn.relu, (X, ), X.clip(0)),
    (rf.nn.leaky_relu, (X, 0.1), np.where(X > 0, X, 0.1 * X)),
    (rf.nn.gelu, (X, ), X * (1 + erf(X / math.sqrt(2))) / 2),
    (rf.nn.softplus, (X, ), softplus(X)),
    (rf.nn.silu, (X, ), X * sigmoid(X)),
    (rf.nn.hard_silu, (X, ), X * (X + 3).clip(0, 6) / 6),
    (rf.nn.hard_sigmoid, (X, ), (X + 3).clip(0, 6) / 6),
    (rf.nn.mish, (X, ), X * np.tanh(softplus(X))),
    (rf.nn.elu, (X, ), np.where(X > 0, X, np.expm1(X))),
    (rf.nn.selu, (X, ), 1.05070098 * np.where(X > 0, X, 1.67326324 * np.expm1(X))),
    (rf.matmul, (X, X.T), X @ X.T),
    (rf.matmul, (X, X, False, True), X @ X.T),
    (rf.nn.bias_add, (X, ROW), X + ROW),
    (rf.nn.global_avg_pool2d, (IMAGE, ), IMAGE.mean((1, 2))),
    (_ops.flatten, (IMAGE, ), IMAGE.reshape(2, 16)),
    (rf.reverse, (X, 1), X[:, ::-1]),
    (rf.gather, (X, CLASSES), X[CLASSES]),
    (_ops.gather_positions, (IMAGE.reshape(2, 16), np.int32([[0, 3], [5, 1]])), np.float32(
        [[0, 3], [21, 17]])),
    (rf.one_hot, (CLASSES, 3), np.eye(3)[CLASSES]),
    (_ops.sparse_categorical_crossentropy, (CLASSES, X, True), -np.log(
        PROBABILITIES[range(3), CLASSES])),
    (_ops.categorical_crossentropy, (np.eye(4)[CLASSES], X, True), -np.log(
        PROBABILITIES[range(3), CLASSES])),
    (_ops.binary_crossentropy, (np.eye(4)[CLASSES], X, True),
     (softplus(X) - X * np.eye(4)[CLASSES]).mean(1)),
    (_ops.mean_squared_error, (P, X), ((P - X)**2).mean(1)),
    (_ops.mean_absolute_error, (P, X), np.abs(P - X).mean(1)),
    (_ops.huber, (P, X, 1.0), np.where(
        np.abs(P - X) <= 1, (P - X)**2 / 2, np.abs(P - X) - 0.5).mean(1)),
    (_ops.kl_divergence, (softmax(P), PROBABILITIES),
     (softmax(P) * np.log(softmax(P) / PROBABILITIES)).sum(1)),
    (rf.stop_gradient, (X, ), X),
    (rf.cast, (X, rf.int32), X.astype(np.int32)),
    (rf.reshape, (X, (2, 6)), X.reshape(2, 6)),
    (rf.transpose, (IMAGE, (0, 3, 1, 2)), IMAGE.transpose(0, 3, 1, 2)),
    (rf.transpose, (X, ), X.T),
    (rf.expand_dims, (X, 1), X[:, None]),
    (rf.squeeze, (IMAGE, 3), IMAGE[..., 0]),
    (rf.squeeze, (IMAGE, ), IMAGE[..., 0]),
    (rf.concat, ([X, P], 1), np.concatenate([X, P], 1)),
    (rf.stack, ([X, P], 1), np.stack([X, P], 1)),
    (rf.tile, (X, (2, 1)), np.tile(X, (2, 1))),
    (rf.pad, (X, ((1, 0), (0, 2)), 7.0), np.pad(X, ((1, 0), (0, 2)), constant_values=7)),
    (rf.slice_update, (X, P[:1], np.int32([1]), 0), np.concatenate([X[:1], P[:1], X[2:]])),
    (rf.add_n, ([X, P, ROW], ), X + P + ROW),
    (rf.reduce_sum, (X, ), X.sum()),
    (rf.reduce_sum, (X, 1, True), X.sum(1, keepdims=True)),
    (rf.reduce_mean, (IMAGE, (1, 2)), IMAGE.mean((1, 2))),
    (rf.reduce_max, (X, 0), X.max(0)),
    (rf.reduce_min, (X, -1), X.min(-1)),
    (rf.argmax, (X, 1), X.argmax(1)),
    (rf.argmax, (X, 0), X.argmax(0)),
    (rf.argmin, (X, -1), X.argmin(-1)),
    (rf.cumsum, (X, 1), X.cumsum(1)),
    (rf.cumsum, (X, 0), X.cumsum(0)),
    (rf.cumprod, (X, 0), X.cumprod(0)),
    (rf.sort, (X, 1), np.sort(X, 1)),
    (rf.sort, (X, 0, "DESCENDING"), -np.sort(-X, 0)),
    (rf.argsort, (X, ), np.argsort(X, -1, kind="stable")),
    (rf.nn.softmax, (X, ), PROBABILITIES),
    (rf.nn.softmax, (X, 0), softmax(X, 0)),
    (rf.nn.log_softmax, (X, ), np.log(PROBABILITIES)),
    (rf.einsum, ("ij,kj->ik", X, P), np.einsum("ij,kj->ik", X, P)),
    (_functions.matrix_product, (X, ROW), X @ ROW),
    (_functions.matrix_product, (ROW, X.T), ROW @ X.T),
    (rf.nn.conv2d, (IMAGE, np.ones((2, 2, 1, 1)), 2), np.float32(
        [[[[10], [18]], [[42], [50]]], [[[74], [82]], [[106], [114]]]])),
    (rf.nn.conv2d_transpose, (IMAGE[:, :1, :1], np.ones((2, 2, 1, 1))),
     np.repeat(np.repeat(IMAGE[:, :1, :1], 2, 1), 2, 2)),
    (rf.nn.max_pool2d, (IMAGE, ), IMAGE[:, 1::2, 1::2]),
    (rf.nn.avg_pool2d, (IMAGE, (2, 2)), IMAGE[:, ::2, ::2] + 2.5),
    (rf.nn.upsample2d, (IMAGE, ), np.repeat(np.repeat(IMAGE, 2, 1), 2, 2)),
    (rf.nn.resize2d, (IMAGE, (2, 1), "nearest", "asymmetric", "down"), IMAGE[:, ::2, :1]),
    (rf.nn.resize2d, (IMAGE, 2),
     (IMAGE[:, ::2] + IMAGE[:, 1::2]).reshape(2, 2, 2, 2, 1).mean(3) / 2),
    (rf.nn.depth_to_space, (IMAGE.reshape(2, 2, 2, 4), 2),
     IMAGE.reshape(2, 2, 2, 2, 2).transpose(0, 1, 3, 2, 4).reshape(2, 4, 4, 1)),
    (rf.nn.space_to_depth, (IMAGE, 2),
     IMAGE.reshape(2, 2, 2, 2, 2).transpose(0, 1, 3, 2, 4).reshape(2, 2, 2, 4)),
    (rf.nn.layer_norm, (X, ROW, None, 0.5), (X - X.mean(1, keepdims=True)) /
     np.sqrt(X.var(1, keepdims=True) + 0.5) * ROW),
    (rf.nn.rms_norm, (X, None, 0.5), X / np.sqrt((X**2).mean(1, keepdims=True) + 0.5)),
    (rf.nn.group_norm, (X, None, ROW, 1, -1, 0.5), (X - X.mean(1, keepdims=True)) /
     np.sqrt(X.var(1, keepdims=True) + 0.5) + ROW),
    (rf.nn.attention, (X[None, None], P[None, None], P[None, None]),
     (softmax(X @ P.T / 2) @ P)[None, None]),
    (rf.nn.softmax_cross_entropy_with_logits, (np.eye(4)[CLASSES], X), -np.log(
        PROBABILITIES[range(3), CLASSES])),
    (rf.nn.sparse_softmax_cross_entropy_with_logits, (CLASSES, X), -np.log(
        PROBABILITIES[range(3), CLASSES])),
    (rf.nn.ctc_loss, ([[1, 1, -1], [3, -1, -1]], np.stack([READ] * 2)), -np.log(
        [SIGNS[0, 1] * SIGNS[1, 0] * SIGNS[2, 1],
         (SIGNS[0, 0] * (SIGNS[1, 0] + SIGNS[1, 3]) + SIGNS[0, 3] * SIGNS[1, 3]) * SIGNS[2, 3]
         + SIGNS[0, 3] * (SIGNS[1, 0] + SIGNS[1, 3]) * SIGNS[2, 0]
         + SIGNS[0, 0] * SIGNS[1, 3] * SIGNS[2, 0]])),
    (rf.nn.ctc_loss, ([[1, 2]], SIGNS[None], 0, False, np.array([1], np.int32),
                      np.array([1], np.int32)), -np.log(SIGNS[:1, 1])),
    (rf.nn.ctc_loss, ([[1, 1, 1]], SIGNS[None], 0, False, None, None, True), [0.0]),
]
# Those whose result is no function of their arguments, or of a whole batch, or several arrays.
ELSEWHERE = {
    "all_replica_sum", "global_batch_size", "dropout", "random_uniform", "random_normal",
    "orthogonalize", "moments", "split", "top_k", "compute_average_loss", "compute_weighted_loss",
    "scale_regularization_loss"
}


class Operations(unittest.TestCase):
    def close(self, got, want):
        want = np.asarray(want)
        self.assertEqual(got.shape, want.shape)
        np.testing.assert_allclose(got.numpy(), want, rtol=2e-5, atol=2e-6)

    def test_all_are_numpy_s(self):
        for function, arguments, want in CASES:
            with self.subTest(function.__name__, arguments=len(arguments)):
                self.close(function(*arguments), want)

    def test_none_is_left_out(self):
        named = {function.__name__ for function, _, _ in CASES}
        public = set(_ops.__all__) | {
            name
            for name, f in vars(_functions).items()
            if inspect.isfunction(f) and f.__module__ == _functions.__name__
            and not name.startswith("_") and name != "item"
        }
        self.assertEqual(public - named - ELSEWHERE, set())
        self.assertEqual(ELSEWHERE - public, set())

    def test_several_results(self):
        mean, variance = rf.nn.moments(X, 0)
        self.close(mean, X.mean(0))
        self.close(variance, X.var(0))
        values, indices = rf.nn.top_k(X, 2)
        self.close(values, -np.sort(-X)[:, :2])
        self.close(indices, np.argsort(-X)[:, :2])
        for got, want in zip(rf.split(X, 2, 1), np.split(X, 2, 1)):
            self.close(got, want)
        for got, want in zip(rf.split(X, (1, 3), 1), np.split(X, [1], 1)):
            self.close(got, want)

    def test_ctc_decoders(self):
        x = np.log([[[0.1, 0.6, 0.3], [0.7, 0.2, 0.1], [0.1, 0.5, 0.4], [0.3, 0.1, 0.6]]])
        labels, scores = rf.nn.ctc_greedy_decoder(x)
        self.assertEqual(labels.tolist(), [[1, 1, 2]])
        np.testing.assert_allclose(scores, [np.log(0.6 * 0.7 * 0.5 * 0.6)], rtol=1e-5)
        labels, scores = rf.nn.ctc_beam_search_decoder(np.exp(x), [1], top_paths=3,
                                                       from_logits=False)
        self.assertEqual(labels.tolist(), [[[1], [2], [-1]]])
        np.testing.assert_allclose(scores, np.log([[0.6, 0.3, 0.1]]), rtol=1e-5)
        self.assertEqual(rf.nn.edit_distance([[1, 2, -1], [3, 1, 1]], [[2, -1, 0], [3, 1, 2]]), 0.5)
        with self.assertRaisesRegex(rf.InvalidArgumentError, "input_lengths are 2 numbers"):
            rf.nn.ctc_greedy_decoder(x, [1, 2])

    def test_orthogonalize(self):
        made = rf.nn.orthogonalize(X).numpy()
        singular = np.linalg.svd(made)[1]
        self.assertTrue((singular > 0.6).all() and (singular < 1.3).all(), singular)

    def test_random(self):
        @rf.function
        def draw(x):
            return rf.random.normal((1000, )), rf.random.uniform((1000, ), 2.0, 3.0), rf.nn.dropout(
                x, 0.5)

        normal, uniform, dropped = draw(np.ones((1, 1000), np.float32))
        self.assertLess(abs(normal.numpy().mean()), 0.2)
        self.assertLess(abs(normal.numpy().std() - 1), 0.2)
        self.assertTrue(((uniform.numpy() >= 2) & (uniform.numpy() < 3)).all())
        self.assertEqual(set(np.unique(dropped.numpy())), {0.0, 2.0})
        self.assertFalse((draw(np.ones((1, 1000), np.float32))[0].numpy() == normal.numpy()).all())

    def test_creation(self):
        self.close(rf.zeros((2, 3)), np.zeros((2, 3)))
        self.close(rf.ones(3), np.ones(3))
        self.close(rf.fill((2, ), 7), np.full(2, 7))
        self.close(rf.constant([1, 2, 3]), np.array([1, 2, 3]))
        self.assertEqual(rf.constant([1, 2, 3]).dtype, rf.int32)
        self.assertEqual(rf.constant([1.5]).dtype, rf.float32)
        self.close(rf.zeros_like(X), np.zeros((3, 4)))
        self.close(rf.random.uniform((2, 2), seed=1), rf.random.uniform((2, 2), seed=1).numpy())
        whole = rf.random.uniform((100, ), 0, 10, rf.int32).numpy()
        self.assertTrue(whole.dtype == np.int32 and set(whole) <= set(range(10)))


class InSteps(unittest.TestCase):
    """Operators, slices and broadcasting of the tensors of a step."""

    def same(self, function, *arrays):
        got = rf.function(function)(*arrays)
        want = function(*arrays)
        self.assertEqual(got.shape, np.shape(want))
        np.testing.assert_allclose(got.numpy(), want, rtol=2e-5, atol=2e-6)

    def test_operators(self):
        for function in (
                lambda x, y: x + y, lambda x, y: 2 + x, lambda x, y: x - y, lambda x, y: 1 - x,
                lambda x, y: x * y, lambda x, y: 3 * x, lambda x, y: x / y, lambda x, y: 1 / y,
                lambda x, y: x // y, lambda x, y: x % y, lambda x, y: abs(x)**y,
                lambda x, y: x**2, lambda x, y: 2**x, lambda x, y: -x, lambda x, y: +x,
                lambda x, y: abs(x), lambda x, y: x @ ROW, lambda x, y: ROW @ x.T,
                lambda x, y: x @ x.T, lambda x, y: (x < y) * 1.0, lambda x, y: (x <= 0.5) * 1.0,
                lambda x, y: (x > y) * 1.0, lambda x, y: (x >= 1) * 1.0,
                lambda x, y: (x == y) * 1.0, lambda x, y: (x != y) * 1.0,
                lambda x, y: x + ROW, lambda x, y: ROW - x, lambda x, y: x * COLUMN[0],
                lambda x, y: x + np.float32(1), lambda x, y: x.T + 1):
            with self.subTest(inspect.getsource(function).strip()):
                self.same(function, X, P)

    def test_slices(self):
        for key in (1, -1, slice(1, None), slice(None, None, 2), (slice(None), 2),
                    (slice(None), -1), (slice(None), slice(1, 3)), (Ellipsis, slice(None, -1)),
                    (slice(None), slice(None, None, -1)), (slice(None), slice(3, 0, -2)),
                    (None, slice(None), 1), (slice(None), None), (Ellipsis, None), (1, 2),
                    (Ellipsis, 1, slice(None)), Ellipsis, ()):
            with self.subTest(key=key):
                self.same(lambda x: x[key], X)

    def test_whole_numbers(self):
        self.same(lambda c: (c == 2) * 1.0, CLASSES)
        self.same(lambda c: c[1:], CLASSES)
        with self.assertRaisesRegex(rf.InvalidArgumentError, "i32, not f32; cast it first"):
            rf.function(lambda c: c + 1)(CLASSES)

    def test_rows_by_number(self):
        got = rf.function(lambda x, i: x[i])(X, CLASSES)
        np.testing.assert_array_equal(got.numpy(), X[CLASSES])

    def test_of_the_batch(self):
        got = rf.function(lambda x: (rf.ones_like(x), rf.zeros_like(x), rf.reshape(x, (-1, 2))))
        for rows in (3, 2):
            ones, zeros, pairs = got(X[:rows])
            np.testing.assert_array_equal(ones.numpy(), np.ones((rows, 4)))
            np.testing.assert_array_equal(zeros.numpy(), np.zeros((rows, 4)))
            np.testing.assert_array_equal(pairs.numpy(), X[:rows].reshape(-1, 2))


if __name__ == "__main__":
    unittest.main(verbosity=2)
