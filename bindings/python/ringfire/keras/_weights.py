# SPDX-License-Identifier: Apache-2.0
"""Weights of files that name them otherwise than the model does."""

from __future__ import annotations

from typing import Any, List, Mapping, NamedTuple, Optional, Sequence, Tuple, Union

from .._lib import check, ffi, lib, text


class WeightRule(NamedTuple):
    """Which variable gets the tensors of a file whose names match ``pattern``.

    "*" stands for any characters but "/" and ".", "**" for any characters or none; in ``name``
    they are what they stood for. ``name`` None leaves the tensors out. ``perm`` turns dimensions
    as :func:`numpy.transpose`, and with ``reshape`` only the number of numbers has to fit.
    """

    pattern: str
    name: Optional[str]
    perm: Optional[Sequence[int]] = None
    reshape: bool = False


Rules = Union[Mapping[str, Optional[str]], Sequence[WeightRule]]


class WeightReport(NamedTuple):
    """What became of the variables of a model, and which tensors no variable got.

    ``loaded`` and ``mismatched`` have pairs of a variable and a tensor; a mismatch says besides
    what does not fit. ``str()`` gives a line for each but those that were loaded.
    """

    loaded: List[Tuple[str, str]]
    missing: List[str]
    mismatched: List[Tuple[str, str, str]]
    left_over: List[str]
    summary: str = ""

    def __str__(self) -> str:
        return self.summary


def report_of(made: Any) -> WeightReport:
    """Of an ``rf_weight_report``."""
    report = WeightReport([], [], [], [], text(made.summary))
    for note in made.notes[0:made.count]:
        if note.outcome == lib.RF_WEIGHT_LOADED:
            report.loaded.append((text(note.variable), text(note.tensor)))
        elif note.outcome == lib.RF_WEIGHT_MISSING:
            report.missing.append(text(note.variable))
        elif note.outcome == lib.RF_WEIGHT_MISMATCHED:
            report.mismatched.append((text(note.variable), text(note.tensor), text(note.detail)))
        else:
            report.left_over.append(text(note.tensor))
    return report


def load(model: Any, path: bytes, rules: Rules, **flags: bool) -> WeightReport:
    """rf_model_load_weights_with()."""
    listed = [WeightRule(pattern, name) for pattern, name in rules.items()] \
        if isinstance(rules, Mapping) else list(rules)
    kept: List[Any] = []
    array = ffi.new("rf_weight_rule[]", len(listed))
    for target, rule in zip(array, listed):
        kept.append(ffi.new("char[]", rule.pattern.encode()))
        target.pattern = kept[-1]
        if rule.name is not None:
            kept.append(ffi.new("char[]", rule.name.encode()))
            target.name = kept[-1]
        if rule.perm is not None:
            kept.append(ffi.new("int32_t[]", list(rule.perm)))
            target.perm = kept[-1]
            target.num_perm = len(rule.perm)
        target.reshape = rule.reshape
    made = ffi.new("rf_weight_report *")
    params = ffi.new("rf_load_weights_params *", {
        "rules": array, "num_rules": len(listed), "report": made, **flags})
    try:
        check(lib.rf_model_load_weights_with(model, path, params))
        return report_of(made)
    finally:
        lib.rf_weight_report_free(made)
