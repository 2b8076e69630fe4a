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

/* In the flat array. */
static rf_range place_of(const rf_variable *v, rf_range range)
{
    return (rf_range){ v->offset + range.begin, v->offset + range.end };
}

rf_result rf_updater_owners(const rf_updater *u, const rf_variable *v, rf_owned_list *out)
{
    const rf_world *world = &u->strategy->members.world;
    for (uint32_t i = 0; i < u->plan.count; i++) {
        rf_segment part;
        if (!rf_segment_clip(&u->plan.items[i], place_of(v, (rf_range){ 0, v->count }), &part)) continue;
        RF_TRY(RF_VEC_GROW(out));
        out->items[out->count++] = (rf_owned){
            .rank = part.owner == RF_OWNER_ALL ? RF_RANK_ALL : rf_world_rank_of(world, part.owner),
            .range = { part.range.begin - v->offset, part.range.end - v->offset },
        };
    }
    if (out->count > 0) qsort(out->items, out->count, sizeof(out->items[0]), by_begin);
    merge_owned(out);
    return RF_OK;
}

rf_result rf_updater_read_owned(rf_updater *u, uint32_t slot, const rf_variable *v, rf_range range, float *values)
{
    RF_TRY(rf_strategy_wait(u->strategy));
    RF_TRY(rf_strategy_status(u->strategy));
    const rf_range place = place_of(v, range);
    for (uint32_t i = 0; i < u->plan.count; i++) {
        rf_segment part;
        if (!rf_segment_clip(&u->plan.items[i], place, &part)) continue;
        const uint32_t index = rf_segment_index(u->strategy, &part);
        if (index == UINT32_MAX)
            return RF_FAIL(RF_ERROR_INTERNAL, "optimizer state of '%s' is kept by another worker", v->name);
        RF_TRY(rf_gpu_buffer_read(u->slots[slot][index], part.slot_offset * sizeof(float),
                                  values + (part.range.begin - place.begin),
                                  (part.range.end - part.range.begin) * sizeof(float)));
    }
    return RF_OK;
}

rf_result rf_segment_read(rf_strategy *s, const char *name, rf_gpu_buffer *const *buffers, const rf_segment *part,
                          uint64_t at, float *values)
{
    const uint64_t size = (part->range.end - part->range.begin) * sizeof(float);
    const uint32_t index = rf_segment_index(s, part);
    rf_result r = RF_OK;
    if (index != UINT32_MAX) r = rf_gpu_buffer_read(buffers[index], at * sizeof(float), values, size);
    if (part->owner == RF_OWNER_ALL) return r;
    RF_TRY(rf_strategy_fail_in_job(s, r));
    return rf_world_broadcast(&s->members.world, name, values, (size_t)size, part->owner);
}
