#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares a language model that a program has written with PyTorch, and its GGUF file with its
directory. Usage: check_written.py DRIVER DIRECTORY FILE

The logits that driver.c gives for the directory are those of PyTorch in double precision. The file,
read by the tests' own reader, has the directory's tensors in F16, with the rows of queries and keys
in llama.cpp's order. Skips, with 77, where there is no PyTorch."""
import json
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
import gguf_file
import gguf_numbers
import hub
import references

NAMES = {"embed_tokens": "token_embd", "norm": "output_norm", "lm_head": "output",
         "input_layernorm": "attn_norm", "post_attention_layernorm": "ffn_norm",
         "q_proj": "attn_q", "k_proj": "attn_k", "v_proj": "attn_v", "o_proj": "attn_output",
         "gate_proj": "ffn_gate", "up_proj": "ffn_up", "down_proj": "ffn_down"}


def check_logits(driver, directory, folder):
    config = json.loads((directory / "config.json").read_text())
    weights = {name: torch.tensor(w.astype(np.float64))
               for name, w in hub.read_values(directory / "model.safetensors").items()}
    ids = np.random.default_rng(1).integers(0, config["vocab_size"], (4, 13)).astype(np.int32)
    (folder / "model").symlink_to(directory)
    hub.write_tensors(folder / "batch.safetensors", {
        "input_ids": ("I32", ids.shape, hub.encode(ids, "I32")),
        "labels": ("I32", ids.shape, hub.encode(ids, "I32"))})
    subprocess.run([driver, "results", folder], check=True, timeout=300)
    found = hub.read_values(folder / "results.safetensors")["logits"]
    wanted = references.NETWORKS["llama"][1](
        weights, config, {"input_ids": torch.tensor(ids.astype(np.int64))})["logits"].numpy()
    error = abs(found - wanted).max() / abs(wanted).max()
    print("logits: %.1e" % error)
    assert error < 1e-4, error


def check_tensors(directory, file):
    config = json.loads((directory / "config.json").read_text())
    heads = {"q_proj": config["num_attention_heads"], "k_proj": config["num_key_value_heads"]}
    _, tensors = gguf_file.read(file.read_bytes())
    values = hub.read_values(directory / "model.safetensors")
    assert len(tensors) == len(values)
    for name, array in values.items():
        parts = name.removeprefix("model.").split(".")
        module = parts[-2]
        place = "blk.%s." % parts[1] if parts[0] == "layers" else ""
        if module in heads:
            array = array.reshape(heads[module], 2, -1, array.shape[1]).swapaxes(1, 2)
            array = array.reshape(values[name].shape)
        if array.ndim > 1:
            array = array.astype(np.float16)
        found = gguf_numbers.numbers_of(tensors[place + NAMES[module] + ".weight"])
        assert (found == array.astype(np.float64)).all(), name
    print("%d tensors" % len(tensors))


def main():
    driver, directory, file = (pathlib.Path(path).resolve() for path in sys.argv[1:])
    with tempfile.TemporaryDirectory() as folder:
        check_logits(driver, directory, pathlib.Path(folder))
    check_tensors(directory, file)


main()
