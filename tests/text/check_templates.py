#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Chat templates against Jinja, with the settings of Hugging Face's library: those of templates.py
with all its chats, and random ones. Usage: check_templates.py WRITE_CHATS COUNT

Of the families, what fails in Jinja has to fail here, too. Of the random ones, both have to write
the same where neither fails; the library refuses some that Jinja takes, such as arithmetic of lists
and numbers, at most one in ten. Skips, with 77, where there is no jinja2."""
import datetime
import json
import pathlib
import random
import subprocess
import sys
import tempfile
import warnings

try:
    import jinja2
    import jinja2.sandbox
except ImportError as error:
    print("skipped: needs Jinja (python3-jinja2): %s" % error)
    sys.exit(77)

import templates

TOKENS = {"bos_token": "<s>", "eos_token": "</s>"}


def to_json(value, indent=None):
    return json.dumps(value, ensure_ascii=False, indent=indent)


def raise_exception(message):
    raise jinja2.exceptions.TemplateError(message)


def make_environment():
    made = jinja2.sandbox.ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True,
                                                        extensions=["jinja2.ext.loopcontrols"])
    made.filters["tojson"] = to_json
    made.globals["raise_exception"] = raise_exception
    made.globals["strftime_now"] = lambda form: datetime.datetime.now().strftime(form)
    return made


def join_parts(message):
    content = message.get("content")
    if not isinstance(content, list):
        return message
    return {**message, "content": "".join(part["text"] for part in content)}


def expect(environment, template, chat, variables, prompt):
    """The text, or None where Jinja fails."""
    known = {"tools": None, "documents": None, **chat, **variables}
    known["messages"] = [join_parts(m) for m in chat["messages"]]
    try:
        return environment.from_string(template).render(add_generation_prompt=prompt, **known)
    except (jinja2.exceptions.TemplateError, TypeError, ValueError, IndexError, KeyError,
            ZeroDivisionError, AttributeError, OverflowError):
        return None


# ---- random templates ----

TEXTS = ["''", "'a'", "' b c\\n'", "'Käse, 🙂'", "'x,y,,z'", "\"it's\"", "'%'", "'</think>\\n\\n'"]
NAMES = ["bos_token", "tools", "x", "y", "n", "item", "nothing", "messages", "list", "map"]
FILTERS = ["trim", "length", "tojson", "upper", "lower", "string", "first", "last", "list",
           "default('d')", "default('e', true)", "join(', ')", "join", "replace('a', 'bb')",
           "capitalize", "int", "items | list", "reverse | list", "trim('x')",
           "tojson(indent=2)", "title",
           "selectattr('role', 'equalto', 'user') | list", "map(attribute='role') | list",
           "map('upper') | list", "select('string') | list", "reject('equalto', 'a') | list",
           "rejectattr('content') | list", "abs",
           "indent(2)", "indent(1, true)"]
TESTS = ["defined", "undefined", "none", "string", "mapping", "iterable", "number", "sequence",
         "true", "false", "boolean", "integer", "odd", "even", "equalto('a')", "in ['a', 1]",
         "divisibleby 2", "float"]
METHODS = ["strip()", "lstrip()", "rstrip()", "split(',')", "split()", "startswith('a')",
           "endswith('c\\n')", "upper()", "strip('\\n')", "split('</think>')[-1]", "items() | list",
           "get('role')", "get('z', 'q')", "keys() | list", "replace('a', 'o')", "find('b')",
           "title()",
           "split(',', 1)", "count('a')", "lower()", "capitalize()", "values() | list",
           "split(' ', 0)",
           "split(None, 1)"]
OPERATORS = ["+", "-", "*", "/", "//", "%", "~", "==", "!=", "<", ">", "<=", ">=", "in", "not in",
             "and", "or"]


class Maker:
    def __init__(self, seed):
        self.r = random.Random(seed)

    def pick(self, *choices):
        return self.r.choice(choices)

    def value(self):
        kind = self.r.randrange(9)
        if kind < 3:
            return self.r.choice(NAMES)
        if kind == 3:
            return self.pick("0", "1", "2", "3", "-1", "2.5", "1e3", "0.1")
        if kind == 4:
            return self.pick("true", "false", "none")
        if kind == 5:
            return self.pick("[]", "[1, 'a']", "['a', 'b', 'c']", "{'role': 'r', 'k': 1}", "(1, 2)",
                             "{}", "[[1, 2], [3]]")
        return self.r.choice(TEXTS)

    def expression(self, depth):
        if depth == 0:
            return self.value()
        inner, kind = self.expression(depth - 1), self.r.randrange(12)
        if kind < 2:
            return "%s %s %s" % (inner, self.r.choice(OPERATORS), self.expression(depth - 1))
        if kind < 4:
            return "(%s) | %s" % (inner, self.r.choice(FILTERS))
        if kind == 4:
            return "(%s).%s" % (inner, self.r.choice(METHODS))
        if kind == 5:
            return "%s is %s%s" % (inner, self.pick("", "not "), self.r.choice(TESTS))
        if kind == 6:
            return "(%s)[%s]" % (inner, self.pick("0", "-1", "'role'", "1:", ":-1", "::-1", "::2",
                                                  "1:2", "-2:", "5", "3:0:-1"))
        if kind == 7:
            return "(%s if %s else %s)" % (inner, self.expression(depth - 1), self.value())
        if kind == 8:
            return "not %s" % inner
        if kind == 9:
            return "messages[%s].%s" % (self.pick("0", "-1", "1"), self.pick("role", "content",
                                                                             "other"))
        return "(%s)" % inner

    def tag(self, text):
        return "{%%%s %s %s%%}" % (self.pick("", "", "-", "+"), text, self.pick("", "", "-", "+"))

    def statement(self, depth):
        kind = self.r.randrange(9 if depth else 4)
        if kind < 2:
            return "{{%s %s %s}}" % (self.pick("", "-"), self.expression(self.r.randrange(4)),
                                     self.pick("", "-"))
        if kind == 2:
            return self.pick("text ", "\n", "  \n  ", " ", "a\n", "{# note #}", "  {#- note -#}\n",
                             "\t", "{", "}")
        if kind == 3:
            return self.tag("set %s = %s" % (self.pick("x", "y", "n"),
                                             self.expression(self.r.randrange(3))))
        body = self.body(depth - 1)
        if kind < 6:
            return "%s%s%s%s%s" % (self.tag("if " + self.expression(2)), body, self.tag("else"),
                                   self.body(depth - 1), self.tag("endif"))
        if kind == 6:
            jump = self.tag("if loop.index == 2") + self.tag(self.pick("break", "continue"))
            jump = self.pick("", "", jump + self.tag("endif"))
            return "%s%s%s{{ loop.%s }}%s" % (
                self.tag("for item in %s%s" % (self.pick("messages", "[1, 2, 3]", "'abc'",
                                                         "messages[0]", "range(3)", "nothing"),
                                               self.pick("", "", " if item != 2"))),
                body, jump, self.pick("index", "index0", "first", "last", "length", "revindex0"),
                self.tag("endfor"))
        if kind == 7:
            return "%s%s%s{{ ns.v }}" % (self.tag("set ns = namespace(v=%s)" % self.value()), body,
                                         self.tag("set ns.v = %s" % self.expression(1)))
        return "%s%s%s{{ f(%s) }}" % (self.tag("macro f(x, y='d')"), body, self.tag("endmacro"),
                                      self.pick("1", "'a', 2", "y='z', x=1", ""))

    def body(self, depth):
        return "".join(self.statement(depth) for _ in range(self.r.randrange(1, 4)))


def make_cases(count):
    """(name, template, chat, variables)"""
    for family, template in templates.FAMILIES.items():
        for chat in templates.CHATS:
            yield family, template, chat, TOKENS
    for thinking in (True, False):
        yield "qwen 3", templates.QWEN_3, templates.CHATS[1], {**TOKENS,
                                                              "enable_thinking": thinking}
    parts = [{"type": "text", "text": "one "}, {"type": "text", "text": "two"}]
    yield "parts", templates.PHI_3, {"messages": [{"role": "user", "content": parts}]}, TOKENS
    for seed in range(count):
        chat = templates.CHATS[seed % len(templates.CHATS)]
        yield "random %d" % seed, Maker(seed).body(seed % 4), chat, {**TOKENS, "n": seed % 5,
                                                             "list": ["p", "q", 3],
                                                             "map": {"k": [1.0, "v"], "z": None}}


def read(path):
    return path.read_bytes().decode() if path.exists() else None


def is_lazy(text):
    """Python's objects that have no text of their own: templates make lists of them."""
    return text and any(word in text for word in ("<generator ", "dict_", "<bound ", "<function ",
                                                  "range(", "<built-in", " object at "))


def compare(folder, number, case, environment):
    """What differs, and how many texts Jinja writes that the library refuses."""
    name, template, chat, variables = case
    wrong, refused = [], 0
    for prompt in (False, True):
        wanted = expect(environment, template, chat, variables, prompt)
        found = read(folder / ("%d.%d" % (number, prompt)))
        error = read(folder / ("%d.error" % number)) or read(folder / ("%d.%d.error" % (number,
                                                                                       prompt)))
        if name.startswith("random") and (found is None or wanted is None or is_lazy(wanted)):
            refused += wanted is not None and not is_lazy(wanted)
        elif found != wanted:
            wrong.append("%s:\n%s\n%s\nshould be %r\nbut is    %r %s" % (
                name, template, json.dumps(chat, ensure_ascii=False), wanted, found, error))
    return wrong, refused


def main(write_chats, count):
    environment = make_environment()
    cases, wrong, written, refused = list(make_cases(count)), [], 0, 0
    warnings.simplefilter("ignore")
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        for i, (_, template, chat, variables) in enumerate(cases):
            (folder / ("%d.jinja" % i)).write_bytes(template.encode())
            (folder / ("%d.jsonl" % i)).write_text(json.dumps(chat) + "\n", "utf-8")
            (folder / ("%d.json" % i)).write_text(json.dumps(variables), "utf-8")
        subprocess.run([write_chats, name, str(len(cases))], check=True, timeout=500)
        for i, case in enumerate(cases):
            differ, errors = compare(folder, i, case, environment)
            wrong += differ
            refused += errors
            written += read(folder / ("%d.0" % i)) is not None
    print("\n\n".join(wrong[:8]))
    print("%d templates and chats, %d written; %d texts differ, %d are refused that Jinja writes"
          % (len(cases), written, len(wrong), refused))
    return len(wrong) > 0 or refused * 10 > written


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], int(sys.argv[2])))
