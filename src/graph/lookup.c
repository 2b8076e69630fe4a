/* SPDX-License-Identifier: Apache-2.0 */
#include "graph/internal.h"

void rf_graph_find_lookups(const rf_graph *graph, rf_lookup *lookups, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) lookups[i] = (rf_lookup){ 0 };
    for (uint32_t n = 0; n < graph->nodes.count; n++) {
        const rf_node_info *node = &graph->nodes.items[n];
        const rf_value_info *values = graph->values.items;
        if (node->dead || !node->op->choices) continue;
        const uint32_t index_input = node->op->index_input;
        const rf_value_info *indices = &values[values[node->in[index_input]].storage];
        if (indices->kind != RF_VALUE_INPUT || indices->slot >= count) continue;
        const rf_value table = node->in[index_input == 0];
        const rf_value_kind kind = values[values[table].storage].kind;
        rf_op_call call;
        rf_graph_call(graph, n, &call);
        const rf_choices choices = node->op->choices(&call);
        if (!choices.fixed && kind != RF_VALUE_STATE && kind != RF_VALUE_CONSTANT) continue;
        rf_lookup *lookup = &lookups[indices->slot];
        if (lookup->op && lookup->choices <= choices.count) continue;
        *lookup = (rf_lookup){ .op = node->op, .choices = choices.count, .table = table };
    }
}
