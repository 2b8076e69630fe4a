# SPDX-License-Identifier: Apache-2.0
"""Functions of elements, reductions and products; after tf.math."""
from __future__ import annotations

from ._functions import (argmax, argmin, cumprod, cumsum, einsum, reduce_max, reduce_mean,
                         reduce_min, reduce_sum, softmax, top_k)
from ._ops import (abs, add, cos, divide, divide_no_nan, erf, exp, expm1, floor, log, log1p,
                   maximum, minimum, multiply, multiply_no_nan, negative, pow, round, rsqrt,
                   sigmoid, sign, sin, softplus, sqrt, square, subtract, tanh,
                   xdivy, xlog1py, xlogy)
