# SPDX-License-Identifier: Apache-2.0
"""`ringfire run` and `ringfire keygen` as a user meets them: output, failures, signals, restarts,
other hosts.

Usage: test_run.py RINGFIRE"""
import os
import pathlib
import pty
import re
import signal
import stat
import subprocess
import sys
import tempfile
import time
import unittest

RINGFIRE = os.path.abspath(sys.argv[1])
ENV = {k: v for k, v in os.environ.items() if not k.startswith("RINGFIRE_")}


def command(*arguments):
    return [RINGFIRE, "run", *map(str, arguments)]


def shell(script, *options, env=None, timeout=60, cwd=None):
    """Runs a shell script as the workers."""
    return subprocess.run(command(*options, "--", "sh", "-c", script), stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, text=True,
                          timeout=timeout, stdin=subprocess.DEVNULL, env={**ENV, **(env or {})},
                          cwd=cwd)


def wait_for(condition, seconds=20):
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        value = condition()
        if value:
            return value
        time.sleep(0.02)
    raise AssertionError("did not happen within %g s" % seconds)


def alive(pid):
    """Zombies do not count."""
    try:
        return pathlib.Path("/proc/%d/stat" % pid).read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


class Case(unittest.TestCase):
    def setUp(self):
        holder = tempfile.TemporaryDirectory()
        self.addCleanup(holder.cleanup)
        self.folder = pathlib.Path(holder.name)
        self.temporary = self.folder / "tmp"
        self.temporary.mkdir()

    def start(self, script, *options, env=None):
        process = subprocess.Popen(command(*options, "--", "sh", "-c", script),
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                   text=True, stdin=subprocess.DEVNULL, cwd=self.folder,
                                   env={**ENV, "TMPDIR": str(self.temporary), **(env or {})})
        self.addCleanup(self.end, process)
        return process

    @staticmethod
    def end(process):
        if process.poll() is None:
            process.kill()
        process.communicate()

    def pids(self, count):
        """Process numbers that the workers wrote into files pid.RANK of the test's folder."""
        def read():
            texts = [f.read_text() for f in sorted(self.folder.glob("pid.*"))]
            return [int(t)
                    for t in texts] if len(texts) == count and all(
                        t.endswith("\n") for t in texts) else None
        return wait_for(read)


WRITE_PID = "echo $$ >pid.$RINGFIRE_RANK; "


class Local(Case):
    def test_environment_and_prefixes(self):
        done = shell('echo "rank $RINGFIRE_RANK of $RINGFIRE_WORLD_SIZE local '
                     '$RINGFIRE_LOCAL_RANK/$RINGFIRE_LOCAL_SIZE epoch '
                     '$RINGFIRE_EPOCH at $RINGFIRE_MASTER in $(pwd)"; echo; echo to stderr >&2; '
                     'printf "no end"', "-n", 3,
                     cwd=self.folder)
        self.assertEqual(done.returncode, 0, done.stderr)
        for rank in range(3):
            mine = [line for line in done.stdout.splitlines() if line.startswith("[%d] " % rank)]
            self.assertRegex(mine[0],
                             r"^\[%d\] rank %d of 3 local %d/3 epoch 0 at 127\.0\.0\.1:\d+ in %s$" %
                             (rank, rank, rank, re.escape(os.path.realpath(self.folder))))
            self.assertEqual(mine[1:], ["[%d] " % rank, "[%d] no end" % rank])
        self.assertEqual(sorted(done.stderr.splitlines()), ["[%d] to stderr" % r for r in range(3)])
        self.assertEqual(len(done.stdout.splitlines()), 9)

    def test_lines_are_whole(self):
        done = shell("i=0; while [ $i -lt 300 ]; do printf 'aaaaaaaaaa'; printf 'bbbbbbbbbb\\n'; "
                     "i=$((i+1)); done", "-n", 4)
        self.assertEqual(done.returncode, 0, done.stderr)
        lines = done.stdout.splitlines()
        self.assertEqual(len(lines), 1200)
        for line in lines:
            self.assertRegex(line, r"^\[[0-3]\] a{10}b{10}$")

    def test_long_output(self):
        done = subprocess.run(command("-n", 2, "--", sys.executable, "-c", "print('x' * 3000000)"),
                              stdout=subprocess.PIPE, env=ENV,
                              timeout=60)
        self.assertEqual(done.returncode, 0)
        self.assertEqual(done.stdout.count(b"x"), 6000000)

    def test_no_prefix(self):
        done = subprocess.run(command("-n", 1, "--no-prefix", "printf", "progress\\rend"),
                              stdout=subprocess.PIPE, env=ENV, timeout=20)
        self.assertEqual((done.returncode, done.stdout), (0, b"progress\rend"))

    def on_terminal(self, *arguments, env=None):
        main, other = pty.openpty()
        process = subprocess.Popen(command(*arguments),
                                   stdout=other,
                                   stderr=other,
                                   env={
                                       **ENV,
                                       **(env or {})
                                   },
                                   stdin=subprocess.DEVNULL)
        os.close(other)
        text = b""
        try:
            while chunk := os.read(main, 4096):
                text += chunk
        except OSError:  # the other end is closed
            pass
        os.close(main)
        self.assertEqual(process.wait(20), 0)
        return text

    def test_colour_on_terminals_only(self):
        for env, pattern in (({}, b"\x1b\\[3\\dm\\[1\\]\x1b\\[0m hello"),
                             ({"NO_COLOR": "1"}, b"\\[1\\] hello")):
            self.assertRegex(self.on_terminal("-n", 2, "--", "echo", "hello", env=env), pattern)

    def test_carriage_returns(self):
        """A bar that is drawn again and again shows while it grows; CR LF remains one end of a
        line."""
        for text, shown in (("\\r1%%\\r2%%\\r3%%\\n", "1%\n2%\n3%\n"), ("1%%\\r2%%\\r\\nend",
                                                                        "1%\n2%\nend\n"),
                            ("a\\r\\n\\r\\nb\\r\\r\\n", "a\n\nb\n"), ("\\r\\rx", "x\n")):
            done = shell("printf '%s'" % text, "-n", 1)
            self.assertEqual(done.stdout, "".join("[0] %s\n" % line for line in shown.splitlines()),
                             text)
        script = "printf '\\r1%%'; printf '\\r2%%'; sleep 5"
        process = subprocess.Popen(command("-n", 1, "--", "sh", "-c", script),
                                   stdout=subprocess.PIPE,
                                   env=ENV,
                                   stdin=subprocess.DEVNULL)
        begin = time.monotonic()
        self.assertEqual(process.stdout.readline(), b"[0] 1%\n")
        self.assertLess(time.monotonic() - begin, 4)
        process.communicate(timeout=20)
        script = "printf '\\r1%%'; sleep 0.3; printf '\\r2%%'; sleep 0.3; echo; echo end"
        shown = self.on_terminal("-n", 1, "--", "sh", "-c", script, env={"NO_COLOR": "1"})
        self.assertEqual(shown, b"[0] 1%\r\x1b[K[0] 1%\r\x1b[K[0] 2%\r\x1b[K[0] 2%\r\n[0] end\r\n")

    def test_closed_streams(self):
        """A stream that is missing is none of the pipes to the workers."""
        said = "[0] hi\n[1] hi\n"
        for closed, status, out in (("<&-", 0, said), ("2>&-", 0, said), ("<&- 2>&-", 0, said),
                                    (">&-", 1, ""), ("<&- >&- 2>&-", 1, "")):
            done = subprocess.run(
                ["sh", "-c", '"$@" ' + closed, "sh", *command("-n", 2, "echo", "hi")],
                stdout=subprocess.PIPE,
                text=True,
                env=ENV,
                timeout=20)
            self.assertEqual((done.returncode, "".join(sorted(done.stdout.splitlines(True)))),
                             (status, out), closed)
        done = subprocess.run(["sh", "-c", '"$@" >&-', "sh", *command("-n", 2, "true")],
                              stderr=subprocess.PIPE,
                              text=True,
                              env=ENV,
                              timeout=20)
        self.assertEqual((done.returncode, done.stderr), (0, ""))

    def test_standard_input_is_empty(self):
        done = subprocess.run(command("-n", 2, "--", "cat"), input=b"something",
                              stdout=subprocess.PIPE, env=ENV, timeout=20)
        self.assertEqual((done.returncode, done.stdout), (0, b""))

    def test_arguments_unchanged(self):
        words = ["a b", "", "'quoted'", "$HOME", "-n", "--", "\\", "two\nlines", "ü"]
        done = subprocess.run(command("-n", 1, "--no-prefix", sys.executable, "-c",
                                      "import sys; print(sys.argv[1:])", *words),
                              stdout=subprocess.PIPE, text=True, env=ENV, timeout=20)
        self.assertEqual(done.stdout, "%r\n" % words)

    def test_job_key(self):
        done = shell('stat -c "%a %s" "$RINGFIRE_KEY_FILE" "$(dirname "$RINGFIRE_KEY_FILE")"; cat '
                     '"$RINGFIRE_KEY_FILE"; '
                     'echo "file $RINGFIRE_KEY_FILE"; echo "insecure [$RINGFIRE_INSECURE]"; tr '
                     '"\\0" " " </proc/$PPID/environ; echo; '
                     'env; cat /proc/*/cmdline 2>/dev/null | tr "\\0" " "', "-n", 2, "--no-prefix",
                     env={"TMPDIR": str(self.temporary), "RINGFIRE_INSECURE": "1",
                          "RINGFIRE_KEY_FILE": "/nowhere"})
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("600 65\n700 ", done.stdout)
        self.assertIn("insecure []\n", done.stdout)
        keys = set(re.findall(r"(?<![0-9a-f])[0-9a-f]{64}(?![0-9a-f])", done.stdout))
        self.assertEqual(len(keys), 1)  # both have the same
        # only where they printed the file: in no environment or argument
        self.assertEqual(done.stdout.count(keys.pop()), 2)
        path = re.search("^file (.*)$", done.stdout, re.M).group(1)
        self.assertTrue(path.startswith(str(self.temporary)))
        self.assertFalse(os.path.exists(os.path.dirname(path)))
        again = shell('cat "$RINGFIRE_KEY_FILE"', "--no-prefix")
        self.assertNotIn(again.stdout, done.stdout)

    def test_place_of_the_key(self):
        """Below TMPDIR, or the next place that can be written; /tmp need not be."""
        script = 'echo "$RINGFIRE_KEY_FILE"; wc -c <"$RINGFIRE_KEY_FILE"'
        done = shell(script, "--no-prefix", env={"TMPDIR": str(self.folder / "missing")})
        self.assertRegex(done.stdout, r"^/tmp/ringfire-\w+/job.key\n65\n$", done.stderr)
        if subprocess.run(["unshare", "--mount", "true"],
                          stderr=subprocess.DEVNULL).returncode != 0:
            self.skipTest("no mount namespace of its own (unshare --mount)")
        place = tempfile.mkdtemp(dir="/var/tmp")
        self.addCleanup(os.rmdir, place)
        locked = 'mount --bind /tmp /tmp && mount -o remount,bind,ro /tmp && exec "$@"'
        words = [
            "unshare", "--mount", "sh", "-c", locked, "sh",
            *command("--no-prefix", "--", "sh", "-c", script)
        ]
        without = {k: v for k, v in ENV.items() if k not in ("TMPDIR", "XDG_RUNTIME_DIR")}
        for env, expected in (({
                "TMPDIR": place
        }, place), ({
                "XDG_RUNTIME_DIR": place
        }, place), ({}, "/dev/shm")):
            done = subprocess.run(words,
                                  stdout=subprocess.PIPE,
                                  stderr=subprocess.PIPE,
                                  text=True,
                                  env={
                                      **without,
                                      **env
                                  },
                                  timeout=20,
                                  cwd="/")
            self.assertRegex(done.stdout, r"^%s/ringfire-\w+/job.key\n65\n$" % expected,
                             done.stderr)

    def test_insecure_and_encrypt(self):
        script = 'echo "[$RINGFIRE_KEY_FILE] [$RINGFIRE_INSECURE] [$RINGFIRE_ENCRYPT]"'
        done = shell(script, "--insecure", "--no-prefix", env={"RINGFIRE_KEY_FILE": "/nowhere"})
        self.assertEqual(done.stdout, "[] [1] []\n")
        done = shell(script, "--encrypt", "--no-prefix")
        self.assertRegex(done.stdout, r"^\[/.*\] \[\] \[1\]\n$")

    def test_bind_and_port(self):
        done = shell('echo "$RINGFIRE_MASTER $RINGFIRE_BIND"', "-n", 2, "--no-prefix", "--bind",
                     "127.0.0.2", "--master-port", 4711)
        self.assertEqual(done.stdout, "127.0.0.2:4711 127.0.0.2\n" * 2)
        done = shell('echo "$RINGFIRE_MASTER"', "--no-prefix", "--bind", "::1", "--master-port",
                     4711)
        self.assertEqual(done.stdout, "[::1]:4711\n")
        for address in ("0.0.0.0", "::", "0", "0:0::0"):
            done = shell('echo "$RINGFIRE_MASTER $RINGFIRE_BIND"', "--no-prefix", "--bind", address,
                         "--master-port", 4711)
            self.assertEqual(done.stdout, "127.0.0.1:4711 %s\n" % address)
        done = shell('echo "$RINGFIRE_MASTER $RINGFIRE_BIND"', "--no-prefix", "--master-port", 4711,
                     env={"RINGFIRE_BIND": "127.0.0.2"})
        self.assertEqual(done.stdout, "127.0.0.2:4711 127.0.0.2\n")
        self.fails(shell("true", "--bind", "127.0.0.1", "-H", "here,there", "--ssh", "false"), 1,
                   "cannot reach", "127.0.0.1", "--bind")

    def test_runs_have_names(self):
        """Beside the user's own, which may be equal for two."""
        script = 'echo "$RINGFIRE_JOB $RINGFIRE_RUN_ID"'
        env = {"RINGFIRE_JOB": "mine", "RINGFIRE_RUN_ID": "old"}
        names = [shell(script, "--no-prefix", env=env).stdout for _ in range(2)]
        for name in names:
            self.assertRegex(name, r"^mine [0-9a-f]{16}\n$")
        self.assertNotEqual(*names)

    def fails(self, done, status, *texts):
        self.assertEqual(done.returncode, status, done.stderr)
        own = [line for line in done.stderr.splitlines() if line.startswith("ringfire: ")]
        self.assertEqual(len(own), 1, done.stderr)
        for text in texts:
            self.assertIn(text, own[0])

    def test_failing_rank(self):
        begin = time.monotonic()
        done = shell('if [ $RINGFIRE_RANK = 1 ]; then echo first >&2; echo "the reason " >&2; '
                     'exit 7; fi; sleep 30', "-n", 3)
        self.fails(done, 7, "rank 1", "exit status 7", "last line on stderr: the reason")
        self.assertLess(time.monotonic() - begin, 5)

    def test_program_not_found(self):
        done = subprocess.run(command("-n", 2, "/no/such/program"), stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, text=True,
                              env=ENV, timeout=20)
        self.fails(done, 127, "cannot start /no/such/program", "No such file")
        done = subprocess.run(command("-n", 1, "/etc/passwd"), stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, text=True, env=ENV,
                              timeout=20)
        self.fails(done, 126, "cannot start /etc/passwd", "ermission denied")

    def test_killed_rank(self):
        process = self.start(WRITE_PID + "sleep 30 & wait", "-n", 3)
        pids = self.pids(3)
        os.kill(pids[2], signal.SIGKILL)
        out, err = process.communicate(timeout=10)
        self.assertEqual(process.returncode, 128 + 9)
        self.assertIn("rank 2 on localhost was killed by signal 9", err)
        for pid in pids:
            self.assertFalse(alive(pid))
        self.assertEqual(list(self.temporary.iterdir()), [])

    def test_stubborn_rank_and_its_children(self):
        """Who ignores SIGTERM is killed after the grace, and so is what it started."""
        script = (WRITE_PID + "trap '' TERM; (echo $(exec sh -c 'echo $PPID') "
                              ">child.$RINGFIRE_RANK; sleep 60 & wait; sleep 60) & ")
        script += "if [ $RINGFIRE_RANK = 1 ]; then sleep 0.5; exit 3; fi; sleep 61; sleep 62"
        process = self.start(script, "-n", 2, "--grace", "1")
        begin = time.monotonic()
        out, err = process.communicate(timeout=20)
        self.assertEqual(process.returncode, 3)
        self.assertGreater(time.monotonic() - begin, 1.2)
        self.assertLess(time.monotonic() - begin, 6)
        self.assertIn("rank 1", err)
        children = [int(f.read_text()) for f in self.folder.glob("child.*")]
        self.assertEqual(len(children), 2)
        for pid in self.pids(2) + children:
            self.assertFalse(alive(pid))

    def test_lost_peer_is_not_the_cause(self):
        """Rank 0 says first that it lost a peer; the peer's own end, a little later, is what is
        reported."""
        script = ("case $RINGFIRE_RANK in 0) echo lost rank 1 >&2; exit 75;; 1) sleep 0.7; echo "
                  "broken >&2; exit 9;; *) sleep 30;; esac")
        self.fails(shell(script, "-n", 3), 9, "rank 1", "exit status 9", "broken")
        begin = time.monotonic()
        self.fails(shell("[ $RINGFIRE_RANK = 1 ] || exec sleep 30; echo lost >&2; exit 75", "-n",
                         2), 75, "rank 1",
                   "asked to be restarted (exit status 75); its last line on stderr: lost")
        self.assertLess(time.monotonic() - begin, 6)

    def test_restarts(self):
        count = 'echo "epoch $RINGFIRE_EPOCH port ${RINGFIRE_MASTER##*:}" >>log.$RINGFIRE_RANK; '
        done = shell(count + '[ $RINGFIRE_EPOCH -ge 2 ] || [ $RINGFIRE_RANK = 0 ] || exit 4', "-n",
                     2, "--max-restarts", 5,
                     cwd=self.folder)
        self.assertEqual(done.returncode, 0, done.stderr)
        log = (self.folder / "log.1").read_text()
        self.assertEqual(re.findall(r"epoch (\d)", log), ["0", "1", "2"])
        self.assertEqual(re.findall(r"starting again, attempt (\d) of (\d)", done.stderr),
                         [("2", "6"), ("3", "6")])
        self.assertEqual(done.stderr.count("rank 1 on localhost failed with exit status 4"), 2)
        done = shell("exit 4", "-n", 1, "--max-restarts", 2, env={"RINGFIRE_EPOCH": "10"})
        self.assertEqual(done.returncode, 4)
        self.assertEqual(re.findall(r"epoch (\d+)", done.stderr), ["11", "12"])
        self.assertEqual(done.stderr.count("failed with exit status 4"), 3)

    def test_signals_are_passed_on(self):
        script = ("exec 2>/dev/null; trap 'echo usr1' USR1; trap 'echo term; exit 0' TERM; trap "
                  "'echo int; exit 0' INT; " + WRITE_PID)
        script += "while :; do sleep 0.05; done"
        for number, word in ((signal.SIGTERM, "term"), (signal.SIGINT, "int")):
            for f in self.folder.glob("pid.*"):
                f.unlink()
            process = self.start(script, "-n", 2, "--max-restarts", 3)
            self.pids(2)
            process.send_signal(signal.SIGUSR1)
            time.sleep(0.4)
            self.assertIsNone(process.poll())
            process.send_signal(number)
            out, err = process.communicate(timeout=10)
            self.assertEqual((process.returncode, err), (0, ""))
            for rank in range(2):
                self.assertIn("[%d] usr1\n" % rank, out)
                self.assertIn("[%d] %s\n" % (rank, word), out)

    def test_stop_on_request(self):
        """Who stops for SIGUSR1 with status 75 is not started again: it was asked."""
        script = ("exec 2>/dev/null; trap 'exit 75' USR1; " + WRITE_PID
                  + "while :; do sleep 0.05; done")
        process = self.start(script, "-n", 2, "--max-restarts", 3)
        self.pids(2)
        process.send_signal(signal.SIGUSR1)
        out, err = process.communicate(timeout=10)
        self.assertEqual(process.returncode, 75)
        self.assertRegex(err, r"^ringfire: the workers stopped as signal 10 \(.*\) requested; "
                              r"start the job again to continue\n$")

    def test_signal_without_handler(self):
        process = self.start(WRITE_PID + "exec sleep 30", "-n", 2, "--max-restarts", 3)
        pids = self.pids(2)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=10)
        self.assertEqual((process.returncode, err), (130, ""))
        self.assertFalse(any(map(alive, pids)))

    def test_signal_costs_a_peer(self):
        """Who loses a peer because the user ended it has not failed by itself."""
        script = "[ $RINGFIRE_RANK = 1 ] || trap 'exit 75' INT; " + WRITE_PID + "sleep 30 & wait"
        process = self.start("exec 2>/dev/null; " + script, "-n", 2, "--max-restarts", 3)
        self.pids(2)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=20)
        self.assertEqual((process.returncode, err), (130, ""))

    def test_second_signal_ends(self):
        process = self.start("trap '' INT; " + WRITE_PID + "sleep 30; sleep 30", "-n", 2, "--grace",
                             "0.5")
        pids = self.pids(2)
        process.send_signal(signal.SIGINT)
        time.sleep(0.5)
        self.assertIsNone(process.poll())
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=10)
        self.assertEqual(process.returncode, 130)
        self.assertFalse(any(map(alive, pids)))

    def test_killed_launcher(self):
        process = self.start(WRITE_PID + "sleep 30; sleep 30", "-n", 2, "--grace", "1")
        pids = self.pids(2)
        process.kill()
        process.communicate(timeout=10)
        wait_for(lambda: not any(map(alive, pids)))
        wait_for(lambda: not list(self.temporary.iterdir()))

    def test_closed_output(self):
        process = self.start(WRITE_PID + "while :; do echo line; sleep 0.05; done", "-n", 2,
                             "--grace", "1")
        pids = self.pids(2)
        process.stdout.close()
        self.assertEqual(process.wait(10), 1)
        self.assertIn("output cannot be written", process.stderr.read())
        self.assertFalse(any(map(alive, pids)))
        process.stdout = open(os.devnull)

    def test_bad_options(self):
        for arguments, text in ((["-n", "0", "true"], "--workers is '0'"),
                                (["-n", "x", "true"], "'x'"), ([], "PROGRAM is missing"),
                                (["--nnodes", "3:2", "true"], "3:2"),
                                (["--nnodes", "2", "true"], "2 hosts but 1 is listed"),
                                (["--master-port", "70000", "true"], "70000"),
                                (["--grace", "soon", "true"], "soon"),
                                (["--insecure", "--encrypt", "true"], "--insecure"),
                                (["-H", "", "true"], "name of a host"),
                                (["-H", "a:0", "true"], "slots of 'a:0'"),
                                (["-H", "a,", "true"], "name of a host"),
                                (["-H", "-oProxyCommand=x", "true"], "name of a host"),
                                (["-H", "a b", "true"], "name of a host"),
                                (["-H", "fe80::1:4", "true"], "[address]:slots"),
                                (["-H", "localhost,other", "true"], "localhost"),
                                (["-H", "localhost:2", "-n", "3", "true"],
                                 "3 workers do not fit into the 2 slots"),
                                (["--ssh", " ", "true"], "--ssh"),
                                (["--export", "=x", "true"], "=x")):
            done = subprocess.run(command(*arguments), stdout=subprocess.PIPE,
                                  stderr=subprocess.PIPE, text=True, env=ENV, timeout=20)
            self.assertNotEqual(done.returncode, 0, arguments)
            self.assertGreater(done.returncode, 0)
            self.assertIn(text, done.stderr)

    def test_hostfile(self):
        path = self.folder / "hosts"
        for text, message in (("", "names no host"), ("# nothing\n\n", "names no host"),
                              ("a slots=2\nb slots=x\n", "hosts:2: 'slots=x'"),
                              ("a\nb 2\n", "hosts:2: '2'"), ("a slots=0\n", "hosts:1"),
                              ("a/b\n", "hosts:1: 'a/b'"),
                              ("a slots=4 max_slots=2\n", "slots=4 is more than max_slots=2"),
                              ("a max_slots=x\n", "'max_slots=x'"),
                              ("a slots=99999\n", "hosts:1")):
            path.write_text(text)
            self.refused(path, message)
        self.refused(self.folder / "missing", "No such file")
        path.write_text("# here\nlocalhost  slots=2 # two\n\n127.0.0.1\n")
        done = shell("echo $RINGFIRE_RANK of $RINGFIRE_WORLD_SIZE, $RINGFIRE_LOCAL_RANK",
                     "--hostfile", path, "--no-prefix")
        self.assertEqual(sorted(done.stdout.splitlines()), ["0 of 3, 0", "1 of 3, 1", "2 of 3, 0"],
                         done.stderr)
        path.write_bytes(b"\xef\xbb\xbflocalhost slots=2 max_slots=4\r\n127.0.0.1 max-slots=1\r\n")
        done = shell("echo $RINGFIRE_RANK of $RINGFIRE_WORLD_SIZE", "--hostfile", path,
                     "--no-prefix")
        self.assertEqual(sorted(done.stdout.splitlines()), ["0 of 3", "1 of 3", "2 of 3"],
                         done.stderr)
        for encoding in ("utf-16-le", "utf-16-be"):
            path.write_bytes("\ufefflocalhost\n".encode(encoding))
            self.refused(path, "is UTF-16")

    def refused(self, path, message):
        done = subprocess.run(command("--hostfile", path, "true"), stderr=subprocess.PIPE,
                              text=True, env=ENV, timeout=20)
        self.assertEqual(done.returncode, 1)
        self.assertIn(message, done.stderr)

    def test_help(self):
        for name in ("run", "keygen"):
            done = subprocess.run([RINGFIRE, name, "--help"], stdout=subprocess.PIPE, text=True,
                                  timeout=20)
            self.assertEqual(done.returncode, 0)
            self.assertIn("RINGFIRE_", done.stdout)

    def test_keygen(self):
        def keygen(*arguments, home=self.folder):
            env = {k: v for k, v in ENV.items() if k != "XDG_CONFIG_HOME"}
            return subprocess.run([RINGFIRE, "keygen", *map(str, arguments)],
                                  stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                  timeout=20, env={**env, "HOME": str(home)})
        path = self.folder / "key"
        self.assertEqual((keygen(path).stdout), "%s\n" % path)
        self.assertEqual(stat.S_IMODE(path.stat().st_mode), 0o600)
        self.assertRegex(path.read_text(), r"^[0-9a-f]{64}\n$")
        before = path.read_text()
        self.fails(keygen(path), 1, str(path), "exists")
        self.assertEqual(path.read_text(), before)
        self.fails(keygen(self.folder / "none" / "key"), 1, "none/key")
        done = keygen()
        default = self.folder / ".config/ringfire/job.key"
        self.assertEqual((done.returncode, done.stdout), (0, "%s\n" % default), done.stderr)
        self.assertEqual(stat.S_IMODE(default.stat().st_mode), 0o600)
        self.assertEqual(stat.S_IMODE(default.parent.stat().st_mode), 0o700)
        self.assertNotEqual(default.read_text(), before)
        self.assertNotEqual(keygen("a", "b").returncode, 0)


class Hosts(Case):
    """Other hosts are played by a program in ssh's place."""

    def ssh(self, body='exec sh -c "$2"'):
        path = self.folder / "ssh"
        path.write_text("#!/bin/sh\necho \"$1\" >>%s/calls\n%s\n" % (self.folder, body))
        path.chmod(0o755)
        return path

    def test_two_hosts(self):
        done = shell('echo "$RINGFIRE_RANK/$RINGFIRE_WORLD_SIZE '
                     '$RINGFIRE_LOCAL_RANK/$RINGFIRE_LOCAL_SIZE ${RINGFIRE_MASTER%:*} '
                     '$RINGFIRE_PEER_TIMEOUT $MINE $OTHER"; cat "$RINGFIRE_KEY_FILE"', "--ssh",
                     self.ssh(), "-H", "alpha:2,beta:3",
                     "--no-prefix", "-x", "MINE", "-x", "OTHER=x y",
                     env={"RINGFIRE_PEER_TIMEOUT": "3", "MINE": "m", "RINGFIRE_RANK": "9"})
        self.assertEqual(done.returncode, 0, done.stderr)
        lines = sorted(done.stdout.splitlines(), key=len)
        self.assertEqual(sorted(lines[:5]), ["%d/5 %s alpha 3 m x y" % (r, l) for r, l in
                                             enumerate(("0/2", "1/2", "0/3", "1/3", "2/3"))])
        self.assertEqual(len(set(lines[5:])), 1)  # one key for all
        self.assertEqual(sorted((self.folder / "calls").read_text().split()), ["alpha", "beta"])

    def test_fewer_workers_than_slots(self):
        done = shell("echo $RINGFIRE_RANK", "--ssh", self.ssh(), "-H", "alpha:2,beta:2,gamma", "-n",
                     "3", "--no-prefix")
        self.assertEqual(sorted(done.stdout.split()), ["0", "1", "2"])
        self.assertEqual(sorted((self.folder / "calls").read_text().split()), ["alpha", "beta"])

    def test_noise_from_login_scripts(self):
        done = shell("echo out", "--ssh", self.ssh('echo "Welcome to $1"; exec sh -c "$2"'), "-H",
                     "alpha")
        self.assertEqual((done.returncode, done.stdout, done.stderr),
                         (0, "[0] out\n", "[alpha] Welcome to alpha\n"))
        done = shell("echo out", "--ssh", self.ssh('exec cat /dev/zero'), "-H", "alpha")
        self.assertEqual(done.returncode, 1)
        self.assertIn("host alpha was not reached", done.stderr)

    def test_unreachable(self):
        script = self.ssh('[ "$1" = beta ] && { echo "no route to host beta" >&2; exit 255; }; '
                          'exec sh -c "$2"')
        done = shell("touch started", "--ssh", script, "-H", "alpha,beta", cwd=self.folder)
        self.assertEqual(done.returncode, 1)
        self.assertIn("ringfire: host beta was not reached: no route to host beta\n", done.stderr)
        self.assertFalse((self.folder / "started").exists())
        # Enough others are left.
        done = shell("echo $RINGFIRE_RANK/$RINGFIRE_WORLD_SIZE", "--ssh", script, "-H",
                     "beta,alpha:2", "--nnodes", "1:2", "--no-prefix")
        self.assertEqual((done.returncode, sorted(done.stdout.split())), (0, ["0/2", "1/2"]))
        # A spare stands in.
        done = shell("echo $RINGFIRE_RANK/$RINGFIRE_WORLD_SIZE", "--ssh", script, "-H",
                     "beta,alpha,gamma", "--nnodes", "2", "--no-prefix")
        self.assertEqual((done.returncode, sorted(done.stdout.split())), (0, ["0/2", "1/2"]),
                         done.stderr)
        done = shell("true", "--ssh", script, "-H", "beta,alpha", "--nnodes", "2")
        self.assertEqual(done.returncode, 1)
        self.assertIn("1 of 2 hosts is left, 2 are needed", done.stderr)

    def test_silent_host(self):
        begin = time.monotonic()
        done = shell("true", "--ssh", self.ssh('[ "$1" = beta ] && exec sleep 60; exec sh -c "$2"'),
                     "-H", "alpha,beta",
                     "--start-timeout", "1")
        self.assertEqual(done.returncode, 1)
        self.assertIn("host beta was not reached: no answer within 1 s", done.stderr)
        self.assertLess(time.monotonic() - begin, 8)

    def test_signal_while_starting(self):
        process = self.start("true", "--ssh", self.ssh("exec sleep 60"), "-H", "alpha",
                             "--max-restarts", 2)
        wait_for((self.folder / "calls").exists)
        begin = time.monotonic()
        process.send_signal(signal.SIGTERM)
        out, err = process.communicate(timeout=20)
        self.assertEqual((process.returncode, out, err), (143, "", ""))
        self.assertLess(time.monotonic() - begin, 4)

    def test_lost_host(self):
        """Epoch 0 loses beta; epoch 1 goes on with what is left."""
        script = self.ssh('echo $$ >"%s/ssh.$1"; exec sh -c "$2"' % self.folder)
        process = self.start(WRITE_PID + 'echo "$RINGFIRE_EPOCH: '
                                         '$RINGFIRE_RANK/$RINGFIRE_WORLD_SIZE"; [ $RINGFIRE_EPOCH '
                                         '= 1 ] || '
                             "exec sleep 30", "--ssh", script, "-H", "alpha:2,beta", "--nnodes",
                             "1:2", "--max-restarts", 1)
        pids = self.pids(3)
        os.kill(int((self.folder / "ssh.beta").read_text()), signal.SIGKILL)
        out, err = process.communicate(timeout=20)
        self.assertEqual(process.returncode, 0, err)
        self.assertIn("host beta was lost", err)
        self.assertIn("starting again, attempt 2 of 2, epoch 1", err)
        self.assertEqual(sorted(line.split(" ", 1)[1] for line in out.splitlines()
                                if " 1: " in line), ["1: 0/2", "1: 1/2"])
        wait_for(lambda: not any(map(alive, pids)))

    def test_silent_host_in_mid_job(self):
        """Like a host whose cable was pulled: nothing comes back, the others say that they lost a
        peer."""
        script = self.ssh('echo $$ >"%s/ssh.$1"; exec sh -c "$2"' % self.folder)
        process = self.start(WRITE_PID + 'echo "$RINGFIRE_EPOCH: '
                                         '$RINGFIRE_RANK/$RINGFIRE_WORLD_SIZE"; [ $RINGFIRE_EPOCH '
                                         '= 1 ] && exit; '
                             "[ $RINGFIRE_RANK = 1 ] && exec sleep 60; while [ ! -e go ]; do "
                             "sleep 0.05; done; exit 75", "--ssh", script,
                             "-H", "alpha,beta", "--nnodes", "1:2", "--max-restarts", 1, "--grace",
                             "0.5")
        pids = self.pids(2)
        os.kill(int((self.folder / "ssh.beta").read_text()), signal.SIGSTOP)
        (self.folder / "go").touch()
        out, err = process.communicate(timeout=30)
        self.assertEqual(process.returncode, 0, err)
        self.assertIn("host beta was lost", err)
        self.assertIn("[0] 1: 0/1\n", out)
        wait_for(lambda: not any(map(alive, pids)))

    def test_other_version(self):
        fake = (r'''printf '\1ringfire agent\1\0\0\0\1\0\0\0\0\0\0\0\7'; '''
                r'''printf '9.9.9\0001'; exec sleep 30''')
        done = shell("true", "--ssh", self.ssh(fake), "-H", "alpha")
        self.assertEqual(done.returncode, 1)
        self.assertIn("host alpha has ringfire 9.9.9", done.stderr)

    def test_namespaces(self):
        """Two network namespaces as two hosts: workers reach each other."""
        tag = "rf%d" % (os.getpid() % 100000)
        names = [tag + "a", tag + "b"]

        def ip(*words):
            return subprocess.run(["ip", *words], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                  text=True, timeout=20)
        self.addCleanup(lambda: [ip("netns", "del", n) for n in names])
        steps = [("netns", "add", n) for n in names]
        steps += [("link", "add", names[0], "netns", names[0], "type", "veth", "peer", "name",
                   names[1], "netns", names[1])]
        for i, n in enumerate(names):
            steps += [("-n", n, "addr", "add", "10.77.0.%d/24" % (i + 1), "dev", n),
                      ("-n", n, "link", "set", n, "up"),
                      ("-n", n, "link", "set", "lo", "up")]
        for step in steps:
            done = ip(*step)
            if done.returncode != 0:
                self.skipTest("ip %s: %s" % (" ".join(step), done.stdout.strip()))
        script = self.ssh('case $1 in 10.77.0.1) n=%s;; *) n=%s;; esac; exec ip netns exec $n sh '
                          '-c "$2"' % tuple(names))
        talk = ("import os, socket; host, port = os.environ['RINGFIRE_MASTER'].split(':')\n"
                "if os.environ['RINGFIRE_RANK'] == '0':\n"
                "    s = socket.create_server((host, int(port))); c, peer = s.accept(); "
                "print('hello from', peer[0])\n"
                "else:\n"
                "    import time\n"
                "    for i in range(100):\n"
                "        try: socket.create_connection((host, int(port)), 5); break\n"
                "        except OSError: time.sleep(0.1)\n")
        done = subprocess.run(command("--ssh", script, "-H", "10.77.0.1,10.77.0.2", sys.executable,
                                      "-c", talk),
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=60,
                              env=ENV)
        self.assertEqual((done.returncode, done.stdout), (0, "[0] hello from 10.77.0.2\n"),
                         done.stderr)


if __name__ == "__main__":
    loader = unittest.defaultTestLoader
    suite = unittest.TestSuite(loader.loadTestsFromTestCase(c) for c in (Local, Hosts))
    result = unittest.TextTestRunner(verbosity=2).run(suite)
    sys.exit(0 if result.wasSuccessful() else 1)
