# SPDX-License-Identifier: Apache-2.0
"""Trains neural networks on any Vulkan devices, with the names of TensorFlow and Keras."""
from __future__ import annotations

from . import _arrays
from ._arrays import DType, bfloat16, float16, float32, int32, int64, uint8
from ._lib import (CancelledError, CorruptDataError, DeadlineError, DeviceLostError, Error,
                   FileError, InternalError, InvalidArgumentError, NoGradientError, NotFiniteError,
                   NotFoundError, OutOfDeviceMemoryError, OutOfHostMemoryError, PeerLostError,
                   TraceError, UnsupportedError, lib, text)
from ._trace import Tensor

__version__ = text(lib.rf_version_string())
