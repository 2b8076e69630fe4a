# SPDX-License-Identifier: Apache-2.0
"""The network of examples/custom_loop.c trained for ten epochs by PyTorch, to hold tests/accuracy against: same distributions of initial
values, Adam with Keras' epsilon, batches of 64. Needs Debian's python3-torch and dataset-fashion-mnist.
Usage: /usr/bin/python3 pytorch_accuracy.py SEED..."""
import gzip
import pathlib
import sys

import numpy
import torch
from torch import nn

DATA = pathlib.Path("/usr/share/datasets/fashion-mnist")


def idx(stem, header):
    path = next(p for p in (DATA / stem, DATA / (stem + ".gz")) if p.exists())
    with (gzip.open if path.suffix == ".gz" else open)(path, "rb") as f:
        return numpy.frombuffer(f.read(), numpy.uint8, offset=header)


def images(stem):
    return torch.tensor(idx(stem, 16).reshape(-1, 1, 28, 28).astype(numpy.float32) / 255)


def labels(stem):
    return torch.tensor(idx(stem, 8).astype(numpy.int64))


def network():
    model = nn.Sequential(nn.Conv2d(1, 32, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(32, 64, 3), nn.ReLU(), nn.MaxPool2d(2),
                          nn.Flatten(), nn.Linear(1600, 64), nn.ReLU(), nn.Linear(64, 10))
    for p in model.parameters():
        nn.init.xavier_uniform_(p) if p.dim() > 1 else nn.init.zeros_(p)
    return model


def train(seed, x, y, test_x, test_y):
    torch.manual_seed(seed)
    model = network()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, eps=1e-7)
    for epoch in range(10):
        order, total = torch.randperm(len(x)), 0.0
        batches = order.split(64)
        for rows in batches:
            loss = nn.functional.cross_entropy(model(x[rows]), y[rows])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss.item()
        with torch.no_grad():
            right = sum((model(a).argmax(1) == b).sum().item() for a, b in zip(test_x.split(500), test_y.split(500)))
        print("seed %d epoch %d: loss %.4f, test accuracy %.2f %%" % (seed, epoch + 1, total / len(batches), 100 * right / len(test_y)),
              flush=True)


data = images("train-images-idx3-ubyte"), labels("train-labels-idx1-ubyte"), images("t10k-images-idx3-ubyte"), labels("t10k-labels-idx1-ubyte")
for number in sys.argv[1:]:
    train(int(number), *data)
