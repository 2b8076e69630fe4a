# SPDX-License-Identifier: Apache-2.0
"""Training steps of the networks of `ringfire-bench zoo` in PyTorch, and how fast they are
(pytorch_zoo.py, tests/gpu_day/baseline.py)."""
import dataclasses
import statistics
import time

import torch
import torch.nn.functional as F

import pytorch_networks as networks

SIDE, CLASSES, BLOCK, VOCABULARY = 28, 10, networks.BLOCK, networks.VOCABULARY
# lengths of translations and texts, rows of the tables
PAIR, WORDS, USERS, ITEMS = networks.PAIR, 100, networks.USERS, networks.ITEMS
# What is counted, and how many of them an example has.
UNITS = {"cnn": ("images", 1), "resnet": ("images", 1), "densenet": ("images", 1),
         "vae": ("images", 1), "gpt": ("tokens", BLOCK), "bert": ("tokens", 64),
         "transformer": ("tokens", PAIR), "gru": ("tokens", PAIR), "lstm": ("texts", 1),
         "ncf": ("ratings", 1)}
WARM_UP, SLICES = 3, 5


def data_of(name, batch, network):
    """Inputs, labels and the loss of a network."""
    def numbers(bound, *shape):
        return torch.randint(1, bound, shape)

    if name == "vae":
        images = (torch.arange(batch * SIDE * SIDE) % 2).float().reshape(batch, 1, SIDE, SIDE)
        return [images], [images], networks.vae_loss
    if UNITS[name][0] == "images":
        return [torch.rand(batch, 1, SIDE, SIDE)], [torch.arange(batch) % CLASSES], F.cross_entropy
    if name == "gpt":
        return [numbers(VOCABULARY, batch,
                        BLOCK)], [numbers(VOCABULARY, batch * BLOCK)], F.cross_entropy
    if name == "bert":
        passages, masked = (batch, network.length), (batch, network.predictions)
        inputs = [numbers(network.vocabulary, *passages), torch.randint(0, 2, passages),
                  torch.randint(0, network.length, masked)]
        labels = [numbers(network.vocabulary, batch * network.predictions),
                  torch.randint(0, 2, (batch,))]
        return inputs, labels, lambda outputs, *both: sum(
            F.cross_entropy(output, label) for output, label in zip(outputs, both))
    if UNITS[name][0] == "tokens":
        return [numbers(network.vocabulary, batch, PAIR)
                for _ in range(2)], [numbers(network.vocabulary, batch * PAIR)], F.cross_entropy
    inputs = [numbers(1000, batch, WORDS)] if name == "lstm" else [
        numbers(USERS, batch), numbers(ITEMS, batch)]
    return inputs, [(torch.arange(batch) % 2).float()[:, None]], F.binary_cross_entropy_with_logits


def optimizer_of(name, parameters, captured):
    if name in ("resnet", "densenet"):
        return torch.optim.SGD(parameters, lr=0.01, momentum=0.9, nesterov=True)
    options = {"capturable": True} if captured else {}
    if name == "bert":
        return torch.optim.AdamW(parameters, lr=1e-4, weight_decay=0.01, **options)
    return torch.optim.Adam(parameters, **options)


@dataclasses.dataclass(frozen=True)
class Form:
    """How a user may run a network."""
    channels_last: bool = False  # of pictures
    compiled: bool = False       # torch.compile(), from PyTorch 2 on
    captured: bool = False       # the whole step as a CUDA graph

    def __str__(self):
        ways = (self.captured, "graph"), (self.compiled,
                                          "compiled"), (self.channels_last, "channels last")
        chosen = [name for holds, name in ways if holds]
        return ", ".join(chosen if self.captured or self.compiled else ["eager", *chosen])


def takes_pictures(name):
    return UNITS[name][0] == "images"


def capture(step):
    """A function that replays the step."""
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):  # what the capture allocates must have run before, elsewhere
        for _ in range(WARM_UP):
            step()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        step()
    return graph.replay


def step_of(name, batch, device="cpu", form=Form()):
    """A function that trains once."""
    torch.manual_seed(1)
    network = networks.NETWORKS[name]()
    inputs, labels, loss = data_of(name, batch, network)
    network.to(device)
    inputs, labels = ([tensor.to(device) for tensor in tensors] for tensors in (inputs, labels))
    if form.channels_last:
        network.to(memory_format=torch.channels_last)
        inputs = [tensor.to(memory_format=torch.channels_last) for tensor in inputs]
    optimizer = optimizer_of(name, network.parameters(), form.captured)
    called = torch.compile(network) if form.compiled else network

    def step():
        optimizer.zero_grad(set_to_none=True)
        loss(called(*inputs), *labels).backward()
        if name == "bert":
            torch.nn.utils.clip_grad_norm_(network.parameters(), 1.0)
        optimizer.step()

    return capture(step) if form.captured else step


def units_per_second(name, batch, seconds, device="cpu", form=Form()):
    """The median of slices of so many seconds together."""
    step = step_of(name, batch, device, form)
    abreast = 1 if device == "cpu" else 8  # steps between two looks at the clock

    def wait():
        if device != "cpu":
            torch.cuda.synchronize()

    for _ in range(WARM_UP):
        step()
    wait()
    slices = []
    for _ in range(SLICES):
        start, steps = time.perf_counter(), 0
        while steps == 0 or time.perf_counter() - start < seconds / SLICES:
            for _ in range(abreast):
                step()
            steps += abreast
            wait()
        slices.append((time.perf_counter() - start) / steps)
    return batch * UNITS[name][1] / statistics.median(slices)
