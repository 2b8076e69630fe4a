/* SPDX-License-Identifier: Apache-2.0 */
#include "base/error.h"
#include "graph/internal.h"

void rf_graph_needed(const rf_graph *graph, const rf_value *results, uint32_t num_results, bool *needed)
{
    for (uint32_t i = 0; i < num_results; i++) needed[results[i]] = true;
    /* Nodes follow what they read, so backwards each is met after all its readers. */
    for (rf_node n = graph->nodes.count; n-- > 0;) {
        const rf_node_info *node = &graph->nodes.items[n];
        bool wanted = false;
        for (uint32_t i = 0; i < node->n_out; i++) wanted = wanted || needed[node->out[i]];
        for (uint32_t i = 0; wanted && !node->dead && i < node->n_in; i++) needed[node->in[i]] = true;
    }
}

rf_result rf_graph_replay(const rf_graph *from, const bool *needed, rf_graph *to, rf_value *map)
{
    for (rf_node n = 0; n < from->nodes.count; n++) {
        const rf_node_info *node = &from->nodes.items[n];
        bool wanted = false;
        for (uint32_t i = 0; i < node->n_out; i++) wanted = wanted || !needed || needed[node->out[i]];
        if (node->dead || !wanted) continue;
        rf_value in[RF_MAX_INPUTS], out[RF_MAX_OUTPUTS] = { 0 };
        for (uint32_t i = 0; i < node->n_in; i++) in[i] = map[node->in[i]];
        RF_TRY(rf_graph_add(to, node->op, node->attr, in, node->n_in, out));
        for (uint32_t i = 0; i < node->n_out; i++) map[node->out[i]] = out[i];
    }
    return RF_OK;
}
