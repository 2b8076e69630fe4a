#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes fixtures/norm.traj: 20 Adam steps of a small network with layer and root mean square normalization, on noise.

Needs PyTorch (Debian: python3-torch). PyTorch 1.13 has no root mean square normalization: it is written out here. trajectory.py describes
the file."""
import pathlib

import numpy as np
import torch
import torch.nn.functional as F

import trajectory

IN, WIDE, NARROW, CLASSES, BATCH, STEPS = 7, 12, 6, 4, 10, 20


def initial(rng):
    def normal(*shape, mean=0.0):
        return (mean + 0.4 * rng.standard_normal(shape)).astype(np.float32)

    return {
        "dense/kernel": normal(IN, WIDE), "dense/bias": normal(WIDE),
        "layer_normalization/beta": normal(4),
        "layer_normalization_1/gamma": normal(WIDE, mean=1.0), "layer_normalization_1/beta": normal(WIDE),
        "dense_1/kernel": normal(WIDE, NARROW), "dense_1/bias": normal(NARROW),
        "rms_normalization/gamma": normal(NARROW, mean=1.0),
        "dense_2/kernel": normal(NARROW, CLASSES), "dense_2/bias": normal(CLASSES),
    }


def loss(v, x, labels):
    x = x @ v["dense/kernel"] + v["dense/bias"]
    x = F.layer_norm(x.unflatten(1, (3, 4)), (4,), bias=v["layer_normalization/beta"], eps=1e-5).flatten(1)
    x = torch.tanh(F.layer_norm(x, (WIDE,), v["layer_normalization_1/gamma"], v["layer_normalization_1/beta"], eps=1e-3))
    x = x @ v["dense_1/kernel"] + v["dense_1/bias"]
    x = x / (x.square().mean(1, keepdim=True) + 1e-6).sqrt() * v["rms_normalization/gamma"]
    return F.cross_entropy(x @ v["dense_2/kernel"] + v["dense_2/bias"], labels)


def batch(rng):
    labels = rng.integers(0, CLASSES, BATCH).astype(np.int32)
    x = rng.standard_normal((BATCH, IN)) + np.eye(CLASSES, IN)[labels]
    return x.astype(np.float32), labels


rng = np.random.default_rng(11)
trajectory.write(pathlib.Path(__file__).parent / "fixtures/norm.traj", initial(rng), [batch(rng) for _ in range(STEPS)], loss)
