# SPDX-License-Identifier: Apache-2.0
"""Seeds of the fuzzer of adapters, for make_corpus.py: its first byte says what the rest is."""
import json
import math

CONFIG = {"peft_type": "LORA", "task_type": "CAUSAL_LM", "r": 4, "lora_alpha": 8, "bias": "none",
          "lora_dropout": 0.1, "target_modules": ["q_proj"], "modules_to_save": None,
          "rank_pattern": {}, "init_lora_weights": True, "use_rslora": True, "use_dora": False}
CHANGES = {"config": {}, "pissa": {"init_lora_weights": "pissa"}, "huge": {"r": 2**40},
           "kind": {"peft_type": "IA3"}, "pattern": {"rank_pattern": {"a": 2}},
           "alpha": {"lora_alpha": 1e400}, "extra": {"lora_bias": True}}
DENSE = {"h.0.mlp.lora_A.weight": [2, 3], "h.0.mlp.lora_B.weight": [2, 2]}
ALL = {"h.0.attn.lora_A.weight": [1, 2], "h.0.attn.lora_B.weight": [4, 1],
       "h.0.attn.lora_magnitude_vector": [4], "wte.lora_embedding_A": [1, 5],
       "wte.lora_embedding_B": [2, 1], "wte.lora_magnitude_vector": [2],
       "conv.lora_A.weight": [1, 3, 2, 1], "conv.lora_B.weight": [2, 1, 1, 1],
       "conv.lora_magnitude_vector": [1, 2, 1, 1]}


def tensors(rank, dora, shapes):
    """A second byte for the adapter, the header of a safetensors file, and zeros."""
    header, end = {}, 0
    for name, shape in shapes.items():
        begin, end = end, end + 4 * math.prod(shape)
        header["base_model.model." + name] = {"dtype": "F32", "shape": shape,
                                              "data_offsets": [begin, end]}
    text = json.dumps(header, separators=(",", ":"))
    return bytes([1, rank << 1 | dora]) + text.encode() + b"\n" + bytes(end)


def every():
    for name, change in CHANGES.items():
        text = json.dumps({**CONFIG, **change}, separators=(",", ":"))
        yield ("lora", name, b"\0" + text.encode())
    yield ("lora", "dense", tensors(2, 0, DENSE))
    yield ("lora", "missing", tensors(2, 0, {"h.0.mlp.lora_A.weight": [2, 3]}))
    yield ("lora", "place", tensors(2, 0, {**DENSE, "h.1.mlp.lora_A.weight": [2, 3]}))
    yield ("lora", "shape", tensors(3, 0, DENSE))
    yield ("lora", "all", tensors(1, 1, ALL))
