# SPDX-License-Identifier: Apache-2.0
"""ringfire.keras.optimizers, losses and metrics: every setting of the library has an argument, and
what they compute is what NumPy computes."""
import inspect
import unittest

import numpy as np

import ringfire as rf
from ringfire import keras
from ringfire._lib import ffi
from ringfire.keras import losses, metrics, optimizers
from ringfire.keras._params import enum_values, find
from ringfire.keras.optimizers import schedules


def fields(struct):
    return {name for name, _ in ffi.typeof(struct).fields} - {"reserved"}


def reached(struct, kinds):
    """The fields that arguments of classes go to."""
    found = set()
    for kind in kinds:
        for base in kind.__mro__[:-1]:
            init = base.__dict__.get("__init__")
            names = inspect.signature(init).parameters if init else ()
            found |= {place[0][0] for place in
                      (find(ffi.typeof(struct), name) for name in names) if place}
    return found


def step_of(function, *arrays):
    return rf.function(function)(*arrays)


class Arguments(unittest.TestCase):
    def test_optimizers(self):
        kinds = optimizers.Optimizer.__subclasses__()
        self.assertEqual({k._kind for k in kinds},
                         set(enum_values(ffi.typeof("rf_optimizer_kind"))))
        # learning_rate is a schedule, too; parameter_groups makes groups; Custom is of functions.
        self.assertEqual(fields("rf_optimizer_params") - reached("rf_optimizer_params", kinds),
                         {"schedule", "groups", "num_groups", "custom"})
        for struct, kind in (("rf_parameter_group", optimizers.ParameterGroup),
                             ("rf_muon_params", optimizers.MuonOptions),
                             ("rf_loss_scale_params", optimizers.LossScale)):
            self.assertEqual(fields(struct) - reached(struct, [kind]), set())

    def test_schedules(self):
        made = [schedules.ExponentialDecay(1, 10, 0.5, True, warmup_steps=2, warmup_initial=0.1),
                schedules.PiecewiseConstantDecay([10], [1, 0.5]),
                schedules.PolynomialDecay(1, 10, 0.1, 2, True),
                schedules.InverseTimeDecay(1, 10, 0.5), schedules.CosineDecay(1, 10, 0.1),
                schedules.CosineDecayRestarts(1, 10, 3, 0.5), schedules.InverseSquareRoot(1, 10)]
        kinds = enum_values(ffi.typeof("rf_schedule_kind"))
        self.assertEqual({s._kind for s in made} | {"constant"}, set(kinds))
        set_by = {name for s in made for name in fields("rf_schedule")
                  if bytes(ffi.buffer(ffi.addressof(s.to_c([]), name))).strip(b"\0")}
        self.assertEqual(set_by, fields("rf_schedule"))

    def test_losses_and_metrics(self):
        self.assertEqual({k._kind for k in losses.Loss.__subclasses__()},
                         set(enum_values(ffi.typeof("rf_loss_kind"))))
        self.assertEqual(fields("rf_loss") - reached("rf_loss", losses.Loss.__subclasses__()),
                         {"kind"})
        kinds = metrics._all(metrics.Metric)
        self.assertEqual(
            {k._kind for k in kinds if "_kind" in k.__dict__} - {"auc"} | {"auc_roc", "auc_pr"},
            set(enum_values(ffi.typeof("rf_metric_kind"))))
        self.assertEqual(fields("rf_metric_params") - reached("rf_metric_params", kinds), {"kind"})

    def test_wrong_ones(self):
        for make, kind, message in (
                (lambda: optimizers.Adam(learnig_rate=1), TypeError, "learnig_rate"),
                (lambda: optimizers.SGD(clipnorm=1.0, clipvalue=1.0), ValueError, "clip"),
                (lambda: optimizers.LAMB(state_type="8bit"), ValueError, "state_type .* 'lamb'"),
                (lambda: optimizers.get("adm"), ValueError, "is none of .*adam"),
                (lambda: losses.Huber(reduction="mean"), ValueError, "reduction='mean'"),
                (lambda: losses.get("mse2"), ValueError, "is none of .*mse"),
                (lambda: metrics.get("accuracy", "huber"), ValueError, "no meaning beside"),
                (lambda: metrics.AUC(curve="roc"), ValueError, "neither 'ROC'")):
            with self.assertRaisesRegex(kind, message):
                make()


class Optimizers(unittest.TestCase):
    def update(self, optimizer, steps=1):
        variable = rf.Variable([1.0, -2.0], name="weight")

        @rf.function
        def step(x):
            with rf.GradientTape() as tape:
                loss = rf.reduce_sum(variable * x)
            optimizer.apply_gradients([(tape.gradient(loss, variable), variable)])

        for _ in range(steps):
            step(np.ones((1, 2), np.float32))
        return variable.numpy()

    def test_each_makes_a_step(self):
        for kind in optimizers._named:
            with self.subTest(kind.__name__):
                made = self.update(kind(), 2)
                self.assertTrue((made < [1, -2]).all() and (made > [0.9, -2.1]).all(), made)

    def test_settings_arrive(self):
        np.testing.assert_allclose(self.update(optimizers.SGD(0.5, momentum=0.5), 2),
                                   [1 - 0.5 - 0.75, -2 - 0.5 - 0.75], rtol=1e-6)
        np.testing.assert_allclose(self.update(optimizers.SGD(0.5, global_clipnorm=1.0)),
                                   [1 - 0.5 / 2**0.5, -2 - 0.5 / 2**0.5], rtol=1e-6)
        group = optimizers.ParameterGroup("weig*", rate_factor=0.1)
        np.testing.assert_allclose(
            self.update(optimizers.SGD(0.5, parameter_groups=[group])), [0.95, -2.05], rtol=1e-6)
        decayed = optimizers.SGD(schedules.PiecewiseConstantDecay([0], [1.0, 0.5]))
        np.testing.assert_allclose(self.update(decayed, 2), [-0.5, -3.5], rtol=1e-6)
        self.assertEqual(int(decayed.iterations), 2)
        exact = self.update(optimizers.Adam(0.1), 3)
        for kind in "bf16", "8bit":
            made = self.update(optimizers.Adam(0.1, state_type=kind), 3)
            np.testing.assert_allclose(made, exact, rtol=1e-2)
            # The largest number of a block is one that 8 bits hold.
            self.assertEqual((made != exact).any(), kind == "bf16")

    def test_custom(self):
        def momentum(weight, gradient, slots, numbers):
            m = numbers["beta"] * slots["m"] + gradient
            return weight - numbers["learning_rate"] * m, {"m": m}

        made = optimizers.Custom(momentum, 0.5, slots={"m": 0.0}, hyperparameters={"beta": 0.5})
        np.testing.assert_allclose(self.update(made, 2),
                                   self.update(optimizers.SGD(0.5, momentum=0.5), 2), rtol=1e-6)
        made.set_hyperparameter("beta", 0.25)
        self.assertEqual(made.hyperparameter("beta"), 0.25)
        plain = optimizers.Custom(lambda w, g, slots, n: w - n["learning_rate"] * g, 0.5)
        np.testing.assert_array_equal(self.update(plain), [0.5, -2.5])

        def wrong(weight, gradient, slots, numbers):
            return weight - numbers["rate"]

        with self.assertRaisesRegex(KeyError, "rate"):
            optimizers.Custom(wrong)

    def test_zero_is_a_number(self):
        np.testing.assert_array_equal(self.update(optimizers.AdamW(weight_decay=0.0)),
                                      self.update(optimizers.Adam()))
        self.assertFalse((self.update(optimizers.AdamW())
                          == self.update(optimizers.Adam())).all())
        np.testing.assert_array_equal(self.update(optimizers.SGD(0.0)), [1, -2])
        optimizer = optimizers.SGD(0.5, use_ema=True, ema_momentum=0.0)
        np.testing.assert_array_equal(self.update(optimizer), [0.5, -2.5])
        optimizer.finalize_variable_values()

    def test_learning_rate(self):
        optimizer = optimizers.Adam(0.25)
        self.assertEqual(optimizer.lr.numpy(), 0.25)
        optimizer.learning_rate = 0.5
        self.assertEqual(float(optimizer.lr), 0.5)
        self.assertAlmostEqual(schedules.ExponentialDecay(1.0, 10, 0.5)(20), 0.25)
        self.assertAlmostEqual(schedules.CosineDecay(0.0, 10, warmup_target=1.0,
                                                     warmup_steps=4)(2), 0.5)


class Losses(unittest.TestCase):
    def test_values(self):
        labels = np.array([[0, 1], [1, 0]], np.float32)
        p = np.array([[0.2, 0.8], [0.4, 0.6]], np.float32)
        classes = np.array([1, 0], np.int32)
        crossentropy = -np.log([0.8, 0.4])
        for loss, y, wanted in (
                (losses.SparseCategoricalCrossentropy, classes, crossentropy),
                (losses.CategoricalCrossentropy, labels, crossentropy),
                (losses.BinaryCrossentropy, labels, -np.log([0.8, 0.4])),
                (losses.MeanSquaredError, labels, [0.04, 0.36]),
                (losses.MeanAbsoluteError, labels, [0.2, 0.6]),
                (losses.Huber, labels, [0.02, 0.18]),
                (losses.KLDivergence, labels, crossentropy),
                (losses.CTC, np.array([[1]], np.int32), [-np.log(0.8 * 0.4 + 0.8 * 0.6
                                                                 + 0.2 * 0.6)])):
            with self.subTest(loss.__name__):
                each = step_of(loss(reduction="none"), y,
                               p[None] if loss is losses.CTC else p).numpy()
                np.testing.assert_allclose(each, wanted, rtol=1e-4, atol=1e-5)
        both = losses.MeanSquaredError(reduction="sum"), losses.MeanSquaredError()
        total, mean = step_of(lambda y, q: [loss(y, q) for loss in both], labels, p)
        np.testing.assert_allclose([float(total), float(mean)], [0.4, 0.2], rtol=1e-5)
        np.testing.assert_allclose(step_of(losses.mean_squared_error, labels, p).numpy(),
                                   [0.04, 0.36], rtol=1e-5)

    def test_weights(self):
        labels, p = np.zeros((2, 1), np.float32), np.array([[1], [2]], np.float32)
        weights = np.array([3, 1], np.float32)
        for reduction, wanted in (("none", [3, 4]), ("sum", 7), ("auto", 3.5),
                                  ("mean_with_sample_weight", 7 / 4)):
            loss = losses.MeanSquaredError(reduction)
            made = step_of(lambda y, q, w, loss=loss: loss(y, q, w), labels, p, weights)
            np.testing.assert_allclose(made.numpy(), wanted, rtol=1e-6)
        rows, each = np.ones((2, 3, 1), np.float32), losses.MeanSquaredError("none")
        made = step_of(lambda q, w: each(q * 0.0, q, w), rows, weights)
        self.assertEqual(made.numpy().tolist(), [[3] * 3, [1] * 3])

    def test_ignored_labels(self):
        labels = np.array([[1], [-100], [0], [-100]], np.int32)
        weights = np.array([2, 3, 1, 1], np.float32)
        p = np.array([[0.2, 0.8], [0.4, 0.6], [0.5, 0.5], [1, 0]], np.float32)
        each = -np.log([0.8, 1, 0.5, 1])
        for reduction, plain, weighted in (
                ("none", each, each * weights), ("sum", each.sum(), (each * weights).sum()),
                ("auto", each.sum() / 2, (each * weights).sum() / 2),
                ("mean_with_sample_weight", each.sum() / 2, (each * weights).sum() / 3)):
            loss = losses.SparseCategoricalCrossentropy(ignore_class=-100, reduction=reduction)
            made = step_of(lambda y, q, loss=loss: loss(y, q), labels, p)
            np.testing.assert_allclose(made.numpy(), plain, rtol=1e-6, atol=1e-7)
            made = step_of(lambda y, q, w, loss=loss: loss(y, q, w), labels, p, weights)
            np.testing.assert_allclose(made.numpy(), weighted, rtol=1e-6, atol=1e-7)
        for metric, wanted in ((metrics.SparseCategoricalAccuracy(ignore_class=-100), 1),
                               (metrics.SparseTopKCategoricalAccuracy(1, ignore_class=-100), 1),
                               (metrics.Perplexity(ignore_class=-100), np.exp(each.sum() / 2))):
            step_of(lambda a, b, m=metric: m.update_state(a, b), labels, p)
            self.assertAlmostEqual(float(metric.result()), wanted, places=5)

    def test_no_average_of_an_average(self):
        labels = np.zeros((2, 1), np.float32)
        with self.assertRaisesRegex(ValueError, r"_training.py:\d+: .*reduction=\"none\""):
            step_of(lambda y: rf.nn.compute_average_loss(losses.MeanSquaredError()(y, y)), labels)

    def test_in_steps_only(self):
        with self.assertRaisesRegex(rf.TraceError, "MeanSquaredError"):
            losses.MeanSquaredError()(np.zeros(2), np.zeros(2))


class Metrics(unittest.TestCase):
    def test_values(self):
        classes = np.array([1, 0, 1], np.int32)
        p = np.array([[0.2, 0.8], [0.4, 0.6], [0.3, 0.7]], np.float32)
        one_hot = keras.utils.to_categorical(classes, 2)
        ones = np.array([1, 0, 1], np.float32)
        for metric, y, q, wanted in (
                (metrics.SparseCategoricalAccuracy(), classes, p, 2 / 3),
                (metrics.CategoricalAccuracy(), one_hot, p, 2 / 3),
                (metrics.BinaryAccuracy(threshold=0.65), ones, p[:, 1], 1),
                (metrics.Precision(), ones, p[:, 1], 2 / 3),
                (metrics.Recall(), ones, p[:, 1], 1),
                (metrics.F1Score(), ones, p[:, 1], 0.8),
                (metrics.SparseTopKCategoricalAccuracy(2), classes, p, 1),
                (metrics.TopKCategoricalAccuracy(1), one_hot, p, 2 / 3),
                (metrics.MeanSquaredError(), one_hot, p, np.mean((one_hot - p)**2)),
                (metrics.MeanAbsoluteError(), one_hot, p, np.mean(abs(one_hot - p))),
                (metrics.AUC(), ones, p[:, 1], 1),
                (metrics.Perplexity(), classes, p, np.exp(-np.mean(np.log([0.8, 0.4, 0.7])))),
                (metrics.HitRate(1), classes, p, 2 / 3),
                (metrics.NDCG(1), classes, p, 2 / 3)):
            with self.subTest(type(metric).__name__):
                step_of(lambda a, b, m=metric: m.update_state(a, b), y, q)
                self.assertAlmostEqual(float(metric.result()), wanted, places=5)
                metric.reset_state()
                self.assertEqual(float(metric.result()), 0)

    def test_of_values_and_classes(self):
        mean, total = metrics.Mean("m"), metrics.Sum()
        x = np.array([1, 2, 6], np.float32)
        step_of(lambda a, w: [mean.update_state(a, w), total(a)] and None, x,
                np.array([1, 1, 0], np.float32))
        self.assertEqual((mean.name, float(mean.result()), float(total.result())), ("m", 1.5, 9))
        each = metrics.Recall(average=None, num_classes=3)
        step_of(lambda y, p: each.update_state(y, p), np.array([0, 1, 1], np.int32),
                np.eye(3, dtype=np.float32)[[0, 1, 2]])
        np.testing.assert_allclose(each.results(), [1, 0.5, 0])

    def test_confusion_matrix(self):
        labels, p = np.array([0, 1, 1, 1], np.int32), np.eye(2, dtype=np.float32)[[0, 1, 0, 1]]
        plain = metrics.ConfusionMatrix(2)
        shares = metrics.ConfusionMatrix(2, "labels", ignore_class=0)
        step_of(lambda y, q: [plain.update_state(y, q), shares(y, q)] and None, labels, p)
        self.assertEqual(plain.result().numpy().tolist(), [[1, 0], [1, 2]])
        np.testing.assert_allclose(shares.result().numpy(), [[0, 0], [1 / 3, 2 / 3]], rtol=1e-6)
        self.assertEqual(plain.table(["no", "yes"]), "      no  yes\n"
                                                     "no     1    0\n"
                                                     "yes    1    2\n")
        with self.assertRaisesRegex(ValueError, "1 names of 2 classes"):
            plain.table(["no"])
        model = keras.Sequential([keras.layers.Activation("softmax", input_shape=(2,))])
        model.compile("sgd", "sparse_categorical_crossentropy",
                      ["accuracy", metrics.ConfusionMatrix(2)])
        logs = model.evaluate(p, labels, verbose=0, return_dict=True)
        self.assertEqual(logs["accuracy"], logs["confusion_matrix"])
        self.assertEqual(model.metric_results("val_confusion_matrix").tolist(), [1, 0, 1, 2])
        self.assertTrue(model.metric_table("val_confusion_matrix").startswith("   0  1\n"))
        with self.assertRaisesRegex(ValueError, "no metric 'x'"):
            model.metric_results("x")


if __name__ == "__main__":
    unittest.main(verbosity=1)
