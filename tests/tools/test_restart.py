# SPDX-License-Identifier: Apache-2.0
"""Both trainers of images as a user lives them. The custom loop saves every second epoch, and the
model restored without a strategy tests alike; a run that is stopped by SIGTERM or killed prints,
started again, what one without interruption prints.

Usage: test_restart.py CUSTOM_LOOP FIT_CALLBACKS COMM_H"""
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
import digits  # noqa: E402

TRAINER, FIT, HEADER = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2]), sys.argv[3]
RESTARTABLE = int(re.search(r"#define RF_EXIT_RESTARTABLE (\d+)",
                            pathlib.Path(HEADER).read_text()).group(1))
EPOCHS, TRAIN, TEST, LONG_TEST = 4, 480, 100, 6000


def images(count):
    """Bright squares at places that tell the class, and noise, so that not all are learnt at
    once."""
    state, pixels = count, bytearray()
    for i in range(count):
        for k in range(784):
            state = (state * 1103515245 + 12345) % 2**31
            inside = (k // 28) // 5 == i % 10 % 5 and (k % 28) // 14 == i % 10 // 5
            pixels.append((state >> 16) % 160 + (60 if inside else 0))
    return bytes(pixels)


class Restart(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.holder = tempfile.TemporaryDirectory()
        cls.folder = pathlib.Path(cls.holder.name)
        digits.write_both(cls.folder, images, TRAIN, TEST)
        cls.whole = cls.finish(cls.start("whole"))

    @classmethod
    def tearDownClass(cls):
        cls.holder.cleanup()

    @classmethod
    def start(cls, name, devices="llvmpipe", batch=8, trainer=TRAINER, epochs=EPOCHS, options=()):
        out = cls.folder / (name + ".out")
        with open(out, "w") as file, open(cls.folder / (name + ".err"), "w") as err:
            process = subprocess.Popen([trainer, "--data", str(cls.folder), "--devices", devices,
                                        "--epochs", str(epochs),
                                        "--batch-size", str(batch), "--checkpoint-dir",
                                        str(cls.folder / name), *options],
                                       stdout=file, stderr=err, stdin=subprocess.DEVNULL)
        process.out, process.err, process.directory = out, cls.folder / (
            name + ".err"), cls.folder / name
        return process

    @classmethod
    def finish(cls, process, code=0):
        process.wait(timeout=200)
        text = process.out.read_text()
        if process.returncode != code:
            raise AssertionError("exit %s: %s%s"
                                 % (process.returncode, text, process.err.read_text()))
        return text

    @staticmethod
    def epochs(text):
        """What is printed after each epoch but the speed, by number."""
        return {int(n): line for n, line in re.findall(r"^(?=Epoch (\d+), )(.*?) "
                                                       r"+\([^)]*images/s\)$", text, re.M)}

    def wait_for(self, process, line):
        end = time.monotonic() + 120
        while line not in process.out.read_text():
            self.assertIsNone(process.poll(), process.err.read_text())
            self.assertLess(time.monotonic(), end, "'%s' does not come" % line)
            time.sleep(0.02)

    def accuracies(self, text):
        tested = re.search(r"^Test accuracy: ([\d.]+) %$", text, re.M)
        restored = re.search(r"^Accuracy after restoring the saved model without strategy: "
                             r"([\d.]+)$", text, re.M)
        return tested.group(1), restored.group(1)

    def test_story(self):
        self.assertEqual(sorted(self.epochs(self.whole)), list(range(1, EPOCHS + 1)))
        tested, restored = self.accuracies(self.whole)
        self.assertEqual(tested, restored)
        self.assertIn("Test Accuracy: %s" % tested, self.epochs(self.whole)[EPOCHS])
        self.assertGreater(float(tested), 15)  # it has learnt: chance is 10
        steps = TRAIN // 8
        names = sorted(p.name for p in (self.folder / "whole").iterdir())
        self.assertEqual(names, sorted("ckpt-%d.rfck" % (n * steps) for n in (2, 4)))
        # Once more: there is nothing left to train, but to test.
        again = self.finish(self.start("whole"))
        self.assertEqual(self.epochs(again), {})
        self.assertEqual(self.accuracies(again), (tested, restored))

    def test_two_replicas(self):
        text = self.finish(self.start("two", "llvmpipe,llvmpipe", 4))
        tested, restored = self.accuracies(text)
        self.assertEqual(tested, restored)

    def test_sigterm(self):
        process = self.start("stopped")
        self.wait_for(process, "Epoch 2, ")
        process.send_signal(signal.SIGTERM)
        text = self.finish(process, RESTARTABLE)
        self.assertRegex(text, r"(?m)^Stopped on request in epoch 3$")
        steps = max(int(p.name[5:-5]) for p in process.directory.iterdir())
        # Before its first step and in its test are in epoch 3 too: a fast machine gets there before
        # the signal does.
        self.assertTrue(TRAIN // 8 * 2 <= steps <= TRAIN // 8 * 3,
                        "stopped at step %d, not within epoch 3" % steps)
        again = self.finish(self.start("stopped"))
        self.assertIn("Continuing in epoch 3\n", again)
        whole = self.epochs(self.whole)
        self.assertEqual(self.epochs(text), {n: whole[n] for n in (1, 2)})
        self.assertEqual(self.epochs(again), {n: whole[n] for n in (3, 4)})

    def test_sigterm_in_test(self):
        """Two steps, then a test that takes seconds: it ends early, and is made again when the
        program is."""
        folder = self.folder / "much-to-test"
        folder.mkdir()
        digits.write_both(folder, images, 16, LONG_TEST)
        for trainer, epoch, stopped in ((TRAINER, "Epoch %d, ", "Stopped on request in epoch 2\n"),
                                        (FIT, "Epoch %d/3: ", "Stopped on request\n")):
            name = pathlib.Path(trainer).name + "-tests"
            options = {"trainer": trainer, "epochs": 3, "options": ("--data", str(folder))}
            process = self.start(name, **options)
            self.wait_for(process, epoch % 1)
            time.sleep(0.1)
            process.send_signal(signal.SIGTERM)
            text = self.finish(process, RESTARTABLE)
            self.assertIn(stopped, text)
            self.assertNotIn(epoch % 2, text)
            again = self.finish(self.start(name, **options))
            whole = self.finish(self.start(name + "-whole", **options))
            lines = re.compile(r"^%s(.*?)(?: +\([^)]*images/s\))?$" % (epoch.replace("%d", r"\d")),
                               re.M)
            self.assertEqual(lines.findall(text) + lines.findall(again), lines.findall(whole))
            self.assertEqual(len(lines.findall(whole)), 3)

    def test_killed(self):
        # Saves go on beside training: on a slow disk an epoch is printed long before what was saved
        # after the one before it is there.
        process = self.start("killed")
        end = time.monotonic() + 120
        while not (saved := list(process.directory.glob("ckpt-*.rfck"))):
            self.assertIsNone(process.poll(), process.err.read_text())
            self.assertLess(time.monotonic(), end, "nothing is saved")
            time.sleep(0.005)
        process.kill()
        self.finish(process, -signal.SIGKILL)
        self.assertEqual([p.name for p in saved], ["ckpt-%d.rfck" % (2 * TRAIN // 8)])
        again = self.finish(self.start("killed"))
        self.assertIn("Continuing in epoch 3\n", again)
        whole = self.epochs(self.whole)
        self.assertEqual(self.epochs(again), {n: whole[n] for n in (3, 4)})
        self.assertEqual(self.accuracies(again), self.accuracies(self.whole))

    def test_learning_rates(self):
        """Three rates over ten short epochs, across a stop, as without one."""
        options = {"trainer": FIT, "epochs": 10, "options": ("--limit", "80")}
        pattern = r"^(?:Learning rate for epoch \d+ is .*|Epoch \d+/10: .*|Eval .*)$"
        whole = re.findall(pattern, self.finish(self.start("rates", **options)), re.M)
        rates = re.findall(r"Learning rate for epoch (\d+) is (\S+)", "\n".join(whole))
        self.assertEqual(rates, [(str(n), "0.001" if n <= 3 else "0.0001" if n <= 7 else "1e-05")
                                 for n in range(1, 11)])
        process = self.start("rates-stopped", **options)
        self.wait_for(process, "Learning rate for epoch 4 ")
        process.send_signal(signal.SIGTERM)
        lines = re.findall(pattern, self.finish(process, RESTARTABLE), re.M)
        self.assertLess(len(lines), len(whole))
        lines += re.findall(pattern, self.finish(self.start("rates-stopped", **options)), re.M)
        self.assertEqual(lines, whole)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
