/* SPDX-License-Identifier: Apache-2.0 */
#include "step/function.h"

#include "base/params.h"
#include "replica/internal.h"
#include "step/signature.h"

static rf_result function_allocate(rf_function *f, const rf_function_params *params)
{
    const uint32_t all = f->strategy->members.num_replicas, local = f->strategy->members.num_local;
    f->name = rf_strdup(params->name ? params->name : "function");
    f->examples = RF_NEW_ARRAY(uint32_t, all);
    f->frames = RF_NEW_ARRAY(rf_frame *, local);
    if (!f->name || !f->examples || !f->frames) return RF_ERROR_OUT_OF_HOST_MEMORY;
    RF_TRY(rf_submission_batch_init(&f->group, f->strategy, params->steps_per_execution));
    for (uint32_t half = 0; half < 2; half++) {
        for (uint32_t i = 0; i < params->num_outputs; i++) {
            rf_per_replica *result = &f->results[half][i];
            result->function = f;
            result->output = i;
            result->values = RF_NEW_ARRAY(rf_replica_value, local);
            result->examples = RF_NEW_ARRAY(uint32_t, all);
            if (!result->values || !result->examples) return RF_ERROR_OUT_OF_HOST_MEMORY;
        }
    }
    return RF_OK;
}

static void free_signatures(rf_function *f)
{
    for (uint32_t i = 0; i < f->signatures.count; i++)
        rf_signature_free(f->signatures.items[i], f->strategy->members.num_local);
    f->signatures.count = 0;
}

static void free_contents(rf_function *f)
{
    const uint32_t local = f->strategy->members.num_local;
    free_signatures(f);
    rf_free(f->signatures.items);
    f->signatures.items = NULL;
    f->signatures.count = f->signatures.capacity = 0;
    for (uint32_t half = 0; half < 2; half++)
        for (uint32_t i = 0; i < RF_MAX_COMPONENTS; i++) rf_per_replica_free(&f->results[half][i], local);
    rf_submission_batch_free(&f->group);
    rf_free(f->examples);
    rf_free(f->frames);
}

rf_function *rf_function_retain(rf_function *f)
{
    f->references++;
    return f;
}

void rf_function_release(rf_function *f)
{
    if (--f->references > 0) return;
    rf_free(f->name);
    rf_strategy_release(f->strategy);
    rf_free(f);
}

RF_API rf_result rf_function_create(rf_strategy *strategy, const rf_function_params *params, rf_function **out)
{
    RF_REQUIRE(out, "rf_function_create: out is NULL");
    *out = NULL;
    RF_TRY(RF_PARAMS_CHECK(rf_function_params, params));
    RF_REQUIRE(strategy, "rf_function_create: strategy is NULL");
    RF_REQUIRE(params && params->step, "rf_function_create: params->step is missing");
    RF_REQUIRE(params->num_outputs <= RF_MAX_COMPONENTS, "rf_function_create: %u outputs; at most %d",
               params->num_outputs, RF_MAX_COMPONENTS);
    if (params->training) RF_TRY(rf_strategy_open_status(strategy));
    rf_function *f = RF_NEW(rf_function);
    if (!f) return RF_ERROR_OUT_OF_HOST_MEMORY;
    f->references = 1;
    f->strategy = rf_strategy_retain(strategy);
    f->params = *params;
    const rf_result r = function_allocate(f, params);
    if (r < 0) {
        free_contents(f);
        rf_function_release(f);
        return r;
    }
    f->params.name = f->name;
    *out = f;
    return RF_OK;
}

/* Checkpoints that have it notice. A second time, through a copy of the handle, changes nothing while they do. */
RF_API void rf_function_destroy(rf_function **function)
{
    if (!function || !*function) return;
    rf_function *f = *function;
    *function = NULL;
    if (f->destroyed || rf_strategy_is_foreign(f->strategy)) return;
    (void)rf_strategy_wait(f->strategy); /* when waiting fails nothing runs any more */
    f->destroyed = true;
    free_contents(f);
    rf_function_release(f);
}

rf_result rf_function_check_alive(const rf_function *f, const char *caller)
{
    RF_REQUIRE(!f->destroyed,
               "%s: the function '%s' has been destroyed; destroy it after the checkpoints that it was added to",
               caller, f->name);
    return RF_OK;
}

RF_API uint32_t rf_function_num_traces(const rf_function *function)
{
    return function ? function->num_traces : 0;
}

const rf_graph *rf_function_graph(const rf_function *function)
{
    const uint32_t count = function->signatures.count;
    return count > 0 ? function->signatures.items[count - 1]->graph : NULL;
}

uint64_t rf_function_step(const rf_function *function)
{
    return function->step;
}

rf_result rf_function_forget(rf_function *f)
{
    RF_TRY(rf_function_detach_results(f));
    free_signatures(f);
    return RF_OK;
}

void rf_function_set_step(rf_function *function, uint64_t step)
{
    function->step = step;
}

void rf_function_set_share(rf_function *function, uint64_t step, uint64_t row)
{
    if (function->params.training) function->step = step; /* others have the same numbers in each run */
    function->first_row = row;
}

rf_strategy *rf_function_strategy(const rf_function *function)
{
    return function->strategy;
}
