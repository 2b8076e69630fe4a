# SPDX-License-Identifier: Apache-2.0
"""Holds docs/reference/operations.md to the public headers and to the exporter's table of ONNX.

Usage: operations_page.py ROOT [--write]"""
import pathlib
import re
import sys

HEAD = """# Operations and layers

These are the operations of a step, the layers of models, and their forms in ONNX.
`tests/project/operations_page.py . --write` writes this page from headers and sources.
The headers say more of each: shapes, types, defaults and errors.
"""
ONNX = """
## Forms in ONNX

An exported graph has IR 8 and opset 13.
A step's functions become the operations of this table; a function may need several of them.
"""
LEFT = """
Dropout is left out, and gradients and updates are never part of an exported graph.
An export that meets one of these operations fails and names it: %s.
`attention` is `RF_ATTENTION_FUSED`; the other forms of attention are exported.
"""
# Operations of training, which no forward pass for inference has.
TRAINING = re.compile(r"_grad$|_update$|_packed$|dropout|"
                      r"^(average|batch|lamb|loss|metric|muon|update)_|"
                      r"^(accumulate|all_replica_sum|assign|block_squares|mean_scale|normalize|"
                      r"overflow_check|overwrite|regroup|unscale)$")
FUNCTION = re.compile(
    r"/\*\*((?:(?!\*/).)*)\*/\s*RF_API (?:RF_MUST_USE )?([\w\s]+[\s*])(rf_\w+)\(([^;]*);", re.S)
LONGEST = 30


def first_sentence(comment):
    """As a cell of a table: without marks of Doxygen, cut where a clause ends if it is long."""
    text = " ".join(re.sub(r"(?m)^\s*\*", "", comment).split())
    text = re.split(r"(?<!e\.g)(?<!et al)(?<!\.)[.;](?:\s|$)| @", text)[0]
    while len(text.split()) > LONGEST:
        text = re.split(r"[:,](?!.*[:,] )|$", text)[0]
    text = re.sub(r"(::)?\b(rf_\w+(?:::\w+)?(?:\(\))?|RF_\w+)", r"`\2`", text)
    return text.replace("|", "\\|").rstrip(":,")


def functions(text, kind, parameter):
    """Public functions in the order of a header that return `kind` and have such a parameter."""
    for comment, returned, name, parameters in FUNCTION.findall(text):
        if returned.strip() == kind and parameter in parameters:
            yield name, first_sentence(comment)


def table(heading, rows):
    return "\n## %s\n\n| function | result |\n|---|---|\n%s" % (heading, "".join(
        "| `%s()` | %s |\n" % row for row in rows))


def bodies(text):
    """Static functions of a C file by name."""
    return {name: body for name, body in re.findall(
        r"^(?:static )?[\w *]*?(\w+)\([^;{}]*\)\n\{\n(.*?)^\}", text, re.M | re.S)}


def operators(name, found, seen):
    """Names of ONNX operators in a function and those that it calls."""
    seen.add(name)
    body = found[name]
    names = re.findall(r'"([A-Z][A-Za-z0-9]+)"', body)
    for other in re.findall(r"\b(\w+)\(", body):
        if other in found and other not in seen:
            names += operators(other, found, seen)
    return names


def forms(root):
    """(operation, names of ONNX operators) of the exporter's table, and the operations it lacks."""
    folder = root / "src/train/files"
    text = (folder / "onnx_ops.c").read_text()
    found = bodies(text + (folder / "onnx_rnn.c").read_text())
    found["scalar_node"] += text[text.index("plain[RF_FN_COUNT] = {"):].split("};")[0]
    rows = [(op, sorted(set(operators(function, found, set()))))
            for op, function in re.findall(r"\{ &rf_op_(\w+), (\w+) \}", text)]
    every = re.findall(r"OP\((\w+)\)", (root / "src/ops/op_list.h").read_text())
    told = {op for op, _ in rows}
    others = [op for op in every if op not in told and not TRAINING.search(op)]
    return rows, others


def page(root):
    headers = root / "include/ringfire"
    ops, ctc, train = [(headers / name).read_text() for name in ("ops.h", "ctc.h", "train.h")]
    rows, others = forms(root)
    text = HEAD + table("Operations of a step", functions(ops, "rf_tensor", "rf_trace *"))
    text += table("Losses and models in a step", functions(ctc + train, "rf_tensor", "rf_trace *"))
    text += table("Layers", functions((headers / "layers.h").read_text(), "rf_result",
                                      "rf_layer **out"))
    text += ONNX + "\n| operation | ONNX |\n|---|---|\n" + "".join(
        "| `%s` | %s |\n" % (op, ", ".join(names) or "its input") for op, names in rows)
    return text + LEFT % ", ".join("`%s`" % op for op in others)


def main():
    root = pathlib.Path(sys.argv[1])
    path, text = root / "docs/reference/operations.md", page(root)
    if "--write" in sys.argv:
        path.write_text(text)
    rows = len(re.findall(r"(?m)^\| `", text))
    same = path.exists() and path.read_text() == text
    print("%d rows" % rows if same else "docs/reference/operations.md is not what the sources say: "
          "%s %s --write" % (sys.argv[0], root))
    sys.exit(0 if same and rows > 150 else 1)


main()
