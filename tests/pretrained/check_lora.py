#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares models with adapters with PyTorch, in double precision. Usage:
check_lora.py DRIVER sample|all|CASE [--workers RINGFIRE]

The adapters are those of Hu et al. 2021, Kalajdzievski 2023 (scaled by the root of the rank) and
Liu et al. 2024 (with magnitudes), in PEFT's files. The driver (driver.c) gives results with the
adapter beside the weights and merged into them, the adapter after a step of gradient descent, and
the losses of 20 steps of AdamW. Skips, with 77, where there is no PyTorch."""
import json
import math
import pathlib
import sys
import tempfile

import check_pretrained as base  # skips where there is no PyTorch, and finds hub
import cases
import hub
import numpy as np
import torch

RATE = 16.0
LLAMA = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]
# {name: (case of the model, targets, options of the adapter)}
CASES = {
    "gpt2": ("gpt2", ["c_attn", "c_proj", "c_fc"], {}),
    "gpt2 tied table": ("gpt2", ["wte", "lm_head", "c_attn"], {}),
    "gpt2 dora": ("gpt2 options", ["c_attn", "mlp.c_proj", "wte", "lm_head"],
                  {"use_dora": True, "use_rslora": True}),
    "gpt2 no head": ("gpt2 no head", ["c_attn"], {}),
    "llama": ("llama", LLAMA, {"use_rslora": True, "r": 5}),
    "llama 3 dora": ("llama 3", LLAMA + ["embed_tokens", "lm_head"], {"use_dora": True}),
    "qwen2": ("qwen2", ["q_proj", "v_proj"], {"lora_alpha": 1}),
    "qwen3 dora": ("qwen3", LLAMA, {"use_dora": True}),
    "gemma2": ("gemma2", LLAMA, {}),
    "mistral": ("mistral window", ["gate_proj", "lm_head"], {}),
    "phi3": ("phi3", ["qkv_proj", "o_proj", "gate_up_proj", "down_proj"], {}),
    "phi3 dora": ("phi3", ["qkv_proj", "gate_up_proj"], {"use_dora": True}),
    "bert": ("bert classes", ["query", "value", "word_embeddings"], {}),
    "distilbert dora": ("distilbert classes", ["q_lin", "v_lin", "pre_classifier"],
                        {"use_dora": True}),
}
SAMPLE = ("gpt2 tied table", "phi3 dora")
EMBEDDINGS = ("wte", "embed_tokens", "word_embeddings")


def matches(name, targets):
    return any(name == t or name.endswith("." + t) for t in targets)


def is_embedding(module):
    return module.rsplit(".", 1)[-1] in EMBEDDINGS


class Adapter:
    """Random matrices for the modules that the targets name. `modules` has the name of each in the
    adapter's files, and its weight's in those of the model."""

    def __init__(self, config, weights, targets, options, rng):
        self.fan_in = config["model_type"] == "gpt2"
        self.options = {"r": 3, "lora_alpha": 7, "use_dora": False, "use_rslora": False, **options}
        names = {name[:-len(".weight")]: name for name in weights
                 if name.endswith(".weight") and weights[name].ndim == 2}
        if matches("lm_head", targets) and "lm_head" not in names:
            names["lm_head"] = "wte.weight"  # tied
        bare = config["architectures"] == ["GPT2Model"]
        prefix = "" if bare or not self.fan_in else "transformer."
        self.modules = {(module if module == "lm_head" else prefix + module): weight
                        for module, weight in names.items() if matches(module, targets)}
        self.values = {}
        for module, weight in self.modules.items():
            self.add(module, weights[weight], rng)

    def is_turned(self, module):
        """Files have the weight as [in, out]."""
        return is_embedding(module) or self.fan_in and not module.endswith("lm_head")

    def add(self, module, weight, rng):
        out, of = weight.shape[::-1] if self.is_turned(module) else weight.shape
        rank, kind = self.options["r"], "lora_%s.weight"
        if is_embedding(module):
            kind = "lora_embedding_%s"
        values = {kind % "A": rng.standard_normal((rank, of)) / math.sqrt(of),
                  kind % "B": 0.3 * rng.standard_normal((out, rank))}
        if self.options["use_dora"]:
            values["lora_magnitude_vector"] = 1 + rng.random(out)
        for name, value in values.items():
            self.values["base_model.model.%s.%s" % (module, name)] = value.astype(np.float32)

    def write(self, path):
        path.mkdir()
        hub.write_tensors(path / "adapter_model.safetensors", {
            name: ("F32", x.shape, hub.encode(x, "F32")) for name, x in self.values.items()})
        config = {"peft_type": "LORA", "task_type": "CAUSAL_LM", "bias": "none",
                  "target_modules": sorted({m.rsplit(".", 1)[-1] for m in self.modules}),
                  "lora_dropout": 0.0, "fan_in_fan_out": self.fan_in, "modules_to_save": None,
                  "rank_pattern": {}, "init_lora_weights": True, **self.options}
        (path / "adapter_config.json").write_text(json.dumps(config))

    def scale(self):
        rank = self.options["r"]
        return self.options["lora_alpha"] / (math.sqrt(rank) if self.options["use_rslora"]
                                             else rank)

    def applied(self, weights, values):
        """The weights that the model has with the adapter. A tied head gets its own."""
        changed = dict(weights)
        for module, name in self.modules.items():
            of = {key.rsplit(module + ".", 1)[1].replace("embedding_", "").replace(
                ".weight", ""): x for key, x in values.items()
                  if key.startswith("base_model.model.%s.lora_" % module)}
            turned = self.is_turned(module)
            weight = weights[name].T if turned else weights[name]
            weight = weight + self.scale() * of["lora_B"] @ of["lora_A"]
            if self.options["use_dora"]:
                length = weight.norm(dim=1, keepdim=True).detach()
                weight = of["lora_magnitude_vector"][:, None] * weight / length
            to = "lm_head.weight" if module == "lm_head" else name
            changed[to] = weight.T if turned else weight
        if "lm_head" not in self.modules and "wte.weight" in weights:
            changed.setdefault("lm_head.weight", weights["wte.weight"])
        return changed


class Reference(base.Reference):
    def __init__(self, config, weights, batch, adapter):
        super().__init__(config, weights, batch)
        self.frozen, self.adapter = {n: w.detach() for n, w in self.weights.items()}, adapter
        self.weights = {name: torch.tensor(x, dtype=torch.float64, requires_grad=True)
                        for name, x in adapter.values.items()}

    def results(self, training=False):
        return self.network(self.adapter.applied(self.frozen, self.weights), self.config,
                            {**self.batch, "training": training, "moved": self.moved})


def check_gradients(before, after, wanted):
    worst = 0.0
    for name, gradient in wanted.items():
        found = (before[name].astype(np.float64) - after[name]) / RATE
        worst = max(worst, base.compare("gradient of '%s'" % name, found, gradient, 2e-3))
    return worst


def check_saved(adapter, path):
    """What was not trained is written as it was read."""
    saved = hub.read_values(path / "adapter_model.safetensors")
    base.expect(saved.keys() == adapter.values.keys(), "tensors are %s" % sorted(saved))
    for name, x in adapter.values.items():
        base.expect(saved[name].shape == x.shape and (saved[name] == x).all(),
                    "'%s' is another one" % name)
    config = json.loads((path / "adapter_config.json").read_text())
    for key, value in adapter.options.items():
        base.expect(config[key] == value, "'%s' is %s" % (key, config[key]))
    names = {m for m in adapter.modules if matches(m, config["target_modules"])}
    base.expect(names == set(adapter.modules), "targets are %s" % config["target_modules"])
    turned = adapter.fan_in and any(not is_embedding(m) and m != "lm_head"
                                    for m in adapter.modules)
    base.expect(config["fan_in_fan_out"] == turned, "fan_in_fan_out is wrong")


def check_results(folder, wanted):
    worst = 0.0
    for file in ("results", "merged"):
        found = hub.read_values(folder / (file + ".safetensors"))
        for output, x in wanted.items():
            worst = max(worst, base.compare(file, found[output], x.detach().numpy(), 1e-4))
    return worst


def check_case(driver, launcher, name, folder):
    model, targets, options = CASES[name]
    config, written = cases.CASES[model]
    rng = np.random.default_rng(sum(map(ord, name)))
    weights = base.make_directory(folder / "model", config, written, rng)
    batch = base.make_batch(config, rng)
    hub.write_tensors(folder / "batch.safetensors", {
        key: ("I32", x.shape, hub.encode(x, "I32")) for key, x in batch.items()})
    adapter = Adapter(config, weights, targets, options, rng)
    adapter.write(folder / "adapter")
    tied = "lm_head" in adapter.modules and "lm_head.weight" not in weights
    said = base.run(driver, "adapter", folder, "tied" if tied else "merge")
    base.expect(not said, said)
    reference = Reference(config, weights, batch, adapter)
    error = check_results(folder, reference.results())
    check_saved(adapter, folder / "saved")
    base.check_same_bytes(hub.read_directory(folder / "model"),
                          hub.read_directory(folder / "same"))
    base.run(driver, "adapter-step", folder, RATE)
    worst = check_gradients(adapter.values,
                            hub.read_values(folder / "step" / "adapter_model.safetensors"),
                            reference.gradients())
    losses = reference.train()
    for devices in ("1", "2"):
        base.check_losses(devices, base.run(driver, "adapter-train", folder, devices), losses)
    if launcher:
        base.check_losses("workers", base.run(launcher, "run", "-n", "2", "--no-prefix", "--",
                                              driver, "adapter-train", folder, "workers"), losses)
    print("%-18s %2d modules, results %.1e, gradients %.1e, losses %.5f ... %.5f"
          % (name, len(adapter.modules), error, worst, losses[0], losses[-1]))


def main():
    driver, what = sys.argv[1:3]
    launcher = sys.argv[4] if sys.argv[3:4] == ["--workers"] else None
    for name in {"sample": SAMPLE, "all": CASES}.get(what, (what,)):
        with tempfile.TemporaryDirectory(prefix="ringfire-test-") as folder:
            try:
                check_case(driver, launcher, name, pathlib.Path(folder))
            except AssertionError as error:
                sys.exit("%s: %s" % (name, error))


main()
