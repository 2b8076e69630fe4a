#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The networks of `ringfire bench zoo` beside the same ones in PyTorch on the CPU, in turns, each in a process of its own.

Prints for each network how many images or tokens a second each of them trains, PyTorch with as many threads as there are cores, and
the median of the ratios of the rounds. For an idle machine. Needs PyTorch (Debian: python3-torch and libopenblas0-pthread).

Usage: tests/bench/pytorch_zoo.py [--ringfire PATH] [--device NAME] [--models NAME,...] [--rounds N] [--seconds X] [--threads N]"""
import argparse
import json
import os
import pathlib
import resource
import statistics
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
SIDE, CLASSES, BLOCK, VOCABULARY = 28, 10, 64, 96
PAIR, WORDS, USERS, ITEMS = 16, 100, 6040, 3706  # lengths of translations and texts, rows of the tables
UNITS = {"resnet": ("images", 1), "densenet": ("images", 1), "gpt": ("tokens", BLOCK), "transformer": ("tokens", PAIR), "gru": ("tokens", PAIR),
         "lstm": ("texts", 1), "ncf": ("ratings", 1)}


def measure_torch(name, batch, seconds, threads):
    """Trains for so many seconds after three steps; prints units a second and the peak of memory."""
    import torch
    import torch.nn.functional as F
    from torch import nn

    torch.set_num_threads(threads)
    torch.manual_seed(1)

    class Conv(nn.Sequential):
        """Convolution without a bias, batch normalization."""
        def __init__(self, inner, outer, stride=1):
            super().__init__(nn.Conv2d(inner, outer, 3, stride, 1, bias=False), nn.BatchNorm2d(outer))

    class Residual(nn.Module):
        def __init__(self, inner, outer):
            super().__init__()
            self.halves = outer != inner
            self.first, self.second = Conv(inner, outer, 2 if self.halves else 1), Conv(outer, outer)

        def forward(self, x):
            y = self.second(F.relu(self.first(x)))
            if self.halves:
                x = x[:, :, ::2, ::2]
                x = torch.cat([x, torch.zeros_like(x)], 1)
            return F.relu(x + y)

    def resnet():
        return nn.Sequential(Conv(1, 16), nn.ReLU(), Residual(16, 16), Residual(16, 32), Residual(32, 64), nn.AdaptiveAvgPool2d(1),
                             nn.Flatten(), nn.Linear(64, CLASSES))

    def activated(inner, outer, size):
        return [nn.BatchNorm2d(inner, eps=1e-3), nn.ReLU(), nn.Conv2d(inner, outer, size, padding=size // 2, bias=False)]

    class Dense(nn.Module):
        def __init__(self, channels, growth):
            super().__init__()
            self.added = nn.Sequential(*activated(channels, 4 * growth, 1), *activated(4 * growth, growth, 3))

        def forward(self, x):
            return torch.cat([x, self.added(x)], 1)

    def densenet(growth=12, blocks=3, layers=2):
        channels = 2 * growth
        parts = [nn.Conv2d(1, channels, 3, padding=1, bias=False)]
        for b in range(blocks):
            for _ in range(layers):
                parts.append(Dense(channels, growth))
                channels += growth
            if b + 1 < blocks:
                parts += [*activated(channels, channels // 2, 1), nn.AvgPool2d(2)]
                channels //= 2
        parts += [nn.BatchNorm2d(channels, eps=1e-3), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, CLASSES)]
        return nn.Sequential(*parts)

    class Block(nn.Module):
        def __init__(self, width, heads):
            super().__init__()
            self.heads = heads
            self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(2))
            self.qkv, self.output = nn.Linear(width, 3 * width, bias=False), nn.Linear(width, width, bias=False)
            self.expand, self.contract = nn.Linear(width, 4 * width, bias=False), nn.Linear(4 * width, width, bias=False)
            self.register_buffer("later", torch.ones(BLOCK, BLOCK, dtype=torch.bool).triu(1))

        def forward(self, x):
            query, key, value = (p.unflatten(2, (self.heads, -1)).transpose(1, 2) for p in self.qkv(self.norms[0](x)).chunk(3, dim=2))
            scores = query @ key.transpose(2, 3) / (query.shape[3] ** 0.5)
            mixed = scores.masked_fill(self.later, -torch.inf).softmax(3) @ value
            x = x + self.output(mixed.transpose(1, 2).flatten(2))
            return x + self.contract(F.gelu(self.expand(self.norms[1](x))))

    class Gpt(nn.Module):
        def __init__(self, layers=4, heads=4, width=128):
            super().__init__()
            self.tokens, self.positions = nn.Embedding(VOCABULARY, width), nn.Parameter(torch.randn(BLOCK, width) * 0.02)
            nn.init.normal_(self.tokens.weight, std=0.02)
            self.blocks = nn.Sequential(*(Block(width, heads) for _ in range(layers)))
            self.norm = nn.LayerNorm(width)

        def forward(self, x):
            return (self.norm(self.blocks(self.tokens(x) + self.positions)) @ self.tokens.weight.T).flatten(0, 1)

    class Attention(nn.Module):
        def __init__(self, width, heads):
            super().__init__()
            self.heads = heads
            self.query, self.key_value, self.output = nn.Linear(width, width), nn.Linear(width, 2 * width), nn.Linear(width, width)
            self.norm = nn.LayerNorm(width, eps=1e-3)

        def forward(self, x, memory, hidden=None):
            def split(y):
                return y.unflatten(2, (self.heads, -1)).transpose(1, 2)

            query = split(self.query(x))
            key, value = (split(y) for y in self.key_value(memory).chunk(2, dim=2))
            scores = query @ key.transpose(2, 3) / (query.shape[3] ** 0.5)
            if hidden is not None:
                scores = scores.masked_fill(hidden, -torch.inf)
            return self.norm(x + self.output((scores.softmax(3) @ value).transpose(1, 2).flatten(2)))

    class Perceptron(nn.Module):
        def __init__(self, width, inner):
            super().__init__()
            self.expand, self.contract, self.norm = nn.Linear(width, inner), nn.Linear(inner, width), nn.LayerNorm(width, eps=1e-3)

        def forward(self, x):
            return self.norm(x + self.contract(F.relu(self.expand(x))))

    class Transformer(nn.Module):
        vocabulary = 4000

        def __init__(self, layers=2, heads=4, width=128, inner=256):
            super().__init__()
            self.source, self.target = nn.Embedding(self.vocabulary, width), nn.Embedding(self.vocabulary, width)
            self.encoder = nn.ModuleList(nn.ModuleList([Attention(width, heads), Perceptron(width, inner)]) for _ in range(layers))
            self.decoder = nn.ModuleList(nn.ModuleList([Attention(width, heads), Attention(width, heads), Perceptron(width, inner)])
                                         for _ in range(layers))
            self.classifier = nn.Linear(width, self.vocabulary)
            self.register_buffer("later", torch.ones(PAIR, PAIR, dtype=torch.bool).triu(1))
            self.register_buffer("positions", torch.randn(PAIR, width))

        def forward(self, source, target):
            memory = self.source(source) * self.source.embedding_dim ** 0.5 + self.positions
            x = self.target(target) * self.target.embedding_dim ** 0.5 + self.positions
            for attention, perceptron in self.encoder:
                memory = perceptron(attention(memory, memory))
            for own, cross, perceptron in self.decoder:
                x = perceptron(cross(own(x, x, self.later), memory))
            return self.classifier(x).flatten(0, 1)

    class Gru(nn.Module):
        vocabulary = 2000

        def __init__(self, units=128, width=64):
            super().__init__()
            self.source, self.target = nn.Embedding(self.vocabulary, width), nn.Embedding(self.vocabulary, width)
            self.encoder, self.cell = nn.GRU(width, units, batch_first=True), nn.GRUCell(units + width, units)
            self.memory, self.query, self.score = nn.Linear(units, units), nn.Linear(units, units), nn.Linear(units, 1)
            self.classifier = nn.Linear(units, self.vocabulary)

        def forward(self, source, target):
            memory, last = self.encoder(self.source(source))
            keys, tokens, state, states = self.memory(memory), self.target(target), last[0], []
            for i in range(PAIR):
                seen = self.score(torch.tanh(keys + self.query(state)[:, None])).softmax(1)
                state = self.cell(torch.cat([(seen * memory).sum(1), tokens[:, i]], 1), state)
                states.append(state)
            return self.classifier(torch.stack(states, 1)).flatten(0, 1)

    class Lstm(nn.Module):
        def __init__(self, vocabulary=1000, width=64, units=64):
            super().__init__()
            self.tokens, self.lstm = nn.Embedding(vocabulary, width), nn.LSTM(width, units, batch_first=True, bidirectional=True)
            self.dense, self.logit = nn.Linear(2 * units, 64), nn.Linear(64, 1)

        def forward(self, x):
            _, (last, _) = self.lstm(self.tokens(x))
            return self.logit(F.relu(self.dense(torch.cat([last[0], last[1]], 1))))

    class Ncf(nn.Module):
        def __init__(self, factors=8, layers=(64, 32, 16, 8)):
            super().__init__()
            self.factors = nn.ModuleList(nn.Embedding(rows, factors) for rows in (USERS, ITEMS))
            self.features = nn.ModuleList(nn.Embedding(rows, layers[0] // 2) for rows in (USERS, ITEMS))
            self.perceptron = nn.Sequential(*(part for a, b in zip(layers, layers[1:]) for part in (nn.Linear(a, b), nn.ReLU())))
            self.logit = nn.Linear(factors + layers[-1], 1)

        def forward(self, user, item):
            features = self.perceptron(torch.cat([self.features[0](user), self.features[1](item)], 1))
            return self.logit(torch.cat([self.factors[0](user) * self.factors[1](item), features], 1))

    def numbers(bound, *shape):
        return torch.randint(1, bound, shape)

    network = {"resnet": resnet, "densenet": densenet, "gpt": Gpt, "transformer": Transformer, "gru": Gru, "lstm": Lstm, "ncf": Ncf}[name]()
    criterion, optimizer = F.cross_entropy, torch.optim.Adam(network.parameters())
    if UNITS[name][0] == "images":
        optimizer = torch.optim.SGD(network.parameters(), lr=0.01, momentum=0.9, nesterov=True)
        inputs, labels = [torch.rand(batch, 1, SIDE, SIDE)], torch.arange(batch) % CLASSES
    elif name == "gpt":
        inputs, labels = [numbers(VOCABULARY, batch, BLOCK)], numbers(VOCABULARY, batch * BLOCK)
    elif UNITS[name][0] == "tokens":
        inputs, labels = [numbers(network.vocabulary, batch, PAIR) for _ in range(2)], numbers(network.vocabulary, batch * PAIR)
    else:
        criterion, labels = F.binary_cross_entropy_with_logits, (torch.arange(batch) % 2).float()[:, None]
        inputs = [numbers(1000, batch, WORDS)] if name == "lstm" else [numbers(USERS, batch), numbers(ITEMS, batch)]

    def step():
        optimizer.zero_grad(set_to_none=True)
        criterion(network(*inputs), labels).backward()
        optimizer.step()

    for _ in range(3):
        step()
    slices = []
    for _ in range(5):
        start, steps = time.perf_counter(), 0
        while steps == 0 or time.perf_counter() - start < seconds / 5:
            step()
            steps += 1
        slices.append((time.perf_counter() - start) / steps)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    print(json.dumps({"units_per_second": batch * UNITS[name][1] / statistics.median(slices), "peak_bytes": peak}))


def start(command):
    done = subprocess.run([str(c) for c in command], stdout=subprocess.PIPE, text=True)
    if done.returncode:
        sys.exit("failed: %s" % " ".join(map(str, command)))
    return json.loads(done.stdout)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, usage=argparse.SUPPRESS)
    parser.add_argument("--ringfire", type=pathlib.Path, default=ROOT / "build/release/tools/ringfire")
    parser.add_argument("--device", default="llvmpipe")
    parser.add_argument("--models", type=lambda text: text.split(","), default=list(UNITS))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=5)
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--torch", nargs=2, metavar=("MODEL", "BATCH"), help=argparse.SUPPRESS)
    o = parser.parse_args()
    if o.torch:
        return measure_torch(o.torch[0], int(o.torch[1]), o.seconds, o.threads)
    unknown = set(o.models) - set(UNITS)
    if unknown:
        parser.error("there is no network %s; possible are %s" % (", ".join(sorted(unknown)), ", ".join(UNITS)))
    print("%-10s %20s %20s   ratio (range)        peak MB, PyTorch's" % ("network", "ringfire", "PyTorch %d threads" % o.threads))
    for name in o.models:
        rounds = []
        for _ in range(o.rounds):
            ours = start([o.ringfire, "bench", "zoo", "--device", o.device, "--model", name, "--seconds", o.seconds, "--json"])["networks"][0]
            theirs = start([sys.executable, __file__, "--seconds", o.seconds, "--threads", o.threads, "--torch", name, ours["batch"]])
            rounds.append((ours, theirs))
        ratios = sorted(a["units_per_second"] / b["units_per_second"] for a, b in rounds)
        median = [statistics.median(r[i]["units_per_second"] for r in rounds) for i in (0, 1)]
        memory = [max(r[i]["peak_bytes"] for r in rounds) / 1e6 for i in (0, 1)]
        print("%-10s %12.0f %s/s %12.0f %s/s   %.2f (%.2f to %.2f)   %.0f, %.0f" % (
            name, median[0], UNITS[name][0], median[1], UNITS[name][0], statistics.median(ratios), ratios[0], ratios[-1], *memory), flush=True)


main()
