/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where a crossentropy of probabilities is made from the logits instead. A model that is sure of the wrong class has
 * probabilities that are exactly 0 and 1: their logarithm is cut off, and no gradient comes through. Keras goes back to
 * the logits for the same reason.
 */
#include "trace/logits.h"

#include "trace/trace.h"

static bool node_squashes(const rf_node_info *node, rf_squash squash)
{
    if (squash == RF_SQUASH_SOFTMAX) return node->op == &rf_op_softmax;
    if (node->op != &rf_op_elementwise) return false;
    const rf_elementwise_attr *program = node->attr;
    return program->n_steps == 1 && program->steps[0].fn == RF_FN_SIGMOID;
}

/* The elements of each row along the last axis stay together, in their order, whatever the batch is. */
static bool keeps_last_axis(const rf_graph *g, const rf_node_info *node)
{
    const rf_shape x = rf_graph_desc(g, node->in[0])->shape, y = rf_graph_desc(g, node->out[0])->shape;
    const int32_t last = x.rank - 1;
    if (x.rank < 1 || y.rank < 1) return false;
    if (node->op == &rf_op_reshape) return ((const rf_shape *)node->attr)->dim[y.rank - 1] == x.dim[last];
    if (node->op == &rf_op_reshape_like) return node->in[1] == node->in[0];
    if (node->op == &rf_op_expand_dims) return (int32_t)((const rf_axis_attr *)node->attr)->axis < y.rank - 1;
    if (node->op == &rf_op_squeeze) return (int32_t)((const rf_axis_attr *)node->attr)->axis < last;
    if (node->op == &rf_op_transpose) return ((const int32_t *)node->attr)[last] == last;
    if (node->op != &rf_op_slice) return true;
    const rf_slice_attr *range = node->attr;
    return range->step[last] == 0 ||
           (range->step[last] == 1 && range->begin[last] == 0 && range->end[last] == INT64_MAX);
}

/* The node only moves what it is given, so that the same can be done to logits. */
static bool node_moves(const rf_graph *g, const rf_node_info *node, rf_squash squash)
{
    static const rf_op *const moving[] = { &rf_op_reshape,   &rf_op_reshape_like, &rf_op_expand_dims,   &rf_op_squeeze,
                                           &rf_op_transpose, &rf_op_slice,        &rf_op_stop_gradient, &rf_op_cast };
    bool moves = false;
    for (size_t i = 0; i < sizeof(moving) / sizeof(moving[0]); i++) moves = moves || node->op == moving[i];
    if (!moves || !rf_dtype_is_float(rf_graph_desc(g, node->out[0])->dtype)) return false;
    return squash == RF_SQUASH_SIGMOID || keeps_last_axis(g, node);
}

/* *logits is 0 where there are none. Types of 16 bits do not hold what f32 logits may be: those stay f32 here. */
static rf_result find_logits(rf_graph *g, rf_value v, rf_squash squash, rf_value *logits)
{
    *logits = 0;
    if (g->values.items[v].kind != RF_VALUE_RESULT) return RF_OK;
    rf_node_info node = g->nodes.items[g->values.items[v].producer]; /* a copy: nodes that are added move the array */
    if (node_squashes(&node, squash)) {
        *logits = node.in[0];
        return RF_OK;
    }
    rf_value inner;
    if (!node_moves(g, &node, squash)) return RF_OK;
    RF_TRY(find_logits(g, node.in[0], squash, &inner));
    if (inner == 0) return RF_OK;
    const rf_dtype dtype = rf_graph_desc(g, v)->dtype;
    if (node.op == &rf_op_cast && dtype != RF_F32) {
        *logits = inner;
        return RF_OK;
    }
    if (node.op == &rf_op_cast) return rf_emit_cast(g, inner, dtype, logits);
    if (node.n_in > 1 && node.in[1] == node.in[0]) node.in[1] = inner;
    node.in[0] = inner;
    return rf_graph_add(g, node.op, node.attr, node.in, node.n_in, logits);
}

/* The predictions and what they come from up to the activation: none of it is on the way from the loss to the logits.
 */
static rf_result pass_over(rf_trace *t, rf_value v, rf_squash squash, rf_value logits)
{
    const rf_graph *g = rf_trace_graph(t);
    for (;;) {
        const rf_node_info *node = &g->nodes.items[g->values.items[v].producer];
        RF_TRY(rf_trace_pass_over(t, v, logits));
        if (node_squashes(node, squash)) return RF_OK;
        v = node->in[0];
    }
}

rf_tensor rf_logits_behind(rf_trace *t, rf_tensor predictions, rf_squash squash)
{
    rf_graph *g = rf_trace_graph(t);
    rf_value v, logits;
    if (!rf_operand(t, predictions, "predictions", &v)) return RF_NO_TENSOR;
    rf_result r = find_logits(g, v, squash, &logits);
    if (r >= 0 && logits == 0) return RF_NO_TENSOR;
    if (r >= 0) r = rf_emit_cast(g, logits, rf_graph_desc(g, v)->dtype, &logits);
    if (r >= 0) r = g->core->alias(g, logits, &logits);
    if (r >= 0) r = pass_over(t, v, squash, logits);
    return rf_trace_emit(t, r, logits);
}
