# SPDX-License-Identifier: Apache-2.0
"""Builds the Rust crate against the library that `meson install` leaves, and trains its example.

Usage: check_rust.py SOURCE_ROOT BUILD_ROOT; exit status 77 (skipped) without cargo, or where it
cannot have bindgen: Debian's librust-bindgen-dev and librust-pkg-config-dev have it."""
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

SKIPPED = 77
# The crates of Debian's packages, which cargo takes instead of the network's.
CRATES = pathlib.Path("/usr/share/cargo/registry")
SOURCES = """[source.crates-io]
replace-with = "debian"
[source.debian]
directory = "%s"
""" % CRATES

source, build = map(pathlib.Path, sys.argv[1:3])
if not shutil.which("cargo") or not list(CRATES.glob("bindgen-*")):
    print("skipped: no cargo, or no librust-bindgen-dev")
    sys.exit(SKIPPED)
with tempfile.TemporaryDirectory() as name:
    folder = pathlib.Path(name)
    root = folder / "root"
    subprocess.run(["meson", "install", "-C", build, "--no-rebuild", "--quiet", "--destdir", root],
                   check=True)
    crate = folder / "crate"
    shutil.copytree(source / "bindings/rust", crate)
    (crate / ".cargo").mkdir()
    (crate / ".cargo/config.toml").write_text(SOURCES)
    environment = {
        **os.environ,
        "PKG_CONFIG_PATH": str(next(root.rglob("ringfire.pc")).parent),
        "PKG_CONFIG_SYSROOT_DIR": str(root),
        "LD_LIBRARY_PATH": str(next(root.rglob("libringfire.so")).parent),
        "CARGO_HOME": str(folder / "home"),
    }
    subprocess.run(["cargo", "run", "--offline", "--example", "linear"], check=True, cwd=crate,
                   env=environment, timeout=900)
