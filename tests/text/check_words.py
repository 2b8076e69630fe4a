# SPDX-License-Identifier: Apache-2.0
"""The words that WordPiece sees are those of BERT's basic tokenizer, written here anew with
Python's tables of Unicode: for every character that Python knows, for the neighbours of a capital
sigma, and for random texts.

Usage: check_words.py SPLIT_WORDS"""
import random
import struct
import subprocess
import sys
import unicodedata

CHINESE = ((0x3400, 0x4dbf), (0x4e00, 0x9fff), (0xf900, 0xfaff), (0x20000, 0x2a6df),
           (0x2a700, 0x2b73f), (0x2b740, 0x2b81f), (0x2b820, 0x2ceaf), (0x2f800, 0x2fa1f))


def is_punctuation(c):
    return c.isascii() and not c.isalnum() and "!" <= c <= "~" or unicodedata.category(
        c).startswith("P")


def clean(text):
    for c in text:
        category = unicodedata.category(c)
        if c in "\t\n\r" or category == "Zs":
            yield " "
        elif not category.startswith("C") and c != "\ufffd":
            chinese = ord(c) >= 0x3400 and any(first <= ord(c) <= last for first, last in CHINESE)
            yield " %s " % c if chinese else c


def words(text, keep_case):
    found = []
    for token in "".join(clean(text)).split():
        if not keep_case:
            token = "".join(c for c in unicodedata.normalize("NFD", token.lower())
                            if unicodedata.category(c) != "Mn")
        word = ""
        for c in token:
            if is_punctuation(c):
                found += [word] * bool(word) + [c]
                word = ""
            else:
                word += c
        found += [word] * bool(word)
    return found


def known():
    """Every character that is assigned for Python, which may have an older Unicode, and a few that
    are not for anybody."""
    some = (chr(code) for code in range(0x110000) if not 0xd800 <= code <= 0xdfff)
    return [c for c in some if unicodedata.category(c) not in ("Cn", "Co")
            ] + list("\ufdd0\uffff\U0010ffff\ue000\U000f0000")


def cases():
    characters = known()
    for begin in range(0, len(characters), 500):
        some = characters[begin:begin + 500]
        yield " ".join("a%sB" % c for c in some), False
        yield " ".join("a%sB" % c for c in some), True
    letters = [
        c for c in characters
        if not 0x3400 <= ord(c) < 0xd7a4 and not 0x11fff < ord(c) < 0x1d000 and ord(c) < 0x20000
    ]
    for begin in range(0, len(letters), 500):
        yield " ".join("a%s\u03a3 A\u03a3%s \u03a3%s" % (c, c, c)
                       for c in letters[begin:begin + 500]), False
    odd = [c for c in characters if unicodedata.combining(c) or unicodedata.category(c)[0] in "ZC"]
    dice = random.Random(1)
    for _ in range(3000):
        yield "".join(
            dice.choice(dice.choice((characters, odd, "aB\u03a3\u0130 .'",
                                     "\u4e2d\uac00\u0301\u302e\u1f82\U0001d165")))
            for _ in range(dice.randrange(30))), \
            dice.random() < .2


def split(texts, program):
    given = b"".join(struct.pack("<IB", len(t), keep) + t for t, keep in texts)
    version, *lines = subprocess.run([program],
                                     input=given,
                                     stdout=subprocess.PIPE,
                                     check=True,
                                     timeout=60).stdout.split(b"\n")[:-1]
    ours, pythons = ([int(part) for part in v.split(".")]
                     for v in (version.decode(), unicodedata.unidata_version))
    if ours < pythons:
        print("skipped: Python has Unicode %s, utf8proc %s" %
              (unicodedata.unidata_version, version.decode()))
        sys.exit(77)
    return [[word.decode() for word in line.split(b"\0")[:-1]] for line in lines]


texts = list(cases())
got = split([(t.encode(), keep) for t, keep in texts], sys.argv[1])
wrong = [(t, w, words(t, keep)) for (t, keep), w in zip(texts, got) if w != words(t, keep)]
for text, ours, theirs in wrong[:10]:
    different = [(a, b) for a, b in zip(ours, theirs) if a != b]
    print("%s...: %s" % (ascii(text[:60]), ascii(different[:3] or (len(ours), len(theirs)))))
print("%d texts, Unicode %s, %d differ" % (len(texts), unicodedata.unidata_version, len(wrong)))
sys.exit(1 if wrong or len(got) != len(texts) else 0)
