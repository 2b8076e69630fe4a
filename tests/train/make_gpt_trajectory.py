#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes fixtures/gpt.traj: 20 Adam steps of a GPT of 2 layers, 2 heads, 32 wide, 16 tokens, on
counted-up bytes with noise; and fixtures/gpt_bias.traj: the same of one that is smaller, but has
biases.

Needs PyTorch (Debian: python3-torch). The network is that of examples/gpt, written with PyTorch's
own embedding, layer_norm and softmax; trajectory.py describes the file."""
import math
import pathlib

import numpy as np
import torch
import torch.nn.functional as F

import trajectory

VOCABULARY, BATCH, STEPS = 29, 6, 20


class Gpt:
    def __init__(self, layers, heads, width, block, bias):
        self.layers, self.heads, self.width, self.block, self.bias = (
            layers, heads, width, block, bias)

    def initial(self, rng):
        variables = {}

        # larger than a training begins with, so that nothing is nearly linear
        def normal(name, *shape, deviation=0.3):
            variables[name] = (rng.standard_normal(shape) * deviation).astype(np.float32)

        def norm(name):
            variables[name + "/gamma"] = (1 + 0.2 * rng.standard_normal(self.width)).astype(
                np.float32)
            if self.bias:
                normal(name + "/beta", self.width)

        def projection(name, rows, columns):
            normal(name + "/kernel", rows, columns)
            if self.bias:
                normal(name + "/bias", columns)

        normal("tokens/embeddings", VOCABULARY, self.width)
        normal("positions/embeddings", self.block, self.width)
        for i in range(self.layers):
            block = "block_%d/" % i
            norm(block + "norm_1")
            projection(block + "attention/qkv", self.width, 3 * self.width)
            projection(block + "attention/output", self.width, self.width)
            norm(block + "norm_2")
            projection(block + "mlp/expand", self.width, 4 * self.width)
            projection(block + "mlp/contract", 4 * self.width, self.width)
        norm("last_norm")
        return variables

    def loss(self, v, tokens, following):
        def norm(x, name):
            return F.layer_norm(x, (self.width,), weight=v[name + "/gamma"],
                                bias=v.get(name + "/beta"), eps=1e-5)

        def project(x, name):
            return F.linear(x, v[name + "/kernel"].T, v.get(name + "/bias"))

        def attention(x, name):
            heads = (self.heads, self.width // self.heads)
            query, key, value = (part.unflatten(2, heads).transpose(1, 2)
                                 for part in project(x, name + "/qkv").chunk(3, dim=2))
            scores = query @ key.transpose(2, 3) / math.sqrt(self.width // self.heads)
            later = torch.ones(self.block, self.block, dtype=torch.bool).triu(1)
            weights = scores.masked_fill(later, -math.inf).softmax(dim=3)
            return project((weights @ value).transpose(1, 2).flatten(2), name + "/output")

        x = F.embedding(tokens, v["tokens/embeddings"]) + v["positions/embeddings"]
        for i in range(self.layers):
            block = "block_%d/" % i
            x = x + attention(norm(x, block + "norm_1"), block + "attention")
            x = x + project(F.gelu(project(norm(x, block + "norm_2"), block + "mlp/expand")),
                            block + "mlp/contract")
        logits = norm(x, "last_norm") @ v["tokens/embeddings"].T
        return F.cross_entropy(logits.flatten(0, 1), following.flatten())

    def batch(self, rng):
        """Each sequence counts on by a number of its own; one token in eight is any."""
        start, step = rng.integers(0, VOCABULARY, (BATCH, 1)), rng.integers(1, 5, (BATCH, 1))
        tokens = (start + step * np.arange(self.block + 1)) % VOCABULARY
        tokens = np.where(rng.random(tokens.shape) < 0.125,
                          rng.integers(0, VOCABULARY, tokens.shape), tokens).astype(np.int32)
        return np.ascontiguousarray(tokens[:, :-1]), np.ascontiguousarray(tokens[:, 1:])


for name, network in ("gpt", Gpt(2, 2, 32, 16, False)), ("gpt_bias", Gpt(1, 2, 16, 12, True)):
    rng = np.random.default_rng(7)
    trajectory.write(pathlib.Path(__file__).parent / ("fixtures/%s.traj" % name),
                     network.initial(rng),
                     [network.batch(rng) for _ in range(STEPS)], network.loss)
