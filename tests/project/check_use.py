# SPDX-License-Identifier: Apache-2.0
"""Builds and runs a small program outside of the tree, against the installed library or as a Meson
subproject.

Usage: check_use.py HOW SOURCE_ROOT BUILD_ROOT

installed   what `meson install` leaves in a directory, found by Meson through pkg-config
cmake       the same, found by CMake
readme      the README's recipe, word for word, in mounts of its own; exit status 77 (skipped) where
that cannot be subproject  within a parent that wants static libraries: it gets one, without tests
and examples; what it installs is then
            linked with `pkg-config --static`, where pkg-config knows no other package"""
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

how, source, build = sys.argv[1], pathlib.Path(sys.argv[2]).resolve(), pathlib.Path(
    sys.argv[3]).resolve()
LOADED_AT_RUN_TIME = ("libvulkan", "libfabric", "libpmix")
SKIPPED = 77
# Layers over /etc, which has the loader's cache, and /usr/local: what is installed is gone with the
# mounts.
OWN_SYSTEM = """
mount -t tmpfs tmpfs "$1" || exit 77
for folder in /etc /usr/local; do
    mkdir -p "$1/upper$folder" "$1/work$folder"
    layers="lowerdir=$folder,upperdir=$1/upper$folder,workdir=$1/work$folder"
    mount -t overlay overlay -o "$layers" "$folder" || exit 77
done
shift
exec "$@"
"""
# For a user who is root already; the library is built already.
SUDO = """#!/bin/sh
[ "$1 $2" != "meson install" ] || { shift 2; set -- meson install --no-rebuild "$@"; }
exec "$@"
"""


def run(command, **kwargs):
    print("$", " ".join(map(str, command)), flush=True)
    return subprocess.run([str(c) for c in command], check=True, **kwargs)


def needed(binary):
    """What a binary asks the loader for."""
    done = run(["readelf", "-d", binary], stdout=subprocess.PIPE, text=True)
    return re.findall(r"\(NEEDED\).*\[(.+)\]", done.stdout)


def install(build_root, root):
    run(["meson", "install", "-C", build_root, "--no-rebuild", "--quiet", "--destdir", root])
    modules = [p.parent for p in root.rglob("ringfire.pc")]
    libraries = [p for p in root.rglob("libringfire.*") if p.suffix in (".so", ".a")]
    if len(modules) != 1 or not libraries:
        sys.exit("not installed: ringfire.pc %s, library %s" % (modules, libraries))
    return modules[0], libraries


def build_app(app, environment, *options):
    run(["meson", "setup", app / "build", app, *options], env=environment)
    run(["ninja", "-C", app / "build", "-j2"], env=environment, stdout=subprocess.DEVNULL)
    for program in ("app", "app_cpp"):
        run([app / "build" / program], env=environment, timeout=120)


def build_cmake_app(app, root, environment):
    """Builds the application with what is installed below `root`."""
    package = next(root.rglob("RingfireConfig.cmake"), None)
    if package is None:
        sys.exit("not installed: RingfireConfig.cmake")
    run(["cmake", "-S", app, "-B", app / "cmake", "-DRingfire_DIR=%s" % package.parent],
        env=environment)
    run(["cmake", "--build", app / "cmake"], env=environment)
    for program in ("app", "app_cpp"):
        run([app / "cmake" / program], env=environment, timeout=120)


def use_cmake(app, folder):
    if not shutil.which("cmake"):
        print("skipped: no CMake")
        sys.exit(SKIPPED)
    root = folder / "root"
    _, libraries = install(build, root)
    build_cmake_app(app, root, {**os.environ, "LD_LIBRARY_PATH": str(libraries[0].parent)})


def use_installed(app, folder):
    shutil.rmtree(app / "subprojects")
    root = folder / "root"
    modules, libraries = install(build, root)
    for library in libraries:
        wrong = [n for n in needed(library)
                 if n.startswith(LOADED_AT_RUN_TIME)] if library.suffix == ".so" else []
        if wrong:
            sys.exit("%s is linked to %s, which it should open at run time"
                     % (library.name, ", ".join(wrong)))
    build_app(app,
              {**os.environ, "PKG_CONFIG_PATH": str(modules), "PKG_CONFIG_SYSROOT_DIR": str(root),
                    "LD_LIBRARY_PATH": str(libraries[0].parent)})


def use_subproject(app, folder):
    os.symlink(source, app / "subprojects" / "ringfire")
    # what is built counts, not how fast it is
    build_app(app, dict(os.environ), "-Ddefault_library=static", "-Doptimization=0")
    if any(n.startswith("libringfire") for n in needed(app / "build/app")):
        sys.exit("the parent's default_library=static does not hold: the application is linked to "
                 "a shared library")
    done = run(["meson", "introspect", "--targets", app / "build"], stdout=subprocess.PIPE,
               text=True)
    places = {part for t in json.loads(done.stdout) if t["build_by_default"]
              for part in pathlib.Path(t["defined_in"]).parent.relative_to(app).parts}
    if "src" not in places or any(p in ("tests", "examples") for p in places):
        sys.exit("a subproject builds the library, not tests and examples: targets come from %s"
                 % sorted(places))

    root = folder / "root"
    modules, libraries = install(app / "build", root)
    # A user's machine without the -dev packages of what Ringfire is made of.
    environment = {**os.environ, "PKG_CONFIG_LIBDIR": str(modules), "PKG_CONFIG_PATH": "",
                   "PKG_CONFIG_SYSROOT_DIR": str(root)}
    run(["pkg-config", "--print-errors", "--cflags", "--libs", "ringfire"], env=environment)
    run(["sh", "-ec", "cc -o alone main.c $(pkg-config --static --cflags --libs ringfire)"],
        cwd=app, env=environment)
    if any(n.startswith("libringfire")
           for n in needed(app / "alone")) or libraries[0].suffix != ".a":
        sys.exit("`pkg-config --static` links the shared library")
    run([app / "alone"], timeout=120)
    if shutil.which("cmake"):
        build_cmake_app(app, root, dict(os.environ))
        if any(n.startswith("libringfire") for n in needed(app / "cmake/app_cpp")):
            sys.exit("CMake links another library than the static one")


def use_readme(app, folder):
    text = (source / "README.md").read_text(encoding="utf-8")
    recipe = re.search(r"^## Using the library\n.*?^```sh\n(.*?)^```", text,
                       re.MULTILINE | re.DOTALL).group(1).splitlines()
    if not recipe[0].startswith("meson setup build ") or len(recipe) < 3:
        sys.exit("the README's recipe does not begin with `meson setup build`: %s" % recipe)
    options = json.loads(run(["meson", "introspect", "--buildoptions", build],
                             stdout=subprocess.PIPE, text=True).stdout)
    prefix = next(o["value"] for o in options if o["name"] == "prefix")
    if prefix != "/usr/local" or not pathlib.Path("/etc/debian_version").exists():
        print("skipped: the recipe is for Debian and /usr/local, not for %s" % prefix)
        sys.exit(SKIPPED)
    (app / "main.c").rename(app / "app.c")
    (app / "meson.build").unlink()
    (app / "build").symlink_to(build)
    commands = folder / "commands"
    commands.mkdir()
    (commands / "sudo").write_text(SUDO)
    (commands / "sudo").chmod(0o755)
    (folder / "mounts").mkdir()
    environment = {k: v for k, v in os.environ.items()
                   if not k.startswith(("PKG_CONFIG", "LD_LIBRARY", "PYTHONPATH"))}
    environment["PATH"] = "%s:%s:/usr/sbin:/sbin" % (commands, environment["PATH"])
    unshare = ["unshare", "--mount"] + ([] if os.geteuid() == 0 else ["--map-root-user"])
    script = "\n".join(["set -ex", *recipe[1:], "./a.out"])
    if (build / "bindings/python/ringfire").exists():
        script += "\n'%s' -c 'import ringfire'" % sys.executable
    done = subprocess.run([*unshare, "sh", "-c", OWN_SYSTEM, "sh", folder / "mounts", "sh", "-c",
                           script], cwd=app, env=environment,
                          timeout=300)
    if done.returncode == SKIPPED:
        print("skipped: no mounts of its own (unshare --mount, overlay)")
    sys.exit(done.returncode)


with tempfile.TemporaryDirectory() as name:
    shutil.copytree(source / "tests/project/app", pathlib.Path(name, "app"))
    {"installed": use_installed, "cmake": use_cmake, "subproject": use_subproject,
     "readme": use_readme}[how](pathlib.Path(name, "app"), pathlib.Path(name))
