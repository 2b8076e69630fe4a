# SPDX-License-Identifier: Apache-2.0
"""Layers, under Keras' names and with its arguments and defaults.

What the library has no setting for is no argument here. Besides their own arguments all layers
take ``name``, ``trainable``, ``dtype`` (a policy such as "mixed_bfloat16") and, as the first layer
of a Sequential, ``input_shape``.
"""

from __future__ import annotations

from typing import Any, Callable, List, Optional, Sequence, Union

import numpy as np

from .._arrays import array_in, as_dense
from ..data import Dataset
from ._layer import Input, InputLayer, KerasTensor, Layer
from ._params import Configured, fill
from .initializers import InitializerLike
from .regularizers import RegularizerLike

ActivationLike = Union[None, str, Callable[..., Any]]
Size1 = int
Size2 = Union[int, Sequence[int]]
Padding2 = Union[str, Sequence[Any]]

__all__ = [
    "Activation", "ActivationLike", "Add", "Average", "AveragePooling1D", "AveragePooling2D",
    "AvgPool1D", "AvgPool2D", "BatchNormalization", "Bidirectional", "ClassToken", "Concatenate",
    "Conv1D", "Conv2D", "Conv2DTranspose", "Dense", "DepthwiseConv2D", "Dropout", "Embedding",
    "EmbeddingHead", "Flatten", "GRU", "GaussianDropout", "GaussianNoise", "GlobalAveragePooling1D",
    "GlobalAveragePooling2D", "GlobalMaxPooling1D", "GlobalMaxPooling2D", "GroupNormalization",
    "Input", "InputLayer", "KerasTensor", "LSTM", "Lambda", "Layer", "LayerNormalization",
    "LeakyReLU", "MaxPool1D", "MaxPool2D", "MaxPooling1D", "MaxPooling2D", "Maximum", "Minimum",
    "MultiHeadAttention", "Multiply", "Normalization", "NotEqual", "PReLU", "PositionEmbedding",
    "RMSNormalization", "ReLU", "Rescaling", "Reshape", "RotaryScaling", "SelectStep",
    "SeparableConv2D", "SimpleRNN", "SinePositionEncoding", "Softmax", "SpatialDropout1D",
    "SpatialDropout2D", "Subtract", "TimeDistributed", "TokenPositions", "UpSampling2D",
    "ZeroPadding1D", "ZeroPadding2D",
]


class Dense(Layer):
    """Fully connected: [n, in] -> [n, units]."""

    _masks = "passes"
    _c = ("rf_layer_dense", "rf_dense_params")

    def __init__(self, units: int, activation: ActivationLike = None, use_bias: bool = True,
                 kernel_initializer: InitializerLike = "glorot_uniform",
                 bias_initializer: InitializerLike = "zeros",
                 kernel_regularizer: RegularizerLike = None, **options: Any) -> None:
        super().__init__(**options)


class Conv2D(Layer):
    """Convolution: [n, h, w, c] -> [n, oh, ow, filters].

    ``padding`` is "valid", "same" or numbers of rows and columns, ((top, bottom), (left, right)).
    """

    _c = ("rf_layer_conv2d", "rf_conv2d_layer_params")

    def __init__(self, filters: int, kernel_size: Size2, strides: Size2 = 1,
                 padding: Padding2 = "valid", dilation_rate: Size2 = 1, groups: int = 1,
                 activation: ActivationLike = None, use_bias: bool = True,
                 kernel_initializer: InitializerLike = "glorot_uniform",
                 bias_initializer: InitializerLike = "zeros",
                 kernel_regularizer: RegularizerLike = None, **options: Any) -> None:
        super().__init__(**options)


class Conv2DTranspose(Layer):
    """Transposed convolution, which enlarges images: [n, h, w, c] -> [n, oh, ow, filters]."""

    _c = ("rf_layer_conv2d_transpose", "rf_conv2d_layer_params")

    def __init__(self, filters: int, kernel_size: Size2, strides: Size2 = 1,
                 padding: Padding2 = "valid", dilation_rate: Size2 = 1, groups: int = 1,
                 activation: ActivationLike = None, use_bias: bool = True,
                 kernel_initializer: InitializerLike = "glorot_uniform",
                 bias_initializer: InitializerLike = "zeros",
                 kernel_regularizer: RegularizerLike = None, **options: Any) -> None:
        super().__init__(**options)


class Conv1D(Layer):
    """Convolution along a sequence: [n, steps, c] -> [n, out_steps, filters].

    ``padding`` is "valid", "same" or "causal".
    """

    _c = ("rf_layer_conv1d", "rf_conv1d_layer_params")

    def __init__(self, filters: int, kernel_size: Size1, strides: Size1 = 1,
                 padding: str = "valid", dilation_rate: Size1 = 1, groups: int = 1,
                 activation: ActivationLike = None, use_bias: bool = True,
                 kernel_initializer: InitializerLike = "glorot_uniform",
                 bias_initializer: InitializerLike = "zeros",
                 kernel_regularizer: RegularizerLike = None, **options: Any) -> None:
        super().__init__(**options)
        self._fields["causal"] = padding == "causal"
        if padding == "causal":
            self._fields["padding"] = "valid"


class DepthwiseConv2D(Layer):
    """Convolution of each channel by itself: [n, h, w, c] -> [n, oh, ow, c * depth_multiplier]."""

    _c = ("rf_layer_depthwise_conv2d", "rf_depthwise_conv2d_params")
    _names = {"depthwise_initializer": "kernel_initializer",
              "depthwise_regularizer": "kernel_regularizer"}

    def __init__(self, kernel_size: Size2, strides: Size2 = 1, padding: Padding2 = "valid",
                 depth_multiplier: int = 1, dilation_rate: Size2 = 1,
                 activation: ActivationLike = None, use_bias: bool = True,
                 depthwise_initializer: InitializerLike = "glorot_uniform",
                 bias_initializer: InitializerLike = "zeros",
                 depthwise_regularizer: RegularizerLike = None, **options: Any) -> None:
        super().__init__(**options)


class SeparableConv2D(Layer):
    """A depthwise convolution and one of 1 x 1: [n, h, w, c] -> [n, oh, ow, filters]."""

    _c = ("rf_layer_separable_conv2d", "rf_separable_conv2d_params")

    def __init__(self, filters: int, kernel_size: Size2, strides: Size2 = 1,
                 padding: Padding2 = "valid", dilation_rate: Size2 = 1, depth_multiplier: int = 1,
                 activation: ActivationLike = None, use_bias: bool = True,
                 depthwise_initializer: InitializerLike = "glorot_uniform",
                 pointwise_initializer: InitializerLike = "glorot_uniform",
                 bias_initializer: InitializerLike = "zeros",
                 depthwise_regularizer: RegularizerLike = None,
                 pointwise_regularizer: RegularizerLike = None, **options: Any) -> None:
        super().__init__(**options)


class Embedding(Layer):
    """Rows of a table: i32 [n, ...] -> [n, ..., output_dim].

    With ``mask_zero``, in a functional model or a Sequential that begins with an Input, 0 pads: a
    mask travels with the result, to the recurrent and attention layers behind it.
    """

    _c = ("rf_layer_embedding", "rf_embedding_params")
    _dtype = "int32"

    def __init__(self, input_dim: int, output_dim: int,
                 embeddings_initializer: InitializerLike = "uniform",
                 embeddings_regularizer: RegularizerLike = None, mask_zero: bool = False,
                 **options: Any) -> None:
        super().__init__(**options)
        self._mask_zero = self._fields.pop("mask_zero")

    def _passed_on(self, given: List[KerasTensor],
                   mask: Optional[KerasTensor]) -> Optional[KerasTensor]:
        if not self._mask_zero:
            return None
        made: KerasTensor = NotEqual(0)(given[0])
        return made


class EmbeddingHead(Layer):
    """The head that a language model shares with its embedding: [n, ..., d] -> [n, ..., input_dim].

    ``embedding`` is a layer of the same model, which is called first.
    """

    _masks = "passes"
    _c = ("rf_layer_embedding_head", ("embedding", "!use_bias", "name"))
    _shared = "embedding"

    def __init__(self, embedding: Embedding, use_bias: bool = True, **options: Any) -> None:
        super().__init__(**options)
        self._columns = int(embedding._config["input_dim"])

    def _twin(self) -> Dense:
        """Without the table, which only a model that calls the embedding has."""
        return Dense(self._columns)


class BatchNormalization(Layer):
    """Batch normalization.

    ``synchronized``: of all replicas' examples together; ``virtual_batch_size``: of so many
    consecutive examples. Either makes results independent of how a batch is split.
    ``unbiased_variance``: the moving variance takes that of each batch times n / (n - 1), as in
    PyTorch.
    """

    _masks = "passes"
    _c = ("rf_layer_batch_norm", "rf_batch_norm_params")

    def __init__(self, axis: int = -1, momentum: float = 0.99, epsilon: float = 1e-3,
                 center: bool = True, scale: bool = True,
                 beta_initializer: InitializerLike = "zeros",
                 gamma_initializer: InitializerLike = "ones",
                 beta_regularizer: RegularizerLike = None,
                 gamma_regularizer: RegularizerLike = None, synchronized: bool = False,
                 virtual_batch_size: Optional[int] = None, unbiased_variance: bool = False,
                 **options: Any) -> None:
        super().__init__(**options)


class _Numbers:
    """An array of numbers for the library."""

    def __init__(self, value: Any) -> None:
        self.array = as_dense(np.asarray(value, np.float32))

    def to_c(self, keep: List[Any]) -> Any:
        keep.append(array_in(self.array))
        return keep[-1][0]


class Normalization(Layer):
    """(x - mean) / deviation, by the numbers that :meth:`adapt` learns from data, or given ones.

    ``axis`` is that of the channels; None: one mean and one variance for all numbers. ``invert``
    is the other way round.
    """

    _c = ("rf_layer_normalization", "rf_normalization_params")

    def __init__(self, axis: Optional[int] = -1, mean: Any = None, variance: Any = None,
                 invert: bool = False, **options: Any) -> None:
        super().__init__(**options)
        self._fields["whole"] = axis is None
        self._fields["mean"] = self._fields["variance"] = None
        if mean is not None and variance is not None:
            self._give(mean, variance)
        elif mean is not None or variance is not None:
            raise ValueError("Normalization: give mean and variance, or neither")

    def _give(self, mean: Any, variance: Any) -> None:
        self._fields["mean"], self._fields["variance"] = _Numbers(mean), _Numbers(variance)

    def adapt(self, data: Any, index: int = 0) -> None:
        """Learns mean and variance of an array, or of array number ``index`` of a Dataset, batched
        or not: before the model is used, or later."""
        if not isinstance(data, Dataset):
            data = Dataset.from_tensor_slices(data).batch(256)
        mean, variance = data.moments(index, self._config["axis"])
        if self.built or self.weights:
            self.set_weights([mean, variance])
        elif self._pointer is not None:
            raise ValueError("Normalization: adapt() it before its model is made, or when the "
                             "model has been built")
        else:
            self._give(mean, variance)


class LayerNormalization(Layer):
    """Normalizes along the last axis."""

    _masks = "passes"
    _c = ("rf_layer_layer_norm", "rf_layer_norm_params")

    def __init__(self, epsilon: float = 1e-3, center: bool = True, scale: bool = True,
                 beta_initializer: InitializerLike = "zeros",
                 gamma_initializer: InitializerLike = "ones", **options: Any) -> None:
        super().__init__(**options)


class RMSNormalization(Layer):
    """Divides by the root of the mean of squares along the last axis.

    ``unit_offset``: the scale is 1 + gamma."""

    _masks = "passes"
    _c = ("rf_layer_rms_norm", "rf_rms_norm_params")

    def __init__(self, epsilon: float = 1e-6, scale: bool = True,
                 gamma_initializer: InitializerLike = None, unit_offset: bool = False,
                 **options: Any) -> None:
        super().__init__(**options)


class GroupNormalization(Layer):
    """Normalizes groups of channels of each example; -1 groups: each channel by itself."""

    _c = ("rf_layer_group_norm", "rf_group_norm_params")

    def __init__(self, groups: int = 32, axis: int = -1, epsilon: float = 1e-3,
                 center: bool = True, scale: bool = True,
                 beta_initializer: InitializerLike = "zeros",
                 gamma_initializer: InitializerLike = "ones",
                 beta_regularizer: RegularizerLike = None,
                 gamma_regularizer: RegularizerLike = None, **options: Any) -> None:
        super().__init__(**options)


class MaxPooling2D(Layer):
    """Maximum over windows: [n, h, w, c] -> [n, oh, ow, c]."""

    _c = ("rf_layer_max_pool2d", "rf_pool2d_params")

    def __init__(self, pool_size: Size2 = 2, strides: Optional[Size2] = None,
                 padding: Padding2 = "valid", **options: Any) -> None:
        super().__init__(**options)


class AveragePooling2D(Layer):
    """Mean over windows, padding excluded: [n, h, w, c] -> [n, oh, ow, c]."""

    _c = ("rf_layer_avg_pool2d", "rf_pool2d_params")

    def __init__(self, pool_size: Size2 = 2, strides: Optional[Size2] = None,
                 padding: Padding2 = "valid", **options: Any) -> None:
        super().__init__(**options)


class MaxPooling1D(Layer):
    """Maximum over windows of a sequence: [n, steps, c] -> [n, out_steps, c]."""

    _c = ("rf_layer_max_pool1d", "rf_pool1d_params")

    def __init__(self, pool_size: Size1 = 2, strides: Optional[Size1] = None,
                 padding: str = "valid", **options: Any) -> None:
        super().__init__(**options)


class AveragePooling1D(Layer):
    """Mean over windows of a sequence, padding excluded: [n, steps, c] -> [n, out_steps, c]."""

    _c = ("rf_layer_avg_pool1d", "rf_pool1d_params")

    def __init__(self, pool_size: Size1 = 2, strides: Optional[Size1] = None,
                 padding: str = "valid", **options: Any) -> None:
        super().__init__(**options)


class GlobalAveragePooling2D(Layer):
    """Mean over height and width: [n, h, w, c] -> [n, c]."""

    _c = ("rf_layer_global_avg_pool2d", ())


class GlobalMaxPooling2D(Layer):
    """Maximum over height and width: [n, h, w, c] -> [n, c]."""

    _c = ("rf_layer_global_max_pool2d", ())


class GlobalAveragePooling1D(Layer):
    """Mean over all steps: [n, steps, c] -> [n, c]."""

    _masks = "refuses"
    _c = ("rf_layer_global_avg_pool1d", ())


class GlobalMaxPooling1D(Layer):
    """Maximum over all steps: [n, steps, c] -> [n, c]."""

    _masks = "refuses"
    _c = ("rf_layer_global_max_pool1d", ())


class Flatten(Layer):
    """[n, ...] -> [n, c]."""

    _c = ("rf_layer_flatten", ())


class Reshape(Layer):
    """Another shape of each example; one entry of ``target_shape`` may be -1."""

    _c = ("rf_layer_reshape", ("target_shape",))

    def __init__(self, target_shape: Sequence[int], **options: Any) -> None:
        super().__init__(**options)


class Activation(Layer):
    """An activation by its name."""

    _masks = "passes"
    _c = ("rf_layer_activation", ("activation",))

    def __init__(self, activation: ActivationLike, **options: Any) -> None:
        super().__init__(**options)


class ReLU(Layer):
    """max(x, 0)."""

    _masks = "passes"
    _c = ("rf_layer_activation", ("activation",))
    _base_name = "activation"

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self._fields["activation"] = "relu"


class Softmax(Layer):
    """Softmax along the last axis."""

    _masks = "passes"
    _c = ("rf_layer_activation", ("activation",))
    _base_name = "activation"

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self._fields["activation"] = "softmax"


class LeakyReLU(Layer):
    """x for x > 0, ``negative_slope`` * x otherwise."""

    _masks = "passes"
    _c = ("rf_layer_leaky_relu", ("negative_slope",))

    def __init__(self, negative_slope: float = 0.3, **options: Any) -> None:
        super().__init__(**options)


class PReLU(Layer):
    """A leaky ReLU whose slopes are trained; they are the same along ``shared_axes``."""

    _masks = "passes"
    _c = ("rf_layer_prelu", "rf_prelu_params")

    def __init__(self, alpha_initializer: InitializerLike = "zeros",
                 alpha_regularizer: RegularizerLike = None,
                 shared_axes: Optional[Sequence[int]] = None, **options: Any) -> None:
        super().__init__(**options)
        if shared_axes is not None:
            self._fields["num_shared_axes"] = len(shared_axes)


class Rescaling(Layer):
    """x * scale + offset."""

    _c = ("rf_layer_rescaling", ("scale", "offset"))

    def __init__(self, scale: float, offset: float = 0.0, **options: Any) -> None:
        super().__init__(**options)


class SelectStep(Layer):
    """One step of each sequence: [n, steps, ...] -> [n, ...]; -1 is the last one."""

    _c = ("rf_layer_select_step", ("step",))

    def __init__(self, step: int, **options: Any) -> None:
        super().__init__(**options)


class Dropout(Layer):
    """In training sets elements to zero with probability ``rate``. ``seed`` 0: the strategy's."""

    _masks = "passes"
    _c = ("rf_layer_dropout", ("rate", "seed"))

    def __init__(self, rate: float, seed: int = 0, **options: Any) -> None:
        super().__init__(**options)


class SpatialDropout1D(Layer):
    """Dropout of whole channels of a sequence."""

    _masks = "passes"
    _c = ("rf_layer_spatial_dropout1d", ("rate", "seed"))

    def __init__(self, rate: float, seed: int = 0, **options: Any) -> None:
        super().__init__(**options)


class SpatialDropout2D(Layer):
    """Dropout of whole channels of an image."""

    _c = ("rf_layer_spatial_dropout2d", ("rate", "seed"))

    def __init__(self, rate: float, seed: int = 0, **options: Any) -> None:
        super().__init__(**options)


class GaussianNoise(Layer):
    """In training adds normally distributed numbers of deviation ``stddev``."""

    _masks = "passes"
    _c = ("rf_layer_gaussian_noise", ("stddev", "seed"))

    def __init__(self, stddev: float, seed: int = 0, **options: Any) -> None:
        super().__init__(**options)


class GaussianDropout(Layer):
    """In training multiplies by normally distributed numbers of mean 1."""

    _masks = "passes"
    _c = ("rf_layer_gaussian_dropout", ("rate", "seed"))

    def __init__(self, rate: float, seed: int = 0, **options: Any) -> None:
        super().__init__(**options)


class ZeroPadding1D(Layer):
    """Zeros before and after each sequence: a number for both, or two."""

    _c = ("rf_layer_zero_padding1d", ("padding",))

    def __init__(self, padding: Size2 = 1, **options: Any) -> None:
        super().__init__(**options)
        self._fields["padding"] = [padding] * 2 if isinstance(padding, int) else list(padding)


class ZeroPadding2D(Layer):
    """Zeros around each image: a number, (rows, columns) or ((top, bottom), (left, right))."""

    _c = ("rf_layer_zero_padding2d", ("padding",))

    def __init__(self, padding: Union[int, Sequence[Any]] = 1, **options: Any) -> None:
        super().__init__(**options)
        sides = (padding, padding) if isinstance(padding, int) else padding
        self._fields["padding"] = [n for side in sides
                                   for n in ((side, side) if isinstance(side, int) else side)]


class UpSampling2D(Layer):
    """Enlarges images by whole factors; ``interpolation`` is "nearest" or "bilinear"."""

    _c = ("rf_layer_upsample2d", ("size", "interpolation"))

    def __init__(self, size: Size2 = 2, interpolation: str = "nearest", **options: Any) -> None:
        super().__init__(**options)
        self._fields["size"] = [size] * 2 if isinstance(size, int) else list(size)


class Lambda(Layer):
    """A function of one traced tensor. A model with it cannot be saved whole, its weights can."""

    def __init__(self, function: Callable[[Any], Any], **options: Any) -> None:
        super().__init__(**options)
        self._function = function

    def call(self, inputs: Any) -> Any:
        """The function."""
        return self._function(inputs)


# ---- of several inputs ----

class Add(Layer):
    """Sum of all inputs."""

    _masks = "passes"
    _c = ("rf_layer_add", ())


class Subtract(Layer):
    """The first input less the second."""

    _masks = "passes"
    _c = ("rf_layer_subtract", ())


class Multiply(Layer):
    """Product of all inputs."""

    _masks = "passes"
    _c = ("rf_layer_multiply", ())


class Average(Layer):
    """Mean of all inputs."""

    _masks = "passes"
    _c = ("rf_layer_average", ())


class Maximum(Layer):
    """The largest of all inputs, element by element."""

    _masks = "passes"
    _c = ("rf_layer_maximum", ())


class Minimum(Layer):
    """The smallest of all inputs, element by element."""

    _masks = "passes"
    _c = ("rf_layer_minimum", ())


class Concatenate(Layer):
    """Joins its inputs along ``axis``, which counts the batch as 0."""

    _c = ("rf_layer_concatenate", ("axis",))

    def __init__(self, axis: int = -1, **options: Any) -> None:
        super().__init__(**options)


class NotEqual(Layer):
    """1 where the input is not ``value``, else 0: the mask of a padded sequence."""

    _c = ("rf_layer_not_equal", ("value",))
    _dtype = "int32"

    def __init__(self, value: int = 0, **options: Any) -> None:
        super().__init__(**options)


# ---- sequences ----

class _Recurrent(Layer):
    _masks = "takes"
    _c = ("rf_layer_rnn", "rf_rnn_layer_params")
    _states = 1

    def __init__(self, return_state: bool = False, **options: Any) -> None:
        super().__init__(**options)
        self._num_outputs = 1 + (self._states if return_state else 0)
        self._fields.pop("return_state", None)
        self._fields["kind"] = type(self).__name__.lower().replace("simplernn", "simple")

    def _passed_on(self, given: List[KerasTensor],
                   mask: Optional[KerasTensor]) -> Optional[KerasTensor]:
        return mask if self._fields.get("return_sequences") else None


class SimpleRNN(_Recurrent):
    """The simple recurrent layer: [n, steps, c] -> [n, units], or [n, steps, units].

    Called with ``mask`` ([n, steps]) and ``initial_state``; ``return_state`` gives the last state.
    """

    def __init__(self, units: int, use_bias: bool = True,
                 kernel_initializer: InitializerLike = "glorot_uniform",
                 recurrent_initializer: InitializerLike = "orthogonal",
                 kernel_regularizer: RegularizerLike = None,
                 recurrent_regularizer: RegularizerLike = None, return_sequences: bool = False,
                 return_state: bool = False, go_backwards: bool = False, **options: Any) -> None:
        super().__init__(return_state, **options)


class GRU(_Recurrent):
    """Gated recurrent units; see :class:`SimpleRNN`."""

    def __init__(self, units: int, use_bias: bool = True,
                 kernel_initializer: InitializerLike = "glorot_uniform",
                 recurrent_initializer: InitializerLike = "orthogonal",
                 kernel_regularizer: RegularizerLike = None,
                 recurrent_regularizer: RegularizerLike = None, return_sequences: bool = False,
                 return_state: bool = False, go_backwards: bool = False, reset_after: bool = True,
                 **options: Any) -> None:
        super().__init__(return_state, **options)


class LSTM(_Recurrent):
    """Long short-term memory, with two states, h and c; see :class:`SimpleRNN`."""

    _states = 2

    def __init__(self, units: int, use_bias: bool = True,
                 kernel_initializer: InitializerLike = "glorot_uniform",
                 recurrent_initializer: InitializerLike = "orthogonal",
                 unit_forget_bias: bool = True, kernel_regularizer: RegularizerLike = None,
                 recurrent_regularizer: RegularizerLike = None, return_sequences: bool = False,
                 return_state: bool = False, go_backwards: bool = False, **options: Any) -> None:
        super().__init__(return_state, **options)


class Bidirectional(Layer):
    """Two recurrent layers, of which one reads the sequence backwards.

    ``merge_mode`` is "concat", "sum", "mul" or "ave".
    """

    _masks = "takes"
    _c = ("rf_layer_bidirectional", ("layer", "merge_mode", "name"))

    def __init__(self, layer: Layer, merge_mode: str = "concat", **options: Any) -> None:
        super().__init__(**options)
        self._num_outputs = 1 + 2 * (layer._num_outputs - 1)

    def _passed_on(self, given: List[KerasTensor],
                   mask: Optional[KerasTensor]) -> Optional[KerasTensor]:
        inner: Layer = self._fields["layer"]
        return inner._passed_on(given, mask)


class TimeDistributed(Layer):
    """Applies a layer to each step, with the same weights: [n, steps, ...] -> [n, steps, ...]."""

    _masks = "takes"
    _c = ("rf_layer_time_distributed", ("layer", "name"))

    def __init__(self, layer: Layer, **options: Any) -> None:
        super().__init__(**options)


class RotaryScaling(Configured):
    """How angles of rotary positions are scaled: "linear", "dynamic" or "llama3"."""

    def __init__(self, scaling: str, factor: float, original_length: int = 0,
                 low_frequency_factor: float = 0.0, high_frequency_factor: float = 0.0) -> None:
        pass

    def to_c(self, keep: List[Any]) -> Any:
        """The library's ``rf_rotary_params *``."""
        return fill("rf_rotary_params", self._config, keep, "RotaryScaling", self._defaults)


class MultiHeadAttention(Layer):
    """Multi-head attention: query [n, t, d] [, value [n, s, e] [, key]] -> [n, t, output].

    ``causal`` (or ``use_causal_mask`` of the first call): each query attends to the keys up to its
    place. ``num_key_value_heads``: heads of keys and values, each for several of queries.
    ``rotary_base`` turns queries and keys by their places, at angles that ``rotary``, a
    RotaryScaling, may change. ``window``: each query attends to so many keys at most.
    ``query_key_norm``: an epsilon of norms of each head. ``softcap`` bends scores. ``packed``: the
    mask are the positions that ``Dataset.pack()`` makes, and sequences of a row stay apart.
    """

    _masks = "takes"
    _c = ("rf_layer_multi_head_attention", "rf_multi_head_attention_params")

    def __init__(self, num_heads: int, key_dim: int, value_dim: Optional[int] = None,
                 dropout: float = 0.0, use_bias: bool = True,
                 output_shape: Optional[int] = None,
                 kernel_initializer: InitializerLike = "glorot_uniform", seed: int = 0,
                 causal: bool = False, num_key_value_heads: Optional[int] = None,
                 rotary_base: float = 0.0, scale: float = 0.0, window: int = 0,
                 softcap: float = 0.0, query_key_norm: float = 0.0,
                 use_output_bias: bool = True, rotary: Optional[RotaryScaling] = None,
                 packed: bool = False, **options: Any) -> None:
        super().__init__(**options)

    def __call__(self, query: Any, value: Any = None, key: Any = None,  # type: ignore[override]
                 attention_mask: Any = None, use_causal_mask: Optional[bool] = None,
                 training: Optional[bool] = None) -> Any:
        """Attends with the query to the keys, and gives the values; without them to itself."""
        if use_causal_mask is not None:
            self._set_before_use("causal", use_causal_mask)
        inputs = [tensor for tensor in (query, value, key) if tensor is not None]
        return super().__call__(inputs, training=training, mask=attention_mask)

    def _travelling(self, given: List[KerasTensor]) -> Optional[KerasTensor]:
        """That of the keys."""
        return given[min(1, len(given) - 1)].travels

    def _passed_on(self, given: List[KerasTensor],
                   mask: Optional[KerasTensor]) -> Optional[KerasTensor]:
        return given[0].travels


class PositionEmbedding(Layer):
    """Adds a learned vector for each place: [n, t, d] with t up to ``sequence_length``.

    Called with [x, positions], each step has the place that int32 positions [n, t] say.
    """

    _masks = "passes"
    _c = ("rf_layer_position_embedding", ("sequence_length", "initializer", "name"))

    def __init__(self, sequence_length: int, initializer: InitializerLike = "glorot_uniform",
                 **options: Any) -> None:
        super().__init__(**options)


class TokenPositions(Layer):
    """Places of tokens that are padded on either side, int32 [n, steps]: ``padding`` plus the
    number of the token, from 1 on; padding itself gets ``padding``."""

    _c = ("rf_layer_token_positions", ("padding",))
    _dtype = "int32"

    def __init__(self, padding: int = 0, **options: Any) -> None:
        super().__init__(**options)


class ClassToken(Layer):
    """Puts a learned vector before each sequence: [n, t, d] -> [n, 1 + t, d]."""

    _c = ("rf_layer_class_token", ("initializer", "name"))

    def __init__(self, initializer: InitializerLike = "zeros", **options: Any) -> None:
        super().__init__(**options)


class SinePositionEncoding(Layer):
    """Adds sines and cosines of each place: [n, t, d]."""

    _masks = "passes"
    _c = ("rf_layer_sine_position_encoding", ("max_wavelength",))

    def __init__(self, max_wavelength: float = 10000, **options: Any) -> None:
        super().__init__(**options)


MaxPool2D = MaxPooling2D
AvgPool2D = AveragePooling2D
MaxPool1D = MaxPooling1D
AvgPool1D = AveragePooling1D
