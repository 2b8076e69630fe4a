# SPDX-License-Identifier: Apache-2.0
"""There is a Vulkan driver to test on: a suite that found none would skip most of what it is for
and look green.

Usage: check_drivers.py RINGFIRE [MANIFEST...]: the manifests that the build directory's tests run
on"""
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

RINGFIRE = os.path.abspath(sys.argv[1])
MANIFESTS = sys.argv[2:]


def devices(manifest):
    """What the tool lists with this driver alone."""
    env = {**os.environ, "VK_DRIVER_FILES": manifest, "VK_ICD_FILENAMES": manifest}
    done = subprocess.run([RINGFIRE, "devices", "--json"], stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, text=True, timeout=60, env=env)
    if done.returncode:
        raise AssertionError("%s: %s" % (manifest, done.stderr.strip()))
    return json.loads(done.stdout)


class Drivers(unittest.TestCase):
    def test_all_can_be_used(self):
        self.assertTrue(MANIFESTS, "no Vulkan driver to test on: install mesa-vulkan-drivers "
                                   "(lavapipe) and chromium (SwiftShader) and "
                        "configure anew (meson setup --reconfigure BUILD), or name manifests with "
                        "-Dtest_drivers=")
        for manifest in MANIFESTS:
            self.assertTrue(pathlib.Path(manifest).is_file(),
                            manifest + " is gone: configure anew (meson setup --reconfigure BUILD "
                            "-Dtest_drivers=)")
            self.assertTrue([d for d in devices(manifest) if d["usable"]],
                            manifest + " offers no device that can be used")

    def test_none_fails(self):
        if MANIFESTS:
            done = subprocess.run([sys.executable, __file__, RINGFIRE], stdout=subprocess.PIPE,
                                  stderr=subprocess.STDOUT, text=True, timeout=60)
            self.assertEqual(done.returncode, 1)
            self.assertIn("no Vulkan driver to test on: install", done.stdout)

    def installed(self, stem):
        if not any(pathlib.Path(manifest).name.startswith(stem) for manifest in MANIFESTS):
            self.skipTest("not among the drivers that are tested on: what needs it, and what "
                          "compares the two, is left out")

    def test_lavapipe(self):
        self.installed("lvp_icd")

    def test_swiftshader(self):
        self.installed("vk_swiftshader_icd")

    def test_either_name_is_found(self):
        """Debian 12 has lvp_icd.x86_64.json, newer Mesa lvp_icd.json; where both lie about, one is
        taken."""
        sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
        import drivers
        with tempfile.TemporaryDirectory() as folder:
            paths = [pathlib.Path(folder, name) for name in drivers.names("lvp_icd")]
            drivers.KNOWN = {"lavapipe": paths}
            self.assertEqual(drivers.find(), {})
            paths[1].touch()
            self.assertEqual(drivers.find(), {"lavapipe": str(paths[1])})
            paths[0].touch()
            self.assertEqual(drivers.find(), {"lavapipe": str(paths[0])})


unittest.main(argv=sys.argv[:1], verbosity=2)
