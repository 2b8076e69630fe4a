/* SPDX-License-Identifier: Apache-2.0 */
#include "replica/schedule/range_graph.h"

#include "base/memory.h"

rf_result rf_range_graph_located(rf_range_graph *g, const void *object, rf_location at, rf_tensor_desc desc,
                                 rf_value *out)
{
    RF_TRY(RF_VEC_GROW(&g->states));
    RF_TRY(rf_graph_state(g->graph, object, desc, NULL, out));
    if (g->graph->values.items[*out].slot < g->states.count) return RF_OK;
    g->states.items[g->states.count++] = at;
    return RF_OK;
}

rf_result rf_range_graph_shaped(rf_range_graph *g, const void *object, rf_gpu_buffer *buffer, uint64_t offset,
                                rf_shape shape, rf_value *out)
{
    const rf_location at = { buffer, offset * sizeof(float) };
    return rf_range_graph_located(g, object, at, (rf_tensor_desc){ RF_F32, shape }, out);
}

rf_result rf_range_graph_state(rf_range_graph *g, const void *object, rf_gpu_buffer *buffer, uint64_t offset,
                               uint64_t count, rf_value *out)
{
    return rf_range_graph_shaped(g, object, buffer, offset, RF_SHAPE((int64_t)count), out);
}

rf_result rf_range_graph_result(rf_range_graph *g, rf_value v)
{
    RF_TRY(RF_VEC_GROW(&g->results));
    g->results.items[g->results.count++] = v;
    return RF_OK;
}

rf_result rf_range_graph_place(rf_range_graph *g, rf_value v, rf_location at)
{
    RF_TRY(RF_VEC_GROW(&g->placements));
    g->placements.items[g->placements.count++] = (rf_program_placement){ .value = v, .at = at };
    return RF_OK;
}

rf_result rf_range_graph_program(const rf_range_graph *g, rf_exec *exec, const char *name, bool picks_numbers,
                                 rf_program **out)
{
    const rf_program_params params = { .name = name,
                                       .graph = g->graph,
                                       .results = g->results.items,
                                       .num_results = g->results.count,
                                       .states = g->states.items,
                                       .placements = g->placements.items,
                                       .num_placements = g->placements.count,
                                       .picks_numbers = picks_numbers };
    *out = NULL;
    return g->graph->nodes.count > 0 ? rf_program_create(exec, &params, out) : RF_OK;
}

void rf_range_graph_free(rf_range_graph *g)
{
    rf_graph_destroy(&g->graph);
    rf_free(g->states.items);
    rf_free(g->results.items);
    rf_free(g->placements.items);
}
