/* SPDX-License-Identifier: Apache-2.0 */
/* A few numbers per replica that steps add to and the host sums when it reads them: metrics. */
#include "replica/store/local_state.h"

#include "replica/internal.h"
#include "replica/store/flat.h"

rf_local_state *rf_local_state_retain(rf_local_state *state)
{
    state->references++;
    return state;
}

void rf_local_state_release(rf_local_state *state)
{
    if (!state || --state->references > 0 || rf_strategy_is_foreign(state->strategy)) return;
    (void)rf_strategy_wait(state->strategy); /* a step in flight may use it; when waiting fails nothing runs any more */
    rf_flat_free(state->strategy, &state->values);
    rf_strategy_release(state->strategy);
    rf_free(state->name);
    rf_free(state);
}

rf_result rf_local_state_create(rf_strategy *strategy, uint32_t count, const char *name, rf_local_state **out)
{
    *out = NULL;
    RF_REQUIRE(count > 0, "local state '%s' has no elements", name ? name : "");
    RF_TRY(rf_strategy_status(strategy));
    rf_local_state *state = RF_NEW(rf_local_state);
    if (!state) return RF_ERROR_OUT_OF_HOST_MEMORY;
    state->references = 1;
    state->strategy = rf_strategy_retain(strategy);
    state->count = count;
    state->desc = (rf_tensor_desc){ RF_F32, RF_SHAPE(count) };
    state->name = rf_strdup(name ? name : "state");
    state->values.name = state->name;
    const rf_result r = state->name ? rf_flat_grow(strategy, &state->values, count, 0) : RF_ERROR_OUT_OF_HOST_MEMORY;
    if (r < 0) {
        rf_local_state_release(state);
        return r;
    }
    *out = state;
    return RF_OK;
}

rf_result rf_local_state_create_table(rf_strategy *s, const rf_array *array, const char *name, rf_local_state **out)
{
    const rf_tensor_desc desc = { array->dtype, array->shape };
    const uint64_t words = rf_tensor_bytes(&desc) / sizeof(float);
    *out = NULL;
    RF_REQUIRE(words <= UINT32_MAX && words * sizeof(float) == rf_tensor_bytes(&desc),
               "%s: %llu bytes are no table of words", name, (unsigned long long)rf_tensor_bytes(&desc));
    RF_TRY(rf_local_state_create(s, (uint32_t)words, name, out));
    (*out)->desc = desc;
    const rf_result r = rf_flat_write_same(s, &(*out)->values, 0, words, array->data);
    if (r < 0) rf_local_state_destroy(out);
    return r;
}

void rf_local_state_destroy(rf_local_state **state)
{
    if (!state || !*state) return;
    rf_local_state_release(*state);
    *state = NULL;
}

rf_result rf_local_state_read_local(rf_local_state *state, float *values)
{
    RF_TRY(rf_strategy_synchronize(state->strategy));
    return rf_flat_read_local(state->strategy, &state->values, 0, state->count, values);
}

rf_result rf_local_state_read(rf_local_state *state, float *values)
{
    RF_TRY(rf_strategy_synchronize(state->strategy));
    return rf_flat_gather(state->strategy, state->name, &state->values, 0, state->count, values);
}

rf_result rf_local_state_reset(rf_local_state *state)
{
    RF_TRY(rf_strategy_synchronize(state->strategy));
    return rf_flat_clear(state->strategy, &state->values, 0, state->count);
}

rf_result rf_local_state_read_first(rf_local_state *state, float *values)
{
    RF_TRY(rf_strategy_synchronize(state->strategy));
    return rf_flat_read(&state->values, 0, 0, state->count, values);
}

rf_result rf_local_state_write_same(rf_local_state *state, const float *values)
{
    RF_TRY(rf_strategy_synchronize(state->strategy));
    return rf_flat_write_same(state->strategy, &state->values, 0, state->count, values);
}

uint32_t rf_local_state_count(const rf_local_state *state)
{
    return state->count;
}

rf_result rf_local_state_write(rf_local_state *state, const float *values)
{
    const rf_strategy *s = state->strategy;
    RF_TRY(rf_strategy_synchronize(state->strategy));
    for (uint32_t r = 0; r < s->members.num_local; r++)
        RF_TRY(
            rf_flat_write(&state->values, r, 0, state->count, values + (size_t)(s->members.first + r) * state->count));
    return RF_OK;
}
