# SPDX-License-Identifier: Apache-2.0
"""packaging/release writes a version wherever it belongs, and nowhere else: in a copy of the files
that say it, with tags of its own.
Usage: check_release.py ROOT"""
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(sys.argv.pop())
FILES = ("packaging/release packaging/debian/changelog packaging/debian/control "
         "packaging/rpm/ringfire.spec packaging/arch/PKGBUILD bindings/rust/Cargo.toml "
         "include/ringfire/version.h docs/start/install.md meson.build pyproject.toml "
         "CITATION.cff NEWS.md README.md").split()
VERSION = "47.11.3"
IDENTITY = ("-c", "user.name=Ringfire", "-c", "user.email=ringfire@example.org")


class Release(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.tree = pathlib.Path(folder.name)
        for name in FILES:
            (self.tree / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, self.tree / name)
        news = self.tree / "NEWS.md"
        news.write_text(re.sub(r"(?m)^## .*", "## %s (unreleased)" % VERSION, news.read_text(),
                               count=1))
        self.git("init", "--quiet", "--initial-branch", "main")
        self.git("add", "--all")
        self.git("commit", "--quiet", "--message", "before")

    def git(self, *words):
        return subprocess.run(["git", *IDENTITY, *words], cwd=self.tree, check=True,
                              stdout=subprocess.PIPE, text=True).stdout

    def release(self, *words):
        done = subprocess.run([sys.executable, self.tree / "packaging/release", VERSION, *words],
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.assertEqual(done.returncode, 1, done.stderr)  # no file of this version is kept
        return done.stdout

    def test_a_version_that_is_missing_everywhere(self):
        said = self.release()
        self.assertIn("- the version is the same everywhere", said)
        for name in ("meson.build", "docs/start/install.md", "packaging/rpm/ringfire.spec"):
            self.assertIn("    %s does not say" % name, said)
        self.assertEqual(self.git("status", "--porcelain"), "")

    def test_write(self):
        said = self.release("--write")
        self.assertIn("+ the version is the same everywhere", said)
        self.assertIn("+ NEWS tells of it", said)
        self.assertIn("+ nothing says that it is to come", said)
        added = [line[1:] for line in self.git("diff", "--unified=0").splitlines()
                 if re.match(r"\+(?!\+)", line)]
        other = [line for line in added if VERSION not in line and not re.match(
            r"#define RF_VERSION_\w+ (47|11|3)$|  \* Release\.|- Release\.| -- |$", line)]
        self.assertEqual(other, [])
        self.assertIn("cff-version: 1.2.0", (self.tree / "CITATION.cff").read_text())
        self.release("--write")
        changelog = (self.tree / "packaging/debian/changelog").read_text()
        self.assertEqual(changelog.count("ringfire (%s-" % VERSION), 1, "written twice")

    def test_changelogs(self):
        logs = {"packaging/debian/changelog": r"(?m)^ringfire \(",
                "packaging/rpm/ringfire.spec": r"(?m)^\* "}
        before = {name: len(re.findall(entry, (self.tree / name).read_text()))
                  for name, entry in logs.items()}
        last = re.search(r"ringfire \(([\d.]+)-", (self.tree / next(iter(logs))).read_text())[1]
        self.git("tag", "v" + last)
        self.release("--write")
        for name, entry in logs.items():
            text = (self.tree / name).read_text()
            self.assertEqual(len(re.findall(entry, text)), before[name] + 1, name)
            self.assertLess(text.index(VERSION), text.rindex(last + "-"))


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
