# SPDX-License-Identifier: Apache-2.0
"""The examples in C++: they print what those in C do, and a pretrained model learns a text.

Usage: test_examples.py EXAMPLES SOURCE"""
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

EXAMPLES, SOURCE = [pathlib.Path(path).resolve() for path in sys.argv[1:3]]
sys.path.insert(0, str(SOURCE / "tests/support"))
import digits  # noqa: E402
import programs  # noqa: E402

SPEED = re.compile(r"[\d.]+ (images|tokens)/s")


class Examples(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def run_program(self, name, *arguments):
        done = programs.run(EXAMPLES / name, *arguments)
        self.assertEqual(done.returncode, 0, done.stderr)
        return SPEED.sub("", done.stdout)

    def both(self, name, *arguments):
        """What the two programs print, which is the same."""
        of_c, of_cpp = (self.run_program(program, *arguments) for program in (name, name + "_cpp"))
        self.assertEqual(of_c, of_cpp)
        return of_c

    def test_custom_loop(self):
        digits.write_both(self.folder, digits.patterns, 640, 100)
        options = ["--data", self.folder, "--batch-size", 10, "--devices", "0,0"]
        self.assertIn("Epoch 2, Loss: ", self.both("custom_loop", *options, "--epochs", 2))
        # Each goes on with what the other has saved.
        kept = [*options, "--checkpoint-dir", self.folder / "kept"]
        said = self.run_program("custom_loop_cpp", *kept, "--epochs", 2)
        self.assertIn("Accuracy after restoring the saved model without strategy: ", said)
        self.assertIn("Continuing in epoch 3\n", self.run_program("custom_loop", *kept,
                                                                  "--epochs", 4))
        self.assertIn("Continuing in epoch 5\n", self.run_program("custom_loop_cpp", *kept,
                                                                  "--epochs", 5))
        done = programs.run(EXAMPLES / "custom_loop_cpp", "--data", self.folder / "none")
        self.assertEqual(done.returncode, 1)
        self.assertIn("none", done.stderr)

    def test_gpt(self):
        text = self.folder / "fox.txt"
        text.write_text("the quick brown fox jumps over the lazy dog. " * 60)
        said = [self.run_program(program, "--text", text, "--batch-size", 4, "--devices", 0,
                                 "--steps", 20, "--sample", 8) for program in ("gpt", "gpt_cpp")]
        learned, written = [[re.findall(part, one) for one in said]
                            for part in (r"Step 20: loss .*", r"(?s)\n\n(.{8})\n")]
        self.assertEqual(len(learned[0] + written[0]), 2, said)
        self.assertEqual((learned[0], written[0]), (learned[1], written[1]))

    def test_pretrained(self):
        model, adapter = self.folder / "model", self.folder / "adapter"
        subprocess.run([sys.executable, SOURCE / "examples/finetune/make_model.py", model,
                        SOURCE / "README.md"], check=True, timeout=60)
        said = self.run_program("pretrained_cpp", model, SOURCE / "README.md", adapter, "Ringfire")
        losses = [float(loss) for loss in re.findall(r"(?m)^Epoch \d: loss (\S+)$", said)]
        self.assertEqual(len(losses), 3, said)
        self.assertLess(losses[2], losses[0])
        self.assertRegex(said, r"(?m)^Ringfire.")
        self.assertEqual({path.name for path in adapter.iterdir()},
                         {"adapter_model.safetensors", "adapter_config.json"})
        done = programs.run(EXAMPLES / "pretrained_cpp", model, model / "none", adapter, "x")
        self.assertEqual((done.returncode, "none: cannot open" in done.stderr), (1, True))


unittest.main(argv=sys.argv[:1])
