/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "ops/ops.h"
#include "ops/reduction/reduction.h"

static const rf_op *const all[] = {
    /* element-wise and broadcasting */
    &rf_op_elementwise,
    &rf_op_sum_to_like,
    &rf_op_fill_like,
    &rf_op_broadcast_like,
    /* linear */
    &rf_op_matmul,
    &rf_op_bias_add,
    &rf_op_conv2d,
    &rf_op_conv2d_data_grad,
    &rf_op_conv2d_filter_grad,
    /* pooling */
    &rf_op_max_pool2d,
    &rf_op_max_pool2d_grad,
    &rf_op_avg_pool2d,
    &rf_op_avg_pool2d_grad,
    /* shape */
    &rf_op_reshape,
    &rf_op_reshape_like,
    &rf_op_transpose,
    &rf_op_stop_gradient,
    /* reductions, softmax, losses */
    &rf_op_reduce,
    &rf_op_mean_scale,
    &rf_op_argmax,
    &rf_op_cumsum,
    &rf_op_softmax,
    &rf_op_softmax_grad,
    &rf_op_log_softmax,
    &rf_op_log_softmax_grad,
    &rf_op_one_hot,
    &rf_op_sparse_crossentropy,
    &rf_op_sparse_crossentropy_grad,
    &rf_op_crossentropy,
    &rf_op_crossentropy_grad,
    &rf_op_accuracy,
    /* random numbers, types */
    &rf_op_dropout,
    &rf_op_dropout_grad,
    &rf_op_cast,
    /* state */
    &rf_op_sgd_update,
    &rf_op_momentum_update,
    &rf_op_adam_update,
    &rf_op_rmsprop_update,
    &rf_op_accumulate,
    &rf_op_metric_accumulate,
};

const rf_op *const *rf_ops_all(uint32_t *count)
{
    *count = sizeof(all) / sizeof(all[0]);
    return all;
}

const rf_op *rf_ops_find(const char *name)
{
    for (uint32_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
        if (strcmp(all[i]->name, name) == 0) return all[i];
    return NULL;
}

const char *const rf_padding_names[] = { "valid", "same", "explicit" };
const char *const rf_activation_names[] = { "linear", "relu", "leaky_relu", "sigmoid", "tanh", "gelu", "softmax" };

const char *rf_padding_name(uint32_t padding)
{
    return padding <= RF_PADDING_EXPLICIT ? rf_padding_names[padding] : "?";
}

const char *rf_activation_name(uint32_t activation)
{
    return activation <= RF_ACTIVATION_SOFTMAX ? rf_activation_names[activation] : "?";
}

static rf_result add(rf_graph *graph, rf_value a, rf_value b, rf_value *out)
{
    return rf_emit_binary(graph, RF_FN_ADD, 0, a, b, out);
}

static rf_result alias(rf_graph *g, rf_value x, rf_value *out)
{
    return rf_emit_reshape_like(g, x, x, out);
}

static const rf_core_ops core = { .add = add, .fill_like = rf_emit_fill_like, .alias = alias };

const rf_core_ops *rf_ops_core(void)
{
    return &core;
}
