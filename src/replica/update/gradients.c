/* SPDX-License-Identifier: Apache-2.0 */
/* Gradients after a step: sums that are being accumulated, and what the latest update was made with. */
#include <string.h>

#include "replica/internal.h"
#include "replica/store/flat.h"
#include "replica/store/variables.h"
#include "replica/update/updater.h"

/* ---- sums of gradients ---- */

static rf_result check_totals(const rf_updater *u, const rf_variable *v)
{
    RF_REQUIRE(u->params.accumulation_steps > 1, "accumulated gradients: the optimizer accumulates none");
    RF_REQUIRE(v->strategy == u->strategy && v->trainable,
               "accumulated gradients: '%s' is not a trainable variable of the optimizer's strategy", v->name);
    RF_TRY(rf_strategy_wait(u->strategy));
    return rf_strategy_status(u->strategy);
}

static rf_result read_local_totals(const rf_updater *u, const rf_variable *v, float *values)
{
    /* Variables that are younger than the sums have none. */
    if (v->offset + v->count > u->totals.capacity) return RF_OK;
    for (uint32_t r = 0; r < u->strategy->members.num_local; r++)
        RF_TRY(rf_flat_read(&u->totals, r, v->offset, v->count, values + r * v->count));
    return RF_OK;
}

rf_result rf_updater_read_totals(rf_updater *u, const rf_variable *variable, float *values)
{
    rf_strategy *s = u->strategy;
    RF_TRY(check_totals(u, variable));
    float *mine = RF_NEW_ARRAY(float, s->members.num_local * variable->count);
    rf_result r = mine ? read_local_totals(u, variable, mine) : RF_ERROR_OUT_OF_HOST_MEMORY;
    rf_strategy_fail_in_job(s, r);
    if (r >= 0)
        r = rf_world_gather_replicas(&s->members.world, "accumulated gradients", mine, values,
                                     (size_t)variable->count * sizeof(float));
    rf_free(mine);
    return r;
}

rf_result rf_updater_read_own_totals(rf_updater *u, const rf_variable *variable, float *values)
{
    RF_TRY(check_totals(u, variable));
    memset(values, 0, u->strategy->members.num_local * variable->count * sizeof(float));
    return read_local_totals(u, variable, values);
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

/* The reduced gradient lies with the owner of the segment, whose worker passes it on. */
static rf_result read_gradient(rf_updater *u, const rf_segment *segment, rf_range range, float *values)
{
    rf_strategy *s = u->strategy;
    const rf_flat *gradients = u->latest;
    const uint64_t count = range.end - range.begin;
    if (segment->owner == RF_OWNER_ALL) return rf_flat_read(gradients, 0, range.begin, count, values);
    rf_result r = RF_OK;
    if (rf_strategy_is_local(s, segment->owner))
        r = rf_flat_read(gradients, segment->owner - s->members.first, range.begin, count, values);
    RF_TRY(rf_strategy_fail_in_job(s, r));
    return rf_world_broadcast(&s->members.world, "gradient", values, (size_t)count * sizeof(float), segment->owner);
}

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
    const uint64_t begin = variable->offset, end = begin + variable->count;
    for (uint32_t i = 0; i < u->plan.count; i++) {
        const rf_segment *segment = &u->plan.items[i];
        const uint64_t from = segment->range.begin > begin ? segment->range.begin : begin;
        const uint64_t to = segment->range.end < end ? segment->range.end : end;
        if (from < to) RF_TRY(read_gradient(u, segment, (rf_range){ from, to }, values + (from - begin)));
    }
    return RF_OK;
}
