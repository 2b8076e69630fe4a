/* SPDX-License-Identifier: Apache-2.0 */
#include "server/variables.h"

#include <string.h>

#include "base/philox.h"
#include "replica/internal.h"
#include "replica/store/variables.h"

rf_result rf_ps_variables_check(const char *caller, const rf_strategy *strategy, rf_variable_list variables)
{
    RF_REQUIRE(variables.count > 0 && variables.items,
               "%s: variables is empty; a model has variables after its first call or rf_model_build()", caller);
    for (uint32_t i = 0; i < variables.count; i++) {
        const rf_variable *v = variables.items[i];
        RF_REQUIRE(v, "%s: variables[%u] is NULL", caller, i);
        RF_REQUIRE(v->trainable, "%s: variable '%s' is not trainable; servers hold what an optimizer updates", caller,
                   v->name);
        RF_REQUIRE(!strategy || v->strategy == strategy, "%s: variable '%s' belongs to another strategy", caller,
                   v->name);
        RF_REQUIRE(v->strategy == variables.items[0]->strategy,
                   "%s: variables '%s' and '%s' belong to different strategies", caller, variables.items[0]->name,
                   v->name);
    }
    RF_REQUIRE(variables.items[0]->strategy->world.size == 1,
               "%s: the variables' strategy spans several workers; with parameter servers each task has its own",
               caller);
    return RF_OK;
}

uint64_t rf_ps_variables_hash(rf_variable_list variables)
{
    uint64_t hash = variables.count;
    for (uint32_t i = 0; i < variables.count; i++) {
        const rf_variable *v = variables.items[i];
        hash = rf_hash_bytes(v->name, strlen(v->name), hash);
        hash = rf_hash_bytes(v->shape.dim, (size_t)v->shape.rank * sizeof(v->shape.dim[0]), hash);
    }
    return hash;
}

rf_result rf_ps_variables_plan(rf_variable_list variables, uint32_t num_servers, uint64_t max_elements, rf_ps_plan *out)
{
    uint64_t *counts = RF_NEW_ARRAY(uint64_t, variables.count);
    if (!counts) return RF_ERROR_OUT_OF_HOST_MEMORY;
    for (uint32_t i = 0; i < variables.count; i++) counts[i] = variables.items[i]->count;
    const rf_result r = rf_ps_plan_make(counts, variables.count, num_servers, max_elements, out);
    rf_free(counts);
    return r;
}

rf_result rf_ps_variables_read(rf_variable_list variables, float *values)
{
    for (uint32_t i = 0; i < variables.count; values += variables.items[i++]->count)
        RF_TRY(rf_variable_read(variables.items[i], values));
    return RF_OK;
}

rf_result rf_ps_variables_read_gradients(rf_variable_list variables, float *gradients)
{
    for (uint32_t i = 0; i < variables.count; gradients += variables.items[i++]->count)
        RF_TRY(rf_variable_read_gradient(variables.items[i], gradients));
    return RF_OK;
}

rf_result rf_ps_variables_assign(rf_variable_list variables, const float *values)
{
    for (uint32_t i = 0; i < variables.count; values += variables.items[i++]->count)
        RF_TRY(rf_variable_assign(variables.items[i], values));
    return RF_OK;
}
