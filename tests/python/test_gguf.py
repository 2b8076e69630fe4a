# SPDX-License-Identifier: Apache-2.0
"""Models of the hub as GGUF files: read by the tests' own reader, and computed from what the files
hold in the way that llama.cpp computes them, against the library's logits."""
import json
import pathlib
import sys
import tempfile
import unittest

import numpy as np

import ringfire as rf
from ringfire import keras

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
import gguf_file  # noqa: E402
import hub  # noqa: E402

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
    out = {"model.embed_tokens.weight": (VOCABULARY, WIDTH), "model.norm.weight": (WIDTH, )}
    if not config.get("tie_word_embeddings"):
        out["lm_head.weight"] = (VOCABULARY, WIDTH)
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


def numbers_of(tensor):
    """The numbers of a tensor of the reader, row-major."""
    dims, kind, data = tensor
    count = int(np.prod(dims))
    if kind == 8:
        blocks = np.frombuffer(data, np.dtype([("d", "<f2"), ("q", "i1", 32)]), count // 32)
        values = blocks["d"].astype(np.float64)[:, None] * blocks["q"]
    elif kind == 30:
        values = (np.frombuffer(data, "<u2", count).astype("<u4") << 16).view("<f4")
    else:
        values = np.frombuffer(data, {0: "<f4", 1: "<f2"}[kind], count)
    return values.astype(np.float64).reshape(dims[::-1])


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
        size, pairs = self.setting("rope.dimension_count"), self.kind == "llama"
        assert size == x.shape[-1]
        angle = np.arange(x.shape[1])[:, None] * self.setting("rope.freq_base")**(
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


class Files(unittest.TestCase):
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

    def write(self, path, **more):
        keras.models.save_gguf(path, self.folder / "out", **{"type": "f32", **more})
        return self.folder / "out"

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
        (path / "tokenizer.json").write_text('{"model": {"type": "Unigram", "vocab": []}}')
        with self.assertRaisesRegex(rf.UnsupportedError, "tokenizers of type BPE"):
            self.write(path)
        (path / "tokenizer.json").unlink()
        with self.assertRaisesRegex(rf.NotFoundError, "tokenizer.json"):
            self.write(path)
        self.assertFalse((self.folder / "out").exists())


unittest.main()
