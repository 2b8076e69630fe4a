/* SPDX-License-Identifier: Apache-2.0 */
/* Common subexpressions: equal constants and equal pure nodes are merged, and aliases are replaced by their values. */
#include "base/error.h"
#include "graph/internal.h"

typedef struct sharing {
    rf_graph *graph;
    rf_value *map;
    rf_graph_index seen; /* constants and nodes that stay */
    rf_node *updated;    /* of each state: 1 + the last node so far that updates it in place, 0: none */
} sharing;

/* The contents of what the node reads have not changed since it ran. */
static bool is_current(const sharing *s, rf_node n)
{
    const rf_node_info *node = &s->graph->nodes.items[n];
    for (uint32_t i = 0; i < node->n_in; i++) {
        const rf_value storage = s->graph->values.items[node->in[i]].storage;
        if (rf_op_reads(node->op, i) && s->updated[storage] > n) return false;
    }
    return true;
}

static rf_result share_constants(sharing *s)
{
    for (rf_value v = 1; v < s->graph->values.count; v++) {
        const rf_value_info *value = &s->graph->values.items[v];
        if (value->kind != RF_VALUE_CONSTANT) continue;
        RF_TRY(rf_graph_index_reserve(s->graph, &s->seen));
        uint32_t *slot = rf_graph_index_leaf(s->graph, &s->seen, value);
        if (*slot)
            s->map[v] = rf_graph_index_number(*slot);
        else
            rf_graph_index_put(&s->seen, slot, v, false);
    }
    return RF_OK;
}

static void rename_inputs(const sharing *s, rf_node n)
{
    rf_node_info *node = &s->graph->nodes.items[n];
    rf_graph_count_uses(s->graph, node, -1);
    for (uint32_t i = 0; i < node->n_in; i++) node->in[i] = s->map[node->in[i]];
    rf_graph_count_uses(s->graph, node, 1);
    if (node->op->flags & RF_OP_VIEW)
        s->graph->values.items[node->out[0]].storage = s->graph->values.items[node->in[0]].storage;
}

/* A view of a value in the value's own shape. */
static bool is_alias(const rf_graph *graph, const rf_node_info *node)
{
    return (node->op->flags & RF_OP_VIEW) && node->n_in == 2 && node->in[0] == node->in[1] &&
           rf_shape_equal(rf_graph_desc(graph, node->out[0])->shape, rf_graph_desc(graph, node->in[0])->shape);
}

static rf_result share_node(sharing *s, rf_node n)
{
    RF_TRY(rf_graph_index_reserve(s->graph, &s->seen));
    rename_inputs(s, n);
    const rf_node_info *node = &s->graph->nodes.items[n];
    if (node->op->mutates) {
        for (uint32_t i = 0; i < node->n_in; i++)
            if (node->op->mutates >> i & 1) s->updated[s->graph->values.items[node->in[i]].storage] = n + 1;
        return RF_OK;
    }
    if (is_alias(s->graph, node)) {
        s->map[node->out[0]] = node->in[0];
        rf_graph_remove_node(s->graph, n);
        return RF_OK;
    }
    uint32_t *slot = rf_graph_index_node(s->graph, &s->seen, node);
    if (*slot && is_current(s, rf_graph_index_number(*slot))) {
        const rf_node_info *first = &s->graph->nodes.items[rf_graph_index_number(*slot)];
        for (uint32_t i = 0; i < node->n_out; i++) s->map[node->out[i]] = first->out[i];
        rf_graph_remove_node(s->graph, n);
    } else {
        rf_graph_index_put(&s->seen, slot, n, true);
    }
    return RF_OK;
}

void rf_graph_substitute(rf_graph *graph, rf_value from, rf_value to)
{
    for (rf_node n = 0; n < graph->nodes.count; n++) {
        rf_node_info *node = &graph->nodes.items[n];
        if (node->dead) continue;
        rf_graph_count_uses(graph, node, -1);
        for (uint32_t i = 0; i < node->n_in; i++)
            if (node->in[i] == from) node->in[i] = to;
        rf_graph_count_uses(graph, node, 1);
        if (node->op->flags & RF_OP_VIEW)
            graph->values.items[node->out[0]].storage = graph->values.items[node->in[0]].storage;
    }
}

rf_result rf_graph_merge_common(rf_graph *graph, rf_value *map)
{
    sharing s = { .graph = graph, .map = map, .updated = RF_NEW_ARRAY(rf_node, graph->values.count) };
    for (rf_value v = 0; v < graph->values.count; v++) map[v] = v;
    rf_result r = s.updated ? share_constants(&s) : RF_ERROR_OUT_OF_HOST_MEMORY;
    for (rf_node n = 0; r >= 0 && n < graph->nodes.count; n++)
        if (!graph->nodes.items[n].dead) r = share_node(&s, n);
    rf_free(s.seen.slots);
    rf_free(s.updated);
    return r;
}
