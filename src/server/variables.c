/* SPDX-License-Identifier: Apache-2.0 */
#include "server/variables.h"

#include <string.h>

#include "base/philox.h"
#include "replica/internal.h"
#include "replica/store/variables.h"

static rf_result check_lists(const char *caller, const rf_strategy *strategy, rf_variable_list trained,
                             rf_variable_list state)
{
    RF_REQUIRE(trained.count > 0 && trained.items,
               "%s: variables is empty; a model has variables after its first call or rf_model_build()", caller);
    RF_REQUIRE(state.count == 0 || state.items, "%s: state_variables has %u entries, but no items", caller,
               state.count);
    for (uint32_t i = 0; i < trained.count + state.count; i++) {
        const bool has_optimizer = i < trained.count;
        const rf_variable *v = has_optimizer ? trained.items[i] : state.items[i - trained.count];
        RF_REQUIRE(v, "%s: %s[%u] is NULL", caller, has_optimizer ? "variables" : "state_variables",
                   has_optimizer ? i : i - trained.count);
        RF_REQUIRE(!has_optimizer || v->trainable,
                   "%s: variable '%s' is not trainable, and no optimizer updates it; list it in state_variables",
                   caller, v->name);
        RF_REQUIRE(!strategy || v->strategy == strategy, "%s: variable '%s' belongs to another strategy", caller,
                   v->name);
        RF_REQUIRE(v->strategy == trained.items[0]->strategy,
                   "%s: variables '%s' and '%s' belong to different strategies", caller, trained.items[0]->name,
                   v->name);
        for (uint32_t k = 0; k < trained.count && !has_optimizer; k++)
            RF_REQUIRE(v != trained.items[k], "%s: variable '%s' is in variables and in state_variables", caller,
                       v->name);
    }
    RF_REQUIRE(trained.items[0]->strategy->members.world.size == 1,
               "%s: the variables' strategy spans several workers; with parameter servers each task has its own",
               caller);
    return RF_OK;
}

rf_result rf_ps_variables_create(const char *caller, const rf_strategy *strategy, rf_variable_list trained,
                                 rf_variable_list state, rf_ps_variables *out)
{
    *out = (rf_ps_variables){ 0 };
    RF_TRY(check_lists(caller, strategy, trained, state));
    out->items = RF_NEW_ARRAY(rf_variable *, (size_t)trained.count + state.count);
    if (!out->items) return RF_ERROR_OUT_OF_HOST_MEMORY;
    out->num_trained = trained.count;
    for (uint32_t i = 0; i < trained.count + state.count; i++) {
        rf_variable *v = i < trained.count ? trained.items[i] : state.items[i - trained.count];
        out->items[out->count++] = rf_variable_retain(v);
        out->total += rf_variable_elements(v);
        if (i < trained.count) out->trained += rf_variable_elements(v);
    }
    return RF_OK;
}

void rf_ps_variables_free(rf_ps_variables *variables)
{
    for (uint32_t i = 0; i < variables->count; i++) rf_variable_release(variables->items[i]);
    rf_free(variables->items);
    *variables = (rf_ps_variables){ 0 };
}

uint64_t rf_ps_variables_hash(const rf_ps_variables *variables)
{
    uint64_t hash = variables->count + ((uint64_t)variables->num_trained << 32);
    for (uint32_t i = 0; i < variables->count; i++) {
        const rf_variable *v = variables->items[i];
        hash = rf_hash_bytes(v->name, strlen(v->name), hash);
        hash = rf_hash_bytes(v->shape.dim, (size_t)v->shape.rank * sizeof(v->shape.dim[0]), hash);
    }
    return hash;
}

rf_result rf_ps_variables_plan(const rf_ps_variables *variables, const uint8_t *rules, uint32_t num_servers,
                               uint64_t max_elements, rf_ps_plan *out)
{
    uint64_t *counts = RF_NEW_ARRAY(uint64_t, variables->count);
    if (!counts) return RF_ERROR_OUT_OF_HOST_MEMORY;
    for (uint32_t i = 0; i < variables->count; i++) counts[i] = rf_variable_elements(variables->items[i]);
    const rf_result r = rf_ps_plan_make(counts, rules, variables->count, num_servers, max_elements, out);
    rf_free(counts);
    return r;
}

rf_result rf_ps_variables_read(const rf_ps_variables *variables, float *values)
{
    for (uint32_t i = 0; i < variables->count; values += rf_variable_elements(variables->items[i++]))
        RF_TRY(rf_variable_read(variables->items[i], values));
    return RF_OK;
}

rf_result rf_ps_variables_assign(const rf_ps_variables *variables, const float *values)
{
    for (uint32_t i = 0; i < variables->count; values += rf_variable_elements(variables->items[i++]))
        RF_TRY(rf_variable_assign(variables->items[i], values));
    return RF_OK;
}

rf_result rf_ps_variables_read_changes(const rf_ps_variables *variables, const float *values, float *changes)
{
    for (uint32_t i = 0; i < variables->count; i++) {
        const rf_variable *v = variables->items[i];
        if (i < variables->num_trained) {
            if (!rf_variable_is_updated(v))
                return RF_FAIL(RF_ERROR_UNSUPPORTED,
                               "the step does not update variable '%s', but servers would move it by momentum and "
                               "decay: let each function update all variables, or leave it out of those that the "
                               "chief and the workers list",
                               v->name);
            RF_TRY(rf_variable_read_gradient(v, changes));
        } else {
            RF_TRY(rf_variable_read(v, changes));
            for (uint64_t k = 0; k < rf_variable_elements(v); k++) changes[k] -= values[k];
        }
        changes += rf_variable_elements(v);
        values += rf_variable_elements(v);
    }
    return RF_OK;
}
