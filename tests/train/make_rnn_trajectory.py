#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes fixtures/rnn.traj: 20 Adam steps of a classifier of sequences: embedding, bidirectional
LSTM, GRU, simple recurrent layer.

Needs PyTorch (Debian: python3-torch). The layers are PyTorch's own lstm, gru and rnn_tanh over
packed sequences, so that padding is never seen; trajectory.py describes the file."""
import pathlib

import numpy as np
import torch
import torch.nn.functional as F
from torch import _VF
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence

import trajectory
from recurrent import gates, weights

TOKENS, WIDTH, UNITS, LENGTH, BATCH, STEPS, CLASSES = 12, 5, 4, 6, 6, 20, 3


def initial(rng):
    variables = {}

    # larger than a training begins with, so that nothing is nearly linear
    def add(name, *shape, deviation=0.5):
        variables[name] = (rng.standard_normal(shape) * deviation).astype(np.float32)

    def layer(name, inputs, gates, bias="bias"):
        add(name + "/kernel", inputs, gates * UNITS)
        add(name + "/recurrent_kernel", UNITS, gates * UNITS)
        add(name + "/" + bias, gates * UNITS)

    add("embedding/embeddings", TOKENS, WIDTH)
    layer("bidirectional/forward", WIDTH, 4)
    layer("bidirectional/backward", WIDTH, 4)
    layer("gru", 2 * UNITS, 3, "recurrent_bias")
    add("gru/bias", 3 * UNITS)
    layer("simple_rnn", UNITS, 1)
    add("dense/kernel", UNITS, CLASSES)
    return variables


def loss(v, tokens, labels):
    lengths = (tokens != 0).sum(1)  # batches are sorted by it, the longest first
    packed = pack_padded_sequence(F.embedding(tokens, v["embedding/embeddings"]), lengths,
                                  batch_first=True)
    zeros = torch.zeros(2, len(tokens), UNITS, dtype=torch.float64)

    def run(function, data, state, flat, bidirectional=False):
        return function(data, packed.batch_sizes, state, flat, True, 1, 0.0, True, bidirectional)

    x, _, _ = run(_VF.lstm, packed.data, (zeros, zeros),
                  weights(v, "bidirectional/forward") + weights(v, "bidirectional/backward"), True)
    x, _ = run(_VF.gru, x, zeros[:1], weights(v, "gru", gates))
    _, last = run(_VF.rnn_tanh, x, zeros[:1], weights(v, "simple_rnn"))
    assert isinstance(packed, PackedSequence)
    return F.cross_entropy(last[0] @ v["dense/kernel"], labels)


def batch(rng):
    """The class is that of the sum of the tokens; 0 pads. The first sequence is whole, the last is
    one token."""
    lengths = np.sort(np.concatenate([[LENGTH, 1], rng.integers(1, LENGTH + 1, BATCH - 2)]))[::-1]
    tokens = np.zeros((BATCH, LENGTH), np.int32)
    for row, length in enumerate(lengths):
        tokens[row, :length] = rng.integers(1, TOKENS, length)
    return tokens, (tokens.sum(1) % CLASSES).astype(np.int32)


rng = np.random.default_rng(5)
trajectory.write(pathlib.Path(__file__).parent / "fixtures/rnn.traj", initial(rng),
                 [batch(rng) for _ in range(STEPS)], loss)
