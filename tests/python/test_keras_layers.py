# SPDX-License-Identifier: Apache-2.0
"""ringfire.keras.layers: every setting of the library has an argument, and every layer gives what
its shape says; where PyTorch is installed, its values."""
import inspect
import unittest

import numpy as np

import ringfire as rf
from ringfire import keras
from ringfire._lib import ffi
from ringfire.keras import layers
from ringfire.keras._params import find, leaves
from ringfire.keras.layers import *  # noqa: F403

try:
    import torch
except ImportError:
    torch = None

IMAGE, STEPS, ROW = (8, 6, 4), (5, 4), (4,)

# Each layer with all of its arguments: what it takes and what it gives.
LAYERS = [
    (lambda: Dense(3, "relu", True, "he_normal", "ones", "l2", name="named"), ROW, (3,)),
    (lambda: Dense(3), STEPS, (5, 3)),
    (lambda: Conv2D(6, 3, 2, "same", 1, 2, "gelu", True, "he_normal", "ones", "l2", name="n1"),
     IMAGE, (4, 3, 6)),
    (lambda: Conv2D(5, (3, 1), padding=((1, 0), (0, 2)), dilation_rate=(1, 1)), IMAGE, (7, 8, 5)),
    (lambda: Conv2DTranspose(2, 3, 2, "same"), IMAGE, (16, 12, 2)),
    (lambda: Conv1D(6, 3, 1, "causal", 2, 2, "tanh", True, "he_normal", "ones", "l1", name="n2"),
     STEPS, (5, 6)),
    (lambda: Conv1D(6, 2, 2, "same"), STEPS, (3, 6)),
    (lambda: DepthwiseConv2D(3, 1, "same", 2, 1, "elu", True, "he_normal", "ones", "l2",
                             name="n3"), IMAGE, (8, 6, 8)),
    (lambda: SeparableConv2D(5, 3, 1, "valid", 1, 2, "selu", True, "he_normal", "he_normal",
                             "ones", "l2", "l2", name="n4"), IMAGE, (6, 4, 5)),
    (lambda: BatchNormalization(-1, 0.9, 1e-4, True, True, "ones", "zeros", "l2", "l2", False, 2,
                                name="n5"), IMAGE, IMAGE),
    (lambda: BatchNormalization(synchronized=True), ROW, ROW),
    (lambda: Normalization(-1, [0.0, 1, 2, 3], [1.0, 2, 3, 4], True, name="n13"), IMAGE, IMAGE),
    (lambda: LayerNormalization(1e-5, True, True, "ones", "zeros", name="n6"), STEPS, STEPS),
    (lambda: RMSNormalization(1e-5, True, "zeros", name="n7"), STEPS, STEPS),
    (lambda: RMSNormalization(unit_offset=True), ROW, ROW),
    (lambda: GroupNormalization(2, -1, 1e-4, True, True, "ones", "zeros", "l2", "l2", name="n8"),
     IMAGE, IMAGE),
    (lambda: MaxPooling2D(2, 1, "same"), IMAGE, IMAGE),
    (lambda: AveragePooling2D((2, 3), padding=((1, 1), (0, 0))), IMAGE, (5, 2, 4)),
    (lambda: MaxPooling1D(2, 1, "same"), STEPS, STEPS),
    (lambda: AveragePooling1D(), STEPS, (2, 4)),
    (lambda: GlobalAveragePooling2D(), IMAGE, (4,)),
    (lambda: GlobalMaxPooling2D(), IMAGE, (4,)),
    (lambda: GlobalAveragePooling1D(), STEPS, (4,)),
    (lambda: GlobalMaxPooling1D(), STEPS, (4,)),
    (lambda: Flatten(), IMAGE, (192,)),
    (lambda: Reshape((-1, 8)), IMAGE, (24, 8)),
    (lambda: Activation("mish"), ROW, ROW),
    (lambda: Rescaling(0.5, 1.0), ROW, ROW),
    (lambda: SelectStep(-1), STEPS, ROW),
    (lambda: ReLU(), ROW, ROW),
    (lambda: Softmax(), ROW, ROW),
    (lambda: LeakyReLU(0.1), ROW, ROW),
    (lambda: PReLU("ones", "l2", [1, 2], name="n9"), IMAGE, IMAGE),
    (lambda: Dropout(0.5), ROW, ROW),
    (lambda: SpatialDropout1D(0.5, 3), STEPS, STEPS),
    (lambda: SpatialDropout2D(0.5), IMAGE, IMAGE),
    (lambda: GaussianNoise(0.5), ROW, ROW),
    (lambda: GaussianDropout(0.5), ROW, ROW),
    (lambda: ZeroPadding1D((1, 2)), STEPS, (8, 4)),
    (lambda: ZeroPadding2D(((1, 0), (2, 3))), IMAGE, (9, 11, 4)),
    (lambda: UpSampling2D((2, 3), "bilinear"), IMAGE, (16, 18, 4)),
    (lambda: Lambda(lambda x: x * 2.0), ROW, ROW),
    (lambda: SimpleRNN(3), STEPS, (3,)),
    (lambda: GRU(3, True, "he_normal", "glorot_normal", "l2", "l2", True, False, True, False,
                 name="n10"), STEPS, (5, 3)),
    (lambda: LSTM(3, True, "he_normal", "glorot_normal", False), STEPS, (3,)),
    (lambda: Bidirectional(LSTM(3, return_sequences=True), "sum"), STEPS, (5, 3)),
    (lambda: TimeDistributed(Dense(2)), STEPS, (5, 2)),
    (lambda: MultiHeadAttention(4, 2, 3, 0.1, False, 5, "he_normal", 1, True, 2, 10000.0,
                                name="n11"), STEPS, (5, 5)),
    (lambda: MultiHeadAttention(2, 4, causal=True, rotary_base=100.0, scale=0.3, window=2,
                                softcap=2.0, query_key_norm=1e-5, use_output_bias=False,
                                rotary=RotaryScaling("linear", 2.0)), STEPS, STEPS),
    (lambda: PositionEmbedding(7, "ones"), STEPS, STEPS),
    (lambda: SinePositionEncoding(), STEPS, STEPS),
    (lambda: ClassToken("ones"), STEPS, (6, 4)),
    (lambda: TokenPositions(1), "int32", (5,)),
    (lambda: Embedding(9, 3, "uniform", "l2", name="n12"), "int32", (5, 3)),
    (lambda: NotEqual(0), "int32", (5,)),
    (lambda: Add(), (ROW, ROW), ROW),
    (lambda: Subtract(), (ROW, ROW), ROW),
    (lambda: Multiply(), (ROW, ROW, ROW), ROW),
    (lambda: Average(), (ROW, ROW), ROW),
    (lambda: Maximum(), (ROW, ROW), ROW),
    (lambda: Minimum(), (ROW, ROW), ROW),
    (lambda: Concatenate(), (ROW, ROW), (8,)),
]


def values(*shape, seed=1):
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


def run(layer, *arrays):
    """What a layer makes of arrays, and the layer's weights by the end of their names."""
    inputs = [keras.Input(a.shape[1:], a.dtype) for a in arrays]
    model = keras.Model(inputs, layer(inputs if len(inputs) > 1 else inputs[0]))
    for variable in model.weights:
        variable.assign(values(*variable.shape, seed=len(variable.name)))
    made = model.predict(list(arrays), verbose=0)
    return made, {v.name.split("/", 1)[1]: v.numpy() for v in model.weights}


class Arguments(unittest.TestCase):
    def test_every_class_is_tried(self):
        classes = {c for c in vars(layers).values() if inspect.isclass(c)
                   and issubclass(c, layers.Layer) and not c.__name__.startswith("_")}
        tried = {type(make()) for make, _, _ in LAYERS} | {layers.Layer, layers.EmbeddingHead}
        self.assertEqual(classes - tried, set())
        self.assertEqual(sorted(layers.__all__), sorted(set(layers.__all__)))

    def test_every_field_has_an_argument(self):
        """Of all structs of layers.h, by the arguments that the layers above were given."""
        reached = {}
        for make, _, _ in LAYERS:
            layer = make()
            if layer._c is None or not isinstance(layer._c[1], str):
                continue
            paths = reached.setdefault(layer._c[1], set())
            for argument, value in {**layer._fields, "name": layer._given_name}.items():
                if argument in layer._defaults or value is not None:
                    place = find(ffi.typeof(layer._c[1]), argument)
                    self.assertIsNotNone(place, f"{layer}: {argument}")
                    paths.add(place[0])
                    if argument == "padding" and not isinstance(value, str):
                        paths.add(place[0][:-1] + ("explicit_padding",))
        for struct, paths in reached.items():
            wanted = set(leaves(ffi.typeof(struct)))
            if struct in ("rf_depthwise_conv2d_params", "rf_separable_conv2d_params"):
                wanted -= {("conv", "groups"), ("conv", "explicit_padding")}  # stay zero; as conv2d
            self.assertEqual(wanted - paths, set(), struct)

    def test_wrong_names_are_type_errors(self):
        with self.assertRaisesRegex(TypeError, "unexpected keyword argument 'unis'"):
            Dense(3, unis=3)
        with self.assertRaises(TypeError):
            Dense()
        with self.assertRaises(TypeError):
            LSTM(3, stateful=True)

    def test_wrong_types(self):
        for make, message in ((lambda: Dense("3"), "Dense: units='3': an integer"),
                              (lambda: Dense(2**40), "Dense: units=1099511627776: "),
                              (lambda: Dropout("much"), "Dropout: rate='much': "),
                              (lambda: Conv2D(2, 1.5), "float")):
            with self.assertRaisesRegex((TypeError, OverflowError), message):
                make()(np.ones((1, 4, 4, 4), np.float32))

    def test_wrong_values(self):
        for make, message in ((lambda: Dense(3, "rleu"), "activation='rleu' is none of"),
                              (lambda: Dense(3, kernel_initializer="he"), "is no initializer"),
                              (lambda: Conv2D(3, (1, 2, 3)), "kernel_size=.* has 3 numbers"),
                              (lambda: GroupNormalization(groups=0), "groups=0 cannot"),
                              (lambda: Dense(-1), "units"),
                              (lambda: Reshape((2,) * 7), "dimensions")):
            with self.assertRaisesRegex(ValueError, message):
                keras.Sequential([make()]).predict(np.ones((1, 4)), verbose=0)

    def test_config(self):
        layer = Dense(3, activation="relu", name="a")
        again = Dense.from_config(layer.get_config())
        self.assertEqual(again.get_config(), layer.get_config())
        self.assertEqual(again.get_config()["units"], 3)


class Shapes(unittest.TestCase):
    def test_all(self):
        for first in range(0, len(LAYERS), 8):
            inputs = {shape: keras.Input(shape) for shape in (IMAGE, STEPS, ROW)}
            inputs["int32"] = keras.Input((5,), "int32")
            used, outputs, wanted = set(), [], []
            for make, shape, out in LAYERS[first:first + 8]:
                several = isinstance(shape, tuple) and isinstance(shape[0], tuple)
                used |= set(shape) if several else {shape}
                given = [inputs[s] for s in shape] if several else inputs[shape]
                made = make()(given)
                outputs.append(made)
                wanted.append((3, *out))
            kept = [s for s in inputs if s in used]
            model = keras.Model([inputs[s] for s in kept], outputs)
            arrays = [np.ones((3, 5), np.int32) if s == "int32" else values(3, *s) for s in kept]
            made = model.predict(arrays, verbose=0)
            for (make, _, _), array, shape in zip(LAYERS[first:first + 8], made, wanted):
                with self.subTest(type(make()).__name__):
                    self.assertEqual(array.shape, shape)
                    self.assertTrue(np.isfinite(array).all())

    def test_states_and_masks(self):
        x, mask = values(2, *STEPS), np.array([[1, 1, 0, 0, 0], [1, 1, 1, 1, 1]], np.float32)
        sequence, padding = keras.Input(STEPS), keras.Input((5,))
        y, h, c = LSTM(3, return_sequences=True, return_state=True)(sequence, mask=padding)
        model = keras.Model([sequence, padding], [y, h, c])
        y, h, c = model.predict([x, mask], verbose=0)
        np.testing.assert_array_equal(y[:, -1], h)
        np.testing.assert_array_equal(y[0, 1], h[0])  # steps that the mask leaves out repeat it
        self.assertEqual(c.shape, (2, 3))
        query, memory = keras.Input(STEPS), keras.Input((3, 6))
        attend = MultiHeadAttention(2, 4)
        model = keras.Model([query, memory], attend(query, memory, use_causal_mask=False))
        self.assertEqual(model.predict([x, values(2, 3, 6)], verbose=0).shape, (2, 5, 4))

    def test_shared_embedding(self):
        table = Embedding(9, 4)
        words = keras.Input((5,), "int32")
        model = keras.Model(words, EmbeddingHead(table, use_bias=False)(table(words)))
        made = model.predict(np.ones((2, 5), np.int32), verbose=0)
        self.assertEqual(made.shape, (2, 5, 9))
        self.assertEqual(len(model.weights), 1)

    def test_alone_and_in_steps(self):
        layer = Dense(3, kernel_initializer="ones")
        self.assertEqual(layer(np.ones((2, 4), np.float32)).numpy().tolist(), [[4] * 3] * 2)
        self.assertEqual([w.shape for w in layer.get_weights()], [(4, 3), (3,)])

        @rf.function
        def step(x):
            return layer(x) * 2.0

        self.assertEqual(step(np.ones((2, 4), np.float32)).numpy().max(), 8)


class Scale(layers.Layer):
    """A layer of a program: with a weight, and with another layer."""

    def __init__(self, units, **options):
        super().__init__(**options)
        self.units = units
        self.inner = Dense(units)

    def build(self, input_shape):
        self.gain = self.add_weight("gain", (input_shape[-1],), initializer="ones")

    def call(self, inputs, training=None):
        return self.inner(inputs * self.gain) * (2.0 if training else 1.0)


class Own(unittest.TestCase):
    def test_in_every_kind_of_model(self):
        x, y = values(8, 4), np.zeros((8, 2), np.float32)
        described = keras.Input((4,))

        class Holder(keras.Model):
            def __init__(self):
                super().__init__()
                self.scale = Scale(2)

            def call(self, inputs):
                return self.scale(inputs)

        for model in (keras.Sequential([Scale(2)]), keras.Model(described, Scale(2)(described)),
                      Holder()):
            with self.subTest(type(model).__name__):
                model.compile(keras.optimizers.SGD(0.1), "mse")
                first = model.fit(x, y, verbose=0).history["loss"][0]
                self.assertEqual(sorted(v.name.rsplit("/")[-1] for v in model.trainable_variables),
                                 ["bias", "gain", "kernel"])
                self.assertLess(model.fit(x, y, epochs=5, verbose=0).history["loss"][-1], first)

    def test_outside_of_the_scope(self):
        strategy = rf.MirroredStrategy(["0", "0"])
        with strategy.scope():
            model = keras.Sequential([Scale(2)])
            model.compile("sgd", "mse")
        model.fit(values(8, 4), np.zeros((8, 2)), verbose=0)
        self.assertTrue(all(v.strategy is strategy for v in model.weights))

    def test_names(self):
        model = keras.Sequential([Scale(2), Scale(2), Lambda(lambda x: x)])
        lines = []
        model.predict(values(2, 4), verbose=0)
        model.summary(lines.append)
        self.assertEqual([x.name for x in model.layers], ["scale", "scale_1", "lambda"])
        for name in ("scale (Scale)", "scale_1 (Scale)", "lambda (Lambda)"):
            self.assertIn(name, lines[0])

    def test_training_reaches_call(self):
        layer = Scale(2)

        @rf.function
        def both(x):
            return layer(x, training=True), layer(x, training=False)

        one, two = both(values(3, 4))
        np.testing.assert_allclose(one.numpy(), 2 * two.numpy(), rtol=1e-6)


def softmax(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


class Plain(unittest.TestCase):
    """Values of layers that NumPy computes in a line."""

    def check(self, layer, shape, expected, tolerance=1e-5, x=None):
        x = values(2, *shape) if x is None else x
        made, weights = run(layer, x)
        np.testing.assert_allclose(made, expected(x, **weights), rtol=tolerance, atol=tolerance)

    def test_of_any_shape(self):
        for layer, shape, expected in (
                (Flatten(), IMAGE, lambda x: x.reshape(2, -1)),
                (Reshape((4, -1)), IMAGE, lambda x: x.reshape(2, 4, -1)),
                (Softmax(), STEPS, softmax),
                (ReLU(), ROW, lambda x: np.maximum(x, 0)),
                (Activation("softplus"), ROW, lambda x: np.log1p(np.exp(x))),
                (Activation("swish"), ROW, lambda x: x / (1 + np.exp(-x))),
                (Rescaling(0.5, -2.0), ROW, lambda x: x / 2 - 2),
                (SelectStep(1), STEPS, lambda x: x[:, 1]),
                (SelectStep(-1), STEPS, lambda x: x[:, -1]),
                (RMSNormalization(1e-5, unit_offset=True), STEPS, lambda x, gamma: (
                    (1 + gamma) * x / np.sqrt(np.mean(x * x, -1, keepdims=True) + 1e-5))),
                (Dense(3, "sigmoid"), ROW,
                 lambda x, kernel, bias: 1 / (1 + np.exp(-(x @ kernel + bias)))),
                (Dropout(0.5), ROW, lambda x: x),
                (GaussianNoise(1.0), ROW, lambda x: x),
                (RMSNormalization(1e-5), STEPS, lambda x, gamma: gamma * x / np.sqrt(
                    (x**2).mean(-1, keepdims=True) + 1e-5))):
            with self.subTest(type(layer).__name__):
                self.check(layer, shape, expected)

    def test_zero_is_a_number(self):
        x, layer = values(6, *ROW), BatchNormalization(momentum=0.0)
        rf.function(lambda a: layer(a, training=True))(x)
        np.testing.assert_allclose(layer.non_trainable_variables[0].numpy(), x.mean(0), atol=1e-6)
        self.assertEqual(LeakyReLU(0.0)(-x**2).numpy().min(), 0)

    def test_batch_normalization(self):
        x, layer = values(6, *ROW), BatchNormalization(momentum=0.5, epsilon=1e-4)

        @rf.function
        def train(a):
            return layer(a, training=True)

        made = train(x).numpy()
        mean, variance = x.mean(0), x.var(0)
        np.testing.assert_allclose(made, (x - mean) / np.sqrt(variance + 1e-4), atol=1e-4)
        moving = {v.name.split("/")[-1]: v.numpy() for v in layer.non_trainable_variables}
        np.testing.assert_allclose(moving["moving_mean"], mean / 2, atol=1e-5)
        np.testing.assert_allclose(moving["moving_variance"], variance / 2 + 0.5, atol=1e-5)

    def test_normalization(self):
        x = values(50, *STEPS) * [1, 2, 3, 4] + [10, 20, 30, 40]
        x = x.astype(np.float32)
        wanted = (x - x.mean((0, 1))) / x.std((0, 1))
        learned, given = Normalization(), Normalization(mean=x.mean((0, 1)), variance=x.var((0, 1)))
        learned.adapt(x)
        inverse = Normalization(invert=True)
        inverse.adapt(rf.data.Dataset.from_tensor_slices((x, x)).batch(7), index=1)
        for layer in (learned, given):
            np.testing.assert_allclose(layer(x).numpy(), wanted, atol=1e-4)
        np.testing.assert_allclose(inverse(wanted.astype(np.float32)).numpy(), x, atol=1e-3)
        whole = Normalization(None)
        model = keras.Sequential([keras.Input(STEPS), whole])
        np.testing.assert_array_equal(model.predict(x, verbose=0), x)
        whole.adapt(x)  # what a model has already
        np.testing.assert_allclose(model.predict(x, verbose=0), (x - x.mean()) / x.std(),
                                   atol=1e-4)
        self.assertEqual([v.name.split("/")[-1] for v in whole.non_trainable_variables],
                         ["mean", "variance"])
        self.assertEqual(whole.trainable_variables, [])
        with self.assertRaisesRegex(ValueError, "give mean and variance, or neither"):
            Normalization(mean=[1.0])

    def test_images_and_sequences(self):
        for layer, shape, expected in (
                (GlobalAveragePooling2D(), IMAGE, lambda x: x.mean((1, 2))),
                (GlobalMaxPooling2D(), IMAGE, lambda x: x.max((1, 2))),
                (GlobalAveragePooling1D(), STEPS, lambda x: x.mean(1)),
                (GlobalMaxPooling1D(), STEPS, lambda x: x.max(1)),
                (ZeroPadding1D((1, 2)), STEPS, lambda x: np.pad(x, ((0, 0), (1, 2), (0, 0)))),
                (ZeroPadding2D(((1, 0), (2, 3))), IMAGE,
                 lambda x: np.pad(x, ((0, 0), (1, 0), (2, 3), (0, 0)))),
                (MaxPooling1D(2), STEPS, lambda x: x[:, :4].reshape(2, 2, 2, 4).max(2)),
                (AveragePooling1D(2), STEPS, lambda x: x[:, :4].reshape(2, 2, 2, 4).mean(2)),
                (TimeDistributed(Dense(2)), STEPS, lambda x, **w: x @ next(
                    v for v in w.values() if v.ndim == 2) + next(
                        v for v in w.values() if v.ndim == 1)),
                (PositionEmbedding(7), STEPS, lambda x, embeddings: x + embeddings[:5]),
                (ClassToken("glorot_uniform"), STEPS, lambda x, token: np.concatenate(
                    [np.broadcast_to(token, (2, 1, 4)), x], 1)),
                (SinePositionEncoding(), STEPS, lambda x: x + np.stack([
                    f(np.arange(5) / 10000**(2 * (i // 2) / 4)) for i, f in enumerate(
                        [np.sin, np.cos] * 2)], -1)),
                (SimpleRNN(3, return_sequences=True), STEPS, self.simple_rnn)):
            with self.subTest(type(layer).__name__):
                self.check(layer, shape, expected, 1e-4)
        tokens = np.array([[1, 0, 5]], np.int32)
        self.check(NotEqual(0), None, lambda x: x != 0, x=tokens)
        self.check(TokenPositions(1), None, lambda x: [[1, 1, 2, 3, 1]], x=np.array(
            [[1, 1, 7, 0, 1]], np.int32))

    @staticmethod
    def simple_rnn(x, kernel, recurrent_kernel, bias):
        h, steps = np.zeros((2, 3), np.float32), []
        for i in range(5):
            h = np.tanh(x[:, i] @ kernel + h @ recurrent_kernel + bias)
            steps.append(h)
        return np.stack(steps, 1)

    def test_merges(self):
        a, b = values(2, 4), values(2, 4, seed=2)
        for layer, expected in ((Add(), a + b), (Subtract(), a - b), (Multiply(), a * b),
                                (Average(), (a + b) / 2), (Maximum(), np.maximum(a, b)),
                                (Minimum(), np.minimum(a, b)),
                                (Concatenate(), np.concatenate([a, b], -1))):
            with self.subTest(type(layer).__name__):
                np.testing.assert_allclose(run(layer, a, b)[0], expected, rtol=1e-6)

    def test_attention(self):
        def attend(x, **w):
            q, k, v = (np.einsum("btd,dhk->bhtk", x, w[f"{part}/kernel"]) + w[
                f"{part}/bias"][:, None] for part in ("query", "key", "value"))
            scores = np.einsum("bhtk,bhsk->bhts", q, k) / 2
            scores[:, :, np.triu(np.ones((5, 5), bool), 1)] = -np.inf
            joined = np.einsum("bhts,bhsk->bthk", softmax(scores), v)
            return np.einsum("bthk,hko->bto", joined, w["attention_output/kernel"]) + w[
                "attention_output/bias"]

        self.check(MultiHeadAttention(2, 4, causal=True), STEPS, attend, 1e-3)

    def test_dropout_in_training(self):
        for kind in (Dropout, SpatialDropout1D, GaussianDropout, GaussianNoise):
            made = kind(0.5)(np.ones((4, 50, 8), np.float32), training=True).numpy()
            self.assertAlmostEqual(made.mean(), 1, delta=0.2)
            self.assertGreater(made.std(), 0.3)
            if kind is SpatialDropout1D:
                self.assertEqual(made.std(1).max(), 0)


@unittest.skipIf(torch is None, "PyTorch is not installed")
class Values(unittest.TestCase):
    def close(self, layer, arrays, expected, rtol=2e-4):
        made, weights = run(layer, *arrays)
        tensors = {k: torch.from_numpy(np.asarray(v)) for k, v in weights.items()}
        wanted = expected(*(torch.from_numpy(a) for a in arrays), **tensors).numpy()
        np.testing.assert_allclose(made, wanted, rtol=rtol, atol=2e-5)

    def image(self, layer, expected):
        self.close(layer, [values(2, *IMAGE)], lambda x, **w: expected(
            x.permute(0, 3, 1, 2), **w).permute(0, 2, 3, 1))

    def test_products(self):
        self.close(Dense(3, "relu"), [values(2, 4)],
                   lambda x, kernel, bias: torch.relu(x @ kernel + bias))
        self.image(Conv2D(5, 3, 2), lambda x, kernel, bias: torch.conv2d(
            x, kernel.permute(3, 2, 0, 1), bias, stride=2))
        self.image(Conv2D(5, 3, padding="same", use_bias=False, dilation_rate=2),
                   lambda x, kernel: torch.conv2d(x, kernel.permute(3, 2, 0, 1), padding=2,
                                                  dilation=2))
        self.image(DepthwiseConv2D(3), lambda x, bias, **w: torch.conv2d(
            x, next(iter(w.values())).permute(2, 3, 0, 1), bias, groups=4))
        self.image(SeparableConv2D(5, 3), lambda x, depthwise_kernel, pointwise_kernel, bias:
                   torch.conv2d(torch.conv2d(x, depthwise_kernel.permute(2, 3, 0, 1), groups=4),
                                pointwise_kernel.permute(3, 2, 0, 1), bias))
        self.image(Conv2DTranspose(3, 2, 2), lambda x, kernel, bias: torch.conv_transpose2d(
            x, kernel.permute(3, 2, 0, 1), bias, stride=2))
        self.close(Conv1D(6, 3, padding="causal"), [values(2, *STEPS)], lambda x, kernel, bias:
                   torch.conv1d(torch.nn.functional.pad(x.permute(0, 2, 1), (2, 0)),
                                kernel.permute(2, 1, 0), bias).permute(0, 2, 1))

    def test_pools(self):
        self.image(MaxPooling2D(2), lambda x: torch.max_pool2d(x, 2))
        self.image(AveragePooling2D(3, 1), lambda x: torch.nn.functional.avg_pool2d(x, 3, 1))
        self.image(UpSampling2D(2), lambda x: torch.nn.functional.interpolate(x, scale_factor=2))

    def test_norms(self):
        functional = torch.nn.functional
        self.close(LayerNormalization(1e-5), [values(2, *STEPS)], lambda x, gamma, beta:
                   functional.layer_norm(x, (4,), gamma, beta, 1e-5))
        self.image(GroupNormalization(2, epsilon=1e-4), lambda x, gamma, beta:
                   functional.group_norm(x, 2, gamma, beta, 1e-4))
        self.close(LeakyReLU(0.2), [values(2, 4)], lambda x: functional.leaky_relu(x, 0.2))
        self.close(PReLU(shared_axes=[1, 2]), [values(2, *IMAGE)],
                   lambda x, alpha: torch.where(x > 0, x, alpha * x))

    def test_sequences(self):
        def lstm(x, kernel, recurrent_kernel, bias):
            cell = torch.nn.LSTM(4, 3, batch_first=True)
            with torch.no_grad():
                cell.weight_ih_l0.copy_(kernel.T)
                cell.weight_hh_l0.copy_(recurrent_kernel.T)
                cell.bias_ih_l0.copy_(bias)
                cell.bias_hh_l0.zero_()
                return cell(x)[0]

        def gru(x, kernel, recurrent_kernel, bias, recurrent_bias):
            def ordered(w):  # PyTorch begins with the reset gate, Keras with the update gate
                z, r, h = w.split(3, -1)
                return torch.cat([r, z, h], -1)

            cell = torch.nn.GRU(4, 3, batch_first=True)
            with torch.no_grad():
                cell.weight_ih_l0.copy_(ordered(kernel).T)
                cell.weight_hh_l0.copy_(ordered(recurrent_kernel).T)
                cell.bias_ih_l0.copy_(ordered(bias))
                cell.bias_hh_l0.copy_(ordered(recurrent_bias))
                return cell(x)[0]

        def both(x, **w):
            with torch.no_grad():
                return torch.cat([
                    lstm(x, *(w[f"forward/{n}"] for n in ("kernel", "recurrent_kernel", "bias"))),
                    lstm(x.flip(1), *(w[f"backward/{n}"] for n in (
                        "kernel", "recurrent_kernel", "bias"))).flip(1)], -1)

        self.close(LSTM(3, return_sequences=True), [values(2, *STEPS)], lstm)
        self.close(GRU(3, return_sequences=True), [values(2, *STEPS)], gru)
        self.close(Bidirectional(LSTM(3, return_sequences=True)), [values(2, *STEPS)], both)
        self.close(Embedding(9, 4), [np.array([[1, 8, 0]], np.int32)],
                   lambda x, embeddings: embeddings[x.long()])


if __name__ == "__main__":
    unittest.main(verbosity=1)
