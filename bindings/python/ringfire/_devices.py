# SPDX-License-Identifier: Apache-2.0
"""Vulkan devices: which ones there are, and how to name them."""
from __future__ import annotations

import re
from typing import Any, List, Optional

from ._lib import InvalidArgumentError, NotFoundError, check, ffi, lib, text


class PhysicalDevice:
    """A device. `name` and `device_type` are as TensorFlow has them, `details` as Vulkan."""

    def __init__(self, index: int, number: int, info: Any) -> None:
        self.index = index  # in the list of devices
        self.device_type = "CPU" if info.type == lib.RF_DEVICE_TYPE_CPU else "GPU"
        self.name = "/physical_device:%s:%d" % (self.device_type, number)
        self.usable = bool(info.usable)
        self.details = {
            "device_name": text(info.name),
            "driver": text(info.driver_info),
            "vendor": text(info.vendor_name),
            "memory": int(info.memory_size),
            "unusable_reason": text(info.unusable_reason),
        }

    def __repr__(self) -> str:
        return "PhysicalDevice(name=%r, device_type=%r)" % (self.name, self.device_type)

    def __eq__(self, other: Any) -> bool:
        return isinstance(other, PhysicalDevice) and self.name == other.name

    def __hash__(self) -> int:
        return hash(self.name)


def list_physical_devices(device_type: Optional[str] = None) -> List[PhysicalDevice]:
    """The usable devices, "GPU" or "CPU" (software drivers), or all; an empty list where there are
    none."""
    count = ffi.new("uint32_t *")
    try:
        check(lib.rf_devices_list(ffi.NULL, count))
    except NotFoundError:
        return []
    infos = ffi.new("rf_device_info[]", max(count[0], 1))
    check(lib.rf_devices_list(infos, count))
    made: List[PhysicalDevice] = []
    for i in range(min(count[0], len(infos))):
        kind = "CPU" if infos[i].type == lib.RF_DEVICE_TYPE_CPU else "GPU"
        number = sum(d.device_type == kind for d in made)
        if infos[i].usable:
            made.append(PhysicalDevice(infos[i].index, number, infos[i]))
    return [d for d in made if device_type is None or d.device_type == device_type.upper()]


def _entry(device: Any) -> str:
    """One device as the library names it. "/gpu:1" is the second GPU."""
    if isinstance(device, PhysicalDevice):
        return str(device.index)
    name = str(device)
    numbered = re.fullmatch(r"(?:/?(?:physical_device|device|logical_device):|/)?(GPU|CPU):(\d+)",
                            name, re.I)
    if not numbered:
        return name
    for found in list_physical_devices(numbered[1]):
        if found.name.endswith(":" + numbered[2]):
            return str(found.index)
    raise NotFoundError("there is no device %r; rf.config.list_physical_devices() lists them" %
                        name)


def device_list(devices: Any) -> Optional[str]:
    """What rf_mirrored_params::devices wants."""
    if devices is None or (isinstance(devices, str) and "," in devices):
        return devices
    listed = [devices] if isinstance(devices, (str, PhysicalDevice)) else list(devices)
    if not listed:
        raise InvalidArgumentError("an empty list of devices; leave it out for the default")
    return ",".join(_entry(d) for d in listed)
