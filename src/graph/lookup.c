/* SPDX-License-Identifier: Apache-2.0 */
#include "base/error.h"
#include "graph/internal.h"

static int64_t choices_for(const rf_graph *graph, const rf_node_info *node, uint32_t other)
{
    rf_op_call call;
    rf_batch_shapes_call(graph, node, other, &call);
    return node->op->choices(&call);
}

rf_result rf_graph_find_lookups(rf_graph *graph, rf_lookup *lookups, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) lookups[i] = (rf_lookup){ 0 };
    RF_TRY(rf_batch_shapes_update(graph));
    for (uint32_t n = 0; n < graph->nodes.count; n++) {
        const rf_node_info *node = &graph->nodes.items[n];
        const rf_value_info *values = graph->values.items;
        if (node->dead || !node->op->choices) continue;
        const uint32_t index_input = node->op->index_input;
        const rf_value_info *indices = &values[values[node->in[index_input]].storage];
        if (indices->kind != RF_VALUE_INPUT || indices->slot >= count) continue;
        const rf_value table = node->in[index_input == 0];
        rf_op_call call;
        rf_graph_call(graph, n, &call);
        const int64_t choices = node->op->choices(&call);
        if (choices != choices_for(graph, node, 0) || choices != choices_for(graph, node, 1)) continue;
        rf_lookup *lookup = &lookups[indices->slot];
        if (lookup->op && lookup->choices <= choices) continue;
        *lookup = (rf_lookup){ .op = node->op, .choices = choices, .table = table };
    }
    return RF_OK;
}
