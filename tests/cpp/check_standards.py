# SPDX-License-Identifier: Apache-2.0
"""Compiles C++ sources with each compiler that is found, from C++17 to C++23, with warnings as
errors, with exceptions and (those that ask for results) without.

Usage: check_standards.py INCLUDE GENERATED SOURCE..."""
import itertools
import pathlib
import shutil
import subprocess
import sys

include, generated, *sources = sys.argv[1:]
compilers = [c for c in ("g++", "clang++") if shutil.which(c)]
failed = 0
for compiler, standard, source in itertools.product(compilers, ("c++17", "c++20", "c++2b"),
                                                    sources):
    results = "define RINGFIRE_RESULTS" in pathlib.Path(source).read_text()
    command = [compiler, "-std=" + standard, "-Wall", "-Wextra", "-Wpedantic", "-Wshadow",
               "-Werror", "-I" + include, "-I" + generated, "-fsyntax-only", source]
    command += ["-fno-exceptions", "-fno-rtti"] if results else []
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if done.returncode != 0:
        failed += 1
        print(" ".join(command))
        print(done.stdout)
print("%d compilers, %d sources" % (len(compilers), len(sources)))
sys.exit(1 if failed or not compilers else 0)
