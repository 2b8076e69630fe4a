# SPDX-License-Identifier: Apache-2.0
"""Models, layers, and their training, with the names of Keras."""

from .. import datasets
from . import activations, callbacks, initializers, layers, losses, metrics, mixed_precision
from . import models, optimizers, regularizers, utils
from .layers import Input, Layer
from .models import Model, Sequential

__all__ = ["Input", "Layer", "Model", "Sequential", "activations", "callbacks", "datasets",
           "initializers", "layers", "losses", "metrics", "mixed_precision", "models",
           "optimizers", "regularizers", "utils"]
