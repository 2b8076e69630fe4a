# SPDX-License-Identifier: Apache-2.0
"""Text for models: tokenizers, chats, and arrays of sequences."""

from __future__ import annotations

import json
from typing import Any, Callable, Dict, Iterable, List, Optional, Sequence, Tuple, Union

import numpy as np

from ._arrays import array_in, array_out, dtype as element_type, shape_in
from ._elements import ARRAY, PAIR, Caller, calling
from ._lib import Handle, check, create, enum, ffi, lib, path_bytes
from .data import Dataset, Path, Paths, Strings, paths_of

Text = Union[str, bytes]

_int32 = element_type("int32")


class Tokenizer(Handle):
    """Turns text into token numbers, and numbers into text.

    ``kind`` is "words" (as Keras' TextVectorization), "characters", "word_piece" (as BERT's) or
    "byte_pair" (as GPT-2's). ``Tokenizer(vocabulary, kind)`` has the tokens in this order;
    :meth:`train` learns them from texts, :meth:`load` reads a file that :meth:`save` wrote, or a
    ``tokenizer.json`` of Hugging Face's library.
    """

    def __init__(self, vocabulary: Sequence[Text], kind: str = "words",
                 special_tokens: Sequence[Text] = (), keep_case: bool = False,
                 keep_punctuation: bool = False) -> None:
        params, keep = _params(kind, special_tokens, keep_case=keep_case,
                               keep_punctuation=keep_punctuation)
        tokens = Strings(vocabulary)
        self._begin(create(lib.rf_tokenizer_create, "rf_tokenizer", params, tokens.pointer,
                           tokens.sizes, tokens.count))
        del keep

    def _begin(self, pointer: Any) -> None:
        self.adopt(pointer, lib.rf_tokenizer_destroy)

    @classmethod
    def _of(cls, pointer: Any) -> Tokenizer:
        made = cls.__new__(cls)
        made._begin(pointer)
        return made

    @classmethod
    def train(cls, texts: Sequence[Text], kind: str = "words", max_tokens: int = 0,
              min_count: int = 0, special_tokens: Sequence[Text] = (), keep_case: bool = False,
              keep_punctuation: bool = False) -> Tokenizer:
        """A tokenizer whose vocabulary is learned; 0: the defaults of its kind."""
        params, keep = _params(kind, special_tokens, max_tokens=max_tokens, min_count=min_count,
                               keep_case=keep_case, keep_punctuation=keep_punctuation)
        given = Strings(texts)
        made = cls._of(create(lib.rf_tokenizer_train, "rf_tokenizer", params, given.pointer,
                              given.sizes, given.count))
        del keep
        return made

    @classmethod
    def load(cls, path: Path) -> Tokenizer:
        """A tokenizer from a file: its own, a tokenizer.json, or a GGUF file."""
        return cls._of(create(lib.rf_tokenizer_load, "rf_tokenizer", path_bytes(path)))

    #: As Hugging Face's library calls it.
    from_file = load

    def save(self, path: Path) -> None:
        """Writes the tokenizer to a file, JSON."""
        check(lib.rf_tokenizer_save(self.pointer, path_bytes(path)))

    def __len__(self) -> int:
        return int(lib.rf_tokenizer_vocabulary_size(self.pointer))

    def token(self, number: int) -> bytes:
        """The bytes of a token."""
        size = ffi.new("size_t *")
        found = lib.rf_tokenizer_token(self.pointer, number, size)
        if found == ffi.NULL:
            raise IndexError(f"there is no token {number}; there are {len(self)}")
        return bytes(ffi.buffer(found, size[0]))

    @property
    def vocabulary(self) -> List[bytes]:
        """All tokens."""
        return [self.token(i) for i in range(len(self))]

    def id(self, token: Text) -> int:
        """The number of a token; -1 where there is no such."""
        return int(lib.rf_tokenizer_id(self.pointer, _bytes(token)))

    def is_special(self, number: int) -> bool:
        """Whether a token is one that text never becomes, except for "[UNK]"."""
        return bool(lib.rf_tokenizer_is_special(self.pointer, number))

    def encode(self, text: Text, pair: Optional[Text] = None, add_special_tokens: bool = True,
               split_special_tokens: bool = False) -> np.ndarray:
        """The tokens of a text, i32 [n]. The other arguments are for a ``tokenizer.json``."""
        if pair is not None or not add_special_tokens or split_special_tokens:
            return self.encode_with_types(text, pair, add_special_tokens, split_special_tokens)[0]
        given = _bytes(text)
        out = ffi.new("rf_array *")
        check(lib.rf_tokenizer_encode(self.pointer, given, len(given), out))
        return array_out(out[0])

    def encode_with_types(self, text: Text, pair: Optional[Text] = None,
                          add_special_tokens: bool = True,
                          split_special_tokens: bool = False) -> Tuple[np.ndarray, np.ndarray]:
        """The tokens of a text, or of a pair, and the type of each, as a ``tokenizer.json`` says.

        With ``split_special_tokens``, special tokens in the texts are text like any other.
        """
        given, second = _bytes(text), None if pair is None else _bytes(pair)
        held = ffi.NULL if second is None else ffi.from_buffer(second)
        params = ffi.new("rf_tokenizer_encode_params *", {
            "pair": ffi.cast("char *", held), "pair_size": len(second or b""),
            "no_special_tokens": not add_special_tokens,
            "split_special_tokens": split_special_tokens})
        out, types = ffi.new("rf_array *"), ffi.new("rf_array *")
        check(lib.rf_tokenizer_encode_with(self.pointer, given, len(given), params, out, types))
        return array_out(out[0]), array_out(types[0])

    def encode_padded(self, texts: Sequence[Text], length: int = 0, value: int = 0,
                      padding: str = "pre", truncating: str = "pre") -> np.ndarray:
        """The tokens of texts as one array i32 [n, length]; 0: the length of the longest one."""
        given = Strings(texts)
        out = ffi.new("rf_array *")
        check(lib.rf_tokenizer_encode_padded(self.pointer, given.pointer, given.sizes, given.count,
                                             _padding(length, value, padding, truncating), out))
        return array_out(out[0])

    __call__ = encode_padded

    def decode(self, tokens: Any) -> str:
        """The text of tokens; special ones are left out. Bytes that are no UTF-8 are replaced."""
        numbers = np.ascontiguousarray(tokens, np.int32)
        out, size = ffi.new("char **"), ffi.new("size_t *")
        check(lib.rf_tokenizer_decode(self.pointer, ffi.from_buffer("int32_t[]", numbers),
                                      numbers.size, out, size))
        try:
            return bytes(ffi.buffer(out[0], size[0])).decode("utf-8", "replace")
        finally:
            lib.rf_string_free(out[0])


class TextStream(Handle):
    """The text of tokens that come one by one, up to the first of ``stop_strings``."""

    def __init__(self, tokenizer: Tokenizer, stop_strings: Sequence[str] = ()) -> None:
        stops = Strings(stop_strings)
        params = ffi.new("rf_text_stream_params *", {
            "tokenizer": tokenizer.pointer, "stop_strings": stops.pointer,
            "num_stop_strings": stops.count})
        self.adopt(create(lib.rf_text_stream_create, "rf_text_stream", params),
                   lib.rf_text_stream_destroy, tokenizer)
        #: whether a stop string has appeared, or :meth:`finish` was called
        self.ended = False

    def _text(self, call: Any, *arguments: Any) -> str:
        out, size = ffi.new("char **"), ffi.new("size_t *")
        self.ended = check(call(self.pointer, *arguments, out, size)) == lib.RF_END
        return bytes(ffi.buffer(out[0], size[0])).decode("utf-8", "replace")

    def add(self, token: int) -> str:
        """The text that is certain once this token has come; often "". """
        return self._text(lib.rf_text_stream_add, int(token))

    def finish(self) -> str:
        """What was held back."""
        return self._text(lib.rf_text_stream_finish)


class ChatTemplate(Handle):
    """How a model writes chats as text: Jinja, as in the directories of the Hugging Face hub."""

    def __init__(self, template: str, tokenizer: Optional[Tokenizer] = None,
                 **variables: Any) -> None:
        given, more = template.encode(), ffi.new("char[]", json.dumps(variables).encode())
        held = ffi.from_buffer(given)
        params = ffi.new("rf_chat_template_params *", {
            "text": ffi.cast("char *", held), "size": len(given), "variables": more,
            "tokenizer": tokenizer.pointer if tokenizer else ffi.NULL})
        self._begin(create(lib.rf_chat_template_create, "rf_chat_template", params), tokenizer)

    def _begin(self, pointer: Any, tokenizer: Optional[Tokenizer]) -> None:
        self.adopt(pointer, lib.rf_chat_template_destroy, *([tokenizer] if tokenizer else []))

    @classmethod
    def load(cls, directory: Path, tokenizer: Optional[Tokenizer] = None) -> ChatTemplate:
        """That of a directory, ``chat_template.jinja`` or ``tokenizer_config.json``; or of a GGUF
        file."""
        made = cls.__new__(cls)
        made._begin(create(lib.rf_chat_template_load, "rf_chat_template", path_bytes(directory),
                           tokenizer.pointer if tokenizer else ffi.NULL), tokenizer)
        return made

    def _call(self, function: Any, messages: Sequence[Dict[str, Any]], tools: Any,
              add_generation_prompt: bool, variables: Dict[str, Any], *out: Any) -> None:
        line = json.dumps({"messages": list(messages), "tools": tools}).encode()
        kept = [(ffi.new("char[]", str(m["role"]).encode()), _content(m)) for m in messages]
        listed = ffi.new("rf_chat_message[]", [
            {"role": role, "content": content, "content_size": len(content) - 1}
            for role, content in kept])
        held, more = ffi.from_buffer(line), ffi.new("char[]", json.dumps(variables).encode())
        chat = ffi.new("rf_chat *", {"messages": listed, "num_messages": len(listed),
                                     "json": ffi.cast("char *", held), "json_size": len(line)})
        params = ffi.new("rf_chat_apply_params *", {"variables": more,
                                                    "add_generation_prompt": add_generation_prompt})
        check(function(self.pointer, chat, params, *out))

    def apply(self, messages: Sequence[Dict[str, Any]], tools: Any = None,
              add_generation_prompt: bool = False, **variables: Any) -> str:
        """A chat as text; messages are dicts with "role" and "content"."""
        out, size = ffi.new("char **"), ffi.new("size_t *")
        self._call(lib.rf_chat_template_apply, messages, tools, add_generation_prompt, variables,
                   out, size)
        try:
            return bytes(ffi.buffer(out[0], size[0])).decode("utf-8")
        finally:
            lib.rf_string_free(out[0])

    def encode(self, messages: Sequence[Dict[str, Any]], tools: Any = None,
               add_generation_prompt: bool = False, **variables: Any) -> np.ndarray:
        """A chat as tokens, i32 [n]."""
        out = ffi.new("rf_array *")
        self._call(lib.rf_chat_template_encode, messages, tools, add_generation_prompt, variables,
                   out)
        return array_out(out[0])


def _content(message: Dict[str, Any]) -> Any:
    content = message.get("content") or ""
    if isinstance(content, list):
        content = "".join(part["text"] for part in content)
    return ffi.new("char[]", content.encode())


def _bytes(text: Text) -> bytes:
    return text if isinstance(text, bytes) else text.encode()


def _params(kind: str, special_tokens: Sequence[Text], **fields: Any) -> Any:
    special = Strings(special_tokens)
    return ffi.new("rf_tokenizer_params *", {
        "kind": enum("rf_tokenizer_kind", kind), "special_tokens": special.pointer,
        "num_special_tokens": special.count, **fields}), special


def _padding(length: int, value: int, padding: str, truncating: str) -> Any:
    return ffi.new("rf_sequence_pad_params *", {
        "length": length, "value": value, "padding": enum("rf_sequence_end", padding),
        "truncating": enum("rf_sequence_end", truncating)})


def pad_sequences(sequences: Sequence[Any], maxlen: Optional[int] = None, padding: str = "pre",
                  truncating: str = "pre", value: int = 0) -> np.ndarray:
    """Sequences of different lengths as one array i32 [n, maxlen]."""
    given = [array_in(sequence, _int32) for sequence in sequences]
    arrays = ffi.new("rf_array[]", [array[0] for array, _ in given])
    out = ffi.new("rf_array *")
    check(lib.rf_sequences_pad(arrays, len(given), _padding(maxlen or 0, value, padding,
                                                            truncating), out))
    return array_out(out[0])


def read_lines(paths: Paths) -> List[bytes]:
    """The lines of files, plain or gzipped, in memory."""
    files = Strings(paths_of(paths))
    out = ffi.new("rf_text_lines **")
    check(lib.rf_text_lines_read(files.pointer, files.count, out))
    try:
        texts, sizes = lib.rf_text_lines_texts(out[0]), lib.rf_text_lines_sizes(out[0])
        return [bytes(ffi.buffer(texts[i], sizes[i]))
                for i in range(lib.rf_text_lines_count(out[0]))]
    finally:
        lib.rf_text_lines_destroy(out)


class Field:
    """A member of the objects of JSON Lines: a text, as bytes or tokens, a number, or numbers.

    ``dtype`` "uint8" is the bytes of a text; with a ``tokenizer`` they are its tokens.
    ``variable``: there may be fewer rows than ``shape`` says. ``truncate`` cuts off what is more.
    """

    def __init__(self, dtype: Any = "int32", shape: Sequence[int] = (), variable: bool = False,
                 truncate: bool = False, tokenizer: Optional[Tokenizer] = None) -> None:
        self.dtype = np.dtype(dtype)
        self.shape = tuple(shape)
        self.variable = variable
        self.truncate = truncate
        self.tokenizer = tokenizer


def jsonl(filenames: Paths, fields: Dict[str, Field], max_bytes: int = 0) -> Dataset:
    """The objects of JSON Lines files, plain or gzipped: dicts with the members that are named.

    ``max_bytes`` is the most that a line may have; 0: 1 MiB.
    """
    files, names = Strings(paths_of(filenames)), Strings(list(fields))
    items = ffi.new("rf_jsonl_field[]", [{
        "name": names.pointer[i], "dtype": element_type(field.dtype).code,
        "shape": shape_in(field.shape), "variable": field.variable, "truncate": field.truncate,
        "tokenizer": field.tokenizer.pointer if field.tokenizer else ffi.NULL}
        for i, field in enumerate(fields.values())])
    params = ffi.new("rf_jsonl_params *", {
        "paths": files.pointer, "num_paths": files.count, "fields": items,
        "num_fields": len(items), "max_bytes": max_bytes})
    keep = [field.tokenizer for field in fields.values() if field.tokenizer]
    template = (dict, tuple(fields), (ARRAY, ) * len(fields))
    return Dataset(create(lib.rf_dataset_from_jsonl, "rf_dataset", params), template, keep)


Render = Callable[[List[Dict[str, Any]]], Iterable[Tuple[Any, bool]]]


class _Chats(Caller):
    def __init__(self, render: Render) -> None:
        super().__init__("the function of chats()")
        self.render = render


def _render_one(caller: _Chats, chat: Any, out: Any) -> None:
    line = json.loads(bytes(ffi.buffer(chat.json, chat.json_size)))
    for tokens, trained in caller.render(line["messages"]):
        numbers = np.ascontiguousarray(tokens, np.int32)
        check(lib.rf_chat_tokens_append(out, ffi.from_buffer("int32_t[]", numbers), numbers.size,
                                        trained))


_on_chat = calling("rf_chat_render_fn", _render_one)


def chats(filenames: Paths, render: Union[None, Render, ChatTemplate] = None,
          tokenizer: Optional[Tokenizer] = None, end_token: Optional[str] = None,
          max_tokens: int = 0, max_bytes: int = 0) -> Dataset:
    """Examples for language models, in JSON Lines files: (tokens i32 [n], labels i32 [n]).

    ``render`` gets the list "messages" of a chat, and gives pairs of tokens and of whether they are
    to be learned; or it is the template of a model, of which the answers are learned.
    ``tokenizer`` is for lines with "prompt" and "completion", or with "text". Labels are the tokens
    that follow, and -100 where they are not to be learned.
    """
    files = Strings(paths_of(filenames))
    template = render if isinstance(render, ChatTemplate) else None
    caller = _Chats(render) if render and not isinstance(render, ChatTemplate) else None
    function = _on_chat if caller else ffi.NULL
    if template:
        function = ffi.cast("rf_chat_render_fn", lib.rf_chat_template_render)
    end = ffi.new("char[]", _bytes(end_token)) if end_token else ffi.NULL
    params = ffi.new("rf_chats_params *", {
        "paths": files.pointer, "num_paths": files.count, "max_tokens": max_tokens,
        "max_bytes": max_bytes, "render": function,
        "user": caller.user if caller else template.pointer if template else ffi.NULL,
        "tokenizer": tokenizer.pointer if tokenizer else ffi.NULL, "end_token": end})
    keep = [kept for kept in (caller, template, tokenizer) if kept]
    return Dataset(create(lib.rf_dataset_from_chats, "rf_dataset", params), PAIR, keep)


def bleu(candidates: Sequence[Any], references: Sequence[Any]) -> float:
    """BLEU of a corpus: a candidate and a reference, both token numbers, for each text."""
    if len(candidates) != len(references):
        raise ValueError(f"bleu: {len(candidates)} candidates and {len(references)} references")
    sides = [[np.ascontiguousarray(one, np.int32) for one in side]
             for side in (candidates, references)]
    pointers = [ffi.new("int32_t *[]", [ffi.from_buffer("int32_t[]", one) for one in side])
                for side in sides]
    lengths = [ffi.new("uint32_t[]", [one.size for one in side]) for side in sides]
    out = ffi.new("double *")
    check(lib.rf_bleu(pointers[0], lengths[0], pointers[1], lengths[1], len(candidates), out))
    return float(out[0])
