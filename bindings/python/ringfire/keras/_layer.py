# SPDX-License-Identifier: Apache-2.0
"""Layers before and inside of models: what they are made of, and how they are called."""

from __future__ import annotations

import contextlib
import inspect
import itertools
import re
import threading
from typing import (TYPE_CHECKING, Any, Callable, ClassVar, Dict, Iterator, List, Optional,
                    Sequence, Tuple)
from typing import Union

from .._arrays import dtype as element_type, shape_in, shape_out
from .._lib import callback, check, create, ffi, lib
from .._trace import Trace, current, optional, tensors
from ._params import Configured, convert, fill, named, zero_or

if TYPE_CHECKING:
    from .._variable import Variable
    from .models import Model

_serial = itertools.count()
_local = threading.local()


def snake_case(name: str) -> str:
    """The name that Keras gives to layers of a class."""
    name = re.sub(r"(.)([A-Z][a-z]+)", r"\1_\2", name.lstrip("_"))
    return re.sub(r"([a-z])([A-Z])", r"\1_\2", name).lower()


# ---- graphs ----

class KerasTensor:
    """A tensor of a functional model that is being described."""

    def __init__(self, layer: Union[Layer, InputLayer], inputs: Sequence[KerasTensor] = (),
                 mask: Optional[KerasTensor] = None) -> None:
        self.layer = layer
        self.inputs = list(inputs)
        self.mask = mask
        # Shapes and types of all outputs, once somebody asks.
        self.known: Optional[List[Tuple[Tuple[int, ...], Any]]] = None
        self.travels: Optional[KerasTensor] = None  # the mask of its steps, for layers behind it
        self.serial = next(_serial)
        self.results: List[KerasTensor] = [self]

    def output(self, index: int) -> KerasTensor:
        """Another output of the same call."""
        while len(self.results) <= index:
            other = KerasTensor.__new__(KerasTensor)
            other.__dict__.update(self.__dict__)
            self.results.append(other)
        return self.results[index]

    @property
    def shape(self) -> Tuple[Optional[int], ...]:
        """Dimensions; None is the batch, or left open. A layer like the call's is tried, once."""
        return (None,) + tuple(None if n == -1 else n for n in self._signature()[0])

    @property
    def ndim(self) -> int:
        """The number of dimensions, with that of the batch."""
        return len(self.shape)

    @property
    def dtype(self) -> Any:
        """Element type."""
        return self._signature()[1]

    def _signature(self) -> Tuple[Tuple[int, ...], Any]:
        if isinstance(self.layer, InputLayer):
            return self.layer.shape, self.layer.dtype
        call = self.results[0]
        if call.known is None:
            call.known = _try_layer(call)
        return call.known[self.index]

    @property
    def index(self) -> int:
        """The number of this output of its call."""
        return next(i for i, result in enumerate(self.results) if result is self)

    def _merge(self, name: str, other: Any, with_number: Callable[[Any], Any]) -> Any:
        from . import layers
        if isinstance(other, KerasTensor):
            return getattr(layers, name)()([self, other])
        if isinstance(other, (int, float)):
            return layers.Lambda(with_number)(self)
        return NotImplemented

    def __add__(self, other: Any) -> Any:
        return self._merge("Add", other, lambda x: x + other)

    def __sub__(self, other: Any) -> Any:
        return self._merge("Subtract", other, lambda x: x - other)

    def __mul__(self, other: Any) -> Any:
        return self._merge("Multiply", other, lambda x: x * other)

    __radd__ = __add__
    __rmul__ = __mul__

    def __array__(self, *arguments: Any, **keywords: Any) -> Any:
        raise TypeError("a tensor of Input() has no numbers, and takes layers only; put operations "
                        "into layers.Lambda(function)")

    def __repr__(self) -> str:
        return f"<KerasTensor of {self.layer.name or type(self.layer).__name__}>"


def _try_layer(call: KerasTensor) -> List[Tuple[Tuple[int, ...], Any]]:
    """Shapes and types of what a call gives, of another layer with the same settings."""
    from .models import Functional
    inputs = [Input(shape, dtype) for shape, dtype in (x._signature() for x in call.inputs)]
    mask = None if call.mask is None else Input(*call.mask._signature())
    assert isinstance(call.layer, Layer)
    made = as_list(call.layer._twin()._record(list(inputs), mask))
    model = Functional(inputs + ([] if mask is None else [mask]), made)
    return [(shape_out(lib.rf_model_output_shape(model.pointer, i)),
             element_type(lib.rf_model_output_dtype(model.pointer, i)))
            for i in range(len(made))]


class InputLayer:
    """An input of a functional model, or the first entry of a Sequential."""

    def __init__(self, shape: Sequence[Optional[int]], dtype: Any = None,
                 name: Optional[str] = None) -> None:
        self.shape = tuple(-1 if n is None else int(n) for n in shape)
        self.dtype = element_type(dtype or "float32")
        self.name = name


def Input(shape: Sequence[Optional[int]], dtype: Any = None,
          name: Optional[str] = None) -> KerasTensor:
    """An input of a functional model: ``shape`` is that of an example, without the batch. None is
    a size that is left open."""
    return KerasTensor(InputLayer(shape, dtype, name))


# ---- calling ----


def applying() -> List[Tuple[Any, bool]]:
    """What is being applied in this thread: models (or layers), and whether in training."""
    stack: List[Tuple[Any, bool]] = _local.__dict__.setdefault("stack", [])
    return stack


def training_here() -> bool:
    """Whether what is being applied in this thread is applied for training."""
    stack = applying()
    return stack[-1][1] if stack else False


@contextlib.contextmanager
def apply_in(owner: Any, mode: bool) -> Iterator[None]:
    """What is called inside belongs to the application of ``owner``."""
    applying().append((owner, mode))
    try:
        yield
    finally:
        applying().pop()


def tracing(pointer: Any, strategy: Any) -> Any:
    """A context of the trace that the library gave to a callback."""
    trace = current()
    if trace is not None and trace.pointer == pointer:
        return contextlib.nullcontext(trace)
    return Trace(pointer, strategy)


def as_list(value: Any) -> List[Any]:
    """A list, a tuple's or a dict's values, or the one thing itself."""
    if isinstance(value, dict):
        return list(value.values())
    return list(value) if isinstance(value, (list, tuple)) else [value]


def parts_of(thing: Any, kinds: Any) -> List[Any]:
    """The layers (or models) that are attributes of a layer or a model, or in lists or dicts there,
    each once, in the order in which the attributes were set."""
    found: List[Any] = []
    for name, value in vars(thing).items():
        if name not in ("_config", "_fields", "_owner", "_shares", "_as_layer"):
            for part in as_list(value):
                if isinstance(part, kinds) and not any(part is other for other in found):
                    found.append(part)
    return found


def call_python(function: Any, inputs: Any, training: bool, mask: Any = None) -> Any:
    """Calls a user's call() with the arguments that it has."""
    names = inspect.signature(function).parameters
    options: Dict[str, Any] = {}
    if "training" in names:
        options["training"] = training
    if "mask" in names and mask is not None:
        options["mask"] = mask
    return function(inputs, **options)


class Layer(Configured):
    """A layer: a description until a model takes it.

    A layer of one's own derives from this class: ``build(input_shape)`` makes variables with
    :meth:`add_weight`, ``call(inputs)`` traces it with operations and other layers, and may take
    ``training`` and ``mask``.
    """

    # The C function, and the struct that it takes or the names of its arguments.
    _c: ClassVar[Optional[Tuple[str, Union[str, Tuple[str, ...]]]]] = None
    # Fields that arguments go to, besides those that _params knows.
    _names: ClassVar[Dict[str, str]] = {}
    _base_name: ClassVar[Optional[str]] = None
    _dtype: ClassVar[str] = "float32"
    _num_outputs = 1
    # Of a mask that travels with the input: "takes" it, "passes" it on, "drops" or "refuses" it.
    _masks: ClassVar[str] = "drops"

    def __init__(self, *, name: Optional[str] = None, trainable: bool = True,
                 dtype: Optional[str] = None, input_shape: Optional[Sequence[int]] = None) -> None:
        options = ("name", "trainable", "dtype", "input_shape")
        self._fields: Dict[str, Any] = {
            self._names.get(key, key): value for key, value in self._config.items()
            if key not in options}
        self._given_name = name
        self.name: Optional[str] = name
        self._trainable = trainable
        self._policy = dtype
        self._input_shape = None if input_shape is None else tuple(input_shape)
        self._pointer: Any = None
        self._owner: Optional[Model] = None
        self._taken = False
        self._kept: List[Any] = []
        self._shares: List[Layer] = []
        self._added: List[Variable] = []
        self.built = False

    def _twin(self) -> Any:
        """Another layer with the same settings."""
        return type(self).from_config({
            key: value._twin() if isinstance(value, Layer) else value
            for key, value in self._config.items()})

    # -- making it --

    def _set_before_use(self, field: str, value: Any) -> None:
        if self._pointer is not None and self._fields.get(field) != value:
            raise ValueError(f"{type(self).__name__}: {field} is {self._fields.get(field)} since "
                             "the layer was first called")
        self._fields[field] = value

    def _make(self) -> Any:
        """The library's layer, made at the first call."""
        if self._pointer is None:
            if self._c is None:
                self._pointer = self._make_custom()
            else:
                self._pointer = self._make_known(*self._c)
            if self._policy is not None:
                from .mixed_precision import Policy
                check(lib.rf_layer_set_dtype_policy(self._pointer, Policy(self._policy).to_c()))
            if self.name is not None:
                check(lib.rf_layer_set_name(self._pointer, self.name.encode()))
            if not self._trainable:
                lib.rf_layer_set_trainable(self._pointer, False)
        return self._pointer

    def _make_known(self, function_name: str, spec: Union[str, Tuple[str, ...]]) -> Any:
        function = getattr(lib, function_name)
        owner, keep = type(self).__name__, self._kept
        if isinstance(spec, str):
            return create(function, "rf_layer",
                          fill(spec, self._fields, keep, owner, self._defaults))
        arguments: List[Any] = []
        for argument, kind in zip(spec, ffi.typeof(function).args):
            name = argument.lstrip("!")
            value = self._fields.get(name)
            value = zero_or(kind, owner, name, value, self._defaults.get(name))
            if isinstance(value, Layer):
                value = value._inner(self, name == getattr(self, "_shared", None))
            elif argument.startswith("!"):
                value = not value
            elif value is None:
                value = ffi.NULL
            else:
                with named(owner, name, value):
                    value = convert(kind, value, name, keep)
                    ffi.new(ffi.getctype(kind, "*"), value)  # which looks at type and range
            arguments.append(value)
        return create(function, "rf_layer", *arguments)

    def _inner(self, outer: Layer, shared: bool) -> Any:
        """This layer as a part of another one, which takes it over unless it is shared."""
        if shared:
            outer._shares.append(self)
            return self._make()
        if self._taken:
            raise ValueError(f"{type(outer).__name__}: the layer in it belongs to a model already")
        pointer = self._make()
        self._taken = True
        return pointer

    def _make_custom(self) -> Any:
        params = ffi.new("rf_custom_layer_params *")
        kind = ffi.new("char[]", type(self).__name__.encode())
        params.type = kind
        params.num_inputs = getattr(self, "_num_inputs", 1)
        params.num_outputs = self._num_outputs
        params.call = _on_custom_call
        user = ffi.new_handle(self)
        params.user = user
        self._kept += [kind, user]
        return create(lib.rf_layer_custom, "rf_layer", params)

    def _lend(self, owner: Model) -> Any:
        """The library's layer for a model: to the second one it gives one that shares it."""
        if self._taken and self._owner is not None:
            return create(lib.rf_layer_share, "rf_layer", self._pointer)
        return self._take(owner)

    def _take(self, owner: Model) -> Any:
        """Gives the layer to a model."""
        if self._taken:
            raise ValueError(f"layer {self.name or type(self).__name__!r} belongs to another "
                             "layer; make one for each place")
        pointer = self._make()
        self._taken = True
        self._owner = owner
        return pointer

    def _lose(self, owner: Model) -> None:
        """After a model could not be made: its layers are gone, too."""
        if self._owner is owner:
            self._pointer, self._owner, self._taken = None, None, False

    def __del__(self) -> None:
        if getattr(self, "_pointer", None) is not None and not self._taken:
            lib.rf_layer_destroy(ffi.new("rf_layer **", self._pointer))

    # -- calling it --

    def __call__(self, inputs: Any, *, training: Optional[bool] = None, mask: Any = None,
                 initial_state: Any = None) -> Any:
        """Applies the layer: to inputs of a model that is described, in a step, or to arrays."""
        given = as_list(inputs) + ([] if initial_state is None else as_list(initial_state))
        if any(isinstance(tensor, KerasTensor) for tensor in given):
            return self._record(given, mask)
        if self._c is None and current() is not None:
            return self._call_custom(inputs, training, mask)
        owner: Any = self._owner
        for model, mode in reversed(applying()):
            if model is owner and owner is not None:
                return self._apply(model, given, mode if training is None else training, mask)
        if owner is None:
            from .models import _Alone
            owner = _Alone(self, len(given))
        if getattr(owner, "_alone", None) is not self:
            raise ValueError(f"layer {self.name!r} belongs to model {owner.name!r}; call that, or "
                             "make a layer of its own for this place")
        return owner(given if len(given) > 1 else given[0], training=training, mask=mask)

    def _record(self, given: List[Any], mask: Any) -> Any:
        for tensor in given:
            if not isinstance(tensor, KerasTensor):
                raise TypeError(f"{type(self).__name__}: {type(tensor).__name__} is no tensor of a "
                                "model that is being described")
        if self._c is None:
            self._num_inputs = len(given)
        travels = self._travelling(given)
        first = KerasTensor(self, given, travels if mask is None and self._masks == "takes"
                            else mask)
        made = [first.output(i) for i in range(self._num_outputs)]
        first.travels = self._passed_on(given, travels if mask is None else mask)
        return first if len(made) == 1 else made

    def _travelling(self, given: List[KerasTensor]) -> Optional[KerasTensor]:
        """The mask that came with the inputs."""
        found = next((x.travels for x in given if x.travels is not None), None)
        if found is not None and self._masks == "refuses":
            raise ValueError(f"{type(self).__name__}: the input has a mask (mask_zero), which the "
                             "layer would not heed; leave out mask_zero, or pool behind a layer "
                             "that takes masks")
        return found

    def _passed_on(self, given: List[KerasTensor],
                   mask: Optional[KerasTensor]) -> Optional[KerasTensor]:
        """The mask that goes on with the output."""
        return mask if self._masks != "drops" else None

    def _apply(self, model: Model, given: List[Any], training: bool, mask: Any) -> Any:
        trace = current()
        assert trace is not None
        params = ffi.new("rf_layer_apply_params *")
        inputs = ffi.new("rf_tensor[]", [trace.take(x, "inputs") for x in given])
        setattr(params, "in", inputs)
        params.num_in = len(given)
        params.mask = optional(trace, mask, "mask")
        params.mode = int(training)
        out = ffi.new("rf_tensor[]", self._num_outputs)
        trace.check(lib.rf_layer_apply(trace.pointer, model.pointer, self._pointer, params, out,
                                       self._num_outputs))
        self.built = True
        made = tensors(trace, out, self._num_outputs)
        return made[0] if len(made) == 1 else made

    # -- layers of one's own --

    def build(self, input_shape: Any) -> None:
        """Makes the variables, for inputs of this shape; None is the batch."""

    def call(self, inputs: Any) -> Any:
        """Traces the layer."""
        raise NotImplementedError(f"{type(self).__name__} has no call()")

    def add_weight(self, name: str, shape: Sequence[int] = (), initializer: Any = "glorot_uniform",
                   trainable: bool = True) -> Variable:
        """A variable of the layer."""
        from .._variable import Variable
        from . import initializers
        from .models import strategy_here
        keep: List[Any] = []
        label = ffi.new("char[]", f"{self.name or snake_case(type(self).__name__)}/{name}".encode())
        params = ffi.new("rf_variable_params *", {"name": label, "not_trainable": not trainable})
        params.initializer = initializers.get(initializer).to_c(keep)[0]
        params.shape = shape_in(shape)
        strategy = strategy_here()
        pointer = create(lib.rf_variable_create, "rf_variable", strategy.pointer, params)
        made = Variable.borrowed(pointer, strategy, strategy)
        self._added.append(made)
        return made

    def _call_custom(self, inputs: Any, training: Optional[bool], mask: Any) -> Any:
        if not self.built:
            shapes = [(None,) + tuple(x.shape[1:]) for x in as_list(inputs)]
            self.build(shapes[0] if not isinstance(inputs, (list, tuple)) else shapes)
            self.built = True
        stack = applying()
        mode = training_here() if training is None else training
        with apply_in(stack[-1][0] if stack else self, mode):
            return call_python(self.call, inputs, mode, mask)

    def _sublayers(self) -> Iterator[Layer]:
        """The layers of the library in this one: itself, or those that it is made of."""
        if self._c is not None:
            yield self
        else:
            for part in parts_of(self, Layer):
                yield from part._sublayers()

    # -- what it has --

    @property
    def trainable(self) -> bool:
        """Whether fit trains it: of what is compiled afterwards."""
        return self._trainable

    @trainable.setter
    def trainable(self, value: bool) -> None:
        self._trainable = bool(value)
        if self._pointer is not None:
            lib.rf_layer_set_trainable(self._pointer, self._trainable)
        if self._c is None:
            for part in parts_of(self, Layer):
                part.trainable = value

    def _variables(self, trainable: bool) -> List[Variable]:
        from .models import model_variables
        if self._c is None:
            own = [variable for variable in self._added if variable.trainable == trainable]
            return own + [variable for part in parts_of(self, Layer)
                          for variable in part._variables(trainable)]
        if self._owner is None:
            return []
        prefix = f"{self.name}/"
        return [v for v in model_variables(self._owner, trainable) if v.name.startswith(prefix)]

    @property
    def trainable_variables(self) -> List[Variable]:
        """Variables that are trained; none before the layer is built."""
        return self._variables(True)

    @property
    def non_trainable_variables(self) -> List[Variable]:
        """Variables that are not trained, such as moving averages."""
        return self._variables(False)

    @property
    def weights(self) -> List[Variable]:
        """All variables, those that are trained first."""
        return self._variables(True) + self._variables(False)

    trainable_weights = trainable_variables
    non_trainable_weights = non_trainable_variables
    variables = weights

    def get_weights(self) -> List[Any]:
        """The values of :attr:`weights`."""
        return [variable.numpy() for variable in self.weights]

    def set_weights(self, weights: Sequence[Any]) -> None:
        """Gives values to :attr:`weights`."""
        assign_all(self.weights, weights, self.name or type(self).__name__)

    def count_params(self) -> int:
        """The number of numbers in its variables."""
        total = 0
        for variable in self.weights:
            size = 1
            for n in variable.shape:
                size *= n
            total += size
        return total

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name or ''}>"


def assign_all(variables: Sequence[Variable], values: Sequence[Any], owner: str) -> None:
    """Assigns values to variables, after looking at their number."""
    if len(variables) != len(values):
        raise ValueError(f"{owner}: {len(values)} arrays for {len(variables)} variables")
    for variable, value in zip(variables, values):
        variable.assign(value)


def _custom_call(pointer: Any, layer_pointer: Any, inputs: Any, outputs: Any, mode: int,
                 user: Any) -> int:
    layer: Layer = ffi.from_handle(user)
    from .models import strategy_here
    # fit may be called outside of the scope that the model was made in.
    strategy = strategy_here() if layer._owner is None else layer._owner.strategy
    with tracing(pointer, strategy) as trace:
        given = tensors(trace, inputs, getattr(layer, "_num_inputs", 1))
        with apply_in(layer, bool(mode)):
            made = layer._call_custom(given if len(given) > 1 else given[0], bool(mode), None)
        results = as_list(made)
        if len(results) != layer._num_outputs:
            raise ValueError(f"{type(layer).__name__}: call() gave {len(results)} tensors, not "
                             f"{layer._num_outputs}")
        for i, result in enumerate(results):
            outputs[i] = trace.take(result, "the result of call()")
    return 0


_on_custom_call = callback(ffi.getctype(
    dict(ffi.typeof("rf_custom_layer_params").fields)["call"].type), _custom_call)
