# SPDX-License-Identifier: Apache-2.0
"""Finds the Vulkan driver of a machine that may have nothing but a driver's libraries, as machines
in the cloud and their containers do."""
import ctypes
import glob
import json
import os
import pathlib
import subprocess

MANIFESTS = ("/usr/local/nvidia/share/vulkan/icd.d/nvidia_icd.json", "/etc/vulkan/icd.d/*.json",
             "/usr/share/vulkan/icd.d/*.json",
             "/usr/local/share/vulkan/icd.d/*.json")
# NVIDIA's driver under the two names that hold Vulkan: the first needs X11's libraries beside it,
# the second does not.
LIBRARIES = ("libGLX_nvidia.so.0", "libEGL_nvidia.so.0")
HELP = """no Vulkan driver was found. What to do:
  a container on a machine with an NVIDIA GPU: start it with \
NVIDIA_DRIVER_CAPABILITIES=all (or graphics,compute,utility); with
    compute,utility alone, which is the default, the driver's Vulkan part is not mounted and \
nothing inside can bring it back
  AMD or Intel: install Mesa's drivers (Debian: mesa-vulkan-drivers), and give the container \
/dev/dri
  no GPU: install a software driver (Debian: mesa-vulkan-drivers holds lavapipe)
  a driver elsewhere: name its manifest in VK_DRIVER_FILES"""


def library_of(manifest):
    """What a manifest names, or None where it cannot be read."""
    try:
        return json.loads(pathlib.Path(manifest).read_text())["ICD"]["library_path"]
    except (OSError, ValueError, KeyError, TypeError):
        return None


def is_software(manifest):
    return any(word in pathlib.PurePath(library_of(manifest) or "").name
               for word in ("lvp", "swiftshader"))


def in_linker_cache(name):
    """The path of a library that the linker knows, or None."""
    try:
        listing = subprocess.run(["ldconfig", "-p"], stdout=subprocess.PIPE,
                                 stderr=subprocess.DEVNULL, text=True, timeout=10).stdout
    except (OSError, subprocess.TimeoutExpired):
        return None
    return next((line.split()[-1] for line in listing.splitlines() if line.split()
                 and line.split()[0] == name), None)


def loads(path):
    try:
        ctypes.CDLL(path)
    except OSError:
        return False
    return True


def joined(paths):
    """As VK_DRIVER_FILES takes them. One manifest of each name: distributions and drivers may
    install the same one twice."""
    return ":".join(list({pathlib.PurePath(path).name: path for path in reversed(paths)}.values())[
        ::-1])


def find(folder, environment=os.environ, manifests=MANIFESTS, library=in_linker_cache,
         can_load=loads, answers=bool):
    """The manifests to use, as VK_DRIVER_FILES takes them, or None. Those of GPUs go before those
    of software, unless none of them answers with a device: Mesa's are installed together, whatever
    the machine has. Where there is a library without a manifest, one is written to the folder."""
    for name in ("VK_DRIVER_FILES", "VK_ICD_FILENAMES"):
        if environment.get(name):
            return environment[name]
    found = [path for pattern in manifests for path in sorted(glob.glob(pattern))
             if library_of(path)]
    real = [path for path in found if not is_software(path)]
    nvidia = [path for path in real if any(name in library_of(path) for name in LIBRARIES)]
    if not nvidia:
        for name in LIBRARIES:
            path = library(name)
            if path and can_load(path):
                manifest = pathlib.Path(folder) / "nvidia.json"
                manifest.write_text(json.dumps({"file_format_version": "1.0.0",
                                                "ICD": {"library_path": path,
                                                        "api_version": "1.3.0"}}))
                real.insert(0, str(manifest))
                break
    software = [path for path in found if is_software(path)]
    return next((drivers for drivers in map(joined, (real, software)) if drivers
                 and answers(drivers)), None)
