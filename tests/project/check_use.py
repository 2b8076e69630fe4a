# SPDX-License-Identifier: Apache-2.0
"""Builds and runs a small program outside of the tree, against the installed library (pkg-config) or as a Meson subproject.

Usage: check_use.py installed|subproject SOURCE_ROOT BUILD_ROOT"""
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

how, source, build = sys.argv[1], pathlib.Path(sys.argv[2]).resolve(), pathlib.Path(sys.argv[3]).resolve()


def run(command, **kwargs):
    print("$", " ".join(map(str, command)), flush=True)
    subprocess.run([str(c) for c in command], check=True, **kwargs)


with tempfile.TemporaryDirectory() as folder:
    app = pathlib.Path(folder, "app")
    shutil.copytree(source / "tests/project/app", app)
    environment = dict(os.environ)
    if how == "installed":
        shutil.rmtree(app / "subprojects")
        root = pathlib.Path(folder, "root")
        run(["meson", "install", "-C", build, "--no-rebuild", "--quiet", "--destdir", root])
        modules = [str(p.parent) for p in root.rglob("ringfire.pc")]
        libraries = [str(p.parent) for p in root.rglob("libringfire.so")]
        if not modules or not libraries:
            sys.exit("nothing was installed")
        environment["PKG_CONFIG_PATH"] = modules[0]
        environment["PKG_CONFIG_SYSROOT_DIR"] = str(root)
        environment["LD_LIBRARY_PATH"] = libraries[0]
    else:
        os.symlink(source, app / "subprojects" / "ringfire")
    run(["meson", "setup", app / "build", app], env=environment)
    run(["ninja", "-C", app / "build", "-j2"], env=environment, stdout=subprocess.DEVNULL)
    run([app / "build/app"], env=environment, timeout=120)
