/* SPDX-License-Identifier: Apache-2.0 */
/* The stage that makes copies of weights in 16 bits anew, before a step that reads them. */
#include "step/signature.h"

#define SMALL_GAP 65536 /* elements */

static rf_result emit_cast(const rf_strategy *s, uint32_t index, rf_range_graph *g, rf_range range)
{
    const void *identity = (const void *)(uintptr_t)(1 + range.begin); /* states are told apart by it */
    rf_value x, y;
    RF_TRY(rf_range_graph_state(g, identity, s->store.trainable.values.buffers[index], range.begin,
                                range.end - range.begin, &x));
    RF_TRY(g->graph->core->cast(g->graph, x, s->store.weight_copies.type, &y));
    return rf_range_graph_place(g, y, rf_weight_copies_location(s, index, range.begin));
}

/* Neighbours in one, also where less stands between them than another dispatch costs; none longer than an update's. */
static rf_result emit_refresh(const rf_step_stage *stage, uint32_t index, rf_range_graph *g)
{
    const rf_strategy *s = stage->user;
    const uint64_t most = s->store.max_segment;
    rf_range open = { 0, 0 };
    for (uint32_t i = 0; i < s->store.trainable.variables.count; i++) {
        const rf_variable *v = s->store.trainable.variables.items[i];
        const rf_range span = rf_variable_span(v);
        if (!v->has_copy) continue;
        if (open.end > open.begin && span.begin - open.end > SMALL_GAP) RF_TRY(emit_cast(s, index, g, open));
        if (open.end == open.begin || span.begin - open.end > SMALL_GAP) open.begin = span.begin;
        open.end = span.end;
        for (; open.end - open.begin > most; open.begin += most)
            RF_TRY(emit_cast(s, index, g, (rf_range){ open.begin, open.begin + most }));
    }
    return open.end > open.begin ? emit_cast(s, index, g, open) : RF_OK;
}

rf_result rf_signature_append_refresh(rf_signature *sig)
{
    static const rf_stage_action refresh = { .name = "shadows", .emit = emit_refresh };
    const rf_step_stage stage = { .op = RF_STAGE_PROGRAM,
                                  .action = &refresh,
                                  .user = sig->schedule.strategy,
                                  .state = &sig->refresh,
                                  .when = RF_WHEN_DUE };
    return sig->reads_weight_copies ? rf_step_schedule_append(&sig->schedule, &stage, NULL) : RF_OK;
}
