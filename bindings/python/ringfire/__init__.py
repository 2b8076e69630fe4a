# SPDX-License-Identifier: Apache-2.0
"""Trains neural networks on any Vulkan devices, with the names of TensorFlow and Keras."""
from __future__ import annotations

from . import (config, data, datasets, distribute, dtypes, keras, lora, math, nn, random, summary,
               text, train)
from ._arrays import DType, bfloat16, float16, float32, int32, int64, uint8
from ._creation import constant, convert_to_tensor, fill, ones, ones_like, zeros, zeros_like
from ._function import Function, TensorSpec, function
from ._functions import (add_n, argmax, argmin, argsort, cast, concat, cumprod, cumsum, einsum,
                         expand_dims, pad, reduce_max, reduce_mean, reduce_min, reduce_sum, reshape,
                         slice_update, sort, split, squeeze, stack, tile, transpose)
from ._lib import (CancelledError, CorruptDataError, DeadlineError, DeviceLostError, Error,
                   FileError, InternalError, InvalidArgumentError, NoGradientError, NotFiniteError,
                   NotFoundError, OutOfDeviceMemoryError, OutOfHostMemoryError, PeerLostError,
                   TraceError, UnsupportedError, lib)
from ._lib import text as _text
from ._ops import (abs, add, clip, cos, divide, erf, exp, floor, gather, log, matmul, maximum,
                   minimum, multiply, negative, one_hot, pow, reverse, round, rsqrt, sigmoid, sign,
                   sin, sqrt, square, stop_gradient, subtract, tanh, where)
from ._servers import ParameterServerStrategy
from ._strategy import (CentralStorageStrategy, MirroredStrategy, MultiWorkerMirroredStrategy,
                        OneDeviceStrategy, ReduceOp, Strategy)
from ._tape import GradientTape, gradients
from ._trace import Tensor
from ._values import Value
from ._variable import Variable, VariableAggregation

clip_by_value = clip
__version__ = _text(lib.rf_version_string())
