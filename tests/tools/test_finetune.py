# SPDX-License-Identifier: Apache-2.0
"""The guide "Fine-tuning a model of the hub", command by command; and that a training that is
killed goes on to the same weights, that a merged model is what PyTorch and the tests' own reader of
GGUF files read, that bad input is named.

Usage: test_finetune.py RINGFIRE EXAMPLES SOURCE PYTHON DRIVER"""
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
import programs  # noqa: E402

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import drivers  # noqa: E402

RINGFIRE, EXAMPLES, SOURCE = [pathlib.Path(path).resolve() for path in sys.argv[1:4]]
PYTHON, DRIVER = sys.argv[4:6]
COMMAND = re.compile(r"```sh\n(.*?)```", re.S)
LOSS = re.compile(r"Epoch (\d+)/\d+: loss (\S+)  \(")
COLOURS = ["--epochs", "3", "--learning-rate", "0.003", "--devices", "llvmpipe"]


def page_commands():
    text = (SOURCE / "docs/guides/finetuning.md").read_text("utf-8")
    return [block.strip() for block in COMMAND.findall(text)]


class FineTune(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.folder = pathlib.Path(folder.name)
        for name in "docs", "examples", "README.md":
            (cls.folder / name).symlink_to(SOURCE / name)
        cls.env = {**os.environ, "RINGFIRE_DEVICES": "llvmpipe",
                   "PATH": ":".join([str(EXAMPLES), str(RINGFIRE.parent), os.environ["PATH"]])}
        cls.said = {}
        found = drivers.find()
        for command in page_commands():
            if "SwiftShader" in command:
                if len(found) < 2:
                    continue
                cls.env["VK_DRIVER_FILES"] = cls.env["VK_ICD_FILENAMES"] = ":".join(found.values())
            done = subprocess.run(["bash", "-c", command], cwd=cls.folder, env=cls.env, timeout=300,
                                  stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                  encoding="utf-8", check=False)
            if done.returncode:
                raise AssertionError(command + "\n" + done.stdout + done.stderr)
            cls.said[command] = done.stdout

    def find(self, part):
        found, = [said for command, said in self.said.items() if part in command]
        return found

    def run_program(self, name, *arguments):
        return programs.run(EXAMPLES / name, *arguments, cwd=self.folder, env=self.env,
                            errors="replace")

    def test_learns(self):
        """It answers right, at once and from what it wrote."""
        said = self.find("--out tuned")
        losses = [float(loss) for _, loss in LOSS.findall(said)]
        self.assertEqual(len(losses), 3)
        self.assertLess(losses[2], 0.1)
        self.assertRegex(said, r"Snow is white\.\n"
                               r"\(\d+ tokens read, \d+ written, [\d.]+ tokens/s\)")
        self.assertRegex(self.find("generate tuned --prompt"),
                         r"(?s)Grass is green\.\n.*A rose is red\.\n")

    def test_two(self):
        """Two devices, and two workers, learn it as well; a directory has the original's files."""
        for out in "both", "vendors", "workers":
            if out == "vendors" and len(drivers.find()) < 2:
                continue
            self.assertLess(float(LOSS.findall(self.find("--out " + out))[-1][1]), 0.5)
            names = {path.name for path in (self.folder / out).iterdir()}
            self.assertEqual(names, {path.name for path in (self.folder / "small").iterdir()
                                     } - {"chats.jsonl", "loud.jsonl"})

    def test_adapter(self):
        """An adapter on weights in 4 bits changes the answers, and is written as PEFT does."""
        said = self.find("--lora 16")
        first, *_, last = [float(loss) for _, loss in LOSS.findall(said)]
        self.assertLess(last, first)
        self.assertIn("\nCoal is black!\n(", said)
        self.assertEqual({path.name for path in (self.folder / "adapter").iterdir()},
                         {"adapter_model.safetensors", "adapter_config.json"})

    def test_merged(self):
        """The adapter is part of the weights that are written, and a file says the same."""
        self.assertIn("\nCoal is black!\n(", self.find("--out merged "))
        self.assertIn("\nCoal is black!\n(", self.find("generate merged.gguf"))
        done = subprocess.run([PYTHON, SOURCE / "tests/pretrained/check_written.py", DRIVER,
                               self.folder / "merged", self.folder / "merged.gguf"],
                              env=self.env, timeout=300, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, encoding="utf-8", check=False)
        if done.returncode == 77:
            self.skipTest(done.stdout)
        self.assertEqual(done.returncode, 0, done.stdout)

    def test_killed(self):
        """SIGKILL within the second epoch: the same command ends with the same bytes."""
        train = ["small", "--data", "small/chats.jsonl", *COLOURS, "--save-every", "20",
                 "--checkpoint-dir", "again", "--out", "resumed"]
        killed = subprocess.Popen([EXAMPLES / "finetune", *train], cwd=self.folder, env=self.env,
                                  stdout=subprocess.DEVNULL)
        third, begun = self.folder / "again/backup-3.rfck", time.monotonic()
        while not third.exists() and time.monotonic() < begun + 120 and killed.poll() is None:
            time.sleep(0.01)
        killed.send_signal(signal.SIGKILL)
        self.assertEqual(killed.wait(60), -signal.SIGKILL)
        self.assertFalse((self.folder / "resumed").exists())
        done = self.run_program("finetune", *train)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual([epoch for epoch, _ in LOSS.findall(done.stdout)], ["2", "3"])
        whole, resumed = [(self.folder / name / "model.safetensors").read_bytes()
                          for name in ("tuned", "resumed")]
        self.assertEqual(whole, resumed)

    def test_options(self):
        """Drawn texts depend on the seed alone; a stop string is not shown."""
        draw = ["small", "--prompt", "a", "--raw", "--temperature", "2", "--max-new-tokens", "12"]
        texts = [self.run_program("generate", *draw, "--seed", seed).stdout.split("\n(")[0]
                 for seed in "112"]
        self.assertEqual(texts[0], texts[1])
        self.assertNotEqual(texts[0], texts[2])
        done = self.run_program("generate", "tuned", "--prompt", "What colour is coal?", "--stop",
                                "black")
        self.assertIn("\nCoal is \n(", done.stdout)

    def test_bad_input(self):
        for arguments, message in (
                (("finetune", "small"), "give a directory and --data"),
                (("finetune", "nowhere", "--data", "x"), "nowhere/config.json"),
                (("finetune", "small", "--data", "nothing.jsonl"), "nothing.jsonl"),
                (("generate", "small", "--prompt", "a", "--top-p", "2"), "'2' is not from 0 to 1"),
                (("generate", "small", "tuned", "--prompt", "a"), "one directory is enough")):
            done = self.run_program(*arguments)
            self.assertNotEqual(done.returncode, 0)
            self.assertIn(message, done.stderr)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
