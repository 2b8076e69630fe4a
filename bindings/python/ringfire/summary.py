# SPDX-License-Identifier: Apache-2.0
"""Event files, which TensorBoard displays; after tf.summary.

A run is a directory: ``create_file_writer(directory)`` writes there, and :func:`read` gives back
what any program wrote.
"""

from __future__ import annotations

import contextlib
import threading
from typing import Any, Iterator, List, Mapping, NamedTuple, Optional, Union

import numpy as np

from ._arrays import array_in
from ._lib import Handle, InvalidArgumentError, check, create, ffi, lib, params, path_bytes
from ._lib import text as _text
from .data import Path

_local = threading.local()


class FileWriter(Handle):
    """Writes one event file. Any thread may use it."""

    def __init__(self, logdir: Path, flush_seconds: float = 10.0) -> None:
        kept: List[Any] = []
        settings = params("rf_event_writer_params", kept, directory=logdir,
                          flush_seconds=flush_seconds)
        self.adopt(create(lib.rf_event_writer_create, "rf_event_writer", settings),
                   lib.rf_event_writer_destroy)

    @property
    def path(self) -> str:
        """The file."""
        return _text(lib.rf_event_writer_path(self.pointer))

    @contextlib.contextmanager
    def as_default(self) -> Iterator[FileWriter]:
        """Makes it the writer of this module's functions inside a ``with`` statement."""
        outer = getattr(_local, "writer", None)
        _local.writer = self
        try:
            yield self
        finally:
            _local.writer = outer

    def flush(self) -> None:
        """Hands all events to the operating system."""
        check(lib.rf_event_writer_flush(self.pointer))

    def scalar(self, name: str, data: Any, step: int) -> None:
        """Adds a number."""
        check(lib.rf_event_writer_scalar(self.pointer, name.encode(), step, float(data)))

    def histogram(self, name: str, data: Any, step: int) -> None:
        """Adds the distribution of numbers."""
        values = np.ascontiguousarray(data, np.float32)
        check(lib.rf_event_writer_histogram(self.pointer, name.encode(), step,
                                            ffi.from_buffer("float[]", values), values.size))

    def image(self, name: str, data: Any, step: int) -> None:
        """Adds images [h, w, c] or [n, h, w, c]: u8, or f32 from 0 to 1."""
        array, _memory = array_in(data)
        check(lib.rf_event_writer_image(self.pointer, name.encode(), step, array))

    def text(self, name: str, data: str, step: int) -> None:
        """Adds a text, which is displayed as Markdown."""
        check(lib.rf_event_writer_text(self.pointer, name.encode(), step, data.encode()))

    def hparams(self, values: Mapping[str, Union[str, float]]) -> None:
        """Adds the hyperparameters of the run, at most once."""
        items = ffi.new("rf_hparam[]", len(values) or 1)
        kept = []
        for item, (name, value) in zip(items, values.items()):
            kept.append(ffi.new("char[]", name.encode()))
            item.name = kept[-1]
            if isinstance(value, str):
                kept.append(ffi.new("char[]", value.encode()))
                item.text = kept[-1]
            else:
                item.number = value
        check(lib.rf_event_writer_hparams(self.pointer, items, len(values)))


def create_file_writer(logdir: Path, flush_seconds: float = 10.0) -> FileWriter:
    """A new event file in a directory."""
    return FileWriter(logdir, flush_seconds)


def _writer(what: str) -> FileWriter:
    writer: Optional[FileWriter] = getattr(_local, "writer", None)
    if writer is None:
        raise InvalidArgumentError(f"summary.{what}(): no writer is the default; call it inside of "
                                   "`with create_file_writer(directory).as_default():`")
    return writer


def scalar(name: str, data: Any, step: int) -> None:
    """Adds a number to the default writer."""
    _writer("scalar").scalar(name, data, step)


def histogram(name: str, data: Any, step: int) -> None:
    """Adds the distribution of numbers to the default writer."""
    _writer("histogram").histogram(name, data, step)


def image(name: str, data: Any, step: int) -> None:
    """Adds images to the default writer."""
    _writer("image").image(name, data, step)


def text(name: str, data: str, step: int) -> None:
    """Adds a text to the default writer."""
    _writer("text").text(name, data, step)


class Event(NamedTuple):
    """An event of a file. ``value`` is a float, a text, bytes, or [left, right, count] of buckets;
    None for what this reader does not interpret."""

    kind: str
    tag: str
    step: int
    wall_time: float
    value: Any


def _value(kind: str, event: Any) -> Any:
    if kind == "scalar":
        return event.scalar
    if kind in ("text", "version"):
        return _text(event.text)
    if kind == "histogram":
        return np.array(list(event.buckets[0:3 * event.num_buckets])).reshape(-1, 3)
    return bytes(ffi.buffer(event.bytes, event.size)) if kind in ("image", "graph") else None


def read(path: Path) -> Iterator[Event]:
    """The events of a file, whichever program wrote it, as far as it is complete."""
    kinds = {value: name.replace("RF_EVENT_", "").lower()
             for name, value in ffi.typeof("rf_event_kind").relements.items()}
    reader = ffi.new("rf_event_reader **")
    check(lib.rf_event_reader_open(path_bytes(path), reader))
    event = ffi.new("rf_event *")
    try:
        while check(lib.rf_event_reader_next(reader[0], event)) != lib.RF_END:
            kind = kinds[event.kind]
            yield Event(kind, _text(event.tag), event.step, event.wall_time, _value(kind, event))
    finally:
        lib.rf_event_reader_close(reader)
