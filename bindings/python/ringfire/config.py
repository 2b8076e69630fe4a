# SPDX-License-Identifier: Apache-2.0
"""The devices of this machine; after tf.config."""
from __future__ import annotations

from ._devices import PhysicalDevice, list_physical_devices
