#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Training of language models beside PyTorch on the same device: all of GPT-2 (124 million
parameters), and an adapter of rank 16 on Qwen2.5 of 0.5 billion, in bf16. Weights are random, and
the same on both sides, whose first losses have to agree.

language_training.py PROGRAM [--small] [--pytorch PYTHON] [--batch N] [--steps N] [--budget SECONDS]

PROGRAM is tests/bench/language_training of a build directory. Prints a line of JSON for each
measurement, then a table. Memory is that of the device by nvidia-smi, on a processor that of the
process. --small: few small layers in f32, in seconds on a processor. The exit status is 1 where the
sides disagree, 77 where the Python has no PyTorch."""
import argparse
import json
import math
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import threading
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path += [str(HERE.parent / "support"), str(HERE)]  # the latter of a bundle
import hub  # noqa: E402
import numpy as np  # noqa: E402

LOSSES = 3
# How far losses may be from PyTorch's, in relation to them.
TOLERANCE = {"f32": 1e-5, "bf16": 2e-2}
GPT2 = {"model_type": "gpt2", "architectures": ["GPT2LMHeadModel"], "n_embd": 768, "n_head": 12,
        "n_layer": 12, "n_positions": 1024, "vocab_size": 50257, "embd_pdrop": 0, "attn_pdrop": 0,
        "resid_pdrop": 0}
QWEN = {"model_type": "qwen2", "architectures": ["Qwen2ForCausalLM"], "hidden_size": 896,
        "intermediate_size": 4864, "num_attention_heads": 14, "num_key_value_heads": 2,
        "num_hidden_layers": 24, "vocab_size": 151936, "max_position_embeddings": 32768,
        "rms_norm_eps": 1e-6, "rope_theta": 1e6, "tie_word_embeddings": True}
SMALL = {"gpt2": {"n_embd": 64, "n_head": 4, "n_layer": 2, "n_positions": 32, "vocab_size": 211},
         "qwen2": {"hidden_size": 56, "intermediate_size": 96, "num_attention_heads": 7,
                   "num_key_value_heads": 1, "num_hidden_layers": 2, "vocab_size": 307}}
TARGETS = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]
# {name: (kind, configuration, type of the files)}
CASES = {"GPT-2 124M, whole": ("full", GPT2, "F32"),
         "Qwen2.5 0.5B, adapter": ("lora", QWEN, "BF16")}
RANK, ALPHA = 16, 32


def shapes_of(c):
    """Names and shapes of the weights, as the hub's files have them."""
    if c["model_type"] == "gpt2":
        width = c["n_embd"]
        shapes = {"wte.weight": (c["vocab_size"], width), "wpe.weight": (c["n_positions"], width)}
        products = {"attn.c_attn": (width, 3 * width), "attn.c_proj": (width, width),
                    "mlp.c_fc": (width, 4 * width), "mlp.c_proj": (4 * width, width)}
        for i in range(c["n_layer"]):
            for name, shape in {"ln_1": (width,), "ln_2": (width,), **products}.items():
                shapes["h.%d.%s.weight" % (i, name)] = shape
                shapes["h.%d.%s.bias" % (i, name)] = shape[-1:]
        return {**shapes, "ln_f.weight": (width,), "ln_f.bias": (width,)}
    width, inner = c["hidden_size"], c["intermediate_size"]
    few = width // c["num_attention_heads"] * c["num_key_value_heads"]
    shapes = {"model.embed_tokens.weight": (c["vocab_size"], width), "model.norm.weight": (width,)}
    products = {"self_attn.q_proj": (width, width), "self_attn.k_proj": (few, width),
                "self_attn.v_proj": (few, width), "self_attn.o_proj": (width, width),
                "mlp.gate_proj": (inner, width), "mlp.up_proj": (inner, width),
                "mlp.down_proj": (width, inner)}
    for i in range(c["num_hidden_layers"]):
        block = "model.layers.%d." % i
        for name in ("input_layernorm", "post_attention_layernorm"):
            shapes[block + name + ".weight"] = (width,)
        for name, shape in products.items():
            shapes[block + name + ".weight"] = shape
            if name[-6:] in ("q_proj", "k_proj", "v_proj"):
                shapes[block + name + ".bias"] = shape[:1]
    return shapes


def write_case(folder, kind, config, of, batch, steps):
    """The directory that both sides read. Narrow models have larger weights: all parts of one have
    to show in its loss."""
    rng = np.random.default_rng(1)
    shapes = shapes_of(config)
    deviation = 0.02 if config.get("n_embd", config.get("hidden_size")) >= 512 else 0.2
    weights = {name: (deviation * rng.standard_normal(shape, np.float32) if len(shape) > 1 else
                      np.full(shape, name.endswith("weight"), np.float32))
               for name, shape in shapes.items()}
    hub.write_directory(folder / "model", config, weights, of)
    ids = rng.integers(0, config["vocab_size"], (batch, steps + 1), np.int32)
    arrays = {"input_ids": ids[:, :-1], "labels": ids[:, 1:]}
    hub.write_tensors(folder / "batch.safetensors", {
        name: ("I32", x.shape, hub.encode(x, "I32")) for name, x in arrays.items()})
    if kind != "lora":
        return
    values = {}
    for name, shape in shapes.items():
        if name.split(".")[-2] in TARGETS and len(shape) == 2:
            module = "base_model.model." + name[:-len("weight")]
            down = rng.standard_normal((RANK, shape[1]), np.float32) / math.sqrt(shape[1])
            values[module + "lora_A.weight"] = down
            values[module + "lora_B.weight"] = 0.02 * rng.standard_normal((shape[0], RANK),
                                                                          np.float32)
    options = {"peft_type": "LORA", "task_type": "CAUSAL_LM", "bias": "none", "r": RANK,
               "lora_alpha": ALPHA, "lora_dropout": 0.0, "target_modules": TARGETS,
               "fan_in_fan_out": False}
    (folder / "adapter").mkdir()
    (folder / "adapter/adapter_config.json").write_text(json.dumps(options))
    hub.write_tensors(folder / "adapter/adapter_model.safetensors", {
        name: ("F32", x.shape, hub.encode(x, "F32")) for name, x in values.items()})


class DeviceMemory:
    """The most memory of the first GPU in use meanwhile, in megabytes more than before; None where
    nvidia-smi says nothing."""

    def __init__(self):
        self.before = self.read() if shutil.which("nvidia-smi") else None
        self.most, self.ended = self.before, threading.Event()
        self.thread = threading.Thread(target=self.watch)

    @staticmethod
    def read():
        command = ["nvidia-smi", "--query-gpu=memory.used", "--format=csv,noheader,nounits"]
        said = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        lines = said.stdout.split() if said.returncode == 0 else []
        return float(lines[0]) if lines and lines[0].isdigit() else None

    def watch(self):
        while not self.ended.wait(0.2):
            self.most = max(self.most, self.read() or 0)

    def __enter__(self):
        if self.before is not None:
            self.thread.start()
        return self

    def __exit__(self, *exception):
        self.ended.set()
        if self.before is not None:
            self.thread.join()

    @property
    def megabytes(self):
        return None if self.before is None else self.most - self.before


def environment_of(program):
    """In a bundle the program's libraries lie beside it; PyTorch's are its own."""
    libraries = program.resolve().parents[2] / "lib"
    known = [str(libraries)] * libraries.is_dir() + [os.environ.get("LD_LIBRARY_PATH", "")]
    return {**os.environ, "LD_LIBRARY_PATH": ":".join(filter(None, known))}


def measure(name, side, command, tokens, deadline, environment=None):
    """The line of one side, which has an "error" where it failed."""
    line = {"case": name, "side": side}
    with DeviceMemory() as memory:
        try:
            said = subprocess.run([str(part) for part in command], stdout=subprocess.PIPE,
                                  stderr=subprocess.PIPE, text=True, env=environment,
                                  timeout=max(1, deadline - time.monotonic()))
            failed = said.returncode != 0 and (said.stderr.strip().splitlines() or ["no message"])
        except subprocess.TimeoutExpired:
            failed = ["no time was left"]
    if failed:
        line["error"] = failed[-1]
    else:
        line.update(json.loads(said.stdout))
        line["tokens_per_second"] = tokens / line["seconds"]
        line["megabytes"] = memory.megabytes or line["host_megabytes"]
    print(json.dumps(line), flush=True)
    return line


def disagreement(ours, theirs, tolerance):
    """What is wrong with two lines; None: nothing."""
    for line in (ours, theirs):
        if "error" in line:
            return "%s: %s" % (line["side"], line["error"])
    pairs = list(zip(ours["losses"], theirs["losses"]))
    if len(pairs) < LOSSES or any(not abs(a - b) <= tolerance * abs(b) for a, b in pairs):
        return "losses are %s, PyTorch's %s" % (ours["losses"], theirs["losses"])
    if not theirs["losses"][-1] < theirs["losses"][0]:
        return "PyTorch learns nothing: %s" % theirs["losses"]
    return None


def print_table(rows):
    print("%-24s %12s %12s %8s %10s %10s" % ("", "tokens/s", "PyTorch's", "of it", "MB",
                                             "PyTorch's"))
    for name, ours, theirs in rows:
        def number(line, key):
            return "%.0f" % line[key] if key in line else "-"
        both = "error" not in ours and "error" not in theirs
        share = "%.2f" % (ours["tokens_per_second"] / theirs["tokens_per_second"]) if both else "-"
        print("%-24s %12s %12s %8s %10s %10s" % (
            name, number(ours, "tokens_per_second"), number(theirs, "tokens_per_second"), share,
            number(ours, "megabytes"), number(theirs, "megabytes")))


def main():
    parser = argparse.ArgumentParser(description=__doc__, usage=argparse.SUPPRESS,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program", type=pathlib.Path)
    parser.add_argument("--small", action="store_true")
    parser.add_argument("--pytorch", metavar="PYTHON", default=sys.executable)
    parser.add_argument("--batch", type=int)
    parser.add_argument("--steps", type=int, help="that are timed")
    parser.add_argument("--budget", type=float, default=580, help="seconds for everything")
    parser.add_argument("--mixed", choices=sorted(TOLERANCE))
    o = parser.parse_args()
    deadline = time.monotonic() + o.budget
    if subprocess.run([o.pytorch, "-c", "import torch"], stderr=subprocess.DEVNULL).returncode:
        print("SKIP: %s has no PyTorch" % o.pytorch)
        sys.exit(77)
    compute = o.mixed or ("f32" if o.small else "bf16")
    batch, length = o.batch or (2 if o.small else 8), 32 if o.small else 1024
    numbers = [LOSSES, o.steps or (3 if o.small else 20)]
    rows, wrong = [], []
    for at, (name, (kind, config, of)) in enumerate(CASES.items()):
        if o.small:
            name, config = "small " + name, {**config, **SMALL[config["model_type"]]}
        with tempfile.TemporaryDirectory(prefix="ringfire-language-") as place:
            folder = pathlib.Path(place)
            write_case(folder, kind, config, of, batch, length)
            end = time.monotonic() + (deadline - time.monotonic()) / (len(CASES) - at)
            sides = [measure(name, "ringfire", [o.program, folder, kind, compute, *numbers],
                             batch * length, end, environment_of(o.program))]
            sides.append(measure(
                name, "pytorch", [o.pytorch, HERE / "pytorch_language.py", folder, kind, compute,
                                  *numbers, *["--compile"] * (not o.small)], batch * length, end))
        rows.append((name, *sides))
        if found := disagreement(*sides, TOLERANCE[compute]):
            wrong.append("%s: %s" % (name, found))
    print_table(rows)
    for line in wrong:
        print(line, file=sys.stderr)
    sys.exit(len(wrong) > 0)


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", str(len(os.sched_getaffinity(0))))
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    main()
