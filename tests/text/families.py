# SPDX-License-Identifier: Apache-2.0
"""Files in the shape that each family of models has its tokenizer.json in, with a vocabulary that
this tree's own trainer learns."""
import base64
import json
import math
import pathlib
import struct
import subprocess

LLAMA3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}"
          r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")
QWEN2 = LLAMA3.replace(r"\p{N}{1,3}", r"\p{N}")
MARK = "\u2581"


def byte_characters():
    """GPT-2's character for each byte."""
    kept = [*range(0x21, 0x7f), *range(0xa1, 0xad), *range(0xae, 0x100)]
    others = [byte for byte in range(256) if byte not in kept]
    return {**{byte: chr(byte) for byte in kept},
            **{byte: chr(256 + i) for i, byte in enumerate(others)}}


def learned(tokenize, folder, kind, most, texts):
    """What the trainer writes for one kind of tokens."""
    path = pathlib.Path(folder, f"learned-{kind}.json")
    subprocess.run([tokenize, "train", str(kind), str(most), path, *texts], check=True)
    return json.loads(path.read_text())


def byte_pairs(merges):
    """The bytes of all tokens, and the pairs of bytes that are merged."""
    tokens = [bytes([byte]) for byte in range(256)]
    pairs = []
    for left, right in merges:
        pairs.append((tokens[left], tokens[right]))
        tokens.append(tokens[left] + tokens[right])
    return tokens, pairs


def added(number, content, **flags):
    """A row of added_tokens."""
    return {"id": number, "content": content, "single_word": False, "lstrip": False,
            "rstrip": False, "normalized": False, "special": True, **flags}


def document(model, **parts):
    """A file with these parts; the others are null."""
    empty = dict.fromkeys(["truncation", "padding", "normalizer", "pre_tokenizer",
                           "post_processor", "decoder"])
    return {"version": "1.0", **empty, "added_tokens": [], **parts, "model": model}


def template(single, pair, tokens):
    """TemplateProcessing of "<s> A </s>" and the like; B has type 1 where it is written B1."""
    def items(text):
        made = []
        for word in text.split():
            name, kind = (word[:-1], 1) if word.endswith("1") and word != "1" else (word, 0)
            made.append({"Sequence": {"id": name, "type_id": kind}} if name in "AB" else
                        {"SpecialToken": {"id": name, "type_id": kind}})
        return made
    return {"type": "TemplateProcessing", "single": items(single), "pair": items(pair),
            "special_tokens": {name: {"id": name, "ids": [number], "tokens": [name]}
                               for name, number in tokens.items()}}


def byte_level(add_prefix_space=False, use_regex=True):
    """The component that is a pre-tokenizer, a decoder and a post-processor."""
    return {"type": "ByteLevel", "add_prefix_space": add_prefix_space, "trim_offsets": True,
            "use_regex": use_regex}


def split(regex, behavior="Isolated", invert=False):
    """A pre-tokenizer that a regular expression tells where to cut."""
    return {"type": "Split", "pattern": {"Regex": regex}, "behavior": behavior, "invert": invert}


def sequence(name, *parts):
    """Components, one after the other."""
    return {"type": "Sequence", name: list(parts)}


def byte_level_bpe(tokens, pairs, **more):
    """The model, and how many tokens it has."""
    characters = byte_characters()

    def text(token):
        return "".join(characters[byte] for byte in token)
    vocab = {text(token): i for i, token in enumerate(tokens)}
    merges = [f"{text(left)} {text(right)}" for left, right in pairs]
    return {"type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": None,
            "end_of_word_suffix": None, "fuse_unk": False, "byte_fallback": False, **more,
            "vocab": vocab, "merges": merges}


def gpt2(tokens, pairs):
    """GPT-2's shape, whose model has no type."""
    model = byte_level_bpe(tokens, pairs, continuing_subword_prefix="", end_of_word_suffix="")
    del model["type"], model["byte_fallback"]
    return document(model, pre_tokenizer=byte_level(), post_processor=byte_level(),
                    decoder=byte_level(),
                    added_tokens=[added(len(tokens), "<|endoftext|>", normalized=True)])


def roberta(tokens, pairs):
    """RoBERTa's: a mask that takes the spaces before it."""
    first = len(tokens)
    names = ["<s>", "<pad>", "</s>", "<unk>"]
    return document(byte_level_bpe(tokens, pairs), pre_tokenizer=byte_level(), decoder=byte_level(),
                    post_processor={"type": "RobertaProcessing", "sep": ["</s>", first + 2],
                                    "cls": ["<s>", first], "trim_offsets": True,
                                    "add_prefix_space": False},
                    truncation={"direction": "Right", "max_length": 60, "strategy": "LongestFirst",
                                "stride": 0},
                    added_tokens=[added(first + i, name, normalized=True)
                                  for i, name in enumerate(names)] +
                    [added(first + 4, "<mask>", lstrip=True)])


def llama3(tokens, pairs):
    """Llama 3's: merges as pairs, words that are tokens are not merged."""
    first = len(tokens)
    model = byte_level_bpe(tokens, pairs, ignore_merges=True)
    model["merges"] = [merge.split(" ") for merge in model["merges"]]
    return document(model, decoder=byte_level(),
                    pre_tokenizer=sequence("pretokenizers", split(LLAMA3),
                                           byte_level(use_regex=False)),
                    post_processor=sequence(
                        "processors", byte_level(),
                        template("<|begin_of_text|> A", "<|begin_of_text|> A <|begin_of_text|>1 B1",
                                 {"<|begin_of_text|>": first})),
                    added_tokens=[added(first, "<|begin_of_text|>"),
                                  added(first + 1, "<|eot_id|>")])


def qwen2(tokens, pairs):
    """Qwen2's: NFC first."""
    first = len(tokens)
    return document(byte_level_bpe(tokens, pairs), normalizer={"type": "NFC"}, decoder=byte_level(),
                    pre_tokenizer=sequence("pretokenizers", split(QWEN2),
                                           byte_level(use_regex=False)),
                    post_processor=byte_level(),
                    added_tokens=[added(first + i, name) for i, name in
                                  enumerate(["<|endoftext|>", "<|im_start|>", "<|im_end|>"])])


def falcon(tokens, pairs):
    """Falcon's: the bytes are cut further when they are characters already."""
    return document(byte_level_bpe(tokens, pairs), decoder=byte_level(),
                    pre_tokenizer=sequence(
                        "pretokenizers", {"type": "Punctuation", "behavior": "Contiguous"},
                        byte_level(), {"type": "Digits", "individual_digits": False},
                        split("[0-9][0-9][0-9]")),
                    added_tokens=[added(len(tokens), "<|endoftext|>")])


def readable(tokens, pairs):
    """Byte pairs that are characters, with the mark for spaces: tokens and merges."""
    def text(token):
        try:
            made = token.decode()
        except UnicodeDecodeError:
            return None
        return None if "\u2581" in made or "\0" in made else made.replace(" ", MARK)
    merges = []
    names = dict.fromkeys(text(token) for token in tokens if text(token))
    for left, right in pairs:
        if text(left) and text(right) and text(left + right):
            merges.append((text(left), text(right)))
    return list(names), merges


def byte_fallback_bpe(tokens, pairs, specials, **more):
    """A model with tokens for bytes that stand in for unknown characters."""
    names, merges = readable(tokens, pairs)
    vocab = {name: i for i, name in
             enumerate(specials + [f"<0x{byte:02X}>" for byte in range(256)] + names)}
    return {"type": "BPE", "dropout": None, "unk_token": "<unk>", "continuing_subword_prefix": None,
            "end_of_word_suffix": None, "fuse_unk": True, "byte_fallback": True, **more,
            "vocab": vocab, "merges": [f"{left} {right}" for left, right in merges]}


def spaces_back(strip):
    """The decoder of sentencepiece's BPE."""
    parts = [{"type": "Replace", "pattern": {"String": MARK}, "content": " "},
             {"type": "ByteFallback"}, {"type": "Fuse"}]
    if strip:
        parts.append({"type": "Strip", "content": " ", "start": 1, "stop": 0})
    return sequence("decoders", *parts)


def llama2(tokens, pairs):
    """Llama 2's: no pre-tokenizer, spaces by the normalizer."""
    names = ["<unk>", "<s>", "</s>"]
    return document(byte_fallback_bpe(tokens, pairs, names), decoder=spaces_back(True),
                    normalizer=sequence("normalizers", {"type": "Prepend", "prepend": MARK},
                                        {"type": "Replace", "pattern": {"String": " "},
                                         "content": MARK}),
                    post_processor=template("<s> A", "<s> A <s>1 B1", {"<s>": 1}),
                    added_tokens=[added(i, name) for i, name in enumerate(names)])


def mistral(tokens, pairs):
    """Mistral's: Metaspace, the first word alone gets a space."""
    made = llama2(tokens, pairs)
    mark = {"type": "Metaspace", "replacement": MARK, "prepend_scheme": "first", "split": False}
    return {**made, "normalizer": None, "pre_tokenizer": mark}


def gemma(tokens, pairs):
    """Gemma's: texts are cut at spaces, which stay with what stood before them."""
    names = ["<pad>", "<eos>", "<bos>", "<unk>", "<mask>"]
    return document(byte_fallback_bpe(tokens, pairs, names), decoder=spaces_back(False),
                    normalizer={"type": "Replace", "pattern": {"String": " "}, "content": MARK},
                    pre_tokenizer={"type": "Split", "pattern": {"String": " "},
                                   "behavior": "MergedWithPrevious", "invert": False},
                    post_processor=template("<bos> A", "<bos> A <bos>1 B1", {"<bos>": 2}),
                    added_tokens=[added(i, name) for i, name in enumerate(names)])


def clip(tokens, pairs):
    """CLIP's: words end with a suffix."""
    characters = byte_characters()

    def text(token):
        return "".join(characters[byte] for byte in token)
    kept = [(left, right) for left, right in pairs if b" " not in left + right]
    names = [text(token) for token in tokens[:256]]
    names += [name + "</w>" for name in names]
    merges = []
    for left, right in kept:
        for end in ("", "</w>"):
            merges.append([text(left), text(right) + end])
            names.append(text(left + right) + end)
    names = list(dict.fromkeys(names))
    model = byte_level_bpe([], [], end_of_word_suffix="</w>", continuing_subword_prefix="",
                           unk_token="<|endoftext|>")
    first = len(names)
    model.update(vocab={name: i for i, name in enumerate(names + ["<|startoftext|>",
                                                                  "<|endoftext|>"])}, merges=merges)
    regex = (r"<\|startoftext\|>|<\|endoftext\|>|'s|'t|'re|'ve|'m|'ll|'d|[\p{L}]+|[\p{N}]"
             r"|[^\s\p{L}\p{N}]+")
    return document(model, decoder=byte_level(),
                    normalizer=sequence("normalizers", {"type": "NFC"},
                                        {"type": "Replace", "pattern": {"Regex": r"\s+"},
                                         "content": " "}, {"type": "Lowercase"}),
                    pre_tokenizer=sequence("pretokenizers", split(regex, "Removed", True),
                                           byte_level(use_regex=False)),
                    post_processor={"type": "RobertaProcessing", "trim_offsets": False,
                                    "sep": ["<|endoftext|>", first + 1],
                                    "cls": ["<|startoftext|>", first], "add_prefix_space": False},
                    added_tokens=[added(first, "<|startoftext|>", normalized=True),
                                  added(first + 1, "<|endoftext|>")])


def behaviors(tokens, pairs):
    """No family's: the ways of cutting that none above has."""
    vowel = {"type": "Split", "pattern": {"String": "e"}, "behavior": "MergedWithPrevious",
             "invert": False}
    return document(byte_level_bpe(tokens, pairs), decoder=byte_level(),
                    normalizer=sequence(
                        "normalizers", {"type": "NFD"},
                        {"type": "Replace", "pattern": {"Regex": r"(?i:x|t+$)"},
                         "content": "<>"}),
                    pre_tokenizer=sequence("pretokenizers", vowel,
                                           split(r"\d+|\S(?=\W)", "MergedWithNext"),
                                           split(r"[A-Z]|[^\D1]", "Contiguous", True),
                                           {"type": "CharDelimiterSplit", "delimiter": "#"},
                                           byte_level(True, False)),
                    added_tokens=[added(len(tokens), "a1", single_word=True, special=False,
                                        normalized=True),
                                  added(len(tokens) + 1, "<x>", rstrip=True)])


def prefixed(tokens, pairs):
    """No family's: merges with a prefix, each unknown character for itself."""
    names, merges = readable(tokens, pairs)
    names = [name for name in names if MARK not in name]
    vocab = dict.fromkeys(["<unk>"] + names + ["##" + name for name in names])
    pairs = [[left, "##" + right] for left, right in merges if MARK not in left + right]
    pairs += [["##" + left, right] for left, right in pairs]
    model = byte_level_bpe([], [], unk_token="<unk>", continuing_subword_prefix="##")
    model.update(vocab={name: i for i, name in enumerate(vocab)}, merges=pairs)
    return document(model, pre_tokenizer={"type": "WhitespaceSplit"},
                    decoder={"type": "BPEDecoder", "suffix": "##"},
                    added_tokens=[added(0, "<unk>")])


def bert(vocabulary):
    """BERT's, uncased."""
    model = {"type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##",
             "max_input_chars_per_word": 100,
             "vocab": {name: i for i, name in enumerate(vocabulary)}}
    return document(model, normalizer={"type": "BertNormalizer", "clean_text": True,
                                       "handle_chinese_chars": True, "strip_accents": None,
                                       "lowercase": True},
                    pre_tokenizer={"type": "BertPreTokenizer"},
                    post_processor=template("[CLS] A [SEP]", "[CLS] A [SEP] B1 [SEP]1",
                                            {"[CLS]": 2, "[SEP]": 3}),
                    truncation={"direction": "Left", "max_length": 40, "strategy": "LongestFirst",
                                "stride": 0},
                    decoder={"type": "WordPiece", "prefix": "##", "cleanup": True},
                    added_tokens=[added(i, name) for i, name in enumerate(vocabulary[:5])])


def cased_bert(vocabulary):
    """An older BERT's, which keeps case; its words are those of Whitespace."""
    made = bert(vocabulary)
    made["normalizer"] = sequence(
        "normalizers", {"type": "NFKD"}, {"type": "StripAccents"},
        {"type": "Strip", "strip_left": True, "strip_right": True})
    made["pre_tokenizer"] = sequence("pretokenizers", {"type": "Whitespace"},
                                     {"type": "Digits", "individual_digits": True},
                                     {"type": "Punctuation", "behavior": "MergedWithNext"})
    made["post_processor"] = {"type": "BertProcessing", "sep": ["[SEP]", 3], "cls": ["[CLS]", 2]}
    return made


def word_level(vocabulary):
    """Words between spaces, each a token."""
    model = {"type": "WordLevel", "unk_token": "[UNK]",
             "vocab": {name: i for i, name in enumerate(vocabulary)}}
    return document(model, pre_tokenizer=sequence("pretokenizers", {"type": "WhitespaceSplit"},
                                                  {"type": "Punctuation"}),
                    normalizer=sequence("normalizers", {"type": "Nmt"}, {"type": "NFKC"},
                                        {"type": "Lowercase"}),
                    added_tokens=[added(i, name) for i, name in enumerate(vocabulary[:5])] +
                    [added(len(vocabulary), "vulkan devices", single_word=True, special=False,
                           rstrip=True, normalized=True)])


def characters_map(pairs):
    """sentencepiece's precompiled map: a double array, each node of which has 256 places of its
    own, and the texts."""
    nodes, texts = [{}], b""
    for source, target in pairs.items():
        node = 0
        for byte in source.encode():
            if byte not in nodes[node]:
                nodes[node][byte] = len(nodes)
                nodes.append({})
            node = nodes[node][byte]
        nodes[node][0] = len(texts)
        texts += target.encode() + b"\0"
    units = [0] * (256 * (len(nodes) + 1))

    def base(node):
        return 256 * (node + 1)

    def offset(place, node):
        # A node's places begin at a multiple of 256: exclusive or adds the byte.
        distance = place ^ base(node)
        return distance << 10 if distance < 1 << 21 else (distance >> 8) << 10 | 1 << 9
    units[0] = offset(0, 0)
    for number, node in enumerate(nodes):
        for byte, value in node.items():
            place = base(number) ^ byte
            if byte == 0:
                units[place] = value | 1 << 31
            else:
                leaf = 1 << 8 if 0 in nodes[value] else 0
                units[place] = offset(place, value) | leaf | byte
    table = struct.pack(f"<{len(units)}I", *units)
    return base64.b64encode(struct.pack("<I", len(table)) + table + texts).decode()


def xlm_r(tokens, pairs, fallback=False):
    """XLM-R's and T5's: Unigram."""
    names, _ = readable(tokens, pairs)
    specials = ["<s>", "<pad>", "</s>", "<unk>"]
    vocab = [[name, 0] for name in specials]
    vocab += [[name, -math.log(i + 2) - len(name) * 0.01] for i, name in enumerate(names)]
    if fallback:
        vocab += [[f"<0x{byte:02X}>", -20.0] for byte in range(256)]
    model = {"type": "Unigram", "unk_id": 3, "vocab": vocab, "byte_fallback": fallback}
    charsmap = characters_map({"\uff21": "A", "\ufb01": "fi", "\u00bd": "1/2", "\u3000": " ",
                               "\t": " ", "\n": " ", "\u0130": "I", "e\u0301": "\u00e9"})
    mark = {"type": "Metaspace", "replacement": MARK, "prepend_scheme": "always", "split": True}
    return document(model, normalizer=sequence(
        "normalizers", {"type": "Precompiled", "precompiled_charsmap": charsmap},
        {"type": "Replace", "pattern": {"Regex": " {2,}"}, "content": " "}),
        pre_tokenizer=sequence("pretokenizers", {"type": "WhitespaceSplit"}, mark),
        decoder=sequence("decoders", {"type": "ByteFallback"}, mark) if fallback else mark,
        post_processor=template("<s> A </s>", "<s> A </s> </s> B </s>", {"<s>": 0, "</s>": 2}),
        added_tokens=[added(i, name) for i, name in enumerate(specials)] +
        [added(len(vocab), "<mask>", lstrip=True)])


def families(tokenize, folder, texts, most=6000):
    """All families' files, by name."""
    tokens, pairs = byte_pairs(learned(tokenize, folder, 3, most, texts)["merges"])
    vocabulary = learned(tokenize, folder, 2, most, texts)["tokens"]
    made = {function.__name__: function(tokens, pairs)
            for function in (gpt2, roberta, llama3, qwen2, falcon, llama2, mistral, gemma, clip,
                             xlm_r, behaviors, prefixed)}
    made["t5"] = xlm_r(tokens, pairs, True)
    for function in (bert, cased_bert, word_level):
        made[function.__name__] = function(vocabulary)
    return made


def small_ones():
    """Files with a vocabulary of a few words, for a fuzzer to begin with."""
    words = [b"Th", b"the", b" the", b"ing", b" a", b"\xc3\xa9", b"12", b"\n\n", b"type"]
    tokens, pairs = [bytes([byte]) for byte in range(256)], []
    for word in words:
        for end in range(2, len(word) + 1):
            if word[:end] not in tokens:
                pairs.append((word[:end - 1], word[end - 1:end]))
                tokens.append(word[:end])
    pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "type", "##s", "the", "a", "\u4e2d"]
    made = {function.__name__: function(tokens, pairs)
            for function in (roberta, llama3, qwen2, falcon, llama2, mistral, gemma, clip)}
    made.update({function.__name__: function(pieces)
                 for function in (bert, cased_bert, word_level)})
    made["unigram"] = xlm_r(tokens[:128], [], True)
    # The map of characters is large where it is simple.
    made["unigram"]["normalizer"]["normalizers"][0]["precompiled_charsmap"] = base64.b64encode(
        struct.pack("<I2I", 8, 1 << 10, 0) + b"a\0").decode()
    return made
