# SPDX-License-Identifier: Apache-2.0
"""Finds the manifests of the software drivers that the test suite runs on, as distributions and
versions name them.

Usage: drivers.py: prints one manifest a line, one for each driver that is installed"""
import pathlib
import platform

FOLDERS = ("/usr/local/share/vulkan/icd.d", "/etc/vulkan/icd.d", "/usr/share/vulkan/icd.d")
BROWSERS = ("/usr/lib/chromium", "/usr/lib64/chromium-browser", "/usr/lib/chromium-browser",
            "/usr/lib64/chromium")


def names(stem):
    """Mesa's manifests ended with the processor until version 25; several may lie side by side, for
    programs of several kinds."""
    return stem + ".json", "%s.%s.json" % (stem, platform.machine())


KNOWN = {
    "lavapipe": [pathlib.Path(folder, name) for folder in FOLDERS for name in names("lvp_icd")],
    "SwiftShader": [pathlib.Path(folder, "vk_swiftshader_icd.json")
                    for folder in (*BROWSERS, *FOLDERS)],
}


def find():
    """The first manifest that exists, by driver."""
    found = {driver: next((str(path) for path in paths if path.is_file()), None) for driver,
             paths in KNOWN.items()}
    return {driver: path for driver, path in found.items() if path}


if __name__ == "__main__":
    print("\n".join(find().values()))
