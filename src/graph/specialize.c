/* SPDX-License-Identifier: Apache-2.0 */
#include "base/error.h"
#include "graph/batch_dims.h"
#include "graph/internal.h"

/* Shapes for the batch into descs[], which holds those of the leaves. */
static rf_result infer_all(const rf_graph *graph, rf_tensor_desc *descs)
{
    for (uint32_t n = 0; n < graph->nodes.count; n++) {
        const rf_node_info *node = &graph->nodes.items[n];
        if (node->dead) continue;
        rf_op_call call = { .op = node->op, .attr = node->attr, .n_in = node->n_in };
        for (uint32_t i = 0; i < node->n_in; i++) call.in[i] = descs[node->in[i]];
        const rf_result r = rf_op_infer(&call);
        if (r < 0) return node->call ? rf_error_context(r, "%s", node->call) : r;
        if (call.n_out != node->n_out)
            return RF_FAIL(RF_ERROR_INTERNAL, "%s: the number of outputs depends on the batch", node->op->name);
        for (uint32_t i = 0; i < node->n_out; i++) descs[node->out[i]] = call.out[i];
    }
    return RF_OK;
}

static rf_result check_limits(const rf_graph *graph, int64_t batch)
{
    for (uint32_t i = 0; i < graph->limits.count; i++) {
        const rf_batch_limit *limit = &graph->limits.items[i];
        RF_REQUIRE(batch >= limit->least && batch <= limit->most, "%s: %lld examples", limit->reason, (long long)batch);
    }
    return RF_OK;
}

static rf_result refuse_batch(rf_result r, int64_t traced, int64_t batch)
{
    return rf_error_context(r,
                            "a step traced with %lld examples does not fit a batch of %lld (a shape in it is fixed to "
                            "the traced batch; use -1 in rf_reshape(), and no constants of the batch's size)",
                            (long long)traced, (long long)batch);
}

rf_result rf_graph_specialize(rf_graph *graph, int64_t batch)
{
    int64_t traced = batch;
    bool any = false;
    for (uint32_t v = 1; v < graph->values.count; v++) {
        const rf_value_info *value = &graph->values.items[v];
        if (value->kind != RF_VALUE_INPUT) continue;
        RF_REQUIRE(value->desc.shape.rank > 0, "input %u is a scalar and has no batch dimension", value->slot);
        any = true;
        if (value->desc.shape.dim[0] != batch) traced = value->desc.shape.dim[0];
    }
    if (!any) return RF_OK;
    RF_REQUIRE(batch > 0, "batch: %lld examples; there must be at least one", (long long)batch);
    RF_TRY(check_limits(graph, batch));
    if (traced == batch) return RF_OK;

    /* Refused as well where the shapes of this batch happen to fit: a size of 1 broadcasts to all others. */
    if (!graph->batches_checked) RF_TRY(rf_graph_check_batches(graph, NULL, 0));
    if (graph->fixed_by) return refuse_batch(RF_FAIL(RF_ERROR_INVALID_ARGUMENT, "%s", graph->fixed_by), traced, batch);
    rf_tensor_desc *descs = RF_NEW_ARRAY(rf_tensor_desc, graph->values.count);
    if (!descs) return RF_ERROR_OUT_OF_HOST_MEMORY;
    for (uint32_t v = 1; v < graph->values.count; v++) {
        descs[v] = graph->values.items[v].desc;
        if (graph->values.items[v].kind == RF_VALUE_INPUT) descs[v].shape.dim[0] = batch;
    }
    rf_result r = infer_all(graph, descs);
    if (r < 0) {
        r = refuse_batch(r, traced, batch);
    } else {
        rf_batch_shapes_forget(graph);
        for (uint32_t v = 1; v < graph->values.count; v++) graph->values.items[v].desc = descs[v];
    }
    rf_free(descs);
    return r;
}
