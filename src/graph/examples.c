/* SPDX-License-Identifier: Apache-2.0 */
#include "graph/examples.h"

#include "base/error.h"
#include "graph/batch_dims.h"

static bool dim_known(rf_examples_dim d)
{
    return d.outer > 0;
}

static bool dim_follows(const rf_examples *x, int32_t d)
{
    return x->follows >> d & 1;
}

static int64_t multiply_dims(const rf_shape *shape, int32_t from, int32_t to)
{
    int64_t n = 1;
    for (int32_t d = from; d < to; d++) n *= shape->dim[d];
    return n;
}

/* Elements by the dimensions: only where a single one of them depends on the batch. */
static void settle_elements(rf_examples *x)
{
    const bool several = (x->follows & (x->follows - 1)) != 0;
    x->kind = several ? RF_EXAMPLES_UNKNOWN : RF_EXAMPLES_NONE;
    for (int32_t d = 0; d < x->shape.rank && x->kind == RF_EXAMPLES_NONE; d++) {
        if (!dim_follows(x, d)) continue;
        x->kind = dim_known(x->dim[d]) ? RF_EXAMPLES_EACH : RF_EXAMPLES_UNKNOWN;
        x->outer = x->dim[d].outer * multiply_dims(&x->shape, 0, d);
        x->inner = x->dim[d].inner * multiply_dims(&x->shape, d + 1, x->shape.rank);
        return;
    }
}

void rf_examples_set_dim(rf_examples *out, int32_t axis, rf_examples_dim dim)
{
    out->dim[axis] = dim;
    settle_elements(out);
}

/* Dimensions by the elements: a dimension whose rows do not begin and end with the examples' is unknown. */
static void fit_dims(rf_examples *x)
{
    const bool single = (x->follows & (x->follows - 1)) == 0;
    for (int32_t d = 0; d < x->shape.rank; d++) {
        if (!dim_follows(x, d)) continue;
        const int64_t before = multiply_dims(&x->shape, 0, d), after = multiply_dims(&x->shape, d + 1, x->shape.rank);
        const bool fits = single && x->outer % before == 0 && x->inner % after == 0;
        x->dim[d] = fits ? (rf_examples_dim){ x->outer / before, x->inner / after } : RF_EXAMPLES_DIM_UNKNOWN;
    }
}

static bool is_one(const rf_examples *x, int32_t d)
{
    return x->shape.dim[d] == 1 && !dim_follows(x, d);
}

static bool same_dim(const rf_examples *a, int32_t i, const rf_examples *b, int32_t k)
{
    return a->shape.dim[i] == b->shape.dim[k] && a->batches[i] == b->batches[k] &&
           dim_follows(a, i) == dim_follows(b, k);
}

/* Dimensions of length 1 may come and go. */
static bool match_dims(const rf_examples *in, rf_examples *out)
{
    int32_t i = 0;
    for (int32_t d = 0; d < out->shape.rank; d++) {
        if (is_one(out, d)) continue;
        while (i < in->shape.rank && is_one(in, i)) i++;
        if (i == in->shape.rank || !same_dim(in, i, out, d)) return false;
        out->dim[d] = in->dim[i++];
    }
    return true;
}

/* The same bytes under another shape. */
static void follow_view(const rf_examples *in, rf_examples *out)
{
    out->kind = in->kind;
    out->outer = in->outer;
    out->inner = in->inner;
    if (in->kind == RF_EXAMPLES_EACH)
        fit_dims(out);
    else if (!match_dims(in, out))
        for (int32_t d = 0; d < out->shape.rank; d++)
            if (dim_follows(out, d)) out->dim[d] = RF_EXAMPLES_DIM_UNKNOWN;
}

static bool is_like(const rf_examples *a, const rf_examples *b)
{
    bool like = a->shape.rank == b->shape.rank;
    for (int32_t d = 0; like && d < a->shape.rank; d++) like = same_dim(a, d, b, d);
    return like;
}

/* An input of the output's shape has its elements in the same places. False where there is none, or two disagree. */
static bool follow_same_shape(const rf_examples *const *in, uint32_t n_in, rf_examples *out)
{
    const rf_examples *found = NULL;
    for (uint32_t i = 0; i < n_in; i++) {
        if (in[i]->kind != RF_EXAMPLES_EACH || !is_like(in[i], out)) continue;
        if (found && (found->outer != in[i]->outer || found->inner != in[i]->inner)) return false;
        found = in[i];
    }
    if (found) *out = *found;
    return found != NULL;
}

/* A dimension counts as one of an input's does that is as long in batches; where inputs disagree it is unknown. */
static rf_examples_dim follow_dim(const rf_examples *const *in, uint32_t n_in, int64_t batches)
{
    rf_examples_dim found = RF_EXAMPLES_DIM_UNKNOWN;
    for (uint32_t i = 0; i < n_in; i++)
        for (int32_t d = 0; d < in[i]->shape.rank; d++) {
            const rf_examples_dim one = in[i]->dim[d];
            if (!dim_known(one) || one.outer * one.inner != batches) continue;
            if (dim_known(found) && found.outer != one.outer) return RF_EXAMPLES_DIM_UNKNOWN;
            found = one;
        }
    return found;
}

/* `out` has its shape. */
static void follow_output(const rf_op *op, const rf_examples *const *in, uint32_t n_in, rf_examples *out)
{
    if (n_in > 0 && op->flags & RF_OP_VIEW) {
        follow_view(in[0], out);
        return;
    }
    if (out->follows != 0 && follow_same_shape(in, n_in, out)) return;
    for (int32_t d = 0; d < out->shape.rank; d++)
        if (dim_follows(out, d))
            out->dim[d] = out->batches[d] > 0 ? follow_dim(in, n_in, out->batches[d]) : RF_EXAMPLES_DIM_UNKNOWN;
    settle_elements(out);
}

static rf_result describe_value(rf_graph *graph, rf_value v, rf_examples *out)
{
    *out = (rf_examples){ .shape = rf_graph_desc(graph, v)->shape };
    RF_TRY(rf_graph_batch_dims(graph, v, &out->follows));
    for (int32_t d = 0; d < out->shape.rank; d++) {
        rf_batch_dim dim;
        bool linear;
        RF_TRY(rf_graph_batch_dim(graph, v, d, &dim, &linear));
        if (linear && dim.fixed == 0) out->batches[d] = dim.per_example;
    }
    return RF_OK;
}

/* A value that fits the traced batch alone has a shape that says nothing, and so has all that comes of it. */
static bool is_fixed(const rf_examples *x)
{
    return x->kind == RF_EXAMPLES_UNKNOWN && x->follows == 0;
}

static rf_result follow_node(rf_examples_map *map, rf_graph *graph, rf_node n)
{
    const rf_examples *in[RF_MAX_INPUTS];
    const rf_node_info *node = &graph->nodes.items[n];
    const char *lost_by = node->call ? node->call : node->op->name;
    for (uint32_t i = 0; i < node->n_out; i++)
        if (node->out[i]) RF_TRY(describe_value(graph, node->out[i], &map->items[node->out[i]]));
    bool fixed = node->fixed; /* known by now */
    for (uint32_t i = 0; i < node->n_in; i++) {
        in[i] = &map->items[node->in[i]];
        fixed |= is_fixed(in[i]);
        if (in[i]->kind == RF_EXAMPLES_UNKNOWN) lost_by = in[i]->lost_by;
    }
    for (uint32_t i = 0; i < node->n_out; i++) {
        if (node->out[i] == 0) continue;
        rf_examples *out = &map->items[node->out[i]];
        if (fixed)
            out->kind = out->shape.rank > 0 ? RF_EXAMPLES_UNKNOWN : RF_EXAMPLES_NONE;
        else
            follow_output(node->op, in, node->n_in, out);
        if (out->follows != 0 && node->op->examples) node->op->examples(node->attr, in, node->n_in, i, out);
        out->lost_by = lost_by;
    }
    return RF_OK;
}

rf_result rf_examples_follow(rf_examples_map *map, rf_graph *graph)
{
    RF_TRY(rf_array_reserve((void **)&map->items, &map->capacity, graph->values.count, sizeof(*map->items)));
    for (; map->num_values < graph->values.count; map->num_values++) {
        const rf_value v = map->num_values;
        if (v == 0 || graph->values.items[v].kind == RF_VALUE_RESULT) continue;
        RF_TRY(describe_value(graph, v, &map->items[v]));
        if (map->items[v].follows != 0) rf_examples_set_dim(&map->items[v], 0, (rf_examples_dim){ 1, 1 });
    }
    for (; map->num_nodes < graph->nodes.count; map->num_nodes++) RF_TRY(follow_node(map, graph, map->num_nodes));
    return RF_OK;
}

void rf_examples_map_free(rf_examples_map *map)
{
    rf_free(map->items);
    *map = (rf_examples_map){ 0 };
}
