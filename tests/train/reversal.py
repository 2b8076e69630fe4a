# SPDX-License-Identifier: Apache-2.0
"""What the small translators of the fixtures learn: to reverse sequences."""
import numpy as np

START, END, FIRST = 1, 2, 3


def batch(rng, count, sources, targets, vocabulary):
    """Sources, translations that begin with START, and the tokens that follow each of it, padded
    with 0 to `sources` and `targets` places."""
    source, target, following = (np.zeros((count, n), np.int32)
                                 for n in (sources, targets, targets))
    for row in range(count):
        tokens = rng.integers(FIRST, vocabulary, rng.integers(1, targets))
        source[row, :len(tokens)] = tokens
        target[row, 0], target[row, 1:len(tokens) + 1] = START, tokens[::-1]
        following[row, :len(tokens)], following[row, len(tokens)] = tokens[::-1], END
    return source, target, following
