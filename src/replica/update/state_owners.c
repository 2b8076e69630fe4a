/* SPDX-License-Identifier: Apache-2.0 */
/* State by owner: which worker keeps which elements of a variable's, and reading them; and gradients after a step, sums
 * that are being accumulated and what the latest update was made with. */
#include <stdlib.h>
#include <string.h>

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
        RF_TRY(rf_slot_read(u->slots[slot][index], u->params.forms[slot], part.slot_offset,
                            part.range.end - part.range.begin, values + (part.range.begin - place.begin)));
    }
    return RF_OK;
}

/* ---- sums of gradients ---- */

static rf_result check_totals(const rf_updater *u, const rf_variable *v)
{
    RF_REQUIRE(u->params.accumulation_steps > 1, "accumulated gradients: the optimizer accumulates none");
    RF_REQUIRE(v->strategy == u->strategy && v->trainable,
               "accumulated gradients: '%s' is not a trainable variable of the optimizer's strategy", v->name);
    RF_TRY(rf_strategy_wait(u->strategy));
    return rf_strategy_status(u->strategy);
}

/* Variables that are younger than the sums have none. */
static bool has_totals(const rf_updater *u, const rf_variable *v)
{
    return v->offset + v->count <= u->totals.capacity;
}

rf_result rf_updater_read_totals(rf_updater *u, const rf_variable *v, float *values)
{
    RF_TRY(check_totals(u, v));
    if (has_totals(u, v))
        return rf_flat_gather(u->strategy, "accumulated gradients", &u->totals, v->offset, v->count, values);
    memset(values, 0, u->strategy->members.num_replicas * v->count * sizeof(float));
    return RF_OK;
}

rf_result rf_updater_read_own_totals(rf_updater *u, const rf_variable *v, float *values)
{
    RF_TRY(check_totals(u, v));
    if (has_totals(u, v)) return rf_flat_read_local(u->strategy, &u->totals, v->offset, v->count, values);
    memset(values, 0, u->strategy->members.num_local * v->count * sizeof(float));
    return RF_OK;
}

rf_result rf_updater_write_totals(rf_updater *u, rf_variable *variable, const float *values)
{
    rf_strategy *s = u->strategy;
    RF_TRY(check_totals(u, variable));
    RF_TRY(rf_updater_learn(u, &variable, 1));
    RF_TRY(rf_updater_ensure_arrays(u, false));
    const rf_range span = rf_variable_span(variable);
    float *padded = RF_NEW_ARRAY(float, span.end - span.begin); /* gaps must be zero */
    if (!padded) return RF_ERROR_OUT_OF_HOST_MEMORY;
    rf_result result = RF_OK;
    for (uint32_t r = 0; result >= 0 && r < s->members.num_local; r++) {
        memcpy(padded, values + (s->members.first + r) * variable->count, variable->count * sizeof(float));
        result = rf_flat_write(&u->totals, r, span.begin, span.end - span.begin, padded);
    }
    rf_free(padded);
    return result;
}

/* ---- reduced gradients ---- */

bool rf_variable_is_updated(const rf_variable *variable)
{
    return variable->updater && variable->run == variable->updater->runs;
}

RF_API rf_result rf_variable_read_gradient(const rf_variable *variable, float *values)
{
    RF_REQUIRE(variable, "rf_variable_read_gradient: variable is NULL");
    RF_REQUIRE(values, "rf_variable_read_gradient: values is NULL");
    rf_updater *u = variable->updater;
    if (!u) return RF_FAIL(RF_ERROR_NOT_FOUND, "no optimizer step has run for variable '%s' yet", variable->name);
    if (u->accumulated > 0)
        return RF_FAIL(RF_ERROR_NOT_FOUND,
                       "the gradient of '%s' is being accumulated: %u of %u steps are done; read it after "
                       "the step that updates",
                       variable->name, u->accumulated, u->params.accumulation_steps);
    RF_TRY(rf_strategy_wait(variable->strategy));
    RF_TRY(rf_strategy_status(variable->strategy));
    const rf_range range = { variable->offset, variable->offset + variable->count };
    for (uint32_t i = 0; i < u->plan.count; i++) {
        rf_segment part;
        if (rf_segment_clip(&u->plan.items[i], range, &part))
            RF_TRY(rf_segment_read(u->strategy, "gradient", u->latest->buffers, (rf_state_form){ 0 }, &part,
                                   part.range.begin, values + (part.range.begin - range.begin)));
    }
    return RF_OK;
}
