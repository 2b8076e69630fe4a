#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes fixtures/densenet.traj: 20 steps of SGD with Nesterov momentum of DenseNet-BC 16-8 of
examples/densenet.

Needs PyTorch (Debian: python3-torch). The network is written with PyTorch's own conv2d, batch_norm
and pooling; trajectory.py describes the file."""
import pathlib

import numpy as np
import torch
import torch.nn.functional as F

import stripes
import trajectory

BATCH, STEPS, CLASSES = 6, 20, 10
BLOCKS, LAYERS, GROWTH = 3, 2, 8


class Network:
    """Walks through the layers: the first time it makes their variables, then it computes."""
    def __init__(self, rng):
        self.rng, self.variables = rng, {}

    def get(self, v, name, value):
        if v is not None:
            return v[name]
        # the file is smaller
        self.variables[name] = (np.round(value() * 256) / 256).astype(np.float32)
        return torch.tensor(self.variables[name], dtype=torch.float64)

    def conv(self, v, x, name, filters, size):
        channels = x.shape[1]
        kernel = self.get(v, name + "/kernel",
                          lambda: self.rng.standard_normal(
                              (size, size, channels, filters)) * np.sqrt(
            2 / (size * size * channels)))
        return F.conv2d(x, kernel.permute(3, 2, 0, 1), padding=size // 2)

    def norm(self, v, x, name):
        channels = x.shape[1]
        gamma = self.get(v, name + "/gamma", lambda: self.rng.uniform(0.5, 1.5, channels))
        beta = self.get(v, name + "/beta", lambda: self.rng.uniform(-0.3, 0.3, channels))
        return F.batch_norm(x, None, None, gamma, beta, training=True, eps=1e-3)

    def unit(self, v, x, path, number, filters, size):
        return self.conv(v, F.relu(self.norm(v, x, "%s/norm_%d" % (path, number))),
                         "%s/conv_%d" % (path, number), filters, size)

    def logits(self, v, images):
        x = self.conv(v, images.permute(0, 3, 1, 2), "stem", 2 * GROWTH, 3)
        for b in range(1, BLOCKS + 1):
            for i in range(1, LAYERS + 1):
                path = "block_%d/layer_%d" % (b, i)
                x = torch.cat([x, self.unit(v, self.unit(v, x, path, 1, 4 * GROWTH, 1), path, 2,
                                            GROWTH, 3)], 1)
            if b < BLOCKS:
                x = F.avg_pool2d(self.unit(v, x, "transition_%d" % b, 1, x.shape[1] // 2, 1), 2)
        x = F.relu(self.norm(v, x, "norm")).mean((2, 3))
        kernel = self.get(v, "classifier/kernel",
                          lambda: self.rng.standard_normal((x.shape[1], CLASSES)) * np.sqrt(
                              1 / x.shape[1]))
        return x @ kernel + self.get(v, "classifier/bias",
                                     lambda: self.rng.uniform(-0.1, 0.1, CLASSES))

    def loss(self, v, images, labels):
        return F.cross_entropy(self.logits(v, images), labels)


rng = np.random.default_rng(16)
network = Network(rng)
batches = [stripes.batch(rng, BATCH, CLASSES, 14, 12, 3) for _ in range(STEPS)]
network.loss(None, torch.tensor(batches[0][0], dtype=torch.float64),
             torch.tensor(batches[0][1], dtype=torch.int64))
trajectory.write(pathlib.Path(__file__).parent / "fixtures/densenet.traj", network.variables,
                 batches, network.loss,
                 lambda parameters: torch.optim.SGD(
                     parameters, lr=2e-3, momentum=0.9, nesterov=True))
