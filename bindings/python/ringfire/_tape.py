# SPDX-License-Identifier: Apache-2.0
"""Gradients, and optimizers that apply them."""
from __future__ import annotations

from typing import Any, Iterable, List, Optional, Tuple

import numpy as np

from ._lib import Handle, InvalidArgumentError, TraceError, check, ffi, lib, params, where
from ._structure import flatten, pack
from ._trace import Tensor, TensorLike, current, handles, tensors, trace_of
from ._values import Value
from ._variable import Variable, variable_list


class GradientTape:
    """Differentiates what a step computes. A step records everything anyway: the context is there
    to say where, and gradient() may be asked for as often as one likes."""

    def __init__(self, persistent: bool = True, watch_accessed_variables: bool = True) -> None:
        pass

    def __enter__(self) -> "GradientTape":
        if current() is None:
            raise TraceError(
                "%s: a GradientTape records steps; use it in a function that strategy.run() or "
                "rf.function calls" % where())
        return self

    def __exit__(self, *exception: Any) -> None:
        pass

    def watch(self, tensor: Any) -> None:
        """Every tensor is watched."""

    def gradient(self, target: Any, sources: Any, output_gradients: Any = None) -> Any:
        """The derivatives of a loss with respect to variables or tensors, in their structure; of
        losses that are no scalar, those of their sum. Zeros where a source has no influence."""
        from ._functions import reduce_sum
        t = trace_of("GradientTape.gradient", target)
        loss = target if isinstance(target, Tensor) else t.constant(target)
        if output_gradients is not None:
            loss = loss * output_gradients
        if loss.ndim > 0:
            loss = reduce_sum(loss)
        leaves: List[Any] = []
        definition = flatten(sources, lambda x: isinstance(x, (Tensor, Variable)), leaves)
        if not leaves:
            raise InvalidArgumentError("%s: gradient() of no sources; variables of a model are "
                                       "there once it has been called" % where())
        out = ffi.new("rf_tensor[]", len(leaves))
        t.check(
            lib.rf_gradients(t.pointer, loss.handle, handles(t, leaves, "sources"), len(leaves),
                             out))
        return pack(definition, iter(tensors(t, out, len(leaves))))


def gradients(ys: Any, xs: Any) -> Any:
    """GradientTape.gradient() without a tape."""
    return GradientTape().gradient(ys, xs)


class Optimizer(Handle):
    """Updates variables from gradients. Made in the scope of a strategy."""

    def __init__(self, kind: Any, name: Optional[str] = None, learning_rate: Any = None,
                 **fields: Any) -> None:
        """`kind` ends an rf_optimizer_kind ("adam"); fields are those of rf_optimizer_params, which
        0 or None leaves at their defaults. learning_rate is a number, or an rf_schedule *."""
        from ._strategy import get_strategy
        self.strategy = get_strategy()
        self.name = name or str(kind)
        kept: List[Any] = []
        if isinstance(learning_rate, ffi.CData):
            fields["schedule"] = learning_rate
        elif learning_rate is not None:
            fields["learning_rate"] = float(learning_rate)
        settings = params("rf_optimizer_params", kept, kind=kind, **fields)
        self.adopt(self.strategy.create_optimizer(settings), lib.rf_optimizer_destroy,
                   self.strategy)
        self.strategy.note(self)

    def apply_gradients(self, grads_and_vars: Iterable[Tuple[Any, Variable]]) -> None:
        """In a step: sums gradients over replicas, clips them, and updates. Pairs whose gradient is
        None are left out."""
        pairs = [(g, v) for g, v in grads_and_vars if g is not None]
        t = trace_of("apply_gradients", *(g for g, _ in pairs))
        variables, kept = variable_list(v for _, v in pairs)
        t.kept.append(kept)
        t.check(
            lib.rf_optimizer_apply_gradients(t.pointer, self.pointer,
                                             handles(t, [g for g, _ in pairs], "gradients"),
                                             variables[0]))

    def minimize(self, loss: Any, var_list: Any, tape: Any = None) -> None:
        """In a step: differentiates, then as apply_gradients(). A function makes the loss."""
        t = trace_of("minimize", loss)
        if callable(loss) and not isinstance(loss, Tensor):
            loss = loss()
        variables, kept = variable_list(var_list() if callable(var_list) else var_list)
        t.kept.append(kept)
        t.check(
            lib.rf_optimizer_minimize(t.pointer, self.pointer, t.take(loss, "loss"), variables[0]))

    def scale_loss(self, loss: TensorLike) -> Tensor:
        """In a step: the loss times the optimizer's scale, of which gradients are to be taken for
        apply_gradients(); the loss itself where it has none."""
        t = trace_of("scale_loss", loss)
        return t.made(lib.rf_optimizer_scale_loss(t.pointer, self.pointer, t.take(loss, "loss")))

    @property
    def iterations(self) -> Any:
        """Number of updates made."""
        return Value(np.asarray(lib.rf_optimizer_iterations(self.pointer), np.int64))

    @property
    def learning_rate(self) -> Any:
        """The learning rate of the next step."""
        return Value(np.asarray(lib.rf_optimizer_learning_rate(self.pointer), np.float32))

    @learning_rate.setter
    def learning_rate(self, rate: Any) -> None:
        check(lib.rf_optimizer_set_learning_rate(self.pointer, float(rate)))

    def _add_to(self, checkpoint: Any, name: bytes) -> None:
        check(lib.rf_checkpoint_add_optimizer(checkpoint, name, self.pointer))
