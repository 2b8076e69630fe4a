#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A step of low-rank adaptation of GPT-2's 124 million parameters, beside PyTorch on two threads.

tests/bench/pytorch_lora.py DRIVER [--tokens 128] [--layers 12] [--rank 16]

DRIVER is tests/pretrained/pretrained_driver of a build directory. One text is trained on, in f32,
with AdamW and adapters on c_attn; weights are random. PyTorch has the better of two settings. The
sides take turns, and each has its fastest of five steps in three runs: other work on the machine
slows down whichever runs beside it. On a busy machine only processor time says something: that of
all threads, of PyTorch with one, which waits for no other."""
import argparse
import os
import pathlib
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests/support"), str(ROOT / "tests/pretrained")]
import numpy as np  # noqa: E402

import hub  # noqa: E402
import pytorch_settings  # noqa: E402

WIDTH, HEADS, VOCABULARY, RUNS, WARM_UP, STEPS = 768, 12, 50257, 3, 2, 5
SETTINGS = [pytorch_settings.Setting(2, 1), pytorch_settings.Setting(2, 2)]
ALONE = pytorch_settings.Setting(1, 1)


def write_model(folder, layers):
    """A directory of the hub. Returns how many parameters it has."""
    import references
    config = {"model_type": "gpt2", "architectures": ["GPT2LMHeadModel"], "n_embd": WIDTH,
              "n_head": HEADS, "n_layer": layers, "n_positions": 1024, "vocab_size": VOCABULARY,
              "embd_pdrop": 0, "attn_pdrop": 0, "resid_pdrop": 0}
    rng = np.random.default_rng(1)
    weights = {name: 0.02 * rng.standard_normal(shape, np.float32)
               for name, shape in references.NETWORKS["gpt2"][0](config).items()}
    hub.write_directory(folder / "model", config, weights, "F32")
    return sum(x.size for x in weights.values())


def write_batch(folder, tokens):
    ids = np.random.default_rng(2).integers(0, VOCABULARY, (1, tokens + 1), np.int32)
    values = {"input_ids": ids[:, :-1].copy(), "labels": ids[:, 1:].copy()}
    hub.write_tensors(folder / "batch.safetensors", {
        name: ("I32", x.shape, hub.encode(x, "I32")) for name, x in values.items()})


def torch_step(tokens, layers, rank):
    """Milliseconds of a step in PyTorch: that it takes, and of the processor."""
    import torch
    import torch.nn.functional as F

    def frozen(*shape):
        return 0.02 * torch.randn(*shape)

    table, places = frozen(VOCABULARY, WIDTH), frozen(1024, WIDTH)
    shapes = [(3 * WIDTH, WIDTH), (WIDTH, WIDTH), (4 * WIDTH, WIDTH), (WIDTH, 4 * WIDTH)]
    blocks = [[(frozen(*shape), frozen(shape[0])) for shape in shapes] for _ in range(layers)]
    adapters = [(frozen(rank, WIDTH).requires_grad_(),
                 torch.zeros(3 * WIDTH, rank, requires_grad=True)) for _ in range(layers)]
    norm = torch.ones(WIDTH), torch.zeros(WIDTH)
    hidden = torch.triu(torch.full((tokens, tokens), float("-inf")), 1)
    optimizer = torch.optim.AdamW([x for pair in adapters for x in pair], lr=1e-4)
    ids = torch.randint(0, VOCABULARY, (1, tokens + 1))

    def attend(x):
        query, key, value = (part.reshape(1, tokens, HEADS, -1).transpose(1, 2)
                             for part in x.split(WIDTH, -1))
        if hasattr(F, "scaled_dot_product_attention"):
            y = F.scaled_dot_product_attention(query, key, value, is_causal=True)
        else:
            scores = query @ key.transpose(2, 3) / (WIDTH // HEADS)**0.5 + hidden
            y = scores.softmax(-1) @ value
        return y.transpose(1, 2).reshape(1, tokens, WIDTH)

    def step():
        x = F.embedding(ids[:, :-1], table) + places[:tokens]
        for (c_attn, c_proj, c_fc, mlp_proj), (a, b) in zip(blocks, adapters):
            normed = F.layer_norm(x, (WIDTH,), *norm)
            projected = F.linear(normed, *c_attn) + F.linear(F.linear(normed, a), b)
            x = x + F.linear(attend(projected), *c_proj)
            wide = F.linear(F.layer_norm(x, (WIDTH,), *norm), *c_fc)
            x = x + F.linear(F.gelu(wide), *mlp_proj)
        logits = F.linear(F.layer_norm(x, (WIDTH,), *norm), table)
        loss = F.cross_entropy(logits.reshape(tokens, -1), ids[0, 1:])
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()

    for _ in range(WARM_UP):
        step()
    times = []
    for _ in range(STEPS):
        begin = time.perf_counter(), time.process_time()
        step()
        times.append((time.perf_counter() - begin[0], time.process_time() - begin[1]))
    return [1000 * min(column) for column in zip(*times)]


def run(command, **environment):
    result = subprocess.run([str(part) for part in command], check=True, stdout=subprocess.PIPE,
                            text=True, env={**os.environ, **environment})
    return [float(word) for word in result.stdout.split()]


def compare(options, folder):
    parameters = write_model(folder, options.layers)
    write_batch(folder, options.tokens)
    shape = [options.tokens, options.layers, options.rank]
    ours, theirs, alone = [], [], []
    for _ in range(options.runs):
        ours.append(run([options.driver, "adapter-time", folder, options.rank]))
        for setting in [*SETTINGS, ALONE]:
            times = run([sys.executable, __file__, "--torch", *shape], **setting.environment)
            (alone if setting is ALONE else theirs).append(times)
    step, _, processor = map(min, zip(*ours))
    print("%.1f M parameters, %d tokens, rank %d; load %.1f" % (
        parameters / 1e6, options.tokens, options.rank, os.getloadavg()[0]))
    for what, own, other in (("step", step, min(theirs)[0]),
                             ("processor time", processor, min(t[1] for t in alone))):
        print("%s: Ringfire %.0f ms, PyTorch %.0f ms; %.2f of its speed" %
              (what, own, other, other / own))
    print("peak of Ringfire: %.0f MB" % (max(t[1] for t in ours) / 1024))


def main():
    if sys.argv[1:2] == ["--torch"]:
        print(*torch_step(*map(int, sys.argv[2:])))
        return
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("driver", type=pathlib.Path)
    parser.add_argument("--tokens", type=int, default=128)
    parser.add_argument("--layers", type=int, default=12)
    parser.add_argument("--rank", type=int, default=16)
    parser.add_argument("--runs", type=int, default=RUNS)
    with tempfile.TemporaryDirectory(prefix="ringfire-lora-") as folder:
        compare(parser.parse_args(), pathlib.Path(folder))


main()
