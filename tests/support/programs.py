# SPDX-License-Identifier: Apache-2.0
"""Starting programs as users do: with pipes, or on a terminal."""
import fcntl
import os
import pathlib
import pty
import random
import re
import select
import socket
import struct
import subprocess
import termios
import time

RESTARTABLE = 75  # RF_EXIT_RESTARTABLE


def run(program, *arguments, env=None, timeout=300, **options):
    """Runs a program to its end and returns what subprocess.run() does. `env` is added to the
    environment; None as a value removes."""
    merged = {k: v for k, v in {**os.environ, **(env or {})}.items() if v is not None}
    options = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "stdin": subprocess.DEVNULL,
               **options}
    return subprocess.run([str(program), *map(str, arguments)], encoding="utf-8", timeout=timeout,
                          env=merged, **options)


def stop_at(mark, command):
    """Asks a training to stop when a line of its output begins with the mark. It ends as one that
    goes on from its checkpoint; what it printed from there on is returned."""
    with subprocess.Popen([str(c) for c in command], stdout=subprocess.PIPE, text=True) as running:
        next((line for line in running.stdout if line.startswith(mark)), None)
        running.terminate()
        rest = running.stdout.read()
        status = running.wait(120)
    if status != RESTARTABLE or "Stopped on request" not in rest:
        raise AssertionError("status %d, %s" % (status, rest))
    return rest


def numbers(pattern, done):
    """The groups of each match of the pattern in what a program printed, as numbers."""
    return [tuple(map(float, match)) for match in re.findall(pattern, done.stdout)]


def free_port():
    """Below the range of outgoing connections, which others open while the tests run."""
    while True:
        port = random.randrange(20000, 32700)
        try:
            with socket.create_server(("", port)), socket.create_server(("", port + 1)):
                return port
        except OSError:
            pass


class Terminal:
    """A program whose standard output is a terminal; with `keys` its input is, too."""

    def __init__(self, columns, *command, keys=False):
        self.master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
        self.process = subprocess.Popen(list(map(str, command)), stdout=slave,
                                        stderr=subprocess.PIPE,
                                        stdin=slave if keys else subprocess.DEVNULL)
        os.close(slave)
        self.text = ""

    def read(self, until=None, seconds=120):
        """Reads to the end, or until the text shows up."""
        deadline = time.monotonic() + seconds
        while until is None or until not in self.text:
            ready, _, _ = select.select([self.master], [], [], deadline - time.monotonic())
            if not ready:
                raise AssertionError("nothing more within %g s: %r" % (seconds, self.text[-500:]))
            try:
                data = os.read(self.master, 65536)
            except OSError:  # the other end is closed
                break
            self.text += data.decode()
        return self.text

    def catches(self, number):
        status = pathlib.Path("/proc/%d/status" % self.process.pid).read_text()
        return bool(int(re.search(r"SigCgt:\s*(\w+)", status).group(1), 16) >> (number - 1) & 1)

    def finish(self, seconds=60):
        self.read()
        code = self.process.wait(seconds)
        return code, self.process.stderr.read().decode()

    def close(self):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        self.process.stderr.close()
        os.close(self.master)
