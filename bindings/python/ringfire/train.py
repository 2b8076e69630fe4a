# SPDX-License-Identifier: Apache-2.0
"""Checkpoints; after tf.train."""
from __future__ import annotations

from ._checkpoint import (Checkpoint, CheckpointManager, CheckpointOptions, RestoreStatus,
                          latest_checkpoint)
from ._strategy import ClusterSpec
