# SPDX-License-Identifier: Apache-2.0
"""Random numbers; after tf.random."""
from __future__ import annotations

from ._creation import normal, set_seed, uniform
