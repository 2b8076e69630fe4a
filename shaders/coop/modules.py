# SPDX-License-Identifier: Apache-2.0
"""The block kernels on cooperative matrices, as SPIR-V that is kept beside its sources.

Compilers of 2023 do not know the extension, so a newer one makes these modules and the build embeds
them as they are. modules.txt says which compiler that was, and what each module was made of:
whoever changes a source has to make them anew (`./dev fleet --modules`).

modules.py check
    fails where a module is older than its sources, or is not the one that was made of them;
    needs no compiler
modules.py make --glslang PATH --opt PATH --val PATH
    makes them anew"""
import argparse
import hashlib
import pathlib
import re
import subprocess
import sys
import tempfile

PLACE = pathlib.Path(__file__).resolve().parent
SHADERS = PLACE.parent
LIST = PLACE / "modules.txt"
sys.dont_write_bytecode = True
sys.path.insert(0, str(SHADERS))
import compile_shaders  # noqa: E402

SOURCES = [
    ("matmul", "linear/gpu/matmul_block.comp", []),
    ("matmul_xl", "linear/gpu/matmul_coop.comp", []),
    ("matmul_quantized", "linear/gpu/matmul_block.comp", ["QUANTIZED"]),
    ("conv2d", "linear/gpu/conv2d_block.comp", []),
    ("conv2d_data", "linear/gpu/conv2d_block.comp", ["DATA"]),
    ("conv2d_filter", "linear/gpu/conv2d_filter_block.comp", []),
]
WORD = re.compile(rb"/\*.*?\*/|//[^\n]*|\\\n|(\w+|\S)", re.S)
MODULES = [("%s_%s" % (name, kind), source, ["COOPERATIVE", *defines, *more])
           for name, source, defines in SOURCES for kind, more in (("f16", []), ("bf16", ["BF16"]))]


def words_of(source):
    """The words of a shader: comments and spaces make no other module."""
    return b" ".join(filter(None, WORD.findall(source)))


def digest_sources():
    """By name the digest of all that a module is made of, but the compiler."""
    sources, digests = compile_shaders.Sources(str(SHADERS)), {}
    for name, source, defines in MODULES:
        state = hashlib.sha256("\0".join(defines).encode())
        for path in sources.closure(str(SHADERS / source)):
            state.update(b"\0" + words_of(sources.load(path)[0]))
        digests[name] = state.hexdigest()
    return digests


def digest_module(data):
    return hashlib.sha256(data).hexdigest()


def read_list():
    """The compiler, and by names the digests of sources and module."""
    lines = LIST.read_text().splitlines()
    return lines[0], {line.split()[0]: tuple(line.split()[1:]) for line in lines[1:]}


def run(command):
    done = subprocess.run([str(c) for c in command], stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True)
    if done.returncode:
        raise SystemExit("%s\n%s" % (" ".join(map(str, command)), done.stdout))
    return done.stdout


def version_of(glslang, opt):
    """Words that differ where results may."""
    return "%s, %s" % (run([*glslang, "--version"]).splitlines()[0].strip(),
                       run([*opt, "--version"]).split()[1])


def compile_module(name, source, defines, glslang, opt, val):
    with tempfile.TemporaryDirectory() as folder:
        raw, made = pathlib.Path(folder) / "raw.spv", pathlib.Path(folder) / "made.spv"
        run([*glslang, "-V", "--target-env", compile_shaders.TARGET, "-I%s" % SHADERS,
             *["-D" + d for d in defines], "-o", raw, SHADERS / source])
        run([*opt, *compile_shaders.OPTIONS, "--strip-debug", raw, "-o", made])
        run([*val, "--target-env", compile_shaders.TARGET, made])
        return made.read_bytes()


def make(glslang, opt, val):
    """Each tool is a command."""
    digests = digest_sources()
    lines = [version_of(glslang, opt)]
    for name, source, defines in MODULES:
        data = compile_module(name, source, defines, glslang, opt, val)
        (PLACE / (name + ".spv")).write_bytes(data)
        lines.append("%s %s %s" % (name, digests[name], digest_module(data)))
    LIST.write_text("\n".join(lines) + "\n")


def compare(glslang, opt, val):
    """Problems, and None or why nothing was compared."""
    compiler, here = read_list()[0], version_of(glslang, opt)
    if compiler != here:
        return [], "the modules were made by %s, and here is %s" % (compiler, here)
    return ["shaders/coop/%s.spv is not what its sources make" % name
            for name, source, defines in MODULES
            if compile_module(name, source, defines, glslang, opt, val) !=
            (PLACE / (name + ".spv")).read_bytes()], None


def check():
    """Problems."""
    entries, problems = read_list()[1], []
    for name, digest in digest_sources().items():
        of_sources, of_module = entries.pop(name, (None, None))
        path = PLACE / (name + ".spv")
        if of_sources != digest:
            problems.append("shaders/coop/%s.spv is older than its sources: make it anew with "
                            "./dev fleet --modules" % name)
        elif not path.exists() or digest_module(path.read_bytes()) != of_module:
            problems.append("shaders/coop/%s.spv is not the module that modules.txt tells of" %
                            name)
    unknown = sorted(set(entries) | {p.stem for p in PLACE.glob("*.spv")} -
                     {name for name, _, _ in MODULES})
    return problems + ["shaders/coop: nobody makes %s" % name for name in unknown]


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("check", "make"))
    for tool in ("glslang", "opt", "val"):
        parser.add_argument("--" + tool)
    args = parser.parse_args()
    if args.what == "make":
        if not (args.glslang and args.opt and args.val):
            parser.error("make needs --glslang, --opt and --val")
        make([args.glslang], [args.opt], [args.val])
        return 0
    problems = check()
    print("\n".join(problems) or "%d modules" % len(MODULES))
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
