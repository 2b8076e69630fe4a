#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes fixtures/time_distributed.traj: 20 Adam steps of a small network that applies layers to
the steps of sequences of images, on noise.

Needs PyTorch (Debian: python3-torch). trajectory.py describes the file."""
import pathlib

import numpy as np
import torch
import torch.nn.functional as F

import trajectory

STEPS, IMAGE, FILTERS, WIDE, CLASSES, BATCH, UPDATES = 3, (4, 5, 2), 4, 6, 4, 10, 20


def loss(v, x, labels):
    images = x.flatten(0, 1).permute(0, 3, 1, 2)
    y = F.conv2d(images,
                 v["time_distributed/kernel"].permute(3, 2, 0, 1)) + v["time_distributed/bias"][
                     :, None, None]
    y = F.group_norm(F.relu(y), 2, v["norm/gamma"], v["norm/beta"], eps=1e-3)
    y = y.permute(0, 2, 3,
                  1).flatten(1) @ v["time_distributed_2/kernel"] + v["time_distributed_2/bias"]
    y = torch.tanh(y).unflatten(0, x.shape[:2]).mean(1)
    return F.cross_entropy(y @ v["dense/kernel"] + v["dense/bias"], labels)


rng = np.random.default_rng(41)


def batch():
    labels = rng.integers(0, CLASSES, BATCH).astype(np.int32)
    x = rng.standard_normal((BATCH, STEPS, *IMAGE))
    x[np.arange(BATCH), :, labels] += 1
    return x.astype(np.float32), labels


initial = {
    "time_distributed/kernel": trajectory.normal(rng, 3, 2, IMAGE[2], FILTERS),
    "time_distributed/bias": trajectory.normal(rng, FILTERS),
    "norm/gamma": trajectory.normal(rng, FILTERS, mean=1.0),
    "norm/beta": trajectory.normal(rng, FILTERS),
    "time_distributed_2/kernel": trajectory.normal(rng, 2 * 4 * FILTERS, WIDE),
    "time_distributed_2/bias": trajectory.normal(rng, WIDE),
    "dense/kernel": trajectory.normal(rng, WIDE, CLASSES),
    "dense/bias": trajectory.normal(rng, CLASSES),
}
trajectory.write(pathlib.Path(__file__).parent / "fixtures/time_distributed.traj", initial,
                 [batch() for _ in range(UPDATES)], loss)
