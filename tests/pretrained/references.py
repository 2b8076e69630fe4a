# SPDX-License-Identifier: Apache-2.0
"""The architectures as their papers describe them, in PyTorch, in double precision. Each gives the
shapes of its weights under the names that the hub's files have, and the results of its forward
pass.

A network is a function of (weights, config, batch), three dictionaries, and gives its outputs by
their names."""
import math

import torch
import torch.nn.functional as F

import image_references
from activations import ACTIVATIONS

def cap(x, most):
    return most * torch.tanh(x / most) if most else x


def causal_attention(query, key, value, scale, window=None, softcap=None):
    """[n, heads, steps, width]; heads of keys and values are shared by neighbours."""
    steps, shared = query.shape[2], query.shape[1] // key.shape[1]
    key, value = (x.repeat_interleave(shared, dim=1) for x in (key, value))
    place = torch.arange(steps)
    seen = place[None, :] <= place[:, None]
    if window:
        seen &= place[None, :] > place[:, None] - window
    scores = cap(query @ key.transpose(2, 3) * scale, softcap).masked_fill(~seen, -math.inf)
    return (scores.softmax(dim=3) @ value).transpose(1, 2).flatten(2)


def split_heads(x, heads):
    return x.unflatten(2, (heads, x.shape[2] // heads)).transpose(1, 2)


# ---- GPT-2 ----

def gpt2_shapes(c):
    width, inner = c["n_embd"], c.get("n_inner") or 4 * c["n_embd"]
    shapes = {"wte.weight": (c["vocab_size"], width), "wpe.weight": (c["n_positions"], width)}
    for i in range(c["n_layer"]):
        for name, shape in {"ln_1": (width,), "attn.c_attn": (width, 3 * width),
                            "attn.c_proj": (width, width), "ln_2": (width,),
                            "mlp.c_fc": (width, inner), "mlp.c_proj": (inner, width)}.items():
            shapes["h.%d.%s.weight" % (i, name)] = shape
            shapes["h.%d.%s.bias" % (i, name)] = shape[-1:]
    shapes.update({"ln_f.weight": (width,), "ln_f.bias": (width,)})
    if not c.get("tie_word_embeddings", True):
        shapes["lm_head.weight"] = (c["vocab_size"], width)
    return shapes


def gpt2(v, c, batch):
    width, heads, ids = c["n_embd"], c["n_head"], batch["input_ids"]
    activation = ACTIVATIONS[c.get("activation_function", "gelu_new")]

    def norm(x, name):
        return F.layer_norm(x, (width,), v[name + ".weight"], v[name + ".bias"],
                            c.get("layer_norm_epsilon", 1e-5))

    def product(x, name):
        return x @ v[name + ".weight"] + v[name + ".bias"]

    x = v["wte.weight"][ids] + v["wpe.weight"][:ids.shape[1]]
    for i in range(c["n_layer"]):
        scale = 1 / math.sqrt(width // heads) if c.get("scale_attn_weights", True) else 1
        if c.get("scale_attn_by_inverse_layer_idx"):
            scale /= i + 1
        block = "h.%d." % i
        parts = product(norm(x, block + "ln_1"), block + "attn.c_attn").split(width, dim=2)
        seen = causal_attention(*(split_heads(p, heads) for p in parts), scale)
        x = x + product(seen, block + "attn.c_proj")
        y = activation(product(norm(x, block + "ln_2"), block + "mlp.c_fc"))
        x = x + product(y, block + "mlp.c_proj")
    x = norm(x, "ln_f")
    if c["architectures"] == ["GPT2Model"]:
        return {"last_hidden_state": x}
    return {"logits": x @ v.get("lm_head.weight", v["wte.weight"]).T}


# ---- Llama, Mistral, Qwen, Phi-3 ----

def head_width(c):
    if c.get("head_dim"):
        return c["head_dim"]
    width = c["hidden_size"] // c["num_attention_heads"]
    return {"qwen3": 128, "gemma2": 256}.get(c["model_type"], width)


def decoder_biases(c):
    """Of queries, keys and values; of attention's output; of the network."""
    if c["model_type"] == "qwen2":
        return True, False, False
    attention = c.get("attention_bias", False)
    return attention, attention, c.get("mlp_bias", False)


def decoder_shapes(c):
    width, inner, heads = c["hidden_size"], c["intermediate_size"], c["num_attention_heads"]
    wide, few = heads * head_width(c), c.get("num_key_value_heads", heads) * head_width(c)
    biases = decoder_biases(c)
    shapes = {"model.embed_tokens.weight": (c["vocab_size"], width)}
    for i in range(c["num_hidden_layers"]):
        block = "model.layers.%d." % i
        shapes[block + "input_layernorm.weight"] = (width,)
        shapes[block + "post_attention_layernorm.weight"] = (width,)
        fused = c["model_type"] == "phi3"
        products = {"self_attn.qkv_proj": (wide + 2 * few, width),
                    "mlp.gate_up_proj": (2 * inner, width)} if fused else {
                        "self_attn.q_proj": (wide, width), "self_attn.k_proj": (few, width),
                        "self_attn.v_proj": (few, width), "mlp.gate_proj": (inner, width),
                        "mlp.up_proj": (inner, width)}
        products.update({"self_attn.o_proj": (width, wide), "mlp.down_proj": (width, inner)})
        for name, shape in products.items():
            shapes[block + name + ".weight"] = shape
            if biases[1 if "o_proj" in name else 2 if "mlp" in name else 0]:
                shapes[block + name + ".bias"] = shape[:1]
        if c["model_type"] == "gemma2":
            shapes[block + "pre_feedforward_layernorm.weight"] = (width,)
            shapes[block + "post_feedforward_layernorm.weight"] = (width,)
        if c["model_type"] == "qwen3":
            shapes[block + "self_attn.q_norm.weight"] = (head_width(c),)
            shapes[block + "self_attn.k_norm.weight"] = (head_width(c),)
    shapes["model.norm.weight"] = (width,)
    if not c.get("tie_word_embeddings", c["model_type"] == "gemma2"):
        shapes["lm_head.weight"] = (c["vocab_size"], width)
    return shapes


def rotary_frequencies(c, steps):
    """How far each pair of a head turns from one place to the next."""
    scaling = dict(c.get("rope_parameters") or c.get("rope_scaling") or {})
    base, half = scaling.get("rope_theta", c.get("rope_theta", 10000.0)), head_width(c) // 2
    kind, factor = scaling.get("rope_type", scaling.get("type", "default")), scaling.get("factor")
    if kind == "dynamic" and steps > c["max_position_embeddings"]:
        base *= (factor * steps / c["max_position_embeddings"] - (factor - 1))**(half / (half - 1))
    frequencies = [base**(-i / half) for i in range(half)]
    if kind == "linear":
        return [f / factor for f in frequencies]
    if kind != "llama3":
        return frequencies
    length, result = scaling["original_max_position_embeddings"], []
    for f in frequencies:
        wave = 2 * math.pi / f
        if wave < length / scaling["high_freq_factor"]:
            result.append(f)
        elif wave > length / scaling["low_freq_factor"]:
            result.append(f / factor)
        else:
            smooth = (length / wave - scaling["low_freq_factor"]) / (
                scaling["high_freq_factor"] - scaling["low_freq_factor"])
            result.append((1 - smooth) * f / factor + smooth * f)
    return result


def turn(x, c):
    """Each pair (i, i + half) of a head as a complex number."""
    steps, half = x.shape[2], x.shape[3] // 2
    angles = torch.arange(steps, dtype=torch.float64)[:, None] * torch.tensor(
        rotary_frequencies(c, steps), dtype=torch.float64)
    turned = torch.complex(x[..., :half], x[..., half:]) * torch.polar(torch.ones_like(angles),
                                                                       angles)
    return torch.cat([turned.real, turned.imag], dim=3)


def layer_window(c, index):
    if c["model_type"] in ("mistral", "phi3"):
        return c.get("sliding_window")
    gemma = c["model_type"] == "gemma2"
    if c["model_type"] == "llama" or not (c.get("use_sliding_window") or gemma):
        return None
    if "layer_types" in c:
        return c["sliding_window"] if c["layer_types"][index] == "sliding_attention" else None
    if gemma:
        return c["sliding_window"] if index % 2 == 0 else None
    return c["sliding_window"] if index >= c["max_window_layers"] else None


def decoder(v, c, batch):
    gemma, epsilon = c["model_type"] == "gemma2", c.get("rms_norm_eps", 1e-6)
    activation = ACTIVATIONS[c.get("hidden_activation", "gelu_new") if gemma
                             else c.get("hidden_act", "silu")]
    heads, width = c["num_attention_heads"], head_width(c)
    scale = 1 / math.sqrt(c.get("query_pre_attn_scalar", 256) if gemma else width)
    few = c.get("num_key_value_heads", heads)

    def norm(x, name):
        gamma = v[name + ".weight"] + (1 if gemma else 0)
        return x / (x.square().mean(-1, keepdim=True) + epsilon).sqrt() * gamma

    def product(x, name):
        y = x @ v[name + ".weight"].T
        return y + v[name + ".bias"] if name + ".bias" in v else y

    x = v["model.embed_tokens.weight"][batch["input_ids"]]
    x = x * math.sqrt(c["hidden_size"]) if gemma else x
    for i in range(c["num_hidden_layers"]):
        block = "model.layers.%d." % i
        y = norm(x, block + "input_layernorm")
        if c["model_type"] == "phi3":
            parts = product(y, block + "self_attn.qkv_proj").split(
                [heads * width, few * width, few * width], dim=2)
        else:
            parts = [product(y, block + "self_attn.%s_proj" % p) for p in "qkv"]
        query, key, value = (split_heads(p, n) for p, n in zip(parts, (heads, few, few)))
        if c["model_type"] == "qwen3":
            query, key = (norm(p, block + "self_attn.%s_norm" % n) for p, n in ((query, "q"),
                                                                                (key, "k")))
        seen = causal_attention(turn(query, c), turn(key, c), value, scale, layer_window(c, i),
                                c.get("attn_logit_softcapping"))
        seen = product(seen, block + "self_attn.o_proj")
        x = x + (norm(seen, block + "post_attention_layernorm") if gemma else seen)
        y = norm(x, block + ("pre_feedforward_layernorm" if gemma else "post_attention_layernorm"))
        if c["model_type"] == "phi3":
            gate, up = product(y, block + "mlp.gate_up_proj").chunk(2, dim=2)
        else:
            gate, up = (product(y, block + "mlp.%s_proj" % p) for p in ("gate", "up"))
        y = product(activation(gate) * up, block + "mlp.down_proj")
        x = x + (norm(y, block + "post_feedforward_layernorm") if gemma else y)
    x = norm(x, "model.norm")
    if c["architectures"][0].endswith("Model"):
        return {"last_hidden_state": x}
    logits = x @ v.get("lm_head.weight", v["model.embed_tokens.weight"]).T
    return {"logits": cap(logits, c.get("final_logit_softcapping"))}


# ---- BERT, DistilBERT, RoBERTa ----

# What the two call the same things: (in the configuration, of each layer in the files).
BERT_KEYS = {"width": "hidden_size", "inner": "intermediate_size", "layers": "num_hidden_layers",
             "heads": "num_attention_heads", "activation": "hidden_act"}
DISTILBERT_KEYS = {"width": "dim", "inner": "hidden_dim", "layers": "n_layers", "heads": "n_heads",
                   "activation": "activation"}
BERT_PARTS = {"query": "attention.self.query", "key": "attention.self.key",
              "value": "attention.self.value", "output": "attention.output.dense",
              "norm_1": "attention.output.LayerNorm", "expand": "intermediate.dense",
              "contract": "output.dense", "norm_2": "output.LayerNorm"}
DISTILBERT_PARTS = {"query": "attention.q_lin", "key": "attention.k_lin",
                    "value": "attention.v_lin", "output": "attention.out_lin",
                    "norm_1": "sa_layer_norm", "expand": "ffn.lin1", "contract": "ffn.lin2",
                    "norm_2": "output_layer_norm"}


def encoder_names(c):
    """Keys, parts of a layer, its name, names of the heads, the prefix."""
    if "roberta" in c["model_type"]:
        return (BERT_KEYS, BERT_PARTS, "roberta.encoder.layer.%d.", {
            "pooler": "roberta.pooler.dense", "transform": "lm_head.dense",
            "transform_norm": "lm_head.layer_norm", "bias": "lm_head.bias"},
            "roberta.embeddings.")
    if c["model_type"] == "bert":
        return (BERT_KEYS, BERT_PARTS, "bert.encoder.layer.%d.", {
            "pooler": "bert.pooler.dense", "transform": "cls.predictions.transform.dense",
            "transform_norm": "cls.predictions.transform.LayerNorm",
            "bias": "cls.predictions.bias"}, "bert.embeddings.")
    return (DISTILBERT_KEYS, DISTILBERT_PARTS, "distilbert.transformer.layer.%d.", {
        "pooler": "pre_classifier", "transform": "vocab_transform",
        "transform_norm": "vocab_layer_norm", "bias": "vocab_projector.bias"},
        "distilbert.embeddings.")


def encoder_shapes(c):
    keys, parts, layer, heads, embeddings = encoder_names(c)
    width, inner, kind = c[keys["width"]], c[keys["inner"]], c["architectures"][0]
    shapes = {embeddings + "word_embeddings.weight": (c["vocab_size"], width),
              embeddings + "position_embeddings.weight": (c["max_position_embeddings"], width)}
    if "type_vocab_size" in c:
        shapes[embeddings + "token_type_embeddings.weight"] = (c["type_vocab_size"], width)

    def add(name, *shape):
        shapes[name + ".weight"] = shape
        shapes[name + ".bias"] = shape[:1]

    add(embeddings + "LayerNorm", width)
    for i in range(c[keys["layers"]]):
        for part, name in parts.items():
            if part.startswith("norm"):
                add(layer % i + name, width)
            else:
                add(layer % i + name, *{"expand": (inner, width), "contract": (width, inner)}.get(
                    part, (width, width)))
    roberta = "roberta" in c["model_type"]
    classifies = kind.endswith("SequenceClassification")
    if (kind.endswith("Model") and kind != "DistilBertModel") or (classifies and not roberta):
        add(heads["pooler"], width, width)
    if classifies and roberta:
        add("classifier.dense", width, width)
    if classifies:
        add("classifier.out_proj" if roberta else "classifier", len(c.get("id2label", "ab")),
            width)
    if kind.endswith("MaskedLM"):
        add(heads["transform"], width, width)
        add(heads["transform_norm"], width)
        shapes[heads["bias"]] = (c["vocab_size"],)
    return shapes


def encoder(v, c, batch):
    keys, parts, layer, head, embeddings = encoder_names(c)
    width, heads, kind = c[keys["width"]], c[keys["heads"]], c["architectures"][0]
    activation = ACTIVATIONS[c.get(keys["activation"], "gelu")]
    ids, mask = batch["input_ids"], batch["attention_mask"][:, None, None, :] != 0

    def norm(x, name):
        return F.layer_norm(x, (width,), v[name + ".weight"], v[name + ".bias"],
                            c.get("layer_norm_eps", 1e-12))

    def product(x, name):
        return x @ v[name + ".weight"].T + v[name + ".bias"]

    x = v[embeddings + "word_embeddings.weight"][ids]
    places, roberta = torch.arange(ids.shape[1]), "roberta" in c["model_type"]
    if roberta:
        tokens = (ids != c["pad_token_id"]).long()
        places = tokens.cumsum(1) * tokens + c["pad_token_id"]
    x = x + v[embeddings + "position_embeddings.weight"][places]
    if "type_vocab_size" in c:
        types = batch["token_type_ids"] if c["type_vocab_size"] > 1 else torch.zeros_like(ids)
        x = x + v[embeddings + "token_type_embeddings.weight"][types]
    x = norm(x, embeddings + "LayerNorm")
    for i in range(c[keys["layers"]]):
        name = {part: layer % i + of for part, of in parts.items()}
        query, key, value = (split_heads(product(x, name[p]), heads)
                             for p in ("query", "key", "value"))
        scores = (query @ key.transpose(2, 3) / math.sqrt(width // heads)).masked_fill(
            ~mask, -math.inf)
        seen = (scores.softmax(dim=3) @ value).transpose(1, 2).flatten(2)
        x = norm(x + product(seen, name["output"]), name["norm_1"])
        y = product(activation(product(x, name["expand"])), name["contract"])
        x = norm(x + y, name["norm_2"])
    if kind.endswith("MaskedLM"):
        x = norm(activation(product(x, head["transform"])), head["transform_norm"])
        return {"logits": x @ v[embeddings + "word_embeddings.weight"].T + v[head["bias"]]}
    if kind == "DistilBertModel":
        return {"last_hidden_state": x}
    classifies = kind.endswith("SequenceClassification")
    pooled = product(x[:, 0], "classifier.dense" if roberta and classifies else head["pooler"])
    pooled = torch.relu(pooled) if c["model_type"] == "distilbert" else torch.tanh(pooled)
    if not classifies:
        return {"last_hidden_state": x, "pooler_output": pooled}
    return {"logits": product(pooled, "classifier.out_proj" if roberta else "classifier")}


NETWORKS = {"gpt2": (gpt2_shapes, gpt2)}
NETWORKS.update({kind: (decoder_shapes, decoder) for kind in ("llama", "mistral", "qwen2", "qwen3",
                                                              "phi3", "gemma2")})
NETWORKS.update({kind: (encoder_shapes, encoder) for kind in ("bert", "distilbert", "roberta",
                                                              "xlm-roberta")})
NETWORKS.update(image_references.NETWORKS)
