# SPDX-License-Identifier: Apache-2.0
"""Compiles one GLSL compute shader variant to optimised, validated SPIR-V inside a C file."""
import argparse
import os
import struct
import subprocess
import sys
import tempfile

TARGET = "vulkan1.2"


def run(command):
    """Runs a tool; its output matters only when it fails."""
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if done.returncode != 0:
        sys.stderr.write(" ".join(command) + "\n" + done.stdout)
        sys.exit(1)


def main():
    parser = argparse.ArgumentParser()
    for tool in ("glslang", "opt", "val"):
        parser.add_argument("--" + tool, required=True)
    parser.add_argument("--include", required=True)
    parser.add_argument("--name", required=True)
    parser.add_argument("--subgroup-size", type=int, required=True)
    parser.add_argument("--depfile", required=True)
    parser.add_argument("source")
    parser.add_argument("output")
    parser.add_argument("defines", nargs="*")
    args = parser.parse_args()

    with tempfile.TemporaryDirectory() as folder:
        raw = os.path.join(folder, "raw.spv")
        optimised = os.path.join(folder, "optimised.spv")
        run([args.glslang, "-V", "--target-env", TARGET, "-I" + args.include, "--depfile", args.depfile,
             *args.defines, "-o", raw, args.source])
        run([args.opt, "--target-env=" + TARGET, "-O", raw, "-o", optimised])
        run([args.val, "--target-env", TARGET, optimised])
        with open(optimised, "rb") as f:
            data = f.read()
    # The depfile must name the file that the build knows, not the temporary one.
    with open(args.depfile) as f:
        dependencies = f.read().split(":", 1)[1]
    with open(args.depfile, "w") as f:
        f.write(args.output + ":" + dependencies)

    words = struct.unpack("<%dI" % (len(data) // 4), data)
    with open(args.output, "w") as f:
        f.write('#include "base/shader.h"\n')
        f.write("extern const rf_shader rf_shader_%s;\n" % args.name)
        f.write("static const uint32_t words[] = {\n")
        for i in range(0, len(words), 12):
            f.write(",".join("0x%08x" % w for w in words[i:i + 12]) + ",\n")
        f.write("};\n")
        f.write('const rf_shader rf_shader_%s = { "%s", words, %d, %d };\n'
                % (args.name, args.name, len(words), args.subgroup_size))


main()
