#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes a small language model in the form of the Hugging Face hub, and chats to train it with, so
that nothing needs to be downloaded. Usage: make_model.py DIRECTORY TEXT...

The tokenizer (byte-level BPE, tokenizer.json) is trained on the texts; the weights (Llama's names)
are random. DIRECTORY gets config.json, model.safetensors, tokenizer.json, tokenizer_config.json
with a chat template, generation_config.json, and chats.jsonl and loud.jsonl."""
import collections
import json
import pathlib
import random
import re
import struct
import sys

WIDTH, INNER, LAYERS, HEADS, KEY_VALUE_HEADS, PLACES, MERGES = 64, 160, 2, 4, 2, 256, 384
SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
# Llama 3's, which GGUF files have a name for.
WORD = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}"
        r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")
CHAT_TEMPLATE = (
    "{% for message in messages %}"
    "{{ '<|im_start|>' + message['role'] + '\n' + message['content'] | trim + '<|im_end|>\n' }}"
    "{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}")


def byte_characters():
    """GPT-2's characters for bytes: printable ones stand for themselves."""
    known = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [b for b in range(256) if b not in known]
    return {b: chr(b) for b in known} | {b: chr(256 + i) for i, b in enumerate(others)}


def merge(word, pair):
    out, i = [], 0
    while i < len(word):
        both = tuple(word[i:i + 2]) == pair
        out.append(word[i] + word[i + 1] if both else word[i])
        i += 1 + both
    return out


def train_tokenizer(text):
    """Byte pair encoding (Sennrich et al. 2016): the most frequent pair becomes a token."""
    of = byte_characters()
    words = collections.Counter(re.findall(r" ?[^\W\d_]+| ?\d| ?[^\s\w]+|\s+", text))
    split = {word: [of[b] for b in word.encode()] for word in words}
    vocabulary, merges = sorted(of.values()), []
    while len(merges) < MERGES:
        pairs = collections.Counter()
        for word, count in words.items():
            for pair in zip(split[word], split[word][1:]):
                pairs[pair] += count
        best = max(pairs, key=lambda pair: (pairs[pair], pair))
        merges.append(list(best))
        vocabulary.append("".join(best))
        split = {word: merge(parts, best) for word, parts in split.items()}
    return vocabulary, merges


def tokenizer_file(vocabulary, merges):
    level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True,
             "use_regex": False}
    ids = {token: i for i, token in enumerate(SPECIAL + vocabulary)}
    return {"version": "1.0", "truncation": None, "padding": None,
            "added_tokens": [{"id": i, "content": token, "single_word": False, "lstrip": False,
                              "rstrip": False, "normalized": False, "special": True}
                             for i, token in enumerate(SPECIAL)],
            "normalizer": None,
            "pre_tokenizer": {"type": "Sequence", "pretokenizers": [
                {"type": "Split", "pattern": {"Regex": WORD}, "behavior": "Isolated",
                 "invert": False}, level]},
            "post_processor": None, "decoder": level,
            "model": {"type": "BPE", "dropout": None, "unk_token": None,
                      "continuing_subword_prefix": None, "end_of_word_suffix": None,
                      "fuse_unk": False, "byte_fallback": False, "vocab": ids, "merges": merges}}


def shapes(vocabulary):
    head = WIDTH // HEADS
    yield "model.embed_tokens.weight", [vocabulary, WIDTH]
    for i in range(LAYERS):
        layer = "model.layers.%d." % i
        yield layer + "input_layernorm.weight", [WIDTH]
        yield layer + "self_attn.q_proj.weight", [WIDTH, WIDTH]
        yield layer + "self_attn.k_proj.weight", [KEY_VALUE_HEADS * head, WIDTH]
        yield layer + "self_attn.v_proj.weight", [KEY_VALUE_HEADS * head, WIDTH]
        yield layer + "self_attn.o_proj.weight", [WIDTH, WIDTH]
        yield layer + "post_attention_layernorm.weight", [WIDTH]
        yield layer + "mlp.gate_proj.weight", [INNER, WIDTH]
        yield layer + "mlp.up_proj.weight", [INNER, WIDTH]
        yield layer + "mlp.down_proj.weight", [WIDTH, INNER]
    yield "model.norm.weight", [WIDTH]


def write_weights(path, vocabulary, rng):
    header, body, at = {"__metadata__": {"format": "pt"}}, [], 0
    for name, shape in shapes(vocabulary):
        count = shape[0] * (shape[1] if len(shape) > 1 else 1)
        values = [1.0] * count if "norm" in name else [rng.gauss(0, 0.05) for _ in range(count)]
        body.append(struct.pack("<%df" % count, *values))
        header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [at, at + 4 * count]}
        at += 4 * count
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(struct.pack("<Q", len(text)) + text + b"".join(body))


def make_chats(rng, count, mark):
    """Questions about colours, whose answers one rule gives, and end with a mark."""
    things = {"grass": "green", "the sky": "blue", "snow": "white", "coal": "black",
              "a rose": "red", "the sun": "yellow"}
    for _ in range(count):
        thing, colour = rng.choice(sorted(things.items()))
        question = rng.choice(["What colour is %s?", "Which colour has %s?"]) % thing
        yield {"messages": [{"role": "user", "content": question},
                            {"role": "assistant", "content": "%s is %s%s" % (
                                thing.capitalize(), colour, mark)}]}


def main(directory, texts):
    rng = random.Random(1)
    folder = pathlib.Path(directory)
    folder.mkdir(parents=True, exist_ok=True)
    vocabulary, merges = train_tokenizer("\n".join(pathlib.Path(path).read_text("utf-8")
                                                   for path in texts))
    size = len(SPECIAL) + len(vocabulary)
    files = {
        "config.json": {
            "model_type": "llama", "architectures": ["LlamaForCausalLM"], "vocab_size": size,
            "hidden_size": WIDTH, "intermediate_size": INNER, "num_hidden_layers": LAYERS,
            "num_attention_heads": HEADS, "num_key_value_heads": KEY_VALUE_HEADS,
            "max_position_embeddings": PLACES, "rms_norm_eps": 1e-5, "rope_theta": 10000.0,
            "hidden_act": "silu", "tie_word_embeddings": True, "torch_dtype": "float32",
            "bos_token_id": 0, "eos_token_id": 2},
        "tokenizer.json": tokenizer_file(vocabulary, merges),
        "tokenizer_config.json": {"bos_token": SPECIAL[0], "eos_token": SPECIAL[2],
                                  "chat_template": CHAT_TEMPLATE},
        "generation_config.json": {"bos_token_id": 0, "eos_token_id": [0, 2],
                                   "max_new_tokens": 32}}
    for name, content in files.items():
        (folder / name).write_text(json.dumps(content, ensure_ascii=False, indent=1), "utf-8")
    write_weights(folder / "model.safetensors", size, rng)
    for name, mark in ("chats.jsonl", "."), ("loud.jsonl", "!"):
        with open(folder / name, "w", encoding="utf-8") as file:
            for chat in make_chats(rng, 400, mark):
                file.write(json.dumps(chat) + "\n")


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    main(sys.argv[1], sys.argv[2:])
