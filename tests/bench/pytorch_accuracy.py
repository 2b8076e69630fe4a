# SPDX-License-Identifier: Apache-2.0
"""Trains a network of the examples with PyTorch as the example does, for tests/accuracy.

Same data, distributions of initial values, optimizer, schedule and batches; other random numbers.
Prints a line for each epoch, on Fashion-MNIST, or for every 250 steps of the GPT, on the
documentation. Needs Debian's python3-torch, libopenblas0-pthread and dataset-fashion-mnist. Usage:
pytorch_accuracy.py cnn|resnet|densenet SEED EPOCHS EXAMPLES
       pytorch_accuracy.py gpt SEED STEPS"""
import gzip
import math
import pathlib
import sys

import numpy
import torch
from torch import nn
import torch.nn.functional as F

import pytorch_networks as networks

ROOT = pathlib.Path(__file__).resolve().parents[2]
DATA = pathlib.Path("/usr/share/datasets/fashion-mnist")
BATCH, MEAN, DEVIATION, PAD = 64, 0.2860, 0.3530, 4
RATE, DECAY = 0.1, 1e-4
GPT_BATCH, WINDOWS, REPORT = 12, 240, 250  # of training, of validation; steps between lines


# ---- images ----


def idx(stem, header):
    path = next(p for p in (DATA / stem, DATA / (stem + ".gz")) if p.exists())
    with (gzip.open if path.suffix == ".gz" else open)(path, "rb") as f:
        return numpy.frombuffer(f.read(), numpy.uint8, offset=header)


def images(stem):
    return torch.tensor(idx(stem, 16).reshape(-1, 1, 28, 28).astype(numpy.float32) / 255)


def labels(stem):
    return torch.tensor(idx(stem, 8).astype(numpy.int64))


def initialize(model, convolutions):
    for layer in model.modules():
        if isinstance(layer, nn.Conv2d):
            convolutions(layer.weight)
        if isinstance(layer, nn.Linear):
            nn.init.xavier_uniform_(layer.weight)
        if isinstance(layer, (nn.Conv2d, nn.Linear)) and layer.bias is not None:
            nn.init.zeros_(layer.bias)


def he_normal(weight):
    """Truncated at two deviations, and so scaled that the deviation is He's."""
    deviation = (2 / weight[0].numel()) ** 0.5 / 0.87962566103423978
    nn.init.trunc_normal_(weight, std=deviation, a=-2 * deviation, b=2 * deviation)


def augment(x):
    """Flipped one time in two, and moved by up to PAD pixels."""
    flips = torch.rand(len(x), 1, 1, 1) < 0.5
    x = F.pad(torch.where(flips, x.flip(3), x), (PAD, PAD, PAD, PAD))
    down, right = torch.randint(0, 2 * PAD + 1, (2, len(x), 1, 1))
    rows, columns = torch.arange(28)[None, :, None] + down, torch.arange(28)[None, None, :] + right
    return x[torch.arange(len(x))[:, None, None], 0, rows, columns][:, None]


def normalize(x):
    return (x - MEAN) / DEVIATION


class Cnn:
    """As examples/custom_loop.c."""
    def __init__(self, steps):
        self.model = networks.cnn()
        initialize(self.model, nn.init.xavier_uniform_)
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=1e-3, eps=1e-7)

    def prepare(self, x, training):
        return x

    def step(self):
        self.optimizer.step()


class ImageTrainer:
    """As examples/common/image_trainer.c."""
    def __init__(self, network, nesterov, steps):
        self.model = networks.NETWORKS[network]()
        initialize(self.model, he_normal)
        kernels = [p for p in self.model.parameters() if p.dim() > 1]
        others = [p for p in self.model.parameters() if p.dim() == 1]
        self.optimizer = torch.optim.SGD([{"params": kernels, "weight_decay": DECAY},
                                          {"params": others}], lr=RATE, momentum=0.9,
                                         nesterov=nesterov)
        self.schedule = torch.optim.lr_scheduler.MultiStepLR(
            self.optimizer, [int(steps * 0.5), int(steps * 0.75)], 0.1)

    def prepare(self, x, training):
        return normalize(augment(x) if training else x)

    def step(self):
        self.optimizer.step()
        self.schedule.step()


def train(trainer, epochs, x, y, test_x, test_y):
    for epoch in range(epochs):
        trainer.model.train()
        order, total = torch.randperm(len(x)), 0.0
        for rows in order.split(BATCH):
            loss = F.cross_entropy(trainer.model(trainer.prepare(x[rows], True)), y[rows])
            trainer.optimizer.zero_grad()
            loss.backward()
            trainer.step()
            total += loss.item() * len(rows)
        trainer.model.eval()
        with torch.no_grad():
            right = sum((trainer.model(trainer.prepare(a, False)).argmax(1) == b).sum().item()
                        for a, b in zip(test_x.split(500), test_y.split(500)))
        print("epoch %d: loss %.4f, test accuracy %.2f"
              % (epoch + 1, total / len(x), 100 * right / len(test_y)), flush=True)


# ---- GPT ----


def windows(tokens, step):
    """All of BLOCK tokens that are so many places apart, and what follows each token."""
    rows = torch.arange(0, len(tokens) - networks.BLOCK,
                        step)[:, None] + torch.arange(networks.BLOCK + 1)
    return tokens[rows[:, :-1]], tokens[rows[:, 1:]]


def read_documentation():
    """The bytes of the files that examples/gpt reads, by default, as numbers; and how many numbers
    there are."""
    files = [ROOT / "README.md", ROOT / "CONTRIBUTING.md",
             *(f for f in sorted((ROOT / "docs").rglob("*")) if f.suffix in (".md", ".txt"))]
    text = numpy.frombuffer(b"".join(f.read_bytes() for f in files), numpy.uint8)
    different, tokens = numpy.unique(text, return_inverse=True)
    return torch.tensor(tokens), len(different)


def learning_rate(step, steps):
    """Of that of the start: a warm-up, then half a cosine down to a tenth."""
    warmup = steps // 20
    return step / warmup if step < warmup else 0.55 + 0.45 * math.cos(
        math.pi * (step - warmup) / (steps - warmup))


def train_gpt(steps):
    """As examples/gpt."""
    tokens, vocabulary = read_documentation()
    held_out = len(tokens) // 10
    x, y = windows(tokens[:-held_out], 1)
    test_x, test_y = windows(tokens[-held_out:], (held_out - networks.BLOCK) // WINDOWS + 1)
    model = networks.Gpt(vocabulary)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, betas=(0.9, 0.99), eps=1e-8,
                                  weight_decay=0.1)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: learning_rate(step, steps))
    for step, rows in zip(range(steps), torch.randperm(len(x)).split(GPT_BATCH)):
        loss = F.cross_entropy(model(x[rows]), y[rows].flatten())
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        if (step + 1) % REPORT == 0:
            with torch.no_grad():
                print("step %d: loss %.4f, validation %.4f"
                      % (step + 1, loss.item(),
                         F.cross_entropy(model(test_x), test_y.flatten()).item()),
                      flush=True)


def main(network, seed, epochs, examples=None):
    torch.manual_seed(seed)
    if network == "gpt":
        return train_gpt(epochs)
    x, y = images("train-images-idx3-ubyte")[:examples], labels("train-labels-idx1-ubyte")[
        :examples]
    steps = epochs * -(-len(x) // BATCH)
    trainer = Cnn(steps) if network == "cnn" else ImageTrainer(
        network, network == "densenet", steps)
    train(trainer, epochs, x, y, images("t10k-images-idx3-ubyte"), labels("t10k-labels-idx1-ubyte"))


main(sys.argv[1], *map(int, sys.argv[2:]))
