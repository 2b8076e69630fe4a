#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Builds the fuzzers and runs all of them, one on each core, from the corpus in the tree.

./dev fuzz                    50 million executions in all
./dev fuzz 2000000            so many
./dev fuzz --seconds 15       each for so long
./dev fuzz 1000000 model idx  only these

Inputs that reached something new are kept in build/test/fuzz/found and are where the next run
begins; those that were findings in build/test/fuzz/findings. The exit status is 0 when there were
none. """
import argparse
import concurrent.futures
import os
import pathlib
import re
import signal
import subprocess
import sys
import threading
import time

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
DIRECTORY = ROOT / "build/test/fuzz"
MESON_OPTIONS = ["-Dfuzzers=true", "-Dexamples=false", "-Doptimization=1", "-Dc_args=-g1",
                 "-Db_lundef=false", "-Db_sanitize=address,undefined"]
ENVIRONMENT = {
    # Little is kept of memory that was freed and of who allocated it: with the defaults this is
    # what most of the time goes into.
    "ASAN_OPTIONS": ("detect_leaks=1:abort_on_error=1:detect_stack_use_after_return=1:"
                     "quarantine_size_mb=8:malloc_context_size=4"),
    "UBSAN_OPTIONS": "halt_on_error=1:abort_on_error=1:print_stacktrace=1",
    "LSAN_OPTIONS": "print_suppressions=0",
}
LIMITS = ["-max_len=4096", "-rss_limit_mb=1024", "-timeout=10", "-print_final_stats=1"]
# libFuzzer's weighing of its corpus takes most of the time where an execution goes through many
# branches often.
OPTIONS = {"iterator_state": ["-entropic=0", "-max_len=64"], "job_key": ["-max_len=128"],
           "call_header": ["-max_len=160"]}
EXECUTIONS = 50_000_000


class Outcome:
    def __init__(self, name):
        self.name = name
        self.executions = self.found = self.coverage = 0
        self.seconds = 0.0
        self.problem = None  # a line; None: fine

    def row(self):
        rate = self.executions / self.seconds if self.seconds else 0
        return "%-16s %12s %10s %10s %10s  %s" % (
            self.name, "{:,}".format(self.executions), "{:,.0f}".format(rate),
                                                  "{:,}".format(self.found),
                                                  "{:,}".format(self.coverage), self.problem
            or "passed")


HEADING = "%-16s %12s %10s %10s %10s  %s" % ("fuzzer", "executions", "per second", "new inputs",
                                             "coverage", "result")


def names(directory):
    """The fuzzers that were built."""
    found = [p.name[len("fuzz_"):] for p in (directory / "tests/fuzz").glob("fuzz_*")
             if p.is_file() and os.access(p, os.X_OK)]
    return sorted(found)


def share_out(total, fuzzers):
    """How many executions each gets: the same number for all, `total` together. (The fastest are
    ten times as fast as the slowest and done early; to give them more would be at the expense of
    those whose inputs have most in them.)"""
    return {f: total // len(fuzzers) + (i < total % len(fuzzers)) for i, f in enumerate(fuzzers)}


class Runner:
    """Runs fuzzers until each is done, has a finding, or stop() is called."""

    def __init__(self, directory):
        self.directory = directory
        self.processes = set()
        self.lock = threading.Lock()
        self.stopped = False

    def stop(self):
        with self.lock:
            self.stopped = True
            for process in self.processes:
                process.send_signal(signal.SIGINT)  # they say how far they came

    def run(self, name, until):
        outcome = Outcome(name)
        fuzzer = "fuzz_" + name
        found, findings = self.directory / "found" / fuzzer, self.directory / "findings"
        for folder in found, findings, self.directory / "logs":
            folder.mkdir(parents=True, exist_ok=True)
        log = self.directory / "logs" / (fuzzer + ".log")
        command = [self.directory / "tests/fuzz" / fuzzer, until, *LIMITS, *OPTIONS.get(name, []),
                   "-artifact_prefix=%s/%s-" % (findings, fuzzer), found,
                   HERE / "corpus" / fuzzer]
        start = time.monotonic()
        with open(log, "w") as out:
            with self.lock:
                if self.stopped:
                    outcome.problem = "not begun"
                    return outcome
                # In a session of its own, so that what interrupts this program reaches it through
                # stop() only.
                process = subprocess.Popen([str(c) for c in command], cwd=ROOT,
                                           stdin=subprocess.DEVNULL, stdout=out,
                                           stderr=subprocess.STDOUT,
                                           env={**os.environ, **ENVIRONMENT},
                                           start_new_session=True)
                self.processes.add(process)
            status = process.wait()
            with self.lock:
                self.processes.discard(process)
        outcome.seconds = time.monotonic() - start
        text = log.read_text(errors="replace")
        self.read_log(text, outcome)
        if self.stopped and "run interrupted" in text:
            outcome.problem = "interrupted"
        elif status != 0:
            artifact = re.search(r"Test unit written to (\S+)", text)
            outcome.problem = "FAILED: %s, %s" % (
                os.path.relpath(artifact.group(1) if artifact else str(findings), ROOT),
                                                  os.path.relpath(log, ROOT))
        elif outcome.executions == 0:
            outcome.problem = "FAILED: nothing was executed, %s" % os.path.relpath(log, ROOT)
        return outcome

    @staticmethod
    def read_log(text, outcome):
        for key, attribute in (("number_of_executed_units", "executions"),
                               ("new_units_added", "found")):
            match = re.search(r"stat::%s:\s+(\d+)" % key, text)
            setattr(outcome, attribute, int(match.group(1)) if match else 0)
        coverage = re.findall(r"\bcov: (\d+)", text)
        outcome.coverage = int(coverage[-1]) if coverage else 0


def run_all(directory, fuzzers, until, jobs, show):
    """`until` gives each fuzzer's option that ends it; `show` gets each outcome as it comes.
    Returns all of them and whether it was interrupted."""
    runner = Runner(directory)
    outcomes, interrupted = [], False
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        waiting = {pool.submit(runner.run, name, until(name)) for name in fuzzers}
        while waiting:
            try:
                done, waiting = concurrent.futures.wait(
                    waiting, return_when=concurrent.futures.FIRST_COMPLETED)
                for future in done:
                    outcomes.append(future.result())
                    show(outcomes[-1])
            except KeyboardInterrupt:
                interrupted = True
                runner.stop()
    return outcomes, interrupted


def in_seconds(directory, seconds, jobs, show):
    """Every fuzzer for so long: what the test suite does."""
    return run_all(directory, names(directory), lambda name: "-max_total_time=%s" % seconds, jobs,
                   show)[0]


def build():
    environment = {**os.environ, "CC": "clang",
                   "RINGFIRE_SHADER_CACHE": str(ROOT / "build/test/shader-cache")}
    commands = [["ninja", "-C", str(DIRECTORY), "fuzzers"]]
    if not (DIRECTORY / "build.ninja").exists():
        commands.insert(0, ["meson", "setup", str(DIRECTORY), "-Dwerror=true", *MESON_OPTIONS])
    for command in commands:
        done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              text=True, env=environment)
        if done.returncode != 0:
            print("\n".join(done.stdout.splitlines()[-60:]))
            sys.exit("fuzzing: failed: " + " ".join(command))


def arguments():
    parser = argparse.ArgumentParser(prog="./dev fuzz", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=int, help="run each for so long instead")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 2,
                        help="at a time (default: as many as there are cores)")
    parser.add_argument("words", nargs="*", metavar="[EXECUTIONS] [FUZZER...]",
                        help="executions of all together (default %d), then names of fuzzers "
                             "(default all)" % EXECUTIONS)
    args = parser.parse_args()
    args.executions = int(args.words.pop(0)) if args.words and args.words[0].isdigit(
        ) else EXECUTIONS
    if args.executions < 1 or args.jobs < 1 or (args.seconds is not None and args.seconds < 1):
        parser.error("numbers must be positive")
    return parser, args


def main():
    parser, args = arguments()
    print("Building the fuzzers (%s)" % os.path.relpath(DIRECTORY, ROOT), flush=True)
    build()
    fuzzers = names(DIRECTORY)
    unknown = sorted(set(args.words) - set(fuzzers))
    if unknown:
        parser.error("there is no fuzzer %s; there are %s"
                     % (", ".join(unknown), ", ".join(fuzzers)))
    fuzzers = sorted(set(args.words)) or fuzzers
    shares = share_out(args.executions, fuzzers)
    if args.seconds:
        def until(name):
            return "-max_total_time=%d" % args.seconds
    else:
        def until(name):
            return "-runs=%d" % shares[name]
        if 0 in shares.values():
            parser.error("%d executions are less than one for each of %d fuzzers"
                         % (args.executions, len(fuzzers)))
    print(HEADING, flush=True)
    start = time.monotonic()
    outcomes, interrupted = run_all(DIRECTORY, fuzzers, until, args.jobs,
                                    lambda outcome: print(outcome.row(), flush=True))
    total = Outcome("total")
    total.executions, total.found = sum(o.executions
                                        for o in outcomes), sum(o.found for o in outcomes)
    total.seconds = time.monotonic() - start
    failed = [o.name for o in outcomes if o.problem and o.problem.startswith("FAILED")]
    total.problem = "FAILED: " + ", ".join(
        failed) if failed else "interrupted" if interrupted else None
    total.coverage = sum(o.coverage for o in outcomes)
    print(total.row() + "  (%d:%02d min)" % divmod(round(total.seconds), 60))
    return 1 if failed else 130 if interrupted else 0


if __name__ == "__main__":
    sys.exit(main())
