# SPDX-License-Identifier: Apache-2.0
"""Packages of Debian beside the system: where they come from, and a folder that they are unpacked
into."""
import os
import pathlib
import re
import shutil
import subprocess

KEYRING = pathlib.Path("/usr/share/keyrings/debian-archive-keyring.gpg")
STEP_SECONDS = 900
NO_MIRROR = ("apt knows no mirror of Debian; name one with --mirror (after 'apt-get update' it "
             "may know more)")


class Unavailable(Exception):
    """Why packages cannot be had."""


def mirror():
    """The first of Debian's own archives among apt's sources; None: there is none."""
    try:
        done = subprocess.run(["apt-get", "indextargets", "--format", "$(ORIGIN)|$(LABEL)|$(SITE)",
                               "Created-By: Packages"],
                              stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
                              check=True)
    except (OSError, subprocess.CalledProcessError):
        return None
    for line in done.stdout.splitlines():
        origin, label, site = line.split("|")
        if (origin, label) == ("Debian", "Debian"):
            return site
    return None


class Root:
    """What packages of a suite and all that they depend on hold, unpacked below a folder; needs no
    root, and nothing of it is installed."""

    def __init__(self, folder, suite, packages, architecture=None):
        """`architecture`: Debian's name of it; None: the system's."""
        self.folder, self.suite, self.packages = pathlib.Path(folder), suite, packages
        self.architecture = architecture
        self.path = self.folder / "root"
        self.complete = self.folder / "complete"

    def log(self):
        return self.folder / "apt.log"

    def run(self, *command):
        try:
            with open(self.log(), "a") as out:
                out.write("$ %s\n" % " ".join(map(str, command)))
                out.flush()
                done = subprocess.run([str(c) for c in command], stdout=out,
                                      stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL,
                                      env={**os.environ, "LC_ALL": "C"}, timeout=STEP_SECONDS)
        except (OSError, subprocess.TimeoutExpired) as e:
            raise Unavailable(str(e)) from None
        if done.returncode:
            said = re.findall(r"(?m)^[EW]: ?.*", self.log().read_text(errors="replace"))
            # what is behind the others, then errors
            said.sort(key=lambda line: ("Failed to fetch" not in line, line[0]))
            raise Unavailable(said[0][2:].strip() if said else "%s ended with %d"
                              % (command[0], done.returncode))

    def apt(self, *words):
        state = self.folder / "apt"
        self.run("apt-get", "-o", "Dir::Etc::SourceList=%s" % (state / "sources.list"), "-o",
                 "Dir::Etc::SourceParts=/dev/null",
                 "-o", "Dir::State=%s" % state, "-o", "Dir::State::Lists=%s" % (state / "lists"),
                 "-o", "Dir::State::status=%s" % (state / "status"),
                 "-o", "Dir::Cache=%s" % (state / "cache"), "-o", "APT::Install-Recommends=false",
                 "-o", "Debug::NoLocking=1",
                 "-o", "Acquire::Retries=2", *self.foreign(), *words)

    def foreign(self):
        """What tells apt of another architecture."""
        if not self.architecture:
            return []
        return ["-o", "APT::Architecture=%s" % self.architecture,
                "-o", "APT::Architectures=%s" % self.architecture]

    def make(self, site, fresh=False):
        """Unpacks the packages, unless the last time did so."""
        wanted = " ".join([self.suite, *self.packages, *self.foreign()])
        if not fresh and self.complete.exists() and self.complete.read_text() == wanted:
            return
        if not site:
            raise Unavailable("%s of Debian %s: %s"
                              % (", ".join(self.packages), self.suite, NO_MIRROR))
        shutil.rmtree(self.folder / "apt", ignore_errors=True)
        for name in ("lists/partial", "cache/archives/partial"):
            (self.folder / "apt" / name).mkdir(parents=True)
        (self.folder / "apt/status").touch()
        signed = " [signed-by=%s]" % KEYRING if KEYRING.exists() else ""
        (self.folder / "apt/sources.list").write_text(
            "deb%s %s %s main\n" % (signed, site, self.suite))
        self.log().unlink(missing_ok=True)
        try:
            self.apt("update", "-o", "APT::Update::Error-Mode=any")
            self.apt("-y", "--download-only", "install", *self.packages)
            self.complete.unlink(missing_ok=True)
            shutil.rmtree(self.path, ignore_errors=True)
            self.path.mkdir()
            for package in sorted((self.folder / "apt/cache/archives").glob("*.deb")):
                self.run("dpkg-deb", "-x", package, self.path)
        except Unavailable as e:
            raise Unavailable("%s of Debian %s from %s: %s (%s)"
                              % (", ".join(self.packages), self.suite, site, e,
                                 self.log())) from None
        shutil.rmtree(self.folder / "apt")
        self.complete.write_text(wanted)

    def libraries(self):
        """The folder of the libraries, which the loader is among."""
        return next(iter(sorted(self.path.glob("usr/lib/*/libc.so.6")))).parent

    def command(self, *words):
        """The same command under this root's C library and loader, with libraries that it lacks
        from the system."""
        libraries = self.libraries()
        loader = next(iter(sorted(libraries.glob("ld-linux*.so.*"))
                           + sorted(self.path.glob("usr/lib/ld-linux*.so.*")) +
                           sorted(self.path.glob("usr/lib64/ld-linux*.so.*"))))
        return [str(loader), "--library-path", "%s:/usr/lib/%s" % (libraries, libraries.name),
                *map(str, words)]
