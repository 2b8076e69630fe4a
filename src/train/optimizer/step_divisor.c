/* SPDX-License-Identifier: Apache-2.0 */
#include "train/optimizer/step_divisor.h"

#include <stdio.h>

#include "base/error.h"
#include "base/memory.h"
#include "ops/ops.h"

/* ---- what a loss was divided by ---- */

/* A divisor, and where it was found; kind NONE: none was. */
typedef struct finding {
    rf_step_divisor divisor;
    rf_value at; /* the quotient, or the mean */
} finding;

typedef struct search {
    const rf_trace *trace;
    const rf_graph *graph;
    bool *seen;           /* by value */
    bool *examples;       /* by value: they have a part in it */
    finding first, other; /* of another divisor */
} search;

static void note_finding(search *s, rf_value at, const rf_step_divisor *divisor)
{
    const rf_step_divisor *first = &s->first.divisor;
    if (first->kind == RF_DIVISOR_NONE)
        s->first = (finding){ *divisor, at };
    else if (first->kind != divisor->kind || first->weights != divisor->weights)
        s->other = (finding){ *divisor, at };
}

/* Examples have no part in what is made of variables and constants, such as a penalty. */
static void mark_examples(search *s)
{
    const rf_graph *g = s->graph;
    for (rf_value v = 1; v < g->values.count; v++)
        s->examples[v] = g->values.items[v].kind != RF_VALUE_RESULT && !rf_trace_leaf_is_common(s->trace, v);
    for (rf_node n = 0; n < g->nodes.count; n++) {
        const rf_node_info *node = &g->nodes.items[n];
        bool has = false;
        for (uint32_t i = 0; i < node->n_in; i++) has = has || s->examples[node->in[i]];
        for (uint32_t i = 0; i < node->n_out; i++) s->examples[node->out[i]] = has;
    }
}

static bool is_mean(const rf_node_info *node)
{
    return node->op == &rf_op_reduce && ((const rf_reduce_attr *)node->attr)->kind == RF_REDUCE_KIND_MEAN;
}

/* Backwards over scalars, of which a loss is made: products with weights, sums of losses and penalties. */
static void find_divisors(search *s, rf_value v)
{
    static const rf_step_divisor batch = { .kind = RF_DIVISOR_BATCH };
    if (v == 0 || s->seen[v] || rf_graph_desc(s->graph, v)->shape.rank > 0) return;
    s->seen[v] = true;
    const rf_value_info *info = &s->graph->values.items[v];
    const rf_step_divisor *weights = rf_trace_noted_divisor(s->trace, v);
    if (weights) {
        note_finding(s, v, weights);
        return;
    }
    if (info->kind != RF_VALUE_RESULT) return;
    const rf_node_info *node = &s->graph->nodes.items[info->producer];
    if (is_mean(node) && s->examples[node->in[0]]) note_finding(s, v, &batch);
    for (uint32_t i = 0; i < node->n_in; i++) {
        if (rf_trace_is_batch_size(s->trace, node->in[i])) note_finding(s, v, &batch);
        find_divisors(s, node->in[i]);
    }
}

/* "rf_compute_weighted_loss() by weights [8,3]" */
static const char *format_finding(const search *s, const finding *f, char *text, size_t size)
{
    const rf_graph *g = s->graph;
    const char *call = g->nodes.items[g->values.items[f->at].producer].call;
    char shape[96];
    if (f->divisor.kind == RF_DIVISOR_WEIGHTS)
        snprintf(text, size, "%s() by weights %s", call ? call : "a loss",
                 rf_shape_format(rf_graph_desc(g, f->divisor.weights)->shape, shape, sizeof(shape)));
    else
        snprintf(text, size, "%s() by examples", call ? call : "a loss");
    return text;
}

/* One factor for the gradients of all parts cannot make up for two divisors. */
static rf_result fail_mixed(const search *s)
{
    char first[160], other[160];
    return RF_FAIL(RF_ERROR_UNSUPPORTED,
                   "accumulation_steps: parts of the loss are divided by different numbers, %s and %s, which several "
                   "steps cannot add up to; divide all parts by the same one or by fixed numbers, or use "
                   "accumulation_steps 1",
                   format_finding(s, &s->first, first, sizeof(first)),
                   format_finding(s, &s->other, other, sizeof(other)));
}

rf_result rf_step_divisor_find(rf_trace *t, rf_value loss, rf_step_divisor *out)
{
    rf_graph *g = rf_trace_graph(t);
    const size_t count = g->values.count;
    bool *marks = rf_calloc(2 * count, sizeof(*marks));
    *out = (rf_step_divisor){ .kind = RF_DIVISOR_NONE };
    if (!marks) return RF_ERROR_OUT_OF_HOST_MEMORY;
    search s = { .trace = t, .graph = g, .seen = marks, .examples = marks + count };
    mark_examples(&s);
    find_divisors(&s, loss);
    rf_free(marks);
    if (s.other.at) return fail_mixed(&s);
    *out = s.first.divisor;
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
