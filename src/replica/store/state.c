/* SPDX-License-Identifier: Apache-2.0 */
/* What checkpoints read and write besides variables and optimizer slots: sums of gradients that are being accumulated,
 * per-replica state, counters. */
#include <string.h>

#include "replica/internal.h"

uint64_t rf_strategy_seed(const rf_strategy *strategy)
{
    return strategy->seed;
}

rf_strategy *rf_variable_strategy(const rf_variable *variable)
{
    return variable->strategy;
}

uint32_t rf_updater_num_slots(const rf_updater *updater)
{
    return updater->params.num_slots;
}

rf_variable_list rf_updater_variables(const rf_updater *updater)
{
    return (rf_variable_list){ updater->variables.items, updater->variables.count };
}

uint32_t rf_updater_accumulation_steps(const rf_updater *updater)
{
    return updater->params.accumulation_steps;
}

uint32_t rf_updater_accumulated(const rf_updater *updater)
{
    return updater->accumulated;
}

void rf_updater_set_accumulated(rf_updater *updater, uint32_t steps)
{
    updater->accumulated = steps;
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

static rf_result read_local_totals(const rf_updater *u, const rf_variable *v, float *values)
{
    /* Variables that are younger than the sums have none. */
    if (v->offset + v->count > u->totals.capacity) return RF_OK;
    for (uint32_t r = 0; r < u->strategy->num_local; r++)
        RF_TRY(rf_flat_read(&u->totals, r, v->offset, v->count, values + r * v->count));
    return RF_OK;
}

rf_result rf_updater_read_totals(rf_updater *u, const rf_variable *variable, float *values)
{
    rf_strategy *s = u->strategy;
    RF_TRY(check_totals(u, variable));
    float *mine = RF_NEW_ARRAY(float, s->num_local * variable->count);
    rf_result r = mine ? read_local_totals(u, variable, mine) : RF_ERROR_OUT_OF_HOST_MEMORY;
    rf_strategy_stick_in_job(s, r);
    if (r >= 0)
        r = rf_world_gather_replicas(&s->world, "accumulated gradients", mine, values,
                                     (size_t)variable->count * sizeof(float));
    rf_free(mine);
    return r;
}

rf_result rf_updater_read_own_totals(rf_updater *u, const rf_variable *variable, float *values)
{
    RF_TRY(check_totals(u, variable));
    memset(values, 0, u->strategy->num_local * variable->count * sizeof(float));
    return read_local_totals(u, variable, values);
}

rf_result rf_updater_write_totals(rf_updater *u, rf_variable *variable, const float *values)
{
    rf_strategy *s = u->strategy;
    RF_TRY(check_totals(u, variable));
    RF_TRY(rf_updater_learn(u, &variable, 1));
    RF_TRY(rf_updater_ensure_totals(u));
    const rf_range span = rf_variable_span(variable);
    float *padded = RF_NEW_ARRAY(float, span.end - span.begin); /* gaps must be zero */
    if (!padded) return RF_ERROR_OUT_OF_HOST_MEMORY;
    rf_result result = RF_OK;
    for (uint32_t r = 0; result >= 0 && r < s->num_local; r++) {
        memcpy(padded, values + (s->first + r) * variable->count, variable->count * sizeof(float));
        result = rf_flat_write(&u->totals, r, span.begin, span.end - span.begin, padded);
    }
    rf_free(padded);
    return result;
}

/* ---- metrics ---- */

uint32_t rf_local_state_count(const rf_local_state *state)
{
    return state->count;
}

rf_result rf_local_state_write(rf_local_state *state, const float *values)
{
    rf_strategy *s = state->strategy;
    RF_TRY(rf_strategy_wait(s));
    RF_TRY(rf_strategy_status(s));
    for (uint32_t r = 0; r < s->num_local; r++)
        RF_TRY(rf_flat_write(&state->values, r, 0, state->count, values + (size_t)(s->first + r) * state->count));
    return RF_OK;
}

/* ---- functions ---- */

rf_strategy *rf_function_strategy(const rf_function *function)
{
    return function->strategy;
}
