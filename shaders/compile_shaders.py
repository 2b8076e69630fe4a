# SPDX-License-Identifier: Apache-2.0
"""Compiles the GLSL compute shaders of a list to optimised, validated SPIR-V inside an object file.

compile_shaders.py header LIST HEADER
    declares every shader, and the list of their names for whoever walks all of them
compile_shaders.py compile OPTIONS LIST OUTPUT.c OUTPUT.S OUTPUT.bin OUTPUT.cost OUTPUT.h OUTPUT.c
    has the shaders, OUTPUT.S takes their modules from OUTPUT.bin, packed by pack_module.c. A line
    of OUTPUT.cost for each module says what the most expensive tool took, megabytes of memory and
    seconds of CPU time: a test holds every shader to a budget. OUTPUT.h declares their push
    constants (push_blocks.py).

A line of the list, with tabs between its parts: name, subgroup sizes that the shader is made for
(0: any), source (seen from the list's folder), preprocessor definitions. With several sizes there
is a shader for each out of one module, whose name ends with the size. A source whose name ends with
.spv is a module that was compiled before (shaders/coop).

One process compiles them all, side by side: most shaders take a tool less time than a process takes
to start. What was compiled before is taken from a folder of the build, under a hash of all that
goes into it. Where RINGFIRE_SHADER_CACHE names a directory, that is the folder, which several
builds share."""
import argparse
import concurrent.futures
import hashlib
import os
import re
import resource
import subprocess
import sys
import threading

import loop_headers
import push_blocks

TARGET = "vulkan1.2"
# What `spirv-opt -O` does, but merge-blocks comes right after loop-unroll. An unrolled loop is a
# chain of thousands of blocks, each of which dominates the next. In this state
# eliminate-dead-branches and if-conversion take seconds, and the first redundancy-elimination takes
# gigabytes, because it keeps a table of all values for each dominator. That one stays within blocks
# here, which takes a fifth off the time; the second one sees the blocks that are left.
PASSES = """
    wrap-opkill eliminate-dead-branches merge-return inline-entry-points-exhaustive
    eliminate-dead-functions eliminate-dead-code-aggressive private-to-local
    eliminate-local-single-block eliminate-local-single-store eliminate-dead-code-aggressive
    scalar-replacement=100 convert-local-access-chains eliminate-local-single-block
    eliminate-local-single-store eliminate-dead-code-aggressive ssa-rewrite
    eliminate-dead-code-aggressive ccp eliminate-dead-code-aggressive loop-unroll merge-blocks
    eliminate-dead-branches merge-blocks local-redundancy-elimination combine-access-chains
    simplify-instructions scalar-replacement=100 convert-local-access-chains
    eliminate-local-single-block eliminate-local-single-store eliminate-dead-code-aggressive
    ssa-rewrite eliminate-dead-code-aggressive vector-dce eliminate-dead-inserts
    eliminate-dead-branches simplify-instructions if-conversion copy-propagate-arrays
    reduce-load-size eliminate-dead-code-aggressive merge-blocks redundancy-elimination
    eliminate-dead-branches merge-blocks simplify-instructions
""".split()
OPTIONS = ["--target-env=" + TARGET] + ["--" + name for name in PASSES]
# Newer optimisers (2026.4) take six times the memory for the second redundancy-elimination that
# 2023.1 took, up to 860 MB. A pass that does not fit into this many megabytes stays within blocks
# instead.
MOST_MEGABYTES = 460
FRUGAL_OPTIONS = [option.replace("--redundancy", "--local-redundancy") for option in OPTIONS]
INCLUDE = re.compile(rb'^[ \t]*#[ \t]*include[ \t]+"([^"]+)"', re.MULTILINE)


class Module:
    """A line of the list."""

    def __init__(self, line, folder):
        self.name, sizes, source, *self.defines = line.split("\t")
        self.source = os.path.join(folder, source)
        self.sizes = [int(size) for size in sizes.split(",")]

    def is_compiled(self):
        return self.source.endswith(".spv")

    def shaders(self):
        """Names and subgroup sizes."""
        return [(self.name + (str(size) if len(self.sizes) > 1 else ""), size)
                for size in self.sizes]


def modules_of(path):
    with open(path) as f:
        return [Module(line, os.path.dirname(os.path.abspath(path)))
                for line in f.read().splitlines() if line]


class Failure(Exception):
    """A tool's command and output."""


class Tools:
    """Runs the tools for one module, one after the other; their output matters only when one
    fails."""

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
                raise Failure(" ".join(command) + "\n" + f.read())
        self.megabytes = max(self.megabytes, usage.ru_maxrss // 1024)
        self.seconds = max(self.seconds, usage.ru_utime + usage.ru_stime)
        return status == 0

    def cost(self):
        return "%d MB %.1f s\n" % (self.megabytes, self.seconds)


class Sources:
    """Files that shaders are made of, each read once."""

    def __init__(self, include):
        self.include = include
        self.read = {}  # path -> bytes and paths of what it includes

    def load(self, path):
        if path not in self.read:
            with open(path, "rb") as f:
                data = f.read()
            self.read[path] = data, [self.find(os.fsdecode(name), path)
                                     for name in INCLUDE.findall(data)]
        return self.read[path]

    def find(self, name, includer):
        places = [os.path.join(folder, name)
                  for folder in (os.path.dirname(includer), self.include)]
        return os.path.normpath(next(filter(os.path.exists, places), places[-1]))

    def closure(self, path):
        """The file and all that it includes, under whatever condition, in an order that is always
        the same."""
        found, left = [], [path]
        while left:
            path = left.pop()
            if path not in found:
                found.append(path)
                left += reversed(self.load(path)[1])
        return found

    def declaring(self, module):
        """The file that declares the module's push constants."""
        return next(path for path in self.closure(module.source)
                    if push_blocks.DECLARATION.search(self.load(path)[0]))

    def digest(self, module, more):
        """Of all that the module is made of."""
        state = hashlib.sha256("\0".join([more, *module.defines]).encode())
        for path in self.closure(module.source):
            data = self.load(path)[0]
            state.update(b"\0%d\0" % len(data) + data)
        return state.hexdigest()


class Folder:
    """What was compiled before: digests of optimised modules by those of their sources, and by
    their unoptimised ones modules and costs."""

    def __init__(self, path, is_shared):
        self.path, self.is_shared = path, is_shared
        self.used = set()
        os.makedirs(path, exist_ok=True)

    def get(self, name):
        """Its bytes; None where it is not there."""
        try:
            with open(os.path.join(self.path, name), "rb") as f:
                data = f.read()
        except FileNotFoundError:
            return None
        self.used.add(name)
        return data

    def put(self, name, data):
        """So that others see all of a file or nothing."""
        temporary = os.path.join(self.path, "%s.%d.%d" % (name, os.getpid(), threading.get_ident()))
        with open(temporary, "wb") as f:
            f.write(data)
        os.replace(temporary, os.path.join(self.path, name))
        self.used.add(name)

    def forget_the_rest(self):
        """What an older list was made of, unless others may want it."""
        for name in () if self.is_shared else set(os.listdir(self.path)) - self.used:
            os.remove(os.path.join(self.path, name))


class Compiler:
    def __init__(self, args):
        self.args = args
        self.sources = Sources(args.include)
        shared = os.environ.get("RINGFIRE_SHADER_CACHE")
        self.folder = Folder(shared or args.private, bool(shared))
        versions = [subprocess.run([tool, "--version"], stdout=subprocess.PIPE,
                                   stderr=subprocess.STDOUT, check=True, text=True).stdout
                    for tool in (args.glslang, args.opt)]
        with open(loop_headers.__file__) as f:
            self.recipe = "\n".join([TARGET, *versions, *OPTIONS, *FRUGAL_OPTIONS, f.read()])
        self.packing = hashlib.sha256(
            subprocess.run([args.pack], stdout=subprocess.PIPE, check=True).stdout)
        for source in args.pack_source:
            self.packing.update(self.sources.load(source)[0])

    def optimise(self, tools, raw, stem):
        """The optimised and validated module, and its cost."""
        args, optimised = self.args, stem + ".spv"
        if not tools.run([args.opt, *OPTIONS, raw, "-o", optimised], may_fail=True):
            tools.run([args.opt, *FRUGAL_OPTIONS, raw, "-o", optimised])
        with open(optimised, "rb") as f:
            data = loop_headers.give_headers(f.read())
        with open(optimised, "wb") as f:
            f.write(data)
        tools.run([args.val, "--target-env", TARGET, optimised])
        os.remove(optimised)
        return data, tools.cost().encode()

    def pack(self, module, data):
        """The bytes as the library holds them, from earlier times or anew."""
        key = self.packing.copy()
        key.update(data)
        name = key.hexdigest() + ".pack"
        packed = self.folder.get(name)
        if not packed:
            stem = os.path.join(self.args.private, "%s-%d" % (module.name, os.getpid()))
            bare, made, log = stem + ".bare", stem + ".made", stem + ".pack.log"
            with open(bare, "wb") as f:
                f.write(data)
            Tools(log).run([self.args.pack, bare, made])
            with open(made, "rb") as f:
                packed = f.read()
            self.folder.put(name, packed)
            for temporary in (bare, made, log):
                os.remove(temporary)
        return packed

    def make(self, module):
        """The module's bytes, its cost and its packed bytes."""
        data, cost = self.compile(module)
        return data, cost, self.pack(module, data)

    def compile(self, module):
        """The module's bytes and cost, from earlier times or anew."""
        if module.is_compiled():
            return loop_headers.give_headers(self.sources.load(module.source)[0]), b"0 MB 0.0 s\n"
        source_key = self.sources.digest(module, self.recipe) + ".key"
        raw_key = (self.folder.get(source_key) or b"").decode()
        data, cost = (self.folder.get(raw_key + suffix) if raw_key else None
                      for suffix in (".spv", ".cost"))
        if data and cost:
            return data, cost
        stem = os.path.join(self.args.private, "%s-%d" % (module.name, os.getpid()))
        raw, log = stem + ".raw", stem + ".log"
        tools = Tools(log)
        tools.run([self.args.glslang, "-V", "--target-env", TARGET, "-I" + self.args.include,
                   *["-D" + d for d in module.defines],
                   "-o", raw, module.source])
        with open(raw, "rb") as f:
            raw_key = hashlib.sha256(self.recipe.encode() + f.read()).hexdigest()
        data, cost = self.folder.get(raw_key + ".spv"), self.folder.get(raw_key + ".cost")
        if not data or not cost:
            data, cost = self.optimise(tools, raw, stem)
            self.folder.put(raw_key + ".spv", data)
            self.folder.put(raw_key + ".cost", cost)
        self.folder.put(source_key, raw_key.encode())
        for temporary in (raw, log):
            os.remove(temporary)
        return data, cost


def write(path, text):
    with open(path, "w") as f:
        f.write(text)


def blocks_of(modules, results):
    """The module's push constants; None: it has none."""
    blocks = []
    for module, (data, _, _) in zip(modules, results):
        try:
            blocks.append(push_blocks.block_of(data))
        except push_blocks.Unfit as unfit:
            sys.exit("%s: push constants: %s" % (module.source, unfit))
    return blocks


def declare_blocks(args, sources, modules, blocks):
    """The header of push constants; as it is where nothing changes, so that nothing that includes
    it is compiled anew."""
    named = [(module.name, sources.declaring(module), block) for module,
             block in zip(modules, blocks)
             if block and not module.is_compiled()]
    text = push_blocks.header_of(os.path.basename(args.push).replace(".", "_").upper(), named)
    if not os.path.exists(args.push) or open(args.push).read() != text:
        write(args.push, text)


def embed(args, modules, results, blocks):
    """The C file, the assembler's and the blob that it includes."""
    shaders, symbols, at = [], [], 0
    for module, (data, _, packed), block in zip(modules, results, blocks):
        symbol = "rf_shader_packed_%s" % module.name
        shaders.append("extern const uint8_t %s[%d];\n" % (symbol, len(packed)))
        for name, size in module.shaders():
            shaders.append("extern const rf_shader rf_shader_%s;\n" % name)
            shaders.append('const rf_shader rf_shader_%s = { "%s", 0, %s, %d, %d, %d, %d, 0 };\n'
                           % (
                name, name, symbol, len(packed), len(data) // 4, size, block.size if block else 0))
        symbols.append('    .globl {0}\n    .hidden {0}\n    .type {0}, %object\n    .size {0}, '
                       '{2}\n{0}:\n'
                       '    .incbin "{3}", {1}, {2}\n'.format(
                           symbol, at, len(packed), os.path.abspath(args.blob)))
        at += len(packed)
    with open(args.blob, "wb") as f:
        f.writelines(packed for _, _, packed in results)
    write(args.source, '#include "base/shader.h"\n' + "".join(shaders))
    write(args.assembly, '    .section .rodata,"a",%progbits\n' + "".join(symbols)
          + '    .section .note.GNU-stack,"",%progbits\n')


def compile_all(args):
    modules = modules_of(args.list)
    os.makedirs(args.private, exist_ok=True)
    compiler = Compiler(args)
    # Children have the limit of this process, which takes a twentieth of it itself.
    resource.setrlimit(resource.RLIMIT_DATA,
                       (MOST_MEGABYTES << 20, resource.getrlimit(resource.RLIMIT_DATA)[1]))
    with concurrent.futures.ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        tasks = [pool.submit(compiler.make, module) for module in modules]
        try:
            results = [task.result() for task in tasks]
        except (Failure, OSError) as failure:
            for task in tasks:
                task.cancel()
            sys.exit(str(failure))
    compiler.folder.forget_the_rest()
    blocks = blocks_of(modules, results)
    embed(args, modules, results, blocks)
    declare_blocks(args, compiler.sources, modules, blocks)
    write(args.cost, "".join("%s %s" % (module.name, cost.decode()) for module,
                             (_, cost, _) in zip(modules, results)))
    needed = sorted({path for module in modules
                     for path in compiler.sources.closure(module.source)})
    write(args.depfile,
          "%s: %s\n" % (args.source, " ".join(path.replace(" ", "\\ ") for path in needed)))


def declare_all(args):
    names = [name for module in modules_of(args.list) for name, _ in module.shaders()]
    write(args.header, "/* Made by the build from the tables in shaders/. */\n"
          "#ifndef RF_SHADERS_H\n#define RF_SHADERS_H\n\n#include \"base/shader.h\"\n#include "
          "\"rf_push.h\"\n\n" +
          "".join("extern const rf_shader rf_shader_%s;\n" % name for name in names) +
          "\n#define RF_ALL_SHADERS(X) \\\n" + " \\\n".join("    X(%s)" % name for name in names)
          + "\n\n#endif\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True)
    header = commands.add_parser("header")
    header.set_defaults(act=declare_all)
    header.add_argument("list")
    header.add_argument("header")
    command = commands.add_parser("compile")
    command.set_defaults(act=compile_all)
    for tool in ("glslang", "opt", "val", "pack"):
        command.add_argument("--" + tool, required=True)
    command.add_argument("--pack-source", action="append", default=[],
                         help="a file that --pack is made of")
    command.add_argument("--include", required=True,
                         help="folder that #include looks into, after the file's own")
    command.add_argument("--private", required=True, help="folder of this target alone")
    command.add_argument("--depfile", required=True)
    for output in ("list", "source", "assembly", "blob", "cost", "push"):
        command.add_argument(output)
    args = parser.parse_args()
    args.act(args)


if __name__ == "__main__":
    main()
