# SPDX-License-Identifier: Apache-2.0
"""Models: layers one after the other, graphs of layers, and functions of one's own."""

from __future__ import annotations

import os
import weakref
from typing import Any, Callable, Iterator, List, Optional, Sequence, Tuple, Union

import numpy as np

from .._arrays import as_dense, dtype as element_type, shape_in
from .._lib import (Handle, callback, check, create, enum, ffi, lib, params, path_bytes,
                    text)
from .._strategy import get_strategy, quantize_params
from .._trace import Tensor, current, tensors as traced, trace_of
from .._values import Value
from .._variable import Variable
from ..lora import Adapters
from . import _graph, _weights
from ._fit import Trainer
from ._generate import Writer
from ._inference import Inference
from ._layer import Input, InputLayer, KerasTensor, Layer, apply_in, as_list, assign_all
from ._layer import call_python, parts_of, snake_case, tracing
from ._layer import training_here
from ._weights import Rules, WeightReport, WeightRule, report_of
from .metrics import table_of

__all__ = ["Inference", "Input", "Model", "ModelLayer", "Pretrained", "Sequential", "WeightReport",
           "WeightRule", "from_pretrained", "import_onnx", "load_model", "save_gguf",
           "strategy_here"]

Path = Union[str, "os.PathLike[str]"]


def strategy_here() -> Any:
    """The strategy of the step that is traced, else that of the scope."""
    trace = current()
    return get_strategy() if trace is None else trace.strategy


def model_variables(model: Model, trainable: bool) -> List[Variable]:
    """The variables of a model, always as the same objects."""
    listed = (lib.rf_model_variables if trainable else lib.rf_model_state_variables)(model.pointer)
    found = []
    for i in range(listed.count):
        key = int(ffi.cast("uintptr_t", listed.items[i]))
        variable = model._known_variables.get(key)
        if variable is None:
            variable = Variable.borrowed(listed.items[i], model, model.strategy,
                                         text(lib.rf_model_variable_name(model.pointer,
                                                                         listed.items[i])))
            model._known_variables[key] = variable
        found.append(variable)
    return found


class Model(Trainer, Adapters, Writer, Handle):
    """A model.

    ``Model(inputs, outputs)`` is a graph of layers between tensors of :func:`Input`. A subclass
    with ``call(self, inputs)`` is a function of one's own: it calls layers that are attributes of
    the model, and any operations; ``call`` may take ``training``. ``num_outputs`` is how many
    tensors it gives.
    """

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        if cls is Model and ("inputs" in kwargs or (args and not isinstance(args[0], str))):
            cls = Functional
        return super().__new__(cls)

    def __init__(self, name: Optional[str] = None, num_outputs: int = 1) -> None:
        self._begin(name)
        self._num_inputs = 1
        self._num_outputs = num_outputs

    def _begin(self, name: Optional[str]) -> None:
        self.name = name or snake_case(type(self).__name__)
        self._named = name is not None
        self._as_layer: Optional[ModelLayer] = None
        self.strategy = get_strategy()
        # The model must not be kept by its own variables.
        self._known_variables: Any = weakref.WeakValueDictionary()
        self._seen: List[Tuple[Any, Tuple[int, ...]]] = []
        self._begin_training()
        self.strategy.note(self)

    # -- making it --

    @property
    def core(self) -> Any:
        """The library's model, made when it is first needed."""
        if self._core is None:
            if "_seen" not in self.__dict__:
                raise RuntimeError(f"{type(self).__name__}.__init__() has to call "
                                   "super().__init__() first")
            from .mixed_precision import apply_policy
            apply_policy(self.strategy)
            self._name_layers()
            self._create()
        return super().core

    @property
    def pointer(self) -> Any:
        """What functions of the library take."""
        return self.core.pointer

    def _adopt_model(self, pointer: Any, *kept: Any) -> None:
        self.adopt(pointer, lib.rf_model_destroy, self.strategy)
        self.keep(*kept)

    def _create(self) -> None:
        params = ffi.new("rf_model_params *")
        handle = ffi.new_handle(weakref.ref(self))
        params.apply = _on_apply
        params.user = handle
        params.num_inputs = self._num_inputs
        params.num_outputs = self._num_outputs
        self._adopt_model(create(lib.rf_model_create, "rf_model", self.strategy.pointer, params),
                          handle)
        for layer in self._own_layers():
            for shared in layer._shares:
                if not shared._taken:
                    check(lib.rf_model_add_layer(self.pointer, shared._take(self)))
            if not layer._taken:
                check(lib.rf_model_add_layer(self.pointer, layer._take(self)))

    def _first_input(self) -> Optional[InputLayer]:
        """The input of a model that has one, where it is known before the model is built."""
        return None

    def _own_layers(self) -> Iterator[Layer]:
        """The layers of the library that are attributes of this model or of layers in it."""
        for part in parts_of(self, Layer):
            yield from part._sublayers()

    def _name_layers(self) -> None:
        """Names of layers, as the library numbers them. Another model's layers have theirs."""
        named = self._layers_with_names()
        taken = {layer.name if layer._taken else layer._given_name for layer in named}
        for layer in named:
            if layer._taken:
                continue
            base = layer._given_name or layer._base_name or snake_case(type(layer).__name__)
            name, number = base, 0
            while layer._given_name is None and name in taken:
                number += 1
                name = f"{base}_{number}"
            taken.add(name)
            layer.name = name

    def _layers_with_names(self) -> List[Layer]:
        """The layers that have names in this model: attributes, and layers of the library inside
        of layers of one's own."""
        return list(dict.fromkeys([*parts_of(self, Layer), *self._own_layers()]))

    def build(self, input_shape: Sequence[Optional[int]], dtype: Any = None) -> None:
        """Makes the variables, for inputs of this shape; its first entry is the batch, and None
        behind it a size that is left open."""
        shape = shape_in([-1 if n is None else int(n) for n in tuple(input_shape)[1:]])
        if dtype is None:
            check(lib.rf_model_build(self.pointer, shape))
        else:
            check(lib.rf_model_build_for(self.pointer, element_type(dtype).code, shape))

    @property
    def built(self) -> bool:
        """Whether the model has its variables.

        A step that fails takes back what it built. So a model that was called once is built for
        the same inputs, as a checkpoint wants it that begins a step again.
        """
        if self._core is None:
            return False
        if lib.rf_model_num_params(self.pointer) == 0 and self._seen and current() is None:
            spec = ffi.new("rf_element_spec *")
            spec.num_components = len(self._seen)
            for i, (kind, shape) in enumerate(self._seen):
                spec.dtype[i], spec.shape[i] = kind.code, shape_in(shape)
            check(lib.rf_model_build_inputs(self.pointer, spec))
        return self.count_params() > 0

    # -- calling it --

    def call(self, inputs: Any) -> Any:
        """The forward function of a subclass."""
        raise NotImplementedError(f"{type(self).__name__} has no call()")

    def __call__(self, inputs: Any, *, training: Optional[bool] = None, mask: Any = None) -> Any:
        """Applies the model: in a step, to arrays, or to inputs of a model that is described."""
        tensors = as_list(inputs)
        if any(isinstance(tensor, KerasTensor) for tensor in tensors):
            return self._record(tensors)
        self._want_inputs(len(tensors))
        trace = current()
        if trace is None:
            return self._call_eagerly(tensors, bool(training))
        if mask is not None:
            raise ValueError(f"{self.name}: a model takes no mask; make it an input")
        if training is None:
            training = training_here()
        handles = ffi.new("rf_tensor[]", [trace.take(x, "inputs") for x in tensors])
        self._seen = [(x.dtype, x.shape) for x in traced(trace, handles, len(tensors))]
        count = self.num_outputs
        out = ffi.new("rf_tensor[]", count)
        trace.check(lib.rf_model_apply(trace.pointer, self.pointer, handles, len(tensors),
                                       int(training), out, count))
        made = traced(trace, out, count)
        return made[0] if count == 1 else made

    def _want_inputs(self, count: int) -> None:
        """A model that is a function gets its number of inputs from its first call."""
        if self._core is None and type(self)._create is Model._create:
            self._num_inputs = count

    def _call_eagerly(self, tensors: List[Any], training: bool) -> Any:
        if training:
            made = [self.strategy.gather(result) for result in as_list(
                self.strategy.run(self._call_for_training, tuple(map(as_dense, tensors))))]
        else:
            made = [Value(array) for array in self._predict_arrays(tensors)]
        return made[0] if len(made) == 1 else made

    def _call_for_training(self, *inputs: Any) -> Any:
        return self(list(inputs), training=True)

    def _record(self, tensors: List[Any]) -> Any:
        """As a layer of a model that is described."""
        self._want_inputs(len(tensors))
        if self._as_layer is None:
            self._as_layer = ModelLayer(self)
        return self._as_layer(tensors if len(tensors) > 1 else tensors[0])

    def _applied(self, inputs: List[Tensor], training: bool) -> List[Any]:
        return as_list(call_python(self.call, inputs if len(inputs) > 1 else inputs[0], training))

    # -- what it has --

    @property
    def layers(self) -> List[Any]:
        """The layers, and the models that are layers or attributes."""
        return [thing for _, thing in self._named_layers()]

    def _named_layers(self) -> List[Tuple[Optional[str], Any]]:
        if self._core is None:
            self._name_layers()
        return [(part.name, part.model if isinstance(part, ModelLayer) else part)
                for part in parts_of(self, (Layer, Model))]

    def get_layer(self, name: Optional[str] = None, index: Optional[int] = None) -> Any:
        """A layer by its name or number; "encoder/dense" is the layer "dense" of the model
        "encoder" in this one."""
        if index is not None:
            return self.layers[index]
        found = self._named_layers()
        for own, layer in found:
            if own == name:
                return layer
            if isinstance(layer, Model) and name and name.startswith(f"{own}/"):
                return layer.get_layer(name[len(str(own)) + 1:])
        raise ValueError(f"model {self.name!r} has no layer {name!r}; there are "
                         f"{', '.join(str(own) for own, _ in found)}")

    @property
    def num_inputs(self) -> int:
        """How many inputs the model has."""
        return int(lib.rf_model_num_inputs(self.pointer))

    @property
    def num_outputs(self) -> int:
        """How many outputs the model has."""
        return int(lib.rf_model_num_outputs(self.pointer))

    @property
    def input_names(self) -> List[str]:
        """Names of the inputs."""
        return [text(lib.rf_model_input_name(self.pointer, i)) for i in range(self.num_inputs)]

    @property
    def output_names(self) -> List[str]:
        """Names of the outputs."""
        return [text(lib.rf_model_output_name(self.pointer, i)) for i in range(self.num_outputs)]

    @property
    def trainable(self) -> bool:
        """Whether any of its layers is trained."""
        return any(layer.trainable for layer in self.layers)

    @trainable.setter
    def trainable(self, value: bool) -> None:
        for layer in self.layers:
            layer.trainable = value

    @property
    def trainable_variables(self) -> List[Variable]:
        """Variables that are trained, in the order of their first use; none before it is built."""
        return model_variables(self, True)

    @property
    def non_trainable_variables(self) -> List[Variable]:
        """Variables that are not trained, such as moving averages."""
        return model_variables(self, False)

    @property
    def weights(self) -> List[Variable]:
        """All variables: first those that are trained, then the others."""
        return self.trainable_variables + self.non_trainable_variables

    trainable_weights = trainable_variables
    non_trainable_weights = non_trainable_variables
    variables = weights

    @property
    def losses(self) -> List[Tensor]:
        """In a step: the sum of the penalties of all layers, as a list of it; 0 without any."""
        trace = trace_of("losses")
        return [trace.made(lib.rf_model_regularization_loss(trace.pointer, self.pointer))]

    def metric_results(self, name: str) -> np.ndarray:
        """All values of a metric of compile() by its name in the logs: those of classes, or of a
        confusion matrix row after row. Collective."""
        metric, count = self._metric(name), ffi.new("uint32_t *")
        lib.rf_metric_results(metric, ffi.NULL, 0, count)
        out = np.empty(count[0], np.float64)
        check(lib.rf_metric_results(metric, ffi.from_buffer("double[]", out), len(out), ffi.NULL))
        return out

    def metric_table(self, name: str, class_names: Optional[Sequence[str]] = None) -> str:
        """A confusion matrix of compile() as text. Collective."""
        return table_of(self._metric(name), class_names)

    def _metric(self, name: str) -> Any:
        metric = lib.rf_model_metric(self.pointer, name.encode())
        if metric == ffi.NULL:
            raise ValueError(f"model {self.name!r} was compiled with no metric {name!r}")
        return metric

    def count_params(self) -> int:
        """The number of numbers in all variables."""
        return int(lib.rf_model_num_params(self.pointer))

    def get_weights(self) -> List[np.ndarray]:
        """The values of :attr:`weights`."""
        return [np.asarray(variable.numpy()) for variable in self.weights]

    def set_weights(self, weights: Sequence[Any]) -> None:
        """Gives values to :attr:`weights`."""
        assign_all(self.weights, weights, self.name)

    def summary(self, print_fn: Optional[Callable[[str], Any]] = None) -> None:
        """Prints the layers, the shapes of what they give, and their numbers of parameters."""
        out = ffi.new("char **")
        check(lib.rf_model_summary(self.pointer, out))
        try:
            (print_fn or print)(text(out[0]).rstrip("\n"))
        finally:
            lib.rf_string_free(out[0])

    # -- files --

    def save(self, filepath: Path, sharded: bool = False) -> None:
        """Saves the whole model: layers, weights, and what it is compiled with.

        ``sharded``: each worker of a job writes what it owns, into a file of its own.
        """
        check(lib.rf_model_save(self.pointer, path_bytes(filepath), _save_params(sharded)))

    def save_weights(self, filepath: Path, sharded: bool = False) -> None:
        """Saves the weights."""
        check(lib.rf_model_save_weights(self.pointer, path_bytes(filepath), _save_params(sharded)))

    def load_weights(self, filepath: Path, skip_mismatch: bool = False,
                     allow_missing: bool = False, refuse_left_over: bool = False,
                     rules: Rules = ()) -> WeightReport:
        """Sets the weights of a built model from any file that has them, and says which.

        ``rules`` maps patterns of names in the file to names of variables, as a dictionary or a
        list of :class:`WeightRule`. ``skip_mismatch`` leaves variables alone whose tensor has
        another shape, ``allow_missing`` those that have none; ``refuse_left_over`` makes tensors
        that no variable gets an error.
        """
        return _weights.load(self.pointer, path_bytes(filepath), rules,
                             skip_mismatch=skip_mismatch, allow_missing=allow_missing,
                             refuse_left_over=refuse_left_over)

    def export(self, filepath: Path, format: Optional[str] = None) -> None:
        """Writes the model for use without training.

        ``format`` is "onnx", "safetensors" (weights alone) or "inference", which
        :class:`ringfire.keras.models.Inference` loads; by default what the name's ending says.
        """
        path = path_bytes(filepath)
        kind = format or {b".onnx": "onnx", b".safetensors": "safetensors"}.get(
            os.path.splitext(path)[1], "inference")
        if kind == "onnx":
            check(lib.rf_model_export_onnx(self.pointer, path))
        elif kind == "safetensors":
            check(lib.rf_model_export_safetensors(self.pointer, path))
        elif kind == "inference":
            check(lib.rf_model_export(self.pointer, path, ffi.NULL))
        else:
            raise ValueError(f"export: format={format!r} is none of onnx, safetensors, inference")

    def _add_to(self, checkpoint: Any, name: bytes) -> None:
        check(lib.rf_checkpoint_add_model(checkpoint, name, self.pointer))

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name!r}>"


def _save_params(sharded: bool) -> Any:
    return ffi.new("rf_save_params *", {"sharded": sharded})


def _apply(pointer: Any, model_pointer: Any, inputs: Any, outputs: Any, mode: int,
           user: Any) -> int:
    model: Optional[Model] = ffi.from_handle(user)()
    if model is None:
        raise RuntimeError("a step uses a model that is gone")
    with tracing(pointer, model.strategy) as trace:
        given = traced(trace, inputs, model._num_inputs)
        with apply_in(model, bool(mode)):
            results = model._applied(given, bool(mode))
        if len(results) != model._num_outputs:
            raise ValueError(f"{model.name}: call() gave {len(results)} tensors, but the model has "
                             f"num_outputs={model._num_outputs}")
        for i, result in enumerate(results):
            outputs[i] = trace.take(result, "the result of call()")
    return 0


_on_apply = callback("rf_model_apply_fn", _apply)


class _Alone(Model):
    """A layer that is called outside of any model: a model of this layer."""

    def __init__(self, layer: Layer, num_inputs: int) -> None:
        self._begin(layer.name or snake_case(type(layer).__name__))
        self._alone = layer
        self._mask: Any = None
        self._num_inputs = num_inputs
        self._num_outputs = layer._num_outputs

    def __call__(self, inputs: Any, *, training: Optional[bool] = None, mask: Any = None) -> Any:
        if mask is None:
            return super().__call__(inputs, training=training)
        self._mask = mask
        try:
            return super().__call__(inputs, training=training)
        finally:
            self._mask = None

    def _applied(self, inputs: List[Tensor], training: bool) -> List[Any]:
        return as_list(self._alone(inputs, training=training, mask=self._mask))


class Sequential(Model):
    """Layers that are applied one after the other."""

    def __init__(self, layers: Optional[Sequence[Any]] = None, name: Optional[str] = None) -> None:
        self._begin(name)
        self._input: Optional[InputLayer] = None
        self._stack: List[Layer] = []
        self._num_inputs = self._num_outputs = 1
        for layer in layers or ():
            self.add(layer)

    def add(self, layer: Any) -> None:
        """Adds a layer; the first may be an Input."""
        if self._core is not None:
            raise ValueError(f"{self.name}: a layer cannot be added to a model that is in use")
        if isinstance(layer, KerasTensor):
            layer = layer.layer
        if isinstance(layer, InputLayer):
            if self._stack or self._input is not None:
                raise ValueError(f"{self.name}: an Input is the first layer")
            self._input = layer
        elif isinstance(layer, Model):
            if not self._stack and self._input is None:
                self._input = layer._first_input()
            self._stack.append(ModelLayer(layer))
        elif isinstance(layer, Layer):
            if layer._input_shape is not None and not self._stack and self._input is None:
                self._input = InputLayer(layer._input_shape, layer._dtype)
            self._stack.append(layer)
        else:
            raise TypeError(f"{self.name}: {layer!r} is no layer")

    def _graph(self) -> _graph.Graph:
        """The layers as a graph, along which masks travel."""
        if self._input is None:
            raise ValueError(f"{self.name}: mask_zero needs the shape of the input; begin with an "
                             "Input")
        start = x = Input(self._input.shape, self._input.dtype)
        for layer in self._stack:
            x = layer(x)
        return _graph.Graph(start, x, self.name)

    def _layers_with_names(self) -> List[Layer]:
        return self._stack

    def _first_input(self) -> Optional[InputLayer]:
        return self._input

    def pop(self) -> None:
        """Removes the last layer."""
        if self._core is not None:
            raise ValueError(f"{self.name}: a layer cannot be removed from a model that is in use")
        self._stack.pop()

    def _create(self) -> None:
        if not self._stack:
            raise ValueError(f"{self.name} has no layers")
        if any(getattr(layer, "_mask_zero", False) for layer in self._stack):
            self._adopt_model(self._graph().build(self))
            return
        layers = list(self._stack)
        pointers = ffi.new("rf_layer *[]", [layer._lend(self) for layer in layers])
        shape = ffi.NULL
        plain = self._input is not None and self._input.dtype.code == \
            element_type(layers[0]._dtype).code
        if self._input is not None and plain:
            shape = ffi.new("rf_shape *", shape_in(self._input.shape))
        try:
            made = create(lib.rf_model_create_sequential, "rf_model", self.strategy.pointer,
                          pointers, len(layers), shape)
        except Exception:
            for layer in layers:
                layer._lose(self)
            raise
        self._adopt_model(made)
        if self._input is not None and not plain:
            self.build((None,) + self._input.shape, self._input.dtype)


class Functional(Model):
    """A graph of layers; made by ``Model(inputs, outputs)``."""

    def __init__(self, inputs: Any, outputs: Any, name: Optional[str] = None) -> None:
        self._begin(name or "model")
        self._graph = _graph.Graph(inputs, outputs, self.name)
        self._in_graph = self._graph.layers
        self._num_inputs = len(self._graph.inputs)
        self._num_outputs = len(self._graph.outputs)

    def _create(self) -> None:
        self._adopt_model(self._graph.build(self))

    def _layers_with_names(self) -> List[Layer]:
        return self._in_graph

    def _first_input(self) -> Optional[InputLayer]:
        entry = self._graph.inputs[0].layer
        return entry if isinstance(entry, InputLayer) else None


class ModelLayer(Layer):
    """A model as a layer of other models, whose weights are the model's.

    ``last_layer`` ends it after the layer of that name, so that a loaded model gets another head.
    A model that is called in a functional model becomes one by itself.
    """

    _c = ("rf_layer_from_model", "rf_model_layer_params")

    def __init__(self, model: Model, last_layer: Optional[str] = None, name: Optional[str] = None,
                 trainable: bool = True) -> None:
        super().__init__(name=name or (model.name if model._named else None), trainable=trainable)
        self._label = model.name
        self.model = model
        self.last_layer = last_layer
        self._num_outputs = 1 if last_layer else model._num_outputs

    @property
    def _base_name(self) -> str:  # type: ignore[override]
        return self._label

    @property
    def trainable(self) -> bool:
        """Whether any of the model's layers is trained."""
        return self.model.trainable

    @trainable.setter
    def trainable(self, value: bool) -> None:
        self.model.trainable = value
        if self._pointer is not None:
            lib.rf_layer_set_trainable(self._pointer, bool(value))

    def _make_known(self, function_name: str, spec: Any) -> Any:
        params = ffi.new("rf_model_layer_params *", {"model": self.model.pointer})
        last = ffi.new("char[]", (self.last_layer or "").encode())
        if self.last_layer is not None:
            params.last_layer = last
        return create(lib.rf_layer_from_model, "rf_layer", params)


class _Loaded(Model):
    """A model from a file."""

    def __init__(self, pointer: Any, name: str) -> None:
        self._begin(name)
        self._adopt_model(pointer)
        self._num_inputs = self.num_inputs
        self._num_outputs = self.num_outputs
        self._compiled_in_file()

    def _named_layers(self) -> List[Tuple[Optional[str], Any]]:
        found = [lib.rf_model_layer_at(self.pointer, i)
                 for i in range(lib.rf_model_num_layers(self.pointer))]
        names = [text(lib.rf_layer_name(pointer)) for pointer in found]
        return [(name, LoadedLayer(self, pointer, name)) for name, pointer in zip(names, found)]

    def get_layer(self, name: Optional[str] = None, index: Optional[int] = None) -> Any:
        """A layer by its name or number; "encoder/dense" is the layer "dense" of the model
        "encoder" in this one."""
        pointer = ffi.NULL if name is None else lib.rf_model_find_layer(self.pointer, name.encode())
        if name is not None and pointer != ffi.NULL:
            return LoadedLayer(self, pointer, name)
        return super().get_layer(name, index)


class LoadedLayer:
    """A layer of a model from a file."""

    def __init__(self, model: Model, pointer: Any, name: str) -> None:
        self._model = model
        self._pointer = pointer
        self.name = name

    @property
    def trainable(self) -> bool:
        """Whether fit trains it: of what is compiled afterwards."""
        return bool(lib.rf_layer_trainable(self._pointer))

    @trainable.setter
    def trainable(self, value: bool) -> None:
        lib.rf_layer_set_trainable(self._pointer, bool(value))

    @property
    def weights(self) -> List[Variable]:
        """All variables, those that are trained first."""
        return [v for v in self._model.weights if v.name.startswith(f"{self.name}/")]

    def get_weights(self) -> List[np.ndarray]:
        """The values of :attr:`weights`."""
        return [np.asarray(variable.numpy()) for variable in self.weights]

    def set_weights(self, weights: Sequence[Any]) -> None:
        """Gives values to :attr:`weights`."""
        assign_all(self.weights, weights, self.name)

    def count_params(self) -> int:
        """The number of numbers in its variables."""
        return sum(int(np.prod(variable.shape)) for variable in self.weights)


def load_model(filepath: Path) -> Model:
    """A saved model, on the strategy of the scope: ready to evaluate, and to train if compiled."""
    name = os.path.splitext(os.path.basename(os.fspath(filepath)))[0]
    return _Loaded(create(lib.rf_model_load, "rf_model", get_strategy().pointer,
                          path_bytes(filepath)), name)


def import_onnx(filepath: Path,
                input_shapes: Sequence[Sequence[Optional[int]]] = ()) -> Model:
    """The model of an ONNX file, on the strategy of the scope, ready to be compiled and trained.

    ``input_shapes`` are shapes of an example of the first inputs, without the batch: numbers, or
    None again, for sizes that the file leaves open. Images have the file's layout, [c, h, w] of
    most programs.
    """
    shapes = ffi.new("rf_shape[]", [shape_in([-1 if d is None else d for d in shape])
                                    for shape in input_shapes])
    params = ffi.new("rf_import_onnx_params *", {"input_shapes": shapes,
                                                 "num_input_shapes": len(input_shapes)})
    name = os.path.splitext(os.path.basename(os.fspath(filepath)))[0]
    return _Loaded(create(lib.rf_model_import_onnx, "rf_model", get_strategy().pointer,
                          path_bytes(filepath), params), name)


class _Directory(Handle):
    """What rf_pretrained_open() made of a directory: it owns the model."""

    def __init__(self, path: Path, ignored_keys: Sequence[str], quantize: Optional[str],
                 weights: Sequence[str], **options: Any) -> None:
        strategy = get_strategy()
        keys = [ffi.new("char[]", key.encode()) for key in ignored_keys]
        few, _kept = quantize_params(quantize, weights)
        listed = ffi.new("const char *[]", keys)
        params = ffi.new("rf_pretrained_params *", {"ignored_keys": listed,
                                                    "num_ignored_keys": len(keys),
                                                    "quantize": few if quantize else ffi.NULL,
                                                    **options})
        self.adopt(create(lib.rf_pretrained_open, "rf_pretrained", strategy.pointer,
                          path_bytes(path), params), lib.rf_pretrained_destroy, strategy)


class Pretrained(_Loaded):
    """A model of a directory of the Hugging Face hub; made by ``from_pretrained()``."""

    def __init__(self, directory: _Directory, name: str) -> None:
        self._directory = directory
        super().__init__(lib.rf_pretrained_model(directory.pointer), name)

    def _adopt_model(self, pointer: Any, *kept: Any) -> None:
        self.adopt(pointer, None, self._directory)
        self.keep(*kept)

    def _generation_defaults(self) -> Any:
        """What ``generation_config.json`` says."""
        params = super()._generation_defaults()
        check(lib.rf_pretrained_generate_params(self._directory.pointer, params))
        return params

    @property
    def new_variables(self) -> List[str]:
        """Names of variables that begin anew instead of with the directory's values."""
        names: List[str] = []
        while found := lib.rf_pretrained_new_variable(self._directory.pointer, len(names)):
            names.append(text(found))
        return names

    @property
    def weight_report(self) -> WeightReport:
        """What became of the variables, and which tensors of the directory are not used."""
        return report_of(lib.rf_pretrained_weight_report(self._directory.pointer))

    def image_scale(self) -> Tuple[Tuple[float, ...], Tuple[float, ...]]:
        """Mean and deviation of each channel, of images in [0, 1], that
        ``preprocessor_config.json`` asks for; else 0 and 1."""
        params = ffi.new("rf_augment_params *")
        check(lib.rf_pretrained_image_scale(self._directory.pointer, params))
        return tuple(params.mean), tuple(params.deviation)

    def save_pretrained(self, directory: Path) -> None:
        """Writes a directory like the one that the model comes from, with its weights."""
        check(lib.rf_pretrained_save(self._directory.pointer, path_bytes(directory)))

    def save_gguf(self, filepath: Path, type: str = "f16", name: Optional[str] = None,
                  pre_tokenizer: Optional[str] = None) -> None:
        """Writes the model with its tokenizer as a file for llama.cpp and Ollama. Matrices are
        stored as "f32", "f16", "bf16" or "q8_0"."""
        keep: List[Any] = []
        settings = params("rf_pretrained_gguf_params", keep, type=enum("rf_gguf_type", type),
                          name=name, pre_tokenizer=pre_tokenizer)
        check(lib.rf_pretrained_save_gguf(self._directory.pointer, path_bytes(filepath), settings))


def save_gguf(directory: Path, filepath: Path, type: str = "f16", name: Optional[str] = None,
              pre_tokenizer: Optional[str] = None, base: Optional[Path] = None) -> None:
    """Writes the model of a directory as a file for llama.cpp and Ollama; or, with the directory of
    its ``base``, an adapter in PEFT's format."""
    keep: List[Any] = []
    settings = params("rf_pretrained_gguf_params", keep, type=enum("rf_gguf_type", type),
                      name=name, pre_tokenizer=pre_tokenizer)
    if base is None:
        check(lib.rf_gguf_from_directory(path_bytes(directory), path_bytes(filepath), settings))
    else:
        check(lib.rf_gguf_from_adapter(path_bytes(directory), path_bytes(base),
                                       path_bytes(filepath), settings))


def from_pretrained(directory: Path, sequence_length: int = 0,
                    ignored_keys: Sequence[str] = (), image_size: int = 0,
                    synchronized_batch_norm: bool = False, quantize: Optional[str] = None,
                    quantized_weights: Sequence[str] = (), class_names: Sequence[str] = (),
                    packed: bool = False) -> Pretrained:
    """The model of a directory of the Hugging Face hub, or of a GGUF file, on the strategy of the
    scope. What ``config.json`` asks for and is not there is an error, unless it is one of
    ``ignored_keys``.
    ``synchronized_batch_norm``: in training, statistics are those of the whole batch.
    ``quantize`` stores weights in few bits, as ``set_quantization()`` of strategies does.
    ``class_names``: the model becomes a classifier of these classes, whose head begins anew where
    the directory has none of that size.
    ``packed``: a decoder takes ``[input_ids, position_ids]``, as ``Dataset.pack()`` makes them."""
    name = os.path.basename(os.path.abspath(os.fspath(directory)))
    names = [ffi.new("char[]", one.encode()) for one in class_names]
    listed = ffi.new("const char *[]", names) if names else ffi.NULL
    return Pretrained(_Directory(directory, ignored_keys, quantize, quantized_weights,
                                 num_classes=len(names), class_names=listed,
                                 sequence_length=sequence_length, image_size=image_size,
                                 synchronized_batch_norm=synchronized_batch_norm,
                                 packed=packed), name)
