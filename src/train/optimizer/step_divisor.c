/* SPDX-License-Identifier: Apache-2.0 */
#include "train/optimizer/step_divisor.h"

#include "base/memory.h"
#include "ops/ops.h"

/* ---- what a loss was divided by ---- */

typedef struct search {
    const rf_trace *trace;
    const rf_graph *graph;
    bool *seen; /* by value */
    bool batch, mixed;
    const rf_step_divisor *weights; /* NULL: none found */
} search;

static bool is_mean(const rf_node_info *node)
{
    return node->op == &rf_op_reduce && ((const rf_reduce_attr *)node->attr)->kind == RF_REDUCE_KIND_MEAN;
}

/* Backwards over scalars, of which a loss is made: products with weights, sums of losses and penalties. */
static void find_divisors(search *s, rf_value v)
{
    if (v == 0 || s->seen[v] || rf_graph_desc(s->graph, v)->shape.rank > 0) return;
    s->seen[v] = true;
    const rf_value_info *info = &s->graph->values.items[v];
    const rf_step_divisor *weights = rf_trace_noted_divisor(s->trace, v);
    if (weights) {
        s->mixed = s->mixed || (s->weights && s->weights->total != weights->total);
        s->weights = weights;
        return;
    }
    s->batch = s->batch || rf_trace_is_batch_size(s->trace, v);
    if (info->kind != RF_VALUE_RESULT) return;
    const rf_node_info *node = &s->graph->nodes.items[info->producer];
    s->batch = s->batch || is_mean(node);
    for (uint32_t i = 0; i < node->n_in; i++) find_divisors(s, node->in[i]);
}

rf_result rf_step_divisor_find(rf_trace *t, rf_value loss, rf_step_divisor *out)
{
    rf_graph *g = rf_trace_graph(t);
    search s = { .trace = t, .graph = g, .seen = RF_NEW_ARRAY(bool, g->values.count) };
    *out = (rf_step_divisor){ .kind = RF_DIVISOR_NONE };
    if (!s.seen) return RF_ERROR_OUT_OF_HOST_MEMORY;
    find_divisors(&s, loss);
    rf_free(s.seen);
    if (s.weights && !s.batch && !s.mixed)
        *out = *s.weights;
    else if (s.weights || s.batch) /* of several there is no common one but the examples */
        out->kind = RF_DIVISOR_BATCH;
    return RF_OK;
}

/* ---- what that makes of the step ---- */

/* The replica's own weights are added to those of the steps before. */
static rf_result add_weights(rf_graph *g, const rf_step_weighing *w, rf_value own)
{
    rf_value before, sum;
    RF_TRY(rf_emit_reshape(g, w->state, RF_SCALAR_SHAPE, &before));
    RF_TRY(rf_emit_binary(g, RF_FN_MULTIPLY, 0, before, w->keep, &before));
    RF_TRY(rf_emit_binary(g, RF_FN_ADD, 0, before, own, &sum));
    RF_TRY(rf_emit_reshape(g, sum, RF_SHAPE(1), &sum));
    return rf_emit_update(g, &rf_op_assign, NULL, (rf_value[]){ w->state, sum }, 2);
}

rf_result rf_step_weigh(rf_trace *t, rf_updater *updater, rf_value loss, rf_value *factor)
{
    rf_graph *g = rf_trace_graph(t);
    rf_step_divisor divisor;
    rf_step_weighing w;
    *factor = 0;
    RF_TRY(rf_step_divisor_find(t, loss, &divisor));
    RF_TRY(rf_trace_weigh_step(t, updater, &divisor, &w));
    *factor = w.unit;
    if (divisor.kind != RF_DIVISOR_WEIGHTS) return RF_OK;
    RF_TRY(add_weights(g, &w, divisor.own));
    RF_TRY(rf_emit_binary(g, RF_FN_MULTIPLY, 0, divisor.total, w.unit, factor));
    return rf_emit_stop_gradient(g, *factor, factor);
}
