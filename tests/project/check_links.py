# SPDX-License-Identifier: Apache-2.0
"""Holds the links of the book: their files and headings exist, and so do the files of the tree that
a page names in code; every page is linked from another, or from a list of contents; and what
sources say of pages is true. Usage: check_links.py ROOT"""
import pathlib
import re
import sys

FOLDERS = ("bindings", "examples", "include", "shaders", "src", "tests", "tools", "transport")
SUFFIXES = {".c", ".h", ".hpp", ".py", ".comp", ".glsl", ".build", ".sh", ""}
# Files that a test makes up.
INVENTED = {"docs/a.md"}
CODE = re.compile(r"(?ms)^(`{3,})(?!\{toctree\}).*?^\1$")
LINK = re.compile(r"\]\(([^)\s]+)\)")
CONTENTS = re.compile(r"(?ms)^```\{toctree\}\n(.*?)^```$")
PATH = re.compile(r"`((?:%s)/[\w/.-]+\.\w+)`" % "|".join((*FOLDERS, "docs")))
PAGE = re.compile(r"\bdocs/[\w/.-]+\.(?:md|json|svg)\b")


def anchor(heading):
    """As GitHub and MyST make one."""
    words = re.sub(r"\[([^]]*)\]\([^)]*\)|`", r"\1", heading).strip().lower()
    return re.sub(r"[^\w\- ]", "", words).replace(" ", "-")


def listed(page, text):
    """The pages of its lists of contents."""
    for lines in CONTENTS.findall(text):
        for line in lines.split("\n"):
            if line and not line.startswith(":"):
                yield from page.parent.glob(line + ".md")


def main():
    root = pathlib.Path(sys.argv[1]).resolve()
    pages = {p: p.read_text() for p in [*sorted((root / "docs").rglob("*.md")), *(
        root / name for name in ("README.md", "NEWS.md", "CONTRIBUTING.md"))]}
    prose = {p: CODE.sub("", text) for p, text in pages.items()}
    headings = {p: {anchor(h) for h in re.findall(r"(?m)^#+ (.*)$", text)}
                for p, text in prose.items()}
    wrong, linked = [], {root / "README.md", root / "docs/index.md"}
    for page, text in prose.items():
        name = page.relative_to(root)
        linked.update(listed(page, pages[page]))
        for target in LINK.findall(text):
            file, _, heading = target.partition("#")
            to = (page.parent / file).resolve() if file else page
            if "://" in target:
                continue
            if not to.exists():
                wrong.append("%s: there is no file %s" % (name, target))
            elif heading and to in headings and heading not in headings[to]:
                wrong.append("%s: there is no heading %s" % (name, target))
            linked |= {to} - {page}
        wrong += ["%s: there is no file %s" % (name, path) for path in PATH.findall(text)
                  if not (root / path).exists()]
    wrong += ["%s: nothing links to it" % page.relative_to(root) for page in pages
              if page not in linked]
    sources = [root / "dev", *(p for folder in FOLDERS for p in (root / folder).rglob("*")
                               if p.is_file() and p.suffix in SUFFIXES)]
    for path in sources:
        wrong += ["%s: there is no %s" % (path.relative_to(root), page) for page in PAGE.findall(
            path.read_text(errors="replace")) if not (root / page).exists()
            and page not in INVENTED]
    print("\n".join(wrong + ["%d pages, %d sources" % (len(pages), len(sources))]))
    sys.exit(1 if wrong or len(pages) < 90 else 0)


main()
