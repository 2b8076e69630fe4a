/* SPDX-License-Identifier: Apache-2.0 */
#include "step/sums.h"

#include "graph/batch_dims.h"
#include "step/step.h"

static bool sums_replicas(const rf_node_info *node)
{
    return !node->dead && (node->op->flags & RF_OP_SUMS_REPLICAS);
}

/* ---- while tracing ---- */

bool rf_trace_needs_sum(rf_trace *t)
{
    const rf_strategy *s = rf_trace_strategy(t);
    if (s->remote)
        rf_trace_fail(t, RF_ERROR_UNSUPPORTED,
                      "rf_all_replica_sum: workers of parameter servers take their steps at different times and have "
                      "nothing to add up; train with a multi-worker strategy");
    return s->members.num_replicas > 1;
}

uint64_t rf_step_sums_elements(const rf_strategy *s, const rf_graph *g)
{
    uint64_t elements = 0;
    for (rf_node n = 0; n < g->nodes.count; n++) {
        const rf_node_info *node = &g->nodes.items[n];
        if (!sums_replicas(node)) continue;
        elements += rf_align_up((uint64_t)rf_shape_count(rf_graph_desc(g, node->out[0])->shape), s->store.alignment);
    }
    return elements;
}

rf_result rf_step_sums_check(rf_graph *g)
{
    for (rf_node n = 0; n < g->nodes.count; n++) {
        const rf_node_info *node = &g->nodes.items[n];
        if (!sums_replicas(node)) continue;
        const rf_shape shape = rf_graph_desc(g, node->out[0])->shape;
        char text[96];
        uint32_t dims;
        RF_TRY(rf_graph_batch_dims(g, node->out[0], &dims));
        RF_REQUIRE(dims == 0,
                   "rf_all_replica_sum: the shape of what is summed, %s here, depends on the batch, and replicas have "
                   "batches of different sizes; reduce it over the batch first",
                   rf_shape_format(shape, text, sizeof(text)));
    }
    return RF_OK;
}

/* ---- room ---- */

rf_result rf_step_sums_ensure(rf_strategy *s, uint64_t elements)
{
    if (elements > s->store.sums.capacity) {
        RF_TRY(rf_strategy_wait(s));
        s->store.generation++; /* first: also when only one of the two grows, programs know of its old buffers */
        RF_TRY(rf_flat_grow(s, &s->store.summands, elements, 0));
        RF_TRY(rf_flat_grow(s, &s->store.sums, elements, 0));
    }
    return rf_staging_ensure(s, &s->exchange.summed, s->store.sums.capacity);
}

/* ---- stages ---- */

/* Replicas without examples are waited for, too: what they were given before may still read the sums that are about to
 * be written. */
static rf_result append_part(rf_step_schedule *schedule, uint32_t part, const rf_segment *segments, uint32_t count)
{
    const rf_strategy *s = schedule->strategy;
    const rf_step_stage step = {
        .op = RF_STAGE_STEP, .action = &rf_step_action, .on = RF_ON_ACTIVE, .piece = RF_PIECE_SUM, .part = part
    };
    const rf_stage_exchange sum = { .name = "sum",
                                    .segments = segments,
                                    .num_segments = count,
                                    .from = { &s->store.summands, &s->exchange.summed.down },
                                    .to = { &s->store.sums, &s->exchange.summed.up },
                                    .on = RF_ON_ACTIVE };
    RF_TRY(rf_step_schedule_append(schedule, &step, NULL));
    return rf_step_schedule_append_exchange(schedule, &sum, &step);
}

rf_result rf_step_sums_append(rf_step_schedule *schedule, rf_step_sums *sums, const rf_program_sum *list,
                              uint32_t count)
{
    uint32_t first = 0;
    sums->segments = RF_NEW_ARRAY(rf_segment, count);
    if (!sums->segments) return RF_ERROR_OUT_OF_HOST_MEMORY;
    for (uint32_t i = 0; i < count; i++)
        sums->segments[i] =
            (rf_segment){ .range = { list[i].offset, list[i].offset + list[i].count }, .owner = RF_OWNER_ALL };
    for (uint32_t end = 0; first < count; first = end) {
        while (end < count && list[end].part == list[first].part) end++;
        RF_TRY(append_part(schedule, sums->num_parts++, sums->segments + first, end - first));
    }
    return RF_OK;
}

void rf_step_sums_unprepare(rf_step_sums *sums)
{
    rf_free(sums->segments);
    *sums = (rf_step_sums){ .elements = sums->elements };
}
