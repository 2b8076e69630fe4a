# SPDX-License-Identifier: Apache-2.0
"""Models in files that only compute."""

from __future__ import annotations

import os
from typing import Any, Dict, Mapping, Optional, Tuple, Union

from .._arrays import array_in, array_out, dtype as element_type, shape_out
from .._lib import Handle, check, create, ffi, lib, path_bytes, text

Path = Union[str, "os.PathLike[str]"]


class Inference(Handle):
    """A model in a file, exported or saved, ready to run on batches of any size."""

    def __init__(self, filepath: Path, device: Optional[str] = None) -> None:
        params = ffi.new("rf_inference_params *")
        name = None if device is None else ffi.new("char[]", device.encode())
        if name is not None:
            params.device = name
        self.adopt(create(lib.rf_inference_load, "rf_inference", path_bytes(filepath), params),
                   lib.rf_inference_destroy)

    def _signature(self, count: Any, entry: Any) -> Dict[str, Tuple[Tuple[int, ...], Any]]:
        found = {}
        for i in range(count(self.pointer)):
            array = ffi.new("rf_array *")
            name = text(entry(self.pointer, i, array))
            found[name] = (shape_out(array.shape), element_type(array.dtype))
        return found

    @property
    def inputs(self) -> Mapping[str, Tuple[Tuple[int, ...], Any]]:
        """Names of the inputs, with their shapes and types; -1 is the batch."""
        return self._signature(lib.rf_inference_num_inputs, lib.rf_inference_input)

    @property
    def outputs(self) -> Mapping[str, Tuple[Tuple[int, ...], Any]]:
        """Names of the outputs, with their shapes and types."""
        return self._signature(lib.rf_inference_num_outputs, lib.rf_inference_output)

    def __call__(self, *inputs: Any) -> Any:
        """Runs a batch: an array for each input; gives an array for each output."""
        types = [kind for _, kind in self.inputs.values()]
        given = [array_in(x, kind) for x, kind in zip(inputs, types)]
        arrays = ffi.new("rf_array[]", [array[0] for array, _ in given])
        count = lib.rf_inference_num_outputs(self.pointer)
        out = ffi.new("rf_array[]", count)
        check(lib.rf_inference_run_many(self.pointer, arrays, len(given), out, count))
        made = [array_out(out[i]) for i in range(count)]
        return made[0] if count == 1 else made
