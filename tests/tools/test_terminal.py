# SPDX-License-Identifier: Apache-2.0
"""The trainers on a terminal: a progress line that fits, and Ctrl-C.

Usage: test_terminal.py EXAMPLES_DIRECTORY"""
import os
import pathlib
import re
import signal
import sys
import tempfile
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
import digits  # noqa: E402
import programs  # noqa: E402

EXAMPLES = pathlib.Path(sys.argv[1]).resolve()
IMAGES, TEST_IMAGES = 800, 64
RESTARTABLE = 75  # RF_EXIT_RESTARTABLE


class Terminal(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        holder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(holder.cleanup)
        cls.data = pathlib.Path(holder.name)
        digits.write_both(cls.data, digits.shades, IMAGES, TEST_IMAGES)

    def start(self, columns, name, *options):
        trainer = programs.Terminal(columns, EXAMPLES / name, "--data", self.data, "--devices", "0",
                                    *options)
        self.addCleanup(trainer.close)
        return trainer

    def lines(self, columns, name):
        """The progress lines as they were drawn."""
        trainer = self.start(columns, name, "--epochs", "1", "--batch-size", "16")
        code, errors = trainer.finish()
        self.assertEqual((code, errors), (0, ""))
        drawn = [re.split(r"[\r\n]", part)[0] for part in trainer.text.split("\r\033[K")[1:]]
        drawn = [line for line in drawn if "%" in line and "loss" in line]
        self.assertTrue(drawn, trainer.text)
        for line in drawn:
            self.assertLess(len(line), columns, line)
        return drawn

    def test_80_columns(self):
        for name in ("custom_loop", "fit_callbacks"):
            for line in self.lines(80, name):
                self.assertRegex(line, r"^Epoch \d.* +\d+%  \d+ images/s  (ETA \d+:\d\d  )?loss "
                                       r"[\d.]+  accuracy [\d.]+ %$")

    def test_wide(self):
        self.assertRegex(self.lines(160, "fit_callbacks")[0],
                         r"^Epoch \d/\d  \[#+-*\]  \d+%  .*accuracy [\d.]+ %$")

    def test_40_columns(self):
        for line in self.lines(40, "custom_loop"):
            self.assertRegex(line, r"\d+%  (.*  )?loss [\d.]+  accuracy [\d.]+ %$")

    def test_interrupt_asks_for_a_stop(self):
        for name, kept in (("custom_loop", "ckpt-*"), ("fit_callbacks", "backup*")):
            with tempfile.TemporaryDirectory() as folder:
                trainer = self.start(80, name, "--epochs", "1000", "--batch-size", "16",
                                     "--checkpoint-dir", folder)
                trainer.read(until="loss ")
                trainer.process.send_signal(signal.SIGINT)
                code, errors = trainer.finish()
                self.assertEqual((code, errors), (RESTARTABLE, ""))
                self.assertRegex(trainer.text, r"(\n|\033\[K)Stopped on request[^\n]*\r\n$")
                self.assertTrue(list(pathlib.Path(folder).glob(kept)), os.listdir(folder))

    def test_second_interrupt_ends(self):
        trainer = self.start(80, "custom_loop", "--epochs", "1000", "--batch-size", IMAGES)
        trainer.read(until="Number of devices")
        while not trainer.catches(signal.SIGINT):
            time.sleep(0.001)
        trainer.process.send_signal(signal.SIGINT)
        until = time.monotonic() + 20
        while trainer.catches(signal.SIGINT) and time.monotonic() < until:
            time.sleep(0.0005)
        trainer.process.send_signal(signal.SIGINT)
        self.assertEqual(trainer.finish()[0], -signal.SIGINT)


if __name__ == "__main__":
    suite = unittest.defaultTestLoader.loadTestsFromTestCase(Terminal)
    sys.exit(0 if unittest.TextTestRunner(verbosity=2).run(suite).wasSuccessful() else 1)
