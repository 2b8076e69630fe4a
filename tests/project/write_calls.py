#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes calls of the public functions, which the headers declare: a new one is called, too.

write_calls.py null OUT DEPENDENCIES      each function with NULL for each of its pointer arguments,
                                          and objects elsewhere, for null_arguments.c
write_calls.py reserved OUT DEPENDENCIES  each function that takes a struct with reserved words, for
                                          test_reserved.c"""
import pathlib
import re
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "include"))
sys.dont_write_bytecode = True
import headers  # noqa: E402

# Handles that null_arguments.c has; of the others there is none, so they are NULL in every call.
OBJECTS = {name: f"o->{name}" for name in (
    "strategy", "model", "optimizer", "dataset", "iterator", "metric", "variable", "function",
    "per_replica", "comm",
    "checkpoint", "layer", "callback", "archive", "event_writer", "tokenizer", "text_lines")}
ABSENT = {"trace", "model_builder", "coordinator", "remote_value", "inference", "event_reader",
          "comm_request", "checkpoint_manager", "custom_op", "pretrained"}
FUNCTIONS = {"rf_lambda_fn": "give_nothing", "rf_model_call_fn": "call_nothing",
             "rf_map_fn": "refuse_element"}
# These take over the layer that all calls share; without one they are called.
SKIPPED = {
    ("rf_layer_bidirectional", "name"), ("rf_layer_bidirectional", "out"),
    ("rf_layer_time_distributed", "name"), ("rf_layer_time_distributed", "out"),
}
COUNTS = {"uint32_t", "uint64_t", "size_t", "int64_t"}


def declarations(text):
    """(result, name, [(type, parameter)]) of every public function; a type is `text` or without
    const and spaces."""
    for result, name, parameters in headers.functions(text):
        kinds = [k.replace(" ", "") for k, _ in parameters]
        yield result, name, [("text" if k == "constchar*" else re.sub(r"const|struct", "", k), p)
                             for k, (_, p) in zip(kinds, parameters)]


def is_pointer(kind):
    return kind == "text" or kind.endswith("*") or kind.endswith("_fn")


def handle(kind):
    return kind.rstrip("*").removeprefix("rf_")


class Call:
    """A call whose argument number `which` is `there`."""

    def __init__(self, name, parameters, which, trace, there="NULL"):
        self.before, self.after, arguments = [], [], []
        for i, (kind, parameter) in enumerate(parameters):
            arguments.append(there if i == which else self.value(kind, i, trace))
        self.label = f"{name}({parameters[which][1]})"
        self.call = f"{name}({', '.join(arguments)})"

    def value(self, kind, i, trace):
        if kind == "rf_trace*":
            return "t" if trace else "NULL"
        if kind.endswith("_fn"):
            return FUNCTIONS.get(kind, "NULL")
        if kind == "text":
            return '"x"'
        if kind.endswith("**"):
            self.before.append(f"void *out{i} = NULL;")
            if f"rf_{handle(kind)}_destroy" in DESTROYERS:
                self.after.append(f"rf_{handle(kind)}_destroy((void *)&out{i});")
            return f"(void *)&out{i}"
        if kind.endswith("*"):
            if handle(kind) in OBJECTS:
                return OBJECTS[handle(kind)]
            return "NULL" if handle(kind) in ABSENT else "zeros(o)"
        if kind in COUNTS:
            return "1"
        return f"({kind}){{ 0 }}" if kind in STRUCTS else "0"


class ReservedCall(Call):
    """test_reserved.c has these objects alone: the struct is looked at before most others."""
    HERE = {"dataset", "layer"}

    def value(self, kind, i, trace):
        if kind == "rf_tensor":
            return "x"
        if kind.endswith("_fn"):
            return f"({kind})never_called"
        if kind.endswith("*") and not kind.endswith("**") and handle(kind) in OBJECTS.keys(
            ) - self.HERE:
            return "NULL"
        return super().value(kind, i, trace)


# Parameters with all defaults, arrays without contents, room for results.
ZEROS = """static void *zeros(struct objects *o)
{
    memset(o->memory, 0, sizeof(o->memory));
    return o->memory;
}
"""
STRUCTS = {"rf_tensor", "rf_shape", "rf_symbol", "rf_variable_list"}
DESTROYERS = set()
# How a function refuses by what it returns; those that trace leave it in the trace.
REFUSALS = {"rf_result": "%s", "double": "as_result(%s)"}


def write_null(text):
    outside, inside = [], []
    found = list(declarations(text))
    for result, name, parameters in found:
        traced = any(kind == "rf_trace*" for kind, _ in parameters)
        for i, (kind, parameter) in enumerate(parameters):
            if not is_pointer(kind) or (name, parameter) in SKIPPED:
                continue
            (inside if traced and kind != "rf_trace*" else outside).append(
                (result, Call(name, parameters, i, trace=traced and kind != "rf_trace*")))
    lines = []
    for group, calls in (("outside", outside), ("inside", inside)):
        argument = "" if group == "outside" else ", rf_trace *t"
        for n, (result, call) in enumerate(calls):
            body = " ".join(call.before)
            keep = "" if result == "void" else f"const {result.removeprefix('const ')} r = "
            use = "" if result == "void" else " (void)r;"
            lines.append(f"static void {group}_{n}(struct objects *o{argument}) "
                         f"{{ (void)o; {body} {keep}{call.call};{use}"
                         f" {' '.join(call.after)} }}")
        lines.append(f"static const struct {group}_call "
                     f"{{ const char *name; void (*fn)(struct objects *o{argument}); }}"
                     f" {group}_calls[] = {{")
        lines += [f'    {{ "{call.label}", {group}_{n} }},' for n, (_, call) in enumerate(calls)]
        lines.append("};")
    return lines + [f"enum {{ NUM_FUNCTIONS = {len(found)} }};"]


def write_reserved(text):
    growing = headers.growing(text)
    lines, rows = [], []
    for (result, name, parameters), (_, _,
                                     declared) in zip(declarations(text), headers.functions(text)):
        traced = any(kind == "rf_trace*" for kind, _ in parameters)
        if not traced and result not in REFUSALS:
            continue  # It has no way to refuse.
        for i, (kind, _) in enumerate(declared):
            struct = re.fullmatch(r"const (rf_\w+) \*", kind)
            if not struct or struct[1] not in growing:
                continue
            call = ReservedCall(name, parameters, i, traced, "params")
            n = len(rows)
            if result in REFUSALS:
                body = f"return {REFUSALS[result] % call.call};"
            else:
                body = f"(void)({call.call}); return rf_trace_status(t);"
            lines.append(f"static rf_result refused_{n}(struct objects *o, rf_trace *t, rf_tensor "
                         f"x, const void *params)"
                         f" {{ (void)o; (void)t; (void)x; {' '.join(call.before)} {body} }}")
            rows.append(
                f'    {{ "{name}", &{struct[1]}_layout, {str(traced).lower()}, refused_{n} }},')
    return lines + ["static const refused_call refused_calls[] = {", *rows, "};"]


def main():
    kind, out, dependencies = sys.argv[1:4]
    text = headers.read()
    DESTROYERS.update(name for _, name, _ in declarations(text) if name.endswith("_destroy"))
    lines = {"null": write_null, "reserved": write_reserved}[kind](text)
    pathlib.Path(out).write_text("\n".join(["/* Written by write_calls.py. */", ZEROS, *lines])
                                 + "\n")
    pathlib.Path(dependencies).write_text("%s: %s\n"
                                          % (out,
                                             " ".join(map(str,
                                                          [headers.__file__, *headers.paths()]))))


main()
