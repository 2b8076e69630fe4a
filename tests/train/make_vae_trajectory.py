#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes fixtures/vae.traj: 20 Adam steps of the variational autoencoder of examples/vae with few
filters, on black-and-white stripes.

Needs PyTorch (Debian: python3-torch). The network is written with PyTorch's own conv2d,
conv_transpose2d and losses; trajectory.py describes the file."""
import pathlib

import numpy as np
import torch
import torch.distributions as D
import torch.nn.functional as F

import stripes
import trajectory

SIDE, FILTERS, LATENT, BATCH, STEPS = 16, (8, 12), 3, 6, 20


def initial(rng):
    def layer(name, shape, inputs, outputs):
        kernel = rng.standard_normal(shape) * np.sqrt(2 / inputs)
        return {name + "/kernel": np.round(kernel * 256) / 256,
                name + "/bias": np.round(rng.uniform(-0.1, 0.1, outputs) * 256) / 256}

    a, b = FILTERS
    # what two valid convolutions of stride 2 leave; where the decoder begins
    small, quarter = (SIDE // 2 - 1) // 2, SIDE // 4
    variables = {
        **layer("encoder/conv_1", (3, 3, 1, a), 9, a),
        **layer("encoder/conv_2", (3, 3, a, b), 9 * a, b),
        **layer("encoder/dense", (small * small * b, 2 * LATENT), 2 * small * small * b,
                2 * LATENT),
        **layer("decoder/dense", (LATENT, quarter * quarter * a), LATENT, quarter * quarter * a),
        **layer("decoder/conv_1", (3, 3, b, a), 9 * a, b),
        **layer("decoder/conv_2", (3, 3, a, b), 9 * b, a),
        **layer("decoder/conv_3", (3, 3, 1, a), 9 * a, 1),
    }
    return {name: value.astype(np.float32) for name, value in variables.items()}


def conv(v, name, x):
    return F.relu(F.conv2d(x, v[name + "/kernel"].permute(3, 2, 0, 1), v[name + "/bias"], stride=2))


def transposed(v, name, x, stride):
    """With the output cut to `stride` times the input: half of what is too much at the top, rounded
    down, the rest at the bottom."""
    size, whole = x.shape[2] * stride, F.conv_transpose2d(
        x, v[name + "/kernel"].permute(3, 2, 0, 1), v[name + "/bias"], stride=stride)
    top = (whole.shape[2] - size) // 2
    return whole[:, :, top:top + size, top:top + size]


def dense(v, name, x):
    return x @ v[name + "/kernel"] + v[name + "/bias"]


def loss(v, images, noise):
    x = conv(v, "encoder/conv_2", conv(v, "encoder/conv_1", images.permute(0, 3, 1, 2)))
    mean, log_variance = dense(v, "encoder/dense", x.permute(0, 2, 3, 1).flatten(1)).chunk(2, dim=1)
    deviation = torch.exp(log_variance / 2)
    y = F.relu(dense(v, "decoder/dense", mean + deviation * noise)).unflatten(
        1, (SIDE // 4, SIDE // 4, FILTERS[0])).permute(0, 3, 1, 2)
    y = F.relu(transposed(v, "decoder/conv_2", F.relu(transposed(v, "decoder/conv_1", y, 2)), 2))
    logits = transposed(v, "decoder/conv_3", y, 1).permute(0, 2, 3, 1)
    reconstruction = F.binary_cross_entropy_with_logits(logits, images, reduction="sum") / len(
        images)
    divergence = D.kl_divergence(D.Normal(mean, deviation),
                                 D.Normal(torch.zeros_like(mean), torch.ones_like(mean)))
    return reconstruction + divergence.sum() / len(images)


def batch(rng):
    images, _ = stripes.batch(rng, BATCH, 10, SIDE, SIDE, 1)
    return (images > 0).astype(np.float32), rng.standard_normal((BATCH, LATENT)).astype(np.float32)


rng = np.random.default_rng(28)
trajectory.write(pathlib.Path(__file__).parent / "fixtures/vae.traj", initial(rng),
                 [batch(rng) for _ in range(STEPS)], loss)
