# SPDX-License-Identifier: Apache-2.0
"""`ringfire top`: a job that runs, one that is killed, and whoever has not its key.

Usage: test_top.py RINGFIRE FIT_CALLBACKS"""
import fcntl
import json
import os
import pathlib
import signal
import struct
import subprocess
import sys
import tempfile
import termios
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
import digits  # noqa: E402
import programs  # noqa: E402

RINGFIRE, TRAINER = sys.argv[1:3]
LEAVE = "\033[?25h\033[?1049l"  # what the view ends with


class Top(unittest.TestCase):

    @classmethod
    def setUpClass(cls):
        holder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(holder.cleanup)
        cls.data = pathlib.Path(holder.name)
        digits.write_both(cls.data)

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name)

    def start(self, status, *launcher, key=None):
        """A training without end; this test ends it."""
        env = {**os.environ, "RINGFIRE_STATUS": str(status)}
        if key:
            env["RINGFIRE_KEY_FILE"] = str(key)
        job = subprocess.Popen(
            [*map(str, launcher), TRAINER, "--data", self.data, "--epochs", "1000000",
             "--batch-size", "16", "--devices", "0", "--checkpoint-dir", self.root / "ckpt"],
            stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, env=env)

        def end():
            job.kill()
            job.communicate(timeout=60)
        self.addCleanup(end)
        return job

    def key(self, name):
        path = self.root / name
        programs.run(RINGFIRE, "keygen", path, check=True)
        return path

    def status(self, *where):
        """Once the training has begun and saved something."""
        for _ in range(600):
            done = programs.run(RINGFIRE, "top", *where, "--json", timeout=60)
            if done.returncode == 0:
                status = json.loads(done.stdout)
                if status["checkpoint"] and status["progress"]["values"]:
                    return status
            time.sleep(0.1)
        raise AssertionError(done.stderr or done.stdout)

    def test_two_workers(self):
        job = self.start(self.root, RINGFIRE, "run", "-n", 2, "--")
        status = self.status("--run", self.root)
        self.assertEqual([w["rank"] for w in status["workers"]], [0, 1])
        self.assertEqual([r["share"] for r in status["replicas"]], [0.5, 0.5])
        self.assertGreater(status["examples_per_second"], 0)
        self.assertEqual(status["progress"]["epochs"], 1000000)
        self.assertEqual({"loss", "val_loss"} - status["progress"]["values"].keys(), set())
        done = programs.run(RINGFIRE, "top", "--run", self.root, env={"COLUMNS": "120"})
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertNotIn("\033", done.stdout)
        for part in ("2 workers, 2 replicas", " of 1000000, batch ", "127.0.0.1", " examples/s, ",
                     "loss ", "50.0 %", str(self.root / "ckpt")):
            self.assertIn(part, done.stdout)
        job.terminate()
        job.wait(60)
        self.assertFalse((self.root / "ringfire.status").exists())

    def test_terminal(self):
        job = self.start(self.root / "run")
        self.status("--run", self.root / "run")
        top = programs.Terminal(100, RINGFIRE, "top", "--run", self.root / "run", "--interval",
                                "0.1", "--timeout", "1", keys=True)
        self.addCleanup(top.close)
        top.read(until="checkpoint")
        fcntl.ioctl(top.master, termios.TIOCSWINSZ, struct.pack("HHHH", 8, 44, 0, 0))
        top.process.send_signal(signal.SIGWINCH)
        top.read(until="...\033[K")  # cut to the width
        lines = top.text[top.text.rindex("\033[H", 0, top.text.index("...\033[K")) + 3:]
        self.assertEqual(max(map(len, lines.split("\033[J")[0].split("\033[K\r\n"))), 44)
        os.write(top.master, b"q")
        code, errors = top.finish()
        self.assertEqual((code, errors), (0, ""))
        self.assertEqual(top.text.count(LEAVE), 1)
        self.assertIn("checkpoint", top.text.split(LEAVE)[1])  # what was seen last stays

        top = programs.Terminal(100, RINGFIRE, "top", "--run", self.root / "run", "--interval",
                                "0.1", "--timeout", "1", keys=True)
        self.addCleanup(top.close)
        top.read(until="checkpoint")
        job.kill()
        code, errors = top.finish()
        self.assertEqual(code, 0)
        self.assertIn("the view ends: no answer for", errors)
        self.assertIn("has ended, or was killed", errors)
        self.assertTrue(top.text.split(LEAVE)[1])
        done = programs.run(RINGFIRE, "top", "--run", self.root / "run")
        self.assertEqual((done.returncode, done.stdout), (1, ""))
        self.assertIn("has ended, or was killed", done.stderr)

    def test_keys(self):
        key, other = self.key("job.key"), self.key("other.key")
        place = "127.0.0.1:%d" % programs.free_port()
        self.start(place, key=key)
        self.status(place, "--key-file", key)
        done = programs.run(RINGFIRE, "top", place, "--key-file", other)
        self.assertEqual(done.returncode, 1)
        self.assertIn("the reader needs the job's key file", done.stderr)
        done = programs.run(RINGFIRE, "top", place, "--insecure",
                            env={"RINGFIRE_KEY_FILE": None})
        self.assertEqual(done.returncode, 1)
        self.assertIn("has a job key", done.stderr)
        self.status(place, "--key-file", key)

    def test_nobody(self):
        place = "127.0.0.1:%d" % programs.free_port()
        done = programs.run(RINGFIRE, "top", place, "--insecure", env={"RINGFIRE_KEY_FILE": None})
        self.assertEqual(done.returncode, 1)
        self.assertIn("no job answers at %s" % place, done.stderr)
        done = programs.run(RINGFIRE, "top", "--run", self.root)
        self.assertEqual(done.returncode, 1)
        self.assertIn("RINGFIRE_STATUS=%s" % self.root, done.stderr)
        for wrong in ([], ["a:1", "--run", "b"], ["a:1", "b:2"], ["--run", "b", "--insecure"]):
            self.assertEqual(programs.run(RINGFIRE, "top", *wrong).returncode, 2, wrong)

    def test_place_that_cannot_be(self):
        job = self.start("192.0.2.1:7070", key=self.key("job.key"))
        self.assertEqual(job.wait(60), 1)
        self.assertIn("RINGFIRE_STATUS '192.0.2.1:7070'", job.stderr.read())


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
