#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Packs what a GPU day needs into one file that runs on another x86-64 machine without network or
packages: the programs and tests of a build directory, the shared libraries that they load (all but
glibc's, which must not be older there), the Vulkan loader and the validation layer, and these
scripts.

Needs what it packs to be built: tests/ops/test_ops and its neighbours, tools/ringfire,
tools/ringfire-bench. Usage: bundle.py BUILD_DIRECTORY FILE.tar.xz"""
import json
import lzma
import pathlib
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile

import phases

HERE = pathlib.Path(__file__).resolve().parent
SCRIPTS = ("gpu_report.py", "phases.py", "driver.py", "verdict.py", "baseline.py",
           "../bench/pytorch_training.py", "../bench/pytorch_networks.py",
           "../bench/language_training.py", "../bench/pytorch_language.py", "../support/hub.py")
FIXTURES = HERE.parent / "train/fixtures"
LAYER = "VkLayer_khronos_validation"
LAYERS = ("/usr/share/vulkan/explicit_layer.d", "/etc/vulkan/explicit_layer.d")
# glibc's, which must fit the machine's own loader; libraries that a driver brings.
LEFT_OUT = re.compile(
    r"^(linux-vdso|ld-linux.*|lib(c|m|dl|rt|pthread|resolv|util|nsl|anl|mvec))\.so")
# Opened at run time: the loader, and what NVIDIA's driver wants beside it.
OPENED = ("libvulkan.so.1", "libX11.so.6", "libXext.so.6", "libxcb.so.1")
MOST_MEGABYTES = 64
NAME = "gpu-bundle"  # of the folder inside
# The programs hold the same library: a dictionary that several of them fit in makes a third of what
# others make.
FILTERS = [{"id": lzma.FILTER_LZMA2, "preset": 3, "dict_size": 192 << 20}]


def libraries_of(program):
    """Paths of the shared libraries that a program or library loads."""
    text = subprocess.run(["ldd", str(program)], stdout=subprocess.PIPE, text=True,
                          check=True).stdout
    missing = re.findall(r"^\s*(\S+) => not found", text, re.M)
    if missing:
        sys.exit("bundle: %s lacks %s" % (program, ", ".join(missing)))
    return dict(re.findall(r"^\s*(\S+) => (/\S+)", text, re.M))


def installed(name):
    text = subprocess.run(["/sbin/ldconfig", "-p"], stdout=subprocess.PIPE, text=True,
                          check=True).stdout
    return next((line.split()[-1] for line in text.splitlines() if line.split()[:1] == [name]
                 and "x86-64" in line), None)


def copy_stripped(source, target):
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(source, target)
    target.chmod(0o755)
    subprocess.run(["strip", "--strip-unneeded", str(target)], check=True)


def copy_layer(folder):
    """The validation layer, which may be missing: then the report's step says so."""
    manifest = next((p for d in LAYERS for p in pathlib.Path(d).glob(LAYER + "*.json")), None)
    if not manifest:
        return None
    data = json.loads(manifest.read_text())
    library = pathlib.Path(data["layer"]["library_path"]).name
    path = installed(library) or next((str(p)
                                       for p in pathlib.Path("/usr/lib").glob("*/" + library)),
                                      None)
    if not path:
        return None
    copy_stripped(path, folder / "layers" / library)
    data["layer"]["library_path"] = "./" + library
    (folder / "layers" / manifest.name).write_text(json.dumps(data, indent=1))
    return path


def fill(build, folder):
    programs = ["tools/ringfire", "tools/ringfire-bench",
                *("tests/" + name for name in phases.PROGRAMS)]
    missing = [name for name in programs if not (build / name).exists()]
    if missing:
        sys.exit("bundle: %s has no %s; build them first, as ./dev gpu-bundle does"
                 % (build, ", ".join(missing)))
    needed = {}
    for name in programs:
        copy_stripped(build / name, folder / name)
        needed.update(libraries_of(build / name))
    for name in OPENED:
        if path := installed(name):
            needed.update({name: path, **libraries_of(path)})
    if layer := copy_layer(folder):
        needed.update(libraries_of(layer))
    for name, path in needed.items():
        if not LEFT_OUT.match(name):
            copy_stripped(path, folder / "lib" / name)
    (folder / "fixtures").mkdir()
    for name in phases.FIXTURES:
        shutil.copy(FIXTURES / name, folder / "fixtures")
    (folder / "gpu_day").mkdir()
    for name in SCRIPTS:
        shutil.copy(HERE / name, folder / "gpu_day")


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__.strip().splitlines()[-1])
    build, target = (pathlib.Path(a).resolve() for a in sys.argv[1:])
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as place:
        fill(build, pathlib.Path(place) / NAME)
        part = target.with_name(target.name + ".part")
        with lzma.open(part, "wb",
                       filters=FILTERS) as packed, tarfile.open(
                           fileobj=packed, mode="w") as archive:
            archive.add(pathlib.Path(place) / NAME, NAME)
    megabytes = part.stat().st_size / 1e6
    if megabytes > MOST_MEGABYTES:
        part.unlink()
        sys.exit("bundle: %.0f MB, more than the %d MB that machines for a day may take"
                 % (megabytes, MOST_MEGABYTES))
    part.replace(target)
    print("%s: %.0f MB. On the machine with the GPU:\n  python3 -m tarfile -e %s . && python3 "
          "%s/gpu_day/gpu_report.py" % (
        target, megabytes, target.name, NAME))


main()
