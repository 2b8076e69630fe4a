# SPDX-License-Identifier: Apache-2.0
"""Which devices a trainer opens and `ringfire devices` shows, on machines that a Vulkan layer makes
up of lavapipe's device, listed twice.

Usage: test_devices.py RINGFIRE LINEAR_MODEL LAYER"""
import json
import os
import pathlib
import re
import shutil
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
import programs  # noqa: E402

RINGFIRE, TRAINER, LAYER = sys.argv[1], sys.argv[2], os.path.abspath(sys.argv[3])
GPU_AND_SOFTWARE = "0:type=2,0:name=NVIDIA GeForce RTX 3060"
TWO_GPUS = "0:type=2,0:name=RTX 4090,0:uuid=1,1:type=2,1:name=RTX 4090,1:uuid=2"
TWO_DRIVERS = "0:type=2,0:name=Radeon 780M,0:uuid=7,1:type=2,1:name=Radeon 780M (RADV),1:uuid=7"


class Devices(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        at = pathlib.Path(folder.name)
        drivers = [p for p in os.environ.get("VK_DRIVER_FILES", "").split(":") if "lvp" in p]
        if not drivers:
            raise unittest.SkipTest("lavapipe is not installed")
        copies = [shutil.copy(drivers[0], at / ("lvp%d.json" % i)) for i in range(2)]
        layer = {
            "name": "VK_LAYER_FAKE_devices",
            "type": "GLOBAL",
            "library_path": LAYER,
            "api_version": "1.3.0",
            "implementation_version": "1",
            "description": "tests"
        }
        (at / "layer.json").write_text(json.dumps({"file_format_version": "1.0.0", "layer": layer}))
        cls.env = {
            "VK_LAYER_PATH": at,
            "VK_INSTANCE_LAYERS": layer["name"],
            "VK_DRIVER_FILES": ":".join(map(str, copies)),
            "VK_ICD_FILENAMES": None,
            "RINGFIRE_LOG": "debug"
        }

    def run_with(self, fake, *command, devices=None):
        done = programs.run(*command,
                            env={
                                **self.env, "FAKE_DEVICES": fake,
                                "RINGFIRE_DEVICES": devices
                            })
        self.assertEqual(done.returncode, 0, done.stderr)
        return done

    def test_trainer(self):
        """It opens what is chosen, and says what it leaves out where nothing is named."""
        for fake, devices, opened, left_out in (
            (GPU_AND_SOFTWARE, None, ["0"],
             "device 1, llvmpipe (LLVM 15.0.6, 256 bits): a software driver, and there is a GPU"),
            (TWO_DRIVERS, None, ["1"],
             "device 0, Radeon 780M: the same device as 1 by another driver"),
            (TWO_GPUS, "RTX 4090,RTX 4090", ["0", "1"], None)):
            with self.subTest(fake):
                done = self.run_with(fake, TRAINER, devices=devices)
                before = done.stderr.partition(" runs kernel ")[0]  # then others help to compile
                self.assertEqual(re.findall(r"opened as Vulkan device (\d+)", before), opened)
                self.assertEqual(
                    re.findall(r"(?m)^Left out: (.*)",
                               re.sub(r"LLVM [^,]*", "LLVM 15.0.6", done.stdout)),
                    [left_out] if left_out else [])

    def test_choice(self):
        for fake, devices, chosen in ((GPU_AND_SOFTWARE, None, "0"), (TWO_GPUS, None, "0, 1"),
                                      (TWO_DRIVERS, None, "1"), ("0:uuid=1", None, "0, 1"),
                                      ("", None, "0"), (GPU_AND_SOFTWARE + ",0:api=1", None,
                                                        "1"), (GPU_AND_SOFTWARE, "3060", "0"),
                                      (GPU_AND_SOFTWARE, "all", "0, 1"),
                                      (TWO_GPUS, "RTX 4090,RTX 4090,RTX 4090", "0, 1, 0"),
                                      (TWO_GPUS, "02" * 16 + ",1", "1, 1"),
                                      (TWO_DRIVERS, "Radeon 780M", "0"),
                                      (TWO_DRIVERS, "radeon", "1")):
            with self.subTest((fake, devices)):
                text = self.run_with(fake, RINGFIRE, "devices", devices=devices).stdout
                self.assertIn(
                    "Programs that name no devices use %s%s.\n" %
                    (chosen, ", as RINGFIRE_DEVICES says" if devices else ""), text)
        name = json.loads(self.run_with(GPU_AND_SOFTWARE, RINGFIRE, "devices",
                                        "--json").stdout)[1]["name"]
        self.assertIn(",", name)
        self.assertIn(
            " use 1, 1, 0, ",
            self.run_with(GPU_AND_SOFTWARE, RINGFIRE, "devices",
                          devices="%s,%s,0" % (name, name)).stdout)

    def test_list(self):
        devices = json.loads(self.run_with(TWO_DRIVERS, RINGFIRE, "devices", "--json").stdout)
        self.assertEqual([(d["by_default"], bool(d["left_out"])) for d in devices], [(False, True),
                                                                                     (True, False)])
        text = " ".join(self.run_with(TWO_DRIVERS, RINGFIRE, "devices").stdout.split())
        self.assertIn("UUID " + "07" * 16 + " not used by default: the same device as 1", text)
        text = " ".join(
            self.run_with(TWO_DRIVERS, RINGFIRE, "devices", devices="voodoo").stdout.split())
        self.assertIn("find none, as RINGFIRE_DEVICES says: device 'voodoo' matches nothing", text)


unittest.main(argv=sys.argv[:1])
