# SPDX-License-Identifier: Apache-2.0
"""Writes the parts of the Python package that follow from the public headers alone.

cdef.py HEADERS_PY cdef OUT DEPFILE   _cdef.py, which cffi loads: types, constants and functions
cdef.py HEADERS_PY ops OUT DEPFILE    _ops.py: a Python function for each tracing function whose
                                      arguments are tensors and numbers, with its comment"""
import contextlib
import importlib.util
import pathlib
import re
import sys
import tempfile
import textwrap


def load(path):
    spec = importlib.util.spec_from_file_location("headers", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def ordered(paths):
    """The headers, each after those that it includes."""
    by_name, done, order = {p.name: p for p in paths}, set(), []

    def visit(name):
        if name in done:
            return
        done.add(name)
        for other in re.findall(r"#include <ringfire/(\w+\.h)>", by_name[name].read_text()):
            visit(other)
        order.append(by_name[name])

    for name in sorted(by_name):
        visit(name)
    return order


def declarations(paths):
    """All headers as one text that cffi's parser reads."""
    text = "\n".join(p.read_text() for p in ordered(paths))
    text = re.sub(r"/\*.*?\*/", "", text, flags=re.S)
    constants = re.findall(r"^#define (RF_\w+) \(?(-?\d+)\)?$", text, re.M)
    text = re.sub(r"^#(?:.*\\\n)*.*$", "", text, flags=re.M)
    text = re.sub(r'extern "C" \{|^\}\s*$', "", text, flags=re.M)
    text = re.sub(r"\bRF_API\b|\bRF_MUST_USE\b|\bRF_PRINTF\([^)]*\)", "", text)
    return "".join("#define %s %s\n" % c for c in constants) + re.sub(r"\n\s*\n+", "\n", text)


def write_cdef(headers, out):
    import cffi
    builder = cffi.FFI()
    builder.cdef(declarations(headers.paths()))
    builder.set_source("_cdef", None)
    with tempfile.TemporaryDirectory() as folder:
        made = pathlib.Path(folder) / "_cdef.py"
        with contextlib.redirect_stdout(None):
            builder.emit_python_code(str(made))
        out.write_text("# mypy: ignore-errors\n" + made.read_text())


# ---- functions of operations ----

# Arguments that are not tensors: how Python calls their type.
NUMBERS = {
    "float": "float",
    "double": "float",
    "bool": "bool",
    "int32_t": "int",
    "uint32_t": "int",
    "int64_t": "int",
    "uint64_t": "int",
}
# Enumerations that Python's users know as booleans of these names, with the same values.
BOOLEANS = {"rf_gelu_form": ["approximate"], "rf_prediction_form": ["from_logits"],
            "rf_matmul_transpose": ["transpose_a", "transpose_b"]}
# What a call leaves out. Numbers for which the header says what 0 means have 0.
DEFAULTS = {
    "bool": "False",
    ("leaky_relu", "alpha"): "0.2",
    ("elu", "alpha"): "1.0",
    ("random_uniform", "low"): "0.0",
    ("random_uniform", "high"): "1.0",
    ("gather", "axis"): "0",
    "epsilon": "0.0",
    "seed": "0",
    "steps": "0",
    "groups": "0",
    "delta": "0.0",
}
# Written by hand in _functions.py, in the form that Python's users know.
BY_HAND = {
    "reshape", "cast", "variable_tensor", "constant", "argmax", "argmin", "cumsum", "cumprod",
    "compare", "activate", "sort", "argsort", "group_norm", "slice_update", "layer_norm",
    "rms_norm", "softmax", "log_softmax", "expand_dims", "squeeze"
}


def comments(text):
    """The comment before each function, as a docstring."""
    found = {}
    for comment, name in re.findall(
            r"/\*\*((?:(?!\*/).)*)\*/\s*RF_API[^;{}]*?\brf_(\w+)\(", text, re.S):
        lines = [re.sub(r"^\s*\*? ?", "", line).rstrip() for line in comment.splitlines()]
        body = "\n".join(lines).strip()
        body = re.sub(r"::?\brf_(\w+)\(\)|\brf_(\w+)\(\)", lambda m: "%s()" % (m[1] or m[2]), body)
        found[name] = body.replace("\\", "\\\\").replace('"""', "'''")
    return found


def pythonic(parameters):
    """Parameters as Python has them: booleans in the place of enumerations that stand for them."""
    for kind, p in parameters:
        yield from (("bool", b) for b in BOOLEANS[kind]) if kind in BOOLEANS else [(kind, p)]


def simple(name, result, parameters):
    """Whether a function takes tensors and numbers only, and makes one tensor."""
    return (result == "rf_tensor" and name not in BY_HAND and parameters
            and parameters[0][0] == "rf_trace *"
            and all(kind == "rf_tensor" or kind in NUMBERS for kind, _ in parameters[1:]))


def function(name, parameters, comment):
    arguments, passed, optional = [], [], False
    # A default is possible where all arguments behind have one.
    defaults = []
    for kind, p in reversed(parameters[1:]):
        default = DEFAULTS.get((name, p)) or DEFAULTS.get(kind) or DEFAULTS.get(p)
        optional = kind != "rf_tensor" and default is not None and (not defaults
                                                                     or defaults[-1] is not None)
        defaults.append(default if optional else None)
    for (kind, p), default in zip(parameters[1:], reversed(defaults)):
        typed = "TensorLike" if kind == "rf_tensor" else NUMBERS[kind]
        arguments.append("%s: %s%s" % (p, typed, "" if default is None else " = " + default))
        passed.append("t.take(%s, %r)" % (p, p) if kind == "rf_tensor" else p)
    tensors = [p for kind, p in parameters[1:] if kind == "rf_tensor"]
    doc = textwrap.indent('"""%s"""' % (comment + ("\n" if "\n" in comment else "")), "    ")
    given = ", ".join(["t.pointer"] + passed)
    given = given.replace("transpose_a, transpose_b", "transpose_a + 2 * transpose_b")
    return ("\n\n@operation\ndef %s(%s) -> Tensor:\n%s\n    t = trace_of(%s, %s)\n"
            "    return t.made(lib.rf_%s(%s))\n" % (name, ", ".join(arguments), doc, repr(name),
                                                   ", ".join(tensors) or "None", name, given))


OPS_HEAD = '''# SPDX-License-Identifier: Apache-2.0
"""Operations of a step, written from ringfire/ops.h by cdef.py."""
from __future__ import annotations

from ._eager import operation
from ._lib import lib
from ._trace import Tensor, TensorLike, trace_of

'''


def write_ops(headers, out):
    path = next(p for p in headers.paths() if p.name == "ops.h")
    text = path.read_text()
    documented = comments(text)
    plain = re.sub(r"/\*.*?\*/", "", text, flags=re.S)
    made = [(name, parameters) for name, result, parameters in
            ((name[3:], result, list(pythonic(parameters)))
             for result, name, parameters in headers.functions(plain))
            if simple(name, result, parameters)]
    out.write_text(OPS_HEAD + "__all__ = %s\n" % textwrap.fill(
        repr(sorted(name for name, _ in made)), 98, subsequent_indent="    ") + "".join(
            function(name, parameters, documented[name]) for name, parameters in made))


def main():
    headers, kind, out, depfile = load(sys.argv[1]), sys.argv[2], sys.argv[3], sys.argv[4]
    {"cdef": write_cdef, "ops": write_ops}[kind](headers, pathlib.Path(out))
    pathlib.Path(depfile).write_text("%s: %s\n" % (out, " ".join(map(str, headers.paths()))))


if __name__ == "__main__":
    main()
