# SPDX-License-Identifier: Apache-2.0
"""Seeds of fuzz_gguf, and files of models for fuzz_pretrained, for make_corpus.py."""
import gguf_file

MODEL = {"general.architecture": "llama", "llama.block_count": 1, "llama.context_length": 8,
         "llama.embedding_length": 4, "llama.feed_forward_length": 2,
         "llama.attention.head_count": 2, "llama.attention.layer_norm_rms_epsilon": 1e-5,
         "tokenizer.ggml.model": "llama", "tokenizer.ggml.bos_token_id": 1,
         "tokenizer.ggml.tokens": ["<unk>", "<s>", "a", "b", "ab"],
         "tokenizer.ggml.scores": [0.0, 0.0, -2.0, -2.0, -1.0],
         "tokenizer.ggml.token_type": [2, 3, 1, 1, 1]}
BYTES = {"general.architecture": "gpt2", "gpt2.block_count": 1, "gpt2.context_length": 8,
         "gpt2.embedding_length": 2, "gpt2.feed_forward_length": 3, "gpt2.attention.head_count": 1,
         "gpt2.attention.layer_norm_epsilon": 1e-5, "tokenizer.ggml.model": "gpt2",
         "tokenizer.ggml.pre": "gpt-2", "tokenizer.ggml.tokens": ["a", "b", "ab"],
         "tokenizer.ggml.merges": ["a b"], "tokenizer.chat_template": "{{ 1 }}"}


def zeros(*dims):
    count = 1
    for size in dims:
        count *= size
    return list(dims), 0, bytes(4 * count)


def patterned(dims, kind, size):
    return list(dims), kind, bytes(i % 60 for i in range(size))


def models():
    tables = {"token_embd.weight": zeros(4, 5), "blk.0.attn_q.weight": zeros(4, 4),
              "blk.0.attn_k.weight": zeros(4, 4), "rope_freqs.weight": (
                  [1], 0, gguf_file.value_bytes(1.0)[4:])}
    yield "pretrained", "file_llama", gguf_file.write(MODEL, tables)
    yield "pretrained", "file_gpt2", gguf_file.write(BYTES, {
        "token_embd.weight": zeros(2, 3), "output.weight": ([32, 1], 2, bytes(18)),
        "blk.0.attn_qkv.weight": zeros(2, 6)})


def every():
    numbers = {"n%d" % kind: (kind, 1) for kind in gguf_file.VALUES}
    name = {"general.architecture": "gpt2"}
    lists = {"tokens": ["a", "", "bcd"], "scores": [1.0, 2.0, 3.0]}
    files = {
        "values": ({**numbers, **name, **lists}, {}),
        "tensors": (name, {"f32": patterned((3, 2), 0, 24), "f16": patterned((5, ), 1, 10),
                           "bf16": patterned((2, 1, 2), 30, 8),
                           "q8_0": patterned((32, 2), 8, 68)}),
        "blocks": ({}, {"q4_0": patterned((32, ), 2, 18), "q4_k": patterned((256, ), 12, 144),
                        "q6_k": patterned((256, ), 14, 210), "q2_k": patterned((256, ), 10, 84)}),
        "aligned": ({"general.alignment": 64}, {}),
        "version2": (name, {}, 2),
        "version1": (name, {}, 1),
    }
    for file, contents in files.items():
        yield "gguf", file, gguf_file.write(*contents)
    for fuzzer, file, data in models():
        yield fuzzer, file, b"\4" + data
