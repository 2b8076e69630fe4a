# SPDX-License-Identifier: Apache-2.0
"""Functional models: the graph that calls of layers on described tensors make."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Dict, List, Tuple

from .._arrays import shape_in
from .._lib import check, create, ffi, lib
from ._layer import InputLayer, KerasTensor, Layer, as_list

if TYPE_CHECKING:
    from .models import Model


class Graph:
    """The calls between inputs and outputs, in the order in which they were made."""

    def __init__(self, inputs: Any, outputs: Any, name: str) -> None:
        self.name = name
        self.inputs: List[KerasTensor] = as_list(inputs)
        self.outputs: List[KerasTensor] = as_list(outputs)
        self.output_names = list(outputs) if isinstance(outputs, dict) else None
        self.input_names = list(inputs) if isinstance(inputs, dict) else None
        for tensor in self.inputs:
            if not (isinstance(tensor, KerasTensor) and isinstance(tensor.layer, InputLayer)):
                raise TypeError(f"{name}: inputs are what Input() gives, not {tensor!r}")
        found: Dict[int, KerasTensor] = {}
        waiting = list(self.outputs)
        while waiting:
            tensor = waiting.pop()
            if not isinstance(tensor, KerasTensor):
                raise TypeError(f"{name}: outputs are tensors of layers, not {tensor!r}")
            if tensor.serial not in found:
                found[tensor.serial] = tensor.results[0]
                waiting += tensor.inputs + ([tensor.mask] if tensor.mask is not None else [])
        known = {tensor.serial for tensor in self.inputs}
        for tensor in found.values():
            if isinstance(tensor.layer, InputLayer) and tensor.serial not in known:
                raise ValueError(f"{name}: an output depends on an Input that is not in inputs")
        self.calls = [found[serial] for serial in sorted(found)
                      if isinstance(found[serial].layer, Layer)]

    @property
    def layers(self) -> List[Layer]:
        """The layers, each once."""
        return list(dict.fromkeys(call.layer for call in self.calls
                                  if isinstance(call.layer, Layer)))

    def _names_of_layers(self) -> List[str]:
        """Several outputs are called after their layers, where that tells them apart."""
        names = [tensor.layer.name or "" for tensor in self.outputs]
        plain = all(name.replace("_", "a").isalnum() for name in names)
        return names if plain and len(names) > 1 and len(set(names)) == len(names) else []

    def build(self, model: Model) -> Any:
        """The library's model."""
        builder = create(lib.rf_model_builder_create, "rf_model_builder", model.strategy.pointer)
        symbols: Dict[Tuple[int, int], Any] = {}
        for i, tensor in enumerate(self.inputs):
            entry = tensor.layer
            name = self.input_names[i] if self.input_names else entry.name
            text = ffi.NULL if name is None else ffi.new("char[]", name.encode())
            symbols[tensor.serial, 0] = lib.rf_model_builder_input(
                builder, entry.dtype.code, shape_in(entry.shape), text)  # type: ignore[union-attr]
        pointers: Dict[int, Any] = {}
        try:
            for call in self.calls:
                self._call(builder, model, call, symbols, pointers)
        except Exception:
            lib.rf_model_builder_destroy(ffi.new("rf_model_builder **", builder))
            for layer in self.layers:
                layer._lose(model)
            raise
        outputs = ffi.new("rf_symbol[]", [symbols[t.serial, t.index] for t in self.outputs])
        names, keep = ffi.NULL, []
        given = self.output_names or self._names_of_layers()
        if given:
            keep = [ffi.new("char[]", name.encode()) for name in given]
            names = ffi.new("char *[]", keep)
        out = ffi.new("rf_model **")
        result = lib.rf_model_builder_finish(ffi.new("rf_model_builder **", builder), outputs,
                                             len(self.outputs), names, out)
        if result < 0:
            for layer in self.layers:
                layer._lose(model)
        check(result)
        return out[0]

    def _call(self, builder: Any, model: Model, call: KerasTensor,
              symbols: Dict[Tuple[int, int], Any], pointers: Dict[int, Any]) -> None:
        layer = call.layer
        assert isinstance(layer, Layer)
        if id(layer) not in pointers:
            pointers[id(layer)] = layer._lend(model)
        pointer = pointers[id(layer)]
        inputs = ffi.new("rf_symbol[]", [symbols[t.serial, t.index] for t in call.inputs])
        mask = ffi.new("rf_symbol *")[0] if call.mask is None \
            else symbols[call.mask.serial, call.mask.index]
        count = layer._num_outputs
        out = ffi.new("rf_symbol[]", count)
        # The first failure is that of rf_model_builder_finish(), too.
        check(lib.rf_model_builder_apply(builder, pointer, inputs, len(call.inputs), mask, out,
                                         count))
        for i in range(count):
            symbols[call.serial, i] = ffi.new("rf_symbol *", out[i])[0]
