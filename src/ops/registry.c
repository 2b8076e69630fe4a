/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "base/error.h"
#include "ops/ops.h"

#define RF_OP_ADDRESS(name) &rf_op_##name,
static const rf_op *const all[] = { RF_ALL_OPS(RF_OP_ADDRESS) };

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
const char *const rf_activation_names[] = { "linear", "relu",     "leaky_relu", "sigmoid",   "tanh",
                                            "gelu",   "softmax",  "gelu_tanh",  "silu",      "elu",
                                            "selu",   "softplus", "mish",       "hard_silu", "hard_sigmoid" };

const char *rf_padding_name(uint32_t padding)
{
    return padding <= RF_PADDING_EXPLICIT ? rf_padding_names[padding] : "?";
}

const char *rf_activation_name(uint32_t activation)
{
    return activation < RF_ACTIVATION_COUNT ? rf_activation_names[activation] : "?";
}

static rf_result node_add(rf_graph *graph, rf_value a, rf_value b, rf_value *out)
{
    return rf_emit_binary(graph, RF_FN_ADD, 0, a, b, out);
}

static rf_result node_alias(rf_graph *g, rf_value x, rf_value *out)
{
    return rf_emit_reshape_like(g, x, x, out);
}

static rf_result node_scale(rf_graph *graph, rf_value x, rf_value scalar, rf_value *out)
{
    return rf_emit_binary(graph, RF_FN_MULTIPLY, 0, x, scalar, out);
}

static rf_result accumulate_total(rf_graph *g, rf_value total, rf_value x)
{
    return rf_emit_update(g, &rf_op_accumulate, NULL, (rf_value[]){ total, x }, 2);
}

static rf_result sum_squares(rf_graph *g, rf_value x, float scale, bool blocks, rf_value *out)
{
    if (scale != 1.0f) RF_TRY(rf_emit_unary(g, RF_FN_MUL_IMM, scale, x, &x));
    if (blocks) return rf_emit_block_squares(g, x, out);
    return rf_emit_reduce(g, RF_REDUCE_KIND_SUM_SQUARES, x, NULL, 0, false, out);
}

static const rf_core_ops core = {
    .add = node_add,
    .scale = node_scale,
    .fill_like = rf_emit_fill_like,
    .alias = node_alias,
    .cast = rf_emit_cast,
    .conversion = &rf_op_cast,
    .update = { .accumulate = accumulate_total,
                .sum_squares = sum_squares,
                .unscale = rf_emit_unscale,
                .overflow_check = rf_emit_overflow_check,
                .loss_scale = rf_emit_loss_scale,
                .numbers = rf_emit_update_numbers },
};

const rf_core_ops *rf_ops_core(void)
{
    return &core;
}
