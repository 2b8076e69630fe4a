#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes fixtures/virtual_batches.traj: 20 steps of SGD with momentum of a small network whose
batch normalization has virtual batches, on noise.

Needs PyTorch (Debian: python3-torch). Each group of consecutive examples is normalized by
torch.nn.functional.batch_norm on its own; the last group of a batch has fewer. trajectory.py
describes the file."""
import pathlib

import numpy as np
import torch
import torch.nn.functional as F

import trajectory

IMAGE, FILTERS, CLASSES, BATCH, STEPS = (5, 4, 2), 6, 4, 22, 20


def normalize(x, size, gamma, beta, eps):
    """x [n, channels, ...]."""
    return torch.cat([F.batch_norm(part, None, None, gamma, beta, training=True, eps=eps)
                      for part in x.split(size)])


def loss(v, x, labels):
    x = F.conv2d(x.permute(0, 3, 1, 2), v["conv2d/kernel"].permute(3, 2, 0, 1))
    x = F.elu(normalize(x, 8, v["batch_normalization/gamma"], v["batch_normalization/beta"], 1e-3))
    x = x.permute(0, 2, 3, 1).flatten(1) @ v["dense/kernel"]
    x = torch.tanh(normalize(x, 4, torch.ones(10, dtype=x.dtype), v["batch_normalization_1/beta"],
                             1e-2))
    return F.cross_entropy(x @ v["dense_1/kernel"] + v["dense_1/bias"], labels)


def sgd(parameters):
    return torch.optim.SGD(parameters, lr=0.05, momentum=0.9)


rng = np.random.default_rng(31)


def batch():
    labels = rng.integers(0, CLASSES, BATCH).astype(np.int32)
    x = rng.standard_normal((BATCH, *IMAGE))
    x[np.arange(BATCH), labels] += 1
    return x.astype(np.float32), labels


initial = {
    "conv2d/kernel": trajectory.normal(rng, 3, 2, IMAGE[2], FILTERS),
    "batch_normalization/gamma": trajectory.normal(rng, FILTERS, mean=1.0),
    "batch_normalization/beta": trajectory.normal(rng, FILTERS),
    "dense/kernel": trajectory.normal(rng, 3 * 3 * FILTERS, 10),
    "batch_normalization_1/beta": trajectory.normal(rng, 10),
    "dense_1/kernel": trajectory.normal(rng, 10, CLASSES),
    "dense_1/bias": trajectory.normal(rng, CLASSES),
}
trajectory.write(pathlib.Path(__file__).parent / "fixtures/virtual_batches.traj", initial,
                 [batch() for _ in range(STEPS)], loss, sgd)
