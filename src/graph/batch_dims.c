/* SPDX-License-Identifier: Apache-2.0 */
#include "graph/batch_dims.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "graph/internal.h"

/* Pairs of other batches: the traced one times a number, and some more. The first pair is large enough for strides and
 * roundings to show, and can be divided as the traced one can. Closer pairs are for steps that have no room for it. */
static const struct {
    int64_t times[2], more[2];
} pairs[] = {
    { { 7, 11 }, { 0, 0 } },
    { { 2, 3 }, { 0, 0 } },
    { { 1, 1 }, { 1, 2 } },
    { { 1, 1 }, { -1, -2 } },
};
enum { NUM_PAIRS = sizeof(pairs) / sizeof(pairs[0]) };

/* ---- shapes for the other batches ---- */

/* That of all inputs; 0: there are none, or they do not agree, and count no examples. */
static int64_t find_batch(const rf_graph *graph)
{
    int64_t batch = 0;
    for (rf_value v = 1; v < graph->values.count; v++) {
        const rf_value_info *value = &graph->values.items[v];
        if (value->kind != RF_VALUE_INPUT || value->desc.shape.rank == 0) continue;
        if (batch != 0 && value->desc.shape.dim[0] != batch) return 0;
        batch = value->desc.shape.dim[0];
    }
    return batch;
}

static int64_t other_batch(const rf_graph *graph, uint32_t other)
{
    const uint32_t pair = graph->batches.pair;
    return graph->batches.examples * pairs[pair].times[other] + pairs[pair].more[other];
}

static rf_shape leaf_shape(const rf_graph *graph, const rf_value_info *leaf, uint32_t other)
{
    rf_shape shape = leaf->desc.shape;
    if (leaf->kind == RF_VALUE_INPUT && shape.rank > 0 && graph->batches.examples > 0)
        shape.dim[0] = other_batch(graph, other);
    return shape;
}

void rf_batch_shapes_call(const rf_graph *graph, const rf_node_info *node, uint32_t other, rf_op_call *call)
{
    *call = (rf_op_call){ .op = node->op, .attr = node->attr, .n_in = node->n_in };
    for (uint32_t i = 0; i < node->n_in; i++)
        call->in[i] =
            (rf_tensor_desc){ rf_graph_desc(graph, node->in[i])->dtype, graph->batches.items[node->in[i]].at[other] };
}

/* For both batches; false where the node does not fit one of them. */
static bool infer_others(const rf_graph *graph, const rf_node_info *node, rf_op_call calls[2])
{
    for (uint32_t other = 0; other < 2; other++) {
        rf_batch_shapes_call(graph, node, other, &calls[other]);
        if (rf_op_infer(&calls[other]) < 0 || calls[other].n_out != node->n_out) return false;
    }
    return true;
}

static void learn_node(rf_graph *graph, rf_node n)
{
    rf_node_info *node = &graph->nodes.items[n];
    rf_op_call calls[2];
    node->fixed = !infer_others(graph, node, calls);
    for (uint32_t i = 0; i < node->n_out; i++)
        for (uint32_t other = 0; other < 2; other++)
            graph->batches.items[node->out[i]].at[other] =
                node->fixed ? rf_graph_desc(graph, node->out[i])->shape : calls[other].out[i].shape;
}

rf_result rf_batch_shapes_update(rf_graph *graph)
{
    if (graph->batches.count == graph->values.count && graph->batches.nodes == graph->nodes.count) return RF_OK;
    bool more_inputs = false;
    for (rf_value v = graph->batches.count; v < graph->values.count; v++)
        more_inputs |= graph->values.items[v].kind == RF_VALUE_INPUT;
    const int64_t examples = more_inputs ? find_batch(graph) : graph->batches.examples;
    if (examples != graph->batches.examples) rf_batch_shapes_forget(graph);
    graph->batches.examples = examples;
    RF_TRY(rf_array_reserve((void **)&graph->batches.items, &graph->batches.capacity, graph->values.count,
                            sizeof(*graph->batches.items)));
    for (rf_value v = graph->batches.count; v < graph->values.count; v++)
        for (uint32_t other = 0; other < 2; other++)
            graph->batches.items[v].at[other] = leaf_shape(graph, &graph->values.items[v], other);
    graph->batches.count = graph->values.count;
    rf_error_record before;
    rf_error_save(&before);
    for (; graph->batches.nodes < graph->nodes.count; graph->batches.nodes++)
        if (!graph->nodes.items[graph->batches.nodes].dead) learn_node(graph, graph->batches.nodes);
    (void)rf_error_restore(&before); /* what does not fit is no failure yet */
    return RF_OK;
}

void rf_batch_shapes_forget(rf_graph *graph)
{
    graph->batches.count = graph->batches.nodes = 0;
}

/* ---- questions ---- */

static bool dim_follows(const rf_graph *graph, rf_value v, int32_t d)
{
    const int64_t traced = rf_graph_desc(graph, v)->shape.dim[d];
    const rf_batch_shapes *others = &graph->batches.items[v];
    return others->at[0].dim[d] != traced || others->at[1].dim[d] != traced;
}

rf_result rf_graph_batch_dims(rf_graph *graph, rf_value v, uint32_t *out)
{
    *out = 0;
    RF_TRY(rf_batch_shapes_update(graph));
    for (int32_t d = 0; d < rf_graph_desc(graph, v)->shape.rank; d++)
        if (dim_follows(graph, v, d)) *out |= 1u << d;
    return RF_OK;
}

rf_result rf_graph_other_shape(rf_graph *graph, rf_value v, rf_shape *out)
{
    RF_TRY(rf_batch_shapes_update(graph));
    *out = graph->batches.items[v].at[0];
    return RF_OK;
}

rf_result rf_graph_same_shapes(rf_graph *graph, rf_value a, rf_value b, bool *same)
{
    RF_TRY(rf_batch_shapes_update(graph));
    const rf_batch_shapes *items = graph->batches.items;
    *same = rf_shape_equal(rf_graph_desc(graph, a)->shape, rf_graph_desc(graph, b)->shape);
    for (uint32_t other = 0; other < 2; other++) *same &= rf_shape_equal(items[a].at[other], items[b].at[other]);
    return RF_OK;
}

static bool find_dim(const rf_graph *graph, rf_value v, int32_t d, int64_t batch, rf_batch_dim *out)
{
    const int64_t size = rf_graph_desc(graph, v)->shape.dim[d];
    const rf_batch_shapes *others = &graph->batches.items[v];
    *out = (rf_batch_dim){ .fixed = size };
    if (!dim_follows(graph, v, d)) return true;
    const int64_t first = other_batch(graph, 0), more = others->at[1].dim[d] - others->at[0].dim[d];
    const int64_t examples = other_batch(graph, 1) - first;
    if (more % examples != 0) return false;
    *out = (rf_batch_dim){ more / examples, size - more / examples * batch };
    return others->at[0].dim[d] == out->per_example * first + out->fixed;
}

rf_result rf_graph_batch_dim(rf_graph *graph, rf_value v, int32_t d, rf_batch_dim *out, bool *linear)
{
    RF_TRY(rf_batch_shapes_update(graph));
    *linear = find_dim(graph, v, d, graph->batches.examples, out);
    return RF_OK;
}

/* ---- what fits the traced batch alone ---- */

/* "[2*n + 1, n, 3]", n being the number of examples. */
static void format_shape(const rf_graph *graph, rf_value v, int64_t batch, char *text, size_t size)
{
    const int32_t rank = rf_graph_desc(graph, v)->shape.rank;
    size_t used = (size_t)snprintf(text, size, "[");
    for (int32_t d = 0; d < rank && used < size; d++) {
        rf_batch_dim dim;
        char factor[24] = "", rest[24] = "";
        const char *comma = d > 0 ? ", " : "";
        const bool linear = find_dim(graph, v, d, batch, &dim);
        if (dim.per_example > 1) snprintf(factor, sizeof(factor), "%lld*", (long long)dim.per_example);
        if (dim.fixed != 0)
            snprintf(rest, sizeof(rest), " %c %lld", dim.fixed < 0 ? '-' : '+', llabs((long long)dim.fixed));
        if (!linear)
            used += (size_t)snprintf(text + used, size - used, "%s?", comma);
        else if (dim.per_example == 0)
            used += (size_t)snprintf(text + used, size - used, "%s%lld", comma, (long long)dim.fixed);
        else
            used += (size_t)snprintf(text + used, size - used, "%s%sn%s", comma, factor, rest);
    }
    if (used < size) snprintf(text + used, size - used, "]");
}

/* Whether the node takes a batch of one example more; true where its inputs do not say what they are then. */
static bool takes_one_more(const rf_graph *graph, const rf_node_info *node)
{
    const int64_t batch = graph->batches.examples;
    rf_op_call call;
    rf_batch_shapes_call(graph, node, 0, &call);
    for (uint32_t i = 0; i < node->n_in; i++)
        for (int32_t d = 0; d < call.in[i].shape.rank; d++) {
            rf_batch_dim dim;
            if (!find_dim(graph, node->in[i], d, batch, &dim)) return true;
            call.in[i].shape.dim[d] = dim.per_example * (batch + 1) + dim.fixed;
        }
    return rf_op_infer(&call) >= 0;
}

/* The op's own words for a batch of one more, or of those that were tried. */
static void find_reason(const rf_graph *graph, const rf_node_info *node)
{
    rf_op_call call;
    if (!takes_one_more(graph, node)) return;
    for (uint32_t other = 0; other < 2; other++) {
        rf_batch_shapes_call(graph, node, other, &call);
        if (rf_op_infer(&call) < 0) return;
    }
    (void)RF_FAIL(RF_ERROR_INTERNAL, "%s: the number of results changes", node->op->name);
}

static rf_result explain_node(rf_graph *graph, const rf_node_info *node)
{
    const int64_t batch = graph->batches.examples;
    char text[1024], shape[96];
    size_t used = (size_t)snprintf(text, sizeof(text), "%s", node->call ? node->call : node->op->name);
    for (uint32_t i = 0; i < node->n_in && used < sizeof(text); i++) {
        format_shape(graph, node->in[i], batch, shape, sizeof(shape));
        used += (size_t)snprintf(text + used, sizeof(text) - used, "%s%s",
                                 i == 0               ? " of "
                                 : i + 1 < node->n_in ? ", "
                                                      : " and ",
                                 shape);
    }
    rf_error_record before;
    rf_error_save(&before);
    find_reason(graph, node);
    if (used < sizeof(text))
        snprintf(text + used, sizeof(text) - used, " fits n = %lld alone (%s)", (long long)batch, rf_error_message());
    (void)rf_error_restore(&before);
    graph->fixed_by = rf_arena_strdup(&graph->arena, text);
    return graph->fixed_by ? RF_OK : RF_ERROR_OUT_OF_HOST_MEMORY;
}

/* The first node that is needed and fits the traced batch alone; NULL: there is none. */
static const rf_node_info *find_fixed(const rf_graph *graph, const bool *needed)
{
    for (rf_node n = 0; n < graph->nodes.count; n++) {
        const rf_node_info *node = &graph->nodes.items[n];
        bool wanted = !needed || node->op->mutates != 0;
        for (uint32_t i = 0; i < node->n_out; i++) wanted = wanted || needed[node->out[i]];
        if (wanted && node->fixed && !node->dead) return node;
    }
    return NULL;
}

static bool is_dead(const rf_graph *graph, rf_value v)
{
    const rf_value_info *value = &graph->values.items[v];
    return value->kind == RF_VALUE_RESULT && graph->nodes.items[value->producer].dead;
}

/* The first gradient that is needed and has its value's shape in the traced batch alone; NULL: there is none. */
static const rf_shape_pair *find_unlike(const rf_graph *graph, const bool *needed)
{
    for (uint32_t i = 0; i < graph->gradients.count; i++) {
        const rf_shape_pair *pair = &graph->gradients.items[i];
        const rf_batch_shapes *a = &graph->batches.items[pair->value], *b = &graph->batches.items[pair->gradient];
        if (is_dead(graph, pair->value) || is_dead(graph, pair->gradient))
            continue; /* of what is dead nothing is known */
        if (needed && !needed[pair->gradient]) continue;
        if (!rf_shape_equal(a->at[0], b->at[0]) || !rf_shape_equal(a->at[1], b->at[1])) return pair;
    }
    return NULL;
}

static rf_result explain_unlike(rf_graph *graph, const rf_shape_pair *pair)
{
    const rf_value_info *gradient = &graph->values.items[pair->gradient];
    const char *call = gradient->kind == RF_VALUE_RESULT ? graph->nodes.items[gradient->producer].call : NULL;
    char text[512], shapes[2][96];
    format_shape(graph, pair->value, graph->batches.examples, shapes[0], sizeof(shapes[0]));
    format_shape(graph, pair->gradient, graph->batches.examples, shapes[1], sizeof(shapes[1]));
    snprintf(text, sizeof(text), "the gradient of %s is %s for %s and fits n = %lld alone",
             call ? call : "an operation", shapes[1], shapes[0], (long long)graph->batches.examples);
    graph->fixed_by = rf_arena_strdup(&graph->arena, text);
    return graph->fixed_by ? RF_OK : RF_ERROR_OUT_OF_HOST_MEMORY;
}

static rf_result use_pair(rf_graph *graph, uint32_t pair)
{
    if (graph->batches.pair != pair) rf_batch_shapes_forget(graph);
    graph->batches.pair = pair;
    return rf_batch_shapes_update(graph);
}

static rf_result check_needed(rf_graph *graph, const bool *needed)
{
    for (uint32_t pair = 0; pair < NUM_PAIRS; pair++) {
        if (pair > 0 && graph->batches.examples + pairs[pair].more[1] < 1) continue;
        RF_TRY(use_pair(graph, pair));
        if (!find_fixed(graph, needed) && !find_unlike(graph, needed)) return RF_OK;
    }
    RF_TRY(use_pair(graph, 0));
    const rf_node_info *fixed = find_fixed(graph, needed);
    return fixed ? explain_node(graph, fixed) : explain_unlike(graph, find_unlike(graph, needed));
}

rf_result rf_graph_check_batches(rf_graph *graph, const rf_value *results, uint32_t num_results)
{
    graph->batches_checked = true;
    graph->fixed_by = NULL;
    bool *needed = results ? RF_NEW_ARRAY(bool, graph->values.count) : NULL;
    if (results && !needed) return RF_ERROR_OUT_OF_HOST_MEMORY;
    for (rf_node n = 0; needed && n < graph->nodes.count; n++) {
        const rf_node_info *node = &graph->nodes.items[n];
        for (uint32_t i = 0; node->op->mutates && !node->dead && i < node->n_in; i++) needed[node->in[i]] = true;
    }
    if (needed) rf_graph_needed(graph, results, num_results, needed);
    const rf_result r = check_needed(graph, needed);
    rf_free(needed);
    return r;
}

/* ---- rewriting ---- */

bool rf_batch_shapes_fit(const rf_graph *graph, const rf_op_call *call, const rf_value *in, const rf_value *out,
                         rf_batch_shapes *made)
{
    rf_node_info node = { .op = call->op, .attr = call->attr, .n_in = call->n_in, .n_out = call->n_out };
    memcpy(node.in, in, call->n_in * sizeof(*in));
    rf_op_call calls[2];
    rf_error_record before;
    rf_error_save(&before);
    /* The others are multiples of the traced batch, which some ops can be fused for alone. */
    bool fits = infer_others(graph, &node, calls) && takes_one_more(graph, &node);
    (void)rf_error_restore(&before);
    for (uint32_t other = 0; fits && other < 2; other++)
        for (uint32_t i = 0; i < call->n_out; i++) {
            made[i].at[other] = calls[other].out[i].shape;
            fits &= !out[i] || rf_shape_equal(made[i].at[other], graph->batches.items[out[i]].at[other]);
        }
    return fits;
}
