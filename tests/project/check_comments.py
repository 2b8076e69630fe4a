# SPDX-License-Identifier: Apache-2.0
"""Fails where a public header declares a function, a type or a callback without a comment right
above it, or where a comment has gaps within a line, as a formatter leaves them when it joins lines;
and where a sentence of a comment in the folders below begins with "What" or "Of": it lacks a
subject. Usage: check_comments.py ROOT"""
import pathlib
import re
import sys

DECLARATIONS = (
    re.compile(r"^RF_API\b[^;]*?\b(rf_\w+)\([^;]*;", re.M),             # functions
    re.compile(r"^typedef (?:struct|union|enum) (rf_\w+) \{", re.M),    # structs and enumerations
    re.compile(r"^typedef [^;{]*\(\*(rf_\w+)\)\(", re.M),               # callbacks
)
SENTENCES = ("src/base", "src/graph", "src/persist", "src/server", "src/text",
             "src/train/checkpoint")
NO_SUBJECT = re.compile(r"(?:/\*|[.:;]) (?:What|Of)\b")
COMMENT_ABOVE = re.compile(r"\*/\n\Z")
GAP = re.compile(r"[\w,.;:)\"'`]  +[\w(\"'`]")


def findings(name, text):
    seen = 0
    for pattern in DECLARATIONS:
        for match in pattern.finditer(text):
            seen += 1
            line = text.count("\n", 0, match.start()) + 1
            above = text[:match.start()]
            if not COMMENT_ABOVE.search(above) or above.rstrip().endswith("---- */"):
                yield seen, "%s:%d: %s has no comment above it" % (name, line, match.group(1))
    for comment in re.finditer(r"/\*\*.*?\*/", text, re.S):
        for gap in GAP.finditer(comment.group(0)):
            line = text.count("\n", 0, comment.start() + gap.start()) + 1
            yield seen, "%s:%d: a gap in a comment: '%s'" % (name, line, gap.group(0))
    yield seen, None


def without_subject(root):
    for path in sorted(path for folder in SENTENCES for path in (root / folder).rglob("*.[ch]")):
        text = path.read_text()
        for comment in re.finditer(r"/\*.*?\*/", text, re.S):
            found = NO_SUBJECT.search(re.sub(r"\s+\*? *", " ", comment.group(0)))
            if found:
                line = text.count("\n", 0, comment.start()) + 1
                yield "%s:%d: a sentence without a subject: '%s ...'" % (
                    path.relative_to(root), line, found.group(0))


def main():
    root = pathlib.Path(sys.argv[1])
    declarations, wrong = 0, list(without_subject(root))
    for path in sorted((root / "include/ringfire").glob("*.h")):
        for seen, finding in findings(path.name, path.read_text()):
            if finding:
                wrong.append(finding)
        declarations += seen
    print("\n".join(wrong + ["%d declarations" % declarations]))
    sys.exit(1 if wrong or declarations < 300 else 0)


main()
