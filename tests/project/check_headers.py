# SPDX-License-Identifier: Apache-2.0
"""Compiles every public header alone, as C11 and as C++17, with warnings as errors. Usage:
check_headers.py INCLUDE CXX CC...

CC may be several words: Meson puts ccache before the compiler where it finds it."""
import pathlib
import subprocess
import sys

include, cxx, *cc = sys.argv[1:]
failed = 0
headers = sorted(pathlib.Path(include, "ringfire").glob("*.h"))
for header in headers:
    for command in ([*cc, "-std=c11", "-x", "c"], [cxx, "-std=c++17", "-x", "c++"]):
        done = subprocess.run(command + ["-Wall", "-Wextra", "-Wpedantic", "-Werror",
                                         "-I" + include, "-fsyntax-only", str(header)],
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        if done.returncode != 0:
            failed += 1
            print(" ".join(command), header.name)
            print(done.stdout)
print("%d headers" % len(headers))
sys.exit(1 if failed or not headers else 0)
