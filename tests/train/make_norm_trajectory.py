#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes fixtures/norm.traj and fixtures/group_norm.traj: 20 Adam steps each of a small network
with layer and root mean square normalization, and of one with group and instance normalization, on
noise.

Needs PyTorch (Debian: python3-torch). PyTorch 1.13 has no root mean square normalization: it is
written out here. trajectory.py describes the files."""
import pathlib

import numpy as np
import torch
import torch.nn.functional as F

import trajectory

IN, WIDE, NARROW, CLASSES, BATCH, STEPS = 7, 12, 6, 4, 10, 20
IMAGE, FILTERS = (4, 5, 3), 6


def initial(rng):
    return {
        "dense/kernel": trajectory.normal(rng, IN, WIDE),
        "dense/bias": trajectory.normal(rng, WIDE),
        "layer_normalization/beta": trajectory.normal(rng, 4),
        "layer_normalization_1/gamma": trajectory.normal(rng, WIDE, mean=1.0),
        "layer_normalization_1/beta": trajectory.normal(rng, WIDE),
        "dense_1/kernel": trajectory.normal(rng, WIDE, NARROW),
        "dense_1/bias": trajectory.normal(rng, NARROW),
        "rms_normalization/gamma": trajectory.normal(rng, NARROW, mean=1.0),
        "dense_2/kernel": trajectory.normal(rng, NARROW, CLASSES),
        "dense_2/bias": trajectory.normal(rng, CLASSES),
    }


def loss(v, x, labels):
    x = x @ v["dense/kernel"] + v["dense/bias"]
    x = F.layer_norm(x.unflatten(1, (3, 4)), (4,), bias=v["layer_normalization/beta"],
                     eps=1e-5).flatten(1)
    x = torch.tanh(F.layer_norm(x, (WIDE,), v["layer_normalization_1/gamma"],
                                v["layer_normalization_1/beta"], eps=1e-3))
    x = x @ v["dense_1/kernel"] + v["dense_1/bias"]
    x = x / (x.square().mean(1, keepdim=True) + 1e-6).sqrt() * v["rms_normalization/gamma"]
    return F.cross_entropy(x @ v["dense_2/kernel"] + v["dense_2/bias"], labels)


def batch(rng):
    labels = rng.integers(0, CLASSES, BATCH).astype(np.int32)
    x = rng.standard_normal((BATCH, IN)) + np.eye(CLASSES, IN)[labels]
    return x.astype(np.float32), labels


def group_initial(rng):
    return {
        "conv2d/kernel": trajectory.normal(rng, 3, 3, IMAGE[2], FILTERS),
        "group_normalization/gamma": trajectory.normal(rng, FILTERS, mean=1.0),
        "group_normalization/beta": trajectory.normal(rng, FILTERS),
        "conv2d_1/kernel": trajectory.normal(rng, 3, 3, FILTERS, FILTERS),
        "group_normalization_1/beta": trajectory.normal(rng, FILTERS),
        "group_normalization_2/gamma": trajectory.normal(rng, IMAGE[0], mean=1.0),
        "dense/kernel": trajectory.normal(rng, IMAGE[0] * IMAGE[1] * FILTERS, CLASSES),
        "dense/bias": trajectory.normal(rng, CLASSES),
    }


def group_loss(v, x, labels):
    def convolve(x, name):  # of [n, c, h, w]
        return F.conv2d(x, v[name + "/kernel"].permute(3, 2, 0, 1), padding=1)

    x = convolve(x.permute(0, 3, 1, 2), "conv2d")
    x = F.gelu(F.group_norm(x, 3, v["group_normalization/gamma"], v["group_normalization/beta"],
                            eps=1e-3))
    x = convolve(x, "conv2d_1")
    x = torch.tanh(F.group_norm(x, FILTERS, eps=1e-5)
                   + v["group_normalization_1/beta"][:, None, None])
    # groups of rows
    x = F.group_norm(x.permute(0, 2, 3, 1), 2,
                     eps=1e-2) * v["group_normalization_2/gamma"][:, None, None]
    return F.cross_entropy(x.flatten(1) @ v["dense/kernel"] + v["dense/bias"], labels)


def group_batch(rng):
    labels = rng.integers(0, CLASSES, BATCH).astype(np.int32)
    x = rng.standard_normal((BATCH, *IMAGE))
    x[np.arange(BATCH), labels] += 1
    return x.astype(np.float32), labels


fixtures = pathlib.Path(__file__).parent / "fixtures"
rng = np.random.default_rng(11)
trajectory.write(fixtures / "norm.traj", initial(rng), [batch(rng) for _ in range(STEPS)], loss)
rng = np.random.default_rng(12)
trajectory.write(fixtures / "group_norm.traj", group_initial(rng),
                 [group_batch(rng) for _ in range(STEPS)], group_loss)
