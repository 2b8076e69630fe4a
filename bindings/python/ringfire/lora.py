# SPDX-License-Identifier: Apache-2.0
"""Low-rank adapters of models, with the names of PEFT."""

from __future__ import annotations

import os
from typing import Any, List, NamedTuple, Optional, Sequence, Union

from ._lib import check, ffi, lib, path_bytes, text

__all__ = ["Adapters", "LoraConfig"]

Path = Union[str, "os.PathLike[str]"]


class LoraConfig(NamedTuple):
    """What an adapter is like; the arguments are PEFT's.

    ``target_modules`` are names of modules, or last parts of them, in which "*" stands for any
    characters; "all-linear", all dense layers but those that make the outputs.
    """

    r: int = 8
    lora_alpha: float = 8
    target_modules: Union[str, Sequence[str]] = "all-linear"
    lora_dropout: float = 0.0
    use_rslora: bool = False
    use_dora: bool = False

    def to_c(self, keep: List[Any]) -> Any:
        """The library's parameters; ``keep`` holds what they point to."""
        for argument in ("r", "lora_alpha"):
            if not getattr(self, argument) > 0:
                raise ValueError(f"LoraConfig: {argument}={getattr(self, argument)!r} must be "
                                 "positive")
        names = self.target_modules
        listed = [names] if isinstance(names, str) else list(names)
        if not listed:
            raise ValueError("LoraConfig: target_modules names no module")
        if listed == ["all-linear"]:
            listed = []
        texts = [ffi.new("char[]", name.encode()) for name in listed]
        targets = ffi.new("const char *[]", texts)
        keep += [*texts, targets]
        return ffi.new("rf_lora_params *", {
            "rank": self.r, "alpha": self.lora_alpha, "dropout": self.lora_dropout,
            "rank_stabilized": self.use_rslora, "weight_decomposed": self.use_dora,
            "targets": targets, "num_targets": len(listed)})


class Adapters:
    """The methods of a model for its adapters. Compile the model again after each of those that
    change which adapter acts."""

    pointer: Any

    @property
    def adapter_modules(self) -> List[str]:
        """Names of the modules that adapters can be put on; none of a model that is not built."""
        return [text(lib.rf_lora_module_name(self.pointer, i))
                for i in range(lib.rf_lora_num_modules(self.pointer))]

    @property
    def adapters(self) -> List[str]:
        """Names of the adapters, in the order in which they came."""
        return [text(lib.rf_lora_adapter_name(self.pointer, i))
                for i in range(lib.rf_lora_num_adapters(self.pointer))]

    @property
    def active_adapter(self) -> Optional[str]:
        """The adapter that acts, and is trained."""
        name = lib.rf_lora_active(self.pointer)
        return None if name == ffi.NULL else text(name)

    def add_adapter(self, adapter_config: LoraConfig = LoraConfig(),
                    adapter_name: str = "default") -> None:
        """Puts an adapter on layers, and lets it act alone. The model's weights are frozen as long
        as it has adapters."""
        keep: List[Any] = []
        check(lib.rf_lora_attach(self.pointer, adapter_name.encode(), adapter_config.to_c(keep)))

    def load_adapter(self, directory: Path, adapter_name: str = "default") -> None:
        """Adds the adapter of PEFT's files in a directory."""
        check(lib.rf_lora_load(self.pointer, adapter_name.encode(), path_bytes(directory)))

    def save_adapter(self, directory: Path, adapter_name: str = "default") -> None:
        """Writes PEFT's files of an adapter into a directory."""
        check(lib.rf_lora_save(self.pointer, adapter_name.encode(), path_bytes(directory)))

    def set_adapter(self, adapter_name: str) -> None:
        """Lets an adapter act, and no other one."""
        check(lib.rf_lora_set_active(self.pointer, adapter_name.encode()))

    def disable_adapters(self) -> None:
        """Lets no adapter act: the model is what it was without them."""
        check(lib.rf_lora_set_active(self.pointer, ffi.NULL))

    def delete_adapter(self, adapter_name: str) -> None:
        """Takes an adapter off; with the last one, all layers are trained again."""
        check(lib.rf_lora_detach(self.pointer, adapter_name.encode()))

    def merge_adapter(self, adapter_name: str = "default") -> None:
        """Adds an adapter to the weights, so that it costs no time."""
        check(lib.rf_lora_merge(self.pointer, adapter_name.encode()))

    def unmerge_adapter(self) -> None:
        """Gives the weights the bits that they had before any adapter was merged."""
        check(lib.rf_lora_unmerge(self.pointer))
