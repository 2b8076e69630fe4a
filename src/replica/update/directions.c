/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Directions that an optimizer makes of whole variables. Owners change the slots of their segments and make the first
 * step; what they made goes to all, because a variable may have several owners; each replica then makes the second step
 * for the variables that it owns some of, and updates with its own segments of them.
 */
#include "base/profiler.h"
#include "replica/exchange/staging.h"
#include "replica/internal.h"
#include "replica/update/turns.h"
#include "replica/update/update.h"
#include "replica/update/updater.h"

bool rf_update_is_whole(const rf_update *update, uint32_t hyper)
{
    const rf_updater_params *p = &update->updater->params;
    return p->whole && p->whole(p->user, update->hyper_groups[hyper]);
}

rf_result rf_update_list_wholes(rf_update *update)
{
    const rf_strategy *s = update->updater->strategy;
    for (uint32_t i = 0; i < update->segments.count; i++) {
        if (!rf_update_is_whole(update, update->segments.items[i].hyper)) continue;
        RF_TRY(RF_VEC_GROW(&update->wholes));
        update->wholes.items[update->wholes.count++] = update->segments.items[i];
    }
    if (update->wholes.count == 0 || s->num_replicas == 1 || s->central || s->update_mode == RF_UPDATE_LOCAL)
        return RF_OK;
    return s->exchange->fns->open(s->exchange, update->wholes.items, update->wholes.count, false, false,
                                  &update->wholes_exchange);
}

static rf_result submit_step(rf_update *update, uint32_t r, rf_program *program)
{
    rf_strategy *s = update->updater->strategy;
    if (!program) return RF_OK;
    RF_TRY(rf_replica_context(s, r, rf_program_acquire(program, 0, &update->frames[r])));
    rf_update_fill_hypers(update, r, update->frames[r]);
    return rf_replica_context(s, r, rf_replica_submit_frames(&s->replicas[r], &update->frames[r], 1));
}

/* Waits for the devices: the host copies. */
static rf_result gather_directions(rf_update *update)
{
    rf_strategy *s = update->updater->strategy;
    const rf_flat *directions = &update->updater->directions;
    rf_turns *t = update->turns;
    const uint64_t span = rf_span_begin();
    for (uint32_t r = 0; r < s->num_local; r++) {
        RF_TRY(rf_replica_submit_one(&s->replicas[r], update->replicas[r].directions_down));
        RF_TRY(rf_replica_context(s, r, rf_strategy_wait_local(s, r)));
        t->from[r] = rf_replica_reachable(s, r, directions, &s->download);
        t->to[r] = rf_replica_reachable(s, r, directions, &s->upload);
    }
    RF_TRY(s->exchange->fns->start_gather(update->wholes_exchange, t->from, t->to));
    RF_TRY(s->exchange->fns->finish(update->wholes_exchange));
    for (uint32_t r = 0; r < s->num_local; r++)
        RF_TRY(rf_replica_submit_one(&s->replicas[r], update->replicas[r].directions_up));
    rf_span_end(span, "replica", "gather directions");
    return RF_OK;
}

rf_result rf_update_take_directions(rf_update *update)
{
    const uint32_t num_local = update->updater->strategy->num_local;
    for (uint32_t r = 0; r < num_local; r++) RF_TRY(submit_step(update, r, update->replicas[r].directions));
    if (update->wholes_exchange) RF_TRY(gather_directions(update));
    for (uint32_t r = 0; r < num_local; r++) RF_TRY(submit_step(update, r, update->replicas[r].wholes));
    return RF_OK;
}
