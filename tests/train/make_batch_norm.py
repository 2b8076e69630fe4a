#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes fixtures/batch_norm.bin: 20 steps of SGD with momentum of a small CNN with batch
normalization on Fashion-MNIST, computed by PyTorch in double precision.

Needs PyTorch (Debian: python3-torch) and the Fashion-MNIST files (Debian: dataset-fashion-mnist):

    python3 make_batch_norm.py [directory of the IDX files]

The network sees every second pixel of every second row. It is Conv 8 3x3 valid, BatchNormalization,
relu, MaxPool 2, Conv 16 3x3 valid, BatchNormalization without gamma, relu, Flatten, Dense 32,
BatchNormalization with a momentum of 0.9 and an epsilon of 1e-5, relu, Dense 10; only the last
layer has a bias. Names and defaults are Keras': a momentum of 0.99 keeps 99 parts of the old
average (PyTorch would call this 0.01), epsilon is 1e-3, and moving variances average the biased
variance (PyTorch's would be unbiased). The loss is the mean crossentropy of the logits; SGD has a
rate of 0.05 and a momentum of 0.9.

The file is gzip of, little-endian and without padding:

    8 bytes   "RFBNTR01"
    u32 x 6   number of variables V, of batches B, examples per batch N, image height H, image width
              W, number of moving averages S
    V times   u32 rank, u32 x rank dimensions, f32 x count initial value
    u8        images [B, N, H, W], 0 .. 255; the network sees them divided by 255
    u8        labels [B, N]
    f64 x B   loss of each step, before its update
    V times   f32 x count gradient of the first step
    S times   u32 count, f32 x count moving mean or variance after the last step
    f64       loss of the first batch after the last step, normalized with the moving averages

Variables are in the order of the layers, within one kernel, bias or gamma, beta, in the layouts
[height, width, in, out] and [in, out]; moving averages too, the mean before the variance. """
import gzip
import os
import struct
import sys

import numpy as np
import torch
import torch.nn.functional as F

from make_trajectory import glorot_uniform, read_idx

BATCHES, BATCH = 20, 24
# channels, gamma, momentum, epsilon
NORMS = [(8, True, 0.99, 1e-3), (16, False, 0.99, 1e-3), (32, True, 0.9, 1e-5)]
KERNELS = [(3, 3, 1, 8), (3, 3, 8, 16), (256, 32)]


class Normalization:
    def __init__(self, channels, scale, momentum, epsilon):
        self.scale, self.momentum, self.epsilon = scale, momentum, epsilon
        self.mean = torch.zeros(channels, dtype=torch.float64)
        self.variance = torch.ones(channels, dtype=torch.float64)

    def __call__(self, x, variables, training):
        """x [..., channels]; takes gamma and beta from the front of the list."""
        mean, variance = self.mean, self.variance
        if training:
            axes = tuple(range(x.dim() - 1))
            mean, variance = x.mean(axes), x.var(axes, unbiased=False)
            with torch.no_grad():
                self.mean = self.momentum * self.mean + (1 - self.momentum) * mean
                self.variance = self.momentum * self.variance + (1 - self.momentum) * variance
        y = (x - mean) / torch.sqrt(variance + self.epsilon)
        if self.scale:
            y = y * variables.pop(0)
        return y + variables.pop(0)


def forward(variables, norms, images, training):
    """Images [N, H, W] in 0 .. 1; channels last between the convolutions."""
    left = list(variables)
    x = images.unsqueeze(-1)
    for i in range(2):
        kernel = left.pop(0)
        x = F.conv2d(x.permute(0, 3, 1, 2), kernel.permute(3, 2, 0, 1)).permute(0, 2, 3, 1)
        x = F.relu(norms[i](x, left, training))
        if i == 0:
            x = F.max_pool2d(x.permute(0, 3, 1, 2), 2).permute(0, 2, 3, 1)
    x = x.flatten(1) @ left.pop(0)
    x = F.relu(norms[2](x, left, training))
    return x @ left[0] + left[1]


def initial_values(rng):
    """Gammas and betas other than Keras' ones and zeros, so that nothing hides behind them."""
    values = []
    for shape, (channels, scale, _, _) in zip(KERNELS, NORMS):
        values.append(glorot_uniform(rng, shape))
        if scale:
            values.append(rng.uniform(0.5, 1.5, channels).astype(np.float32))
        values.append(rng.uniform(-0.5, 0.5, channels).astype(np.float32))
    return values + [glorot_uniform(rng, (32, 10)), np.zeros(10, np.float32)]


def main():
    directory = sys.argv[1] if len(sys.argv) > 1 else "/usr/share/datasets/fashion-mnist"
    images = np.ascontiguousarray(read_idx(os.path.join(directory, "train-images-idx3-ubyte.gz"))[
        :BATCHES * BATCH, ::2, ::2])
    labels = read_idx(os.path.join(directory, "train-labels-idx1-ubyte.gz"))[:BATCHES * BATCH]

    initial = initial_values(np.random.default_rng(20201117))
    variables = [torch.tensor(v, dtype=torch.float64, requires_grad=True) for v in initial]
    norms = [Normalization(*n) for n in NORMS]
    optimizer = torch.optim.SGD(variables, lr=0.05, momentum=0.9)

    def loss_of(step, training):
        part = slice(step * BATCH, (step + 1) * BATCH)
        x = torch.tensor(images[part].astype(np.float64) / 255.0)
        y = torch.tensor(labels[part].astype(np.int64))
        return F.cross_entropy(forward(variables, norms, x, training), y)

    losses, gradients = [], []
    for step in range(BATCHES):
        optimizer.zero_grad()
        loss = loss_of(step, True)
        loss.backward()
        if step == 0:
            gradients = [v.grad.numpy().astype(np.float32) for v in variables]
        losses.append(loss.item())
        optimizer.step()
    averages = [a.numpy() for n in norms for a in (n.mean, n.variance)]
    last = loss_of(0, False).item()

    out = [b"RFBNTR01", struct.pack("<6I", len(initial), BATCHES, BATCH, images.shape[1],
                                    images.shape[2], len(averages))]
    for v in initial:
        out.append(struct.pack("<%dI" % (1 + v.ndim), v.ndim, *v.shape) + v.astype("<f4").tobytes())
    out += [images.tobytes(), labels.tobytes(), struct.pack("<%dd" % BATCHES, *losses)]
    out += [g.astype("<f4").tobytes() for g in gradients]
    out += [struct.pack("<I", a.size) + a.astype("<f4").tobytes() for a in averages]
    out.append(struct.pack("<d", last))
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "fixtures", "batch_norm.bin")
    with open(path, "wb") as f, gzip.GzipFile(filename="", mode="wb", compresslevel=9, fileobj=f,
                                              mtime=0) as z:
        z.write(b"".join(out))
    print("%s: %d bytes, losses %.6f ... %.6f, with moving averages %.6f"
          % (path, os.path.getsize(path), losses[0], losses[-1], last))


if __name__ == "__main__":
    main()
