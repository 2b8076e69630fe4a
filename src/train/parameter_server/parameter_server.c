/* SPDX-License-Identifier: Apache-2.0 */
/* The side of parameter servers, workers and the chief that knows optimizers, functions and datasets. */
#include <ringfire/parameter_server.h>

#include <math.h>
#include <string.h>

#include "base/memory.h"
#include "base/params.h"
#include "data/pipeline.h"
#include "server/coordinator.h"
#include "server/variables.h"
#include "server/worker.h"
#include "step/step.h"
#include "train/optimizer/config_json.h"
#include "train/optimizer/optimizer.h"
#include "train/parameter_server/store.h"
#include "train/parameter_server/worker_data.h"

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

/* Servers cannot do this; messages say what to use instead. */
static rf_result check_optimizer(const rf_optimizer_params *p)
{
    RF_REQUIRE(p->clip_norm == 0 && p->global_clip_norm == 0,
               "no server has the whole gradient that a norm needs; use clip_value, or "
               "rf_worker_params::global_clip_norm");
    RF_REQUIRE(p->kind != RF_OPTIMIZER_LAMB,
               "no server has whole variables, whose norms LAMB needs; use RF_OPTIMIZER_ADAMW, or a mirrored strategy");
    RF_REQUIRE(p->kind != RF_OPTIMIZER_MUON, "no server has whole matrices, which Muon makes orthogonal; use "
                                             "RF_OPTIMIZER_ADAMW, or a mirrored strategy");
    RF_REQUIRE(p->kind != RF_OPTIMIZER_CUSTOM, "the optimizer is code of this process, which servers do not have; use "
                                               "one of the other kinds, or a mirrored strategy");
    RF_REQUIRE(!p->use_ema, "servers do not hand out averages; leave out use_ema, or use a mirrored strategy");
    RF_REQUIRE(!p->loss_scale, "no server has all gradients, which decide about an update; leave out loss_scale, or "
                               "use a mirrored strategy");
    return RF_OK;
}

/* As optimizers do it in a step: a pattern that names nothing is a slip. */
static rf_result find_rules(const rf_optimizer_params *p, const rf_ps_variables *variables, uint8_t *rules)
{
    bool used[RF_PS_MAX_GROUPS] = { false };
    for (uint32_t i = 0; i < variables->count; i++) {
        const char *name = rf_variable_name(variables->items[i]);
        const bool trained = i < variables->num_trained;
        rules[i] = trained ? (uint8_t)rf_parameter_group_of(p, name) : RF_PS_ADDED;
        for (uint32_t g = 0; trained && g < p->num_groups; g++)
            used[g] |= rf_parameter_group_matches(&p->groups[g], name);
    }
    for (uint32_t g = 0; g < p->num_groups; g++)
        RF_REQUIRE(used[g], "the optimizer's groups[%u], '%s', names none of the %u variables, e.g. '%s'", g,
                   p->groups[g].names, variables->num_trained, rf_variable_name(variables->items[0]));
    return RF_OK;
}

static rf_result read_own_slot(void *optimizer, const rf_ps_variables *variables, uint32_t slot, float *values)
{
    for (uint32_t i = 0; i < variables->num_trained; i++) {
        RF_TRY(rf_updater_read_slot(rf_optimizer_updater(optimizer), slot, variables->items[i], values));
        values += rf_shape_count(rf_variable_shape(variables->items[i]));
    }
    return RF_OK;
}

static void release_own(void *optimizer)
{
    rf_optimizer_release(optimizer);
}

static rf_result check_local(const rf_coordinator_params *p, const rf_ps_variables *variables)
{
    const rf_optimizer *o = p->local_optimizer;
    if (!o) return RF_OK;
    RF_TRY(rf_optimizer_check_alive(o, "local_optimizer"));
    RF_REQUIRE(!p->optimizer, "optimizer and local_optimizer are both set; leave one out");
    RF_REQUIRE(!rf_optimizer_is_remote(o), "local_optimizer is of rf_optimizer_create_remote(), which has no state");
    RF_REQUIRE(rf_optimizer_strategy(o) == rf_variable_strategy(variables->items[0]),
               "local_optimizer belongs to another strategy than the variables");
    RF_REQUIRE(rf_optimizer_configuration(o)->params.accumulation_steps == 1,
               "servers do not hand out accumulated gradients; use accumulation_steps 1, or leave out local_optimizer");
    return RF_OK;
}

/* With all that is found out before anybody is waited for. Takes over the variables. */
static rf_result open_coordinator(const rf_coordinator_params *params, rf_ps_variables *variables, uint8_t *rules,
                                  rf_coordinator **out)
{
    rf_optimizer_config config;
    char *text;
    rf_optimizer *own = params->local_optimizer;
    RF_TRY(check_local(params, variables));
    if (own)
        config = *rf_optimizer_configuration(own);
    else
        RF_TRY(rf_optimizer_configure(params->optimizer, &config));
    RF_TRY(check_optimizer(&config.params));
    RF_TRY(find_rules(&config.params, variables, rules));
    RF_TRY(rf_optimizer_text(&config, &text));
    rf_ps_optimizer optimizer = { .text = text, .size = strlen(text), .rules = rules };
    if (own) {
        rf_updater *updater = rf_optimizer_updater(own);
        optimizer.updates = rf_updater_iterations(updater);
        optimizer.num_slots = optimizer.updates > 0 ? rf_updater_parameters(updater)->num_slots : 0;
        optimizer.read_slot = read_own_slot;
        optimizer.user = rf_optimizer_retain(own);
        optimizer.release = release_own;
    }
    const rf_result r = rf_coordinator_open(params, variables, &optimizer, out);
    if (r < 0) rf_optimizer_release(own);
    rf_free(text);
    return r;
}

rf_result rf_coordinator_create(const rf_coordinator_params *params, rf_coordinator **out)
{
    static const char caller[] = "rf_coordinator_create";
    RF_REQUIRE(out, "%s: out is NULL", caller);
    *out = NULL;
    RF_TRY(RF_PARAMS_CHECK(rf_coordinator_params, params));
    RF_REQUIRE(params, "%s: params is NULL; variables are needed", caller);
    RF_REQUIRE(!params->synchronous || params->max_ahead == 0,
               "%s: max_ahead is for asynchronous training; synchronous workers are never ahead", caller);
    rf_ps_variables variables;
    RF_TRY(rf_ps_variables_create(caller, NULL, params->variables, params->state_variables, &variables));
    uint8_t *rules = RF_NEW_ARRAY(uint8_t, variables.count);
    rf_result r = rules ? RF_OK : RF_ERROR_OUT_OF_HOST_MEMORY;
    if (r == RF_OK) r = rf_error_context(open_coordinator(params, &variables, rules, out), "%s", caller);
    rf_ps_variables_free(&variables);
    rf_free(rules);
    return r;
}

static rf_result write_own_slot(rf_updater *updater, const rf_ps_variables *variables, uint32_t slot,
                                const float *values)
{
    for (uint32_t i = 0; i < variables->num_trained; i++) {
        RF_TRY(rf_updater_write_slot(updater, slot, variables->items[i], values));
        values += rf_shape_count(rf_variable_shape(variables->items[i]));
    }
    return RF_OK;
}

rf_result rf_coordinator_read_optimizer(rf_coordinator *coordinator)
{
    static const char caller[] = "rf_coordinator_read_optimizer";
    RF_REQUIRE(coordinator, "%s: coordinator is NULL", caller);
    rf_optimizer *own = rf_coordinator_user(coordinator);
    RF_REQUIRE(own, "%s: the coordinator has no optimizer to copy to; create it with local_optimizer", caller);
    RF_TRY(rf_optimizer_check_alive(own, caller));
    const rf_ps_variables *variables = rf_coordinator_variables(coordinator);
    rf_updater *updater = rf_optimizer_updater(own);
    const uint32_t slots = rf_updater_parameters(updater)->num_slots;
    uint64_t updates;
    const float *values;
    RF_TRY(rf_updater_learn(updater, variables->items, variables->num_trained));
    for (uint32_t k = 0; k < slots; k++) {
        RF_TRY(rf_coordinator_pull(coordinator, 1 + (uint64_t)k, &values, &updates));
        RF_TRY(write_own_slot(updater, variables, k, values));
    }
    if (slots == 0) RF_TRY(rf_coordinator_pull(coordinator, 0, &values, &updates)); /* for their number */
    rf_updater_set_iterations(updater, updates);
    return RF_OK;
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

typedef struct worker {
    const rf_worker_params *params;
    const rf_ps_variables *variables;
    rf_batch_reader *readers; /* [num_functions] */
} worker;

/* All workers have the dataset; share s of n takes batches s, n + s, ... of it, whoever computes the share. */
static rf_result read_batch(worker *w, uint32_t f, const rf_ps_work *work, rf_element *out)
{
    const rf_worker_function *function = &w->params->functions[f];
    rf_batch_reader *at = &w->readers[f];
    RF_REQUIRE(function->data, "no range of examples was given, and this worker has no dataset for '%s'",
               function->name);
    uint64_t number = work->number, stride = 1;
    if (function->whole_data) {
        number = number * work->shares + work->share;
        stride = work->shares;
    } else if (!work->synchronous) {
        number = at->begun ? at->next : work->first; /* each worker goes through its own at its own pace */
    }
    return rf_error_context(rf_batch_reader_read(at, function->data, number, stride, out), "the dataset of '%s'",
                            function->name);
}

static rf_result make_batch(worker *w, uint32_t f, const rf_ps_work *work, rf_element *out)
{
    const rf_worker_function *function = &w->params->functions[f];
    if (work->count == 0) return read_batch(w, f, work, out);
    RF_REQUIRE(function->batch, "a range of examples was given, but this worker only has a dataset for '%s'",
               function->name);
    const uint64_t before = rf_error_count();
    const rf_result r = function->batch(function->user, work->first, work->count, out);
    return rf_error_context(rf_error_of_user(r, before, "its batch function"), "examples %llu to %llu",
                            (unsigned long long)work->first, (unsigned long long)work->first + work->count);
}

/* As optimizers do it: a NaN is not clipped away. */
static void limit_norm(float *gradients, uint64_t count, double limit)
{
    double squares = 0;
    for (uint64_t i = 0; i < count; i++) squares += (double)gradients[i] * (double)gradients[i];
    const double norm = sqrt(squares);
    if (!(norm > limit)) return;
    for (uint64_t i = 0; i < count; i++) gradients[i] = (float)((double)gradients[i] * (limit / norm));
}

static rf_result do_work(void *user, const rf_ps_work *work, const float *values, float *changes, rf_ps_outcome *out)
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
    if (work->count == 0 && work->synchronous) out->hash = function->whole_data ? 1 : rf_batch_hash(&batch);
    /* Batches of a dataset follow each other in the order of their shares, as if all were full. */
    const uint64_t row = work->count > 0 ? work->row : work->share * (uint64_t)rf_dataset_batch_size(function->data);
    rf_function_set_share(function->function, work->number, row);
    rf_strategy_set_seed(p->strategy, work->seed);
    RF_TRY(rf_ps_variables_assign(w->variables, values));
    RF_TRY(rf_strategy_run(p->strategy, function->function, &batch, results));
    for (uint32_t i = 0; i < function->num_results; i++)
        RF_TRY(rf_strategy_reduce(p->strategy, RF_REDUCE_SUM, results[i], &out->results[i]));
    if (!function->no_update) {
        RF_TRY(rf_ps_variables_read_changes(w->variables, values, changes));
        if (p->global_clip_norm > 0) limit_norm(changes, w->variables->trained, p->global_clip_norm);
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
        RF_REQUIRE(function->name && function->name[0] && strlen(function->name) < RF_MAX_FUNCTION_NAME_BYTES,
                   "rf_worker_run: functions[%u].name must have 1 to %d characters", f, RF_MAX_FUNCTION_NAME_BYTES - 1);
        RF_REQUIRE(function->function, "rf_worker_run: functions[%u].function is NULL", f);
        RF_REQUIRE(function->batch || function->data,
                   "rf_worker_run: functions[%u] has neither batch nor data to take examples from", f);
        RF_REQUIRE(!function->data || rf_dataset_batch_size(function->data) > 0,
                   "rf_worker_run: functions[%u].data is not batched; use rf_dataset_batch()", f);
        RF_REQUIRE(function->data || !function->whole_data,
                   "rf_worker_run: functions[%u].whole_data is set, but there is no data", f);
        RF_REQUIRE(function->num_results <= RF_MAX_RESULTS,
                   "rf_worker_run: functions[%u].num_results is %u; at most %d", f, function->num_results,
                   RF_MAX_RESULTS);
        for (uint32_t k = 0; k < f; k++)
            RF_REQUIRE(strcmp(p->functions[k].name, function->name) != 0, "rf_worker_run: two functions are named '%s'",
                       function->name);
    }
    return RF_OK;
}

/* While servers hold the variables. */
static rf_result run_worker(worker *w)
{
    const rf_worker_params *p = w->params;
    const rf_ps_variables *variables = w->variables;
    rf_strategy_set_remote(p->strategy, true);
    for (uint32_t i = variables->num_trained; i < variables->count; i++)
        rf_variable_set_served(variables->items[i], true);
    bool own_data = false;
    for (uint32_t f = 0; f < p->num_functions; f++) own_data |= p->functions[f].data && !p->functions[f].whole_data;
    const uint64_t seed = rf_strategy_seed(p->strategy);
    const rf_result r = rf_ps_worker_run(&p->comm, variables, own_data, p->global_clip_norm, do_work, w);
    rf_strategy_set_seed(p->strategy, seed);
    for (uint32_t f = 0; f < p->num_functions; f++)
        rf_function_set_share(p->functions[f].function, rf_function_step(p->functions[f].function), 0);
    for (uint32_t i = variables->num_trained; i < variables->count; i++)
        rf_variable_set_served(variables->items[i], false);
    rf_strategy_set_remote(p->strategy, false);
    return r;
}

rf_result rf_worker_run(const rf_worker_params *params)
{
    static const char caller[] = "rf_worker_run";
    RF_TRY(RF_PARAMS_CHECK(rf_worker_params, params));
    RF_REQUIRE(params, "%s: params is NULL", caller);
    RF_REQUIRE(params->strategy, "%s: strategy is NULL", caller);
    RF_REFUSE_ZERO(params->global_clip_norm, "rf_worker_run: global_clip_norm",
                   "no gradient would be left; 0 turns clipping off");
    RF_REQUIRE(isfinite(params->global_clip_norm) && params->global_clip_norm >= 0,
               "%s: global_clip_norm is %g; it must be a finite number, 0 or more", caller, params->global_clip_norm);
    RF_TRY(check_functions(params));
    rf_ps_variables variables;
    RF_TRY(rf_ps_variables_create(caller, params->strategy, params->variables, params->state_variables, &variables));
    worker w = { .params = params,
                 .variables = &variables,
                 .readers = RF_NEW_ARRAY(rf_batch_reader, params->num_functions) };
    const rf_result r =
        w.readers ? rf_error_context(run_worker(&w), "%s", caller) : (rf_result)RF_ERROR_OUT_OF_HOST_MEMORY;
    for (uint32_t f = 0; w.readers && f < params->num_functions; f++) rf_batch_reader_close(&w.readers[f]);
    rf_free(w.readers);
    rf_ps_variables_free(&variables);
    return r;
}
