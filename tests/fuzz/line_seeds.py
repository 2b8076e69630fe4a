# SPDX-License-Identifier: Apache-2.0
"""Seeds of the fuzzers of lines, of templates and of tar archives, for make_corpus.py."""
import gzip
import io
import json
import tarfile

import templates


def text_lines():
    """Two bytes: what is done with the rest, and the longest line (fuzz_text_lines.c)."""
    some = b"one\r\n\n\xef\xbb\xbftwo\r\rthree\n\n\nthe end\r"
    yield ("text_lines", "plain", b"\1\2" + some)
    yield ("text_lines", "not_empty", b"\3\1\xef\xbb\xbf" + some)
    yield ("text_lines", "gzip", b"\0\2" + gzip.compress(some, 0, mtime=0))
    yield ("text_lines", "members", b"\2\4" + gzip.compress(some[:9], 9, mtime=0)
         + gzip.compress(some[9:], 1, mtime=0))
    yield ("text_lines", "utf16", b"\1\4\xfe\xff" + "a\n".encode("utf-16-be"))
    yield ("text_lines", "cut", b"\2\4" + gzip.compress(some, 9, mtime=0)[:-5])


def jsonl():
    """Three bytes: what is read, the longest line, the most values (fuzz_jsonl.c)."""
    turns = (b'{"messages": [{"role": "user", "content": "a\\u00e4"}, {"role": "assistant", '
             b'"content": [{"type": "text", "text": "b"}]}, {"role": "tool", "content": null}]}\n')
    texts = b'{"prompt": "one", "completion": "two"}\r\n\n{"text": "\\u0000three"}'
    rows = (b'{"text": "ab\\u00e4", "x": [[1, 2.5], [-1e3, true]], "n": -7, "more": {}}\n'
            b'{"text": "", "x": [], "n": 12345678901234567890}\n')
    yield ("jsonl", "chats", b"\1\x40\x10" + turns + texts)
    yield ("jsonl", "cut", b"\1\x40\2" + turns + texts[:30])
    yield ("jsonl", "fields", b"\0\x40\4" + rows)
    yield ("jsonl", "long", b"\0\4\1" + rows)
    yield ("jsonl", "packed", b"\0\x40\4" + gzip.compress(rows + rows, 9, mtime=0))
    yield ("jsonl", "deep", b"\0\xff\4" + b'{"x": ' + b"[" * 900 + b"]" * 900 + b"}\n[]\n1\n")


def chat_templates():
    """A template, and a chat behind a zero byte (fuzz_chat_template.c)."""
    for i, (name, text) in enumerate({**templates.FAMILIES, "marked": templates.MARKED}.items()):
        chat = templates.CHATS[i % len(templates.CHATS)]
        yield ("chat_template", name.replace(" ", "_"), text.encode() + b"\0" + json.dumps(
            chat).encode())
    few = ("{%- macro f(a, b=1) %}{{ a ~ b }}{% endmacro -%}\n"
           "{{ f(b=[1, 2.5][::-1], a={'k': -n[1]}) }}",
           "{% for a, b in n[3].items() if a != 'x' %}{{ loop.index0 }}{% break %}"
           "{% else %}{% endfor %}",
           "{% set x %}{{ 'a\\u00e9' * 3 }}{% endset %}"
           "{{ x | replace('a', '') | indent(2) | tojson }}")
    for i, text in enumerate(few):
        yield ("chat_template", "few_%d" % i, text.encode())


def tar():
    """The first byte: in which order examples are fetched (fuzz_tar.c)."""
    def archive(kind, *files):
        out = io.BytesIO()
        with tarfile.open(fileobj=out, mode="w", format=kind) as made:
            for name, data in files:
                member = tarfile.TarInfo(name)
                member.size = len(data)
                made.addfile(member, io.BytesIO(data))
        return out.getvalue()[:-8192]  # most of the zeros at the end
    files = [("d/1.txt", b"one"), ("d/1.cls", b"1"), ("d/2.cls", b" 2\n"), ("d/2.a", b"two" * 200),
             ("x" * 120 + "\u00fc.cls", b"3"), ("4.txt", b""), ("4.cls", b"x")]
    for name, kind in (("pax", tarfile.PAX_FORMAT), ("gnu", tarfile.GNU_FORMAT),
                       ("ustar", tarfile.USTAR_FORMAT)):
        yield ("tar", name, b"\1" + archive(kind, *(files[:4] if name == "ustar" else files)))
    data = archive(tarfile.GNU_FORMAT, *files[:4])
    yield ("tar", "gzip", b"\0" + gzip.compress(data, 9, mtime=0))
    yield ("tar", "cut", b"\0" + data[:1400])


def every():
    """(fuzzer, name, data) of each."""
    yield from text_lines()
    yield from jsonl()
    yield from chat_templates()
    yield from tar()
