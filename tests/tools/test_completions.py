# SPDX-License-Identifier: Apache-2.0
"""Completions of the `ringfire` command: what shells offer. Shells that are missing are skipped.

Usage: test_completions.py BASH ZSH FISH"""
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

FILES = [os.path.abspath(path) for path in sys.argv[1:4]]
ASK = """
source "$1"; shift
COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _ringfire
printf '%s\\n' "${COMPREPLY[@]}"
"""


def said(command, folder):
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, cwd=folder,
                          env={"PATH": "/usr/bin:/bin", "HOME": folder, "LC_ALL": "C"})
    return set(done.stdout.split("\n")) - {""}


class Completions(unittest.TestCase):

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        open(self.folder + "/curve.svg", "w").close()

    @unittest.skipUnless(shutil.which("bash"), "no bash")
    def test_bash(self):
        for words, offered in (
            (["d"], {"devices"}),
            (["ckpt", ""], {"ls", "show", "verify", "diff", "convert"}),
            (["run", "--st"], {"--start-timeout"}),
            (["plot", "-o", "cur"], {"curve.svg"}),
            (["run", "-n", ""], set()),
            (["nonsense", ""], set()),
        ):
            with self.subTest(words=words):
                self.assertEqual(
                    said(["bash", "-c", ASK, "bash", FILES[0], "ringfire", *words], self.folder),
                    offered)

    @unittest.skipUnless(shutil.which("zsh"), "no zsh")
    def test_zsh(self):
        said(["zsh", "-n", FILES[1]], self.folder)

    @unittest.skipUnless(shutil.which("fish"), "no fish")
    def test_fish(self):
        script = "source %s; complete -C 'ringfire %s'"
        for typed, offered in (("ck", "ckpt"), ("ckpt v", "verify"), ("run --st",
                                                                      "--start-timeout")):
            with self.subTest(typed=typed):
                lines = said(["fish", "-c", script % (FILES[2], typed)], self.folder)
                self.assertIn(offered, {line.split("\t")[0] for line in lines})


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
