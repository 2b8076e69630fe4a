#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes fixtures/lstm.traj: 20 Adam steps of the classifier of examples/lstm with two recurrent
layers.

Needs PyTorch (Debian: python3-torch). The recurrent layers are PyTorch's own lstm over packed
sequences; trajectory.py describes the file."""
import pathlib

import numpy as np
import torch
import torch.nn.functional as F
from torch import _VF
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence

import trajectory

TOKENS, LENGTH, WIDTH, UNITS, DENSE, BATCH, STEPS = 13, 7, 6, (5, 4), 6, 8, 20


def initial(rng):
    variables = {}

    # larger than a training begins with, so that nothing is nearly linear
    def add(name, *shape, deviation=0.4):
        variables[name] = (rng.standard_normal(shape) * deviation).astype(np.float32)

    add("embedding/embeddings", TOKENS, WIDTH, deviation=1.0)
    inputs = WIDTH
    for layer, units in zip(("bidirectional", "bidirectional_1"), UNITS):
        for direction in ("forward", "backward"):
            add("%s/%s/kernel" % (layer, direction), inputs, 4 * units)
            add("%s/%s/recurrent_kernel" % (layer, direction), units, 4 * units)
            add("%s/%s/bias" % (layer, direction), 4 * units)
        inputs = 2 * units
    for layer, rows, columns in ("dense", inputs, DENSE), ("dense_1", DENSE, 1):
        add(layer + "/kernel", rows, columns)
        add(layer + "/bias", columns)
    return variables


def recurrent(v, name, inputs, units):
    """Both directions over a packed sequence: the sequence, and the last state of each."""
    flat = []
    for direction in "forward", "backward":
        path = "%s/%s/" % (name, direction)
        bias = v[path + "bias"]
        flat += [v[path + "kernel"].T.contiguous(), v[path + "recurrent_kernel"].T.contiguous(),
                 bias, torch.zeros_like(bias)]
    zeros = torch.zeros(2, int(inputs.batch_sizes[0]), units, dtype=torch.float64)
    data, last, _ = _VF.lstm(inputs.data, inputs.batch_sizes, (zeros, zeros), flat, True, 1, 0.0,
                             True, True)
    return PackedSequence(data, inputs.batch_sizes), last


def loss(v, tokens, labels):
    order = (tokens != 0).sum(1).sort(descending=True).indices  # the longest first
    tokens, labels = tokens[order], labels[order]
    x = pack_padded_sequence(F.embedding(tokens, v["embedding/embeddings"]), (tokens != 0).sum(1),
                             batch_first=True)
    x, _ = recurrent(v, "bidirectional", x, UNITS[0])
    _, last = recurrent(v, "bidirectional_1", x, UNITS[1])
    y = F.relu(torch.cat([last[0], last[1]], 1) @ v["dense/kernel"] + v["dense/bias"])
    return F.binary_cross_entropy_with_logits(y @ v["dense_1/kernel"] + v["dense_1/bias"], labels)


def batch(rng):
    """The class tells whether the first token is larger than the last. The first text has all
    places, the second one token."""
    tokens, labels = np.zeros((BATCH, LENGTH), np.int32), np.zeros((BATCH, 1), np.float32)
    for row, length in enumerate([LENGTH, 1, *rng.integers(1, LENGTH + 1, BATCH - 2)]):
        tokens[row, :length] = rng.integers(1, TOKENS, length)
        labels[row] = tokens[row, 0] > tokens[row, length - 1]
    return tokens, labels


rng = np.random.default_rng(8)
trajectory.write(pathlib.Path(__file__).parent / "fixtures/lstm.traj", initial(rng),
                 [batch(rng) for _ in range(STEPS)], loss)
