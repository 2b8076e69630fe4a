#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes a call of every public function for each of its pointer arguments, with NULL there and objects elsewhere.

null_arguments.py HEADERS OUT: the functions are those that the headers declare, so a new one is called, too.
null_arguments.c includes OUT and makes the objects."""
import pathlib
import re
import sys

# Handles that null_arguments.c has; of the others there is none, so they are NULL in every call.
OBJECTS = {name: f"o->{name}" for name in (
    "strategy", "model", "optimizer", "dataset", "iterator", "metric", "variable", "function", "per_replica", "comm",
    "checkpoint", "layer", "callback", "archive", "event_writer", "tokenizer", "text_lines")}
ABSENT = {"trace", "model_builder", "coordinator", "remote_value", "inference", "event_reader", "comm_request", "checkpoint_manager", "custom_op"}
FUNCTIONS = {"rf_lambda_fn": "give_nothing", "rf_model_call_fn": "call_nothing",
             "rf_map_fn": "refuse_element"}
SKIPPED = {# It takes over the layer that all calls share; without one it is called.
           ("rf_layer_bidirectional", "name"), ("rf_layer_bidirectional", "out"),
           ("rf_layer_time_distributed", "name"), ("rf_layer_time_distributed", "out")}
COUNTS = {"uint32_t", "uint64_t", "size_t", "int64_t"}


def declarations(headers):
    """(result, name, [(type, parameter)]) of every public function."""
    text = "\n".join(path.read_text() for path in sorted(pathlib.Path(headers).glob("*.h")))
    text = re.sub(r"/\*.*?\*/", "", text, flags=re.S)
    text = re.sub(r"RF_MUST_USE|RF_PRINTF\([^)]*\)", "", text)
    for match in re.finditer(r"^RF_API\s+([^;{}]*?)\b(rf_\w+)\(([^;]*?)\)\s*;", text, flags=re.S | re.M):
        parameters = []
        for p in re.sub(r"\s+", " ", match.group(3)).split(","):
            p = p.strip()
            if p in ("void", "..."):
                continue
            kind, name = re.fullmatch(r"(.*?)(\w+)", p).groups()
            text_in = kind.replace(" ", "") == "constchar*"
            parameters.append(("text" if text_in else re.sub(r"const|struct| ", "", kind), name))
        yield match.group(1).strip(), match.group(2), parameters


def is_pointer(kind):
    return kind == "text" or kind.endswith("*") or kind.endswith("_fn")


def handle(kind):
    return kind.rstrip("*").removeprefix("rf_")


class Call:
    def __init__(self, name, parameters, null, trace):
        self.before, self.after, arguments = [], [], []
        for i, (kind, parameter) in enumerate(parameters):
            arguments.append("NULL" if i == null else self.value(kind, i, trace))
        self.label = f"{name}({parameters[null][1]})"
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


STRUCTS = {"rf_tensor", "rf_shape", "rf_symbol", "rf_variable_list"}
DESTROYERS = set()


def main():
    found = list(declarations(sys.argv[1]))
    DESTROYERS.update(name for _, name, parameters in found if name.endswith("_destroy"))
    outside, inside = [], []
    for result, name, parameters in found:
        traced = any(kind == "rf_trace*" for kind, _ in parameters)
        for i, (kind, parameter) in enumerate(parameters):
            if not is_pointer(kind) or (name, parameter) in SKIPPED:
                continue
            (inside if traced and kind != "rf_trace*" else outside).append(
                (result, Call(name, parameters, i, trace=traced and kind != "rf_trace*")))
    lines = ["/* Written by null_arguments.py. */"]
    for group, calls in (("outside", outside), ("inside", inside)):
        argument = "" if group == "outside" else ", rf_trace *t"
        for n, (result, call) in enumerate(calls):
            body = " ".join(call.before)
            keep = "" if result == "void" else f"const {result.removeprefix('const ')} r = "
            use = "" if result == "void" else " (void)r;"
            lines.append(f"static void {group}_{n}(struct objects *o{argument}) {{ (void)o; {body} {keep}{call.call};{use}"
                         f" {' '.join(call.after)} }}")
        lines.append(f"static const struct {group}_call {{ const char *name; void (*fn)(struct objects *o{argument}); }}"
                     f" {group}_calls[] = {{")
        lines += [f'    {{ "{call.label}", {group}_{n} }},' for n, (_, call) in enumerate(calls)]
        lines.append("};")
    lines.append(f"enum {{ NUM_FUNCTIONS = {len(found)} }};")
    pathlib.Path(sys.argv[2]).write_text("\n".join(lines) + "\n")


main()
