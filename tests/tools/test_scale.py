# SPDX-License-Identifier: Apache-2.0
"""`ringfire-bench scale`: the tables of docs/guides/scaling.md are what the command prints, and the
figures follow from each other. With "network":
what it measures, and that nothing is left of its network.

Usage: test_scale.py RINGFIRE_BENCH SOURCE_ROOT [network | --update]

--update writes the model's tables of docs/guides/scaling.md anew and tests nothing."""
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
import programs  # noqa: E402

BENCH, ROOT = sys.argv[1], pathlib.Path(sys.argv[2])

PAGE = ROOT / "docs/guides/scaling.md"
TABLE = re.compile(r"(?ms)^```text\n\$ ringfire-bench scale (--model[^\n]*)\n(.*?)^```$")


def scale(*arguments):
    return programs.run(BENCH, "scale", *arguments, env={"COLUMNS": None})


def model(*arguments):
    return json.loads(scale("--model", "--json", *arguments).stdout)


class Model(unittest.TestCase):
    def test_documented_tables(self):
        tables = TABLE.findall(PAGE.read_text())
        self.assertGreaterEqual(len(tables), 2)
        for arguments, table in tables:
            with self.subTest(arguments):
                done = scale(*arguments.split())
                self.assertEqual((done.returncode, done.stderr), (0, ""))
                self.assertEqual(done.stdout, table)

    def test_rows(self):
        """All numbers of ranks for each size; the best schedule is the one with the shortest
        time."""
        got = model("--ranks", "2,1000", "--gradients", "4K,32M", "--compute", "20ms")
        self.assertEqual([(r["ranks"], r["gradient_bytes"], r["buckets"]) for r in got["results"]],
                         [(2, 4096, 1), (1000, 4096, 1), (2, 32 << 20, 16), (1000, 32 << 20, 16)])
        for row in got["results"]:
            times = row["all_reduce_seconds"]
            self.assertEqual(set(times), {"ring", "doubling", "halving", "hierarchical"})
            self.assertEqual(times[row["best"]], min(times.values()))
            self.assertAlmostEqual(row["step_seconds"], 0.02 + row["exposed_seconds"])
            self.assertLessEqual(row["exposed_seconds"], times[row["best"]] + 1e-12)
            self.assertGreaterEqual(row["exposed_seconds"],
                                    times[row["best"]] / row["buckets"] - 1e-12)

    def test_options_count(self):
        """Every figure of the network changes what comes out."""
        options = ("--ranks", "64", "--gradients", "64M")
        before = model(*options)["results"]
        for change in (("--bandwidth", "10gbit"), ("--latency", "50us"), ("--per-host", "4"),
                       ("--inner-bandwidth", "10gbit"),
                       ("--inner-latency", "50us"), ("--sum-rate", "1"), ("--compute", "1ms"),
                       ("--bucket", "64M")):
            with self.subTest(change):
                self.assertNotEqual(model(*options, *change)["results"], before)

    def test_one_rank(self):
        row = model("--ranks", "1", "--gradients", "1G")["results"][0]
        self.assertEqual((row["step_seconds"], row["sharded_step_seconds"]), (0.1, 0.1))


# A step sleeps for 20 ms and then has 0.25 MiB to exchange twice over, of which each worker sends a
# half: 42 ms at 50 Mbit/s.
SMALL = ("--workers", "2", "--seconds", "1", "--bandwidth", "50mbit", "--gradients", "256K",
         "--compute", "20ms")


def children_of(pid):
    return [int(word)
            for word in pathlib.Path("/proc/%d/task/%d/children" % (pid, pid)).read_text().split()]


def network_of(pid):
    try:
        return os.readlink("/proc/%d/ns/net" % pid)
    except OSError:
        return None


class Network(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.done = scale("--json", *SMALL)
        if cls.done.returncode == 1 and re.search(
            "may not|needs the programs|the kernel needs tbf", cls.done.stderr):
            raise unittest.SkipTest(cls.done.stderr.strip())

    def links(self):
        return sorted(os.listdir("/sys/class/net"))

    def assertGone(self, networks):
        """No process is left in them; a killed one may take a moment."""
        deadline = time.monotonic() + 10
        left = networks
        while left and time.monotonic() < deadline:
            left = networks & {network_of(int(p.name))
                               for p in pathlib.Path("/proc").glob("[0-9]*")}
            time.sleep(0.05)
        self.assertEqual(left, set())

    def start(self):
        """A long measurement, its workers, and all namespaces that it made."""
        process = subprocess.Popen([BENCH, "scale", "--workers", "2", "--seconds", "60",
                                    "--compute", "20ms"],
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.addCleanup(lambda: [process.wait(20), process.stdout.close(), process.stderr.close()])
        self.addCleanup(process.kill)
        deadline = time.monotonic() + 30
        own = network_of(os.getpid())
        while time.monotonic() < deadline:
            children = children_of(process.pid)
            networks = {network_of(p) for p in children} - {own, None, network_of(process.pid)}
            # the worker that is measured alone stays; commands that make its network do not
            time.sleep(0.3)
            if len(children) == 1 and len(networks) == 1 and children_of(process.pid) == children:
                return process, children, networks | {network_of(process.pid)}
        self.fail("no worker in a namespace of its own within 30 s")

    def test_measurement(self):
        self.assertEqual((self.done.returncode, self.done.stderr), (0, ""))
        got = json.loads(self.done.stdout)
        self.assertEqual((got["kind"], got["gradient_bytes"], got["buckets"], got["bandwidth"]),
                         ("measurement", 256 << 10, 1, 6.25e6))
        self.assertTrue(0.02 <= got["alone_step_seconds"] < 1, got)
        self.assertTrue(0 < got["message_seconds"] < 0.1, got)
        row, = got["results"]
        self.assertEqual(row["workers"], 2)
        self.assertGreaterEqual(row["steps"], 1)
        self.assertAlmostEqual(row["exposed_seconds"],
                               row["step_seconds"] - got["alone_step_seconds"])
        self.assertAlmostEqual(row["efficiency"], got["alone_step_seconds"] / row["step_seconds"])
        # Nothing is faster than the links; each lets a burst of 71 KB go at once. Slower is
        # whatever shares the processor.
        sent = (256 << 10) - 2 * 72e3
        self.assertGreater(row["exchange_seconds"], sent / 6.25e6)
        self.assertGreater(row["exposed_seconds"], sent / 6.25e6 / 2)
        self.assertGreater(row["model_exposed_seconds"], 0.04)
        self.assertLess(row["model_exposed_seconds"], 0.1)

    def test_table(self):
        done = scale(*SMALL)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertIn("Computing is a sleep of 20 ms", " ".join(done.stdout.split()))
        self.assertRegex(done.stdout, r"(?m)^ +2 +[\d.]+ +\d+ +[\d.]+ ")

    def test_latency(self):
        """A message takes as long as was asked for, and each way: netem delays it or, where the
        kernel has none, a process of the command."""
        done = scale("--json", "--latency", "40ms", *SMALL)
        if done.returncode != 0 and not os.access("/dev/net/tun", os.R_OK | os.W_OK):
            self.assertEqual((done.returncode, done.stdout), (1, ""))
            self.assertRegex(done.stderr, "^ringfire-bench: .*no netem.*/dev/net/tun.*--latency 0 "
                                          "limits the bandwidth alone\n$")
            self.skipTest("a kernel without netem, and no /dev/net/tun")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        got = json.loads(done.stdout)
        self.assertIn(got["delayed_by"], ("netem", "relay"))
        self.assertTrue(0.04 <= got["message_seconds"] < 0.08, got)
        self.assertIsNone(json.loads(self.done.stdout)["delayed_by"])

    def test_nothing_is_left(self):
        before = self.links()
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGKILL):
            with self.subTest(number):
                process, _, networks = self.start()
                process.send_signal(number)
                self.assertEqual(process.wait(20), -number)
                self.assertGone(networks)
                self.assertEqual(self.links(), before)

    def test_worker_is_lost(self):
        process, children, networks = self.start()
        os.kill(children[0], signal.SIGKILL)
        stdout, stderr = process.communicate(timeout=20)
        self.assertEqual((process.returncode, stdout), (1, ""))
        self.assertEqual(stderr, "ringfire-bench: rank 0 was ended by signal 9 (Killed)\n")
        self.assertGone(networks)

    def test_not_permitted(self):
        """Another user without namespaces hears what to do; one who may have them by another way is
        not of interest here."""
        if os.geteuid() != 0:
            self.skipTest("only root can become somebody who may not")
        nobody = 65534
        if subprocess.run(["/bin/sh", "-c", 'test -x "$0"', BENCH], user=nobody, group=nobody,
                          extra_groups=[]).returncode != 0:
            self.skipTest("user %d may not run %s" % (nobody, BENCH))
        done = subprocess.run([BENCH, "scale", *SMALL], user=nobody, group=nobody, extra_groups=[],
                              stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, text=True, timeout=60)
        self.assertEqual((done.returncode, done.stdout), (1, ""))
        self.assertRegex(done.stderr,
                         "^ringfire-bench: .*run it as root, or by "
                         "'unshare --user --map-root-user'\n$")


def update():
    PAGE.write_text(TABLE.sub(lambda m: "```text\n$ ringfire-bench scale %s\n%s```"
                              % (m[1], scale(*m[1].split()).stdout), PAGE.read_text()))


if __name__ == "__main__":
    if sys.argv[3:] == ["--update"]:
        sys.exit(update())
    suite = unittest.defaultTestLoader.loadTestsFromTestCase(
        Network if sys.argv[3:] == ["network"] else Model)
    sys.exit(0 if unittest.TextTestRunner(verbosity=2).run(suite).wasSuccessful() else 1)
