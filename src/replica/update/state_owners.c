/* SPDX-License-Identifier: Apache-2.0 */
/* Which worker keeps which elements of a variable's optimizer state, and reading one's own without the others. */
#include <stdlib.h>

#include "replica/internal.h"
#include "replica/store/variables.h"
#include "replica/update/updater.h"

static int by_begin(const void *a, const void *b)
{
    const uint64_t x = ((const rf_owned *)a)->range.begin, y = ((const rf_owned *)b)->range.begin;
    return (x > y) - (x < y);
}

/* The elements of a segment that lie within a variable, counted from its first. */
static rf_range range_within(const rf_segment *segment, const rf_variable *v)
{
    const uint64_t end = v->offset + v->count;
    const rf_range common = { segment->range.begin > v->offset ? segment->range.begin : v->offset,
                              segment->range.end < end ? segment->range.end : end };
    if (common.begin >= common.end) return (rf_range){ 0, 0 };
    return (rf_range){ common.begin - v->offset, common.end - v->offset };
}

static void merge_owned(rf_owned_list *list)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < list->count; i++) {
        rf_owned *last = count > 0 ? &list->items[count - 1] : NULL;
        if (last && last->rank == list->items[i].rank && last->range.end == list->items[i].range.begin)
            last->range.end = list->items[i].range.end;
        else
            list->items[count++] = list->items[i];
    }
    list->count = count;
}

rf_result rf_updater_owners(const rf_updater *u, const rf_variable *v, rf_owned_list *out)
{
    for (uint32_t i = 0; i < u->plan.count; i++) {
        const rf_segment *segment = &u->plan.items[i];
        const rf_range range = range_within(segment, v);
        if (range.begin == range.end) continue;
        RF_TRY(RF_VEC_GROW(out));
        const uint32_t rank = segment->owner == RF_OWNER_ALL
                                  ? RF_RANK_ALL
                                  : rf_world_rank_of(&u->strategy->members.world, segment->owner);
        out->items[out->count++] = (rf_owned){ rank, range };
    }
    if (out->count > 0) qsort(out->items, out->count, sizeof(out->items[0]), by_begin);
    merge_owned(out);
    return RF_OK;
}

rf_result rf_updater_read_owned(rf_updater *u, uint32_t slot, const rf_variable *v, rf_range range, float *values)
{
    rf_strategy *s = u->strategy;
    RF_TRY(rf_strategy_wait(s));
    RF_TRY(rf_strategy_status(s));
    for (uint32_t i = 0; i < u->plan.count; i++) {
        const rf_segment *segment = &u->plan.items[i];
        rf_range own = range_within(segment, v);
        if (own.begin < range.begin) own.begin = range.begin;
        if (own.end > range.end) own.end = range.end;
        if (own.begin >= own.end) continue;
        if (segment->owner != RF_OWNER_ALL && !rf_strategy_is_local(s, segment->owner))
            return RF_FAIL(RF_ERROR_INTERNAL, "optimizer state of '%s' is kept by another worker", v->name);
        const uint32_t index = segment->owner == RF_OWNER_ALL ? 0 : segment->owner - s->members.first;
        const uint64_t at = segment->slot_offset + v->offset + own.begin - segment->range.begin;
        RF_TRY(rf_gpu_buffer_read(u->slots[slot][index], at * sizeof(float), values + (own.begin - range.begin),
                                  (own.end - own.begin) * sizeof(float)));
    }
    return RF_OK;
}
