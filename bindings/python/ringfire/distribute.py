# SPDX-License-Identifier: Apache-2.0
"""Strategies; after tf.distribute."""
from __future__ import annotations

from ._function import PerReplica
from ._servers import (ClusterCoordinator, ParameterServerStrategy, PerWorkerDataset, RemoteValue,
                       Server)
from ._strategy import (CentralStorageStrategy, ClusterSpec, InputContext, MirroredStrategy,
                        MultiWorkerMirroredStrategy, OneDeviceStrategy, ReduceOp, ReplicaContext,
                        Strategy, TFConfigClusterResolver, get_replica_context, get_strategy,
                        has_strategy, in_cross_replica_context, read_status)
