/* SPDX-License-Identifier: Apache-2.0 */
#include "base/error.h"
#include "graph/internal.h"

static rf_result run_node(const rf_graph *graph, rf_node n, rf_arena *arena, void **values)
{
    const rf_node_info *node = &graph->nodes.items[n];
    void *in[RF_MAX_INPUTS] = { 0 }, *out[RF_MAX_OUTPUTS] = { 0 };
    for (uint32_t i = 0; i < node->n_in; i++) {
        in[i] = values[node->in[i]];
        if (!in[i] && rf_op_reads(node->op, i))
            return RF_FAIL(RF_ERROR_INVALID_ARGUMENT, "%s: input %u, value %u, was given no bytes", node->op->name, i,
                           node->in[i]);
    }
    if (node->op->flags & RF_OP_VIEW) {
        /* The same bytes, so that updates in place show through as they do on a device. */
        values[node->out[0]] = in[0];
        return RF_OK;
    }
    if (!node->op->reference)
        return RF_FAIL(RF_ERROR_UNSUPPORTED, "%s: has no reference, so it cannot be interpreted", node->op->name);
    for (uint32_t i = 0; i < node->n_out; i++) {
        const uint64_t size = rf_tensor_bytes(rf_graph_desc(graph, node->out[i]));
        out[i] = values[node->out[i]] = rf_arena_alloc(arena, size ? (size_t)size : 1);
        if (!out[i]) return RF_ERROR_OUT_OF_HOST_MEMORY;
    }
    rf_op_call call;
    rf_graph_call(graph, n, &call);
    const rf_result r = rf_op_reference(&call, in, out);
    return r < 0 ? rf_error_context(r, "interpreting '%s'", node->op->name) : RF_OK;
}

rf_result rf_graph_interpret(const rf_graph *graph, rf_arena *arena, void **values)
{
    for (uint32_t v = 1; v < graph->values.count; v++) {
        /* Never written: only states may be updated in place. */
        if (graph->values.items[v].kind == RF_VALUE_CONSTANT)
            values[v] = (void *)(uintptr_t)graph->values.items[v].data;
    }
    for (uint32_t n = 0; n < graph->nodes.count; n++) {
        if (!graph->nodes.items[n].dead) RF_TRY(run_node(graph, n, arena, values));
    }
    return RF_OK;
}
