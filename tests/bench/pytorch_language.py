# SPDX-License-Identifier: Apache-2.0
"""PyTorch's part of language_training.py: trains the language model of FOLDER/model on a batch, as
a user of PyTorch would: compiled where it can be, with its own attention kernel, under autocast.
Prints losses, seconds and memory as JSON.

pytorch_language.py FOLDER full|lora f32|bf16 LOSSES STEPS [--compile]"""
import contextlib
import json
import math
import pathlib
import resource
import sys
import time

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "support"))
sys.path.append(str(pathlib.Path(__file__).resolve().parent))  # of a bundle
import torch  # noqa: E402
import torch.nn.functional as F  # noqa: E402

import hub  # noqa: E402

WARM_UP = 2
TYPES = {"F32": torch.float32, "BF16": torch.bfloat16, "I32": torch.int32}


def read(path, device):
    return {name: torch.frombuffer(bytearray(data), dtype=TYPES[kind]).reshape(shape).to(device)
            for name, (kind, shape, data) in hub.read_tensors(path)[0].items()}


def attend(query, key, value):
    """[n, heads, steps, width]; heads of keys and values are shared by neighbours."""
    shared = query.shape[1] // key.shape[1]
    if shared > 1:
        key, value = (x.repeat_interleave(shared, dim=1) for x in (key, value))
    if hasattr(F, "scaled_dot_product_attention"):
        y = F.scaled_dot_product_attention(query, key, value, is_causal=True)
    else:
        steps = query.shape[2]
        hidden = torch.full((steps, steps), -math.inf).triu(1).to(query)
        scores = query @ key.transpose(2, 3) / math.sqrt(query.shape[3]) + hidden
        y = scores.softmax(dim=3) @ value
    return y.transpose(1, 2).flatten(2)


def split_heads(x, heads):
    return x.unflatten(2, (heads, x.shape[2] // heads)).transpose(1, 2)


class Products:
    """Products with a weight of the files, and with its adapter where it has one. GPT-2's files
    have weights as [in, out]."""

    def __init__(self, config, weights, adapter, scale):
        self.turned, self.weights = config["model_type"] == "gpt2", weights
        self.adapter, self.scale = adapter, scale
        self.prefix = "base_model.model." + ("transformer." if self.turned else "")

    def __call__(self, x, name):
        weight = self.weights[name + ".weight"]
        y = F.linear(x, weight.t() if self.turned else weight, self.weights.get(name + ".bias"))
        down = self.adapter.get(self.prefix + name + ".lora_A.weight")
        if down is None:
            return y
        up = self.adapter[self.prefix + name + ".lora_B.weight"]
        return y + F.linear(self.scale * F.linear(x, down), up)


def gpt2(v, c, product, ids):
    width, heads = c["n_embd"], c["n_head"]

    def norm(x, name):
        return F.layer_norm(x, (width,), v[name + ".weight"], v[name + ".bias"])

    x = F.embedding(ids, v["wte.weight"]) + v["wpe.weight"][:ids.shape[1]]
    for i in range(c["n_layer"]):
        block = "h.%d." % i
        parts = product(norm(x, block + "ln_1"), block + "attn.c_attn").split(width, dim=2)
        x = x + product(attend(*(split_heads(p, heads) for p in parts)), block + "attn.c_proj")
        y = product(norm(x, block + "ln_2"), block + "mlp.c_fc")
        x = x + product(F.gelu(y, approximate="tanh"), block + "mlp.c_proj")
    return F.linear(norm(x, "ln_f"), v["wte.weight"])


def rotation(c, steps, like):
    width = c["hidden_size"] // c["num_attention_heads"]
    turns = c["rope_theta"] ** (-torch.arange(0, width, 2, device=like.device).float() / width)
    angles = torch.arange(steps, device=like.device).float()[:, None] * turns
    return angles.cos(), angles.sin()


def turn(x, cos, sin):
    a, b = x.float().chunk(2, dim=3)
    return torch.cat([a * cos - b * sin, b * cos + a * sin], dim=3).to(x.dtype)


def qwen2(v, c, product, ids):
    heads, few = c["num_attention_heads"], c["num_key_value_heads"]

    def norm(x, name):
        wide = x.float()
        wide = wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + c["rms_norm_eps"])
        return wide.to(x.dtype) * v[name + ".weight"]

    x = F.embedding(ids, v["model.embed_tokens.weight"])
    turns = rotation(c, ids.shape[1], x)
    for i in range(c["num_hidden_layers"]):
        block = "model.layers.%d." % i
        y = norm(x, block + "input_layernorm")
        query, key, value = (split_heads(product(y, block + "self_attn.%s_proj" % p), n)
                             for p, n in zip("qkv", (heads, few, few)))
        value = value.to(query.dtype)
        y = attend(turn(query, *turns), turn(key, *turns), value)
        x = x + product(y, block + "self_attn.o_proj")
        y = norm(x, block + "post_attention_layernorm")
        gate, up = (product(y, block + "mlp.%s_proj" % p) for p in ("gate", "up"))
        x = x + product(F.silu(gate) * up, block + "mlp.down_proj")
    return F.linear(norm(x, "model.norm"), v["model.embed_tokens.weight"])


def step_of(folder, kind, narrow, compiled, device):
    """A function that trains once and gives the loss of before."""
    config = json.loads((folder / "model/config.json").read_text())
    weights = read(folder / "model/model.safetensors", device)
    batch = read(folder / "batch.safetensors", device)
    ids, labels = batch["input_ids"].long(), batch["labels"].long().flatten()
    adapter, scale = {}, 0.0
    if kind == "lora":
        options = json.loads((folder / "adapter/adapter_config.json").read_text())
        adapter = read(folder / "adapter/adapter_model.safetensors", device)
        scale = options["lora_alpha"] / options["r"]
        if not narrow:
            weights = {name: w.float() for name, w in weights.items()}
    else:
        weights = {name: w.float() for name, w in weights.items()}
    trained = [x.requires_grad_() for x in (adapter or weights).values()]
    product = Products(config, weights, adapter, scale)
    network = {"gpt2": gpt2, "qwen2": qwen2}[config["model_type"]]
    fused = {"fused": True} if device.type == "cuda" else {}
    optimizer = torch.optim.AdamW(trained, lr=1e-4, eps=1e-6, weight_decay=0.01, **fused)

    def loss_of():
        cast = torch.autocast(device.type, torch.bfloat16) if narrow else contextlib.nullcontext()
        with cast:
            logits = network(weights, config, product, ids)
        return F.cross_entropy(logits.float().flatten(0, 1), labels)

    called = torch.compile(loss_of) if compiled else loss_of

    def step():
        optimizer.zero_grad(set_to_none=True)
        loss = called()
        loss.backward()
        optimizer.step()
        return loss.detach()

    return step


def main():
    folder, kind, compute, losses, steps = sys.argv[1:6]
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    torch.backends.cuda.matmul.allow_tf32 = False
    compiled = "--compile" in sys.argv and hasattr(torch, "compile")
    step = step_of(pathlib.Path(folder), kind, compute == "bf16", compiled, device)
    found = [float(step()) for _ in range(int(losses))]

    def run(count):
        begin = time.perf_counter()
        for _ in range(count):
            loss = step()
        float(loss)  # waits
        return (time.perf_counter() - begin) / count

    run(WARM_UP)
    seconds = run(int(steps))
    name = torch.cuda.get_device_name() if device.type == "cuda" else "cpu"
    print(json.dumps({
        "device": name, "version": torch.__version__, "compiled": compiled, "losses": found,
        "seconds": seconds,
        "host_megabytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024}))


main()
