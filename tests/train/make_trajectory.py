#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes fixtures/trajectory.bin: 20 Adam steps of a small CNN on Fashion-MNIST, computed by
PyTorch in double precision.

Needs PyTorch (Debian: python3-torch) and the four Fashion-MNIST files (Debian:
dataset-fashion-mnist):

    python3 make_trajectory.py [directory of the IDX files]

The network is Conv 32 3x3 valid relu, MaxPool 2, Conv 64 3x3 valid relu, MaxPool 2, Flatten, Dense
64 relu, Dense 10; the loss is the mean crossentropy of the logits; Adam has a rate of 1e-3 and an
epsilon of 1e-7.

The file is gzip of, little-endian and without padding:

    8 bytes   "RFTRAJ01"
    u32 x 5   number of variables V, of batches B, examples per batch N, image height H, width W
    V times   u32 rank, u32 x rank dimensions, f32 x count initial value
    u8        images [B, N, H, W], 0 .. 255; the network sees them divided by 255
    u8        labels [B, N]
    f64 x B   loss of each step, before its update
    V times   f32 x count gradient of the first step

Variables are in the order kernel, bias of each layer with weights, in the layouts [height, width,
in, out] and [in, out]. """
import gzip
import os
import struct
import sys

import numpy as np
import torch
import torch.nn.functional as F

BATCHES, BATCH = 20, 64
LAYERS = [("conv", (3, 3, 1, 32)), ("conv", (3, 3, 32, 64)), ("dense", (1600, 64)),
          ("dense", (64, 10))]


def read_idx(path):
    with gzip.open(path) as f:
        data = f.read()
    rank = data[3]
    shape = struct.unpack(">%dI" % rank, data[4:4 + 4 * rank])
    return np.frombuffer(data, np.uint8, offset=4 + 4 * rank).reshape(shape)


def glorot_uniform(rng, shape):
    receptive = int(np.prod(shape[:-2]))
    limit = np.sqrt(6.0 / (receptive * shape[-2] + receptive * shape[-1]))
    return rng.uniform(-limit, limit, shape).astype(np.float32)


def forward(variables, images):
    """Images [N, H, W] in 0 .. 1; variables in the file's layouts. PyTorch wants NCHW and [out, in,
    height, width]."""
    x = images.unsqueeze(1)
    for i in range(2):
        kernel, bias = variables[2 * i], variables[2 * i + 1]
        x = F.max_pool2d(F.relu(F.conv2d(x, kernel.permute(3, 2, 0, 1), bias)), 2)
    x = x.permute(0, 2, 3, 1).flatten(1)  # channels last, as the file's first dense kernel expects
    x = F.relu(x @ variables[4] + variables[5])
    return x @ variables[6] + variables[7]


def main():
    directory = sys.argv[1] if len(sys.argv) > 1 else "/usr/share/datasets/fashion-mnist"
    images = read_idx(os.path.join(directory, "train-images-idx3-ubyte.gz"))[:BATCHES * BATCH]
    labels = read_idx(os.path.join(directory, "train-labels-idx1-ubyte.gz"))[:BATCHES * BATCH]

    rng = np.random.default_rng(20200520)
    initial = []
    for _, shape in LAYERS:
        initial += [glorot_uniform(rng, shape), np.zeros(shape[-1], np.float32)]
    variables = [torch.tensor(v, dtype=torch.float64, requires_grad=True) for v in initial]
    optimizer = torch.optim.Adam(variables, lr=1e-3, betas=(0.9, 0.999), eps=1e-7)

    losses, gradients = [], []
    for step in range(BATCHES):
        part = slice(step * BATCH, (step + 1) * BATCH)
        x = torch.tensor(images[part].astype(np.float64) / 255.0)
        y = torch.tensor(labels[part].astype(np.int64))
        optimizer.zero_grad()
        loss = F.cross_entropy(forward(variables, x), y)
        loss.backward()
        if step == 0:
            gradients = [v.grad.numpy().astype(np.float32) for v in variables]
        losses.append(loss.item())
        optimizer.step()

    out = [b"RFTRAJ01", struct.pack("<5I", len(initial), BATCHES, BATCH, images.shape[1],
                                    images.shape[2])]
    for v in initial:
        out.append(struct.pack("<%dI" % (1 + v.ndim), v.ndim, *v.shape) + v.astype("<f4").tobytes())
    out += [images.tobytes(), labels.tobytes(), struct.pack("<%dd" % BATCHES, *losses)]
    out += [g.astype("<f4").tobytes() for g in gradients]
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "fixtures", "trajectory.bin")
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "wb") as f, gzip.GzipFile(filename="", mode="wb", compresslevel=9, fileobj=f,
                                              mtime=0) as z:
        z.write(b"".join(out))
    print("%s: %d bytes, losses %.6f ... %.6f"
          % (path, os.path.getsize(path), losses[0], losses[-1]))


if __name__ == "__main__":
    main()
