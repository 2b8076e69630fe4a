# SPDX-License-Identifier: Apache-2.0
"""Compiles one GLSL compute shader variant to optimised, validated SPIR-V inside a C file.

Beside the C file stands NAME.cost, what the most expensive tool took: megabytes of memory and seconds of CPU time. A test holds every
shader to a budget.

Optimising a fully unrolled kernel takes seconds. Where RINGFIRE_SHADER_CACHE names a directory, modules and costs are kept there
under a hash of the unoptimised module, the passes and the optimiser's version, so that several build directories share the work."""
import argparse
import os
import resource
import sys

TARGET = "vulkan1.2"
# What `spirv-opt -O` does, but merge-blocks comes right after loop-unroll. An unrolled loop is a chain of thousands of blocks, each
# of which dominates the next. In this state eliminate-dead-branches and if-conversion take seconds, and the first
# redundancy-elimination takes gigabytes, because it keeps a table of all values for each dominator. That one stays within blocks
# here, which takes a fifth off the time; the second one sees the blocks that are left.
PASSES = """
    wrap-opkill eliminate-dead-branches merge-return inline-entry-points-exhaustive eliminate-dead-functions
    eliminate-dead-code-aggressive private-to-local eliminate-local-single-block eliminate-local-single-store
    eliminate-dead-code-aggressive scalar-replacement=100 convert-local-access-chains eliminate-local-single-block
    eliminate-local-single-store eliminate-dead-code-aggressive ssa-rewrite eliminate-dead-code-aggressive ccp
    eliminate-dead-code-aggressive
    loop-unroll merge-blocks eliminate-dead-branches merge-blocks local-redundancy-elimination combine-access-chains simplify-instructions
    scalar-replacement=100 convert-local-access-chains eliminate-local-single-block eliminate-local-single-store
    eliminate-dead-code-aggressive ssa-rewrite eliminate-dead-code-aggressive vector-dce eliminate-dead-inserts
    eliminate-dead-branches simplify-instructions if-conversion copy-propagate-arrays reduce-load-size
    eliminate-dead-code-aggressive merge-blocks redundancy-elimination eliminate-dead-branches merge-blocks
    simplify-instructions
""".split()
OPTIONS = ["--target-env=" + TARGET] + ["--" + name for name in PASSES]
# Newer optimisers (2026.4) take six times the memory for the second redundancy-elimination that 2023.1 took, up to 860 MB. A pass that does
# not fit into this many megabytes stays within blocks instead.
MOST_MEGABYTES = 460
FRUGAL_OPTIONS = [option.replace("--redundancy", "--local-redundancy") for option in OPTIONS]


class Tools:
    """Runs the tools one after the other; their output matters only when one fails."""

    def __init__(self, log):
        self.log = log
        self.megabytes = self.seconds = 0

    def run(self, command, may_fail=False):
        """Whether it succeeded."""
        write = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
        # A spawn and wait4 instead of `subprocess`: that does not tell what the one process took.
        child = os.posix_spawnp(command[0], command, os.environ, file_actions=[
            (os.POSIX_SPAWN_OPEN, 1, self.log, write, 0o644), (os.POSIX_SPAWN_DUP2, 1, 2)])
        _, status, usage = os.wait4(child, 0)
        if status != 0 and not may_fail:
            with open(self.log, errors="replace") as f:
                sys.exit(" ".join(command) + "\n" + f.read())
        self.megabytes = max(self.megabytes, usage.ru_maxrss // 1024)
        self.seconds = max(self.seconds, usage.ru_utime + usage.ru_stime)
        return status == 0

    def cost(self):
        return "%d MB %.1f s\n" % (self.megabytes, self.seconds)


class Cache:
    """Results of earlier times, in a directory."""

    def __init__(self, directory, args, tools, raw):
        import hashlib  # Most builds have no cache, and these two take Python as long as all the rest.
        import shutil
        self.copy = shutil.copyfile
        os.makedirs(directory, exist_ok=True)
        tools.run([args.opt, "--version"])
        with open(tools.log, "rb") as version, open(raw, "rb") as module:
            key = hashlib.sha256(version.read() + " ".join(OPTIONS + FRUGAL_OPTIONS).encode() + module.read()).hexdigest()
        self.kept = os.path.join(directory, key)

    def load(self, optimised, cost):
        """Whether it was there."""
        if not os.path.exists(self.kept + ".spv") or not os.path.exists(self.kept + ".cost"):
            return False
        self.copy(self.kept + ".spv", optimised)
        self.copy(self.kept + ".cost", cost)
        return True

    def store(self, optimised, cost):
        """So that others see all of a file or nothing."""
        for source, suffix in ((cost, ".cost"), (optimised, ".spv")):
            temporary = "%s%s.%d" % (self.kept, suffix, os.getpid())
            self.copy(source, temporary)
            os.replace(temporary, self.kept + suffix)


def optimise(args, tools, raw, optimised, cost):
    """Optimises and validates `raw` into `optimised`, or takes the result of an earlier time."""
    directory = os.environ.get("RINGFIRE_SHADER_CACHE")
    cache = Cache(directory, args, tools, raw) if directory else None
    if cache and cache.load(optimised, cost):
        return
    # Children have the limit of this process, which takes a twentieth of it itself.
    resource.setrlimit(resource.RLIMIT_DATA, (MOST_MEGABYTES << 20, resource.getrlimit(resource.RLIMIT_DATA)[1]))
    if not tools.run([args.opt, *OPTIONS, raw, "-o", optimised], may_fail=True):
        tools.run([args.opt, *FRUGAL_OPTIONS, raw, "-o", optimised])
    tools.run([args.val, "--target-env", TARGET, optimised])
    with open(cost, "w") as f:
        f.write(tools.cost())
    if cache:
        cache.store(optimised, cost)


def embed(data, output, shaders):
    """Writes a C file that holds the module once, for shaders that differ in the subgroup size they are made for."""
    # Compilers read a string in half the time that they take for the same words as numbers.
    plain = {byte: chr(byte) for byte in range(0x20, 0x7f) if chr(byte) not in '"\\?'}
    escapes = {byte: plain.get(byte, "\\%03o" % byte) for byte in range(256)}
    with open(output, "w") as f:
        f.write('#include "base/shader.h"\n')
        f.write("static const union {\n    char bytes[%d];\n    uint32_t words[%d];\n} module = {\n"
                % (len(data) + 1, len(data) // 4))
        for at in range(0, len(data), 64):
            f.write('"%s"\n' % data[at:at + 64].decode("latin-1").translate(escapes))
        f.write("};\n")
        for name, subgroup_size in shaders:
            f.write("extern const rf_shader rf_shader_%s;\n" % name)
            f.write('const rf_shader rf_shader_%s = { "%s", module.words, %d, %s };\n'
                    % (name, name, len(data) // 4, subgroup_size))


def main():
    parser = argparse.ArgumentParser()
    for tool in ("glslang", "opt", "val"):
        parser.add_argument("--" + tool, required=True)
    parser.add_argument("--include", required=True)
    parser.add_argument("--shader", required=True, action="append", help="NAME:SUBGROUP_SIZE, once for each shader")
    parser.add_argument("--depfile", required=True)
    parser.add_argument("source")
    parser.add_argument("output")
    parser.add_argument("cost")
    parser.add_argument("defines", nargs="*")
    args = parser.parse_args()

    raw, optimised, log = (args.output + suffix for suffix in (".raw", ".spv", ".log"))
    tools = Tools(log)
    tools.run([args.glslang, "-V", "--target-env", TARGET, "-I" + args.include, "--depfile", args.depfile,
               *args.defines, "-o", raw, args.source])
    # The depfile must name the file that the build knows, not the temporary one.
    with open(args.depfile) as f:
        dependencies = f.read().split(":", 1)[1]
    with open(args.depfile, "w") as f:
        f.write(args.output + ":" + dependencies)
    optimise(args, tools, raw, optimised, args.cost)
    with open(optimised, "rb") as f:
        embed(f.read(), args.output, [shader.split(":") for shader in args.shader])
    for temporary in (raw, optimised, log):
        os.remove(temporary)


main()
