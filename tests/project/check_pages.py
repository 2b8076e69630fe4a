# SPDX-License-Identifier: Apache-2.0
"""Holds the code of the book to the library, and what commands print on its pages to the commands.

Usage: check_pages.py code ROOT MADE CC...       code compiles, or is an excerpt of tested code; the
                                                 headers that the build writes are in MADE
       check_pages.py run ROOT BUILD PAGE...     commands of pages print what the pages say
       check_pages.py write ROOT BUILD PAGE...   pastes what commands print into the pages

A block with a caption is a file; several with one caption are its parts. A block ```console is run
in a folder with the files of all pages beside it, where the library of BUILD is installed: its
lines behind "$ " are commands, the others what they print. "% exits 1" above the block says how its
last command ends. Numbers may differ. Other code is an excerpt: it is in a source of the library,
of the examples, of the tests or of another page, word for word."""
import collections
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import textwrap

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
import drivers  # noqa: E402

# Pages with code that nothing tests yet. A page leaves the list when its code is tested.
NOT_YET = frozenset()
# Pages whose blocks in Python are one program, which the test of the package runs.
PYTHON_PROGRAMS = {"docs/guides/python.md"}
# Ends of names of sources, by the language of a block.
LANGUAGES = {"c": (".c", ".h"), "cpp": (".cpp", ".hpp"), "python": (".py", )}
BLOCK = re.compile(r"""
    (?:^%\ exits\ (?P<status>\d+)\n)?
    ^(?P<fence>`{3,})(?:\{code-block\}[ ])?(?P<language>[\w+]+)\n
    (?::caption:\ (?P<caption>\S+)\n)?
    (?P<text>.*?)
    ^(?P=fence)$""", re.M | re.S | re.X)
DEADLINE = 300
MARK = "@@ringfire@@"


def blocks(text):
    return list(BLOCK.finditer(text))


def pages(root):
    return [root / "README.md", *sorted((root / "docs").rglob("*.md"))]


def files_of(text):
    """What a page's blocks with captions make together, by name."""
    files = collections.defaultdict(str)
    for block in blocks(text):
        if block["caption"]:
            files[block["caption"]] += block["text"].lstrip("\n")
    return files


def words(text):
    return " ".join(text.split())


def unknown_names(root, page, headers):
    """Public names on a page that no header has, but for pages about the library's inside. A name
    that ends with _ or is followed by * stands for several."""
    if root / "docs/internals" in page.parents or page.stem.endswith("-format"):
        return set()
    found = re.findall(r"\b(?:rf|RF)_\w*[a-zA-Z0-9](?![\w*]|_\*)", page.read_text())
    return set(found) - headers


def compiled(name, text, root, made, cc):
    """What a compiler has to say against a program."""
    if name.endswith(".py"):
        try:
            compile(text, name, "exec")
        except SyntaxError as error:
            return "line %s: %s" % (error.lineno, error)
        return ""
    cxx = shutil.which("g++") or shutil.which("clang++")
    if name.endswith(".cpp") and not cxx:
        return ""
    command = [*cc, "-std=c11", "-x", "c"] if name.endswith(".c") else [
        cxx, "-std=c++17", "-Wpedantic", "-x", "c++"]
    done = subprocess.run([*command, "-fsyntax-only", "-Wall", "-Wextra", "-Werror",
                           "-I", root / "include", "-I", made, "-"], input=text, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    return done.stdout if done.returncode else ""


def excerpts_of(page, root):
    for block in blocks(page.read_text()):
        is_program = block["language"] == "python" and str(
            page.relative_to(root)) in PYTHON_PROGRAMS
        if block["language"] in LANGUAGES and not block["caption"] and not is_program:
            yield block["language"], block["text"]


def check_code(root, made, cc):
    programs = [(page, name, text) for page in pages(root)
                for name, text in files_of(page.read_text()).items()
                if name.endswith(sum(LANGUAGES.values(), ()))]
    sources = {language: [words(path.read_text()) for folder in ("examples", "src", "tests")
                          for path in (root / folder).rglob("*") if path.suffix in ends] +
               [words(text) for _, name, text in programs if name.endswith(ends)]
               for language, ends in LANGUAGES.items()}
    wrong = collections.defaultdict(list)
    excerpts = 0
    for page in pages(root):
        for language, text in excerpts_of(page, root):
            excerpts += 1
            if textwrap.dedent(text) != text:
                wrong[page].append("all lines of this code are indented:\n" + text)
            if not any(words(text) in source for source in sources[language]):
                wrong[page].append("no tested code has this:\n" + text)
    headers = {word for path in (root / "include/ringfire").iterdir()
               for word in re.findall(r"\w+", path.read_text())}
    for page in pages(root):
        for name in sorted(unknown_names(root, page, headers)):
            wrong[page].append("no header has %s" % name)
    for page, name, text in programs:
        found = compiled(name, text, root, made, cc)
        if found:
            wrong[page].append("%s does not compile:\n%s" % (name, found))
    wrong = {str(page.relative_to(root)): found for page, found in wrong.items()}
    lines = ["%s: %s" % (page, fault) for page, found in wrong.items() if page not in NOT_YET
             for fault in found]
    lines += ["%s: its code is tested, or gone: take it out of NOT_YET" % page
              for page in sorted(NOT_YET - wrong.keys())]
    print("\n".join(lines + ["%d programs, %d excerpts" % (len(programs), excerpts)]))
    return 1 if lines or not excerpts else 0


def installed(build, folder):
    """The environment of a user who has installed the library into a folder."""
    subprocess.run(["meson", "install", "-C", build, "--no-rebuild", "--quiet", "--tags",
                    "runtime,devel,python-runtime", "--destdir", folder], check=True)
    module = next(folder.rglob("ringfire.pc"))
    command = next(folder.rglob("bin/ringfire"))
    package = next(folder.rglob("ringfire/__init__.py"), None)
    if not package or not shutil.which("c++"):
        print("skipped: %s, which pages use, is not there" % (
            "the Python package" if not package else "a compiler of C++"))
        sys.exit(77)
    # The Python that the package is for, whatever PATH has.
    command.with_name("python3").symlink_to(sys.executable)
    lavapipe = drivers.find().get("lavapipe")
    if not lavapipe:
        print("skipped: lavapipe, which printed the pages, is not installed")
        sys.exit(77)
    return {**os.environ, "VK_DRIVER_FILES": lavapipe,
            "PATH": "%s:%s" % (command.parent, os.environ["PATH"]),
            "PYTHONPATH": str(package.parent.parent),
            "PKG_CONFIG_PATH": str(module.parent), "PKG_CONFIG_SYSROOT_DIR": str(folder),
            "LD_LIBRARY_PATH": str(module.parent.parent), "LC_ALL": "C.UTF-8", "COLUMNS": "80"}


def commands_of(block):
    """The commands of a block, each with the lines that it prints; "> " goes on with a command."""
    found = []
    for line in block["text"].splitlines():
        if line.startswith("$ "):
            found.append([line[2:], []])
        elif line.startswith("> ") and found and not found[-1][1]:
            found[-1][0] += "\n" + line[2:]
        elif found:
            found[-1][1].append(line)
    return found


def run_page(text, folder, environment):
    """What the page's commands print and how they end, in order, by one shell."""
    consoles = [block for block in blocks(text) if block["language"] == "console"]
    script = "exec 2>&1 </dev/null\n"
    for block in consoles:
        for command, _ in commands_of(block):
            script += "%s\nprintf '\\n%s%%d\\n' $?\n" % (command, MARK)
    done = subprocess.run(["bash", "-c", script], cwd=folder, env=environment, timeout=DEADLINE,
                          stdout=subprocess.PIPE, text=True)
    printed = done.stdout.replace(environment["HOME"], "/home/you")
    outcomes = re.findall(r"(.*?)\n%s(\d+)\n" % MARK, printed, re.S)
    return consoles, [(out.rstrip("\n").splitlines(), int(status)) for out, status in outcomes]


def stable(lines):
    """What is the same in each run: numbers and the room that they take are not."""
    return [re.sub(r"\s+", " ", re.sub(r"[-+]?\d[\d.,]*(e[-+]?\d+)?", "#", line)).strip()
            for line in lines]


def check_page(name, text, folder, environment):
    """What differs, and the page with what its commands print."""
    consoles, outcomes = run_page(text, folder, environment)
    wrong, at, pasted = [], 0, {}
    for block in consoles:
        commands = commands_of(block)
        lines = []
        for i, (command, said) in enumerate(commands):
            if at == len(outcomes):
                return ["%s: the shell ended before: %s" % (name, command)], text
            printed, status = outcomes[at]
            at += 1
            expected = int(block["status"] or 0) if i + 1 == len(commands) else 0
            if status != expected:
                wrong.append("%s: exit status %d of: %s\n%s" % (
                    name, status, command, "\n".join(printed)))
            elif stable(printed) != stable(said):
                wrong.append("%s: not what the page says of: %s\n%s" % (
                    name, command, "\n".join(printed)))
            lines += ["$ " + command.replace("\n", "\n> "), *printed]
        pasted[block.start("text")] = (block.end("text"), "".join(line + "\n" for line in lines))
    for start, (end, lines) in sorted(pasted.items(), reverse=True):
        text = text[:start] + lines + text[end:]
    return wrong, text


def check_runs(root, build, names, write):
    chosen = [root / name for name in names] or [
        page for page in pages(root) if any(b["language"] == "console"
                                            for b in blocks(page.read_text()))]
    wrong = []
    with tempfile.TemporaryDirectory() as name:
        environment = installed(build, pathlib.Path(name, "root"))
        environment["HOME"] = name
        for i, page in enumerate(chosen):
            folder = pathlib.Path(name, "page%d" % i)
            folder.mkdir()
            for neighbour in page.parent.glob("*.md"):
                for file, content in files_of(neighbour.read_text()).items():
                    (folder / file).write_text(content)
            text = page.read_text()
            found, pasted = check_page(str(page.relative_to(root)), text, folder, environment)
            if write and pasted != text:
                page.write_text(pasted)
            wrong += found
    print("\n".join(wrong + ["%d pages" % len(chosen)]))
    return 1 if (wrong and not write) or not chosen else 0


def main():
    how, root = sys.argv[1], pathlib.Path(sys.argv[2]).resolve()
    if how == "code":
        sys.exit(check_code(root, sys.argv[3], sys.argv[4:]))
    sys.exit(check_runs(root, pathlib.Path(sys.argv[3]).resolve(), sys.argv[4:], how == "write"))


main()
