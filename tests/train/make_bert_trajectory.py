#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes fixtures/bert.traj: 20 steps of pretraining a BERT of 2 layers, 2 heads, 128 wide, with
BERT's optimizer, on random words.

Needs PyTorch (Debian: python3-torch). The network is that of examples/bert, written with PyTorch's
own embedding, layer_norm, gelu and softmax. Its 400,000 weights are generated, here and in
test_bert.c. So the file, in trajectory.py's format, has instead of each variable's initial value
the mean and deviation of what is generated, and instead of its gradient the norm and four sums with
generated signs."""
import math
import pathlib

import numpy as np
import torch
import torch.nn.functional as F

import trajectory

LAYERS, HEADS, WIDTH, INNER, VOCABULARY, LENGTH, PLACES, PREDICTIONS, BATCH, STEPS = (
    2, 2, 128, 512, 31, 12, 14, 4, 6, 20)
SIGNS = 4
RATE, WARMUP, DECAY, EPSILON, WEIGHT_DECAY = 1e-3, 4, 40, 1e-6, 0.01


def bits(variable, count):
    """64 bits for each element: splitmix64 (Steele, Lea & Flood 2014) of its number."""
    z = (np.uint64(variable) << np.uint64(32)) + np.arange(
        1, count + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ z >> np.uint64(30)) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ z >> np.uint64(27)) * np.uint64(0x94D049BB133111EB)
    return z ^ z >> np.uint64(31)


def shapes():
    """Name: shape, mean, deviation."""
    out = {}

    def kernel(name, *shape):
        out[name] = shape, 0.0, 0.125

    def bias(name, *shape):
        out[name] = shape, 0.0, 0.0625

    def norm(path):
        out[path + "layer_norm/gamma"] = (WIDTH,), 1.0, 0.25
        bias(path + "layer_norm/beta", WIDTH)

    def dense(name, inner, outer):
        kernel(name + "/kernel", inner, outer)
        bias(name + "/bias", outer)

    kernel("encoder/words/embeddings", VOCABULARY, WIDTH)
    kernel("encoder/positions/embeddings", PLACES, WIDTH)
    kernel("encoder/segments/embeddings", 2, WIDTH)
    norm("encoder/")
    for i in range(LAYERS):
        path = "encoder/layer_%d/" % i
        for part in "query", "key", "value":
            kernel(path + "attention/%s/kernel" % part, WIDTH, HEADS, WIDTH // HEADS)
            bias(path + "attention/%s/bias" % part, HEADS, WIDTH // HEADS)
        kernel(path + "attention/attention_output/kernel", HEADS, WIDTH // HEADS, WIDTH)
        bias(path + "attention/attention_output/bias", WIDTH)
        norm(path + "attention/")
        dense(path + "expand", WIDTH, INNER)
        dense(path + "contract", INNER, WIDTH)
        norm(path)
    dense("encoder/pooler", WIDTH, WIDTH)
    dense("transform", WIDTH, WIDTH)
    norm("transform/")
    bias("masked_words/bias", VOCABULARY)
    dense("next_sentence", WIDTH, 2)
    return out


def generate(number, shape, mean, deviation):
    unit = (bits(number, math.prod(shape)) >> np.uint64(40)).astype(np.float64) / 2**23 - 1
    return (mean + deviation * unit).astype(np.float32).reshape(shape)


class Walk:
    """The network's parts, with the variables of one call."""

    def __init__(self, v):
        self.v = v

    def dense(self, x, name):
        return x @ self.v[name + "/kernel"] + self.v[name + "/bias"]

    def norm(self, x, path):
        return F.layer_norm(x, (WIDTH,), self.v[path + "layer_norm/gamma"],
                            self.v[path + "layer_norm/beta"], 1e-12)

    def attend(self, x, path, hidden):
        query, key, value = (torch.einsum("nsd,dhk->nhsk", x, self.v[path + part + "/kernel"])
                             + self.v[path + part + "/bias"][:, None, :]
                             for part in ("query", "key", "value"))
        scores = (query @ key.transpose(2, 3) / math.sqrt(WIDTH // HEADS)).masked_fill(
            hidden, -math.inf)
        mixed = scores.softmax(3) @ value
        return torch.einsum("nhsk,hkd->nsd", mixed,
                            self.v[path + "attention_output/kernel"]) + self.v[
                                path + "attention_output/bias"]

    def run_layer(self, x, path, hidden):
        x = self.norm(x + self.attend(x, path + "attention/", hidden), path + "attention/")
        inner = F.gelu(self.dense(x, path + "expand"), approximate="tanh")
        return self.norm(x + self.dense(inner, path + "contract"), path)


def loss(v, tokens, segments, positions, words, weights, labels):
    w = Walk(v)
    x = F.embedding(tokens,
                    v["encoder/words/embeddings"]) + v["encoder/positions/embeddings"][:LENGTH]
    x = w.norm(x + F.embedding(segments, v["encoder/segments/embeddings"]), "encoder/")
    for i in range(LAYERS):
        x = w.run_layer(x, "encoder/layer_%d/" % i, (tokens == 0)[:, None, None, :])
    there = x.gather(1, positions[:, :, None].expand(-1, -1, WIDTH))
    there = w.norm(F.gelu(w.dense(there, "transform"), approximate="tanh"), "transform/")
    logits = there @ v["encoder/words/embeddings"].T + v["masked_words/bias"]
    each = F.cross_entropy(logits.flatten(0, 1), words.flatten(), reduction="none")
    pooled = w.dense(x[:, 0], "encoder/pooler").tanh()
    return (each * weights.flatten()).sum() / weights.sum() + F.cross_entropy(
        w.dense(pooled, "next_sentence"), labels)


class BertAdam:
    """AdamW with Keras' epsilon, warm-up and linear decay, a limit of the gradients' norm, and no
    decay of biases and normalization."""

    def __init__(self, parameters, decayed):
        self.parameters, self.decayed, self.step_number = list(parameters), decayed, 0
        self.m, self.v = ([torch.zeros_like(p) for p in self.parameters] for _ in range(2))

    def zero_grad(self):
        for p in self.parameters:
            p.grad = None

    @torch.no_grad()
    def step(self):
        t = self.step_number
        self.step_number += 1
        rate = RATE * t / WARMUP if t < WARMUP else RATE * (1 - t / DECAY)
        scale = min(1.0, 1 / math.sqrt(sum(p.grad.square().sum().item() for p in self.parameters)))
        corrected = rate * math.sqrt(1 - 0.999 ** (t + 1)) / (1 - 0.9 ** (t + 1))
        for p, m, v, decayed in zip(self.parameters, self.m, self.v, self.decayed):
            g = p.grad * scale
            m.mul_(0.9).add_(0.1 * g)
            v.mul_(0.999).add_(0.001 * g.square())
            if decayed:
                p.mul_(1 - rate * WEIGHT_DECAY)
            p.sub_(corrected * m / (v.sqrt() + EPSILON))


def batch(rng):
    """Examples of unequal length, and unequal numbers of words to predict."""
    length, count = rng.integers(7, LENGTH + 1,
                                 (BATCH, 1)), rng.integers(1, PREDICTIONS + 1, (BATCH, 1))
    place = np.arange(LENGTH)
    tokens = np.where(place < length, rng.integers(1, VOCABULARY, (BATCH, LENGTH)), 0)
    segments = ((place >= length // 2) & (place < length)).astype(int)
    positions = np.stack([np.sort(rng.choice(7, PREDICTIONS, replace=False)) for _ in range(BATCH)])
    used = np.arange(PREDICTIONS) < count
    # what can be learned
    words = np.where(used, (np.take_along_axis(tokens, positions, 1) * 3 + 1) % VOCABULARY, 0)
    numbers = tokens, segments, np.where(used, positions, 0), words
    return (*(n.astype(np.int32) for n in numbers), used.astype(np.float32),
            (tokens[:, 1] % 2).astype(np.int32))


def summarize(number, gradient):
    hashes = bits(number, gradient.size)
    signs = [1 - 2 * (hashes >> np.uint64(k) & np.uint64(1)).astype(np.float64)
             for k in range(SIGNS)]
    return np.array([np.linalg.norm(gradient), *(gradient.ravel() @ s for s in signs)])


rng = np.random.default_rng(5)
described = shapes()
values = {name: generate(number, *what) for number, (name, what) in enumerate(described.items())}
batches = [batch(rng) for _ in range(STEPS)]
decay = ["bias" not in name and "layer_norm/" not in name for name in values]
losses, gradients = trajectory.follow(values, batches, loss,
                                      lambda parameters: BertAdam(parameters, decay))
summaries = {name: np.array([what[1], what[2], 0, 0, 0], np.float32) for name,
             what in described.items()}
trajectory.write_results(pathlib.Path(__file__).parent / "fixtures/bert.traj", summaries, batches,
                         losses,
                         {name: summarize(number, gradients[name]) for number,
                          name in enumerate(values)})
