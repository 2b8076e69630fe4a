#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes fixtures/attention.traj: 20 Adam steps of a small language model with a look at a second
sequence.

Needs PyTorch (Debian: python3-torch). Plain attention is
torch.nn.functional.multi_head_attention_forward, whose weights are packed and transposed; the layer
with shared heads and rotary positions is written out here. trajectory.py describes the file."""
import pathlib

import numpy as np
import torch
import torch.nn.functional as F

import trajectory

TOKENS, WIDTH, HEADS, KEY, LENGTH, SEEN, BATCH, STEPS = 11, 8, 4, 2, 5, 4, 6, 20


def initial(rng):
    variables = {}

    def add(name, *shape, deviation=0.4):
        variables[name] = (rng.standard_normal(shape) * deviation).astype(np.float32)

    def attention(name, heads, few):
        for part, count in (("query", heads), ("key", few), ("value", few)):
            add("%s/%s/kernel" % (name, part), WIDTH, count, KEY)
            add("%s/%s/bias" % (name, part), count, KEY)
        add(name + "/attention_output/kernel", heads, KEY, WIDTH)
        add(name + "/attention_output/bias", WIDTH)

    add("embedding/embeddings", TOKENS, WIDTH)
    add("position_embedding/embeddings", LENGTH + 2, WIDTH)
    attention("block/self_attention", HEADS, 2)
    attention("block/cross_attention", HEADS, HEADS)
    add("embedding_head/bias", TOKENS)
    return variables


def rotate(x):
    half = x.shape[-1] // 2
    times = torch.arange(x.shape[2], dtype=torch.float64)[:, None]
    angles = times * 100.0 ** (-torch.arange(half, dtype=torch.float64) / half)
    a, b = x[..., :half], x[..., half:]
    return torch.cat([a * angles.cos() - b * angles.sin(), b * angles.cos() + a * angles.sin()], -1)


def shared_heads(v, name, x):
    """Causal, two heads of queries for each of keys and values."""
    def project(part):
        return torch.einsum("nsd,dhk->nhsk", x,
                            v["%s/%s/kernel" % (name, part)]) + v["%s/%s/bias" % (name, part)][
                                :, None]

    query, key, value = rotate(project("query")), rotate(project("key")), project("value")
    key, value = (t.repeat_interleave(HEADS // t.shape[1], 1) for t in (key, value))
    scores = query @ key.transpose(-1, -2) / KEY ** 0.5
    scores = scores.masked_fill(torch.ones(LENGTH, LENGTH).triu(1).bool(), -torch.inf)
    out = torch.einsum("nhsk,hko->nso", scores.softmax(-1) @ value,
                       v[name + "/attention_output/kernel"])
    return out + v[name + "/attention_output/bias"]


def packed_heads(v, name, x, seen, padding):
    def rows(part):
        return v["%s/%s/kernel" % (name, part)].reshape(WIDTH, WIDTH).T

    bias = torch.cat([v["%s/%s/bias" % (name, part)].reshape(WIDTH)
                      for part in ("query", "key", "value")])
    out, _ = F.multi_head_attention_forward(
        x.transpose(0, 1), seen.transpose(0, 1), seen.transpose(0, 1), WIDTH, HEADS,
        torch.cat([rows(p) for p in ("query", "key", "value")]),
        bias, None, None, False, 0.0, v[name + "/attention_output/kernel"].reshape(WIDTH, WIDTH).T,
        v[name + "/attention_output/bias"],
        key_padding_mask=padding)
    return out.transpose(0, 1)


def sines(length):
    places = np.arange(length)[:, None] / 50.0 ** (np.arange(WIDTH) // 2 * 2 / WIDTH)
    return torch.tensor(np.where(np.arange(WIDTH) % 2 == 0, np.sin(places), np.cos(places)))


def loss(v, tokens, seen, labels):
    table = v["embedding/embeddings"]
    x = table[tokens] + v["position_embedding/embeddings"][:LENGTH]
    x = x + shared_heads(v, "block/self_attention", x)
    other = table[seen] + sines(SEEN)
    x = x + packed_heads(v, "block/cross_attention", x, other, seen == 0)
    logits = x @ table.T + v["embedding_head/bias"]
    return F.cross_entropy(logits.reshape(-1, TOKENS), labels.reshape(-1))


def batch(rng):
    """Each label is the sum of the token and the first one seen. 0 pads what is seen, which is
    never empty."""
    tokens = rng.integers(0, TOKENS, (BATCH, LENGTH)).astype(np.int32)
    seen = rng.integers(1, TOKENS, (BATCH, SEEN)).astype(np.int32)
    for row, length in enumerate(rng.integers(1, SEEN + 1, BATCH)):
        seen[row, length:] = 0
    return tokens, seen, ((tokens + seen[:, :1]) % TOKENS).astype(np.int32)


rng = np.random.default_rng(6)
trajectory.write(pathlib.Path(__file__).parent / "fixtures/attention.traj", initial(rng),
                 [batch(rng) for _ in range(STEPS)], loss)
