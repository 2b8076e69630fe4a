# SPDX-License-Identifier: Apache-2.0
"""The command and the examples as a user meets them: help, tables, JSON, and a one-line error for
every kind of bad input.

Usage: test_cli.py RINGFIRE EXAMPLES_DIRECTORY"""
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
import digits  # noqa: E402
import programs  # noqa: E402

RINGFIRE, EXAMPLES = sys.argv[1], pathlib.Path(sys.argv[2])
BENCH = RINGFIRE + "-bench"  # built beside it
TRAINERS = ("custom_loop", "fit_callbacks", "linear_model", "mlp_one_hot", "parameter_server",
            "gpt", "nmt", "resnet", "vae")
SCRIPTS = pathlib.Path(__file__).resolve().parents[2] / "examples"


def write_data(folder, images=None, labels=None):
    """Training and test set of 70 images; files that are given stand in for theirs."""
    for stem in digits.STEMS:
        digits.write(folder, stem, digits.image_file(digits.shades(70)) if images is None
                     else images,
                     digits.label_file(70) if labels is None else labels)


class Cli(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def fails(self, done, *texts):
        """One line on stderr that holds the texts, and an exit code that says failure."""
        self.assertNotEqual(done.returncode, 0, done.stdout)
        self.assertGreaterEqual(done.returncode, 0, "ended by a signal: " + done.stderr)
        lines = done.stderr.strip().splitlines()
        self.assertEqual(len(lines), 1, done.stderr)
        for text in texts:
            self.assertIn(text, lines[0])

    def test_help(self):
        done = programs.run(RINGFIRE, "--help")
        self.assertEqual(done.returncode, 0)
        for command in ("devices", "bench"):
            self.assertIn(command, done.stdout)
            self.assertEqual(programs.run(RINGFIRE, command, "--help").returncode, 0)
        for name in TRAINERS:
            done = programs.run(EXAMPLES / name, "--help")
            self.assertEqual(done.returncode, 0)
            self.assertIn("--devices", done.stdout)
            if name not in ("linear_model", "gpt", "nmt", "resnet", "vae"):
                self.assertRegex(done.stdout, r"training set \(default:\s+[1-9]\d*\)")
        done = programs.run(EXAMPLES / "custom_op", "--help")
        self.assertEqual(done.returncode, 0)
        self.assertIn("--usage", done.stdout)
        self.assertRegex(programs.run(RINGFIRE, "--version").stdout, r"^ringfire \d+\.\d+\.\d+\n$")
        self.fails(programs.run(RINGFIRE, "devises"), "devises", "--help")

    def test_devices(self):
        table = programs.run(RINGFIRE, "devices")
        self.assertEqual(table.returncode, 0, table.stderr)
        devices = json.loads(programs.run(RINGFIRE, "devices", "--json").stdout)
        self.assertGreaterEqual(len(devices), 1)
        for i, device in enumerate(devices):
            self.assertEqual(device["index"], i)
            self.assertIn(device["name"], table.stdout)
            self.assertIn(device["type"], ("cpu", "discrete", "integrated", "virtual", "other"))
            self.assertGreater(device["memory_bytes"], 0)
        self.assertNotRegex(table.stdout, r"SwiftShader driver  ")  # its version follows
        if any(d["type"] == "cpu" for d in devices):
            self.assertIn("software", table.stdout)

    def test_output(self):
        """Results that have no place are an error, if possible before they are measured."""
        with open("/dev/full", "w") as full:
            for command in ((RINGFIRE, "devices"), (RINGFIRE, "--version"),
                            (EXAMPLES / "linear_model", "--devices", "llvmpipe", "--batch-size",
                             "8")):
                done = subprocess.run([str(c) for c in command], stdout=full,
                                      stderr=subprocess.PIPE, text=True, timeout=300)
                done.stdout = ""
                self.fails(done, "standard output", "No space left")
        done = programs.run(BENCH, "ops", "--op", "argmax", "--seconds", "1000",
                            "--json=" + self.folder.name, timeout=30)
        self.fails(done, self.folder.name, "Is a directory")
        self.fails(programs.run(BENCH, "ops", "--op", "nosuch"), "nosuch")

    def test_comparing_kernels(self):
        """With what the same device's compiler said before; another device's says nothing."""
        before = pathlib.Path(self.folder.name, "before.json")
        look = (BENCH, "kernels", "--op", "argmax", "--device", "llvmpipe")
        done = programs.run(*look, "--json=%s" % before)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("argmax", done.stdout)
        document = json.loads(before.read_text())
        self.assertTrue(all(k["failure"] is None and k["workgroup"] > 0
                            and k["declared_shared"] is not None for k in document["kernels"]))
        done = programs.run(*look, "--compare", before)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("%d of %d pipelines are also in" % (2 * (len(document["kernels"]),)),
                      done.stdout)
        before.write_text(json.dumps({**document, "device": "Voodoo 2"}))
        self.fails(programs.run(*look, "--compare", before), str(before), "Voodoo 2", "llvmpipe")

    def test_stored_kernels(self):
        """Of operands in 16 bits only kernels that read these themselves."""
        look = (BENCH, "kernels", "--device", "llvmpipe", "--type")
        done = programs.run(*look, "bf16", "--op", "softmax", "--json")
        self.assertEqual(done.returncode, 0, done.stderr)
        rows = json.loads(done.stdout)["kernels"]
        self.assertEqual({k["shader"].split("_")[-1] for k in rows}, {"vec4"})
        self.assertTrue(all(k["failure"] is None and k["case"].endswith(" bf16") for k in rows))
        self.fails(programs.run(*look, "f16", "--op", "argmax"), "argmax", "reads f16 itself")
        done = programs.run(*look, "f64", "--op", "softmax")
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertIn("--type f64: possible are f16 and bf16", done.stderr)

    def test_no_driver(self):
        env = {"VK_DRIVER_FILES": "/nonexistent.json", "VK_ICD_FILENAMES": "/nonexistent.json"}
        self.fails(programs.run(RINGFIRE, "devices", env=env), "Vulkan", "driver")
        for name in TRAINERS:
            if name != "parameter_server":  # looks for its cluster first
                self.fails(programs.run(EXAMPLES / name, env=env), "Vulkan", "driver")

    def test_unknown_device(self):
        self.fails(programs.run(EXAMPLES / "custom_loop", "--devices", "voodoo2"), "voodoo2")
        self.fails(programs.run(EXAMPLES / "custom_loop", "--devices", "99"), "99")
        self.fails(programs.run(BENCH, "ops", "--device", "voodoo2"), "voodoo2")

    def test_bad_data(self):
        folder = self.folder.name
        self.fails(programs.run(EXAMPLES / "custom_loop", "--data", folder),
                   "train-images-idx3-ubyte", folder)
        write_data(folder, images=digits.idx(3, (70, 28, 28), bytes(100)))
        self.fails(programs.run(EXAMPLES / "custom_loop", "--data", folder),
                   "train-images-idx3-ubyte", "truncated")
        write_data(folder, images=digits.idx(1, (70,), bytes(70)))
        self.fails(programs.run(EXAMPLES / "custom_loop", "--data", folder),
                   "train-images-idx3-ubyte", "images")
        write_data(folder, images=b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\x03garbage")
        self.fails(programs.run(EXAMPLES / "custom_loop", "--data", folder),
                   "train-images-idx3-ubyte", "gzip")
        labels = bytearray(i % 10 for i in range(70))
        labels[42] = 99
        write_data(folder, labels=digits.idx(1, (70,), bytes(labels)))
        for name in ("custom_loop", "fit_callbacks", "mlp_one_hot"):
            self.fails(programs.run(EXAMPLES / name, "--data", folder), "training set in " + folder,
                       "example 42", "label 99", "10 classes")
        write_data(folder, images=digits.idx(3, (70, 20, 20), bytes(70 * 400)))
        self.fails(programs.run(EXAMPLES / "custom_loop", "--data", folder), "1600 features", "576")

    def test_bad_options(self):
        for arguments in (("--epochs", "-1"), ("--epochs", "many"), ("--batch-size", "0"),
                          ("--learning-rate", "nan"), ("--learning-rate", "inf"), ("extra",)):
            done = programs.run(EXAMPLES / "custom_loop", *arguments)
            self.assertNotEqual(done.returncode, 0, arguments)
            self.assertIn(arguments[-1], done.stderr)

    def test_divergence(self):
        write_data(self.folder.name)
        options = ("--data", self.folder.name, "--epochs", "9", "--batch-size", "16",
                   "--learning-rate", "1e30", "--devices", "llvmpipe")
        self.fails(programs.run(EXAMPLES / "custom_loop", *options), "epoch ", "step ",
                   "the loss is ", "learning rate")
        self.fails(programs.run(EXAMPLES / "fit_callbacks", *options), "epoch ", "batch ",
                   "the loss is ", "learning rate")
        self.fails(programs.run(EXAMPLES / "linear_model", "--learning-rate", "1e38", "--devices",
                                "llvmpipe"), "step ", "the loss is ", "learning rate")

    def test_read_only_cache(self):
        """A directory that was named has to be writable; without the default one there is a
        warning."""
        folder = pathlib.Path(self.folder.name)
        blocked = folder / "file"
        blocked.write_text("a file where a directory should be")
        train = (EXAMPLES / "linear_model", "--batch-size", "8", "--devices", "llvmpipe")
        tune = (BENCH, "ops", "--op", "argmax", "--device", "llvmpipe", "--seconds", "0.001")
        for command in (train, tune):
            self.fails(programs.run(*command, env={"RINGFIRE_CACHE": str(blocked / "below")}),
                       "RINGFIRE_CACHE", str(blocked), "name another")
        default = {"RINGFIRE_CACHE": "", "XDG_CACHE_HOME": str(blocked)}
        for env in (default, {"RINGFIRE_CACHE": "", "XDG_CACHE_HOME": "", "HOME": ""}):
            done = programs.run(*train, env=env)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)
            self.assertIn("warning: no cache", done.stderr)
        self.assertEqual(programs.run(*tune, env=default).returncode, 0)
        self.fails(programs.run(*tune, "--tune", env=default), str(blocked), "RINGFIRE_CACHE")

    def test_examples_learn(self):
        folder = self.folder.name
        write_data(folder)
        for name, *devices in (("custom_loop",), ("fit_callbacks", "--devices", "llvmpipe"),
                               ("mlp_one_hot", "--devices", "llvmpipe")):
            done = programs.run(EXAMPLES / name, "--data", folder, "--epochs", "3", "--batch-size",
                                "16", *devices)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertEqual(done.stderr, "")
            self.assertIn("Number of devices: ", done.stdout)
            self.assertNotIn("\r", done.stdout)
            self.assertNotIn("nan", done.stdout)
        done = programs.run(EXAMPLES / "linear_model")
        self.assertEqual(done.returncode, 0, done.stderr)
        losses = [float(line.split()[-1]) for line in done.stdout.splitlines()
                  if line.startswith("step ")]
        self.assertEqual(len(losses), 10)
        self.assertLess(losses[-1], losses[0])

    def test_parameter_server(self):
        write_data(self.folder.name)
        program = EXAMPLES / "parameter_server"
        self.fails(programs.run(program, env={"TF_CONFIG": ""}), "TF_CONFIG is not set")
        port = 20000 + os.getpid() * 8 % 12000  # below those that systems hand out by themselves
        # One device: tasks share the processor as it is.
        done = programs.run("sh", SCRIPTS / "run_parameter_server.sh", program, "--data",
                            self.folder.name, "--devices", "llvmpipe",
                   "--epochs", "2", "--batch-size", "16", "--synchronous",
                   env={"PORT": str(port), "RINGFIRE": RINGFIRE, "TF_CONFIG": ""})
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(done.stderr, "")
        self.assertIn("Epoch 2/2: test loss", done.stdout)


if __name__ == "__main__":
    suite = unittest.defaultTestLoader.loadTestsFromTestCase(Cli)
    result = unittest.TextTestRunner(verbosity=2).run(suite)
    sys.exit(0 if result.wasSuccessful() else 1)
