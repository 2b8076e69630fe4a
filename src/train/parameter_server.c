/* SPDX-License-Identifier: Apache-2.0 */
/* The side of parameter servers, workers and the chief that knows optimizers, functions and datasets. */
#include <ringfire/parameter_server.h>

#include <math.h>
#include <string.h>

#include "base/memory.h"
#include "base/params.h"
#include "server/coordinator.h"
#include "server/variables.h"
#include "server/worker.h"
#include "train/files/config_json.h"
#include "train/optimizer/optimizer.h"
#include "train/parameter_store.h"

/* ---- servers ---- */

rf_result rf_parameter_server_run(const rf_parameter_server_params *params)
{
    RF_TRY(RF_PARAMS_CHECK(rf_parameter_server_params, params));
    static const rf_parameter_server_params defaults = { 0 };
    if (!params) params = &defaults;
    rf_one_device_params device = params->device;
    return rf_error_context(rf_ps_server_run(&params->comm, rf_parameter_store_fns(), &device),
                            "rf_parameter_server_run");
}

/* ---- the chief ---- */

rf_result rf_coordinator_create(const rf_coordinator_params *params, rf_coordinator **out)
{
    RF_REQUIRE(out, "rf_coordinator_create: out is NULL");
    *out = NULL;
    RF_TRY(RF_PARAMS_CHECK(rf_coordinator_params, params));
    RF_REQUIRE(params, "rf_coordinator_create: params is NULL; variables are needed");
    RF_TRY(rf_ps_variables_check("rf_coordinator_create", NULL, params->variables));
    RF_REQUIRE(!params->synchronous || params->max_ahead == 0,
               "rf_coordinator_create: max_ahead is for asynchronous training; synchronous workers are never ahead");
    rf_optimizer_config config;
    RF_TRY(rf_error_context(rf_optimizer_configure(params->optimizer, &config), "rf_coordinator_create"));
    RF_REQUIRE(config.params.clip_norm == 0 && config.params.global_clip_norm == 0,
               "rf_coordinator_create: no server has the whole gradient that a norm needs; use clip_value, or "
               "rf_worker_params::global_clip_norm");
    RF_REQUIRE(config.params.kind != RF_OPTIMIZER_LAMB,
               "rf_coordinator_create: no server has whole variables, whose norms LAMB needs; use RF_OPTIMIZER_ADAMW, "
               "or a mirrored strategy");
    RF_REQUIRE(config.params.kind != RF_OPTIMIZER_MUON,
               "rf_coordinator_create: no server has whole matrices, which Muon makes orthogonal; use "
               "RF_OPTIMIZER_ADAMW, or a mirrored strategy");
    RF_REQUIRE(config.params.kind != RF_OPTIMIZER_CUSTOM,
               "rf_coordinator_create: the optimizer is code of this process, which servers do not have; use one of "
               "the other kinds, or a mirrored strategy");
    RF_REQUIRE(!config.params.use_ema, "rf_coordinator_create: servers do not hand out averages; leave out use_ema, or "
                                       "use a mirrored strategy");
    RF_REQUIRE(!config.params.loss_scale, "rf_coordinator_create: no server has all gradients, which decide about an "
                                          "update; leave out loss_scale, or use a mirrored strategy");
    RF_REQUIRE(config.params.num_groups == 0,
               "rf_coordinator_create: the optimizer has groups, but servers do not know variables by their names");
    char *optimizer;
    RF_TRY(rf_error_context(rf_optimizer_text(&config, &optimizer), "rf_coordinator_create"));
    const rf_result r = rf_coordinator_open(params, optimizer, strlen(optimizer), out);
    rf_free(optimizer);
    return rf_error_context(r, "rf_coordinator_create");
}

/* ---- workers ---- */

rf_result rf_optimizer_create_remote(rf_strategy *strategy, rf_optimizer **out)
{
    /* Plain descent at rate 0 changes nothing; the strategy leaves the sum of the gradients behind. */
    RF_TRY(rf_optimizer_create(strategy, &(rf_optimizer_params){ .kind = RF_OPTIMIZER_SGD }, out));
    rf_optimizer_set_remote(*out);
    const rf_result r = rf_optimizer_set_learning_rate(*out, 0);
    if (r < 0) rf_optimizer_destroy(out);
    return r;
}

typedef struct reading {
    rf_iterator *iterator; /* of a function's own dataset; NULL before its first batch */
    uint64_t epoch;
} reading;

typedef struct worker {
    const rf_worker_params *params;
    reading *readings; /* [num_functions] */
} worker;

static rf_result next_batch(worker *w, uint32_t f, rf_element *out)
{
    const rf_worker_function *function = &w->params->functions[f];
    reading *at = &w->readings[f];
    const rf_element *batch;
    RF_REQUIRE(function->data, "no range of examples was given, and this worker has no dataset for '%s'",
               function->name);
    for (int passes = 0; passes < 2; passes++) {
        if (!at->iterator) RF_TRY(rf_iterator_create(function->data, at->epoch++, &at->iterator));
        const rf_result r = rf_iterator_next(at->iterator, &batch);
        RF_TRY(r);
        if (r == RF_OK) {
            *out = *batch;
            return RF_OK;
        }
        rf_iterator_destroy(&at->iterator);
    }
    return RF_FAIL(RF_ERROR_INVALID_ARGUMENT, "the dataset of '%s' is empty", function->name);
}

static rf_result make_batch(worker *w, uint32_t f, const rf_ps_work *work, rf_element *out)
{
    const rf_worker_function *function = &w->params->functions[f];
    if (work->count == 0) return next_batch(w, f, out);
    RF_REQUIRE(function->batch, "a range of examples was given, but this worker only has a dataset for '%s'",
               function->name);
    const uint64_t before = rf_error_count();
    const rf_result r = function->batch(function->user, work->first, work->count, out);
    return rf_error_context(rf_error_of_user(r, before, "its batch function"), "examples %llu to %llu",
                            (unsigned long long)work->first, (unsigned long long)work->first + work->count);
}

/* As optimizers do it: a NaN is not clipped away. */
static void limit_norm(float *gradients, rf_variable_list variables, double limit)
{
    uint64_t count = 0;
    double squares = 0;
    for (uint32_t i = 0; i < variables.count; i++)
        count += (uint64_t)rf_shape_count(rf_variable_shape(variables.items[i]));
    for (uint64_t i = 0; i < count; i++) squares += (double)gradients[i] * (double)gradients[i];
    const double norm = sqrt(squares);
    if (!(norm > limit)) return;
    for (uint64_t i = 0; i < count; i++) gradients[i] = (float)((double)gradients[i] * (limit / norm));
}

static rf_result do_work(void *user, const rf_ps_work *work, const float *values, float *gradients, rf_ps_outcome *out)
{
    worker *w = user;
    const rf_worker_params *p = w->params;
    uint32_t f = 0;
    while (f < p->num_functions && strcmp(p->functions[f].name, work->function) != 0) f++;
    if (f == p->num_functions) return RF_FAIL(RF_ERROR_NOT_FOUND, "this worker has no such function");
    const rf_worker_function *function = &p->functions[f];
    rf_element batch = { 0 };
    RF_TRY(make_batch(w, f, work, &batch));
    RF_REQUIRE(batch.num_components > 0 && batch.component[0].shape.rank > 0 && batch.component[0].shape.dim[0] > 0,
               "the batch has no examples");
    rf_per_replica *results[RF_MAX_COMPONENTS];
    RF_TRY(rf_ps_variables_assign(p->variables, values));
    RF_TRY(rf_strategy_run(p->strategy, function->function, &batch, results));
    for (uint32_t i = 0; i < function->num_results; i++)
        RF_TRY(rf_strategy_reduce(p->strategy, RF_REDUCE_SUM, results[i], &out->results[i]));
    if (!function->no_update) {
        RF_TRY(rf_ps_variables_read_gradients(p->variables, gradients));
        if (p->global_clip_norm > 0) limit_norm(gradients, p->variables, p->global_clip_norm);
    }
    out->num_results = function->num_results;
    out->push = !function->no_update;
    out->examples = (uint64_t)batch.component[0].shape.dim[0];
    return RF_OK;
}

static rf_result check_functions(const rf_worker_params *p)
{
    RF_REQUIRE(p->num_functions > 0 && p->functions, "rf_worker_run: functions is empty; there is nothing to do");
    for (uint32_t f = 0; f < p->num_functions; f++) {
        const rf_worker_function *function = &p->functions[f];
        RF_REQUIRE(function->name && function->name[0] && strlen(function->name) < RF_FUNCTION_NAME_BYTES,
                   "rf_worker_run: functions[%u].name must have 1 to %d characters", f, RF_FUNCTION_NAME_BYTES - 1);
        RF_REQUIRE(function->function, "rf_worker_run: functions[%u].function is NULL", f);
        RF_REQUIRE(function->batch || function->data,
                   "rf_worker_run: functions[%u] has neither batch nor data to take examples from", f);
        RF_REQUIRE(!function->data || rf_dataset_batch_size(function->data) > 0,
                   "rf_worker_run: functions[%u].data is not batched; use rf_dataset_batch()", f);
        RF_REQUIRE(function->num_results <= RF_MAX_RESULTS,
                   "rf_worker_run: functions[%u].num_results is %u; at most %d", f, function->num_results,
                   RF_MAX_RESULTS);
        for (uint32_t k = 0; k < f; k++)
            RF_REQUIRE(strcmp(p->functions[k].name, function->name) != 0, "rf_worker_run: two functions are named '%s'",
                       function->name);
    }
    return RF_OK;
}

rf_result rf_worker_run(const rf_worker_params *params)
{
    RF_TRY(RF_PARAMS_CHECK(rf_worker_params, params));
    RF_REQUIRE(params, "rf_worker_run: params is NULL");
    RF_REQUIRE(params->strategy, "rf_worker_run: strategy is NULL");
    RF_TRY(rf_ps_variables_check("rf_worker_run", params->strategy, params->variables));
    RF_TRY(check_functions(params));
    RF_REQUIRE(isfinite(params->global_clip_norm) && params->global_clip_norm >= 0,
               "rf_worker_run: global_clip_norm is %g; it must be a finite number, 0 or more",
               params->global_clip_norm);
    worker w = { .params = params, .readings = RF_NEW_ARRAY(reading, params->num_functions) };
    if (!w.readings) return RF_ERROR_OUT_OF_HOST_MEMORY;
    rf_strategy_set_remote(params->strategy, true);
    const rf_result r =
        rf_error_context(rf_ps_worker_run(&params->comm, params->variables, do_work, &w), "rf_worker_run");
    rf_strategy_set_remote(params->strategy, false);
    for (uint32_t f = 0; f < params->num_functions; f++) rf_iterator_destroy(&w.readings[f].iterator);
    rf_free(w.readings);
    return r;
}
