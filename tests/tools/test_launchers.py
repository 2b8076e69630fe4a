# SPDX-License-Identifier: Apache-2.0
"""The same programs under everything that starts jobs: each must bring its workers together by
itself. A small one says who is who; a trainer must come to the same losses, digit by digit, as
under `ringfire run`.

Usage: test_launchers.py RINGFIRE HELLO_WORLD [FIT_CALLBACKS PARAMETER_SERVER]"""
import json
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
import digits  # noqa: E402
from programs import free_port  # noqa: E402

RINGFIRE, HELLO, *TRAINER = map(os.path.abspath, sys.argv[1:4])
BENCH = RINGFIRE + "-bench"  # built beside it
SERVERS = list(map(os.path.abspath, sys.argv[4:5]))
FOREIGN = ("RINGFIRE_", "OMPI_", "PMIX_", "SLURM_", "TORCHELASTIC_")
NAMES = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT",
         "TF_CONFIG")
ENV = {k: v for k, v in os.environ.items() if not k.startswith(FOREIGN) and k not in NAMES}
ENV.update(RINGFIRE_BOOTSTRAP_TIMEOUT="20", OMPI_ALLOW_RUN_AS_ROOT="1",
           OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1",
           OMPI_MCA_rmaps_base_oversubscribe="1", PYTHONWARNINGS="ignore")
ENV.update({k: os.environ[k] for k in ("RINGFIRE_CACHE",) if k in os.environ})


def tool(name):
    path = shutil.which(name) or shutil.which(name, path="/usr/sbin:/sbin:/usr/local/sbin")
    if not path:
        raise unittest.SkipTest("%s is not installed" % name)
    return path


def mpirun():
    """With a place for every rank: Open MPI 5 counts cores, where its setting of version 4 has no
    effect."""
    return [tool("mpirun"), "--map-by", ":OVERSUBSCRIBE"]


def expected(world):
    return ["rank %d of %d, local %d of %d, sum %d"
            % (r, world, r, world, world * (world + 1) // 2) for r in range(world)]


def losses(out):
    """What the chief says of epochs and of the end; prefixes are the launcher's."""
    return re.findall(r"(Epoch \d+/\d+: loss: .*|Eval loss: .*)", out)


class Case(unittest.TestCase):
    reference = None

    def setUp(self):
        holder = tempfile.TemporaryDirectory()
        self.addCleanup(holder.cleanup)
        self.folder = pathlib.Path(holder.name)
        key = self.folder / "key"
        subprocess.run([RINGFIRE, "keygen", str(key)], check=True, stdout=subprocess.DEVNULL)
        self.env = {**ENV, "RINGFIRE_KEY_FILE": str(key)}
        digits.write_both(self.folder, digits.patterns)
        self.trainer = [*TRAINER, "--data", str(self.folder), "--devices", "llvmpipe",
                        "--batch-size", "8", "--epochs", "2"] if TRAINER else None

    def run_to_end(self, arguments, env=None, timeout=60):
        """In a process group of its own, which is gone afterwards whatever happens."""
        process = subprocess.Popen(list(map(str, arguments)), stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, text=True,
                                   stdin=subprocess.DEVNULL, env={**self.env, **(env or {})},
                                   start_new_session=True, cwd=self.folder)
        try:
            out, err = process.communicate(timeout=timeout)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            out, err = process.communicate()
            self.fail("%s did not end: %s%s" % (arguments, out, err))
        return process.returncode, out, err

    def works(self, world, arguments, env=None):
        code, out, err = self.run_to_end(arguments, env)
        self.assertEqual((code, sorted(l for l in out.splitlines() if l.startswith("rank "))),
                         (0, expected(world)), err)

    def expect_losses(self, code, out, err):
        """Of two workers, as under `ringfire run`, which is asked once."""
        if "matches 'llvmpipe'" in err:
            self.skipTest("lavapipe is not installed")
        if Case.reference is None:
            env = {k: v for k, v in self.env.items() if k != "RINGFIRE_KEY_FILE"}
            done = subprocess.run([RINGFIRE, "run", "-n", "2", "--no-prefix", *self.trainer],
                                  stdout=subprocess.PIPE, text=True, env=env, timeout=120)
            self.assertEqual((done.returncode, len(losses(done.stdout))), (0, 3), done.stdout)
            Case.reference = losses(done.stdout)
        self.assertEqual((code, losses(out)), (0, Case.reference), err)

    def trains(self, launcher):
        if self.trainer:
            self.expect_losses(*self.run_to_end([*launcher, *self.trainer], timeout=120))

    def measures(self, launcher):
        """`ringfire-bench allreduce` takes part in the launcher's job: one table for all, one exit
        code."""
        script = '"$@"; echo code $?'
        command = [*launcher, "sh", "-c", script, "sh", BENCH, "allreduce", "--size", "64K",
                   "--seconds", "0.05"]
        code, out, err = self.run_to_end(command)
        self.assertEqual((code, out.count("code 0"), out.count("code ")), (0, 2, 2), err)
        self.assertEqual(out.count("2 ranks of this job on 1 host, data over shared memory"), 1,
                         out)
        self.assertEqual(len(re.findall(r"(?m)^64 KiB +auto +[0-9.]+ +[0-9.]+ +[0-9.]+$", out)), 1,
                         out)
        self.assertNotIn("ringfire-bench:", err)
        for option, part, expected_code in (("--ranks=3", "--ranks is 3", 2),
                                            ("--json=/nonexistent/x", "/nonexistent/x", 1)):
            code, out, err = self.run_to_end([*command, option])
            self.assertEqual((code, out.count("code %d" % expected_code), len(out.splitlines())),
                             (0, 2, 2), out + err)
            self.assertEqual(err.count(part), 1, err)

    def train_together(self, environments):
        if not self.trainer:
            return
        codes, outs, errs = self.together(environments, self.trainer)
        self.expect_losses(max(codes), "\n".join(outs), "".join(errs))

    def together(self, environments, program=(HELLO,)):
        """Starts one process for each environment."""
        processes = [subprocess.Popen(program, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                      text=True, stdin=subprocess.DEVNULL,
                                      env={**self.env, **e}) for e in environments]
        try:
            ends = [p.communicate(timeout=120) for p in processes]
        finally:
            for p in processes:
                if p.poll() is None:
                    p.kill()
                    p.wait()
        return [p.returncode
                for p in processes], [out.strip() for out, _ in ends], [err for _, err in ends]


class Variables(Case):
    def test_nothing_at_all(self):
        self.works(1, [HELLO])

    def test_own(self):
        port = free_port()
        codes, outs, errs = self.together({"RINGFIRE_RANK": str(r), "RINGFIRE_WORLD_SIZE": "3",
                                           "RINGFIRE_MASTER": "127.0.0.1:%d" % port}
                                          for r in range(3))
        self.assertEqual((codes, outs), ([0] * 3, expected(3)), errs)

    def test_training(self):
        def own(rank, port):
            return {"RINGFIRE_RANK": str(rank), "RINGFIRE_WORLD_SIZE": "2",
                    "RINGFIRE_MASTER": "127.0.0.1:%d" % port}

        def torch(rank, port):
            return {"RANK": str(rank), "WORLD_SIZE": "2", "MASTER_ADDR": "localhost",
                    "MASTER_PORT": str(port), "LOCAL_RANK": str(rank)}

        def tensorflow(rank, port):
            cluster = {"worker": ["127.0.0.1:%d" % port, "127.0.0.1:%d" % (port + 1)]}
            return {"TF_CONFIG": json.dumps({"cluster": cluster,
                                             "task": {"type": "worker", "index": rank}})}
        for describe in (own, torch, tensorflow):
            with self.subTest(describe.__name__):
                port = free_port()
                self.train_together(describe(r, port) for r in range(2))

    def test_torchrun(self):
        port = free_port()
        codes, outs, errs = self.together({"RANK": str(r), "WORLD_SIZE": "2",
                                           "MASTER_ADDR": "localhost", "MASTER_PORT": str(port),
                                           "LOCAL_RANK": str(r), "LOCAL_WORLD_SIZE": "2"}
                                          for r in range(2))
        self.assertEqual((codes, outs), ([0] * 2, expected(2)), errs)

    def test_tf_config(self):
        """Of the form in the tutorials, with a chief in front of the workers."""
        cluster = {"worker": ["127.0.0.1:%d" % free_port() for _ in range(2)]}
        tasks = [("worker", 0), ("worker", 1)]
        for _ in range(2):
            codes, outs, errs = self.together(
                {"TF_CONFIG": json.dumps({"cluster": cluster, "task": {"type": t, "index": i}})}
                                              for t, i in tasks)
            self.assertEqual((codes, outs), ([0] * len(tasks), expected(len(tasks))), errs)
            cluster["chief"] = ["127.0.0.1:%d" % free_port()]
            tasks = [("chief", 0)] + tasks

    def test_contradictions(self):
        for env, text in (({"RANK": "1"}, "WORLD_SIZE"),
                          ({"TF_CONFIG": "{"}, "TF_CONFIG is not JSON"),
                          ({"RINGFIRE_RANK": "5", "RINGFIRE_WORLD_SIZE": "2"},
                           "RINGFIRE_RANK is 5")):
            code, out, err = self.run_to_end([HELLO], env)
            self.assertEqual((code, out, len(err.splitlines())), (1, "", 1), err)
            self.assertIn(text, err)
        del self.env["RINGFIRE_KEY_FILE"]
        code, out, err = self.run_to_end([HELLO],
                                         {"RANK": "0", "WORLD_SIZE": "2",
                                          "MASTER_ADDR": "localhost", "MASTER_PORT": "1",
                                                   "HOME": str(self.folder)})
        self.assertEqual(code, 1)
        self.assertIn("ringfire keygen", err)


class Launchers(Case):
    def test_ringfire_run(self):
        del self.env["RINGFIRE_KEY_FILE"]
        for options in ([], ["--encrypt"], ["--insecure"]):
            self.works(2, [RINGFIRE, "run", "-n", 2, "--no-prefix", *options, HELLO])
        self.measures([RINGFIRE, "run", "-n", 2, "--no-prefix"])

    def test_measuring_alone(self):
        """Ranks of its own, also with the key of other jobs in the environment, and as the only
        worker of a job."""
        for launcher in ([], [RINGFIRE, "run", "-n", 1, "--no-prefix"],
                         [RINGFIRE, "run", "-n", 1, "--no-prefix", "--encrypt"]):
            code, out, err = self.run_to_end([*launcher, BENCH, "allreduce", "--size", "64K",
                                              "--seconds", "0.05"])
            self.assertEqual((code, err), (0, ""))
            self.assertIn("2 ranks on this host", out)
            self.assertIn("plain socket ring", out)

    def test_ringfire_run_inside_others(self):
        """Its variables go before those of the job that it is started in."""
        self.works(2, [tool("mpirun"), "-n", 1, RINGFIRE, "run", "-n", 2, "--no-prefix", HELLO])

    def test_ringfire_run_loses_a_worker(self):
        script = ('if [ $RINGFIRE_EPOCH = 1 ]; then exec "$0"; elif [ $RINGFIRE_RANK = 1 ]; then '
                  '"$0" 60 & sleep 2; kill -9 $!; wait $!; '
                  'else exec "$0" 60; fi')
        code, out, err = self.run_to_end([RINGFIRE, "run", "-n", 3, "--max-restarts", 1, "sh", "-c",
                                          script, HELLO])
        self.assertEqual(code, 0, err)
        self.assertIn("ringfire: rank 1 on localhost failed with exit status 137", err)
        self.assertEqual(out.count("of 3, sum 6"), 6)

    def test_mpirun(self):
        self.works(2, [*mpirun(), "-n", 2, HELLO])
        self.trains([*mpirun(), "-n", 2])
        self.measures([*mpirun(), "-n", 2])

    def test_mpirun_asked_through_pmix(self):
        """Where the size of this host is not known the master's address comes from PMIx."""
        self.works(2, [*mpirun(), "-n", 2, "env", "-u", "OMPI_COMM_WORLD_LOCAL_RANK", HELLO])

    def test_pmix_alone(self):
        self.works(2, [*mpirun(), "-n", 2, "env", "-u", "OMPI_COMM_WORLD_RANK", HELLO])

    def test_pmix_missing(self):
        """Variables of a PMIx launcher where its library cannot be opened: named with the package
        and the way without."""
        (self.folder / "libpmix.so.2").write_text("not a library")
        code, out, err = self.run_to_end([HELLO],
                                         {"PMIX_RANK": "0", "PMIX_NAMESPACE": "job",
                                          "LD_LIBRARY_PATH": str(self.folder)})
        self.assertEqual((code, out), (1, ""))
        self.assertRegex(err, r"PMIx is not there: .*libpmix\.so\.2.*; install libpmix2 "
                              r".*RINGFIRE_MASTER|this build has no PMIx")

    def test_pmix_waits_no_longer_than_told(self):
        script = "[ $PMIX_RANK = 1 ] && exec sleep 10; exec env -u OMPI_COMM_WORLD_RANK " + HELLO
        code, out, err = self.run_to_end([*mpirun(), "-n", 2, "sh", "-c", script],
                                         {"RINGFIRE_BOOTSTRAP_TIMEOUT": "1"})
        self.assertEqual((code, out), (1, ""))
        self.assertIn("not all workers asked for rank 0's address within 1.0 s", err)

    def test_torchrun(self):
        torchrun = "/usr/bin/torchrun" if os.path.exists("/usr/bin/torchrun") else tool("torchrun")
        # The default, no redirection, fails with torch 1.13.
        starts = [[torchrun, *options, "-r", 2, "-t", 2, "--no_python", "--nproc_per_node"]
                  for options in (["--master_port", free_port()], ["--standalone"])]
        # Some builds want libuv, which they are built without, for one of the two or for both.
        usable = [start for start in starts
                  if not re.search("buil[dt] without libuv",
                                   self.run_to_end([*start, 1, "true"])[2])]
        if not usable:
            self.skipTest("this PyTorch's torchrun needs libuv, which it is built without")
        for start in usable:
            self.works(2, [*start, 2, HELLO])
        self.trains([*usable[-1], 2])


class Slurm(Case):
    """A cluster of one host, made for the test: munged, slurmctld and slurmd of the current
    user."""

    @classmethod
    def setUpClass(cls):
        cls.daemons, cls.holder = [], None
        programs = {n: tool(n) for n in ("munged", "slurmctld", "slurmd", "srun", "sbatch",
                                         "sinfo")}
        cls.holder = tempfile.TemporaryDirectory()
        cls.base = pathlib.Path(cls.holder.name)
        try:
            cls.start(programs)
        except BaseException:
            cls.tearDownClass()
            raise

    @classmethod
    def start(cls, programs):
        base, name, user = cls.base, socket.gethostname().split(".")[0], str(os.getuid())
        (base / "munge.key").write_bytes(os.urandom(64))
        (base / "munge.key").chmod(0o600)
        for folder in ("state", "spool"):
            (base / folder).mkdir()
        (base / "slurm.conf").write_text("\n".join([
            "ClusterName=test", "SlurmctldHost=%s(127.0.0.1)" % name, "SlurmctldPort=%d"
            % free_port(), "SlurmdPort=%d" % free_port(),
            "AuthType=auth/munge", "AuthInfo=socket=%s/munge" % base, "SlurmUser=%s" % user,
            "SlurmdUser=%s" % user,
            "StateSaveLocation=%s/state" % base, "SlurmdSpoolDir=%s/spool" % base,
            "SlurmctldPidFile=%s/slurmctld.pid" % base,
            "SlurmdPidFile=%s/slurmd.pid" % base, "ProctrackType=proctrack/linuxproc",
            "TaskPlugin=task/none", "MailProg=/bin/true",
            "SelectType=select/cons_tres", "SelectTypeParameters=CR_CPU", "ReturnToService=2",
            "MpiDefault=none",
            "SlurmdParameters=config_overrides", "JobAcctGatherType=jobacct_gather/none",
            "NodeName=%s NodeAddr=127.0.0.1 CPUs=4 State=UNKNOWN" % name,
            "PartitionName=main Nodes=ALL Default=YES State=UP", ""]))
        cls.slurm_env = {**ENV, "SLURM_CONF": str(base / "slurm.conf")}
        cls.daemon(programs["munged"], "--foreground", "--force", "--key-file=%s/munge.key" % base,
                   "--socket=%s/munge" % base,
                   "--pid-file=%s/munged.pid" % base, "--log-file=%s/munged.log" % base,
                   "--seed-file=%s/munged.seed" % base)
        cls.wait(lambda: (base / "munge").exists(), "munged")
        cls.daemon(programs["slurmctld"], "-D")
        cls.daemon(programs["slurmd"], "-D")
        cls.wait(
            lambda: "idle" in subprocess.run([programs["sinfo"], "-h", "-o", "%T"],
                                             stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                                                  env=cls.slurm_env, text=True, timeout=30).stdout,
            "slurmctld")

    @classmethod
    def daemon(cls, *arguments):
        log = open(cls.base / (os.path.basename(arguments[0]) + ".out"), "wb")
        cls.daemons.append(subprocess.Popen(arguments, stdout=log, stderr=log,
                                            stdin=subprocess.DEVNULL, env=cls.slurm_env,
                                            start_new_session=True))
        log.close()

    @classmethod
    def wait(cls, condition, what):
        until = time.monotonic() + 20
        while not condition():
            if time.monotonic() > until or any(d.poll() is not None for d in cls.daemons):
                texts = ["%s: %s" % (f.name, f.read_text(errors="replace")[-300:])
                         for f in sorted(cls.base.glob("*.out"))]
                raise unittest.SkipTest("%s does not start here: %s"
                                        % (what, " | ".join(texts).replace("\n", " ")))
            time.sleep(0.1)

    @classmethod
    def tearDownClass(cls):
        for daemon in reversed(cls.daemons):
            daemon.terminate()
            try:
                daemon.wait(15)
            except subprocess.TimeoutExpired:
                daemon.kill()
                daemon.wait()
        if cls.holder:
            cls.holder.cleanup()

    def setUp(self):
        super().setUp()
        self.env["SLURM_CONF"] = self.slurm_env["SLURM_CONF"]

    def test_srun(self):
        self.works(2, ["srun", "-n", 2, HELLO])
        self.trains(["srun", "-n", 2])
        self.measures(["srun", "-n", 2])

    def test_two_steps_at_once(self):
        """Each has a port of its own."""
        script = "srun --exact -n 2 %s & srun --exact -n 2 %s & wait" % (HELLO, HELLO)
        code, out, err = self.run_to_end(["salloc", "-n", 4, "sh", "-c", script])
        self.assertEqual((code, sorted(out.splitlines())), (0, sorted(expected(2) * 2)), err)

    def test_through_pmix(self):
        listed = self.run_to_end(["srun", "--mpi=list"])
        if "pmix" not in listed[1] + listed[2]:
            self.skipTest("this Slurm has no PMIx")
        self.works(2, ["srun", "--mpi=pmix", "-n", 2, "env", "-u", "SLURM_PROCID", HELLO])

    def test_without_srun(self):
        """salloc's shell and a batch script have variables of several tasks but are one process."""
        self.works(1, ["salloc", "-n", 2, HELLO])
        script = self.folder / "batch"
        script.write_text("#!/bin/sh\n%s\nsrun %s\n" % (HELLO, HELLO))
        code, out, err = self.run_to_end(["sbatch", "-W", "-n", 2, "-o", self.folder / "out",
                                          script])
        text = (self.folder / "out").read_text()
        self.assertEqual((code, sorted(text.splitlines())), (0, sorted(expected(1) + expected(2))),
                         out + err + text)


class Namespaces(Case):
    """Two network namespaces as two hosts."""

    def setUp(self):
        super().setUp()
        self.tag = "rl%d" % (os.getpid() % 100000)
        self.names = [self.tag + "a", self.tag + "b"]
        self.addCleanup(lambda: [self.ip("netns", "del", n) for n in self.names])
        steps = [("netns", "add", n) for n in self.names]
        steps += [("link", "add", self.names[0], "netns", self.names[0], "type", "veth", "peer",
                   "name", self.names[1], "netns",
                   self.names[1])]
        for i, n in enumerate(self.names):
            steps += [("-n", n, "addr", "add", "10.78.0.%d/24" % (i + 1), "dev", n),
                      ("-n", n, "link", "set", n, "up"),
                      ("-n", n, "link", "set", "lo", "up")]
        for step in steps:
            done = self.ip(*step)
            if done.returncode != 0:
                self.skipTest("ip %s: %s" % (" ".join(step), done.stdout.strip()))
        self.ssh = self.folder / "remote"  # by the name of ssh mpirun would give it options
        self.ssh.write_text('#!/bin/sh\ncase $1 in 10.78.0.1) n=%s;; *) n=%s;; esac\nshift\n'
                            'exec ip netns exec $n unshare --uts sh -c "hostname $n; $*"\n'
                            % tuple(self.names))
        self.ssh.chmod(0o755)

    @staticmethod
    def ip(*words):
        return subprocess.run([tool("ip"), *words], stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, timeout=20)

    def test_ringfire_run(self):
        del self.env["RINGFIRE_KEY_FILE"]
        code, out, err = self.run_to_end([RINGFIRE, "run", "--ssh", self.ssh, "-H",
                                          "10.78.0.1:2,10.78.0.2:2", "--no-prefix", HELLO])
        self.assertEqual(code, 0, err)
        self.assertEqual(sorted(out.splitlines()),
                         ["rank %d of 4, local %d of 2, sum 10" % (r, r % 2) for r in range(4)])
        self.trains([RINGFIRE, "run", "--ssh", self.ssh, "-H", "10.78.0.1,10.78.0.2",
                     "--no-prefix"])
        code, out, err = self.run_to_end([RINGFIRE, "run", "--ssh", self.ssh, "-H",
                                          "10.78.0.1,10.78.0.2", "--no-prefix", BENCH,
                                          "allreduce", "--size", "64K", "--seconds", "0.05"])
        self.assertEqual(code, 0, err)
        self.assertIn("2 ranks of this job on 2 hosts, ", out)

    def hosts(self, *lines):
        """Gives each namespace a hosts file, with these lines after localhost; ssh takes their
        names from here on."""
        folders = [pathlib.Path("/etc/netns") / n for n in self.names]
        ours = not folders[0].parent.exists()
        if ours:
            self.addCleanup(lambda: folders[0].parent.rmdir())
        for folder in folders:
            self.addCleanup(shutil.rmtree, folder, ignore_errors=True)
        for folder, text in zip(folders, lines):
            try:
                folder.mkdir(parents=True, exist_ok=True)
            except OSError as e:
                self.skipTest("cannot make %s: %s" % (folder, e))
            (folder / "hosts").write_text("127.0.0.1 localhost\n" + text)
        self.ssh.write_text(self.ssh.read_text().replace("10.78.0.1)", self.names[0] + ")"))

    def on_host(self, i, *words):
        """A command for host `i`, which has its name there."""
        name = 'hostname %s; exec "$@"' % self.names[i]
        return [
            "ip", "netns", "exec", self.names[i], "unshare", "--uts", "sh", "-c", name, "sh", *words
        ]

    def meets(self, *options, slots=2):
        self.env.pop("RINGFIRE_KEY_FILE", None)
        hosts = ",".join("%s:%d" % (name, slots) for name in self.names)
        code, out, err = self.run_to_end(
            self.on_host(0, RINGFIRE, "run", *options, "--ssh", self.ssh, "-H", hosts,
                         "--no-prefix", HELLO))
        world = 2 * slots
        lines = [
            "rank %d of %d, local %d of %d, sum %d" % (r, world, r % slots, slots, world *
                                                       (world + 1) // 2) for r in range(world)
        ]
        self.assertEqual((code, sorted(out.splitlines())), (0, lines), err)

    def own(self, *addresses):
        """Lines for each host: its own name means `addresses`, as distributions write it, and that
        of the other."""
        return ["".join("%s %s\n" % (a, self.names[i]) for a in addresses) +
                "10.78.0.%d %s\n" % (2 - i, self.names[1 - i]) for i in range(2)]

    def test_own_name_is_loopback(self):
        """Workers nevertheless announce an address that the other host reaches."""
        for addresses in (("127.0.1.1",), ("127.0.0.1", "::1"), ("::1",)):
            with self.subTest(addresses):
                self.hosts(*self.own(*addresses))
                self.meets()
        with self.subTest("another network has the default route"):
            for step in ("link add docker0 type bridge", "addr add 172.17.0.1/16 dev docker0",
                         "link set docker0 up", "route add default via 172.17.0.254 dev docker0"):
                for n in self.names:
                    self.ip("-n", n, *step.split())
            self.hosts(*self.own("127.0.1.1"))
            self.meets()
            self.meets("--bind", "10.78.0.1", slots=1)
            self.meets("--bind", self.names[0], slots=1)

    def test_bind_to_all(self):
        self.hosts(*self.own("10.78.0.1"))
        for address in ("0.0.0.0", "::", "0"):
            with self.subTest(address):
                self.meets("--bind", address, slots=1)

    def test_two_families(self):
        """The name of rank 0 has an address that the other host cannot use."""
        self.ip("-n", self.names[0], "-6", "addr", "add", "fd78::1/64", "dev", self.names[0],
                "nodad")
        self.ip("netns", "exec", self.names[1], "sysctl", "-q", "-w",
                "net.ipv6.conf.all.disable_ipv6=1")
        line = "fd78::1 %s\n10.78.0.1 %s\n10.78.0.2 %s\n" % (self.names[0], *self.names)
        self.hosts(line, line)
        self.meets()

    def told(self, *ranks, env=None):
        """Ranks by torchrun's variables: each is the number of its host and what it is told of rank
        0."""
        port = free_port()
        processes = []
        for rank, (host, master) in enumerate(ranks):
            settings = {
                **self.env, "RANK": str(rank),
                "WORLD_SIZE": str(len(ranks)),
                "MASTER_ADDR": master,
                "MASTER_PORT": str(port),
                "RINGFIRE_BOOTSTRAP_TIMEOUT": "6",
                **(env or {})
            }
            if "RINGFIRE_INSECURE" in settings:
                settings.pop("RINGFIRE_KEY_FILE", None)
            processes.append(
                subprocess.Popen(self.on_host(host, HELLO),
                                 stdout=subprocess.PIPE,
                                 stderr=subprocess.PIPE,
                                 text=True,
                                 stdin=subprocess.DEVNULL,
                                 env=settings))
        ends = [p.communicate(timeout=60) for p in processes]
        return [p.returncode for p in processes], [err for _, err in ends]

    def test_rank_0_is_told_another_name(self):
        """Its own loopback, or the address of a service that is on no host: the others find it
        under its name."""
        line = "10.78.0.1 %s\n10.78.0.2 %s\n203.0.113.9 service\n" % tuple(self.names)
        self.hosts(line, line)
        for env in ({}, {"RINGFIRE_INSECURE": "1"}):
            for name in ("localhost", "127.0.0.1", "service"):
                with self.subTest(name=name, **env):
                    codes, errs = self.told((0, name), (1, self.names[0]), env=env)
                    self.assertEqual(codes, [0, 0], errs)
        with self.subTest("a third one beside rank 0"):
            codes, errs = self.told((0, "localhost"), (0, "localhost"), (1, self.names[0]),
                                    env={"RINGFIRE_INSECURE": "1"})
            self.assertEqual(codes, [0, 0, 0], errs)

    def test_rank_0_stays_where_it_was_told(self):
        """And both sides say where that is."""
        line = "10.78.0.1 %s\n10.78.0.2 %s\n" % tuple(self.names)
        self.hosts(line, line)
        codes, errs = self.told((0, self.names[0]), (1, self.names[0]),
                                env={"RINGFIRE_BIND": "127.0.0.1"})
        self.assertEqual(codes, [1, 1], errs)
        self.assertRegex(errs[0], r"rank 1 of 2 did not join within 6 s; "
                                  r"rank 0 listens at 127.0.0.1 port \d+ \(RINGFIRE_BIND")
        self.assertRegex(
            errs[1],
            r"rank 1 cannot join rank 0 at %s:\d+ \(named by torchrun's variables; .*10.78.0.1:" %
            self.names[0])

    def test_parameter_servers(self):
        """On hosts that call themselves 127.0.1.1."""
        if not SERVERS:
            self.skipTest("the example is not built")
        self.hosts(*self.own("127.0.1.1"))
        a, b = self.names
        ports = [free_port() for _ in range(3)]
        cluster = {task: ["%s:%d" % (host, port)]
                   for task, host, port in zip(("chief", "ps", "worker"), (a, a, b), ports)}
        processes = []
        for host, task in ((a, "ps"), (b, "worker"), (a, "chief")):
            config = json.dumps({"cluster": cluster, "task": {"type": task, "index": 0}})
            words = ["ip", "netns", "exec", host, *SERVERS, *self.trainer[1:-1], "1"]
            processes.append(
                subprocess.Popen(words,
                                 stdout=subprocess.PIPE,
                                 stderr=subprocess.STDOUT,
                                 text=True,
                                 stdin=subprocess.DEVNULL,
                                 env={
                                     **self.env, "TF_CONFIG": config
                                 }))
        outs = [p.communicate(timeout=60)[0] for p in processes]
        if any("matches 'llvmpipe'" in out for out in outs):
            self.skipTest("lavapipe is not installed")
        self.assertEqual([p.returncode for p in processes], [0, 0, 0], outs)

    def test_cable_pulled_out(self):
        """Both sides stop hearing each other; the job ends with the loss named."""
        del self.env["RINGFIRE_KEY_FILE"]
        process = subprocess.Popen([RINGFIRE, "run", "--ssh", str(self.ssh), "-H",
                                    "10.78.0.1,10.78.0.2", HELLO, "60"], text=True,
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                   stdin=subprocess.DEVNULL,
                                   env={**self.env, "RINGFIRE_PEER_TIMEOUT": "2"})
        try:
            self.assertIn("rank ", process.stdout.readline())
            time.sleep(1)
            self.ip("-n", self.names[0], "link", "set", self.names[0], "down")
            begin = time.monotonic()
            out, err = process.communicate(timeout=30)
        finally:
            process.kill()
            process.wait()
        self.assertEqual(process.returncode, 75, err)
        self.assertRegex(err, r"asked to be restarted \(exit status 75\); its last line on "
                              r"stderr: .*was lost")
        self.assertLess(time.monotonic() - begin, 12)

    def test_mpirun(self):
        """Rank 0's address towards the other host comes through PMIx."""
        code, out, err = self.run_to_end(
            ["ip", "netns", "exec", self.names[0], "unshare", "--uts", "sh", "-c",
             "hostname %s; exec \"$0\" \"$@\"" % self.names[0],
             tool("mpirun"), "--mca", "plm_rsh_agent", self.ssh, "--map-by",
             "ppr:1:node:OVERSUBSCRIBE", "-H", "10.78.0.1,10.78.0.2", "-n", 2,
             "-x", "RINGFIRE_KEY_FILE",
             "env", "-u", "OMPI_MCA_orte_hnp_uri", HELLO])
        self.assertEqual((code, sorted(out.splitlines())),
                         (0, ["rank %d of 2, local 0 of 1, sum 3" % r for r in range(2)]), err)


if __name__ == "__main__":
    loader = unittest.defaultTestLoader
    suite = unittest.TestSuite(loader.loadTestsFromTestCase(c)
                               for c in (Variables, Launchers, Slurm, Namespaces))
    result = unittest.TextTestRunner(verbosity=2).run(suite)
    sys.exit(0 if result.wasSuccessful() else 1)
