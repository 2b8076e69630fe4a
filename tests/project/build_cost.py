#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Builds the release from nothing, without caches, as ./dev build does, and prints what it took:
wall time, CPU time, the memory of the largest process, and the largest sum over all processes at
one time (resident pages, shared ones counted in each process).

tests/project/build_cost.py [JOBS]"""
import os
import pathlib
import resource
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
PAGE = os.sysconf("SC_PAGE_SIZE")


def session_memory(session):
    """Resident bytes of the session's processes."""
    total = 0
    for entry in os.scandir("/proc"):
        if not entry.name.isdigit():
            continue
        try:
            with open(entry.path + "/stat") as f:
                fields = f.read().rsplit(")", 1)[1].split()
        except OSError:
            continue  # It has ended meanwhile.
        if int(fields[3]) == session:
            total += int(fields[21]) * PAGE
    return total


def main():
    environment = {name: value for name, value in os.environ.items()
                   if name != "RINGFIRE_SHADER_CACHE"}
    environment["CCACHE_DISABLE"] = "1"
    peak = 0
    start = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        steps = (["meson", "setup", folder, "--buildtype=release", "-Dtests=false"],
                 ["ninja", "-C", folder, *(["-j" + sys.argv[1]] if len(sys.argv) > 1 else [])])
        for step in steps:
            with open(os.path.join(folder, "output"), "w") as output:
                running = subprocess.Popen(step, cwd=ROOT, env=environment, stdout=output,
                                           stderr=output, start_new_session=True)
                while running.poll() is None:
                    peak = max(peak, session_memory(running.pid))
                    time.sleep(0.25)
            if running.returncode != 0:
                sys.exit(" ".join(step) + "\n" + pathlib.Path(folder, "output").read_text()[-4000:])
        wall = time.monotonic() - start
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    print("%.0f s, CPU time %.0f s; largest process %d MB, all at one time %d MB" % (
        wall, usage.ru_utime + usage.ru_stime, usage.ru_maxrss // 1024, peak >> 20))


main()
