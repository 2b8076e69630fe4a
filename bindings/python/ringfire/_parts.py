# SPDX-License-Identifier: Apache-2.0
"""Descriptions of arrays in windows, tables and records, and images as files: parts of data."""

from __future__ import annotations

import os
from typing import Any, Dict, Iterable, List, Optional, Sequence, Tuple, Union

import numpy as np

from ._arrays import array_in, array_out, dtype as element_type, shape_in
from ._elements import ARRAY
from ._lib import check, ffi, lib, path_bytes

Path = Union[str, "os.PathLike[str]"]
Paths = Union[Path, Sequence[Path]]


def paths_of(paths: Paths) -> List[str]:
    """The names of one file or of several."""
    if isinstance(paths, (str, os.PathLike)):
        return [os.fspath(paths)]
    return [os.fspath(path) for path in paths]


class Strings:
    """Strings as an array of C, with their sizes."""

    def __init__(self, strings: Iterable[Union[str, bytes]]) -> None:
        encoded = [s if isinstance(s, bytes) else os.fsencode(s) for s in strings]
        self.count = len(encoded)
        self._kept = [ffi.new("char[]", s) for s in encoded]
        self.pointer = ffi.new("char *[]", self._kept)
        self.sizes = ffi.new("size_t[]", [len(s) for s in encoded])


class WindowPart:
    """An array of :meth:`Dataset.table_windows`: rows of array number ``index``.

    Without a ``length`` it is one row, without a dimension for rows.
    """

    def __init__(self, index: int = 0, length: Optional[int] = None, offset: int = 0,
                 sampling_rate: int = 1) -> None:
        self.index = index
        self.length = length
        self.offset = offset
        self.sampling_rate = sampling_rate


class Columns:
    """The columns of a table that make one array: by name or by number."""

    def __init__(self, columns: Sequence[Union[str, int]], dtype: Any = "float32",
                 shape: Optional[Sequence[int]] = None) -> None:
        self.columns = list(columns)
        self.dtype = np.dtype(dtype)
        self.shape = shape


class FixedLenFeature:
    """A feature of a record with as many values as ``shape`` says.

    ``image``: its bytes are a PNG or JPEG file, which is decoded and resized to ``shape``, u8
    [height, width, channels].
    """

    variable = False

    def __init__(self, shape: Sequence[int] = (), dtype: Any = "float32",
                 default_value: Any = None, image: bool = False) -> None:
        self.shape = tuple(shape)
        self.dtype = np.dtype(np.uint8 if image else dtype)
        self.default_value = default_value
        self.image = image


class VarLenFeature(FixedLenFeature):
    """A feature with at most as many rows as ``shape`` says, for :meth:`Dataset.padded_batch`."""

    variable = True


class TarField:
    """A file of the examples of a tar archive, whose name ends with one of ``endings``.

    ``endings`` is such as "jpg;png" or "cls". ``dtype`` "uint8" is the file's bytes, and others are
    the number that it has as text. ``image``: a PNG or JPEG file, decoded and resized to ``shape``.
    ``variable``: there may be fewer bytes than ``shape`` says.
    """

    def __init__(self, endings: str, dtype: Any = "int32", shape: Sequence[int] = (),
                 image: bool = False, variable: bool = False) -> None:
        self.endings = endings
        self.dtype = np.dtype(np.uint8 if image else dtype)
        self.shape = tuple(shape)
        self.image = image
        self.variable = variable


def tar_params(paths: Paths, fields: Dict[str, TarField], max_bytes: int) -> Tuple[Any, Any]:
    """The library's ``rf_tar_params *``, and what it points to."""
    files, endings = Strings(paths_of(paths)), Strings([f.endings for f in fields.values()])
    items = ffi.new("rf_tar_field[]", [{
        "endings": endings.pointer[i], "dtype": element_type(field.dtype).code,
        "shape": shape_in(field.shape), "image": field.image, "variable": field.variable}
        for i, field in enumerate(fields.values())])
    params = ffi.new("rf_tar_params *", {"paths": files.pointer, "num_paths": files.count,
                                         "fields": items, "num_fields": len(items),
                                         "max_bytes": max_bytes})
    return params, (files, endings, items)


def pack_params(count: int, length: int, padding: Union[float, Sequence[float]], num_open: int,
                segments: bool) -> Tuple[Any, Any]:
    """The library's ``rf_pack_params *`` for elements of ``count`` arrays; what rows look like."""
    values = [padding] * count if isinstance(padding, (int, float)) else list(padding)
    params = ffi.new("rf_pack_params *", {"length": length, "num_open": num_open,
                                          "segments": segments, "pad_value": values})
    inputs = (tuple, *([ARRAY] * (3 if segments else 2)))
    return params, (tuple, inputs, *([ARRAY] * (count - 1))) if count > 1 else inputs


def read_image(path: Path, channels: int = 0) -> np.ndarray:
    """A PNG or JPEG file as u8 [height, width, channels]; 0 channels: as many as the file has."""
    out = ffi.new("rf_array *")
    check(lib.rf_image_read(path_bytes(path), channels, out))
    return array_out(out[0])


def write_image(path: Path, image: Any, quality: int = 95) -> None:
    """Writes an image to a file .png or .jpg: u8, or f32 from 0 to 1, [height, width, channels].

    ``quality`` is that of JPEG, 1 to 100.
    """
    array, _ = array_in(image)
    params = ffi.new("rf_image_write_params *", {"quality": quality})
    check(lib.rf_image_write(path_bytes(path), array, params))
