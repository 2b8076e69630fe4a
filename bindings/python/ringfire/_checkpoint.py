# SPDX-License-Identifier: Apache-2.0
"""Checkpoints; after tf.train.Checkpoint and CheckpointManager."""
from __future__ import annotations

import os
import pathlib
import re
from typing import Any, Dict, List, Optional

from ._lib import (Handle, InvalidArgumentError, NotFoundError, check, create, ffi, lib, params,
                   path_bytes, text)

SUFFIX = ".rfck"


class CheckpointOptions:
    """How files are saved."""

    def __init__(self, asynchronous: bool = False, sharded: bool = False, level: int = 0,
                 compression: bool = True) -> None:
        """`asynchronous` returns at once and writes beside the training; `sharded` has each worker
        write what it owns; `level` is zstd's."""
        self.fields = {
            "async": asynchronous,
            "sharded": sharded,
            "level": level,
            "no_compression": not compression
        }

    def params(self, kept: List[Any]) -> Any:
        return params("rf_save_params", kept, **self.fields)


class RestoreStatus:
    """How a restored file and the objects of a checkpoint fit. Where a model has not been built
    yet, all is restored when a step first calls it."""

    def __init__(self) -> None:
        self.report: Optional[str] = None  # None: not restored yet

    def assert_consumed(self) -> "RestoreStatus":
        """Raises an error that lists what did not fit, if there is any."""
        if self.report is None:
            raise InvalidArgumentError("nothing was restored yet: a model of the checkpoint has "
                                       "not been built; call it, or give it an input_shape")
        if self.report:
            raise InvalidArgumentError("not all was restored:\n" + self.report)
        return self

    def expect_partial(self) -> "RestoreStatus":
        """Says that it does not matter."""
        return self

    assert_existing_objects_matched = assert_consumed


class Checkpoint(Handle):
    """The objects that a file holds, by name: models, optimizers, metrics, variables, whole numbers
    that rf.Variable() made."""

    def __init__(self, **objects: Any) -> None:
        from ._strategy import get_strategy
        if not objects:
            raise InvalidArgumentError("Checkpoint() of no objects; give them by name, as in "
                                       "Checkpoint(model=model, optimizer=optimizer)")
        for name, thing in objects.items():
            if not hasattr(thing, "_add_to"):
                raise InvalidArgumentError("a checkpoint cannot hold %s=%r; it holds models, "
                                           "optimizers, metrics and variables" % (name, thing))
        self._objects: Dict[str, Any] = objects
        self.strategy = next((o.strategy for o in objects.values() if hasattr(o, "strategy")),
                             None) or get_strategy()
        self.save_counter = 0
        self.adopt(create(lib.rf_checkpoint_create, "rf_checkpoint", self.strategy.pointer),
                   lib.rf_checkpoint_destroy, self.strategy,
                   *(o for o in objects.values() if isinstance(o, Handle)))
        for name, thing in objects.items():
            thing._add_to(self.pointer, name.encode())
            self.keep(thing)

    def __getattr__(self, name: str) -> Any:
        try:
            return self.__dict__["_objects"][name]
        except KeyError:
            raise AttributeError(name) from None

    def write(self, path: Any, options: Optional[CheckpointOptions] = None) -> str:
        """Writes a file of this name. Collective."""
        named = _with_suffix(path)
        kept: List[Any] = []
        pathlib.Path(named).parent.mkdir(parents=True, exist_ok=True)
        check(
            lib.rf_checkpoint_save(self.pointer, path_bytes(named),
                                   (options or CheckpointOptions()).params(kept)))
        return named

    def save(self, file_prefix: Any, options: Optional[CheckpointOptions] = None) -> str:
        """Writes PREFIX-1, PREFIX-2, and so on; the name of the file. Collective."""
        self.save_counter += 1
        return self.write("%s-%d" % (os.fspath(file_prefix), self.save_counter), options)

    def wait(self) -> None:
        """Waits for an asynchronous save."""
        check(lib.rf_checkpoint_wait(self.pointer))

    def read(self, path: Any) -> RestoreStatus:
        """Sets the objects from a file. Collective."""
        status = RestoreStatus()
        named = os.fspath(path)
        if not os.path.exists(named):
            named = _with_suffix(named)

        def restore() -> None:
            if not self._ready():
                self.strategy.restores.append(restore)
                return
            report = ffi.new("char **")
            settings = params("rf_restore_params", [], partial=True, report=report)
            try:
                check(lib.rf_checkpoint_restore(self.pointer, path_bytes(named), settings))
                status.report = text(report[0]).strip()
            finally:
                lib.rf_string_free(report[0])

        if not os.path.exists(named):
            raise NotFoundError("there is no checkpoint '%s'" % named)
        restore()
        return status

    def restore(self, path: Any) -> RestoreStatus:
        """Sets the objects from a file that save() wrote, and goes on counting behind it. Without a
        file (None, which latest_checkpoint() gives where there is none) nothing happens."""
        if path is None:
            status = RestoreStatus()
            status.report = ""
            return status
        status = self.read(path)
        self.save_counter = max(self.save_counter, _number(os.fspath(path)))
        return status

    def _ready(self) -> bool:
        """Whether all models are built."""
        return all(getattr(o, "built", True) for o in self._objects.values())


class CheckpointManager(Handle):
    """A directory of numbered checkpoints, of which the newest are kept."""

    def __init__(self, checkpoint: Checkpoint, directory: Any, max_to_keep: Optional[int] = 5,
                 keep_checkpoint_every_n_hours: Optional[float] = None,
                 checkpoint_name: str = "ckpt",
                 options: Optional[CheckpointOptions] = None) -> None:
        kept: List[Any] = []
        self.checkpoint, self.directory = checkpoint, os.fspath(directory)
        self._prefix = checkpoint_name
        settings = params("rf_checkpoint_manager_params", kept, directory=self.directory,
                          prefix=checkpoint_name, max_to_keep=max_to_keep or 2**31,
                          keep_every_hours=keep_checkpoint_every_n_hours or 0.0)
        settings.save = (options or CheckpointOptions()).params(kept)[0]
        self.adopt(
            create(lib.rf_checkpoint_manager_create, "rf_checkpoint_manager", checkpoint.pointer,
                   settings), lib.rf_checkpoint_manager_destroy, checkpoint)
        latest = self.latest_checkpoint
        if latest is not None:
            checkpoint.save_counter = max(checkpoint.save_counter, _number(latest))

    def save(self, checkpoint_number: Optional[int] = None) -> str:
        """Saves under a number, by default the next one; the name of the file. Collective."""
        number = self.checkpoint.save_counter + 1 if checkpoint_number is None else int(
            checkpoint_number)
        check(lib.rf_checkpoint_manager_save(self.pointer, number))
        self.checkpoint.save_counter = max(self.checkpoint.save_counter, number)
        return os.path.join(self.directory, "%s-%d%s" % (self._prefix, number, SUFFIX))

    @property
    def latest_checkpoint(self) -> Optional[str]:
        """The newest complete file; None where there is none."""
        return latest_checkpoint(self.directory, self._prefix)

    def restore_or_initialize(self) -> Optional[str]:
        """Restores the newest file, whose name it gives; None where there is none."""
        latest = self.latest_checkpoint
        if latest is not None:
            self.checkpoint.restore(latest)
        return latest


def latest_checkpoint(directory: Any, prefix: Optional[str] = None) -> Optional[str]:
    """The newest complete checkpoint of a directory; None where there is none. Without a prefix it
    is that of files such as ckpt-1.rfck, else of the only other names in the directory, such as
    weights_3.rfck."""
    found = _latest(directory, prefix)
    if found is not None or prefix is not None or not os.path.isdir(directory):
        return found
    numbered = (re.fullmatch(r"(.*?)\d+" + re.escape(SUFFIX), name)
                for name in os.listdir(os.fspath(directory)))
    prefixes = sorted({match[1] + "{epoch}" for match in numbered if match})
    if len(prefixes) > 1:
        raise InvalidArgumentError("%s has checkpoints of several names; prefix= is one of %s" %
                                   (os.fspath(directory), ", ".join(prefixes)))
    return _latest(directory, prefixes[0]) if prefixes else None


def _latest(directory: Any, prefix: Optional[str]) -> Optional[str]:
    out = ffi.new("char **")
    try:
        check(
            lib.rf_checkpoint_latest(path_bytes(directory),
                                     ffi.NULL if prefix is None else prefix.encode(), out))
        return os.fsdecode(ffi.string(out[0]))
    except NotFoundError:
        return None
    finally:
        lib.rf_string_free(out[0])


def _with_suffix(path: Any) -> str:
    name = os.fspath(path)
    return name if name.endswith(SUFFIX) else name + SUFFIX


def _number(path: str) -> int:
    """The number at the end of a file's name; 0 where there is none."""
    digits = path[:-len(SUFFIX)] if path.endswith(SUFFIX) else path
    tail = digits.rpartition("-")[2]
    return int(tail) if tail.isdigit() else 0
