#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes fixtures/resnet_8.traj and fixtures/resnet_bottleneck.traj: 20 steps of SGD with momentum
of two networks of examples/resnet.

Needs PyTorch (Debian: python3-torch). ResNet-8 sees noisy stripes of 28 x 28; the other, with
bottlenecks of 4 and 8 channels, learned shortcuts and the beginning for large images, coloured ones
of 24 x 20. The networks are written with PyTorch's own conv2d, batch_norm and pooling;
trajectory.py describes the files."""
import pathlib

import numpy as np
import torch
import torch.nn.functional as F

import stripes
import trajectory

BATCH, STEPS, CLASSES = 6, 20, 10


class Network:
    """Walks through the layers: the first time it makes their variables, then it computes."""
    def __init__(self, rng, blocks, width, bottleneck, projection, large_images):
        self.rng, self.blocks, self.width = rng, blocks, width
        self.bottleneck, self.projection, self.large_images = bottleneck, projection, large_images
        self.variables = {}

    def get(self, v, name, value):
        if v is not None:
            return v[name]
        # the file is smaller
        self.variables[name] = (np.round(value() * 256) / 256).astype(np.float32)
        return torch.tensor(self.variables[name], dtype=torch.float64)

    def conv(self, v, x, path, number, filters, size, stride):
        channels = x.shape[1]
        kernel = self.get(v, "%s/conv_%d/kernel" % (path, number), lambda: self.rng.standard_normal(
            (size, size, channels, filters)) * np.sqrt(2 / (size * size * channels)))
        x = F.conv2d(x, kernel.permute(3, 2, 0, 1), stride=stride, padding=size // 2)
        gamma = self.get(v, "%s/norm_%d/gamma" % (path, number),
                         lambda: self.rng.uniform(0.5, 1.5, filters))
        beta = self.get(v, "%s/norm_%d/beta" % (path, number),
                        lambda: self.rng.uniform(-0.3, 0.3, filters))
        return F.batch_norm(x, None, None, gamma, beta, training=True, eps=1e-5)

    def block(self, v, x, path, inner, outer, stride):
        if self.bottleneck:
            y = F.relu(self.conv(v, x, path, 1, inner, 1, 1))
            y = F.relu(self.conv(v, y, path, 2, inner, 3, stride))
            y = self.conv(v, y, path, 3, outer, 1, 1)
        else:
            y = F.relu(self.conv(v, x, path, 1, inner, 3, stride))
            y = self.conv(v, y, path, 2, outer, 3, 1)
        if self.projection and (stride > 1 or x.shape[1] != outer):
            x = self.conv(v, x, path + "/shortcut", 1, outer, 1, stride)
        elif stride > 1:
            x = F.pad(x[:, :, ::2, ::2], (0, 0, 0, 0, 0, outer - x.shape[1]))
        return F.relu(x + y)

    def logits(self, v, images):
        x = images.permute(0, 3, 1, 2)
        x = F.relu(self.conv(v, x, "stem", 1, self.width, 7 if self.large_images else 3,
                             2 if self.large_images else 1))
        if self.large_images:
            x = F.max_pool2d(x, 3, stride=2, padding=1)
        for stage, count in enumerate(self.blocks):
            inner = self.width << stage
            for i in range(count):
                path = "stage_%d/block_%d" % (stage + 1, i + 1)
                x = self.block(v, x, path, inner, inner * (4 if self.bottleneck else 1),
                               2 if stage > 0 and i == 0 else 1)
        x = x.mean((2, 3))
        kernel = self.get(v, "classifier/kernel",
                          lambda: self.rng.standard_normal((x.shape[1], CLASSES)) * np.sqrt(
                              1 / x.shape[1]))
        return x @ kernel + self.get(v, "classifier/bias",
                                     lambda: self.rng.uniform(-0.1, 0.1, CLASSES))

    def loss(self, v, images, labels):
        return F.cross_entropy(self.logits(v, images), labels)


def write(name, seed, rate, network, *shape):
    """Seeds and rates are such that rounding stays small: where a rectifier's input is next to
    zero, networks with batch normalization depend on their last bits."""
    rng = np.random.default_rng(seed)
    network = Network(rng, *network)
    batches = [stripes.batch(rng, BATCH, CLASSES, *shape) for _ in range(STEPS)]
    network.loss(None, torch.tensor(batches[0][0], dtype=torch.float64),
                 torch.tensor(batches[0][1], dtype=torch.int64))
    trajectory.write(pathlib.Path(__file__).parent / "fixtures" / name, network.variables, batches,
                     network.loss,
                     lambda parameters: torch.optim.SGD(parameters, lr=rate, momentum=0.9))


write("resnet_8.traj", 8, 5e-3, ((1, 1, 1), 16, False, False, False), 28, 28, 1)
write("resnet_bottleneck.traj", 20, 5e-4, ((1, 2), 4, True, True, True), 24, 20, 3)
