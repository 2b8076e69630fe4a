#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes fixtures/ncf.traj: 20 Adam steps of NeuMF for 11 users and 14 items.

Needs PyTorch (Debian: python3-torch). The loss is that of TensorFlow's model garden, the softmax
crossentropy of two classes whose logits are 0 and the network's; trajectory.py describes the
file."""
import pathlib

import numpy as np
import torch
import torch.nn.functional as F

import trajectory

USERS, ITEMS, FACTORS, LAYERS, BATCH, STEPS = 11, 14, 3, (8, 6, 4), 16, 20


def initial(rng):
    variables = {}

    # larger than a training begins with, so that nothing is nearly linear
    def add(name, *shape, deviation=0.6):
        variables[name] = (rng.standard_normal(shape) * deviation).astype(np.float32)

    for name, rows in ("user", USERS), ("item", ITEMS):
        add(name + "_factors/embeddings", rows, FACTORS)
        add(name + "_features/embeddings", rows, LAYERS[0] // 2)
    for i in range(1, len(LAYERS)):
        add("perceptron_%d/kernel" % i, LAYERS[i - 1], LAYERS[i])
        add("perceptron_%d/bias" % i, LAYERS[i])
    add("logit/kernel", FACTORS + LAYERS[-1], 1)
    add("logit/bias", 1)
    return variables


def loss(v, user, item, label):
    def rows(table, numbers):
        return F.embedding(numbers, v[table + "/embeddings"])

    product = rows("user_factors", user) * rows("item_factors", item)
    x = torch.cat([rows("user_features", user), rows("item_features", item)], 1)
    for i in range(1, len(LAYERS)):
        x = F.relu(F.linear(x, v["perceptron_%d/kernel" % i].T, v["perceptron_%d/bias" % i]))
    logit = torch.cat([product, x], 1) @ v["logit/kernel"] + v["logit/bias"]
    return F.cross_entropy(torch.cat([torch.zeros_like(logit), logit], 1), label[:, 0].long())


def batch(rng):
    user, item = (rng.integers(0, count, BATCH).astype(np.int32) for count in (USERS, ITEMS))
    return user, item, ((user * 3 + item) % 5 < 2).astype(np.float32)[:, None]


rng = np.random.default_rng(9)
trajectory.write(pathlib.Path(__file__).parent / "fixtures/ncf.traj", initial(rng),
                 [batch(rng) for _ in range(STEPS)], loss)
