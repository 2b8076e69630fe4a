/* SPDX-License-Identifier: Apache-2.0 */
/* Sums over replicas within a run: which there are, and where the run is cut for them. */
#include "exec/internal.h"

/* The value whose bytes a node's input is. */
static rf_value storage_of(const rf_graph *g, const rf_node_info *node, uint32_t i)
{
    return node->in[i] && !(node->op->shape_only >> i & 1) ? g->values.items[node->in[i]].storage : 0;
}

static bool reads_pending(const rf_graph *g, const rf_node_info *node, const rf_program_sum *sums, uint32_t first,
                          uint32_t count)
{
    for (uint32_t i = 0; i < node->n_in; i++) {
        const rf_value storage = storage_of(g, node, i);
        for (uint32_t k = first; storage && k < count; k++)
            if (sums[k].out == storage) return true;
    }
    return false;
}

uint32_t rf_list_sums(const rf_graph *g, const bool *runs, uint64_t alignment, rf_program_sum *sums, uint32_t *count)
{
    uint32_t part = 0, first = 0; /* of the sums that the part ends with */
    uint64_t offset = 0;
    *count = 0;
    for (rf_node n = 0; n < g->nodes.count; n++) {
        const rf_node_info *node = &g->nodes.items[n];
        if (node->dead || !runs[n] || (node->op->flags & RF_OP_VIEW)) continue;
        if (reads_pending(g, node, sums, first, *count)) {
            first = *count;
            part++;
        }
        if (!(node->op->flags & RF_OP_SUMS_REPLICAS)) continue;
        const uint64_t elements = (uint64_t)rf_shape_count(rf_graph_desc(g, node->out[0])->shape);
        sums[(*count)++] = (rf_program_sum){ node->in[0], node->out[0], part, offset, elements };
        offset = rf_align_up(offset + elements, alignment);
    }
    return *count == 0 ? 0 : sums[*count - 1].part + 1;
}

static uint32_t count_sums(const rf_program *p)
{
    uint32_t count = 0;
    for (rf_node n = 0; n < p->graph->nodes.count; n++) {
        const rf_node_info *node = &p->graph->nodes.items[n];
        count += !node->dead && p->runs[n] && (node->op->flags & RF_OP_SUMS_REPLICAS);
    }
    return count;
}

rf_result rf_program_plan_sums(rf_program *p)
{
    const uint32_t most = p->replicated ? count_sums(p) : 0;
    if (most == 0) return RF_OK;
    rf_program_placement *placements = RF_NEW_ARRAY(rf_program_placement, p->num_placements + most);
    p->sums = RF_NEW_ARRAY(rf_program_sum, most);
    if (!placements || !p->sums) {
        rf_free(placements);
        return RF_ERROR_OUT_OF_HOST_MEMORY;
    }
    p->num_sum_parts = rf_list_sums(p->graph, p->runs, p->sum_places.alignment, p->sums, &p->num_sums);
    for (uint32_t i = 0; i < p->num_placements; i++) {
        placements[i] = p->placements[i];
        placements[i].part += p->num_sum_parts;
    }
    for (uint32_t i = 0; i < p->num_sums; i++)
        placements[p->num_placements + i] = (rf_program_placement){
            .value = p->sums[i].in, .at = rf_sum_location(&p->sum_places.own, &p->sums[i]), .part = p->sums[i].part
        };
    rf_free(p->placements);
    p->placements = placements;
    p->num_placements += p->num_sums;
    return RF_OK;
}
