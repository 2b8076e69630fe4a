# SPDX-License-Identifier: Apache-2.0
"""`./dev setup` where nothing is installed, on several distributions: a PATH with hardly a command
and an os-release of the test's own.

Usage: check_setup.py SOURCE_ROOT"""
import ast
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(sys.argv.pop(1)).resolve()
NEEDED = ("bash", "cat", "cmp", "cp", "dirname", "env", "mkdir", "mktemp", "mv", "readlink", "rm",
          "sed", "sort", "tail", "timeout")
OWN_MOUNTS = ["unshare",
              "--mount"] if os.geteuid() == 0 else ["unshare", "--mount", "--map-root-user"]
FAKE_NPM = """#!/usr/bin/env bash
echo "$*" >>"${0%/*}/npm.log"
[ ! -e "${0%/*}/no-network" ] || { echo "npm error no network" >&2; exit 1; }
[ "$1 $2" = "ci --prefix" ] &&
    mkdir -p "$3"/node_modules/onnxruntime-node/bin/napi-v3/{darwin,linux,win32}
"""
FAKE_APT = """#!/usr/bin/env bash
echo "$*" >>"${0%/*}/apt.log"
[ ! -e "${0%/*}/no-network" ] || { echo "E: no network" >&2; exit 100; }
"""


class Setup(unittest.TestCase):
    def setUp(self):
        self.bin = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        for name in NEEDED:
            (self.bin / name).symlink_to(shutil.which(name))
        self.command("apt-get", FAKE_APT)
        self.user(0)

    def command(self, name, text):
        (self.bin / name).write_text(text)
        (self.bin / name).chmod(0o755)

    def user(self, number):
        self.command("id", "#!/usr/bin/env bash\necho %d\n" % number)

    def setup(self, distribution, what="test"):
        release = self.bin / "os-release"
        release.write_text(distribution)
        # ./dev looks for commands in /usr/sbin as well.
        script = ('mount -t tmpfs none /usr/sbin && mount --bind "$1" /etc/os-release && shift && '
                  'PATH=$1 exec "$2" setup "$3"')
        return subprocess.run([*OWN_MOUNTS, "sh", "-c", script, "sh", release, self.bin,
                               ROOT / "dev", what], text=True, timeout=60,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              env={**os.environ, "LC_ALL": "C",
                                   "XDG_CACHE_HOME": str(self.bin / "cache")})

    def installed(self):
        return self.logged("apt.log")

    def logged(self, name):
        log = self.bin / name
        return log.read_text().splitlines() if log.exists() else []

    def test_others_are_told_their_names(self):
        for distribution, names in (("ID=fedora", ("ninja-build", "jansson-devel", "gcc-c++")),
                                    ("ID=rocky\nID_LIKE='rhel centos fedora'",
                                     ("ninja-build", "jansson-devel")),
                                    ("ID=arch", ("ninja", "jansson", "glslang")),
                                    ("ID=opensuse-tumbleweed\nID_LIKE='opensuse suse'",
                                     ("ninja", "libjansson-devel")),
                                    ("ID=alpine", ("samurai", "jansson-dev", "pkgconf")),
                                    ("ID=plan9", ("command:ninja (ninja-build on Debian)",))):
            with self.subTest(distribution):
                done = self.setup(distribution)
                self.assertEqual(done.returncode, 1, done.stdout)
                lines = [line.strip() for line in done.stdout.splitlines()]
                self.assertIn("dev: these packages are missing; install them and start again:",
                              lines)
                for name in names:
                    self.assertIn(name, lines)
                self.assertEqual(len(lines), len(set(lines)))
                self.assertNotIn("-", lines)
                self.assertEqual(self.installed(), [])

    def test_debian_installs(self):
        for distribution in ("ID=debian", "ID=linuxmint\nID_LIKE='ubuntu debian'"):
            with self.subTest(distribution):
                done = self.setup(distribution)
                self.assertEqual(done.returncode, 0, done.stdout)
                update, install, again, node = self.installed()[-4:]
                self.assertEqual((update, again), ("update", "update"))
                self.assertEqual(node.split()[3:], ["nodejs", "npm"])
                words = install.split()
                self.assertEqual(words[:3], ["install", "-y", "--no-install-recommends"])
                self.assertLessEqual({"gcc", "ninja-build", "clang", "g++"}, set(words))

    def test_a_demo_needs_less(self):
        self.assertEqual(self.setup("ID=debian", "demo").returncode, 0)
        words = self.installed()[-1].split()
        self.assertLessEqual({"gcc", "libutf8proc-dev"}, set(words))
        self.assertNotIn("clang", words)

    def test_distributions_need_one_package(self):
        self.assertEqual(self.setup("ID=debian", "distributions").returncode, 0)
        self.assertEqual(self.installed()[-1].split()[3:], ["debootstrap"])
        for other in "demo", "test":
            self.assertEqual(self.setup("ID=debian", other).returncode, 0)
            self.assertNotIn("debootstrap", " ".join(self.installed()[2:]).split())

    def test_a_book_needs_its_tools(self):
        self.assertEqual(self.setup("ID=debian", "docs").returncode, 0)
        words = self.installed()[-1].split()
        self.assertLessEqual({"doxygen", "python3-sphinx"}, set(words))
        self.assertNotIn("gcc", words)

    def test_other_words_are_refused(self):
        done = self.setup("ID=debian", "everything")
        self.assertEqual(done.returncode, 1)
        self.assertIn("there is no setup for 'everything'", done.stdout)
        self.assertEqual(self.installed(), [])

    def test_the_page_names_the_same_packages(self):
        table = (ROOT / "dev").read_text().split("cat <<'TXT'")[2].split("\nTXT\n")[0]
        rows = [line.split() for line in table.splitlines() if line.startswith("demo ")]
        page = (ROOT / "docs/start/install.md").read_text()
        commands = re.findall(r"^sudo (apt-get install|dnf install|pacman -S|zypper install|apk "
                              r"add)(.+)$", page.replace(" \\\n   ", ""), re.M)
        self.assertEqual(len(commands), 5)
        for column, (_, words) in enumerate(commands, 2):
            self.assertEqual(words.split(), sorted({row[column] for row in rows} - {"-"}))

    def test_packages_are_built_from_the_same_libraries(self):
        table = (ROOT / "dev").read_text().split("cat <<'TXT'")[2].split("\nTXT\n")[0]
        for column, name in ((2, "debian/control"), (3, "rpm/ringfire.spec"), (4, "arch/PKGBUILD")):
            has = set(re.findall(r"[\w-]+", (ROOT / "packaging" / name).read_text()))
            needs = {row.split()[column] for row in table.splitlines()
                     if row.startswith("demo module:")}
            self.assertEqual(needs - has, set(), name)

    def test_modules_of_tests_are_installed(self):
        """What tests import beside Python's own modules and the tree's has a row, or comes with
        one that has."""
        table = (ROOT / "dev").read_text().split("cat <<'TXT'")[2].split("\nTXT\n")[0]
        known = {"ringfire", "nbformat", *re.findall(r"^test python:(\w+)", table, re.M)}
        known |= set(sys.stdlib_module_names)
        for folder in ("bindings", "examples", "include", "shaders", "src", "tests"):
            known |= {path.stem for path in (ROOT / folder).glob("**/*.py")}
        for path in (ROOT / "tests").glob("**/*.py"):
            for node in ast.walk(ast.parse(path.read_text())):
                names = [n.name for n in node.names] if isinstance(node, ast.Import) else [
                    node.module] if isinstance(node, ast.ImportFrom) and not node.level else []
                for name in names:
                    self.assertIn(name.split(".")[0], known, path)

    def test_users(self):
        self.user(1000)
        done = self.setup("ID=debian")
        self.assertEqual(done.returncode, 1)
        self.assertIn("install them as root and start again", done.stdout)
        self.assertEqual(self.installed(), [])
        self.command("sudo", "#!/usr/bin/env bash\nexec \"$@\"\n")
        self.assertEqual(self.setup("ID=debian").returncode, 0)
        self.assertEqual(len(self.installed()), 4)

    def test_npm_packages(self):
        """They are installed once, without their scripts, and again when their version changes;
        where they cannot be had, the rest is well all the same."""
        for name in "node", "npm":
            self.command(name, FAKE_NPM)
        target = self.bin / "cache/ringfire/onnxruntime"
        for _ in range(2):
            done = self.setup("ID=debian")
            self.assertEqual(done.returncode, 0, done.stdout)
        calls = self.logged("npm.log")
        self.assertEqual(len(calls), 3)
        self.assertIn("--ignore-scripts", calls[0].split())
        self.assertEqual([p.name
                          for p in target.glob("node_modules/onnxruntime-node/bin/napi-v3/*")],
                         ["linux"])
        (target / "package-lock.json").write_text("another version")
        self.assertEqual(self.setup("ID=debian", "demo").returncode, 0)
        self.assertEqual(len(self.logged("npm.log")), 3)
        self.assertEqual(self.setup("ID=debian").returncode, 0)
        self.assertEqual(len(self.logged("npm.log")), 4)
        shutil.rmtree(target.parent)
        self.command("npm", FAKE_NPM.replace('-e "${0%/*}/no-network"', "yes"))
        done = self.setup("ID=debian")
        self.assertEqual(done.returncode, 0, done.stdout)
        self.assertIn("npm error no network", done.stdout)
        for name, test in (("ONNX Runtime", "train_onnx runtime"),
                           ("PaddleOCR's networks", "train_onnx_networks"),
                           ("Hugging Face's tokenizers", "text like hugging face")):
            self.assertIn(f"No {name}: test '{test}' will be skipped", done.stdout)
        self.assertEqual(list(target.parent.iterdir()), [])

    def test_a_failure_is_shown(self):
        (self.bin / "no-network").touch()
        done = self.setup("ID=debian")
        self.assertEqual(done.returncode, 1)
        self.assertIn("E: no network", done.stdout)
        self.assertIn("dev: apt-get failed", done.stdout)


if subprocess.run([*OWN_MOUNTS, "true"], stderr=subprocess.DEVNULL).returncode:
    print("skipped: no mount namespace of its own (unshare --mount)")
    sys.exit(77)
unittest.main()
