#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes fixtures/optimizers.bin: weights after 10 and 20 updates by several optimizers, in double
precision.

Needs PyTorch (Debian: python3-torch), whose Adagrad, Adam, AdamW and SGD are used as they are;
Lion, LAMB, Muon and averages of weights are written out here, and Nadam, because PyTorch 1.13
multiplies the product of its momenta by the latest one twice (later versions do not). Three
variables learn the means of noise whose size differs from weight to weight. The file: initial
weights f32 [N], batches f32 [STEPS, BATCH, N], then for each case of CASES, in order, f64 [2, N]
(and f64 [N] of averages for the last one)."""
import pathlib

import numpy as np
import torch

SHAPES, STEPS, BATCH = [(6, 5), (3,), (40,)], 20, 4
SIZES = [int(np.prod(s)) for s in SHAPES]
N = sum(SIZES)


class Nadam:
    """PyTorch 2's, with a momentum_decay of 1."""

    def __init__(self, variables, lr):
        self.variables, self.lr, self.t, self.product = variables, lr, 0, 1.0
        self.m, self.v = [[torch.zeros_like(v) for v in variables] for _ in range(2)]

    def step(self):
        self.t += 1
        now, after = [0.9 * (1 - 0.5 * 0.96 ** t) for t in (self.t, self.t + 1)]
        self.product *= now
        for x, m, v in zip(self.variables, self.m, self.v):
            m.mul_(0.9).add_(x.grad, alpha=0.1)
            v.mul_(0.999).addcmul_(x.grad, x.grad, value=0.001)
            mean = after * m / (1 - self.product * after) + (1 - now) * x.grad / (1 - self.product)
            x.data -= self.lr * mean / ((v / (1 - 0.999 ** self.t)).sqrt() + 1e-7)


class Lion:
    def __init__(self, variables, lr, betas, decay):
        self.variables, self.lr, self.betas, self.decay = variables, lr, betas, decay
        self.m = [torch.zeros_like(v) for v in variables]

    def step(self):
        for v, m in zip(self.variables, self.m):
            v.data -= self.lr * self.decay * v.data
            v.data -= self.lr * torch.sign(self.betas[0] * m + (1 - self.betas[0]) * v.grad)
            m.mul_(self.betas[1]).add_(v.grad, alpha=1 - self.betas[1])


class Lamb:
    """decays: of each variable."""

    def __init__(self, variables, lr, decays, clip):
        self.variables, self.lr, self.decays, self.clip, self.t = variables, lr, decays, clip, 0
        self.m, self.v = [[torch.zeros_like(v) for v in variables] for _ in range(2)]

    def step(self):
        self.t += 1
        for x, m, v, decay in zip(self.variables, self.m, self.v, self.decays):
            g = x.grad * min(1.0, self.clip / float(x.grad.norm()))
            m.mul_(0.9).add_(g, alpha=0.1)
            v.mul_(0.999).addcmul_(g, g, value=0.001)
            r = m / (1 - 0.9 ** self.t) / ((v / (1 - 0.999 ** self.t)).sqrt()
                                           + 1e-7) + decay * x.data
            x.data -= self.lr * x.data.norm() / r.norm() * r


class Muon:
    """Keras 3.13's with the AdamW of PyTorch for what is no matrix; one norm clips all
    gradients."""

    def __init__(self, variables, lr, decay, clip):
        self.variables, self.lr, self.decay, self.clip = variables, lr, decay, clip
        self.m = torch.zeros_like(variables[0])
        self.adamw = torch.optim.AdamW([{"params": [variables[1]], "weight_decay": 0.0},
                                        {"params": [variables[2]], "lr": lr / 2}],
                                       lr=lr, eps=1e-7, weight_decay=decay)

    def step(self):
        norm = float(torch.cat([v.grad.flatten() for v in self.variables]).norm())
        for v in self.variables:
            v.grad = v.grad * min(1.0, self.clip / norm)
        x = self.variables[0]
        self.m = 0.95 * self.m + x.grad
        y = x.grad + 0.95 * self.m
        y = y / (torch.linalg.matrix_norm(y) + 1e-7)
        for _ in range(5):
            square = y @ y.T
            y = 3.4445 * y + (-4.7750 * square + 2.0315 * square @ square) @ y
        x.data -= self.lr * self.decay * x.data + self.lr * 0.2 * max(x.shape) ** 0.5 * y
        self.adamw.step()


CASES = {
    # Keras adds epsilon below the root, with what the sum begins with.
    "adagrad": lambda v: torch.optim.Adagrad(v, lr=0.1, initial_accumulator_value=0.1 + 1e-7,
                                             eps=0),
    "nadam": lambda v: Nadam(v, 0.01),
    "lion": lambda v: Lion(v, 0.01, (0.9, 0.99), 0.1),
    "lamb": lambda v: Lamb(v, 0.01, (0.1, 0.0, 0.1), 0.5),
    "adamw": lambda v: torch.optim.AdamW(v, lr=0.01, eps=1e-7, weight_decay=0.1),
    "momentum": lambda v: torch.optim.SGD(v, lr=0.05, momentum=0.9),
    "muon": lambda v: Muon(v, 0.01, 0.1, 3.0),
    "average": lambda v: torch.optim.Adam(v, lr=0.01, eps=1e-7),
}


def train(make, initial, batches):
    parts = np.split(initial.astype(np.float64), np.cumsum(SIZES)[:-1])
    variables = [torch.tensor(p.reshape(s), requires_grad=True) for p, s in zip(parts, SHAPES)]
    optimizer, found, average = make(variables), [], None
    for number, batch in enumerate(batches, 1):
        flat = torch.cat([v.flatten() for v in variables])
        loss = 0.5 * (flat - torch.tensor(batch, dtype=torch.float64)).square().sum(1).mean()
        for v, g in zip(variables, torch.autograd.grad(loss, variables)):
            v.grad = g
        optimizer.step()
        now = torch.cat([v.detach().flatten() for v in variables]).numpy()
        average = now.copy() if number == 1 else 0.9 * average + 0.1 * now
        if number in (STEPS // 2, STEPS):
            found.append(now.copy())
    return found, average


rng = np.random.default_rng(17)
size = 10.0 ** rng.uniform(-2, 0.5, N)
initial = (0.3 * rng.standard_normal(N)).astype(np.float32)
batches = (size * rng.standard_normal((STEPS, BATCH, N))).astype(np.float32)
with open(pathlib.Path(__file__).parent / "fixtures/optimizers.bin", "wb") as file:
    file.write(initial.tobytes() + batches.tobytes())
    for name, make in CASES.items():
        found, average = train(make, initial, batches)
        file.write(np.stack(found).astype("<f8").tobytes())
    file.write(average.astype("<f8").tobytes())
