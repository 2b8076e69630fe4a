#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes fixtures/two_towers.traj: 20 Adam steps of a model of two inputs and two outputs, as
NeuMF's: users and items through embeddings, a product and a network of two layers side by side, of
which one output is a rating and the other a class.

Needs PyTorch (Debian: python3-torch). The network is that of test_inputs.c; trajectory.py describes
the file."""
import pathlib

import numpy as np
import torch
import torch.nn.functional as F

import trajectory

USERS, ITEMS, WIDTH, HIDDEN, CLASSES, BATCH, STEPS = 13, 17, 6, 8, 3, 10, 20
RATING_WEIGHT = 0.25


def initial(rng):
    def normal(*shape):
        return (rng.standard_normal(shape) * 0.5).astype(np.float32)

    return {"user/embeddings": normal(USERS, WIDTH), "item/embeddings": normal(ITEMS, WIDTH),
            "hidden/kernel": normal(2 * WIDTH, HIDDEN), "hidden/bias": normal(HIDDEN),
            "rating/kernel": normal(WIDTH + HIDDEN, 1), "rating/bias": normal(1),
            "genre/kernel": normal(WIDTH + HIDDEN, CLASSES), "genre/bias": normal(CLASSES)}


def loss(v, user, item, rating, genre):
    u, i = F.embedding(user, v["user/embeddings"]), F.embedding(item, v["item/embeddings"])
    hidden = torch.tanh(torch.cat([u, i], dim=1) @ v["hidden/kernel"] + v["hidden/bias"])
    joined = torch.cat([u * i, hidden], dim=1)
    rated = joined @ v["rating/kernel"] + v["rating/bias"]
    classified = joined @ v["genre/kernel"] + v["genre/bias"]
    return RATING_WEIGHT * F.mse_loss(rated[:, 0], rating) + F.cross_entropy(classified, genre)


def batch(rng):
    user, item = (rng.integers(0, count, BATCH).astype(np.int32) for count in (USERS, ITEMS))
    rating = ((user * 7 + item * 3) % 5 + 0.1 * rng.standard_normal(BATCH)).astype(np.float32)
    return user, item, rating, (item % CLASSES).astype(np.int32)


rng = np.random.default_rng(11)
trajectory.write(pathlib.Path(__file__).parent / "fixtures/two_towers.traj", initial(rng),
                 [batch(rng) for _ in range(STEPS)], loss)
