# SPDX-License-Identifier: Apache-2.0
"""ringfire.keras models: graphs, functions of one's own, files; fit with its callbacks, Ctrl-C and
what it prints."""
import contextlib
import gc
import glob
import io
import os
import signal
import subprocess
import sys
import tempfile
import threading
import unittest
import weakref

import numpy as np

import ringfire as rf
from ringfire import keras
from ringfire._lib import ffi
from ringfire.data import Dataset
from ringfire.keras import callbacks, layers

RNG = np.random.default_rng(1)
X = RNG.normal(size=(64, 6)).astype(np.float32)
Y = (X[:, 0] > 0).astype(np.int32)


def classifier(**options):
    model = keras.Sequential([layers.Dense(8, "relu", input_shape=(6,)), layers.Dense(2)])
    model.compile(keras.optimizers.Adam(0.02), keras.losses.SparseCategoricalCrossentropy(
        from_logits=True), ["accuracy"], **options)
    return model


class Folder(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.path = lambda *names: os.path.join(folder.name, *names)


class Models(Folder):
    def test_sequential(self):
        model = keras.Sequential(name="net")
        model.add(keras.Input((6,)))
        model.add(layers.Dense(8))
        model.add(keras.Sequential([layers.Dense(3)]))
        self.assertEqual([w.shape for w in model.get_weights()], [(6, 8), (8,), (8, 3), (3,)])
        self.assertEqual([x.name for x in model.layers], ["dense", "sequential"])
        self.assertEqual(model.get_layer("sequential/dense").count_params(), 27)
        self.assertEqual([v.name for v in model.weights][2:],
                         ["sequential/dense/kernel", "sequential/dense/bias"])
        with self.assertRaisesRegex(ValueError, "in use"):
            model.add(layers.Dense(1))
        with self.assertRaisesRegex(ValueError, "has no layer 'x'; there are dense, sequential"):
            model.get_layer("x")

    def test_names_are_the_library_s(self):
        model = keras.Sequential([layers.Dense(2, input_shape=(6,)), layers.LeakyReLU(),
                                  layers.Dense(2, name="own"), layers.Dense(2)])
        lines = []
        model.summary(lines.append)
        for layer in model.layers:
            self.assertIn(f"{layer.name} ({type(layer).__name__})", lines[0])

    def test_graph(self):
        image, size = keras.Input((6,), name="image"), keras.Input((2,), name="size")
        shared = layers.Dense(4, "relu")
        first = shared(image)
        inner = keras.Sequential([layers.Dense(4)], name="inner")
        second = inner(first) + first
        joined = layers.Concatenate()([second, size])
        model = keras.Model({"image": image, "size": size},
                            {"label": layers.Dense(2, "softmax")(joined),
                             "area": layers.Dense(1)(joined)})
        self.assertEqual(model.input_names, ["image", "size"])
        self.assertEqual(model.output_names, ["label", "area"])
        self.assertIn("inner/dense/kernel", " ".join(v.name for v in model.weights))
        self.assertEqual(model.get_layer("inner/dense").get_weights()[0].shape, (4, 4))
        self.assertEqual(model.get_layer("dense").get_weights()[0].shape, (6, 4))
        model.compile("adam", {"label": "sparse_categorical_crossentropy", "area": "mse"},
                      {"label": ["accuracy"], "area": [keras.metrics.MeanAbsoluteError("mae")]},
                      loss_weights={"label": 1.0, "area": 0.5})
        other = np.ones((64, 2), np.float32)
        history = model.fit({"image": X, "size": other}, {"label": Y, "area": X[:, :1]},
                            verbose=0).history
        self.assertEqual(set(history), {"loss", "label_loss", "area_loss", "label_accuracy",
                                        "area_mae", "learning_rate"})
        self.assertEqual([p.shape for p in model.predict([X, other], verbose=0)],
                         [(64, 2), (64, 1)])

    def test_graphs_that_do_not_fit(self):
        x = keras.Input((6,))
        y = layers.Dense(2)(x)
        with self.assertRaisesRegex(ValueError, "depends on an Input that is not in inputs"):
            keras.Model(keras.Input((6,)), y)
        with self.assertRaisesRegex(TypeError, r"layers.Lambda\(function\)"):
            rf.square(y)
        with self.assertRaisesRegex(ValueError, "rf_layer_conv2d|conv2d"):
            keras.Model(x, layers.Conv2D(2, 3)(x)).predict(X, verbose=0)

    def test_shared_weights(self):
        x = keras.Input((6,))
        hidden = layers.Dense(4, "relu")(x)
        inside = keras.Model(x, hidden, name="inside")
        whole = keras.Model(x, layers.Dense(2)(hidden))
        whole.compile("sgd", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
        before = inside.predict(X, verbose=0)
        whole.fit(X, Y, verbose=0)
        after = inside.predict(X, verbose=0)
        self.assertFalse(np.array_equal(before, after))
        self.assertEqual([v.name for v in inside.weights], ["dense/kernel", "dense/bias"])
        np.testing.assert_array_equal(inside.get_weights()[0], whole.get_weights()[0])
        inside.save(self.path("m"))
        np.testing.assert_array_equal(
            keras.models.load_model(self.path("m")).predict(X, verbose=0), after)
        # An encoder in two models, and by itself.
        encoder = keras.Sequential([layers.Dense(3, input_shape=(6,))])
        decoder = keras.Sequential([layers.Dense(6, input_shape=(3,))], name="decoder")
        auto = keras.Sequential([encoder, decoder])
        auto.compile("sgd", "mse")
        y = keras.Input((6,))
        twins = keras.Model([x, y], encoder(x) + encoder(y))
        self.assertEqual(twins.count_params(), 21)
        auto.fit(X, X, verbose=0)
        np.testing.assert_allclose(twins.predict([X, X], verbose=0),
                                   2 * encoder.predict(X, verbose=0), rtol=1e-5, atol=1e-6)
        self.assertIs(auto.get_layer("decoder"), decoder)
        encoder.trainable = False
        self.assertEqual([v.name for v in auto.trainable_variables],
                         ["decoder/dense/kernel", "decoder/dense/bias"])

    def test_another_head(self):
        classifier().save(self.path("m"))
        base = keras.models.load_model(self.path("m"))
        self.assertEqual([x.name for x in base.layers], ["dense", "dense_1"])
        self.assertEqual(base.get_layer("dense_1").count_params(), 18)
        base.get_layer("dense").trainable = False
        self.assertEqual(len(base.trainable_variables), 2)
        model = keras.Sequential([
            keras.models.ModelLayer(base, last_layer="dense", name="base", trainable=False),
            layers.Dense(5, name="head")])
        model.build((None, 6))
        self.assertEqual([v.name for v in model.trainable_variables], ["head/kernel", "head/bias"])
        self.assertEqual([v.name for v in model.non_trainable_variables],
                         ["base/dense/kernel", "base/dense/bias"])
        model.save(self.path("n"))
        again = keras.models.load_model(self.path("n"))
        np.testing.assert_array_equal(again.predict(X, verbose=0), model.predict(X, verbose=0))
        self.assertEqual(again.get_layer("base/dense").count_params(), 56)
        with self.assertRaisesRegex(ValueError, "no layer 'none'"):
            again.get_layer("none")

    def test_shapes_while_describing(self):
        words, image = keras.Input((7,), dtype="int32"), keras.Input((8, 8, 3))
        x = layers.Embedding(5, 4, mask_zero=True)(words)
        self.assertEqual((x.shape, x.ndim, x.dtype), ((None, 7, 4), 3, rf.float32))
        y, state = layers.GRU(3, return_state=True)(x)
        self.assertEqual((y.shape, state.shape), ((None, 3), (None, 3)))
        z = layers.Conv2D(5, 3, strides=2)(image)
        self.assertEqual((image.shape, z.shape), ((None, 8, 8, 3), (None, 3, 3, 5)))
        self.assertEqual(layers.Dense(z.shape[-1])(layers.Flatten()(z)).shape, (None, 5))
        net = keras.Sequential([layers.Dense(9, input_shape=(3,))])
        self.assertEqual(net(y).shape, (None, 9))
        self.assertEqual(layers.MultiHeadAttention(2, 4)(x).shape, (None, 7, 4))
        table = layers.Embedding(5, 4)
        self.assertEqual(layers.EmbeddingHead(table)(table(words)).shape, (None, 7, 5))
        both = layers.Bidirectional(layers.LSTM(3))(x)
        self.assertEqual((both.shape, keras.Model(words, both).count_params()), ((None, 6), 212))
        model = keras.Model([words, image], [y, layers.Dense(2)(layers.Flatten()(z))])
        self.assertEqual(model.count_params(), 20 + 81 + 140 + 92)
        with self.assertRaisesRegex(ValueError, "conv2d"):
            self.assertEqual(layers.Conv2D(2, 3)(words).shape, ())

    def test_open_lengths(self):
        words = keras.Input((None,), dtype="int32")
        x = layers.GRU(3, return_sequences=True)(layers.Embedding(5, 4)(words))
        self.assertEqual((words.shape, x.shape), ((None, None), (None, None, 3)))
        model = keras.Model(words, x)
        model.save(self.path("m"))
        model.export(self.path("m.onnx"))
        loaded = keras.models.load_model(self.path("m"))
        for length in 2, 9:
            tokens = np.arange(3 * length, dtype=np.int32).reshape(3, length) % 5
            made = model.predict(tokens, verbose=0)
            self.assertEqual(made.shape, (3, length, 3))
            np.testing.assert_array_equal(loaded.predict(tokens, verbose=0), made)

    def test_masks_travel(self):
        tokens = np.array([[1, 2, 0, 0], [3, 0, 0, 0], [4, 4, 4, 4]], np.int32)
        words = keras.Input((4,), dtype="int32")
        embedding = layers.Embedding(5, 4)
        dense, head = layers.Dense(4), layers.MultiHeadAttention(1, 4)
        sequences, last = layers.GRU(3, return_sequences=True), layers.Bidirectional(layers.LSTM(2))
        mask = layers.NotEqual(0)(words)
        x = head(dense(embedding(words)), attention_mask=mask)
        wanted = keras.Model(words, last(sequences(x, mask=mask), mask=mask))
        masked = layers.Embedding(5, 4, mask_zero=True)
        x = layers.Dropout(0.5)(layers.Dense(4)(masked(words)))
        x = layers.GRU(3, return_sequences=True)(layers.MultiHeadAttention(1, 4)(x))
        model = keras.Model(words, layers.Bidirectional(layers.LSTM(2))(x))
        other = np.array([[1, 2, 3, 3], [3, 1, 1, 1], [4, 4, 4, 4]], np.int32)
        for net in wanted, model:
            net.predict(tokens, verbose=0)
        model.set_weights(wanted.get_weights())
        np.testing.assert_array_equal(model.predict(tokens, verbose=0),
                                      wanted.predict(tokens, verbose=0))
        self.assertFalse(np.allclose(model.predict(tokens, verbose=0)[:2],
                                     model.predict(other, verbose=0)[:2]))
        short = keras.Sequential([keras.Input((4,), dtype="int32"),
                                  layers.Embedding(5, 4, mask_zero=True), layers.SimpleRNN(2)])
        plain = keras.Sequential([keras.Input((2,), dtype="int32"), layers.Embedding(5, 4),
                                  layers.SimpleRNN(2)])
        for net, x in (short, tokens), (plain, tokens[:, :2]):
            net.predict(x, verbose=0)
        plain.set_weights(short.get_weights())
        np.testing.assert_allclose(short.predict(tokens[:1], verbose=0),
                                   plain.predict(tokens[:1, :2], verbose=0), rtol=1e-5, atol=1e-6)
        with self.assertRaisesRegex(ValueError, "would not heed"):
            layers.GlobalAveragePooling1D()(masked(words))
        with self.assertRaisesRegex(ValueError, "begin with an Input"):
            keras.Sequential([layers.Embedding(5, 4, mask_zero=True)]).predict(tokens, verbose=0)

    def test_names_of_all_layers(self):
        model = keras.Sequential([layers.Flatten(name="rows", input_shape=(3, 2)),
                                  layers.Dropout(0.5, name="drop"), layers.ReLU()])
        model.build((None, 3, 2))
        lines = []
        model.summary(lines.append)
        for name in "rows", "drop", "activation":
            self.assertIn(f"\n{name} (", lines[0])

    def test_function(self):
        class Net(keras.Model):
            def __init__(self):
                super().__init__(num_outputs=2)
                self.blocks = [layers.Dense(4), layers.Dense(4)]
                self.drop = layers.Dropout(0.5)

            def call(self, inputs, training=None):
                a, b = inputs
                for block in self.blocks:
                    a = rf.nn.relu(block(a))
                return self.drop(a), a + rf.reduce_sum(b)

        model = Net()
        one, two = model([X[:8], X[:8]])
        self.assertEqual((one.shape, two.shape), ((8, 4), (8, 4)))
        self.assertEqual(len(model.trainable_variables), 4)
        dropped, _ = model([X[:8], X[:8]], training=True)
        self.assertTrue((dropped.numpy() == 0).sum() > (one.numpy() == 0).sum())
        with self.assertRaisesRegex(rf.UnsupportedError, "rf_model_save"):
            model.save(self.path("m"))

        class Wrong(keras.Model):
            def call(self, inputs):
                return inputs, inputs

        with self.assertRaisesRegex(ValueError, r"call\(\) gave 2 tensors, .*num_outputs=1"):
            Wrong()(X)
        with self.assertRaisesRegex(NotImplementedError, "has no call"):
            type("Empty", (keras.Model,), {})()(X)

    def test_training_reaches_models_in_models(self):
        class Net(keras.Model):
            def __init__(self):
                super().__init__()
                self.inner = keras.Sequential([layers.Dropout(0.5)])

            def call(self, inputs):
                return self.inner(inputs)

        model = Net()
        ones = np.ones((64, 6), np.float32)
        np.testing.assert_array_equal(model(ones).numpy(), ones)
        self.assertGreater((model(ones, training=True).numpy() == 0).sum(), 50)

    def test_attributes_that_are_replaced(self):
        class Net(keras.Model):
            def __init__(self):
                super().__init__()
                self.head = layers.Dense(3)
                self._body = {"only": layers.Dense(4)}
                self.head = layers.Dense(2)

            def call(self, inputs):
                return self.head(self._body["only"](inputs))

        model = Net()
        self.assertEqual(model(X).shape, (64, 2))
        self.assertEqual([x.name for x in model.layers], ["dense", "dense_1"])

    def test_penalties(self):
        plain, model = classifier(), keras.Sequential([layers.Dense(
            2, kernel_initializer="ones", kernel_regularizer=keras.regularizers.l2(0.5))])

        @rf.function
        def step(x):
            plain(x), model(x)
            return model.losses[0] + plain.losses[0]

        self.assertEqual(float(step(X)), 6)

    def test_frozen_layers(self):
        model = classifier()
        model.layers[0].trainable = False
        model.compile("sgd", "mse")
        self.assertEqual([v.name for v in model.trainable_variables],
                         ["dense_1/kernel", "dense_1/bias"])
        self.assertEqual(len(model.non_trainable_variables), 2)

    def test_weights(self):
        one, two = classifier(), classifier()
        two.set_weights(one.get_weights())
        np.testing.assert_array_equal(one.predict(X, verbose=0), two.predict(X, verbose=0))
        with self.assertRaisesRegex(ValueError, "1 arrays for 4 variables"):
            two.set_weights([X])
        self.assertIs(one.weights[0], one.layers[0].weights[0])

    def test_files(self):
        model = classifier()
        model.fit(X, Y, verbose=0)
        wanted = model.predict(X, verbose=0)
        model.save(self.path("m.keras"))
        loaded = keras.models.load_model(self.path("m.keras"))
        np.testing.assert_array_equal(loaded.predict(X, verbose=0), wanted)
        self.assertEqual(loaded.evaluate(X, Y, verbose=0), model.evaluate(X, Y, verbose=0))
        loaded.fit(X, Y, verbose=0)
        model.save_weights(self.path("w"))
        other = classifier()
        other.load_weights(self.path("w"))
        np.testing.assert_array_equal(other.predict(X, verbose=0), wanted)
        model.export(self.path("m.onnx"))
        model.export(self.path("m.safetensors"))
        model.export(self.path("m.rfck"))
        self.assertGreater(os.path.getsize(self.path("m.onnx")), 100)
        inference = keras.models.Inference(self.path("m.rfck"))
        self.assertEqual(inference.inputs["input"][0], (-1, 6))
        np.testing.assert_allclose(inference(X), wanted, rtol=1e-5, atol=1e-6)
        with self.assertRaisesRegex(rf.NotFoundError, "nowhere"):
            keras.models.load_model(self.path("nowhere"))

    def test_onnx_comes_in(self):
        words = keras.Input((None, 4))
        model = keras.Model(words, layers.Dense(3)(layers.Dense(5, "tanh", name="first")(words)))
        model.export(self.path("m.onnx"))
        x = np.arange(24, dtype=np.float32).reshape(2, 3, 4) / 24
        imported = keras.models.import_onnx(self.path("m.onnx"))
        np.testing.assert_array_equal(imported.predict(x, verbose=0), model.predict(x, verbose=0))
        self.assertEqual(imported.count_params(), 5 * 5 + 6 * 3)
        imported.compile("sgd", "mse")
        imported.fit(x, x[..., :3], verbose=0)
        fixed = keras.models.import_onnx(self.path("m.onnx"), [(3, 4)])
        self.assertEqual(fixed.get_layer("first").count_params(), 25)
        with self.assertRaisesRegex(ValueError, r"input_shapes\[0\] .* does not fit input"):
            keras.models.import_onnx(self.path("m.onnx"), [(None, 5)])

    def test_weights_under_other_names(self):
        model = classifier()
        model.save_weights(self.path("w"))
        model.export(self.path("w.safetensors"))
        wider = keras.Sequential([layers.Dense(8, name="body"), layers.Dense(9)])
        wider.build((None, 6))
        for name in "w", "w.safetensors":
            report = wider.load_weights(self.path(name), skip_mismatch=True, rules={
                "dense/*": "body/*", "dense_1/*": "dense/*"})
            self.assertEqual(report.loaded, [("body/kernel", "dense/kernel"),
                                             ("body/bias", "dense/bias")])
            self.assertEqual(report.mismatched[1],
                             ("dense/bias", "dense_1/bias", "f32 [2], not f32 [9]"))
            self.assertEqual((report.missing, report.left_over), ([], []))
            np.testing.assert_array_equal(wider.get_weights()[0], model.get_weights()[0])
        turned = keras.Sequential([layers.Dense(6, name="turned", use_bias=False)])
        turned.build((None, 8))
        rule = keras.models.WeightRule("dense/kernel", "turned/kernel", perm=(1, 0))
        self.assertEqual(turned.load_weights(self.path("w"), rules=[rule]).left_over,
                         ["dense/bias", "dense_1/bias", "dense_1/kernel"])
        np.testing.assert_array_equal(turned.get_weights()[0], model.get_weights()[0].T)
        with self.assertRaisesRegex(rf.NotFoundError, "no tensor 'turned/kernel'"):
            turned.load_weights(self.path("w"))
        report = turned.load_weights(self.path("w"), allow_missing=True)
        self.assertEqual(report.missing, ["turned/kernel"])
        with self.assertRaisesRegex(rf.InvalidArgumentError, "'dense/bias'"):
            turned.load_weights(self.path("w"), allow_missing=True, refuse_left_over=True)

    def test_models_go(self):
        model = classifier()
        model.fit(X, Y, verbose=0)
        gone = weakref.ref(model)
        del model
        gc.collect()
        self.assertIsNone(gone())

    def test_mixed_precision(self):
        keras.mixed_precision.set_global_policy("mixed_bfloat16")
        try:
            coarse = classifier()
            coarse.fit(X, Y, verbose=0)
            fine = keras.Sequential([layers.Dense(8, "relu", dtype="float32"),
                                     layers.Dense(2, dtype="float32")])
            fine(X)
            fine.set_weights(coarse.get_weights())
            difference = np.abs(fine.predict(X, verbose=0) - coarse.predict(X, verbose=0)).max()
            self.assertTrue(0 < difference < 0.1, difference)
        finally:
            keras.mixed_precision.set_global_policy("float32")
        with self.assertRaisesRegex(ValueError, "is none of"):
            keras.mixed_precision.set_global_policy("float16")


class Fit(Folder):
    def test_arrays_of_the_library_are_kept_and_freed(self):
        model = keras.Sequential([layers.UpSampling2D(32, input_shape=(8, 8, 4))])
        images = np.ones((8, 8, 8, 4), np.float32)

        def resident():
            with open("/proc/self/statm") as file:
                return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")

        kept = model.predict(images, verbose=0)[1:]
        before = resident()
        for _ in range(10):  # of 8 MiB each
            self.assertEqual(model.predict(images, verbose=0).sum(), 8 * 256 * 256 * 4)
        self.assertLess(resident() - before, 40 << 20)
        self.assertEqual((kept.min(), kept.max()), (1, 1))
        kept[0] = 2

    def test_two_replicas_train_as_one_does(self):
        histories = []
        for devices in (["0"], ["0", "0"]):
            strategy = rf.MirroredStrategy(devices)
            with strategy.scope():
                model = keras.Sequential([layers.Dense(2, kernel_initializer="ones")])
                model.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True),
                              ["accuracy"])
            self.assertEqual(strategy.num_replicas_in_sync, len(devices))
            histories.append(model.fit(X, Y, epochs=3, verbose=0).history)
        np.testing.assert_allclose(histories[0]["loss"], histories[1]["loss"], rtol=1e-5)

    def test_arrays(self):
        model = classifier()
        history = model.fit(X, Y, batch_size=16, epochs=20, validation_split=0.25, verbose=0)
        self.assertEqual(history.epoch, list(range(20)))
        self.assertEqual(set(history.history), {"loss", "accuracy", "val_loss", "val_accuracy",
                                                "learning_rate"})
        self.assertGreater(history.history["accuracy"][-1], 0.9)
        loss, accuracy = model.evaluate(X, Y, verbose=0)
        self.assertGreater(accuracy, 0.9)
        self.assertEqual(model.evaluate(X, Y, verbose=0, return_dict=True)["loss"], loss)
        self.assertIs(model.history, history)

    def test_datasets(self):
        data = Dataset.from_tensor_slices((X, Y)).shuffle(64).batch(16)
        model = classifier(steps_per_execution=2)
        history = model.fit(data.repeat(), epochs=3, steps_per_epoch=2, verbose=0,
                            validation_data=data, validation_steps=1)
        self.assertEqual(len(history.epoch), 3)
        self.assertEqual(model.predict(data, steps=2, verbose=0).shape, (32, 2))
        with self.assertRaisesRegex(ValueError, "not batched"):
            model.fit(data.unbatch())
        with self.assertRaisesRegex(ValueError, "y goes with arrays"):
            model.fit(data, Y)
        with self.assertRaises(TypeError):
            model.fit(X, Y, epoch=1)

    def test_weights(self):
        weights = np.where(Y == 1, 2.0, 0.0)
        runs = [classifier() for _ in range(3)]
        for run in runs[1:]:
            run.set_weights(runs[0].get_weights())
        runs[0].fit(X, Y, sample_weight=weights, shuffle=False, verbose=0)
        runs[1].fit(X, Y, class_weight={0: 0.0, 1: 2.0}, shuffle=False, verbose=0)
        runs[2].fit(Dataset.from_tensor_slices((X, Y)).batch(32), class_weight={1: 2.0, 0: 0.0},
                    verbose=0)
        for run in runs[1:]:
            for a, b in zip(runs[0].get_weights(), run.get_weights()):
                np.testing.assert_array_equal(a, b)
        losses = [run.train_on_batch(X, Y, **options) for run, options in zip(runs, (
            {"sample_weight": weights}, {"class_weight": {0: 0.0, 1: 2.0}}))]
        self.assertEqual(*(loss[0] for loss in losses))

    def test_functions_as_loss_and_metric(self):
        def distance(y_true, y_pred):
            return rf.reduce_sum(rf.abs(y_pred - y_true), axis=-1)

        model = keras.Sequential([layers.Dense(1)])
        model.compile("sgd", distance, [distance])
        logs = model.evaluate(X, X[:, :1], verbose=0, return_dict=True)
        self.assertAlmostEqual(logs["loss"], logs["distance"], places=5)

        def wrong(y_true, y_pred):
            raise KeyError("in the loss")

        model.compile("sgd", wrong)
        with self.assertRaisesRegex(KeyError, "in the loss"):
            model.fit(X, X[:, :1], verbose=0)

    def test_numbers_in_lists(self):
        model = keras.Sequential([layers.Dense(1, kernel_initializer="ones")])
        self.assertEqual(model.predict([[1.0, 2.0], [3.0, 4.0]], verbose=0).tolist(), [[3], [7]])
        described = keras.Input((2,))
        model = keras.Model(described, 2.0 * described + 1)
        self.assertEqual(model.predict([[1.0, 2.0]], verbose=0).tolist(), [[3, 5]])

    def test_compile_first(self):
        model = keras.Sequential([layers.Dense(1)])
        for call in (model.fit, model.evaluate, model.train_on_batch):
            with self.assertRaisesRegex(ValueError, "not compiled; call compile"):
                call(X, Y)
        model.compile("sgd", "mse")
        with self.assertRaisesRegex(ValueError, "no meaning beside"):
            model.compile("adam", "mse", ["accuracy"])
        model.fit(X, X[:, :1], verbose=0)  # as it was compiled before

    def test_single_batches(self):
        model = classifier()
        first = model.train_on_batch(X, Y, return_dict=True)
        self.assertEqual(set(first), {"loss", "accuracy"})
        loss, _ = model.train_on_batch(X, Y)
        self.assertLess(loss, first["loss"])
        self.assertEqual(model.test_on_batch(X, Y), model.evaluate(X, Y, verbose=0))
        self.assertEqual(model.predict_on_batch(X[:3]).shape, (3, 2))

    def test_device_cache(self):
        one, two = classifier(), classifier()
        two.set_weights(one.get_weights())
        one.fit(X, Y, verbose=0)
        two.fit(X, Y, verbose=0, device_cache=True)
        np.testing.assert_array_equal(one.get_weights()[0], two.get_weights()[0])

    def test_what_a_map_raises(self):
        def odd(x, y):
            raise KeyError("of an element")

        data = Dataset.from_tensor_slices((X, Y)).map(
            odd, (rf.TensorSpec((6,)), rf.TensorSpec((), "int32"))).batch(16)
        with self.assertRaisesRegex(KeyError, "of an element"):
            classifier().fit(data, verbose=0)

    def test_diverges(self):
        model = keras.Sequential([layers.Dense(1)])
        model.compile("sgd", "mse")
        with self.assertRaises(rf.NotFiniteError):
            model.fit(np.full((4, 6), np.inf, np.float32), np.zeros((4, 1)), verbose=0)


class Seen(callbacks.Callback):
    def __init__(self):
        self.calls = []

    def on_train_begin(self, logs=None):
        self.calls.append("begin")

    def on_epoch_begin(self, epoch, logs=None):
        self.calls.append(epoch)

    def on_train_batch_end(self, batch, logs=None):
        self.calls.append((batch, sorted(logs)))

    def on_epoch_end(self, epoch, logs=None):
        self.calls.append("val_loss" in logs)

    def on_train_end(self, logs=None):
        self.calls.append("end")


class Callbacks(Folder):
    def test_every_field_has_an_argument(self):
        for struct, made, others in (
                ("early_stopping", callbacks.EarlyStopping(), {"monitor", "baseline"}),
                ("reduce_lr_on_plateau", callbacks.ReduceLROnPlateau(), {"monitor"}),
                ("model_checkpoint", callbacks.ModelCheckpoint("p"),
                 {"path", "monitor", "initial_value_threshold"}),
                ("backup", callbacks.BackupAndRestore("p"), {"directory"}),
                ("tensorboard", callbacks.TensorBoard(), {"directory"})):
            fields = {name for name, _ in ffi.typeof(f"rf_{struct}_params").fields}
            self.assertEqual(fields - {"reserved"}, set(made._params) | others)

    def test_order(self):
        seen = Seen()
        classifier().fit(X, Y, batch_size=32, callbacks=seen, verbose=0, validation_data=(X, Y))
        batches = [(i, ["accuracy", "loss"]) for i in range(2)]
        self.assertEqual(seen.calls, ["begin", 0, *batches, True, "end"])
        self.assertEqual(seen.params, {"epochs": 1, "steps": 2, "verbose": 0})

    def test_what_raises(self):
        class Raises(callbacks.Callback):
            def on_epoch_end(self, epoch, logs=None):
                raise KeyError("mine")

        model = classifier()
        with self.assertRaisesRegex(KeyError, "mine"):
            model.fit(X, Y, callbacks=[Raises()], verbose=0)
        model.fit(X, Y, verbose=0)
        with self.assertRaisesRegex(TypeError, "is no Callback"):
            model.fit(X, Y, callbacks=[print], verbose=0)

    def test_stop_training(self):
        stop = callbacks.LambdaCallback(on_epoch_end=lambda epoch, logs: setattr(
            model, "stop_training", epoch == 1))
        model = classifier()
        self.assertEqual(model.fit(X, Y, epochs=9, callbacks=[stop], verbose=0).epoch, [0, 1])
        with self.assertRaisesRegex(TypeError, "on_epok_end"):
            callbacks.LambdaCallback(on_epok_end=print)

    def test_rates(self):
        one = callbacks.LearningRateScheduler(lambda epoch: 0.5 if epoch == 0 else 0.25)
        self.assertEqual(classifier().fit(X, Y, epochs=2, callbacks=one, verbose=0)
                         .history["learning_rate"], [0.5, 0.25])
        two = callbacks.LearningRateScheduler(lambda epoch, rate: rate / 2, verbose=1)
        with contextlib.redirect_stdout(io.StringIO()) as out:
            classifier().fit(X, Y, callbacks=two, verbose=0)
        self.assertIn("Epoch 1: LearningRateScheduler setting learning rate to 0.01",
                      out.getvalue())

        def wrong(epoch):
            raise KeyError("no rate")

        with self.assertRaisesRegex(KeyError, "no rate"):
            classifier().fit(X, Y, callbacks=callbacks.LearningRateScheduler(wrong), verbose=0)

    def test_plateaus(self):
        for arguments, wanted in (({}, [0.02] * 4),
                                  ({"patience": 0, "factor": 0.5}, [0.02, 0.02, 0.01, 0.005]),
                                  ({"patience": 1, "factor": 0}, [0.02, 0.02, 0, 0])):
            plateau = callbacks.ReduceLROnPlateau("loss", min_delta=100, **arguments)
            history = classifier().fit(X, Y, epochs=4, callbacks=plateau, verbose=0)
            np.testing.assert_allclose(history.history["learning_rate"], wanted, rtol=1e-6)
        with self.assertRaisesRegex(ValueError, "factor 1 "):
            classifier().fit(X, Y, callbacks=callbacks.ReduceLROnPlateau(factor=1), verbose=0)

    def test_validation_freq(self):
        log = self.path("log.csv")
        history = classifier().fit(X, Y, epochs=5, validation_data=(X, Y), validation_freq=2,
                                   callbacks=callbacks.CSVLogger(log), verbose=0).history
        self.assertEqual([len(history[name]) for name in ("loss", "val_loss")], [5, 2])
        with open(log) as file:
            columns = list(zip(*(line.split(",") for line in file.read().split())))
        self.assertEqual([bool(cell) for cell in columns[3]], [True] + [False, True] * 2 + [False])

    def test_baseline(self):
        for arguments, epochs in (({"baseline": 0.0}, 2), ({"start_from_epoch": 3}, 5)):
            stop = callbacks.EarlyStopping("loss", min_delta=100, patience=1, **arguments)
            history = classifier().fit(X, Y, epochs=9, callbacks=stop, verbose=0)
            self.assertEqual(len(history.epoch), epochs)

    def test_throughput(self):
        speeds = []
        classifier().fit(X, Y, epochs=2, verbose=0, callbacks=callbacks.Throughput(
            lambda epoch, rate: speeds.append((epoch, rate > 0))))
        self.assertEqual(speeds, [(0, True), (1, True)])

    def test_early_stopping_and_files(self):
        model = classifier()
        listed = [callbacks.EarlyStopping("loss", min_delta=100, patience=2),
                  callbacks.ModelCheckpoint(self.path("c", "ckpt_{epoch}"), save_weights_only=True),
                  callbacks.CSVLogger(self.path("log.csv")),
                  callbacks.TensorBoard(self.path("logs"), histogram_freq=1)]
        history = model.fit(X, Y, epochs=9, callbacks=listed, verbose=0)
        self.assertEqual(len(history.epoch), 3)
        self.assertEqual(sorted(os.listdir(self.path("c"))),
                         [f"ckpt_{i}.rfck" for i in (1, 2, 3)])
        model.load_weights(rf.train.latest_checkpoint(self.path("c"), "ckpt_{epoch}"))
        with open(self.path("log.csv")) as file:
            self.assertEqual(len(file.readlines()), 4)
        self.assertEqual(len(glob.glob(self.path("logs", "train", "events*"))), 1)
        with self.assertRaisesRegex(ValueError, "nothing"):
            model.fit(X, Y, callbacks=callbacks.EarlyStopping("nothing"), verbose=0)
        with self.assertRaisesRegex(ValueError, "mode='up'"):
            callbacks.ModelCheckpoint("x", mode="up")

    def test_backup(self):
        def fit(stop_at):
            class Stops(callbacks.Callback):
                def on_epoch_begin(self, epoch, logs=None):
                    if epoch == stop_at:
                        raise KeyboardInterrupt

            rf.distribute.get_strategy().set_seed(7)
            model = keras.Sequential([layers.Dense(2, input_shape=(6,),
                                                   kernel_initializer="ones")])
            model.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
            history = model.fit(X, Y, epochs=4, verbose=0,
                                callbacks=[callbacks.BackupAndRestore(self.path("b")), Stops()])
            return history.epoch, model.get_weights()[0]

        _, whole = fit(None)
        with self.assertRaises(KeyboardInterrupt):
            fit(2)
        epochs, rest = fit(None)
        self.assertEqual(epochs, [2, 3])
        np.testing.assert_array_equal(rest, whole)


class Printing(unittest.TestCase):
    def lines(self, stream, **options):
        model = classifier()
        with contextlib.redirect_stdout(stream):
            model.fit(X, Y, batch_size=16, epochs=2, **options)
        return stream.getvalue().split("\n")

    def test_a_line_for_each_epoch(self):
        lines = self.lines(io.StringIO(), validation_data=(X, Y))
        self.assertEqual((lines[0], lines[2]), ("Epoch 1/2", "Epoch 2/2"))
        self.assertRegex(lines[1], r"^4/4 - \d+s - loss: \d\.\d{4} - accuracy: [01]\.\d{4} - "
                                   r"val_loss: .* - \d+s/epoch - \d+[mu]?s/step$")

    def test_a_bar(self):
        class Terminal(io.StringIO):
            def isatty(self):
                return True

        lines = self.lines(Terminal())
        self.assertRegex(lines[1].split("\r")[-1],
                         r"^4/4 \[={30}\] - \d+s \d+[mu]?s/step - loss: .* - accuracy: ")

    def test_nothing(self):
        self.assertEqual(self.lines(io.StringIO(), verbose=0), [""])
        with self.assertRaisesRegex(ValueError, "verbose=3"):
            classifier().fit(X, Y, verbose=3)

    def test_where_a_line_is_drawn_anew(self):
        from ringfire.keras import _progress
        notebook = type("OutStream", (io.StringIO,), {"__module__": "ipykernel.iostream"})()
        self.assertEqual([_progress.verbosity("auto", stream) for stream in
                          (notebook, io.StringIO())], [1, 2])

    def test_bars(self):
        from ringfire.keras import _progress
        self.assertEqual(_progress.format_bar(5, 10), " 5/10 [" + "=" * 15 + ">" + "." * 14 + "]")
        self.assertEqual(_progress.format_bar(3, -1), "3/Unknown")
        self.assertEqual(_progress.format_time(3, 2), "3s 2s/step")
        self.assertEqual(_progress.format_values({"a": 0.5, "b": 1e-4}),
                         " - a: 0.5000 - b: 1.0000e-04")


LEFT = """
import numpy as np, ringfire as rf
from ringfire import keras
x, y = np.ones((64, 4), np.float32), np.zeros(64, np.int32)
loose = keras.layers.Dense(3)
loose._make()
data = rf.data.Dataset.from_tensor_slices((x, y)).map(lambda a, b: (a, b)).prefetch(2).batch(8)
iterator = iter(data)
next(iterator)
model = keras.Sequential([keras.layers.Dense(3)])
model.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True), ["accuracy"])
history = model.fit(data.repeat(), steps_per_epoch=3, epochs=2, verbose=0,
                    callbacks=[keras.callbacks.Callback(), keras.callbacks.EarlyStopping("loss")])
described = keras.Input((4,))
other = keras.Model(described, keras.layers.Dense(2)(described))
made = other.predict(x, verbose=0), loose(x), keras.optimizers.Custom(lambda w, g, s, n: w - g)
cycle = [model, other, data, iterator, made]
cycle.append(cycle)
"""


class End(unittest.TestCase):
    def test_objects_that_are_left(self):
        made = subprocess.run([sys.executable, "-c", LEFT], timeout=60, capture_output=True,
                              text=True)
        self.assertEqual((made.returncode, made.stdout, made.stderr), (0, "", ""))


class CtrlC(unittest.TestCase):
    def test_between_steps(self):
        """It comes while a step runs; fit ends before the next one, and the model can be used."""
        def interrupt(x, y):
            interrupt.count += 1
            if interrupt.count == 100:
                os.kill(os.getpid(), signal.SIGINT)
            return x, y

        interrupt.count = 0
        spec = (rf.TensorSpec((6,)), rf.TensorSpec((), "int32"))
        data = Dataset.from_tensor_slices((X, Y)).repeat().map(interrupt, spec).batch(16)
        model = classifier()
        with self.assertRaises(KeyboardInterrupt):
            model.fit(data, epochs=1000, steps_per_epoch=100, verbose=0)
        self.assertLess(interrupt.count, 1000)
        self.assertEqual(model.predict(X, verbose=0).shape, (64, 2))
        self.assertEqual(len(model.fit(X, Y, epochs=2, verbose=0).epoch), 2)

    def test_while_the_library_computes(self):
        """Python then hears of it when a callback of its own begins."""
        model = classifier()
        model.fit(X, Y, verbose=0)
        for _ in range(3):
            timer = threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT))
            with self.assertRaises(KeyboardInterrupt):
                timer.start()
                model.fit(X, Y, batch_size=8, epochs=1000000, verbose=0)
        self.assertEqual(len(model.fit(X, Y, epochs=2, verbose=0).epoch), 2)


if __name__ == "__main__":
    unittest.main(verbosity=1)
