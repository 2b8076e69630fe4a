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
            RF_TRY(rf_segment_read(u->strategy, "gradient", u->latest->buffers, &part, part.range.begin,
                                   values + (part.range.begin - range.begin)));
    }
    return RF_OK;
}
