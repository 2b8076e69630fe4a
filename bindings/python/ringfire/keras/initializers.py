# SPDX-License-Identifier: Apache-2.0
"""Initial values of variables. Fans are Keras'."""

from __future__ import annotations

from typing import Any, ClassVar, Dict, List, Optional, Type, Union

from .._lib import ffi
from ._params import Configured, enum_value


class Initializer(Configured):
    """A distribution that initial values are drawn from."""

    _kind: ClassVar[str]
    # The fields that arguments go to, besides those of the same name.
    _fields: ClassVar[Dict[str, str]] = {}

    def to_c(self, keep: List[Any]) -> Any:
        """The library's ``rf_initializer *``."""
        out = ffi.new("rf_initializer *")
        out.kind = enum_value(ffi.typeof("rf_initializer_kind"), self._kind, "initializer")
        for argument, value in self._config.items():
            field = self._fields.get(argument, argument)
            if argument in ("mode", "distribution"):
                kind = ffi.typeof("rf_fan" if argument == "mode" else "rf_distribution")
                value = enum_value(kind, value, argument)
            setattr(out, field, value)
        return out


class GlorotUniform(Initializer):
    """Uniform, of the width that Glorot & Bengio 2010 give. ``seed`` 0: derived."""

    _kind = "glorot_uniform"

    def __init__(self, seed: int = 0) -> None:
        pass


class GlorotNormal(Initializer):
    """Truncated normal, of the width that Glorot & Bengio 2010 give."""

    _kind = "glorot_normal"

    def __init__(self, seed: int = 0) -> None:
        pass


class HeUniform(Initializer):
    """Uniform, of the width that He et al. 2015 give."""

    _kind = "he_uniform"

    def __init__(self, seed: int = 0) -> None:
        pass


class HeNormal(Initializer):
    """Truncated normal, of the width that He et al. 2015 give."""

    _kind = "he_normal"

    def __init__(self, seed: int = 0) -> None:
        pass


class LecunUniform(Initializer):
    """Uniform, of the width that LeCun et al. 1998 give."""

    _kind = "lecun_uniform"

    def __init__(self, seed: int = 0) -> None:
        pass


class LecunNormal(Initializer):
    """Truncated normal, of the width that LeCun et al. 1998 give."""

    _kind = "lecun_normal"

    def __init__(self, seed: int = 0) -> None:
        pass


class RandomNormal(Initializer):
    """Normal."""

    _kind = "random_normal"
    _fields = {"mean": "a", "stddev": "b"}

    def __init__(self, mean: float = 0.0, stddev: float = 0.05, seed: int = 0) -> None:
        if stddev == 0:
            raise ValueError("RandomNormal: stddev is 0; use Constant(mean)")


class TruncatedNormal(Initializer):
    """Normal, without what is farther than two deviations from the mean."""

    _kind = "truncated_normal"
    _fields = {"mean": "a", "stddev": "b"}

    def __init__(self, mean: float = 0.0, stddev: float = 0.05, seed: int = 0) -> None:
        if stddev == 0:
            raise ValueError("TruncatedNormal: stddev is 0; use Constant(mean)")


class RandomUniform(Initializer):
    """Uniform."""

    _kind = "random_uniform"
    _fields = {"minval": "a", "maxval": "b"}

    def __init__(self, minval: float = -0.05, maxval: float = 0.05, seed: int = 0) -> None:
        if minval == 0 and maxval == 0:
            raise ValueError("RandomUniform: minval and maxval are 0; use Zeros()")


class Zeros(Initializer):
    """0 everywhere."""

    _kind = "zeros"

    def __init__(self) -> None:
        pass


class Ones(Initializer):
    """1 everywhere."""

    _kind = "ones"

    def __init__(self) -> None:
        pass


class Constant(Initializer):
    """One value everywhere."""

    _kind = "constant"
    _fields = {"value": "a"}

    def __init__(self, value: float = 0.0) -> None:
        pass


class Orthogonal(Initializer):
    """``gain`` times a matrix with orthonormal rows or columns."""

    _kind = "orthogonal"
    _fields = {"gain": "a"}

    def __init__(self, gain: float = 1.0, seed: int = 0) -> None:
        if gain == 0:
            raise ValueError("Orthogonal: gain is 0; use Zeros()")


class VarianceScaling(Initializer):
    """Of a variance of ``scale`` / fan."""

    _kind = "variance_scaling"
    _fields = {"scale": "a", "mode": "fan"}

    def __init__(self, scale: float = 1.0, mode: str = "fan_in",
                 distribution: str = "truncated_normal", seed: int = 0) -> None:
        if scale <= 0:
            raise ValueError(f"VarianceScaling: scale={scale} is not positive")


InitializerLike = Union[None, str, Initializer]

_by_name: Dict[str, Type[Initializer]] = {kind._kind: kind for kind in Initializer.__subclasses__()}
_by_name.update({kind.__name__: kind for kind in Initializer.__subclasses__()})
_by_name["uniform"] = RandomUniform
_by_name["normal"] = RandomNormal


def get(identifier: Any) -> Initializer:
    """An initializer from its name, its class, or itself."""
    if isinstance(identifier, Initializer):
        return identifier
    if isinstance(identifier, type) and issubclass(identifier, Initializer):
        return identifier()
    found = _by_name.get(identifier) if isinstance(identifier, str) else None
    if found is None:
        raise ValueError(f"{identifier!r} is no initializer; there are "
                         f"{', '.join(sorted(_by_name))}")
    return found()
