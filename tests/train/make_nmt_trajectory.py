#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes fixtures/nmt.traj: 20 Adam steps of a transformer of 2 + 2 layers, 2 heads, 16 wide, that
reverses short sequences.

Needs PyTorch (Debian: python3-torch). The network is that of examples/nmt, written with PyTorch's
own embedding, layer_norm and softmax; trajectory.py describes the file."""
import math
import pathlib

import numpy as np
import torch
import torch.nn.functional as F

import reversal
import trajectory

LAYERS, HEADS, WIDTH, KEY, INNER, SOURCES, TARGETS, FROM, TO, BATCH, STEPS = (
    2, 2, 16, 12, 24, 13, 11, 9, 7, 6, 20)


def initial(rng):
    variables = {}

    # larger than a training begins with, so that nothing is nearly linear
    def add(name, *shape, deviation=0.3, mean=0.0):
        variables[name] = (mean + rng.standard_normal(shape) * deviation).astype(np.float32)

    def projection(name, inner, outer):
        add(name + "/kernel", inner, outer)
        add(name + "/bias", outer, deviation=0.1)

    def norm(path):
        add(path + "norm/gamma", WIDTH, deviation=0.2, mean=1.0)
        add(path + "norm/beta", WIDTH, deviation=0.1)

    def attention(path):
        projection(path + "query", WIDTH, HEADS * KEY)
        projection(path + "key_value", WIDTH, 2 * HEADS * KEY)
        projection(path + "output", HEADS * KEY, WIDTH)
        norm(path)

    def perceptron(path):
        projection(path + "expand", WIDTH, INNER)
        projection(path + "contract", INNER, WIDTH)
        norm(path)

    add("source/embeddings", SOURCES, WIDTH)
    add("target/embeddings", TARGETS, WIDTH)
    for i in range(LAYERS):
        attention("encoder_%d/self/" % i)
        perceptron("encoder_%d/perceptron/" % i)
    for i in range(LAYERS):
        attention("decoder_%d/self/" % i)
        attention("decoder_%d/cross/" % i)
        perceptron("decoder_%d/perceptron/" % i)
    projection("classifier", WIDTH, TARGETS)
    return variables


def positions(length):
    times = torch.arange(length, dtype=torch.float64)[:, None]
    angles = times / 10000 ** (torch.arange(WIDTH // 2, dtype=torch.float64) / (WIDTH // 2))
    return torch.cat([angles.sin(), angles.cos()], 1)


class Walk:
    """The network's parts, with the variables of one call."""

    def __init__(self, v):
        self.v = v

    def project(self, x, name):
        return x @ self.v[name + "/kernel"] + self.v[name + "/bias"]

    def add_normalized(self, x, y, path):
        return F.layer_norm(x + y, (WIDTH,), self.v[path + "norm/gamma"],
                            self.v[path + "norm/beta"], 1e-3)

    def attend(self, x, memory, path, hidden):
        def heads(y):
            return y.unflatten(2, (HEADS, KEY)).transpose(1, 2)

        query = heads(self.project(x, path + "query"))
        key, value = (heads(part) for part in self.project(memory, path + "key_value").chunk(2, 2))
        scores = (query @ key.transpose(2, 3) / math.sqrt(KEY)).masked_fill(hidden, -math.inf)
        mixed = (scores.softmax(3) @ value).transpose(1, 2).flatten(2)
        return self.add_normalized(x, self.project(mixed, path + "output"), path)

    def think(self, x, path):
        return self.add_normalized(x,
                                   self.project(F.relu(self.project(x, path + "expand")),
                                                path + "contract"), path)

    def embed(self, tokens, table):
        return F.embedding(tokens, self.v[table]) * math.sqrt(WIDTH) + positions(tokens.shape[1])


def loss(v, source, target, following):
    w = Walk(v)
    padding, later = (source == 0)[:, None, None, :], torch.ones(TO, TO, dtype=torch.bool).triu(1)
    memory = w.embed(source, "source/embeddings")
    for i in range(LAYERS):
        memory = w.think(w.attend(memory, memory, "encoder_%d/self/" % i, padding),
                         "encoder_%d/perceptron/" % i)
    x = w.embed(target, "target/embeddings")
    for i in range(LAYERS):
        x = w.attend(x, x, "decoder_%d/self/" % i, later)
        x = w.attend(x, memory, "decoder_%d/cross/" % i, padding)
        x = w.think(x, "decoder_%d/perceptron/" % i)
    return F.cross_entropy(w.project(x, "classifier").flatten(0, 1), following.flatten(),
                           ignore_index=0, reduction="sum") / len(source)


rng = np.random.default_rng(11)
trajectory.write(pathlib.Path(__file__).parent / "fixtures/nmt.traj", initial(rng),
                 [reversal.batch(rng, BATCH, FROM, TO, TARGETS) for _ in range(STEPS)], loss)
