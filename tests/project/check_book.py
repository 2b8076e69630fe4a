# SPDX-License-Identifier: Apache-2.0
"""Builds the book without warnings, its site and its man pages, with a page for each header and
each command. The site can be read from a disk, and on a dark system.

Usage: check_book.py ROOT RINGFIRE OUT    exit status 77 (skipped) where a tool is missing"""
import pathlib
import re
import shutil
import subprocess
import sys

root, ringfire, out = (pathlib.Path(word).resolve() for word in sys.argv[1:])
NEEDED = ("myst_parser", "breathe", "furo", "sphinx_copybutton", "sphinx_inline_tabs")


def missing():
    """Sphinx and its extensions are those of the distribution's Python, whatever PATH says."""
    yield from (name for name in ("doxygen", "sphinx-build") if not shutil.which(name))
    modules = "import importlib.util as u; print(*(m for m in %r if not u.find_spec(m)))" % (
        NEEDED, )
    yield from subprocess.run(["/usr/bin/python3", "-c", modules], check=True, text=True,
                              stdout=subprocess.PIPE).stdout.split()


def commands():
    text = subprocess.run([ringfire, "--help"], check=True, text=True,
                          stdout=subprocess.PIPE).stdout
    return re.findall(r"^  (\w+)  ", text[text.index("Commands:"):text.index("\n\n'")], re.M)


def main():
    absent = list(missing())
    if absent:
        print("skipped: not installed: %s (./dev setup docs)" % ", ".join(absent))
        sys.exit(77)
    for builder in "html", "man":
        subprocess.run(["sphinx-build", "-W", "--keep-going", "-q", "-b", builder, "-d",
                        out / "pages", root / "docs", out / builder], check=True)
    style = (out / "html/_static/styles/furo.css").read_text()
    if "prefers-color-scheme" not in style or "url(/" in style:
        sys.exit("the theme is light on dark systems, or needs files of a web server")
    headers = {path.stem for path in (root / "include/ringfire").glob("*.h")} - {"ringfire"}
    wanted = ["man3/ringfire_%s.3" % name for name in sorted(headers)]
    wanted += ["man1/ringfire-%s.1" % name for name in commands()]
    wrong = [page for page in wanted if not (out / "man" / page).exists()]
    print("\n".join(["there is no page for %s" % page for page in wrong] +
                    ["%d man pages" % len(wanted)]))
    sys.exit(1 if wrong or len(wanted) < 25 else 0)


main()
