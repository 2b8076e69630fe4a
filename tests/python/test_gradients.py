# SPDX-License-Identifier: Apache-2.0
"""Tapes and optimizers of the Python package: against PyTorch where that is installed, and against
differences."""
import unittest

import numpy as np
import ringfire as rf
from ringfire._tape import Optimizer

try:
    import torch
except ImportError:
    torch = None

SEED = np.random.default_rng(7)
X = SEED.normal(size=(6, 5)).astype(np.float32)
LABELS = np.array([0, 2, 1, 2, 0, 1], np.int32)
W1 = SEED.normal(size=(5, 4)).astype(np.float32)
W2 = SEED.normal(size=(4, 3)).astype(np.float32)
B = SEED.normal(size=(3, )).astype(np.float32)


def network(x, w1, w2, b):
    return rf.matmul(rf.tanh(rf.matmul(x, w1)), w2) + b


def mean_loss(labels, logits):
    losses = rf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits)
    return rf.nn.compute_average_loss(losses)


class Gradients(unittest.TestCase):
    def setUp(self):
        self.variables = [rf.Variable(w) for w in (W1, W2, B)]

    def gradients(self):
        @rf.function
        def step(x, labels):
            with rf.GradientTape() as tape:
                loss = mean_loss(labels, network(x, *self.variables))
            return loss, tape.gradient(loss, self.variables)

        return step(X, LABELS)

    def test_against_differences(self):
        loss, gradients = self.gradients()
        forward = rf.function(lambda x, labels: mean_loss(labels, network(x, *self.variables)))
        self.assertEqual(float(forward(X, LABELS)), float(loss))
        for variable, gradient in zip(self.variables, gradients):
            before, direction = variable.numpy(), SEED.normal(size=variable.shape)
            values = []
            for sign in (1, -1):
                variable.assign(before + sign * 0.01 * direction)
                values.append(float(forward(X, LABELS)))
            variable.assign(before)
            self.assertAlmostEqual((values[0] - values[1]) / 0.02,
                                   float((gradient.numpy() * direction).sum()), places=3)

    @unittest.skipIf(torch is None, "PyTorch is not installed")
    def test_against_pytorch(self):
        loss, gradients = self.gradients()
        w = [torch.tensor(a, requires_grad=True) for a in (W1, W2, B)]
        logits = torch.tanh(torch.tensor(X) @ w[0]) @ w[1] + w[2]
        expected = torch.nn.functional.cross_entropy(logits, torch.tensor(LABELS).long())
        expected.backward()
        self.assertAlmostEqual(float(loss), float(expected), places=5)
        for gradient, variable in zip(gradients, w):
            np.testing.assert_allclose(gradient.numpy(), variable.grad.numpy(), rtol=1e-4,
                                       atol=1e-6)

    def test_of_structures_inputs_and_tensors(self):
        @rf.function
        def step(x):
            with rf.GradientTape(persistent=True) as tape:
                tape.watch(x)
                y = rf.square(x)
                z = y * 3.0
            return tape.gradient(z, {"x": x, "y": y}), tape.gradient(z, x, output_gradients=x)

        made, weighted = step(X)
        np.testing.assert_allclose(made["x"].numpy(), 6 * X, rtol=1e-6)
        np.testing.assert_array_equal(made["y"].numpy(), np.full(X.shape, 3.0))
        # The weights are a function of x as well, as a product's factor.
        np.testing.assert_allclose(weighted.numpy(), 9 * X * X, rtol=1e-5)

    def test_second_derivatives(self):
        @rf.function
        def step(x):
            y = rf.reduce_sum(x**3)
            first = rf.gradients(y, x)
            return rf.gradients(rf.reduce_sum(first), x)

        np.testing.assert_allclose(step(X).numpy(), 6 * X, rtol=1e-4, atol=1e-5)

    def test_what_has_no_influence_and_no_gradient(self):
        other = rf.Variable([1.0, 2.0])

        @rf.function
        def step(x):
            return rf.gradients(rf.reduce_sum(x), other)

        np.testing.assert_array_equal(step(X).numpy(), [0, 0])
        with self.assertRaisesRegex(rf.InvalidArgumentError, "of no sources"):
            rf.function(lambda x: rf.gradients(x, []))(X)


class Optimizers(unittest.TestCase):
    def train(self, update, **settings):
        variables = [rf.Variable(w) for w in (W1, W2, B)]
        optimizer = Optimizer(**settings)

        @rf.function
        def step(x, labels):
            with rf.GradientTape() as tape:
                loss = mean_loss(labels, network(x, *variables))
            update(optimizer, tape, loss, variables)
            return loss

        losses = [float(step(X, LABELS)) for _ in range(5)]
        return optimizer, variables, losses

    def test_both_ways_are_one(self):
        def apply(optimizer, tape, loss, variables):
            optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables))

        def minimize(optimizer, tape, loss, variables):
            optimizer.minimize(loss, variables)

        one, two = (self.train(f, kind="adam", learning_rate=0.1) for f in (apply, minimize))
        self.assertEqual(one[2], two[2])
        for a, b in zip(one[1], two[1]):
            np.testing.assert_array_equal(a.numpy(), b.numpy())
        self.assertEqual(int(one[0].iterations), 5)
        self.assertLess(one[2][-1], one[2][0])

    @unittest.skipIf(torch is None, "PyTorch is not installed")
    def test_against_pytorch(self):
        def apply(optimizer, tape, loss, variables):
            optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables))

        for kind, settings, theirs in (
            ("sgd", {"momentum": 0.9}, lambda w: torch.optim.SGD(w, 0.1, momentum=0.9)),
            ("adam", {}, lambda w: torch.optim.Adam(w, 0.1, eps=1e-7)),
            ("adamw", {"weight_decay": 0.01},
             lambda w: torch.optim.AdamW(w, 0.1, eps=1e-7, weight_decay=0.01))):
            with self.subTest(kind):
                _, variables, losses = self.train(apply, kind=kind, learning_rate=0.1, **settings)
                w = [torch.tensor(a, requires_grad=True) for a in (W1, W2, B)]
                optimizer = theirs(w)
                for loss in losses:
                    optimizer.zero_grad()
                    logits = torch.tanh(torch.tensor(X) @ w[0]) @ w[1] + w[2]
                    expected = torch.nn.functional.cross_entropy(
                        logits, torch.tensor(LABELS).long())
                    self.assertAlmostEqual(loss, float(expected), places=4)
                    expected.backward()
                    optimizer.step()
                for a, b in zip(variables, w):
                    np.testing.assert_allclose(a.numpy(), b.detach().numpy(), rtol=1e-3, atol=1e-4)

    def test_settings(self):
        with self.assertRaisesRegex(rf.InvalidArgumentError, 'is none of .*"adam"'):
            Optimizer("adagrat")
        with self.assertRaisesRegex(rf.InvalidArgumentError, "no setting 'momentumm'; there are"):
            Optimizer("sgd", momentumm=0.9)
        with self.assertRaisesRegex(rf.InvalidArgumentError, "momentum"):
            Optimizer("adam", momentum=0.9)
        optimizer = Optimizer("adam", learning_rate=0.5)
        optimizer.learning_rate = 0.25
        self.assertEqual(float(optimizer.learning_rate), 0.25)

    def test_trainable_variables_are_not_assigned(self):
        v = rf.Variable([1.0])
        with self.assertRaisesRegex(rf.InvalidArgumentError, r"\.py:\d+: variable .* is trainable: "
                                    "optimizers update it; create it with trainable=False"):
            rf.function(lambda x: v.assign(x))(np.ones(1, np.float32))

    def test_variables_that_are_not_trainable(self):
        v = rf.Variable([1.0], trainable=False)
        with self.assertRaisesRegex(rf.InvalidArgumentError, "^test_gradients.py:.*not trainable"):
            rf.function(lambda x: Optimizer("sgd").minimize(rf.reduce_sum(v * x), [v]))(X)


if __name__ == "__main__":
    unittest.main(verbosity=2)
