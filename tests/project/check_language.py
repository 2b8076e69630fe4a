# SPDX-License-Identifier: Apache-2.0
"""Holds the language of the book, of README, NEWS and CONTRIBUTING, and of the comments of the
public headers: in each the sentences have at most 18 words in the mean and 35 at most, and none
begins with "What". Markdown has one sentence on a line, and tables of at most five columns.

Usage: check_language.py ROOT [--measure]    --measure prints words and sentences of each file"""
import pathlib
import re
import sys

MEAN, LONGEST, COLUMNS = 18, 35, 5
# Pages whose language is still that of before. A page leaves the list when it is rewritten.
NOT_YET = frozenset((
    "docs/guides/observing.md",
))
# A point behind these ends no sentence.
ABBREVIATIONS = r"(?<!\be\.g)(?<!\bi\.e)(?<!\betc)(?<!\bcf)(?<!\bvs)(?<!\bal)(?<!\bNo)(?<!\bDr)"
# Code in comments begins with small letters: rf_abs(), u8, x.
BEGINNING = r"(?=[\"'(\[*_`]*(?:[A-Z0-9`]|[a-z]\w*[_\d]|[a-z]\b)|::|\"[a-z])"
END = re.compile(r"%s[.!?][\"')\]*_]*\s+%s" % (ABBREVIATIONS, BEGINNING))
WHOLE = re.compile(r"[.!?:][\"')\]*_`]*$")
FENCE = re.compile(r"^[ \t]*(`{3,}|~{3,})")
# Its lines are those of the page.
TAB = re.compile(r"(?ms)^(`{4,})\{tab\}[^\n]*\n(.*?)^\1$")
ITEM = re.compile(r"^\s*(?:[-*+]|\d+\.)\s+")
COMMENT = re.compile(r"/\*\*<?(.*?)\*/", re.S)


class Text:
    """Sentences of a file, each with its line, and what is wrong with them."""

    def __init__(self, name):
        self.name, self.lengths, self.wrong = name, [], []

    def fault(self, line, what):
        self.wrong.append("%s:%d: %s" % (self.name, line, what))

    def add(self, line, sentence, counts=True):
        words = number_of_words(sentence)
        if counts and WHOLE.search(sentence):
            self.lengths.append(words)
        if words > LONGEST:
            self.fault(line, "%d words in a sentence, more than %d: '%s ...'" % (
                words, LONGEST, sentence[:40]))
        if re.match(r"[\"'(*_]*What\b", sentence):
            self.fault(line, "a sentence begins with 'What': '%s ...'" % sentence[:40])

    def mean(self):
        return sum(self.lengths) / max(len(self.lengths), 1)

    def faults(self):
        mean = self.mean()
        return self.wrong + ["%s: %.1f words in the mean sentence, more than %d" % (
            self.name, mean, MEAN)] * (mean > MEAN)


def number_of_words(sentence):
    """Code counts as one word, a link as its text."""
    text = re.sub(r"!?\[([^]]*)\](?:\([^)]*\)|\[[^]]*\])?", r"\1", sentence)
    text = re.sub(r"`[^`]*`", "x", text)
    return sum(1 for word in text.split() if re.search(r"\w", word))


def sentences(text):
    """The sentences of a piece of text, and where each begins in it. Points in code end none."""
    hidden = re.sub(r"`[^`\n]*`", lambda m: "`" + "x" * (len(m[0]) - 2) + "`", text)
    begin = 0
    for end in END.finditer(hidden):
        yield begin, text[begin:end.end()].strip()
        begin = end.end()
    if text[begin:].strip():
        yield begin, text[begin:].strip()


def paragraphs(text):
    """The lines of a page that hold prose: lists of (number, text). Code, comments and what
    directives are told are left out; rows of tables are yielded one by one, with True."""
    fence, block = None, []
    text = TAB.sub(r"\n\2", text)
    for number, line in enumerate(re.sub(r"(?s)<!--.*?-->", lambda m: "\n" * m[0].count("\n"),
                                         text).splitlines(), 1):
        mark = FENCE.match(line)
        if fence:
            if mark and mark[1].startswith(fence) and not line.strip(" `~"):
                fence = None
            continue
        bare = re.sub(r"^\s*>\s?", "", line)
        table = bare.lstrip().startswith("|")
        stops = (mark or not bare.strip() or table or bare.startswith("#") or
                 re.match(r"\s*:{1,3}[\w{-]|:::|\([\w-]+\)=$|% |\[[^]]+\]: ", bare))
        if (stops or ITEM.match(bare)) and block:
            yield block, False
            block = []
        if mark:
            fence = mark[1]
        elif table:
            yield [(number, bare.strip())], True
        elif not stops:
            block.append((number, ITEM.sub("", bare).strip()))
    if block:
        yield block, False


def check_page(name, text):
    page = Text(name)
    for block, is_row in paragraphs(text):
        if is_row:
            number, row = block[0]
            cells = re.split(r"(?<!\\)\|", row.strip("|"))
            if len(cells) > COLUMNS:
                page.fault(number, "a table of %d columns, more than %d" % (len(cells), COLUMNS))
            for cell in cells:
                for _, sentence in sentences(cell.strip()):
                    page.add(number, sentence, counts=False)
            continue
        for i, (number, line) in enumerate(block):
            found = [sentence for _, sentence in sentences(line)]
            if len(found) > 1:
                page.fault(number, "%d sentences on a line" % len(found))
            if i + 1 < len(block) and not WHOLE.search(line):
                page.fault(number, "a sentence goes on in the next line")
            for sentence in found:
                page.add(number, sentence)
    return page


def check_header(name, text):
    """A parameter, a result or an item of a list is a piece by itself."""
    header = Text(name)
    for comment in COMMENT.finditer(text):
        inner = re.sub(r"(?m)^[ \t]*\*", lambda m: " " * len(m[0]), comment[1])
        at = 0
        for piece in re.split(r"(?m)(\n\s*\n|^\s*@\w+|^\s*- )", inner):
            for begin, sentence in sentences(piece):
                line = text.count("\n", 0, comment.start(1) + at + begin) + 1
                header.add(line, " ".join(sentence.split()))
            at += len(piece)
    return header


def check_all(root):
    pages = [root / name for name in ("README.md", "NEWS.md", "CONTRIBUTING.md")]
    pages += sorted((root / "docs").rglob("*.md"))
    for path in pages:
        yield check_page(str(path.relative_to(root)), path.read_text())
        yield check_header(str(path.relative_to(root)), path.read_text())


def main():
    root = pathlib.Path(sys.argv[1])
    texts = list(check_all(root))
    if "--measure" in sys.argv:
        for text in texts:
            print("%-44s %6d words in sentences, mean %4.1f, longest %d, %d faults" % (
                text.name, sum(text.lengths), text.mean(), max(text.lengths, default=0),
                len(text.faults())))
        return
    wrong = [fault for text in texts if text.name not in NOT_YET for fault in text.faults()]
    wrong += ["%s: rewritten, or gone: take it out of NOT_YET" % name for name in sorted(
        NOT_YET - {text.name for text in texts if text.faults()})]
    print("\n".join(wrong + ["%d files checked" % len(texts)]))
    sys.exit(1 if wrong or len(texts) < 60 else 0)


main()
