# SPDX-License-Identifier: Apache-2.0
"""Element types; after tf.dtypes."""
from __future__ import annotations

from ._arrays import DType, bfloat16, float16, float32, int32, int64, uint8
