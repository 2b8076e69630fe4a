# SPDX-License-Identifier: Apache-2.0
"""The library itself: where it is, its failures as exceptions, its objects and its callbacks."""
from __future__ import annotations

import atexit
import ctypes.util
import functools
import os
import pathlib
import threading
import traceback
import weakref
from typing import Any, Callable, Dict, Iterable, List, NoReturn, Optional, Tuple, Type

from . import _cdef

ffi: Any = _cdef.ffi

# ---- the library ----


def _candidates() -> Iterable[str]:
    """Where the library may be, the first that is there being taken."""
    named = os.environ.get("RINGFIRE_LIBRARY")
    if named:
        yield named
        return
    # A wheel has brought it along.
    for path in sorted(pathlib.Path(__file__).parent.glob("libringfire.so*")):
        yield str(path)
    yield "libringfire.so.0"
    found = ctypes.util.find_library("ringfire")
    if found:
        yield found


def _load() -> Any:
    reasons = []
    for candidate in _candidates():
        try:
            return ffi.dlopen(candidate)
        except OSError as failure:
            reasons.append(str(failure))
    raise ImportError("ringfire's shared library cannot be loaded (%s); install it, or set "
                      "RINGFIRE_LIBRARY to its path" % "; ".join(reasons))


lib: Any = _load()


def text(pointer: Any) -> str:
    """A string of the library."""
    return "" if pointer == ffi.NULL else ffi.string(pointer).decode("utf-8", "replace")


def path_bytes(path: Any) -> bytes:
    """A path, or anything else that stands for one, as the library wants it."""
    return os.fsencode(path)


# ---- failures ----


class Error(Exception):
    """A call of the library failed. The text is its message; `code` names the kind of failure."""
    code = "RF_ERROR_INTERNAL"
    line: Optional[str] = None  # of the program, where the message begins with it


class InvalidArgumentError(Error, ValueError):
    """The caller broke a contract. The message names the argument."""
    code = "RF_ERROR_INVALID_ARGUMENT"


class UnsupportedError(Error, NotImplementedError):
    """The device, the driver or the build lacks what was asked for."""
    code = "RF_ERROR_UNSUPPORTED"


class OutOfHostMemoryError(Error, MemoryError):
    """There is no host memory left."""
    code = "RF_ERROR_OUT_OF_HOST_MEMORY"


class OutOfDeviceMemoryError(Error, MemoryError):
    """There is no memory left on a device."""
    code = "RF_ERROR_OUT_OF_DEVICE_MEMORY"


class DeviceLostError(Error):
    """A device is gone, for good."""
    code = "RF_ERROR_DEVICE_LOST"


class PeerLostError(Error):
    """Another worker of the job is gone."""
    code = "RF_ERROR_PEER_LOST"


class DeadlineError(Error, TimeoutError):
    """A deadline passed."""
    code = "RF_ERROR_TIMEOUT"


class FileError(Error, OSError):
    """The operating system refused a file or socket operation."""
    code = "RF_ERROR_IO"


class CorruptDataError(Error):
    """A file or message is not what it claims to be."""
    code = "RF_ERROR_CORRUPT_DATA"


class NoGradientError(Error):
    """Differentiation reached an operation that has no gradient."""
    code = "RF_ERROR_NO_GRADIENT"


class CancelledError(Error):
    """A callback asked to stop."""
    code = "RF_ERROR_CANCELLED"


class NotFoundError(Error, LookupError):
    """A named thing (device, file, layer) does not exist."""
    code = "RF_ERROR_NOT_FOUND"


class InternalError(Error):
    """A defect of the library. Please report the message."""
    code = "RF_ERROR_INTERNAL"


class NotFiniteError(Error, ArithmeticError):
    """A loss is infinite or NaN: the training diverged."""
    code = "RF_ERROR_NOT_FINITE"


class TraceError(Error, TypeError):
    """A step does what cannot be traced. The message names its line."""
    code = "RF_ERROR_INVALID_ARGUMENT"


_by_result: Dict[int, Type[Error]] = {
    getattr(lib, kind.code): kind
    for kind in Error.__subclasses__() if kind is not TraceError
}

# What a callback raised, by the thread that it ran in.
raised: Dict[int, BaseException] = {}


def fail(result: int) -> NoReturn:
    """Raises what a result that is negative stands for: what a callback raised comes as it is."""
    found = take_raised()
    if found is None and result == lib.RF_ERROR_CANCELLED and raised:
        found = raised.pop(next(iter(raised)))  # in a thread that prepares batches
    if found is not None:
        raise found
    raise _by_result.get(result, Error)(text(lib.rf_error_message()))


def check(result: int) -> int:
    """The result of a call; raises an exception for a failure."""
    if result < 0:
        fail(result)
    return result


def take_raised() -> Optional[BaseException]:
    """What a callback of this thread raised and no check() has seen, as where the library tried in
    another way: a call with callbacks begins without it."""
    return raised.pop(threading.get_ident(), None) if raised else None


def forget_raised() -> None:
    """Begins a call with callbacks."""
    take_raised()


def callback(signature: str, function: Callable[..., Any], failed: Any = None) -> Any:
    """A C function that calls a Python function. What that raises comes out of the check() of the
    call that led here; C sees `failed`, by default RF_ERROR_CANCELLED, or a zero where the function
    returns no rf_result. A function that returns None returns RF_OK, or a zero. The caller keeps
    what this returns as long as C may call it."""
    result = ffi.typeof(signature).result
    if result is ffi.typeof("rf_result"):
        nothing, failed = lib.RF_OK, lib.RF_ERROR_CANCELLED if failed is None else failed
    else:
        nothing = None if result.kind == "void" else ffi.new(ffi.getctype(result, "*"))[0]
        failed = nothing if failed is None else failed

    def call(*arguments: Any) -> Any:
        made = function(*arguments)
        return nothing if made is None else made

    # Ctrl-C while C computes is raised when call() begins, where no try statement would see it.
    def note(kind: Any, failure: BaseException, trace: Any) -> Any:
        raised[threading.get_ident()] = failure.with_traceback(trace)  # goes on in check()
        return failed

    return ffi.callback(signature, call, onerror=note)


# ---- objects ----

_serial = 0
_live: "weakref.WeakSet[Handle]" = weakref.WeakSet()


class _Core:
    """An object of the library, until neither its handle nor any other object needs it."""
    __slots__ = ("pointer", "destroy", "parents", "kept", "users")

    def __init__(self, pointer: Any, destroy: Any, parents: Tuple["_Core", ...]) -> None:
        self.pointer, self.destroy, self.parents = pointer, destroy, parents
        self.kept: List[Any] = []
        self.users = 1
        for parent in parents:
            parent.users += 1

    def release(self) -> None:
        self.users -= 1
        if self.users > 0:
            return
        if self.destroy is not None:
            self.destroy(self.pointer)
        self.kept.clear()
        for parent in self.parents:
            parent.release()


class Handle:
    """Owns an object of the library. The object is destroyed when the handle is collected, but not
    before the objects that were made from it: they hold on to it as one of their `parents`.
    Whatever order Python collects handles in, the library sees children go before their parents.

    Subclasses call adopt() once, with what a create function of the library gave."""
    _core: Optional[_Core] = None

    def adopt(self, pointer: Any, destroy: Any, *parents: "Handle") -> None:
        """`pointer` is the object (no pointer to it); `destroy` the library's rf_x_destroy, which
        is called with a pointer to it; None where something else owns it."""
        global _serial
        _serial += 1
        self._serial = _serial
        kind = ffi.typeof(pointer)

        def end(p: Any) -> None:
            destroy(ffi.new(ffi.getctype(kind, "*"), p))

        self._core = _Core(pointer, None if destroy is None else end,
                           tuple(p.core for p in parents))
        _live.add(self)

    @property
    def core(self) -> _Core:
        if self._core is None:
            raise InvalidArgumentError("%s was closed, or never created" % type(self).__name__)
        return self._core

    @functools.cached_property
    def pointer(self) -> Any:
        """What functions of the library take."""
        return self.core.pointer

    def keep(self, *things: Any) -> None:
        """Keeps Python objects (callbacks, memory that C borrows) until the object is destroyed."""
        self.core.kept.extend(things)

    def close(self) -> None:
        """Gives the object up now; it is destroyed once nothing that was made from it is left."""
        core, self._core = self._core, None
        if core is not None:
            self.__dict__.pop("pointer", None)
            core.release()

    def __del__(self) -> None:
        self.close()


@atexit.register
def _close_all() -> None:
    """Before the interpreter ends, while destructors still find their modules."""
    for handle in sorted(_live, key=lambda h: h._serial, reverse=True):
        handle.close()


def create(function: Any, kind: str, *arguments: Any) -> Any:
    """The object that a create function of the library makes, its `out` being the last argument:
    create(lib.rf_metric_create, "rf_metric", strategy.pointer, params)."""
    out = ffi.new(kind + " **")
    check(function(*arguments, out))
    return out[0]


def where() -> str:
    """ "FILE:LINE" of the user's call: the innermost one outside of this package."""
    package = os.path.dirname(__file__) + os.sep
    for frame in reversed(traceback.extract_stack()):
        if not frame.filename.startswith(package):
            return "%s:%s" % (os.path.basename(frame.filename), frame.lineno)
    return "?"


# ---- settings ----


def enum(kind: str, value: Any) -> int:
    """A value of an enum by the end of its name, in any case: enum("rf_padding", "same"); numbers
    are taken as they are."""
    if isinstance(value, int):
        return value
    elements = ffi.typeof(kind).elements
    names = sorted(elements.values())
    common = os.path.commonprefix(names).rpartition("_")[0] + "_"
    wanted = str(value).upper().replace("-", "_")
    for number, name in elements.items():
        if name[len(common):] == wanted:
            return number
    raise InvalidArgumentError("%r is none of %s" % (value, ", ".join(
        '"%s"' % name[len(common):].lower() for name in names)))


def params(struct: str, kept: List[Any], /, **fields: Any) -> Any:
    """A struct of settings with these fields, all others zero. `kept` receives what it borrows."""
    made = ffi.new(struct + " *")
    types = dict(ffi.typeof(struct).fields)
    kept.append(made)
    for name, value in fields.items():
        if name not in types:
            raise InvalidArgumentError("there is no setting %r; there are %s" % (name, ", ".join(
                sorted(n for n in types if n != "reserved"))))
        if value is None:
            continue
        field = types[name].type
        if isinstance(value, (str, os.PathLike)) and field.kind == "pointer":
            value = ffi.new("char[]", path_bytes(value))
            kept.append(value)
        elif field.kind == "enum":
            value = enum(field.cname, value)
        setattr(made, name, value)
    return made
