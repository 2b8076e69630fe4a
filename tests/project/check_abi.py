# SPDX-License-Identifier: Apache-2.0
"""Compares the interface of the shared library with the dump in the tree (libabigail): symbols,
types of public headers, soname.

Usage: check_abi.py LIBRARY DUMP [--update]

Exit status 77 (skipped): libabigail is not installed, the library has no debug information, this is
another architecture than the dump's, or another version of libabigail whose dumps have another
format."""
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

SKIPPED = 77
# Types of the library's own headers may have a public header's name: where they stand decides.
PUBLIC_TYPES = """[suppress_type]
source_location_not_regexp = include/ringfire/
drop = yes
"""
BREAKS = """A program that was built against the dump may not run with this library. New fields
take their room from `reserved` words, and functions stay as they are (CONTRIBUTING.md). Where that
cannot be, raise abi_version in meson.build, unless that was done since the last release already,
and renew the dump: ./dev abi"""
ADDS = "Programs built against the dump still run with this library. Renew the dump: ./dev abi"


def skip(why):
    print("skipped: " + why)
    sys.exit(SKIPPED)


def dump(library, to, folder):
    public = folder / "public.ini"
    public.write_text(PUBLIC_TYPES)
    subprocess.run(["abidw", "--no-corpus-path", "--no-show-locs", "--no-comp-dir-path",
                    "--no-elf-needed", "--no-parameter-names",
                    "--exported-interfaces-only", "--type-id-style", "hash", "--suppressions",
                    public, "--out-file", to, library], check=True)


def architecture(path):
    return re.search(r"architecture='([^']*)'", path.read_text()).group(1)


def main():
    library, stored = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
    if not shutil.which("abidw") or not shutil.which("abidiff"):
        skip("abidw and abidiff are not installed (abigail-tools)")
    sections = subprocess.run(["readelf", "--section-headers", "--wide", library], check=True,
                              stdout=subprocess.PIPE, text=True).stdout
    if ".debug_info" not in sections:
        skip("%s has no debug information" % library.name)
    with tempfile.TemporaryDirectory() as name:
        new = pathlib.Path(name, "new.abi")
        dump(library, new, pathlib.Path(name))
        if "rf_fit_params" not in new.read_text():
            sys.exit("the dump of %s has no types: was it built with debug information?"
                     % library.name)
        if not stored.exists():
            if "--update" not in sys.argv:
                sys.exit("%s is missing: ./dev abi makes it" % stored)
            shutil.copyfile(new, stored)
        if architecture(stored) != architecture(new):
            skip("the dump is of %s, not of %s" % (architecture(stored), architecture(new)))
        done = subprocess.run(["abidiff", stored, new], stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, text=True)
        if "incompatible format version" in done.stdout + done.stderr:
            skip("this version of libabigail does not compare with dumps of that which wrote the "
                 "tree's")
        if done.returncode & 3:
            sys.exit("abidiff failed: %s" % (done.stdout + done.stderr))
        print(done.stdout, end="")
        if done.returncode and "--update" in sys.argv:
            shutil.copyfile(new, stored)
            print("%s: renewed" % stored)
        elif done.returncode:
            breaks = "SONAME" in done.stdout or re.search(
                r"[1-9]\d* (?:Removed|Changed)", done.stdout)
            sys.exit(BREAKS if breaks else ADDS)


main()
