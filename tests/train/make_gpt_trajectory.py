#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes fixtures/gpt.traj: 20 Adam steps of a GPT of 2 layers, 2 heads, 32 wide, 16 tokens, on counted-up bytes with noise.

Needs PyTorch (Debian: python3-torch). The network is that of examples/gpt, written with PyTorch's own embedding, layer_norm and
softmax; trajectory.py describes the file."""
import math
import pathlib

import numpy as np
import torch
import torch.nn.functional as F

import trajectory

LAYERS, HEADS, WIDTH, BLOCK, VOCABULARY, BATCH, STEPS = 2, 2, 32, 16, 29, 6, 20


def initial(rng):
    def normal(*shape, deviation=0.3):  # larger than a training begins with, so that nothing is nearly linear
        return (rng.standard_normal(shape) * deviation).astype(np.float32)

    def gain():
        return (1 + 0.2 * rng.standard_normal(WIDTH)).astype(np.float32)

    variables = {"tokens/embeddings": normal(VOCABULARY, WIDTH), "positions/embeddings": normal(BLOCK, WIDTH)}
    for i in range(LAYERS):
        block = "block_%d/" % i
        variables[block + "norm_1/gamma"] = gain()
        variables[block + "attention/qkv/kernel"] = normal(WIDTH, 3 * WIDTH)
        variables[block + "attention/output/kernel"] = normal(WIDTH, WIDTH)
        variables[block + "norm_2/gamma"] = gain()
        variables[block + "mlp/expand/kernel"] = normal(WIDTH, 4 * WIDTH)
        variables[block + "mlp/contract/kernel"] = normal(4 * WIDTH, WIDTH)
    variables["last_norm/gamma"] = gain()
    return variables


def norm(x, gain):
    return F.layer_norm(x, (WIDTH,), weight=gain, eps=1e-5)


def attention(x, qkv, output):
    query, key, value = (part.unflatten(2, (HEADS, WIDTH // HEADS)).transpose(1, 2) for part in (x @ qkv).chunk(3, dim=2))
    scores = query @ key.transpose(2, 3) / math.sqrt(WIDTH // HEADS)
    later = torch.ones(BLOCK, BLOCK, dtype=torch.bool).triu(1)
    weights = scores.masked_fill(later, -math.inf).softmax(dim=3)
    return (weights @ value).transpose(1, 2).flatten(2) @ output


def loss(v, tokens, following):
    x = F.embedding(tokens, v["tokens/embeddings"]) + v["positions/embeddings"]
    for i in range(LAYERS):
        block = "block_%d/" % i
        x = x + attention(norm(x, v[block + "norm_1/gamma"]), v[block + "attention/qkv/kernel"], v[block + "attention/output/kernel"])
        inner = F.gelu(norm(x, v[block + "norm_2/gamma"]) @ v[block + "mlp/expand/kernel"])
        x = x + inner @ v[block + "mlp/contract/kernel"]
    logits = norm(x, v["last_norm/gamma"]) @ v["tokens/embeddings"].T
    return F.cross_entropy(logits.flatten(0, 1), following.flatten())


def batch(rng):
    """Each sequence counts on by a number of its own; one token in eight is any."""
    start, step = rng.integers(0, VOCABULARY, (BATCH, 1)), rng.integers(1, 5, (BATCH, 1))
    tokens = (start + step * np.arange(BLOCK + 1)) % VOCABULARY
    tokens = np.where(rng.random(tokens.shape) < 0.125, rng.integers(0, VOCABULARY, tokens.shape), tokens).astype(np.int32)
    return np.ascontiguousarray(tokens[:, :-1]), np.ascontiguousarray(tokens[:, 1:])


rng = np.random.default_rng(7)
trajectory.write(pathlib.Path(__file__).parent / "fixtures/gpt.traj", initial(rng), [batch(rng) for _ in range(STEPS)], loss)
