# SPDX-License-Identifier: Apache-2.0
"""Signals belong to the application that links the library, not to what the library depends on.

Usage: test_signals.py RINGFIRE SIGNAL_APP"""
import os
import pathlib
import resource
import signal
import subprocess
import sys
import tempfile
import unittest

RINGFIRE, APP = map(os.path.abspath, sys.argv[1:3])
ENV = {k: v for k, v in os.environ.items() if not k.startswith("RINGFIRE_")}
# Sanitizers would handle crashes themselves.
LEFT_ALONE = "".join(":handle_%s=0" % name
                     for name in ("segv", "sigbus", "sigill", "sigfpe", "abort"))
for variable in ("ASAN_OPTIONS", "UBSAN_OPTIONS"):
    ENV[variable] = os.environ.get(variable, "") + LEFT_ALONE


class Signals(unittest.TestCase):
    def setUp(self):
        holder = tempfile.TemporaryDirectory()
        self.addCleanup(holder.cleanup)
        self.folder = pathlib.Path(holder.name)

    def job(self, **env):
        """By itself a job of this host shares memory, and does not open libfabric."""
        return subprocess.run([RINGFIRE, "run", "-n", "2", "--insecure", "--", APP, "job"],
                              stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, text=True, timeout=60, cwd=self.folder,
                              env={**ENV, **env})

    def end_with(self, number):
        with subprocess.Popen([APP, "ready"], stdout=subprocess.PIPE, text=True, cwd=self.folder,
                              env=ENV,
                              preexec_fn=lambda: resource.setrlimit(
                                  resource.RLIMIT_CORE, (0, 0))) as process:
            try:
                self.assertEqual(process.stdout.readline(), "ready\n")
                process.send_signal(number)
                return process.wait(20)
            finally:
                if process.poll() is None:
                    process.kill()

    def test_one_process(self):
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGABRT, signal.SIGSEGV):
            self.assertEqual(self.end_with(number), -number, number)
        self.assertEqual(list(self.folder.iterdir()), [])

    def test_abort(self):
        done = subprocess.run([APP, "abort"], cwd=self.folder, env=ENV, timeout=20,
                              preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_CORE, (0, 0)))
        self.assertEqual(done.returncode, -signal.SIGABRT)
        self.assertEqual(list(self.folder.iterdir()), [])

    def test_job(self):
        for shared in "0", "1":
            with self.subTest(shared=shared):
                done = self.job(RINGFIRE_SHARED_MEMORY=shared)
                self.assertEqual(done.returncode, 0, done.stderr)
                self.assertEqual(done.stdout.count("sum 2"), 2, done.stdout)

    def test_no_libfabric(self):
        (self.folder / "libfabric.so.1").write_bytes(b"")
        done = self.job(LD_LIBRARY_PATH=str(self.folder))
        self.assertEqual(done.returncode, 0, done.stderr)
        done = self.job(LD_LIBRARY_PATH=str(self.folder), RINGFIRE_SHARED_MEMORY="0")
        self.assertNotEqual(done.returncode, 0)
        lines = [line for line in done.stderr.splitlines() if "signal_app: " in line]
        self.assertTrue(lines, done.stderr)
        self.assertTrue(any("libfabric.so.1" in line and "install libfabric1" in line
                            for line in lines), done.stderr)


if __name__ == "__main__":
    suite = unittest.defaultTestLoader.loadTestsFromTestCase(Signals)
    sys.exit(0 if unittest.TextTestRunner(verbosity=2).run(suite).wasSuccessful() else 1)
