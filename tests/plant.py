#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Whether the suite protects: plants one fault after another in a copy of the tree, and says which
tests find it.

tests/plant.py                    all faults, against what a landing runs
tests/plant.py --nightly          those that a landing misses, against what a night adds
tests/plant.py --likely           only by the test that is likely to find each: some minutes
tests/plant.py --list             the faults
tests/plant.py NAME...            only these

A fault is a row of tests/faults.json: a text that its file holds once and what takes its place, the
stage whose build can see it, and the test that is likely to find it, which runs first and alone.
Where that passes, all tests of the tier run in that stage until one fails. Ends with 1 where a
landing finds fewer than nine in ten, or a night not all."""
import argparse
import importlib.machinery
import importlib.util
import json
import os
import pathlib
import shutil
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
PLACE = ROOT / "build/plant"
FAULTS = ROOT / "tests/faults.json"
LEAST = 0.9
BUILD_SECONDS, TEST_SECONDS = 1200, 3600

sys.dont_write_bytecode = True
loader = importlib.machinery.SourceFileLoader("run", str(ROOT / "tests/run"))
run = importlib.util.module_from_spec(importlib.util.spec_from_loader("run", loader))
loader.exec_module(run)

# Of each stage: Meson's options, its environment, the suites that it leaves out, and how much
# longer its tests may take.
STAGES = {
    "gcc": ([], {
        "CC": "gcc"
    }, ("sample", ), 1),
    "address": (["-Db_sanitize=address,undefined", *run.SANITIZED], {
        "CC": "gcc",
        **run.FAST_LINKER
    }, ("sample", "heavy", "long", "layer"), 4),
    "thread": (["-Db_sanitize=thread", *run.SANITIZED], {
        "CC": "clang",
        **run.FAST_LINKER
    }, ("long", ), 6),
}


def copy_tree():
    """The tracked files as they are, in a folder of their own; files that are as they were keep
    their times, so that little is built."""
    names = subprocess.run(["git", "ls-files", "-z"],
                           cwd=ROOT,
                           stdout=subprocess.PIPE,
                           text=True,
                           check=True).stdout.split("\0")
    for name in filter(None, names):
        source, target = ROOT / name, PLACE / "tree" / name
        if not source.is_file() or target.exists() and target.read_bytes() == source.read_bytes():
            continue
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(source, target)
    # A test holds that all faults can be planted, which one that has been cannot.
    (PLACE / "tree/tests/faults.json").write_text("[]\n")


def command(words, seconds, stage):
    """Whether a command ended well in time, and what it printed."""
    try:
        done = subprocess.run([str(w) for w in words],
                              cwd=PLACE / "tree",
                              stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT,
                              text=True,
                              errors="replace",
                              stdin=subprocess.DEVNULL,
                              timeout=seconds,
                              env={
                                  **os.environ,
                                  **run.SHARED,
                                  **STAGES[stage][1]
                              })
    except subprocess.TimeoutExpired:
        return False, "took more than %d s" % seconds
    return done.returncode == 0, done.stdout


def build(stage):
    directory = PLACE / stage
    if not (directory / "build.ninja").exists():
        ok, said = command(["meson", "setup", directory, *STAGES[stage][0]], BUILD_SECONDS, stage)
        if not ok:
            sys.exit("plant: %s" % said[-2000:])
    return command(["ninja", "-C", directory, "-j", run.JOBS, "all", "meson-test-prereq"],
                   BUILD_SECONDS, stage)


def failed_tests(stage, words):
    """The tests that fail of those that Meson's words choose, in the order of their ends."""
    log = PLACE / stage / "meson-logs/testlog.json"
    log.unlink(missing_ok=True)
    ok, said = command(["meson", "test", "-C", PLACE / stage, "--no-rebuild", "--num-processes",
                        run.JOBS,
                        "--timeout-multiplier", STAGES[stage][3], *words], TEST_SECONDS, stage)
    rows = [json.loads(line) for line in log.read_text().splitlines()] if log.exists() else []
    bad = [r["name"].partition(" / ")[2] or r["name"] for r in rows
           if r["result"] not in ("OK", "SKIP", "EXPECTEDFAIL", "INTERRUPT")]
    return bad if bad or ok else ["meson: " + said[-200:]]


def confirmed(stage, names):
    """The first of these tests that fails once more, alone: a busy machine makes some fail that
    wait for time to pass."""
    return next((name for name in names if failed_tests(stage, [name])), None)


def find(fault, tier, likely_only):
    """The test that finds a fault that has been planted, or the build; None where nothing does."""
    stage = fault.get("stage", "gcc")
    built, said = build(stage)
    if not built:
        errors = [line for line in said.splitlines() if "error" in line]
        return "the build: %s" % (errors or [said[-200:]])[0]
    likely = fault.get("test")
    if likely and failed_tests(stage, [likely]):
        return likely
    if likely_only:
        return None
    words = [w for s in run.suites_in(stage, tier) for w in ("--suite", s)]
    words += [w for s in STAGES[stage][2] for w in ("--no-suite", s)]
    # Most are found early; what fails first may do so by chance.
    return (confirmed(stage, failed_tests(stage, ["--maxfail", "1", *words])) or
            confirmed(stage, failed_tests(stage, words)))


def plant(fault):
    path = PLACE / "tree" / fault["file"]
    text = path.read_text()
    if text.count(fault["old"]) != 1:
        sys.exit("plant: %s: %s holds its text %d times, not once" %
                 (fault["name"], fault["file"], text.count(fault["old"])))
    path.write_text(text.replace(fault["old"], fault["new"]))
    return path, text


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--nightly", action="store_true")
    parser.add_argument("--likely", action="store_true")
    parser.add_argument("names", nargs="*", metavar="NAME")
    options = parser.parse_args()
    faults = json.loads(FAULTS.read_text())
    if options.list:
        print("\n".join("%-32s %-8s %s: %s" %
                        (f["name"], f.get("stage", "gcc"), f["file"], f["kind"]) for f in faults))
        return 0
    unknown = set(options.names) - {f["name"] for f in faults}
    if unknown:
        parser.error("there is no fault %s" % ", ".join(sorted(unknown)))
    faults = [f for f in faults if f["name"] in options.names or not options.names]
    tier = "nightly" if options.nightly else "landing"
    PLACE.mkdir(parents=True, exist_ok=True)
    copy_tree()
    missed = []
    for fault in sorted(faults, key=lambda f: f.get("stage", "gcc")):
        begun = time.monotonic()
        path, text = plant(fault)
        try:
            found = find(fault, tier, options.likely)
        finally:
            path.write_text(text)
        print("%-32s %s  (%.0f s)" %
              (fault["name"], "found by " + found if found else "MISSED", time.monotonic() - begun),
              flush=True)
        if not found:
            missed.append(fault["name"])
    print("%s: %d of %d faults found%s" % (tier, len(faults) - len(missed), len(faults),
                                           ", missed: " + ", ".join(missed) if missed else ""))
    return 1 if len(missed) > (0 if options.nightly else (1 - LEAST) * len(faults)) else 0


if __name__ == "__main__":
    sys.exit(main())
