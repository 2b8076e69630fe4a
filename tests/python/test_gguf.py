# SPDX-License-Identifier: Apache-2.0
"""Models of the hub as GGUF files: read by the tests' own reader, and computed from what the files
hold in the way that llama.cpp computes them, against the library's logits."""
import json
import pathlib
import shutil
import sys
import tempfile
import unittest

import numpy as np

import ringfire as rf
from ringfire import keras

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
import gguf_file  # noqa: E402
import hub  # noqa: E402
from gguf_numbers import numbers_of  # noqa: E402

WIDTH, HEADS, KEY_HEADS, INNER, LAYERS, POSITIONS = 32, 4, 2, 64, 2, 64
WORDS = ["Ġ", "a", "b", "c", "ab", "Ġa", "abc"]
SPECIAL = ["<|begin|>", "<|end|>"]
VOCABULARY = 12  # three numbers have no token
LLAMA3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+"
          r"[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")
SCALING = {"rope_type": "llama3", "factor": 4.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
           "original_max_position_embeddings": 32}
DECODER = {"vocab_size": VOCABULARY, "hidden_size": WIDTH, "intermediate_size": INNER,
           "num_hidden_layers": LAYERS, "num_attention_heads": HEADS, "rms_norm_eps": 1e-5,
           "num_key_value_heads": KEY_HEADS, "max_position_embeddings": POSITIONS,
           "bos_token_id": 7, "eos_token_id": [8, 7]}
CONFIGS = {
    "llama": {**DECODER, "model_type": "llama", "rope_theta": 500.0, "rope_scaling": SCALING},
    "mistral": {**DECODER, "model_type": "mistral", "head_dim": 12, "sliding_window": None},
    "qwen2": {**DECODER, "model_type": "qwen2", "tie_word_embeddings": True},
    "qwen3": {**DECODER, "model_type": "qwen3", "head_dim": 16},
    "gpt2": {"model_type": "gpt2", "vocab_size": VOCABULARY, "n_embd": WIDTH, "n_head": HEADS,
             "n_layer": LAYERS, "n_positions": POSITIONS, "eos_token_id": 8},
}
TYPES = {"f32": 0, "f16": 1, "q8_0": 8, "bf16": 30}


def decoder_shapes(config):
    head = config.get("head_dim", WIDTH // HEADS)
    size = config["vocab_size"]
    out = {"model.embed_tokens.weight": (size, WIDTH), "model.norm.weight": (WIDTH, )}
    if not config.get("tie_word_embeddings"):
        out["lm_head.weight"] = (size, WIDTH)
    for i in range(LAYERS):
        at = "model.layers.%d." % i
        for name, rows, columns in (("self_attn.q_proj", HEADS * head, WIDTH),
                                    ("self_attn.k_proj", KEY_HEADS * head, WIDTH),
                                    ("self_attn.v_proj", KEY_HEADS * head, WIDTH),
                                    ("self_attn.o_proj", WIDTH, HEADS * head),
                                    ("mlp.gate_proj", INNER, WIDTH), ("mlp.up_proj", INNER, WIDTH),
                                    ("mlp.down_proj", WIDTH, INNER)):
            out[at + name + ".weight"] = (rows, columns)
            if config["model_type"] == "qwen2" and name[-6:-5] in "qkv" and "attn" in name:
                out[at + name + ".bias"] = (rows, )
        for name in ("input_layernorm", "post_attention_layernorm"):
            out[at + name + ".weight"] = (WIDTH, )
        if config["model_type"] == "qwen3":
            out.update({at + "self_attn.%s_norm.weight" % which: (head, ) for which in "qk"})
    return out


def gpt2_shapes(config):
    out = {"wte.weight": (VOCABULARY, WIDTH), "wpe.weight": (POSITIONS, WIDTH),
           "ln_f.weight": (WIDTH, ), "ln_f.bias": (WIDTH, )}
    for i in range(LAYERS):
        for name, rows, columns in (("attn.c_attn", 1, 3), ("attn.c_proj", 1, 1),
                                    ("mlp.c_fc", 1, 4), ("mlp.c_proj", 4, 1)):
            out["h.%d.%s.weight" % (i, name)] = (rows * WIDTH, columns * WIDTH)
            out["h.%d.%s.bias" % (i, name)] = (columns * WIDTH, )
        for name in ("ln_1", "ln_2"):
            out["h.%d.%s.weight" % (i, name)] = out["h.%d.%s.bias" % (i, name)] = (WIDTH, )
    return {"transformer." + name: shape for name, shape in out.items()}


def byte_tokenizer(**before):
    return {"added_tokens": [{"id": 7 + i, "content": text, "special": True}
                             for i, text in enumerate(SPECIAL)],
            "pre_tokenizer": before or {"type": "ByteLevel", "add_prefix_space": False,
                                        "use_regex": True},
            "post_processor": {"type": "TemplateProcessing", "single": [
                {"SpecialToken": {"id": SPECIAL[0]}}, {"Sequence": {"id": "A"}}]},
            "model": {"type": "BPE", "vocab": {word: i for i, word in enumerate(WORDS)},
                      "merges": ["a b", ["Ġ", "a"], "ab c"]}}


def piece_tokenizer():
    words = ["<unk>", "<s>", "<0x0A>", "▁", "a", "b", "ab", "▁ab"]
    return {"added_tokens": [{"id": i, "content": words[i], "special": True} for i in (0, 1)],
            "normalizer": {"type": "Sequence",
                           "normalizers": [{"type": "Prepend", "prepend": "▁"}]},
            "model": {"type": "BPE", "byte_fallback": True, "unk_token": "<unk>",
                      "vocab": {word: i for i, word in enumerate(words)},
                      "merges": ["a b", "▁ ab"]}}


class Computed:
    """Logits of what a file holds, by the rules of llama.cpp."""

    def __init__(self, data):
        self.values, tensors = gguf_file.read(data)
        self.tensors = {name: numbers_of(t) for name, t in tensors.items()}
        self.kind = self.values["general.architecture"]

    def setting(self, name, otherwise=None):
        return self.values.get("%s.%s" % (self.kind, name), otherwise)

    def product(self, x, name):
        return x @ self.tensors[name + ".weight"].T + self.tensors.get(name + ".bias", 0.0)

    def norm(self, x, name):
        if self.kind == "gpt2":
            x = x - x.mean(-1, keepdims=True)
            epsilon = self.setting("attention.layer_norm_epsilon")
        else:
            epsilon = self.setting("attention.layer_norm_rms_epsilon")
        x = x / np.sqrt((x**2).mean(-1, keepdims=True) + epsilon)
        return x * self.tensors[name + ".weight"] + self.tensors.get(name + ".bias", 0.0)

    def rotate(self, x):
        """Neighbours of llama, halves of the others."""
        size, pairs = x.shape[-1], self.kind == "llama"
        assert size == self.setting("rope.dimension_count", size)
        angle = np.arange(x.shape[1])[:, None] * self.setting("rope.freq_base", 10000.0)**(
            -np.arange(0, size, 2) / size) / self.tensors.get("rope_freqs.weight", 1.0)
        a, b = (x[..., ::2], x[..., 1::2]) if pairs else np.split(x, 2, -1)
        a, b = a * np.cos(angle) - b * np.sin(angle), a * np.sin(angle) + b * np.cos(angle)
        return np.stack([a, b], -1).reshape(x.shape) if pairs else np.concatenate([a, b], -1)

    def attend(self, x, at):
        heads = self.setting("attention.head_count")
        key_heads = self.setting("attention.head_count_kv", heads)
        if self.kind == "gpt2":
            parts = np.split(self.product(x, at + "attn_qkv"), 3, -1)
        else:
            parts = [self.product(x, at + "attn_" + which) for which in "qkv"]
        q, k, v = (part.reshape(len(x), n, -1).swapaxes(0, 1)
                   for part, n in zip(parts, (heads, key_heads, key_heads)))
        if self.kind == "qwen3":
            q, k = self.norm(q, at + "attn_q_norm"), self.norm(k, at + "attn_k_norm")
        if self.kind != "gpt2":
            q, k = self.rotate(q), self.rotate(k)
        k, v = (np.repeat(part, heads // key_heads, 0) for part in (k, v))
        scores = q @ k.swapaxes(1, 2) / np.sqrt(q.shape[-1])
        scores = np.exp(np.where(np.tri(len(x)), scores, -np.inf))
        scores /= scores.sum(-1, keepdims=True)
        return self.product((scores @ v).swapaxes(0, 1).reshape(len(x), -1),
                            at + "attn_output")

    def logits(self, ids):
        x = self.tensors["token_embd.weight"][ids]
        if self.kind == "gpt2":
            x = x + self.tensors["position_embd.weight"][:len(ids)]
        for i in range(self.setting("block_count")):
            at = "blk.%d." % i
            x = x + self.attend(self.norm(x, at + "attn_norm"), at)
            y = self.norm(x, at + "ffn_norm")
            if self.kind == "gpt2":
                y = self.product(y, at + "ffn_up")
                y = y / 2 * (1 + np.tanh(np.sqrt(2 / np.pi) * (y + 0.044715 * y**3)))
            else:
                gate = self.product(y, at + "ffn_gate")
                y = gate / (1 + np.exp(-gate)) * self.product(y, at + "ffn_up")
            x = x + self.product(y, at + "ffn_down")
        head = self.tensors.get("output.weight", self.tensors["token_embd.weight"])
        return self.norm(x, "output_norm") @ head.T


class Folder(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def directory(self, config, tokenizer=None, **settings):
        rng = np.random.default_rng(5)
        shapes = (gpt2_shapes if config["model_type"] == "gpt2" else decoder_shapes)(config)
        weights = {name: (1.0 if len(shape) == 1 and name.endswith("weight") else 0.0)
                   + 0.3 * rng.standard_normal(shape) for name, shape in shapes.items()}
        path = self.folder / config["model_type"]
        hub.write_directory(path, config, weights)
        (path / "tokenizer.json").write_text(json.dumps(tokenizer or byte_tokenizer()))
        (path / "tokenizer_config.json").write_text(json.dumps(settings))
        return path

    def read(self, path):
        return gguf_file.read(path.read_bytes())

    def write(self, path, **more):
        keras.models.save_gguf(path, self.folder / "out", **{"type": "f32", **more})
        return self.folder / "out"


class Files(Folder):

    def test_logits(self):
        ids = np.array([[3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5, 8, 9, 7, 9, 3, 2, 3, 8, 4, 6]], np.int32)
        for name, config in CONFIGS.items():
            with self.subTest(name):
                model = keras.models.from_pretrained(self.directory(config))
                for kind, most in (("f32", 1e-5), ("bf16", 0.1), ("f16", 0.02), ("q8_0", 0.2)):
                    path = self.folder / ("%s.%s.gguf" % (name, kind))
                    model.save_gguf(path, kind)
                    computed = Computed(path.read_bytes()).logits(ids[0])
                    wanted = model.predict(ids)[0]
                    self.assertLess(abs(computed - wanted).max() / abs(wanted).max(), most, kind)
                model.close()

    def test_trained_weights(self):
        """What a model has learned is in its file; a directory that it wrote gives the same."""
        path = self.directory(CONFIGS["qwen2"])
        model = keras.models.from_pretrained(path)
        ids = np.arange(24, dtype=np.int32).reshape(2, 12) % VOCABULARY
        model.compile("sgd", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
        model.fit(ids, np.roll(ids, -1, 1), epochs=2, verbose=0)
        model.save_gguf(self.folder / "one", "f32", name="tuned")
        model.save_pretrained(self.folder / "tuned")
        keras.models.save_gguf(self.folder / "tuned", self.folder / "two", "f32")
        one, two = (self.read(self.folder / name) for name in ("one", "two"))
        before = numbers_of(self.read(self.write(path))[1]["blk.0.attn_q.weight"])
        self.assertGreater(abs(numbers_of(one[1]["blk.0.attn_q.weight"]) - before).max(), 1e-4)
        self.assertEqual(one[0], two[0])
        for name, tensor in one[1].items():
            self.assertTrue((numbers_of(tensor) == numbers_of(two[1][name])).all(), name)

    def test_values(self):
        path = self.directory(CONFIGS["llama"], bos_token={"content": SPECIAL[0]},
                              eos_token=SPECIAL[1], chat_template="{{ messages }}")
        values, tensors = self.read(self.write(path, type="q8_0"))
        wanted = {
            "general.architecture": "llama", "general.type": "model", "general.name": "llama",
            "general.file_type": 7, "general.quantization_version": 2, "llama.block_count": LAYERS,
            "llama.context_length": POSITIONS, "llama.embedding_length": WIDTH,
            "llama.feed_forward_length": INNER, "llama.attention.head_count": HEADS,
            "llama.attention.head_count_kv": KEY_HEADS, "llama.attention.key_length": 8,
            "llama.attention.value_length": 8, "llama.vocab_size": VOCABULARY,
            "llama.rope.dimension_count": 8, "llama.rope.freq_base": 500.0,
            "tokenizer.ggml.model": "gpt2", "tokenizer.ggml.pre": "gpt-2",
            "tokenizer.ggml.tokens": WORDS + SPECIAL + ["[PAD9]", "[PAD10]", "[PAD11]"],
            "tokenizer.ggml.token_type": [1] * 7 + [3] * 2 + [5] * 3,
            "tokenizer.ggml.merges": ["a b", "Ġ a", "ab c"],
            "tokenizer.ggml.bos_token_id": 7, "tokenizer.ggml.eos_token_id": 8,
            "tokenizer.ggml.add_bos_token": True, "tokenizer.ggml.add_eos_token": False,
            "tokenizer.chat_template": "{{ messages }}",
        }
        epsilon = values.pop("llama.attention.layer_norm_rms_epsilon")
        self.assertAlmostEqual(epsilon, 1e-5, delta=1e-11)
        self.assertEqual(values, wanted)
        kinds = {name: kind for name, (_, kind, _) in tensors.items()}
        self.assertEqual(kinds["blk.0.attn_q.weight"], TYPES["q8_0"])
        self.assertEqual(kinds["blk.1.attn_norm.weight"], TYPES["f32"])
        self.assertEqual(len(tensors), 4 + 9 * LAYERS)  # with the divisors of frequencies
        self.assertEqual(tensors["blk.0.ffn_down.weight"][0], [INNER, WIDTH])

    def test_tokenizers(self):
        byte_level = {"type": "ByteLevel", "add_prefix_space": False}
        for pre, steps in (
                ("smollm", [{"type": "Digits", "individual_digits": True}, byte_level]),
                ("llama-bpe", [{"type": "Split", "pattern": {"Regex": LLAMA3}},
                               {**byte_level, "use_regex": False}]),
                ("qwen2", [{"type": "Split", "pattern": {"Regex": LLAMA3.replace("{1,3}", "")}},
                           {**byte_level, "use_regex": False}])):
            path = self.directory({**CONFIGS["qwen2"], "model_type": "qwen2"})
            tokenizer = byte_tokenizer(type="Sequence", pretokenizers=steps)
            (path / "tokenizer.json").write_text(json.dumps(tokenizer))
            self.assertEqual(self.read(self.write(path))[0]["tokenizer.ggml.pre"], pre)
            tokenizer["pre_tokenizer"]["pretokenizers"][0]["type"] = "Whitespace"
            (path / "tokenizer.json").write_text(json.dumps(tokenizer))
            with self.assertRaisesRegex(rf.UnsupportedError, "pre_tokenizer"):
                self.write(path)
            values = self.read(self.write(path, pre_tokenizer="mine"))[0]
            self.assertEqual(values["tokenizer.ggml.pre"], "mine")
            for file in path.iterdir():
                file.unlink()
            path.rmdir()

    def test_pieces(self):
        path = self.directory(CONFIGS["mistral"], piece_tokenizer(), add_bos_token=True,
                              bos_token="<s>", unk_token="<unk>")
        values = self.read(self.write(path))[0]
        self.assertEqual(values["tokenizer.ggml.model"], "llama")
        self.assertEqual(values["tokenizer.ggml.token_type"], [2, 3, 6] + [1] * 5 + [5] * 4)
        self.assertEqual(values["tokenizer.ggml.scores"], [0, 0, 0, -2, -2, -2, 0, -1] + [0] * 4)
        self.assertEqual([values["tokenizer.ggml." + name] for name in (
            "bos_token_id", "unknown_token_id", "add_bos_token", "add_space_prefix")],
            [1, 0, True, True])

    def test_adapter(self):
        base = self.directory(CONFIGS["llama"])
        folder = self.folder / "adapter"
        folder.mkdir()
        rng, name = np.random.default_rng(3), "base_model.model.model.layers.1.%s.lora_%s.weight"
        factors = {name % (module, part): rng.standard_normal(shape).astype(np.float32)
                   for module, out, in_ in (("self_attn.q_proj", WIDTH, WIDTH),
                                            ("mlp.down_proj", WIDTH, INNER))
                   for part, shape in (("A", (4, in_)), ("B", (out, 4)))}
        hub.write_tensors(folder / "adapter_model.safetensors",
                          {n: ("F32", f.shape, f.tobytes()) for n, f in factors.items()})
        config = {"r": 4, "lora_alpha": 6, "use_rslora": True}
        (folder / "adapter_config.json").write_text(json.dumps(config))
        values, tensors = self.read(self.write(folder, base=base, name="small"))
        self.assertEqual(values, {
            "general.architecture": "llama", "general.type": "adapter", "general.name": "small",
            "general.file_type": 0, "general.quantization_version": 2, "adapter.type": "lora",
            "adapter.lora.alpha": 12.0})
        got = {n: numbers_of(t) for n, t in tensors.items()}
        self.assertEqual(sorted(got), sorted("blk.1.%s.weight.lora_%s" % (n, part)
                                             for n in ("attn_q", "ffn_down") for part in "ab"))
        # The product is the change of the tensor as it is in the model's file.
        change = got["blk.1.attn_q.weight.lora_b"] @ got["blk.1.attn_q.weight.lora_a"]
        wanted = (factors[name % ("self_attn.q_proj", "B")]
                  @ factors[name % ("self_attn.q_proj", "A")])
        wanted = wanted.reshape(HEADS, 2, -1, WIDTH).swapaxes(1, 2).reshape(WIDTH, WIDTH)
        np.testing.assert_allclose(change, wanted, rtol=1e-5, atol=1e-5)
        for key, value in (("use_dora", True), ("alpha_pattern", {"q_proj": 3}), ("r", 0)):
            (folder / "adapter_config.json").write_text(json.dumps({**config, key: value}))
            with self.assertRaisesRegex(rf.UnsupportedError, "'%s'" % key):
                self.write(folder, base=base)

    def test_refused(self):
        for model, change, part in (
                ("llama", {"model_type": "gemma2"}, "'model_type' is \"gemma2\", of which no GGUF"),
                ("llama", {"rope_scaling": {"type": "dynamic", "factor": 2.0}}, "rope_scaling"),
                ("llama", {"hidden_act": "gelu"}, "'hidden_act'"),
                ("llama", {"architectures": ["LlamaModel"]}, "'architectures'"),
                ("qwen2", {"rope_scaling": SCALING}, "'rope_scaling'"),
                ("qwen3", {"attention_bias": True}, "'attention_bias'"),
                ("qwen2", {"use_sliding_window": True}, "'use_sliding_window'"),
                ("gpt2", {"scale_attn_weights": False}, "'scale_attn_weights'"),
                ("gpt2", {"activation_function": "relu"}, "'activation_function'")):
            with self.subTest(part):
                if not (self.folder / model).exists():
                    self.directory(CONFIGS[model])
                (self.folder / model / "config.json").write_text(
                    json.dumps({**CONFIGS[model], **change}))
                with self.assertRaisesRegex(rf.UnsupportedError, part):
                    self.write(self.folder / model)
        with self.assertRaisesRegex(rf.InvalidArgumentError, "F32, F16, BF16 and Q8_0"):
            self.write(self.folder / "llama", type="q4_0")
        path = self.folder / "qwen2"
        (path / "config.json").write_text(json.dumps({**CONFIGS["qwen2"], "vocab_size": 8}))
        with self.assertRaisesRegex(rf.InvalidArgumentError, "'vocab_size' of config.json 8"):
            self.write(path)
        (path / "config.json").write_text(json.dumps(CONFIGS["qwen2"]))
        tokenizer = byte_tokenizer()
        for number, error, part in ((12, rf.InvalidArgumentError, "token 12, of which the model"),
                                    (8, rf.CorruptDataError, "two tokens have the number 8")):
            tokenizer["added_tokens"][0]["id"] = number
            (path / "tokenizer.json").write_text(json.dumps(tokenizer))
            with self.assertRaisesRegex(error, part):
                self.write(path)
        changed = {**byte_tokenizer(), "normalizer": {"type": "Lowercase"}}
        (path / "tokenizer.json").write_text(json.dumps(changed))
        with self.assertRaisesRegex(rf.UnsupportedError, "the normalizer has a step"):
            self.write(path)
        (path / "tokenizer.json").write_text('{"model": {"type": "Unigram", "vocab": []}}')
        with self.assertRaisesRegex(rf.UnsupportedError, "tokenizers of type BPE"):
            self.write(path)
        (path / "tokenizer.json").unlink()
        with self.assertRaisesRegex(rf.NotFoundError, "tokenizer.json"):
            self.write(path)
        self.assertFalse((self.folder / "out").exists())



IDS = np.array([[3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5, 8, 9, 7, 9, 3, 2, 3, 8, 4, 6]], np.int32)


def random_texts(rng, count):
    parts = ["the", " a", "b", "abc", "  ", "\n", "\r\n\n", "\t", "1", "1234567", "'s", "'LL",
             "!?", ".", "\u00e9", "e\u0301", "\u4f60\u597d", "\U0001f600", "<|end|>", "</s>",
             "\u00a0", "-", "\u0416\u0434", "\u2581", "x", " caf", "\u1112\u1161", "\0", "Q"]
    return ["".join(rng.choice(parts) for _ in range(rng.integers(0, 24))) for _ in range(count)]


def trained_tokenizer(rng, pre, **more):
    """Byte pairs with 256 bytes and 160 merges, drawn with the frequencies of nobody's language."""
    known = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [b for b in range(256) if b not in known]
    words = [chr(b) for b in known] + [chr(256 + i) for i in range(len(others))]
    merges = []
    while len(merges) < 160:
        pair = rng.choice(["t", "h", "e", "\u0120", "a", "b", "c", "1", "2", "\u00c3", "\u00a9",
                           "s", "'", "\u010a", *words[256:]], 2)
        if "".join(pair) not in words:
            words.append("".join(pair))
            merges.append(list(pair))
    return {"version": "1.0",
            "added_tokens": [{"id": len(words), "content": "<|end|>", "special": True}],
            "normalizer": {"type": "NFC"} if pre == "qwen2" else None,
            "pre_tokenizer": {"type": "Sequence", "pretokenizers": more["steps"]},
            "decoder": {"type": "ByteLevel"},
            "model": {"type": "BPE", "vocab": {word: i for i, word in enumerate(words)},
                      "merges": merges, "ignore_merges": pre == "llama-bpe"}}


def sentence_pieces():
    """Pieces with all their merges, as converters write them."""
    words = ["<unk>", "<s>", "</s>"] + ["<0x%02X>" % b for b in range(256)]
    words += list("\u2581abcehtx12.") + ["\u00e9"]
    words += ["\u2581t", "he", "\u2581the", "ab", "\u2581a", "bc", "abc", "\u2581\u2581", "12",
              "ca"]
    ids = {word: i for i, word in enumerate(words)}
    merges = [[word[:i], word[i:]] for word in words[271:] for i in range(1, len(word))
              if word[:i] in ids and word[i:] in ids]
    return {"version": "1.0",
            "added_tokens": [{"id": i, "content": words[i], "special": True} for i in range(3)],
            "normalizer": {"type": "Sequence", "normalizers": [
                {"type": "Prepend", "prepend": "\u2581"},
                {"type": "Replace", "pattern": {"String": " "}, "content": "\u2581"}]},
            "post_processor": {"type": "TemplateProcessing", "single": [
                {"SpecialToken": {"id": "<s>", "type_id": 0}},
                {"Sequence": {"id": "A", "type_id": 0}}], "pair": [
                {"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}}],
                "special_tokens": {"<s>": {"id": "<s>", "ids": [1], "tokens": ["<s>"]}}},
            "decoder": {"type": "Sequence", "decoders": [
                {"type": "Replace", "pattern": {"String": "\u2581"}, "content": " "},
                {"type": "ByteFallback"}, {"type": "Fuse"},
                {"type": "Strip", "content": " ", "start": 1, "stop": 0}]},
            "model": {"type": "BPE", "byte_fallback": True, "fuse_unk": True,
                      "unk_token": "<unk>", "vocab": ids, "merges": merges}}


class Reading(Folder):
    def test_models(self):
        """The same logits, and the same file when it is written again."""
        for name, config in CONFIGS.items():
            model = keras.models.from_pretrained(self.directory(config))
            wanted = model.predict(IDS, verbose=0)
            for kind in TYPES:
                with self.subTest(name + " " + kind):
                    path = self.folder / ("%s.%s.gguf" % (name, kind))
                    model.save_gguf(path, kind, name="it")
                    read = keras.models.from_pretrained(path)
                    got = read.predict(IDS, verbose=0)
                    if kind == "f32":
                        self.assertTrue((got == wanted).all())
                    computed = Computed(path.read_bytes()).logits(IDS[0])
                    self.assertLess(abs(got[0] - computed).max() / abs(computed).max(), 1e-5)
                    read.save_gguf(self.folder / "again", kind, name="it")
                    self.assertEqual((self.folder / "again").read_bytes(), path.read_bytes())
                    read.close()
            model.close()

    def test_directories(self):
        """A directory that is made of a file has the tensors and the settings that it came from."""
        for name, config in CONFIGS.items():
            with self.subTest(name):
                path = self.directory(config, bos_token=SPECIAL[0], chat_template="{{ 1 }}")
                alone = self.folder / ("only " + name)
                alone.mkdir()
                self.write(path).rename(alone / "model.gguf")
                model = keras.models.from_pretrained(alone)
                made = self.folder / ("made " + name)
                model.save_pretrained(made)
                was, is_ = (hub.read_values(where / "model.safetensors")
                            for where in (path, made))
                self.assertEqual(sorted(was), sorted(is_))
                for tensor, values in was.items():
                    self.assertTrue((is_[tensor] == values).all(), tensor)
                settings = json.loads((made / "config.json").read_text())
                for key, value in config.items():
                    if key not in ("model_type", "eos_token_id") and value is not None:
                        self.assertEqual(settings[key], value, key)
                text = json.loads((made / "tokenizer_config.json").read_text())
                self.assertEqual((text["bos_token"], text["chat_template"]),
                                 (SPECIAL[0], "{{ 1 }}"))
                rf.text.Tokenizer.load(made / "tokenizer.json")
                model.close()

    def tokenizers(self):
        rng = np.random.default_rng(7)
        level = {"type": "ByteLevel", "add_prefix_space": False}
        whole = {**level, "use_regex": False}
        digits = {"type": "Digits", "individual_digits": True}
        split = {"type": "Split", "behavior": "Isolated"}
        for pre, steps in (("gpt-2", [level]), ("smollm", [digits, level]),
                           ("llama-bpe", [{**split, "pattern": {"Regex": LLAMA3}}, whole]),
                           ("qwen2", [{**split, "pattern": {
                               "Regex": LLAMA3.replace("{1,3}", "")}}, whole])):
            yield pre, trained_tokenizer(rng, pre, steps=steps)
        yield "default", sentence_pieces()

    def test_tokenizers(self):
        """The same tokens of texts, and the same texts of tokens."""
        rng = np.random.default_rng(3)
        for pre, tokenizer in self.tokenizers():
            with self.subTest(pre):
                end = "</s>" if pre == "default" else "<|end|>"
                shutil.rmtree(self.folder / "mistral", ignore_errors=True)
                path = self.directory({**CONFIGS["mistral"], "vocab_size": 440}, tokenizer,
                                      bos_token="<s>", eos_token=end,
                                      chat_template="{{ eos_token }}")
                one = rf.text.Tokenizer.load(path / "tokenizer.json")
                file = self.write(path)
                self.assertEqual(self.read(file)[0]["tokenizer.ggml.pre"], pre)
                two = rf.text.Tokenizer.load(file)
                two.save(self.folder / "saved.json")
                three = rf.text.Tokenizer.load(self.folder / "saved.json")
                self.assertEqual(one.vocabulary, two.vocabulary)
                for line in random_texts(rng, 300):
                    ids = one.encode(line)
                    for other in (two, three):
                        self.assertEqual(list(other.encode(line)), list(ids), repr(line))
                        self.assertEqual(other.decode(ids), one.decode(ids), repr(line))
                self.assertEqual(one.is_special(len(one) - 1), two.is_special(len(one) - 1))
                chats = rf.text.ChatTemplate.load(file, two)
                self.assertEqual(chats.apply([]), end)

    def foreign(self):
        """A file as another program writes one: no more values than there have to be."""
        rng = np.random.default_rng(11)
        values = {"general.architecture": "llama", "general.license": "none",
                  "llama.block_count": (10, 1), "llama.context_length": 64,
                  "llama.embedding_length": WIDTH, "llama.feed_forward_length": INNER,
                  "llama.attention.head_count": HEADS, "llama.expert_count": 0,
                  "llama.attention.layer_norm_rms_epsilon": 1e-5,
                  "tokenizer.ggml.model": "llama", "tokenizer.ggml.bos_token_id": 1,
                  "tokenizer.ggml.tokens": ["<unk>", "<s>", "\u2581", "a", "b", "ab", "\u2581ab"],
                  "tokenizer.ggml.scores": [0.0, 0.0, -9.0, -9.0, -9.0, -1.0, -2.0],
                  "tokenizer.ggml.token_type": [2, 3, 1, 1, 1, 1, 1]}

        def tensor(rows, columns, kind):
            if kind == 0:
                data = (1 + 0.1 * rng.standard_normal(rows * columns)).astype("<f4").tobytes()
                return [columns] if rows == 1 else [columns, rows], kind, data
            size, data = {2: 16, 8: 32}[kind], b""
            for _ in range(rows * columns // 32):
                data += np.float16(rng.uniform(0, {2: 0.1, 8: 0.006}[kind])).tobytes()
                data += rng.bytes(size)
            return [columns, rows], kind, data
        tensors = {"token_embd.weight": tensor(7, WIDTH, 8), "output_norm.weight":
                   tensor(1, WIDTH, 0), "output.weight": tensor(7, WIDTH, 2)}
        for name, rows, columns, kind in (
                ("attn_norm", 1, WIDTH, 0), ("ffn_norm", 1, WIDTH, 0), ("attn_q", WIDTH, WIDTH, 2),
                ("attn_k", WIDTH, WIDTH, 8), ("attn_v", WIDTH, WIDTH, 2),
                ("attn_output", WIDTH, WIDTH, 8), ("ffn_gate", INNER, WIDTH, 2),
                ("ffn_up", INNER, WIDTH, 8), ("ffn_down", WIDTH, INNER, 2)):
            tensors["blk.0.%s.weight" % name] = tensor(rows, columns, kind)
        return values, tensors

    def test_other_writers(self):
        path = self.folder / "other.gguf"
        path.write_bytes(gguf_file.write(*self.foreign()))
        ids = IDS % 7
        computed = Computed(path.read_bytes()).logits(ids[0])
        model = keras.models.from_pretrained(path)
        got = model.predict(ids, verbose=0)[0]
        self.assertLess(abs(got - computed).max() / abs(computed).max(), 1e-5)
        tokenizer = rf.text.Tokenizer.load(path)
        self.assertEqual(list(tokenizer.encode("ab a")), [1, 6, 2, 3])
        few = keras.models.from_pretrained(path, quantize="int8").predict(ids, verbose=0)[0]
        self.assertLess(abs(few - computed).max() / abs(computed).max(), 0.1)

    def refuse(self, error, part, values, tensors, **more):
        path = self.folder / "bad.gguf"
        path.write_bytes(gguf_file.write(values, tensors, **more))
        with self.assertRaisesRegex(error, part):
            keras.models.from_pretrained(path)

    def test_refused_values(self):
        missing, unsupported, corrupt = rf.NotFoundError, rf.UnsupportedError, rf.CorruptDataError
        values, tensors = self.foreign()
        for key, value, error, part in (
                ("general.architecture", "gemma9", unsupported, "is \"gemma9\"; llama, qwen2"),
                ("general.architecture", None, missing, "has no value 'general.architecture'"),
                ("general.architecture", 7, unsupported, "'general.architecture' is not a text"),
                ("general.type", "adapter", unsupported, "'general.type' is not"),
                ("split.count", 2, unsupported, "'split.count' is 2"),
                ("llama.block_count", (10, 1 << 40), unsupported, "'llama.block_count' is not an"),
                ("llama.block_count", (5, -1), unsupported, "'llama.block_count' is not an"),
                ("llama.block_count", 1 << 30, unsupported, "'num_hidden_layers' is 1073741824"),
                ("llama.block_count", 2, missing, "layers.1.input_layernorm.weight'"),
                ("llama.block_count", "1", unsupported, "'llama.block_count' is not an integer"),
                ("llama.block_count", None, missing, "has no value 'llama.block_count'"),
                ("llama.attention.head_count", [4], unsupported, "head_count' is not an integer"),
                ("llama.attention.head_count", 0, unsupported, "head_count' is 0, not a size"),
                ("llama.attention.head_count", 5, rf.InvalidArgumentError, "attn_[qk].weight' is"),
                ("llama.attention.head_count_kv", 3, rf.Error, "attn_k.weight' is|num_key_value"),
                ("llama.attention.value_length", 16, rf.Error, "value_length|does not fit"),
                ("llama.attention.layer_norm_rms_epsilon", float("nan"), unsupported,
                 "epsilon' is not finite"),
                ("llama.vocab_size", 8, unsupported, "'llama.vocab_size' differs"),
                ("llama.expert_count", 8, unsupported, "'llama.expert_count' is not known"),
                ("llama.rope.scaling.type", "yarn", unsupported, "'llama.rope.scaling.type'"),
                ("tokenizer.ggml.model", "t5", unsupported, "'tokenizer.ggml.model' is \"t5\""),
                ("tokenizer.ggml.model", "gpt2", missing, "'tokenizer.ggml.pre'"),
                ("tokenizer.ggml.tokens", None, missing, "'tokenizer.ggml.tokens'"),
                ("tokenizer.ggml.tokens", [1], unsupported, "'tokenizer.ggml.tokens' is not an"),
                ("tokenizer.ggml.tokens", ["<unk>", "<s>", "a", "a", "b", "c", "d"], corrupt,
                 "token 3 is there twice"),
                ("tokenizer.ggml.tokens", ["<unk>", "<s>", b"\xff", "a", "b", "c", "d"], corrupt,
                 "token 2 is not UTF-8"),
                ("tokenizer.ggml.tokens", ["<unk>", "<s>", "x" * 9000, "a", "b", "c", "d"],
                 unsupported, "token 2 is empty, or longer than"),
                ("tokenizer.ggml.token_type", [1], corrupt, "token_type' has not as many"),
                ("tokenizer.ggml.token_type", [77] * 7, unsupported, "token 0 has type 77"),
                ("tokenizer.ggml.scores", [1.0], corrupt, "scores' has not as many"),
                ("tokenizer.ggml.scores", [float("nan")] * 7, corrupt, "is not finite"),
                ("tokenizer.ggml.bos_token_id", 7, unsupported, "bos_token_id' is 7, of 7 tokens"),
                ("tokenizer.ggml.bos_token_id", None, missing, "bos_token_id', which texts begin"),
                ("tokenizer.ggml.precompiled_charsmap", "x", unsupported, "precompiled_charsmap'")):
            with self.subTest((key, value)):
                changed = {k: v for k, v in {**values, key: value}.items() if v is not None}
                self.refuse(error, part, changed, tensors)

    def test_refused_tensors(self):
        values, tensors = self.foreign()
        table = tensors["token_embd.weight"]
        for name, tensor, error, part in (
                ("blk.0.attn_q.weight", None, rf.NotFoundError, "q_proj.weight"),
                ("token_embd.weight", None, rf.NotFoundError, "'token_embd.weight'"),
                ("token_embd.weight", ([7 * WIDTH], *table[1:]), rf.UnsupportedError, "no table"),
                ("blk.0.attn_q.weight", ([32, 3], 8, bytes(3 * 34)), rf.InvalidArgumentError,
                 "'blk.0.attn_q.weight' is \\[3,32\\]"),
                ("blk.0.ffn_up.weight", ([WIDTH, 1], 8, bytes(34)), rf.InvalidArgumentError,
                 "up_proj.weight' is \\[1,32\\], which does not fit"),
                ("blk.0.ffn_up.weight", ([256, 8], 10, bytes(84 * 8)), rf.UnsupportedError,
                 "'blk.0.ffn_up.weight' is stored as Q2_K"),
                ("blk.0.ffn_up_exps.weight", table, rf.UnsupportedError,
                 "'blk.0.ffn_up_exps.weight' has no place"),
                ("rope_freqs.weight", ([4], 0, bytes(16)), rf.UnsupportedError,
                 "'rope_freqs.weight' has other divisors")):
            with self.subTest(part):
                changed = {k: v for k, v in {**tensors, name: tensor}.items() if v is not None}
                self.refuse(error, part, values, changed)

    def test_damaged_files(self):
        values, tensors = self.foreign()
        data = gguf_file.write(values, tensors)
        path = self.folder / "cut.gguf"
        for size in (*range(0, 64, 5), *range(64, len(data), 499)):
            path.write_bytes(data[:size])
            with self.assertRaises(rf.CorruptDataError):
                keras.models.from_pretrained(path)
        for more in ({"num_tensors": 1 << 40}, {"num_values": 1 << 40}):
            self.refuse(rf.CorruptDataError, "cut.gguf|bad.gguf", values, tensors, **more)
        (self.folder / "two").mkdir()
        for name in ("a.gguf", "b.gguf"):
            (self.folder / "two" / name).write_bytes(data)
        with self.assertRaisesRegex(rf.InvalidArgumentError, "several GGUF files"):
            keras.models.from_pretrained(self.folder / "two")
        (self.folder / "two" / "config.json").write_text("{}")
        with self.assertRaisesRegex(rf.NotFoundError, "'model_type' is not there"):
            keras.models.from_pretrained(self.folder / "two")


unittest.main()
