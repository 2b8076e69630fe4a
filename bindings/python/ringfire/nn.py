# SPDX-License-Identifier: Apache-2.0
"""Operations of neural networks; after tf.nn."""
from __future__ import annotations

from ._ctc import ctc_beam_search_decoder, ctc_greedy_decoder, edit_distance
from ._functions import (attention, avg_pool2d, compute_average_loss, compute_weighted_loss, conv2d,
                         conv2d_transpose, ctc_loss, depth_to_space, group_norm, layer_norm,
                         log_softmax, max_pool2d, moments, resize2d, rms_norm,
                         scale_regularization_loss, softmax, softmax_cross_entropy_with_logits,
                         space_to_depth, sparse_softmax_cross_entropy_with_logits, top_k,
                         upsample2d)
from ._ops import (bias_add, dropout, elu, gelu, global_avg_pool2d, hard_sigmoid, hard_silu,
                   leaky_relu, mish, orthogonalize, relu, selu, sigmoid, silu, softplus, tanh)

swish = silu
