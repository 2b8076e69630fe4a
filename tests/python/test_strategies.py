# SPDX-License-Identifier: Apache-2.0
"""Strategies of the Python package: one device, one device twice, and what replicas share."""
import json
import os
import tempfile
import unittest
from unittest import mock

import numpy as np
import ringfire as rf
from ringfire._tape import Optimizer

X = np.arange(12, dtype=np.float32).reshape(6, 2)
Y = (X @ np.float32([[2.0], [-1.0]])).astype(np.float32)


def device():
    """A device that all of these tests use, as many times as they like."""
    return rf.config.list_physical_devices()[0]


class Replicas(unittest.TestCase):
    def setUp(self):
        self.strategy = rf.MirroredStrategy([device(), device()])
        self.addCleanup(self.strategy.close)

    def test_facts(self):
        s = self.strategy
        self.assertEqual((s.num_replicas_in_sync, s.rank, s.world_size, s.is_chief),
                         (2, 0, 1, True))
        self.assertEqual(list(s.device_names), [device().details["device_name"]] * 2)
        self.assertIn("MirroredStrategy on", repr(s))

    def test_memory(self):
        self.strategy.run(lambda x: x * 2.0, (X, ))
        for replica in 0, 1:
            uses = self.strategy.memory_uses(replica)
            now, most = uses.pop("all")
            self.assertGreater(now, 0)
            self.assertGreaterEqual(most, now)
            self.assertEqual(sum(bytes_ for bytes_, _ in uses.values()), now)
        self.assertEqual(self.strategy.memory_uses(2), {})

    def test_results(self):
        s = self.strategy
        made = s.run(lambda x: (rf.reduce_sum(x), x * 2.0), (X, ))
        parts = s.experimental_local_results(made[0])
        self.assertEqual([float(p) for p in parts], [X[:3].sum(), X[3:].sum()])
        self.assertEqual(float(s.reduce(rf.ReduceOp.SUM, made[0], axis=None)), X.sum())
        self.assertEqual(float(s.reduce("MEAN", made[0])), X.sum() / 2)
        np.testing.assert_array_equal(s.gather(made[1]).numpy(), 2 * X)
        np.testing.assert_array_equal(s.reduce("SUM", made[1], axis=0).numpy(), 2 * X.sum(0))
        for part, rows in zip(made[1].values, (X[:3], X[3:])):
            np.testing.assert_array_equal(part.numpy(), 2 * rows)

    def test_structures_are_reduced(self):
        s = self.strategy
        made = s.run(lambda x: {"sum": rf.reduce_sum(x), "rows": rf.reduce_sum(x * 0.0 + 1.0, 0)},
                     (X, ))
        reduced = s.reduce("SUM", made)
        self.assertEqual(float(reduced["sum"]), X.sum())
        np.testing.assert_array_equal(reduced["rows"].numpy(), [6, 6])

    def test_old_results_are_reduced(self):
        s = self.strategy

        def step(x):
            return rf.reduce_sum(x)

        results = [s.run(step, (X + i, )) for i in range(5)]
        for i, result in enumerate(results):
            self.assertEqual(float(s.reduce("SUM", result)), (X + i).sum())
        with self.assertRaisesRegex(rf.InvalidArgumentError, "before the function has run twice"):
            s.gather(results[0])

    def test_fewer_examples_than_replicas(self):
        s = self.strategy
        made = s.run(lambda x: (rf.reduce_sum(x), x), (X[:1], ))
        self.assertEqual(float(s.reduce("MEAN", made[0])), X[:1].sum())
        self.assertEqual(s.gather(made[1]).shape, (1, 2))

    def test_sums_in_the_step(self):
        def step(x):
            context = rf.distribute.get_replica_context()
            total = rf.reduce_sum(x)
            return context.all_reduce("SUM", total), context.all_reduce(rf.ReduceOp.MEAN, total)

        totals, means = self.strategy.run(step, (X, ))
        self.assertEqual([float(v) for v in totals.values], [X.sum()] * 2)
        self.assertEqual([float(v) for v in means.values], [X.sum() / 2] * 2)

    def test_variables_stay_the_same(self):
        s = self.strategy
        with s.scope():
            weight = rf.Variable(np.zeros((2, 1)), name="weight")
            count = rf.Variable([0.0], trainable=False,
                                aggregation=rf.VariableAggregation.SUM)
            optimizer = Optimizer("sgd", learning_rate=0.01)
        self.assertIs(weight.strategy, s)

        @rf.function
        def train(x, y):
            def step(x, y):
                with rf.GradientTape() as tape:
                    losses = rf.reduce_mean(rf.square(rf.matmul(x, weight) - y), 1)
                    loss = rf.nn.compute_average_loss(losses)
                optimizer.apply_gradients(zip(tape.gradient(loss, [weight]), [weight]))
                count.assign(count * 0.5 + 1.0)
                return loss

            return s.reduce("SUM", s.run(step, (x, y)))

        losses = [float(train(X, Y)) for _ in range(100)]
        self.assertLess(losses[-1], losses[0] / 50)
        s.check_identical()
        expected, w = 0.0, np.zeros((2, 1), np.float32)
        for _ in range(100):
            w -= 0.01 * 2 * X.T @ (X @ w - Y) / 6
            expected = expected + 2  # each replica gives half of the sum before, and 1
        np.testing.assert_allclose(weight.numpy(), w, rtol=1e-3)
        self.assertEqual(float(count[0]), expected)
        self.assertEqual(weight.gradient().shape, (2, 1))

    def test_variables_of_another_strategy(self):
        other = rf.Variable([1.0])
        with self.assertRaisesRegex(rf.InvalidArgumentError, "another strategy"):
            self.strategy.run(lambda x: x * other, (X, ))

    def test_shares(self):
        uneven = rf.MirroredStrategy([device(), device()], shares=[2, 1])
        self.addCleanup(uneven.close)
        made = uneven.run(lambda x: x, (X, ))
        self.assertEqual([v.shape[0] for v in made.values], [4, 2])
        with self.assertRaisesRegex(rf.InvalidArgumentError, "there are .*balance"):
            rf.MirroredStrategy([device()], balanc="auto")
        with self.assertRaisesRegex(rf.InvalidArgumentError, '"auto", "off"'):
            rf.MirroredStrategy([device()], balance="on")


class Kinds(unittest.TestCase):
    def test_each_computes(self):
        for make in (lambda: rf.OneDeviceStrategy(device()),
                     lambda: rf.CentralStorageStrategy([device(), device()]),
                     lambda: rf.MultiWorkerMirroredStrategy(devices=[device()])):
            strategy = make()
            with self.subTest(strategy), strategy.scope():
                weight = rf.Variable([3.0])
                made = strategy.run(lambda x: rf.reduce_sum(x * weight), (X, ))
                self.assertEqual(float(strategy.reduce("SUM", made)), 3 * X.sum())
            strategy.close()

    def test_status(self):
        with tempfile.TemporaryDirectory() as folder, \
                mock.patch.dict(os.environ, RINGFIRE_STATUS=folder):
            strategy = rf.OneDeviceStrategy(device())
            strategy.run(lambda x: x * 2.0, (X, ))
            strategy.set_progress(1, 3, batches=10, loss=0.25, accuracy=1)
            for _ in range(2):
                strategy.run(lambda x: x * 2.0, (X, ))
            status = rf.distribute.read_status(directory=folder)
            progress = status["progress"]
            self.assertEqual((progress["epoch"], progress["epochs"], progress["batch"],
                              progress["batches"]), (1, 3, 2, 10))
            self.assertEqual(progress["values"], {"loss": 0.25, "accuracy": 1.0})
            self.assertEqual((status["steps"], status["examples"]), (3, 18))
            self.assertEqual(status["replicas"][0]["device"], device().details["device_name"])
            strategy.close()
            with self.assertRaisesRegex(rf.NotFoundError, "RINGFIRE_STATUS=" + folder):
                rf.distribute.read_status(directory=folder)

    def test_scopes(self):
        default = rf.distribute.get_strategy()
        self.assertFalse(rf.distribute.has_strategy())
        with default.scope() as inside:
            self.assertIs(inside, default)
            self.assertTrue(rf.distribute.has_strategy())
        seen = []
        rf.function(lambda x: seen.append(rf.distribute.in_cross_replica_context()))(X)
        self.assertEqual(seen[0], False)
        self.assertIsNone(rf.distribute.get_replica_context())

    def test_devices(self):
        found = rf.config.list_physical_devices()
        self.assertTrue(found)
        for d in found:
            self.assertEqual(rf._devices.device_list(d), str(d.index))
            self.assertEqual(rf._devices.device_list(d.name), str(d.index))
            self.assertIn(d.device_type, ("CPU", "GPU"))
        self.assertEqual(rf._devices.device_list(["/cpu:0", "radeon"]),
                         "%d,radeon" % rf.config.list_physical_devices("CPU")[0].index)
        with self.assertRaisesRegex(rf.NotFoundError, "no device '/gpu:99'"):
            rf.MirroredStrategy(["/gpu:99"])
        with self.assertRaisesRegex(rf.NotFoundError, "no such thing"):
            rf.MirroredStrategy("no such thing")
        with self.assertRaisesRegex(rf.InvalidArgumentError, "empty list"):
            rf.MirroredStrategy([])

    def test_tf_config(self):
        config = {"cluster": {"worker": ["a:1", "b:2"]}, "task": {"type": "worker", "index": 1}}
        with mock.patch.dict(os.environ, TF_CONFIG=json.dumps(config)):
            resolver = rf.distribute.TFConfigClusterResolver()
        self.assertEqual((resolver.task_type, resolver.task_id), ("worker", 1))
        self.assertEqual(resolver.cluster_spec().as_dict(), config["cluster"])
        self.assertEqual(resolver.cluster_spec().num_tasks("worker"), 2)
        self.assertIsNone(rf.distribute.TFConfigClusterResolver().task_type)


if __name__ == "__main__":
    unittest.main(verbosity=2)
