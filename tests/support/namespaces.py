# SPDX-License-Identifier: Apache-2.0
"""Programs that mount things: in namespaces of their own, so that nothing stays mounted."""
import os
import signal
import subprocess
import sys


def enter_namespaces(variable):
    """Starts this script again with mounts and processes of its own, which end with it, unless the
    environment variable says that this is there already."""
    if variable in os.environ:
        return
    os.environ[variable] = "1"
    inside = subprocess.Popen(["unshare", "--mount", "--pid", "--fork", "--kill-child",
                               "--mount-proc", sys.executable, *sys.argv])
    # unshare ignores what asks it to end, and so would everything in its namespace go on; killed,
    # it takes that along.
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda *_: inside.kill())
    while True:
        try:
            sys.exit(max(inside.wait(), -1) % 256)
        except KeyboardInterrupt:
            pass  # It has been told, too.


def mount_system(run, root):
    """What programs expect below a root, by the caller's function that runs a command."""
    # Namespaces made inside need a mount at /, as every system has one.
    run("mount", "--bind", root, root)
    for kind, options in (("proc", ["-t", "proc", "proc"]), ("sys", ["--rbind", "/sys"]),
                          ("dev", ["--rbind", "/dev"])):
        run("mount", *options, root / kind)
    for folder in ("tmp", "run"):
        run("mount", "-t", "tmpfs", "-o", "mode=%s" % ("1777" if folder == "tmp" else "755"),
            "tmpfs", root / folder)
