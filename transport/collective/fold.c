/* SPDX-License-Identifier: Apache-2.0 */
#include "transport/collective/fold.h"

#include "base/error.h"

rf_fold rf_fold_of(const rf_group *group)
{
    rf_fold fold = { .size = 1 };
    while (fold.size <= group->size / 2) fold.size *= 2;
    fold.extra = group->size - fold.size;
    fold.out = group->index < 2 * fold.extra && group->index % 2 == 1;
    fold.index = group->index < 2 * fold.extra ? group->index / 2 : group->index - fold.extra;
    return fold;
}

uint32_t rf_fold_real(const rf_fold *fold, uint32_t index)
{
    return index < fold->extra ? 2 * index : index + fold->extra;
}

rf_result rf_fold_in(rf_collective_schedule *s, const rf_group *g, const rf_fold *fold, uint64_t count,
                     rf_space *source, uint32_t *round)
{
    if (fold->extra == 0) return RF_OK;
    const uint32_t now = (*round)++;
    if (g->index >= 2 * fold->extra) return RF_OK;
    if (fold->out)
        return rf_collective_schedule_send(s, now, g->ranks[g->index - 1], (rf_place){ *source, 0 }, count, false);
    RF_TRY(rf_collective_schedule_receive(s, now, g->ranks[g->index + 1], (rf_place){ RF_SPACE_OUTPUT, 0 }, count));
    rf_collective_step *step = &s->items[s->count - 1];
    step->reduce = true;
    step->local = (rf_place){ *source, 0 };
    *source = RF_SPACE_OUTPUT;
    return RF_OK;
}

rf_result rf_fold_out(rf_collective_schedule *s, const rf_group *g, const rf_fold *fold, uint64_t count,
                      rf_space *source, uint32_t *round)
{
    if (g->size > 1) *source = RF_SPACE_OUTPUT;
    if (fold->extra == 0) return RF_OK;
    const uint32_t now = (*round)++;
    if (g->index >= 2 * fold->extra) return RF_OK;
    if (fold->out)
        return rf_collective_schedule_receive(s, now, g->ranks[g->index - 1], (rf_place){ RF_SPACE_OUTPUT, 0 }, count);
    return rf_collective_schedule_send(s, now, g->ranks[g->index + 1], (rf_place){ RF_SPACE_OUTPUT, 0 }, count, true);
}
