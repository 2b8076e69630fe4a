#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes fixtures/nmt_gru.traj: 20 Adam steps of gated recurrent units with additive attention that
reverse short sequences.

Needs PyTorch (Debian: python3-torch). The encoder is PyTorch's own gru over packed sequences, the
decoder its gru_cell; trajectory.py describes the file."""
import pathlib

import numpy as np
import torch
import torch.nn.functional as F
from torch import _VF
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence, PackedSequence

import reversal
import trajectory

WIDTH, UNITS, SOURCES, TARGETS, FROM, TO, BATCH, STEPS = 6, 10, 13, 11, 9, 7, 6, 20


def initial(rng):
    variables = {}

    # larger than a training begins with, so that nothing is nearly linear
    def add(name, *shape, deviation=0.4):
        variables[name] = (rng.standard_normal(shape) * deviation).astype(np.float32)

    def gated(name, inputs):
        add(name + "/kernel", inputs, 3 * UNITS)
        add(name + "/bias", 3 * UNITS, deviation=0.1)
        add(name + "/recurrent_kernel", UNITS, 3 * UNITS)
        add(name + "/recurrent_bias", 3 * UNITS, deviation=0.1)

    def projection(name, inner, outer):
        add(name + "/kernel", inner, outer)
        add(name + "/bias", outer, deviation=0.1)

    add("source/embeddings", SOURCES, WIDTH, deviation=1.0)
    add("target/embeddings", TARGETS, WIDTH, deviation=1.0)
    gated("encoder", WIDTH)
    projection("attention/memory", UNITS, UNITS)
    projection("attention/query", UNITS, UNITS)
    projection("attention/score", UNITS, 1)
    gated("decoder", UNITS + WIDTH)
    projection("classifier", UNITS, TARGETS)
    return variables


def weights(v, name):
    """Columns in the order update, reset, candidate -> rows in PyTorch's: reset, update,
    candidate."""
    def reorder(x):
        update, reset, candidate = x.split(UNITS, -1)
        return torch.cat([reset, update, candidate], -1)

    kernels = [reorder(v["%s/%s" % (name, part)]).T.contiguous()
               for part in ("kernel", "recurrent_kernel")]
    return kernels + [reorder(v["%s/%s" % (name, part)]) for part in ("bias", "recurrent_bias")]


def loss(v, source, target, following):
    def project(x, name):
        return x @ v[name + "/kernel"] + v[name + "/bias"]

    lengths = (source != 0).sum(1)
    packed = pack_padded_sequence(F.embedding(source, v["source/embeddings"]), lengths,
                                  batch_first=True, enforce_sorted=False)
    zeros = torch.zeros(1, len(source), UNITS, dtype=torch.float64)
    data, last = _VF.gru(packed.data, packed.batch_sizes, zeros, weights(v, "encoder"), True, 1,
                         0.0, True, False)
    memory, _ = pad_packed_sequence(
        PackedSequence(data, packed.batch_sizes, packed.sorted_indices, packed.unsorted_indices),
                                    batch_first=True, total_length=FROM)
    state, states = last[0][packed.unsorted_indices], []
    for i in range(TO):
        scores = project(torch.tanh(project(memory, "attention/memory")
                                    + project(state, "attention/query")[:, None]),
                         "attention/score")[:, :, 0]
        seen = scores.masked_fill(source == 0, -torch.inf).softmax(1)
        context = (seen[:, :, None] * memory).sum(1)
        state = _VF.gru_cell(torch.cat([context, F.embedding(target[:, i], v["target/embeddings"])],
                                       1), state, *weights(v, "decoder"))
        states.append(state)
    logits = project(torch.stack(states, 1), "classifier")
    return F.cross_entropy(logits.flatten(0, 1), following.flatten(), ignore_index=0,
                           reduction="sum") / len(source)


rng = np.random.default_rng(12)
trajectory.write(pathlib.Path(__file__).parent / "fixtures/nmt_gru.traj", initial(rng),
                 [reversal.batch(rng, BATCH, FROM, TO, TARGETS) for _ in range(STEPS)], loss)
