# SPDX-License-Identifier: Apache-2.0
"""Keras' arguments in the structs of the C library.

Names are looked up in the struct that the headers declare, and values are converted by the type
of the field. So a layer or an optimizer is its Python signature, and nothing is said twice.
"""

from __future__ import annotations

import contextlib
import inspect
from typing import Any, Dict, Iterable, Iterator, List, Mapping, Optional, Tuple

from .._arrays import shape_in
from .._lib import ffi

# Names of Keras for fields that the library calls otherwise. A "!" is the opposite of a field.
RENAMED: Dict[str, str] = {
    "use_bias": "!no_bias",
    "use_output_bias": "!no_output_bias",
    "center": "!no_center",
    "scale": "!no_scale",
    "unit_forget_bias": "!no_unit_forget_bias",
    "reset_after": "!reset_before",
    "strides": "stride",
    "dilation_rate": "dilation",
    "pool_size": "window",
    "embeddings_initializer": "initializer",
    "embeddings_regularizer": "regularizer",
    "gradient_accumulation_steps": "accumulation_steps",
    "clipvalue": "clip_value",
    "clipnorm": "clip_norm",
    "global_clipnorm": "global_clip_norm",
    "output_shape": "output_dim",
}
# Other names for values of the library's enumerations.
ALIASES: Dict[str, str] = {
    "swish": "silu",
    "hard_swish": "hard_silu",
    "concat": "concatenate",
    "mul": "multiply",
    "ave": "average",
    "fan_in": "in",
    "fan_out": "out",
    "fan_avg": "avg",
}


def _fields(struct: Any) -> Mapping[str, Any]:
    return {name: field.type for name, field in struct.fields if name != "reserved"}


def find(struct: Any, argument: str) -> Optional[Tuple[Tuple[str, ...], Any, bool]]:
    """Where an argument goes: the path of its field, the field's type, whether it is negated."""
    name = RENAMED.get(argument, argument)
    negated, name = name.startswith("!"), name.lstrip("!")
    for candidate in (name, argument):
        for path in ((), ("conv",)):
            inner = struct
            for step in path:
                inner = _fields(inner).get(step)
            if inner is not None and candidate in _fields(inner):
                return path + (candidate,), _fields(inner)[candidate], \
                    negated and candidate == name
    return None


def enum_values(enum: Any) -> Dict[str, int]:
    """Names in lower case, without the prefix that all have, and their values."""
    names = list(enum.relements)
    prefix = len(names[0])
    while len({name[:prefix] for name in names}) > 1 or not names[0][:prefix].endswith("_"):
        prefix -= 1
    return {name[prefix:].lower(): value for name, value in enum.relements.items()}


def enum_value(enum: Any, value: Any, argument: str) -> int:
    """The value of an enumeration that a name, or a function of that name, stands for."""
    if value is None:
        return 0
    name = getattr(value, "__name__", value)
    values = enum_values(enum)
    found = values.get(ALIASES.get(name, name)) if isinstance(name, str) else None
    if found is None:
        raise ValueError(f"{argument}={value!r} is none of {', '.join(sorted(values))}")
    return found


def _numbers(value: Any, count: int, argument: str) -> List[int]:
    if isinstance(value, int):
        return [value] * count
    numbers = [int(v) for v in value]
    if len(numbers) != count:
        raise ValueError(f"{argument}={value!r} has {len(numbers)} numbers, not {count}")
    return numbers


def convert(kind: Any, value: Any, argument: str, keep: List[Any]) -> Any:
    """A value for a field or an argument of that C type; ``keep`` holds what it points to."""
    if kind.kind == "enum":
        return enum_value(kind, value, argument)
    if kind.kind == "array":
        return _numbers(value, kind.length, argument)
    if kind.cname == "char const *" or kind.cname == "char *":
        keep.append(ffi.new("char[]", str(value).encode()))
        return keep[-1]
    if kind.kind == "pointer" and kind.item.kind == "primitive":
        numbers = [value] if isinstance(value, int) else [int(v) for v in value]
        keep.append(ffi.new(f"{kind.item.cname.replace(' const', '')}[]", numbers))
        return keep[-1]
    target = kind.item if kind.kind == "pointer" else kind
    if target.kind == "struct":
        if target.cname.endswith("rf_shape"):
            return shape_in(value)
        made = value.to_c(keep) if hasattr(value, "to_c") else _get(target, value, keep)
        keep.append(made)
        return made if kind.kind == "pointer" else made[0]
    if kind.cname == "_Bool":
        return bool(value)
    return value


def _get(struct: Any, value: Any, keep: List[Any]) -> Any:
    """An initializer or a regularizer from its name."""
    from . import initializers, regularizers
    module: Any = initializers if struct.cname.endswith("rf_initializer") else regularizers
    return module.get(value).to_c(keep)


# The library's RF_ZERO: the number zero where 0 means a default.
ZERO = 2.0**-126


def a_number(value: Any) -> bool:
    """Whether a value is a number, and no boolean."""
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def zero_or(kind: Any, owner: str, argument: str, value: Any, default: Any) -> Any:
    """A value, and for a zero what the library reads as zero where its default is another."""
    if not (a_number(value) and value == 0 and a_number(default) and default != 0):
        return value
    if kind.cname in ("float", "double"):
        return ZERO
    raise ValueError(f"{owner}: {argument}=0 cannot be asked for: the library reads 0 as its "
                     f"default, {default}")


@contextlib.contextmanager
def named(owner: str, argument: str, value: Any) -> Iterator[None]:
    """Says in errors of types and ranges which argument is meant."""
    try:
        yield
    except (TypeError, OverflowError) as wrong:
        raise type(wrong)(f"{owner}: {argument}={value!r}: {wrong}") from None


def fill(struct_name: str, values: Mapping[str, Any], keep: List[Any], owner: str,
         defaults: Mapping[str, Any]) -> Any:
    """A new struct with these values. What has its default, or None, is left to the library's
    default, which is the same: the library refuses settings that do not go together."""
    out = ffi.new(struct_name + " *")
    struct = ffi.typeof(struct_name)
    for argument, value in values.items():
        if value is None or (argument in defaults and value == defaults[argument]):
            continue
        place = find(struct, argument)
        if place is None:
            raise TypeError(f"{owner}: the library has no {argument}")
        path, kind, negated = place
        value = zero_or(kind, owner, argument, value, defaults.get(argument))
        target = out
        for step in path[:-1]:
            target = getattr(target, step)
        if path[-1] == "padding" and not isinstance(value, str):
            # Rows and columns of zeros: Keras' ((top, bottom), (left, right)) or four numbers.
            flat = [n for part in value for n in (part if hasattr(part, "__iter__") else [part])]
            target.padding = enum_value(kind, "explicit", argument)
            target.explicit_padding = _numbers(flat, 4, argument)
            continue
        with named(owner, argument, value):
            setattr(target, path[-1],
                    not value if negated else convert(kind, value, argument, keep))
    return out


def leaves(struct: Any, prefix: Tuple[str, ...] = ()) -> Iterable[Tuple[str, ...]]:
    """The paths of all fields of a struct that :func:`find` may give."""
    for name, kind in _fields(struct).items():
        if name == "conv":
            yield from leaves(kind, prefix + (name,))
        else:
            yield prefix + (name,)


class Configured:
    """What is described by the arguments of its constructor: they are kept in ``_config``."""

    _config: Dict[str, Any]
    _defaults: Dict[str, Any]

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        self = super().__new__(cls)
        parameters = inspect.signature(cls.__init__)
        try:
            bound = parameters.bind_partial(self, *args, **kwargs)
        except TypeError:
            return self  # Python says what is wrong, in the call of __init__ that follows
        bound.apply_defaults()
        config: Dict[str, Any] = {}
        for name, value in list(bound.arguments.items())[1:]:
            kind = parameters.parameters[name].kind
            if kind is inspect.Parameter.VAR_KEYWORD:
                config.update(value)
            elif kind is not inspect.Parameter.VAR_POSITIONAL:
                config[name] = value
        self._config = config
        self._defaults = {name: p.default for name, p in parameters.parameters.items()}
        return self

    def get_config(self) -> Dict[str, Any]:
        """The arguments of the constructor."""
        return dict(self._config)

    @classmethod
    def from_config(cls, config: Mapping[str, Any]) -> Any:
        """A new object with the arguments of another one."""
        return cls(**config)
