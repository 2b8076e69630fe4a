# SPDX-License-Identifier: Apache-2.0
"""Decoders of connectionist temporal classification, on the host."""
from __future__ import annotations

from typing import Any, Optional, Sequence, Tuple

import numpy as np

from . import _arrays as arrays
from ._lib import InvalidArgumentError, check, ffi, lib


def _decode(function: Any, predictions: Any, lengths: Optional[Sequence[int]], from_logits: bool,
            **settings: int) -> Tuple[np.ndarray, np.ndarray]:
    array, _kept = arrays.array_in(predictions, arrays.float32)
    params = ffi.new("rf_ctc_decode_params *", {
        "form": lib.RF_LOGITS if from_logits else lib.RF_PROBABILITIES, **settings})
    if lengths is not None:
        if array.shape.rank == 0 or len(lengths) != array.shape.dim[0]:
            raise InvalidArgumentError("input_lengths are %d numbers, for predictions of shape %r" %
                                       (len(lengths), arrays.shape_out(array.shape)))
        numbers = arrays.ints("int32_t", lengths)
        params.input_lengths = numbers
    labels, scores = ffi.new("rf_array *"), ffi.new("rf_array *")
    check(function(array, params, labels, scores))
    return arrays.array_out(labels[0]), arrays.array_out(scores[0])


def ctc_greedy_decoder(predictions: Any, input_lengths: Optional[Sequence[int]] = None,
                       blank: int = 0, from_logits: bool = True) -> Tuple[np.ndarray, np.ndarray]:
    """The labels that the most probable class of each step spells, [n, longest], filled up with -1,
    and the logarithms [n] of these classes' probabilities."""
    return _decode(lib.rf_ctc_greedy_decode, predictions, input_lengths, from_logits, blank=blank)


def ctc_beam_search_decoder(predictions: Any, input_lengths: Optional[Sequence[int]] = None,
                            beam_width: int = 100, top_paths: int = 1, blank: int = 0,
                            from_logits: bool = True) -> Tuple[np.ndarray, np.ndarray]:
    """The most probable labels, [n, top_paths, longest], filled up with -1, and the logarithms [n,
    top_paths] of their probabilities."""
    return _decode(lib.rf_ctc_beam_search_decode, predictions, input_lengths, from_logits,
                   blank=blank, beam_width=beam_width, num_paths=top_paths)


def edit_distance(decoded: Any, references: Any) -> float:
    """Labels that have to be put in, taken out or replaced to make decoded ones the references, for
    each label of these: the character or word error rate. A negative label ends an example."""
    (one, _kept), (other, _kept_too) = (arrays.array_in(a, arrays.int32)
                                        for a in (decoded, references))
    out = ffi.new("double *")
    check(lib.rf_edit_distance(one, other, out))
    return float(out[0])
