# SPDX-License-Identifier: Apache-2.0
"""Texts that a language model goes on with: Model.generate()."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Callable, Dict, List, Optional, Sequence

import numpy as np

from .._arrays import array_in, array_out, dtype as element_type
from .._lib import callback, check, ffi, lib

if TYPE_CHECKING:
    from ..text import Tokenizer

_int32 = element_type("int32")


class _Listener:
    """Hears each token, for the streams of texts and a function of the program."""

    def __init__(self, streams: List[Any], on_token: Optional[Callable[..., Any]]) -> None:
        self.streams = streams
        self.texts = [""] * len(streams)
        self.on_token = on_token
        self.failure: Optional[BaseException] = None  # which ends its text, not the call

    def hear(self, prompt: int, token: int) -> bool:
        piece: Any = token
        if self.streams:
            piece = self.streams[prompt].add(token)
            self.texts[prompt] += piece
        more = self.on_token is None or self.on_token(prompt, piece) is not False
        return more and not (self.streams and self.streams[prompt].ended)


def _hear(prompt: int, token: int, user: Any) -> bool:
    listener: _Listener = ffi.from_handle(user)
    try:
        return listener.hear(prompt, token)
    except BaseException as raised:
        listener.failure = raised
        return False


_on_token = callback("rf_token_fn", _hear)


def _generate(model: Any, params: Any, prompts: Sequence[Any], tokenizer: Optional[Tokenizer],
              stop_strings: Sequence[str], stop_tokens: Optional[Sequence[int]],
              on_token: Optional[Callable[..., Any]], settings: Dict[str, Any]) -> List[Any]:
    """``params`` is an ``rf_generate_params *`` with defaults, which ``settings`` replace."""
    from ..text import TextStream
    streams = [TextStream(tokenizer, stop_strings) for _ in prompts] if tokenizer else []
    tokens = [tokenizer.encode(p) if tokenizer and isinstance(p, (str, bytes)) else p
              for p in prompts]
    given = [array_in(np.asarray(one, np.int32), _int32) for one in tokens]
    arrays = ffi.new("rf_array[]", [array[0] for array, _ in given])
    listener = _Listener(streams, on_token)
    user = ffi.new_handle(listener)
    stops = None if stop_tokens is None else ffi.new("int32_t[]", [int(t) for t in stop_tokens])
    params.prompts, params.num_prompts = arrays, len(given)
    if stops is not None:
        params.stop_tokens, params.num_stop_tokens = stops, len(stops)
    for name, value in settings.items():
        if value is not None:
            setattr(params if hasattr(params, name) else params.sampling, name, value)
    if streams or on_token:
        params.on_token, params.user = _on_token, user
    out = ffi.new("rf_array[]", max(len(given), 1))
    check(lib.rf_model_generate(model, params, out))
    made = [array_out(out[i]) for i in range(len(given))]
    if listener.failure:
        raise listener.failure
    if not streams:
        return made
    return [text + stream.finish() for text, stream in zip(listener.texts, streams)]


class Writer:
    """The part of a model that goes on with texts."""

    pointer: Any

    def _generation_defaults(self) -> Any:
        return ffi.new("rf_generate_params *")

    def generate(self, prompts: Sequence[Any], max_new_tokens: Optional[int] = None,
                 tokenizer: Any = None, temperature: Optional[float] = None,
                 top_k: Optional[int] = None, top_p: Optional[float] = None,
                 min_p: Optional[float] = None, repetition_penalty: Optional[float] = None,
                 stop_tokens: Optional[Sequence[int]] = None, stop_strings: Sequence[str] = (),
                 seed: int = 0, on_token: Optional[Callable[[int, Any], Any]] = None,
                 use_cache: bool = True) -> List[Any]:
        """What a causal language model goes on with: the new tokens of each prompt, i32 [k].

        Prompts are sequences of tokens; with a ``tokenizer`` also texts, and texts come back, up to
        the first of ``stop_strings``. Without a ``temperature`` the likeliest token is taken.
        ``on_token(prompt, piece)`` hears each token, or the text that is certain, and ends the text
        by returning False. Collective.
        """
        if stop_strings and tokenizer is None:
            raise ValueError("generate: stop_strings need a tokenizer")
        return _generate(self.pointer, self._generation_defaults(), prompts, tokenizer,
                         stop_strings, stop_tokens, on_token, {
                             "max_new_tokens": max_new_tokens, "temperature": temperature,
                             "top_k": top_k, "top_p": top_p, "min_p": min_p,
                             "repetition_penalty": repetition_penalty, "seed": seed,
                             "no_cache": not use_cache})
