# SPDX-License-Identifier: Apache-2.0
"""A training program under `ringfire run` loses a worker: the others say so and ask to be started
again, the launcher names the cause, and with checkpoints the job goes on where it was.

Usage: test_training_faults.py RINGFIRE FIT_CALLBACKS"""
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

RINGFIRE, TRAINER = map(os.path.abspath, sys.argv[1:3])
WORKERS = 3
# Leaves the worker's process number and how it ended. Signals are the worker's to answer.
WRAP = ('trap "" TERM USR1; "$0" "$@" & echo $! >pid.$RINGFIRE_EPOCH.$RINGFIRE_RANK.part; '
        'mv pid.$RINGFIRE_EPOCH.$RINGFIRE_RANK.part pid.$RINGFIRE_EPOCH.$RINGFIRE_RANK; '
        'wait $!; code=$?; echo $code >code.$RINGFIRE_EPOCH.$RINGFIRE_RANK; exit $code')


class Training(unittest.TestCase):
    def setUp(self):
        holder = tempfile.TemporaryDirectory()
        self.addCleanup(holder.cleanup)
        self.folder = pathlib.Path(holder.name)
        digits.write_both(self.folder, digits.patterns)

    def start(self, options, *arguments):
        self.out, self.err = self.folder / "out", self.folder / "err"
        with open(self.out, "w") as out, open(self.err, "w") as err:
            process = subprocess.Popen(
                [RINGFIRE, "run", "-n", str(WORKERS), *options, "sh", "-c", WRAP, TRAINER, "--data",
                 str(self.folder), "--devices", "llvmpipe",
                 "--batch-size", "8", *map(str, arguments)],
                stdout=out, stderr=err, stdin=subprocess.DEVNULL, cwd=self.folder,
                env={**os.environ, "RINGFIRE_PEER_TIMEOUT": "2", "TMPDIR": str(self.folder)})
        self.addCleanup(lambda: (process.poll() is None and process.kill(), process.wait()))
        return process

    def texts(self):
        return self.out.read_text() + self.err.read_text()

    def await_epoch(self, process, number, seconds=240):
        until = time.monotonic() + seconds
        while "Epoch %d/" % number not in self.out.read_text():
            if process.poll() is not None or time.monotonic() > until:
                if "matches 'llvmpipe'" in self.err.read_text():
                    self.skipTest("lavapipe is not installed")
                self.fail("no epoch %d: %s" % (number, self.texts()))
            time.sleep(0.01)

    def kill(self, rank, number=signal.SIGKILL):
        os.kill(int((self.folder / ("pid.0.%d" % rank)).read_text()), number)
        return time.monotonic()

    def test_closing_line(self):
        """Workers that disagree: the line that ends the job gives the cause, not what went before
        it."""
        script = 'exec "$0" "$@" --seed $((1 + RINGFIRE_RANK))'
        done = subprocess.run([RINGFIRE, "run", "-n", "2", "sh", "-c", script, TRAINER, "--data",
                               str(self.folder),
                               "--devices", "llvmpipe", "--batch-size", "8", "--epochs", "1"],
                              stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
                              timeout=60)
        if "matches 'llvmpipe'" in done.stderr:
            self.skipTest("lavapipe is not installed")
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertIn("last operations, newest first", done.stderr)
        self.assertRegex(done.stderr.splitlines()[-1],
                         r"^ringfire: rank [01] on localhost failed with exit status 1; "
                                                       r"its last line on stderr: .*differs")

    def test_killed_worker(self):
        process = self.start([], "--epochs", 100000)
        self.await_epoch(process, 2)
        begin = self.kill(1)
        codes = [self.folder / ("code.0.%d" % r) for r in range(WORKERS)]
        while not all(c.exists() and c.read_text()
                      for c in codes) and time.monotonic() < begin + 20:
            time.sleep(0.01)
        seconds = time.monotonic() - begin
        self.assertEqual(process.wait(30), 137, self.texts())
        self.assertEqual([c.read_text().strip() for c in codes], ["75", "137", "75"], self.texts())
        errors = self.err.read_text()
        self.assertEqual(len(re.findall(r"^\[[02]\] .*rank 1 \(127\.0\.0\.1\) was lost", errors,
                                        re.M)), 2, errors)
        self.assertIn("ringfire: rank 1 on localhost failed with exit status 137", errors)
        for rank in (0, 2):  # what each did last, and then the reason
            lines = re.findall(r"^\[%d\] (.*)" % rank, errors, re.M)
            operations = [l for l in lines if re.search(r"rank %d: operation \d+ \w+ .*\(number "
                                                        r"\d+, .*\) (done in|pending for) [\d.]+ "
                                                        r"ms$" % rank, l)]
            self.assertEqual(len(operations), 16, errors)
            self.assertRegex(lines[-1], "was lost")
        self.assertLess(seconds, 5)
        print("all had ended %.2f s after the kill" % seconds)

    def check_stopped(self, process, status):
        """All workers, at the same step, with a checkpoint; no worker was lost, and none is started
        again."""
        self.assertEqual(process.wait(60), status, self.texts())
        self.assertEqual([(self.folder / ("code.0.%d" % r)).read_text().strip()
                          for r in range(WORKERS)], ["75"] * WORKERS, self.texts())
        self.assertIn("Stopped on request", self.out.read_text())
        self.assertNotIn("lost", self.err.read_text())
        self.assertNotIn("starting again", self.err.read_text())

    def test_one_worker_is_asked_to_stop(self):
        for number in (signal.SIGUSR1, signal.SIGTERM):
            process = self.start([], "--epochs", 100000, "--checkpoint-dir", "stopped-%d" % number)
            self.await_epoch(process, 2)
            self.kill(1, number)
            self.check_stopped(process, 75)
            self.assertIn("on localhost asked to be restarted (exit status 75)",
                          self.err.read_text())
            for file in self.folder.glob("pid.*"):
                file.unlink()

    def test_launcher_is_asked_to_stop(self):
        for number, status in ((signal.SIGUSR1, 75), (signal.SIGTERM, 143)):
            process = self.start(["--max-restarts", "1"], "--epochs", 100000, "--checkpoint-dir",
                                 "stopped-%d" % number)
            self.await_epoch(process, 2)
            process.send_signal(number)
            self.check_stopped(process, status)

    def test_stop_and_restart(self):
        """The user of a host that is needed elsewhere stops its worker: with restarts the job goes
        on."""
        process = self.start(["--max-restarts", "1"], "--epochs", 8, "--checkpoint-dir", "moved")
        self.await_epoch(process, 3)
        self.kill(2, signal.SIGTERM)
        self.assertEqual(process.wait(300), 0, self.texts())
        numbers = [int(n) for n in re.findall(r"Epoch (\d+)/8:", self.out.read_text())]
        self.assertEqual((numbers.count(1), numbers[-1]), (1, 8), self.out.read_text())
        self.assertIn("ringfire: starting again, attempt 2 of 2, epoch 1", self.err.read_text())
        self.assertNotIn("lost", self.err.read_text())

    def test_restart_goes_on(self):
        """The same end as without the loss."""
        epochs = 8
        self.assertEqual(self.start([], "--epochs", epochs, "--checkpoint-dir",
                                    "undisturbed").wait(300), 0, self.texts())
        undisturbed = re.search(r"Eval loss: .*", self.out.read_text()).group()
        for file in self.folder.glob("pid.*"):
            file.unlink()
        process = self.start(["--max-restarts", "1"], "--epochs", epochs, "--checkpoint-dir",
                             "disturbed")
        self.await_epoch(process, 3)
        self.kill(2)
        self.assertEqual(process.wait(300), 0, self.texts())
        out = self.out.read_text()
        self.assertIn("ringfire: rank 2 on localhost failed with exit status 137",
                      self.err.read_text())
        numbers = [int(n) for n in re.findall(r"Epoch (\d+)/%d:" % epochs, out)]
        self.assertEqual(numbers.count(1), 1, out)  # the first epochs were not done again
        self.assertEqual(numbers[-1], epochs, out)
        self.assertEqual(re.findall(r"Eval loss: .*", out)[-1], undisturbed)


if __name__ == "__main__":
    result = unittest.TextTestRunner(verbosity=2).run(
        unittest.defaultTestLoader.loadTestsFromTestCase(Training))
    sys.exit(0 if result.wasSuccessful() else 1)
