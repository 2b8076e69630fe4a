#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares models that rf_pretrained_open() makes with PyTorch, in double precision. Usage:
check_pretrained.py DRIVER sample|all|CASE [--workers RINGFIRE]

Each case is a directory of random weights. The driver (driver.c) gives the results of the model,
writes it back untrained, after one step of gradient descent, and the losses of 20 steps of AdamW on
one device, on two, and of two workers. Skips, with 77, where there is no PyTorch."""
import pathlib
import subprocess
import sys
import tempfile

try:
    import numpy as np
    import torch
except ImportError as error:
    print("skipped: needs PyTorch (python3-torch): %s" % error)
    sys.exit(77)

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
import cases
import hub
import references

STEPS, RATE, EXAMPLES, LENGTH, NEW_TOKENS = 20, 64.0, 4, 13, 4


def make_weights(config, rng):
    """Large enough that nothing is nearly linear."""
    shapes = references.NETWORKS[config["model_type"]][0](config)
    norms = ("ln_", "norm", "LayerNorm")
    return {name: (1.0 if any(n in name for n in norms) and name.endswith("weight") else 0.0)
            + 0.3 * rng.standard_normal(shape) for name, shape in shapes.items()}


def make_directory(path, config, written, rng):
    """Returns the weights as the files hold them."""
    kind = written.get("kind", "F32")
    weights = {name: hub.decode(hub.encode(w, kind), kind, w.shape)
               for name, w in make_weights(config, rng).items()}
    prefix = written.get("prefix", "")
    stored = {(name if name.startswith("lm_head") else prefix + name): w
              for name, w in weights.items()}
    for again, name in written.get("twice", ()):
        stored[again] = weights[name]
    for name, shape in written.get("others", {}).items():
        stored[name] = rng.standard_normal(shape)
    for of, to in written.get("renamed", ()):
        stored = {name.replace(of, to): w for name, w in stored.items()}
    if written.get("masks"):
        for i in range(config["n_layer"]):
            stored["h.%d.attn.bias" % i] = np.tril(np.ones((1, 1, 16, 16)))
            stored["h.%d.attn.masked_bias" % i] = np.array(-1e4)
    hub.write_directory(path, config, stored, kind, written.get("shards", 1))
    return weights


def make_batch(config, rng):
    """Sentences of two parts, most of which end in padding; labels of tokens or of sentences."""
    vocabulary, lengths = config["vocab_size"], np.array([LENGTH, LENGTH - 1, 5, 2])[:, None]
    places, classifies = np.arange(LENGTH)[None, :], "Classification" in config["architectures"][0]
    labels = (len(config.get("id2label", "ab")), EXAMPLES) if classifies else (
        vocabulary, (EXAMPLES, LENGTH))
    return {"input_ids": rng.integers(0, vocabulary, (EXAMPLES, LENGTH)),
            "attention_mask": places < lengths, "token_type_ids": places >= lengths // 2,
            "labels": rng.integers(0, *labels)}


class Reference:
    def __init__(self, config, weights, batch):
        self.config = config
        self.batch = {name: torch.tensor(x).long() for name, x in batch.items()}
        self.network = references.NETWORKS[config["model_type"]][1]
        self.weights = {name: torch.tensor(w, dtype=torch.float64, requires_grad=True)
                        for name, w in weights.items()}

    def results(self):
        return self.network(self.weights, self.config, self.batch)

    def loss(self):
        results = self.results()
        if "logits" in results:
            return torch.nn.functional.cross_entropy(results["logits"].flatten(0, -2),
                                                     self.batch["labels"].flatten())
        return sum(x.square().mean() for x in results.values())

    def gradients(self):
        self.loss().backward()
        found = {name: w.grad.numpy().copy() for name, w in self.weights.items()}
        for w in self.weights.values():
            w.grad = None
        return found

    def train(self):
        optimizer = torch.optim.AdamW(self.weights.values(), lr=1e-3, betas=(0.9, 0.999), eps=1e-6,
                                      weight_decay=0.05)
        losses = []
        for _ in range(STEPS):
            optimizer.zero_grad()
            loss = self.loss()
            loss.backward()
            losses.append(loss.item())
            optimizer.step()
        return losses


def expect(condition, what):
    if not condition:
        raise AssertionError(what)


def compare(what, found, wanted, tolerance):
    largest = np.abs(wanted).max()
    error = np.abs(found - wanted).max() / largest
    expect(found.shape == wanted.shape and error <= tolerance,
           "%s: error %.3g of the largest, %.3g; allowed are %g"
           % (what, error, largest, tolerance))
    return error


def check_texts(reference, batch, found):
    """Greedy: each token has the largest logit, or one that roundings cannot tell from it."""
    for i, text in enumerate(found):
        tokens = list(batch["input_ids"][i][:LENGTH - NEW_TOKENS + 1 - i])
        for token in text:
            batch_of_one = {"input_ids": torch.tensor([tokens])}
            logits = reference.network(reference.weights, reference.config, batch_of_one)["logits"]
            last = logits[0, -1].detach().numpy()
            expect(last[token] >= last.max() - 1e-4 * np.abs(last).max(),
                   "text %d goes on with token %d after %s, not %d" % (i, token, tokens,
                                                                      last.argmax()))
            tokens.append(token)


def check_same_bytes(before, after):
    expect(before.keys() == after.keys(), "tensors were written as %s" % sorted(after))
    for name, tensor in before.items():
        expect(tensor == after[name], "tensor '%s' has other bytes" % name)


def check_gradients(before, after, wanted, written):
    """A step of gradient descent shows them."""
    worst, largest = 0.0, max(np.abs(g).max() for g in wanted.values())
    for name, gradient in wanted.items():
        name = name if name.startswith("lm_head") else written.get("prefix", "") + name
        for of, to in written.get("renamed", ()):
            name = name.replace(of, to)
        (kind, shape, old), new = before[name], after[name][2]
        found = (hub.decode(old, kind, shape).astype(np.float64) - hub.decode(new, kind, shape)
                 ) / RATE
        if np.abs(gradient).max() < 1e-7 * largest:
            expect(np.abs(found).max() < 1e-6 * largest, "gradient of '%s' is not 0" % name)
        else:
            worst = max(worst, compare("gradient of '%s'" % name, found, gradient, 1e-3))
    for again, name in written.get("twice", ()):
        expect(after[again] == after[written.get("prefix", "") + name], "'%s' is stale" % again)
    return worst


def check_losses(devices, text, wanted):
    found = [float(line) for line in text.split()]
    expect(len(found) == len(wanted), "%s: %d losses" % (devices, len(found)))
    for step, (a, b) in enumerate(zip(found, wanted)):
        expect(abs(a - b) <= 2e-4 * abs(b), "%s: loss %d is %.7g, not %.7g" % (devices, step, a, b))


def run(*command):
    done = subprocess.run([str(c) for c in command], stdout=subprocess.PIPE, check=False,
                          stderr=subprocess.STDOUT, encoding="utf-8", timeout=300)
    expect(done.returncode == 0, done.stdout)
    return done.stdout


def check_case(driver, launcher, name, folder):
    config, written = cases.CASES[name]
    rng = np.random.default_rng(sum(map(ord, name)))
    weights = make_directory(folder / "model", config, written, rng)
    batch = make_batch(config, rng)
    hub.write_tensors(folder / "batch.safetensors", {
        name: ("I32", x.shape, hub.encode(x, "I32")) for name, x in batch.items()})
    said = run(driver, "results", folder)
    expect(not said, said)
    reference = Reference(config, weights, batch)
    found, wanted = hub.read_values(folder / "results.safetensors"), reference.results()
    expect(found.keys() == wanted.keys(), "the model gives %s" % sorted(found))
    error = max(compare(output, found[output], x.detach().numpy(), 1e-4)
                for output, x in wanted.items())
    texts = folder / "texts.safetensors"
    decoder = "logits" in wanted and "ForCausal" in config["architectures"][0]
    expect(texts.exists() == (decoder or "LMHead" in config["architectures"][0]),
           "the driver writes texts: %s" % texts.exists())
    if texts.exists():
        check_texts(reference, batch, hub.read_values(texts)["texts"])
    before = hub.read_directory(folder / "model")
    check_same_bytes(before, hub.read_directory(folder / "same"))
    configs = [(folder / name / "config.json").read_bytes() for name in ("model", "same")]
    expect(configs[0] == configs[1], "config.json is another one")
    line = "%-26s results %.1e" % (name, error)
    if written.get("kind", "F32") == "F32":
        run(driver, "step", folder, RATE)
        line += ", gradients %.1e" % check_gradients(before, hub.read_directory(folder / "step"),
                                                     reference.gradients(), written)
        losses = reference.train()
        for devices in ("1", "2"):
            check_losses(devices, run(driver, "train", folder, devices), losses)
        if launcher:
            check_losses("workers", run(launcher, "run", "-n", "2", "--no-prefix", "--", driver,
                                        "train", folder, "workers"), losses)
        line += ", losses %.5f ... %.5f" % (losses[0], losses[-1])
    print(line)


def check_memory(driver, folder):
    """Of 200 MB of variables, half of which are transposed as they are read, opening takes their
    bytes and at most 64 MB more. A software driver's memory is the process's."""
    config = {**cases.LLAMA, "vocab_size": 400000, "hidden_size": 64, "num_hidden_layers": 1}
    shapes = references.NETWORKS["llama"][0](config)
    hub.write_directory(folder / "model", config, {name: np.zeros(shape, np.float32)
                                                   for name, shape in shapes.items()}, "BF16")
    more, variables = map(int, run(driver, "memory", folder).split())
    expect(variables > 200000, "there are %d kB of variables" % variables)
    expect(more <= variables + (64 << 10), "opening %d kB took %d kB" % (variables, more))
    print("memory: %d kB for %d kB of variables" % (more, variables))


def main():
    driver, what = sys.argv[1:3]
    launcher = sys.argv[4] if sys.argv[3:4] == ["--workers"] else None
    names = {"sample": cases.SAMPLE, "all": cases.CASES}.get(what, (what,))
    if what == "sample":
        with tempfile.TemporaryDirectory(prefix="ringfire-test-") as folder:
            check_memory(driver, pathlib.Path(folder))
    for name in names:
        with tempfile.TemporaryDirectory(prefix="ringfire-test-") as folder:
            try:
                check_case(driver, launcher, name, pathlib.Path(folder))
            except AssertionError as error:
                sys.exit("%s: %s" % (name, error))


main()
