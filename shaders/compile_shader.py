# SPDX-License-Identifier: Apache-2.0
"""Compiles one GLSL compute shader variant to optimised, validated SPIR-V inside a C file.

Optimising a fully unrolled kernel takes seconds. Where RINGFIRE_SHADER_CACHE names a directory, results are kept there under
a hash of the unoptimised module, the passes and the optimiser's version, so that several build directories share the work."""
import argparse
import hashlib
import os
import shutil
import struct
import subprocess
import sys
import tempfile

TARGET = "vulkan1.2"
# What `spirv-opt -O` does, but merge-blocks comes right after loop-unroll. An unrolled loop is a chain of thousands of blocks, each
# of which dominates the next. In this state the first redundancy-elimination takes gigabytes, because it keeps a table of all values
# for each dominator, and if-conversion takes seconds. The result is the same to the last byte.
PASSES = """
    wrap-opkill eliminate-dead-branches merge-return inline-entry-points-exhaustive eliminate-dead-functions
    eliminate-dead-code-aggressive private-to-local eliminate-local-single-block eliminate-local-single-store
    eliminate-dead-code-aggressive scalar-replacement=100 convert-local-access-chains eliminate-local-single-block
    eliminate-local-single-store eliminate-dead-code-aggressive ssa-rewrite eliminate-dead-code-aggressive ccp
    eliminate-dead-code-aggressive
    loop-unroll eliminate-dead-branches merge-blocks redundancy-elimination combine-access-chains simplify-instructions
    scalar-replacement=100 convert-local-access-chains eliminate-local-single-block eliminate-local-single-store
    eliminate-dead-code-aggressive ssa-rewrite eliminate-dead-code-aggressive vector-dce eliminate-dead-inserts
    eliminate-dead-branches simplify-instructions if-conversion copy-propagate-arrays reduce-load-size
    eliminate-dead-code-aggressive merge-blocks redundancy-elimination eliminate-dead-branches merge-blocks
    simplify-instructions
""".split()
OPTIONS = ["--target-env=" + TARGET] + ["--" + name for name in PASSES]


def run(command):
    """Runs a tool; its output matters only when it fails."""
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if done.returncode != 0:
        sys.stderr.write(" ".join(command) + "\n" + done.stdout)
        sys.exit(1)


def optimise(args, raw, optimised):
    """Optimises and validates `raw` into `optimised`, or takes the result of an earlier time."""
    cache = os.environ.get("RINGFIRE_SHADER_CACHE")
    kept = None
    if cache:
        version = subprocess.run([args.opt, "--version"], stdout=subprocess.PIPE, check=True).stdout
        with open(raw, "rb") as f:
            key = hashlib.sha256(version + " ".join(OPTIONS).encode() + f.read()).hexdigest()
        kept = os.path.join(cache, key + ".spv")
        if os.path.exists(kept):
            shutil.copyfile(kept, optimised)
            return
    run([args.opt, *OPTIONS, raw, "-o", optimised])
    run([args.val, "--target-env", TARGET, optimised])
    if kept:
        os.makedirs(cache, exist_ok=True)
        temporary = "%s.%d" % (kept, os.getpid())
        shutil.copyfile(optimised, temporary)
        os.replace(temporary, kept)


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
        optimise(args, raw, optimised)
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
