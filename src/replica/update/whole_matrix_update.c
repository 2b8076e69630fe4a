/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Directions that an optimizer makes of whole matrices (Muon). Owners change the slots of their segments and make the
 * first step; what they made goes to all, because a variable may have several owners; each replica then makes the
 * second step for the variables that it owns some of, and updates with its own segments of them.
 */
#include "replica/update/update.h"

static rf_result emit_range(const rf_step_stage *stage, uint32_t index, rf_range_graph *g, const rf_segment *segment,
                            const rf_segment_values *v)
{
    const rf_update *update = stage->user;
    const rf_updater_params *p = &update->updater->params;
    (void)index;
    return p->whole_matrix->emit_range(p->user, g->graph, update->hyper_groups[segment->hyper], v->direction, v->grad,
                                       v->slots, v->hyper);
}

static rf_result emit_ranges(const rf_step_stage *stage, uint32_t index, rf_range_graph *g)
{
    const rf_segment_list *wholes = &((const rf_update *)stage->user)->wholes;
    return rf_update_emit_segments(stage, index, g, wholes->items, wholes->count, emit_range);
}

/* A part of the direction that the variable in `span` has. */
static bool owns_some(const rf_update *update, rf_range span, uint32_t index)
{
    for (uint32_t k = 0; k < update->wholes.count; k++) {
        const rf_segment *segment = &update->wholes.items[k];
        const bool meet = segment->range.begin < span.end && span.begin < segment->range.end;
        if (meet && rf_segment_is_owned(update->updater->strategy, segment, index)) return true;
    }
    return false;
}

/* Those that the replica owns some of: so each element is made and used by one device. */
static rf_result emit_wholes(const rf_step_stage *stage, uint32_t index, rf_range_graph *g)
{
    const rf_update *update = stage->user;
    const rf_updater *u = update->updater;
    for (uint32_t i = 0; i < update->count; i++) {
        const rf_variable *variable = update->sorted[i];
        rf_value direction;
        if (!owns_some(update, update->spans[i], index)) continue;
        RF_TRY(rf_range_graph_shaped(g, variable, u->directions.buffers[index], variable->offset, variable->shape,
                                     &direction));
        const uint32_t group = update->hyper_groups[update->hyper_of[i]];
        RF_TRY(u->params.whole_matrix->emit_whole(u->params.user, g->graph, group, direction));
    }
    return RF_OK;
}

rf_result rf_update_append_whole_matrices(rf_step_schedule *schedule, rf_update *update)
{
    static const rf_stage_action ranges = { .name = "directions", .emit = emit_ranges, .fill = rf_update_fill_numbers },
                                 wholes = { .name = "whole directions", .emit = emit_wholes };
    const rf_strategy *s = update->updater->strategy;
    const rf_flat *directions = &update->updater->directions;
    const rf_stage_exchange gather = { .name = "gather directions",
                                       .verb = RF_EXCHANGE_GATHER,
                                       .segments = update->wholes.items,
                                       .num_segments = update->wholes.count,
                                       .from = { directions, &s->exchange.trained.down },
                                       .to = { directions, &s->exchange.trained.up } };
    rf_step_stage stage = rf_update_stage(update, RF_STAGE_PROGRAM, &ranges);
    if (update->wholes.count == 0) return RF_OK;
    stage.when |= rf_update_when_made(update);
    stage.changes = true;
    RF_TRY(rf_step_schedule_append(schedule, &stage, NULL));
    /* Nothing travels where every replica has the directions that it goes on with. */
    if (update->facts.hands_on && !update->facts.central)
        RF_TRY(rf_step_schedule_append_exchange(schedule, &gather, &stage));
    stage.action = &wholes;
    stage.changes = false;
    return rf_step_schedule_append(schedule, &stage, NULL);
}
