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
import image_references
import quantized
import references
from activations import nearest_kink

# Nearer to a jump of a slope, relative to the mean input, roundings of f32 may cross it.
NEAR_KINK, MOST_BATCHES = 1e-6, 40
STEPS, RATE, EXAMPLES, LENGTH, SIDE, NEW_TOKENS = 20, 64.0, 4, 13, 32, 4
FIRST = 5  # steps of the first sequence where a row is taken for two
DECODERS = ("gpt2", "llama", "mistral", "qwen2", "qwen3", "phi3", "gemma2")


def network_of(config):
    """The functions of its shapes and results."""
    return references.NETWORKS[config.get("model_type") or config["architecture"]]


def make_weights(config, rng):
    """Large enough that nothing is nearly linear; of kernels, less the more each output adds up."""
    weights = {}
    for name, shape in network_of(config)[0](config).items():
        scale = 0.3 if len(shape) < 4 else (2 / np.prod(shape[1:]))**0.5
        weights[name] = scale * rng.standard_normal(shape)
        if name.endswith("running_var"):
            weights[name] = 0.5 + np.abs(weights[name])
        elif name.endswith("weight") and len(shape) == 1:
            weights[name] += 1
    return weights


def make_directory(path, config, written, rng):
    """Returns the weights as the files hold them."""
    kind = written.get("kind", "F32")
    weights = {name: hub.decode(hub.encode(w, kind), kind, w.shape)
               for name, w in make_weights({**config, "names": written.get("names")}, rng).items()}
    prefix = written.get("prefix", "")
    stored = {(name if name.startswith("lm_head") else prefix + name): w
              for name, w in weights.items()}
    for again, name in written.get("twice", ()):
        stored[again] = weights[name]
    if written.get("counters"):  # of batches, which are written back as they are
        stored.update({name.replace("running_mean", "num_batches_tracked"): np.array(7)
                       for name in weights if name.endswith("running_mean")})
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
    """Images, or sentences of two parts, most of which end in padding; labels of tokens, or of
    images or sentences."""
    if "vocab_size" not in config:
        size, channels = config.get("image_size", config["side"]), config.get("num_channels", 3)
        return {"pixel_values": rng.standard_normal((EXAMPLES, size, size, channels)).astype("f4"),
                "labels": rng.integers(0, image_references.classes_of(config), EXAMPLES)}
    vocabulary, lengths = config["vocab_size"], np.array([LENGTH, LENGTH - 1, 5, 2])[:, None]
    places, classifies = np.arange(LENGTH)[None, :], "Classification" in config["architectures"][0]
    labels = (len(config.get("id2label", "ab")), EXAMPLES) if classifies else (
        vocabulary, (EXAMPLES, LENGTH))
    ids = rng.integers(0, vocabulary, (EXAMPLES, LENGTH))
    if "roberta" in config["model_type"]:
        ids = np.where(places < lengths, ids, config["pad_token_id"])
    positions = np.where(places < FIRST, places, places - FIRST) + 0 * lengths
    return {"input_ids": ids, "position_ids": positions, "attention_mask": places < lengths,
            "token_type_ids": places >= lengths // 2, "labels": rng.integers(0, *labels)}


def make_smooth_batch(config, weights, rng):
    """One in training with which no input of an activation is near a jump of the slope."""
    for _ in range(MOST_BATCHES):
        batch = make_batch(config, rng)
        reference = Reference(config, weights, batch)
        if nearest_kink(lambda: reference.results(training=True)) > NEAR_KINK:
            return batch
    raise AssertionError("each of %d batches is near a kink" % MOST_BATCHES)


class Reference:
    def __init__(self, config, weights, batch):
        self.config = config
        self.batch = {name: torch.tensor(x if x.dtype == np.float32 else x.astype(np.int64))
                      for name, x in batch.items()}
        self.network = network_of(config)[1]
        everything = {name: torch.tensor(w, dtype=torch.float64) for name, w in weights.items()}
        self.state = {name: w for name, w in everything.items() if "running_" in name}
        self.weights = {name: w.requires_grad_() for name, w in everything.items()
                        if name not in self.state}
        self.moved = {}  # what batch normalization makes of the state

    def results(self, training=False):
        return self.network({**self.weights, **self.state}, self.config,
                            {**self.batch, "training": training, "moved": self.moved})

    def logits_of(self, tokens):
        """Those of the token that follows, in a row of the length that all texts have."""
        row = torch.tensor([tokens + (LENGTH - len(tokens)) * [0]])
        results = self.network(self.weights, self.config, {"input_ids": row})
        return results["logits"][0, len(tokens) - 1].detach().numpy()

    def packed_results(self):
        """Those of the rows' two sequences, each alone in a row of the same length."""
        ids = self.batch["input_ids"]
        parts = [(self.network(self.weights, self.config, {"input_ids": row}), length)
                 for row, length in ((ids, FIRST), (ids.roll(-FIRST, 1), LENGTH - FIRST))]
        return {name: torch.cat([part[name][:, :length] for part, length in parts], 1)
                for name in parts[0][0]}

    def loss(self):
        results = self.results(training=True)
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
        trained = [w for w in self.weights.values() if w.requires_grad]
        optimizer = torch.optim.AdamW(trained, lr=1e-3, betas=(0.9, 0.999), eps=1e-6,
                                      weight_decay=0.05)
        losses = []
        for _ in range(STEPS):
            optimizer.zero_grad()
            loss = self.loss()
            loss.backward()
            losses.append(loss.item())
            optimizer.step()
            self.state.update(self.moved)
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
            last = reference.logits_of(tokens)
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


def check_averages(after, wanted, of_mean, of_variance):
    for name, average in wanted.items():
        kind, shape, data = after[name]
        compare(name, hub.decode(data, kind, shape), average.detach().numpy(),
                of_mean if name.endswith("mean") else of_variance)


def check_losses(devices, text, wanted):
    found = [float(line) for line in text.split()]
    expect(len(found) == len(wanted), "%s: %d losses" % (devices, len(found)))
    for step, (a, b) in enumerate(zip(found, wanted)):  # those near 0 round as their logits do
        expect(abs(a - b) <= 2e-4 * abs(b) + 1e-6,
               "%s: loss %d is %.7g, not %.7g" % (devices, step, a, b))


def run(*command):
    done = subprocess.run([str(c) for c in command], stdout=subprocess.PIPE, check=False,
                          stderr=subprocess.STDOUT, encoding="utf-8", timeout=300)
    expect(done.returncode == 0, done.stdout)
    return done.stdout


def check_case(driver, launcher, name, folder):
    config, written = cases.CASES[name]
    seen = {**config, "names": written.get("names"), "side": written.get("side", SIDE)}
    rng = np.random.default_rng(sum(map(ord, name)))
    weights = make_directory(folder / "model", config, written, rng)
    trains = written.get("kind", "F32") == "F32"
    batch = make_smooth_batch(seen, weights, rng) if trains else make_batch(seen, rng)
    hub.write_tensors(folder / "batch.safetensors", {
        name: (kind, x.shape, hub.encode(x, kind)) for name, x in batch.items()
        for kind in ("F32" if x.dtype == np.float32 else "I32",)})
    said = run(driver, "results", folder)
    expect(not said, said)
    reference = Reference(seen, weights, batch)
    found, wanted = hub.read_values(folder / "results.safetensors"), reference.results()
    expect(found.keys() == wanted.keys(), "the model gives %s" % sorted(found))
    error = max(compare(output, found[output], x.detach().numpy(), 1e-4)
                for output, x in wanted.items())
    texts, kind = folder / "texts.safetensors", config.get("architectures", [""])[0]
    expect(texts.exists() == ("ForCausal" in kind or "LMHead" in kind),
           "the driver writes texts: %s" % texts.exists())
    if texts.exists():
        check_texts(reference, batch, hub.read_values(texts)["texts"])
    if config.get("model_type") in DECODERS:
        run(driver, "packed", folder)
        (output, values), = hub.read_values(folder / "packed.safetensors").items()
        compare("packed " + output, values, reference.packed_results()[output].detach().numpy(),
                1e-4)
    before = hub.read_directory(folder / "model")
    check_same_bytes(before, hub.read_directory(folder / "same"))
    configs = [(folder / name / "config.json").read_bytes() for name in ("model", "same")]
    expect(configs[0] == configs[1], "config.json is another one")
    line = "%-26s results %.1e" % (name, error)
    if trains:
        run(driver, "step", folder, RATE)
        after = hub.read_directory(folder / "step")
        line += ", gradients %.1e" % check_gradients(before, after, reference.gradients(), written)
        check_averages(after, reference.moved, 1e-5, 1e-5)
        losses = reference.train()
        for devices in ("1", "2"):
            check_losses(devices, run(driver, "train", folder, devices), losses)
            # Means are near 0 in MobileNet: PyTorch's f32 and f64 differ by 3.4e-3 there.
            check_averages(hub.read_directory(folder / "trained"), reference.state, 1e-2, 1e-3)
        if launcher:
            check_losses("workers", run(launcher, "run", "-n", "2", "--no-prefix", "--", driver,
                                        "train", folder, "workers"), losses)
        line += ", losses %.5f ... %.5f" % (losses[0], losses[-1])
    print(line)


def check_quantized(driver, name, kind, folder):
    """Weights in few bits: results and gradients of the others are those of rounded weights, and
    what is written back has the bytes that were there."""
    config, written = cases.CASES[name]
    rng = np.random.default_rng(sum(map(ord, name + kind)))
    weights = make_directory(folder / "model", config, written, rng)
    rounded, names = quantized.quantize(kind.rstrip("+"), config, weights, "+" in kind)
    batch = make_batch(config, rng)
    hub.write_tensors(folder / "batch.safetensors", {
        name: ("I32", x.shape, hub.encode(x, "I32")) for name, x in batch.items()})
    said = run(driver, "results", folder, kind)
    expect(not said, said)
    reference = Reference(config, rounded, batch)
    found, wanted = hub.read_values(folder / "results.safetensors"), reference.results()
    error = max(compare(output, found[output], x.detach().numpy(), 1e-4)
                for output, x in wanted.items())
    before = hub.read_directory(folder / "model")
    check_same_bytes(before, hub.read_directory(folder / "same"))
    run(driver, "step", folder, RATE, kind)
    after = hub.read_directory(folder / "step")
    gradients = reference.gradients()
    for few in names:
        del gradients[few]
        expect(before[few] == after[few], "'%s' has other bytes after a step" % few)
    worst = check_gradients(before, after, gradients, {})
    for few in names:
        reference.weights[few].requires_grad_(False)
    losses = reference.train()
    for devices in ("1", "2"):
        check_losses(devices, run(driver, "train", folder, devices, kind), losses)
    print("%-26s %s of %d weights: results %.1e, gradients %.1e, losses %.5f ... %.5f"
          % (name, kind, len(names), error, worst, losses[0], losses[-1]))


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
    for name, kind in cases.QUANTIZED if what in ("sample", "all") else ():
        with tempfile.TemporaryDirectory(prefix="ringfire-test-") as folder:
            try:
                check_quantized(driver, name, kind, pathlib.Path(folder))
            except AssertionError as error:
                sys.exit("%s in %s: %s" % (name, kind, error))
    for name in names:
        with tempfile.TemporaryDirectory(prefix="ringfire-test-") as folder:
            try:
                check_case(driver, launcher, name, pathlib.Path(folder))
            except AssertionError as error:
                sys.exit("%s: %s" % (name, error))


if __name__ == "__main__":
    main()
