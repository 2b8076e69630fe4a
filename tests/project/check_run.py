# SPDX-License-Identifier: Apache-2.0
"""tests/run counts tests as they ended, names each skip with its reason, and goes on with a week.

Usage: check_run.py SOURCE_ROOT SKIPS BUILD_ROOT: the program of skips.c"""
import contextlib
import importlib.machinery
import importlib.util
import io
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest
from unittest import mock

ROOT = pathlib.Path(sys.argv[1]).resolve()
SKIPS = os.path.abspath(sys.argv[2])
BUILD = pathlib.Path(sys.argv[3]).resolve()
loader = importlib.machinery.SourceFileLoader("run", str(ROOT / "tests/run"))
spec = importlib.util.spec_from_loader("run", loader)
run = importlib.util.module_from_spec(spec)
sys.dont_write_bytecode = True
loader.exec_module(run)

PYTHON = """import sys, unittest
class Case(unittest.TestCase):
    def test_holds(self): pass
    def test_left_out(self):
        '''A line of its own in the output.'''
        print("a word about it", file=sys.stderr)
        self.skipTest("no 'driver' here")
    @unittest.skip("never")
    def test_never(self): pass
unittest.main(argv=["x"], verbosity=%d)
"""


class Run(unittest.TestCase):
    def count(self, *entries):
        """What tests/run makes of a log of meson's: (name, result, stdout, stderr)."""
        with tempfile.TemporaryDirectory() as folder:
            log = pathlib.Path(folder, "meson-logs/testlog.json")
            log.parent.mkdir()
            keys = ("name", "result", "stdout", "stderr")
            log.write_text("".join(json.dumps({**dict(zip(keys, e)), "duration": 1.5}) + "\n"
                                   for e in entries))
            count = run.count_meson(pathlib.Path(folder))[0]
        self.assertEqual([time for time, _ in count.times], [1.5] * len(entries))
        return count

    def count_command(self, *command):
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                              timeout=60)
        self.assertEqual(done.returncode, 0, done.stderr)
        return self.count(("ringfire:quick / some test", "OK", done.stdout, done.stderr))

    def test_beside(self):
        """A stage beside others, and all that it starts, has what they leave; it begins at once
        where there are none, and an error of it is a failure."""
        def is_idle(_=None):
            # A small program: on a busy machine it gets little.
            own = subprocess.run(["cat", "/proc/self/stat"], stdout=subprocess.PIPE, timeout=60,
                                 check=True).stdout
            fields = own.rpartition(b")")[2].split()
            return int(fields[38]) == os.SCHED_IDLE or int(fields[16]) == 19

        def stage():
            count = run.one(True)
            count.said = run.side_by_side(is_idle, range(2))
            return count

        before = is_idle()
        beside = run.Beside(stage)
        run.WAITING.append(beside)
        self.assertEqual(beside.wait().said, [True] * 2)
        self.assertEqual(run.WAITING, [])
        self.assertEqual(is_idle(), before)
        broken = run.Beside(lambda: 1 / 0)
        run.WAITING.append(broken)
        with mock.patch("threading.excepthook"):
            self.assertEqual(broken.wait().failed, 1)

    def test_again(self):
        """What is held to seconds, and what the leak checker crashed at, gets a second chance
        alone; nothing else does."""
        failures = [("ringfire:quick / a", "FAIL", "wrong"),
                    ("ringfire:quick+deadlines / b", "FAIL", "late"),
                    ("ringfire:quick / c", "FAIL",
                     "==1==LeakSanitizer has encountered a fatal error."),
                    ("ringfire:landing+deadlines / d", "FAIL", "")]
        ran, count = [], run.Count()
        count.failed = len(failures)

        def second(command, log, environment=None):
            ran.append(command[-1])
            return command[-1] != "d"
        with mock.patch.object(run, "run", second), contextlib.redirect_stdout(io.StringIO()):
            stay = run.again(pathlib.Path("x"), "address", failures, count)
        self.assertEqual((ran, [f[0][-1] for f in stay]), (["b", "c", "d"], ["a", "d"]))
        self.assertEqual(str(count), "2 passed, 2 failed, 0 skipped")

    def stage(self, *tests, alone=False):
        """How a stage ends when meson fails after these tests, (name, result) each, and the next
        tests, run alone, pass or not."""
        with tempfile.TemporaryDirectory() as folder:
            directory = pathlib.Path(folder)
            (directory / "meson-logs").mkdir()

            def started(command, log, environment=None):
                if "--logbase" not in command:
                    return alone
                path = directory / "meson-logs" / (command[command.index("--logbase") + 1] +
                                                   ".json")
                path.write_text("".join(
                    json.dumps({
                        "name": name,
                        "result": result,
                        "duration": 1
                    }) + "\n" for name, result in tests))
                return False

            with mock.patch.multiple(run, run=started, build=lambda *_: directory,
                                     tail=lambda log: None), \
                    contextlib.redirect_stdout(io.StringIO()):
                return str(run.suite("gcc", [], ["quick"]))

    def test_stages(self):
        """A test that passed at its second chance fails no stage; whatever else made meson fail
        does."""
        one, late = ("ringfire:quick / one", "OK"), ("ringfire:quick+deadlines / late", "FAIL")
        self.assertEqual(self.stage(one, late, alone=True), "2 passed, 0 failed, 0 skipped")
        self.assertEqual(self.stage(one, late), "1 passed, 1 failed, 0 skipped")
        self.assertEqual(self.stage(one, ("ringfire:quick / two", "FAIL"), alone=True),
                         "1 passed, 1 failed, 0 skipped")
        self.assertEqual(self.stage(one), "1 passed, 1 failed, 0 skipped")
        self.assertEqual(self.stage(), "0 passed, 1 failed, 0 skipped")

    def test_tiers(self):
        """A tier has the suites of those before it, a week what is its own; a test names one
        tier."""
        self.assertEqual(run.suites_of("quick"), ["quick"])
        self.assertEqual(run.suites_of("nightly"), ["quick", "landing", "nightly"])
        self.assertEqual(run.suites_of("weekly"), ["weekly"])
        for entry in json.loads((BUILD / "meson-info/intro-tests.json").read_text()):
            self.assertEqual(len({s.partition(":")[2]
                                  for s in entry["suite"]} & set(run.TIERS)), 1, entry["name"])

    def test_sleepers(self):
        """Tests that sleep are chosen by the same suites as all others."""
        with tempfile.TemporaryDirectory() as folder:
            directory = pathlib.Path(folder)
            (directory / "meson-info").mkdir()
            rows = (("a", ["quick", "sleeps"]), ("b", ["quick"]), ("c", ["landing", "sleeps"]),
                    ("d", ["quick", "sleeps", "long"]))
            (directory / "meson-info/intro-tests.json").write_text(
                json.dumps([{
                    "name": name,
                    "suite": ["ringfire:" + s for s in suites]
                } for name, suites in rows]))
            self.assertEqual(run.sleepers_in(directory, ["quick"], ["long"]), ["a"])
            self.assertEqual(run.sleepers_in(directory, ["quick", "landing"], []), ["a", "c", "d"])

    def test_changes(self):
        """A landing leaves out what looks at nothing that has changed; where nobody knows it leaves
        out nothing."""
        self.assertTrue(
            run.has_changed(("src/base", "transport"), ["docs/a.md", "transport/mesh/mesh.c"]))
        self.assertFalse(run.has_changed(("src/base",), ["docs/a.md", "src/train/model/model.c"]))
        self.assertTrue(run.has_changed(("src/base",), None))

    def test_budget(self):
        """A tier that takes longer than it may fails by a message that names what took the time,
        and only then."""
        times = [(1.0, "short", "gcc"), (2000.0, "endless", "address")]
        with mock.patch.object(run, "BUDGET") as budget:
            budget.read_text.return_value = '{"landing": 1500}'
            self.assertIsNone(run.over_budget("landing", 1500, times))
            self.assertIsNone(run.over_budget("weekly", 1e6, times))
            self.assertRegex(
                run.over_budget("landing", 2100, times),
                r"took 2100 s of the 1500 s .* endless of address 2000 s, short of gcc 1 s$")

    def weekly(self, folder, stages, *words, commit="abc"):
        """How a weekly run of these stages, by name, ends, with what was kept in the folder; and
        what it says."""
        out, folder = io.StringIO(), pathlib.Path(folder)
        with mock.patch.multiple(run, STAGES={name: (s, ("weekly",)) for name, s in stages.items()},
                                 BUILD=folder, PAGE=folder / "weekly.md", ROOT=folder,
                                 commit_of_tree=lambda: commit, git=lambda *_: "abc Subject"), \
                mock.patch.object(sys, "argv", ["run", "--weekly", *words]), \
                contextlib.redirect_stdout(out):
            return run.main(), out.getvalue()

    def test_week(self):
        """A weekly run that is resumed leaves out the stages that passed at the same commit, and
        those alone; another begins anew."""
        ran, fails = [], ["b"]

        def stage(name):
            def stage(_):
                ran.append(name)
                count = run.one(True)
                count.failed = int(name in fails)
                return count
            return stage

        def check(want, status, *words, **commit):
            ran.clear()
            ended, said = self.weekly(folder, stages, *words, **commit)
            self.assertEqual((list(ran), ended), (want, status), said)
            return said

        stages = {name: stage(name) for name in "abc"}
        with tempfile.TemporaryDirectory() as folder:
            check(["a", "b", "c"], 1)
            self.assertRegex(check(["b"], 1, "--resume"), "(?m)^a        passed on 20")
            fails.clear()
            check(["b"], 0, "--resume")
            self.assertIn("3 passed, 0 failed", check([], 0, "--resume"))
            page = pathlib.Path(folder, "weekly.md").read_text()
            rows = re.findall(r"(?m)^\| [abc] \| 1 passed.* \| 20\S+ \d\d:\d\d \| 0 min", page)
            self.assertEqual(len(rows), 3, page)
            check(["b"], 0, "b")
            check([], 0, "--resume")
            check(["a", "b", "c"], 0, "--resume", commit="def")
            check(["a", "b", "c"], 0)
            self.assertIn("nothing is kept", check(["a", "b", "c"], 0, "--resume", commit=None))
            check([], 0, "--resume")
        with mock.patch.object(sys, "argv", ["run", "--nightly", "--resume"]), \
                contextlib.redirect_stderr(io.StringIO()), self.assertRaises(SystemExit):
            run.main()

    def test_moved_tree(self):
        """What was begun at another commit than it ended at is of none."""
        with tempfile.TemporaryDirectory() as folder:
            week = run.Week(pathlib.Path(folder), "abc")
            week.add("a", run.one(True), 1, "def")
            week.add("b", run.one(True), 1, "abc")
            self.assertEqual([bool(week.date(name)) for name in "ab"], [False, True])

    def test_whole(self):
        """Each test of stage "whole" runs by itself; one that passed does not run again."""
        ran, results = [], {"a": "OK", "b": "FAIL", "alone": "OK"}
        with tempfile.TemporaryDirectory() as folder:
            directory = pathlib.Path(folder)
            for part in "meson-info", "meson-logs":
                (directory / part).mkdir()
            (directory / "meson-info/intro-tests.json").write_text(
                json.dumps([{"name": name, "suite": ["ringfire:weekly"],
                             "is_parallel": name != "alone"} for name in results]
                           + [{"name": "other", "suite": ["ringfire:quick"],
                               "is_parallel": True}]))

            def started(command, log, environment=None):
                name, base = command[-1], command[command.index("--logbase") + 1]
                ran.append(name)
                (directory / "meson-logs" / (base + ".json")).write_text(
                    json.dumps({"name": name, "result": results[name], "duration": 1}))
                return results[name] == "OK"

            def whole():
                ran.clear()
                with mock.patch.multiple(run, run=started, build=lambda *_: directory,
                                         tail=lambda log: None, commit_of_tree=lambda: "abc",
                                         WEEK=run.Week(directory, "abc")), \
                        contextlib.redirect_stdout(io.StringIO()):
                    return str(run.stage_whole("weekly")), sorted(ran)

            self.assertEqual(whole(), ("2 passed, 1 failed, 0 skipped", ["a", "alone", "b"]))
            results["b"] = "OK"
            self.assertEqual(whole(), ("3 passed, 0 failed, 0 skipped", ["b"]))
            self.assertEqual(whole(), ("3 passed, 0 failed, 0 skipped", []))

    def test_keep(self):
        """Trainings of tests/learning that were made are not made again, also where the last line
        of the file was broken off."""
        with tempfile.TemporaryDirectory() as folder:
            folder = pathlib.Path(folder)
            trainer = folder / "ncf"
            trainer.write_text("#!/bin/sh\necho $4 >> %s/ran\ntest $4 != 3 -o -e %s/go || exit 1\n"
                               "echo reached: 97.$4 %%\n" % (folder, folder))
            trainer.chmod(0o755)

            def learn():
                done = subprocess.run([ROOT / "tests/learning", "--networks", "ncf", "--seeds",
                                       "1,2,3", "--examples", folder, "--keep", folder / "kept"],
                                      stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                                      timeout=60)
                return done.returncode, (folder / "ran").read_text().split(), done.stdout

            self.assertEqual(learn()[:2], (1, ["1", "2", "3"]))
            with (folder / "kept").open("a") as f:
                f.write('["broken')
            (folder / "go").touch()
            status, ran, said = learn()
            self.assertEqual((status, ran), (0, ["1", "2", "3", "3"]), said)
            self.assertIn("97.20 +- 0.10 (97.1, 97.2, 97.3)", said)
            self.assertEqual(learn()[:2], (0, ran))

    def test_planted_faults(self):
        """Each fault of tests/faults.json can still be planted: its file holds its text once."""
        for fault in json.loads((ROOT / "tests/faults.json").read_text()):
            self.assertEqual((ROOT / fault["file"]).read_text().count(fault["old"]), 1,
                             fault["name"])
            self.assertNotEqual(fault["old"], fault["new"], fault["name"])

    def test_cmocka(self):
        count = self.count_command(SKIPS)
        self.assertEqual(str(count), "1 passed, 0 failed, 2 skipped")
        self.assertEqual(sorted(count.skips), [("some test, has_a_reason", "no driver here"),
                                               ("some test, has_none", "no reason given")])

    def test_unittest(self):
        count = self.count_command(sys.executable, "-c", PYTHON % 2)
        self.assertEqual(str(count), "1 passed, 0 failed, 2 skipped")
        self.assertEqual(sorted(count.skips), [("some test, test_left_out", "no 'driver' here"),
                                               ("some test, test_never", "never")])
        count = self.count_command(sys.executable, "-c", PYTHON % 1)
        # counted even where they are not named
        self.assertEqual(str(count), "1 passed, 0 failed, 2 skipped")

    def test_whole_programs(self):
        count = self.count(("ringfire:landing / one", "SKIP", "", "skipped: no network\n"),
                           ("ringfire:landing / two", "SKIP", "SKIP: no node\n", None),
                           ("ringfire:landing / three", "SKIP", None, None),
                           ("ringfire:landing / four", "OK", "whatever", ""),
                           ("ringfire:landing / five", "FAIL",
                            "[       OK ] a\n[  FAILED  ] b\n[  FAILED  ] c\n", ""),
                           ("ringfire:landing / six", "TIMEOUT", "", ""))
        self.assertEqual(str(count), "2 passed, 3 failed, 3 skipped")
        self.assertEqual(count.skips,
                         [("one", "no network"), ("two", "no node"), ("three", "no reason given")])

    def test_the_end_of_the_output(self):
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            run.print_skips([("gcc", "one", "no network"), ("gcc", "two", "no node"),
                             ("clang", "one", "no network")])
        self.assertEqual(out.getvalue(),
                         "skipped: one: no network (gcc, clang)\nskipped: two: no node (gcc)\n")

    def test_tests_say_why_they_skip(self):
        for path in (ROOT / "tests").rglob("*.[ch]"):
            if path.name not in ("skip.h", "skips.c"):
                self.assertIsNone(re.search(r"\bskip\(\)", path.read_text()),
                                  "%s: SKIP(reason) of tests/skip.h, not skip()" % path)


unittest.main(argv=sys.argv[:1])
