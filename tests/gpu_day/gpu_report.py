#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measures a GPU in one go: are the results right, how fast is it beside PyTorch, and what has to
be fixed first.

Runs in phases (phases.py), each with a limit. Every step is written to report.jsonl as it ends, and
report.md anew after each phase: what was measured before a machine is taken away is not lost.
Standard library only; PyTorch is measured where a Python has it. Ends with 0 when every test
passed, whatever the speed.

Usage: gpu_report.py [--out DIR] [--budget SECONDS] [--only PHASE,...] [--small] [--programs DIR]
[--pytorch PYTHON]"""
import argparse
import concurrent.futures
import json
import os
import pathlib
import platform
import shutil
import subprocess
import sys
import time

import driver
import phases
import verdict

HERE = pathlib.Path(__file__).resolve().parent
TAIL = 4000
NO_SUCH_PROGRAM = 127


def about(seconds, environment):
    yield "processor", "%d processors, %s" % (os.cpu_count() or 1, platform.machine())
    yield "system", "%s, glibc %s" % (platform.platform(), platform.libc_ver()[1] or "unknown")
    yield "Vulkan drivers", environment["VK_DRIVER_FILES"]
    yield "taken", "%s, %.0f s" % (time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime()), seconds)


def failed_lines(output):
    """Lines of a test's output that name what failed, each once."""
    found = [line for line in output.splitlines() if verdict.FAIL.match(line)
             or verdict.CASE.match(line) or line.startswith("FAIL ")]
    return list(dict.fromkeys(found))[:200]


def run_step(phase, step, seconds, environment):
    """Runs a step for so many seconds at most and returns its record."""
    start, timed_out = time.monotonic(), False
    command = [str(c) for c in step.command]
    try:
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                              stdin=subprocess.DEVNULL, timeout=max(1.0, seconds),
                              env={**environment, **dict(step.environment)}, errors="replace",
                              text=True)
        output, errors, status = done.stdout, done.stderr, done.returncode
    except subprocess.TimeoutExpired as e:
        output, errors = (text.decode(errors="replace") if isinstance(text, bytes) else text or ""
                          for text in (e.stdout, e.stderr))
        status, timed_out = None, True
    except OSError as e:
        output, errors, status = "", str(e), NO_SUCH_PROGRAM
    record = {"phase": phase.name, "step": step.name, "command": command,
              "seconds": round(time.monotonic() - start, 3), "status": status,
              "timed_out": timed_out, "errors": errors[-TAIL:]}
    if step.json and status == 0:
        try:
            record["result"] = json.loads(output)
        except ValueError as e:
            record["errors"] += "\nprinted no JSON: %s" % e
    if "result" not in record:
        record["output"] = output[-TAIL:]
        record["failed"] = failed_lines(output + "\n" + errors)
    return record


class Day:
    def __init__(self, out, environment):
        self.out, self.environment = out, environment
        self.records, self.start = [], time.monotonic()
        self.lines = open(out / "report.jsonl", "w")

    def keep(self, record):
        self.records.append(record)
        self.lines.write(json.dumps(record) + "\n")
        self.lines.flush()
        note = "stopped" if record["timed_out"] else "ok" if record[
            "status"] == 0 else "status %s" % record["status"]
        print("%7.1f s  %-10s %-40s %6.1f s  %s"
              % (time.monotonic() - self.start, record["phase"], record["step"], record["seconds"],
                 note), flush=True)

    def write(self):
        text = verdict.make(self.records, about(time.monotonic() - self.start, self.environment))
        part = self.out / "report.md.part"
        part.write_text(text)
        part.replace(self.out / "report.md")

    def run(self, phase, deadline):
        """One phase, which ends by its limit and by the day's."""
        end = min(deadline, time.monotonic() + phase.seconds)
        with concurrent.futures.ThreadPoolExecutor(phase.parallel) as pool:
            def one(step):
                left = min(step.seconds, end - time.monotonic())
                if left < 1:
                    return {"phase": phase.name, "step": step.name,
                            "command": [str(c) for c in step.command], "seconds": 0.0,
                            "status": None,
                            "timed_out": True, "errors": "no time was left", "failed": []}
                return run_step(phase, step, left, self.environment)
            for done in concurrent.futures.as_completed(
                [pool.submit(one, step) for step in phase.steps]):
                self.keep(done.result())
        self.write()


def python_with_pytorch(wanted):
    """The first Python that has PyTorch, or None."""
    for python in [wanted] if wanted else [sys.executable, shutil.which("python3")
                                           or sys.executable, "/usr/bin/python3"]:
        try:
            found = subprocess.run([python, "-c", "import importlib.util, sys; sys.exit(not "
                                                  "importlib.util.find_spec('torch'))"],
                                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                                   timeout=60).returncode == 0
        except (OSError, subprocess.TimeoutExpired):
            found = False
        if found:
            return python
    return None


def has_device(programs, environment):
    """Whether the drivers of an environment offer a device that the library can use."""
    environment = {**environment, "VK_ICD_FILENAMES": environment["VK_DRIVER_FILES"]}
    try:
        done = subprocess.run([str(programs / "tools/ringfire"), "devices", "--json"],
                              stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                              stdin=subprocess.DEVNULL, env=environment, timeout=60, text=True)
        return done.returncode == 0 and any(device["usable"] for device in json.loads(done.stdout))
    except (OSError, ValueError, KeyError, TypeError, subprocess.TimeoutExpired):
        return False


def environment_for(o):
    environment = dict(os.environ)
    libraries = o.programs / "lib"
    if libraries.is_dir():
        environment["LD_LIBRARY_PATH"] = ":".join(
            filter(None, [str(libraries), environment.get("LD_LIBRARY_PATH")]))
    layers = o.programs / "layers"
    if layers.is_dir():
        environment["VK_LAYER_PATH"] = str(layers)
    fixtures = o.programs / "fixtures"
    if fixtures.is_dir():
        environment["RINGFIRE_TEST_FIXTURES"] = str(fixtures)
    drivers = driver.find(o.out, environment,
                          answers=lambda drivers: has_device(
                              o.programs, {**environment, "VK_DRIVER_FILES": drivers}))
    if not drivers:
        sys.exit("gpu-report: " + driver.HELP)
    if all(driver.is_software(path) for path in drivers.split(":")):
        print("no GPU answers: what follows is a software driver's")
    environment.update(VK_DRIVER_FILES=drivers, VK_ICD_FILENAMES=drivers,
                       RINGFIRE_CACHE=str(o.out / "cache"))
    return environment


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter,
                                     usage=argparse.SUPPRESS)
    parser.add_argument("--out", type=pathlib.Path,
                        default=pathlib.Path(os.environ.get("OUT", "gpu-report")))
    parser.add_argument("--budget", type=float, default=phases.BUDGET,
                        help="seconds for everything")
    parser.add_argument("--only", metavar="PHASE,...", type=lambda text: text.split(","),
                        help="these phases, which keep their own limits: "
                        + ", ".join(phases.NAMES) + "; PHASE/STEP: its steps whose names begin "
                        "so; " + ", ".join(phases.ALONE) + ": only where named")
    parser.add_argument("--small", action="store_true",
                        help="what a software driver does in a minute")
    parser.add_argument("--programs", type=pathlib.Path, default=HERE.parent,
                        help="a build directory with tests, or an unpacked bundle")
    parser.add_argument("--pytorch", metavar="PYTHON", help="the Python that has PyTorch")
    o = parser.parse_args()
    o.out, o.programs = o.out.resolve(), o.programs.resolve()
    if unknown := [name for name in o.only or () if name.partition("/")[0] not in phases.NAMES + phases.ALONE]:
        parser.error("there is no phase '%s'; there are %s" % (
            unknown[0], ", ".join(phases.NAMES + phases.ALONE)))
    for name in ("tools/ringfire", "tools/ringfire-bench"):
        if not (o.programs / name).exists():
            parser.error("%s holds no %s: name a build directory, or a bundle's folder, "
                         "with --programs" % (o.programs, name))
    o.out.mkdir(parents=True, exist_ok=True)
    environment = environment_for(o)
    python = python_with_pytorch(o.pytorch)
    # Its libraries are its own: a bundle's may be older.
    own = "LD_LIBRARY_PATH=" + os.environ.get("LD_LIBRARY_PATH", "")
    baseline = ["env", own, python, HERE / "baseline.py",
                *(["--small"] if o.small else [])] if python else None
    script = next(folder / "language_training.py" for folder in (HERE, HERE.parent / "bench")
                  if (folder / "language_training.py").exists())
    language = ["env", own, python, script, *(["--small"] if o.small else [])] if python else None
    day = Day(o.out, environment)
    deadline = day.start + o.budget
    for phase in phases.make(o.programs, os.cpu_count() or 1, o.budget, o.small, baseline, o.only,
                             language):
        day.run(phase, deadline)
    wrong = verdict.failures(day.records)
    print("%d failures; the report: %s" % (len(wrong), o.out / "report.md"))
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
