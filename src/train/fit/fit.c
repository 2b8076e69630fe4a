/* SPDX-License-Identifier: Apache-2.0 */
/* The training loop behind rf_model_fit(). */
#include <ringfire/status.h>

#include <inttypes.h>
#include <stdio.h>

#include "base/error.h"
#include "base/params.h"
#include "base/platform.h"
#include "step/step.h"
#include "trace/trace.h"
#include "train/callbacks/callback.h"
#include "train/fit/class_weights.h"
#include "train/fit/compile.h"
#include "train/metrics/logs.h"
#include "train/optimizer/optimizer.h"

typedef struct fit_run {
    rf_model *model;
    rf_compiled *compiled;
    const rf_fit_params *params;
    rf_fit_progress at;
    bool reads_batches; /* some callback reads values after batches */
    bool cut_short;     /* a stop was agreed while an epoch ended */
    bool begun;         /* passes through the data count from here on */
    uint64_t epoch_start_ns;
    rf_logs logs; /* of the latest epoch */
} fit_run;

/* ---- callbacks ---- */

typedef enum fit_event { TRAIN_BEGIN, TRAIN_END, EPOCH_BEGIN, EPOCH_END, BATCH_BEGIN, BATCH_END } fit_event;

static const char *const event_names[] = { "on_train_begin", "on_train_end",   "on_epoch_begin",
                                           "on_epoch_end",   "on_batch_begin", "on_batch_end" };

static rf_result call_one(const rf_callback *callback, fit_event event, rf_fit_state *state, const rf_logs *logs)
{
    rf_result (*begin)(void *, rf_fit_state *) = NULL;
    rf_result (*end)(void *, rf_fit_state *, const rf_logs *) = NULL;
    switch (event) {
    case TRAIN_BEGIN: begin = callback->fns.on_train_begin; break;
    case TRAIN_END: end = callback->fns.on_train_end; break;
    case EPOCH_BEGIN: begin = callback->fns.on_epoch_begin; break;
    case EPOCH_END: end = callback->fns.on_epoch_end; break;
    case BATCH_BEGIN: begin = callback->fns.on_batch_begin; break;
    case BATCH_END: end = callback->fns.on_batch_end; break;
    }
    if (begin) return begin(callback->user, state);
    return end ? end(callback->user, state, logs) : RF_OK;
}

/* A callback at the end of an epoch that was itself stopped, as rf_model_evaluate() in it was. */
static bool callback_stopped(const fit_run *run, fit_event event, rf_result r)
{
    return event == EPOCH_END && r == RF_ERROR_CANCELLED && rf_strategy_stop_agreed(run->model->strategy);
}

static rf_result call_all(fit_run *run, fit_event event, const rf_logs *logs)
{
    run->at.state.seconds = (double)(rf_now_ns() - run->epoch_start_ns) * 1e-9;
    for (uint32_t i = 0; i < run->params->num_callbacks; i++) {
        const uint64_t before = rf_error_count();
        const rf_result r =
            rf_error_of_user(call_one(run->params->callbacks[i], event, &run->at.state, logs), before, "it");
        if (callback_stopped(run, event, r)) {
            run->cut_short = true;
            break;
        }
        if (r < 0) return rf_error_context(r, "rf_model_fit: callbacks[%u], %s", i, event_names[event]);
    }
    return RF_OK;
}

/* Callbacks of the library that keep track of how far fit has come. */
static rf_result report_progress(fit_run *run, rf_fit_point point)
{
    for (uint32_t i = 0; i < run->params->num_callbacks; i++) {
        const rf_callback *callback = run->params->callbacks[i];
        if (callback->extras && callback->extras->progressed)
            RF_TRY(callback->extras->progressed(callback->user, &run->at, point));
    }
    return RF_OK;
}

static rf_result fit_run_resume(fit_run *run)
{
    for (uint32_t i = 0; i < run->params->num_callbacks; i++) {
        const rf_callback *callback = run->params->callbacks[i];
        if (callback->extras && callback->extras->resume) RF_TRY(callback->extras->resume(callback->user, &run->at));
    }
    return RF_OK;
}

/* Names of the logs of an epoch that is validated (end_epoch() has their values). */
static rf_logs name_logs(const rf_compiled *c, const rf_fit_params *params)
{
    rf_logs names = { 0 };
    for (uint32_t i = 0; i < rf_meters_count(&c->train_meters); i++) rf_logs_add(&names, c->names[i], 0);
    for (uint32_t i = 0; params->validation_data && i < rf_meters_count(&c->evaluate_meters); i++)
        rf_logs_add(&names, c->val_names[i], 0);
    rf_logs_add(&names, "learning_rate", 0);
    return names;
}

static rf_result fit_run_begin(fit_run *run)
{
    const rf_logs names = name_logs(run->compiled, run->params);
    for (uint32_t i = 0; i < run->params->num_callbacks; i++) {
        const rf_callback *callback = run->params->callbacks[i];
        if (!callback->extras || !callback->extras->begin) continue;
        const rf_result r = callback->extras->begin(callback->user, &run->at, &names);
        if (r < 0) return rf_error_context(r, "rf_model_fit: callbacks[%u]", i);
    }
    return RF_OK;
}

/* ---- the status of the job ---- */

/* Only where values have been read in any case: reading waits for the devices. */
static rf_result tell_progress(const fit_run *run, const rf_logs *logs)
{
    const rf_fit_state *state = &run->at.state;
    if (!rf_strategy_has_status(run->model->strategy)) return RF_OK;
    return rf_strategy_set_progress(
        run->model->strategy,
        &(rf_progress){ .epoch = state->epoch,
                        .num_epochs = state->num_epochs,
                        .batch = run->at.batches,
                        .batches_per_epoch = state->batches_per_epoch > 0 ? (uint64_t)state->batches_per_epoch : 0,
                        .names = logs ? logs->name : NULL,
                        .values = logs ? logs->value : NULL,
                        .num_values = logs ? logs->count : 0 });
}

/* ---- one epoch ---- */

static rf_result next_pass(fit_run *run)
{
    rf_iterator_destroy(&run->at.iterator);
    return rf_iterator_create(run->params->data, run->at.pass++, &run->at.iterator);
}

/* Goes on where the model's latest fit stopped, so that no pass comes twice: with steps_per_epoch within the same
 * pipeline's pass, else with the next one. */
static rf_result continue_passes(fit_run *run)
{
    const rf_model *model = run->model;
    run->begun = true;
    if (run->at.resumed) return RF_OK;
    if (model->passes > run->at.pass) run->at.pass = model->passes;
    if (run->params->steps_per_epoch == 0 || !model->position) return RF_OK;
    rf_error_record before;
    rf_error_save(&before);
    const rf_result r =
        rf_iterator_restore(run->params->data, model->position, model->position_size, &run->at.iterator);
    if (r >= 0) run->at.pass = model->passes;
    if (r != RF_ERROR_INVALID_ARGUMENT && r != RF_ERROR_CORRUPT_DATA) return r;
    (void)rf_error_restore(&before); /* another pipeline is no failure */
    return RF_OK;
}

/* For the model's next fit, also after a failure. Returns `result`, unless only this fails. */
static rf_result keep_passes(fit_run *run, rf_result result)
{
    rf_model *model = run->model;
    rf_error_record record;
    if (!run->begun) return result;
    model->passes = run->at.pass;
    rf_iterator_state_free(model->position);
    model->position = NULL;
    if (run->params->steps_per_epoch == 0 || !run->at.iterator) return result;
    rf_error_save(&record);
    const rf_result r = rf_iterator_save(run->at.iterator, &model->position, &model->position_size);
    return result < 0 ? rf_error_restore(&record) : r;
}

/* The next batch; RF_END at the end of the epoch. With steps_per_epoch the epochs follow each other through the
 * dataset, and passes through the dataset follow each other within an epoch. */
static rf_result next_batch(fit_run *run, const rf_element **batch)
{
    const uint64_t steps = run->params->steps_per_epoch;
    if (steps > 0 && run->at.batches >= steps) return RF_END;
    const rf_result r = rf_iterator_next(run->at.iterator, batch);
    if (r != RF_END || steps == 0) return r;
    RF_TRY(next_pass(run));
    const rf_result again = rf_iterator_next(run->at.iterator, batch);
    if (again == RF_END) return RF_FAIL(RF_ERROR_INVALID_ARGUMENT, "rf_model_fit: data has no elements");
    return again;
}

/* Checked wherever values are read in any case. All workers read the same values, and no callback saves weights of a
 * diverged training. */
static rf_result check_loss(const fit_run *run, const rf_logs *logs)
{
    char where[96];
    snprintf(where, sizeof(where), "rf_model_fit: epoch %" PRIu32 ", batch %" PRIu64 " or before",
             run->at.state.epoch + 1, run->at.batches);
    return rf_logs_check_finite(logs, "loss", where);
}

static rf_result end_execution(fit_run *run, bool stop)
{
    rf_logs logs = { 0 };
    if (run->reads_batches) {
        RF_TRY(rf_meters_read(&run->compiled->train_meters, run->compiled->names, &logs));
        RF_TRY(check_loss(run, &logs));
        RF_TRY(tell_progress(run, &logs));
        RF_TRY(call_all(run, BATCH_END, &logs));
    }
    run->at.state.batch_examples = 0;
    return report_progress(run, stop ? RF_FIT_STOPPED : RF_FIT_BATCHES);
}

/* Trains on all batches that are left of the epoch. */
static rf_result train_batches(fit_run *run)
{
    const uint32_t group = run->compiled->steps_per_execution;
    uint32_t in_group = 0;
    for (;;) {
        const rf_element *batch;
        const rf_result r = next_batch(run, &batch);
        if (r == RF_END) break;
        RF_TRY(r);
        run->at.state.batch = run->at.batches;
        if (in_group == 0) RF_TRY(call_all(run, BATCH_BEGIN, NULL));
        RF_TRY(rf_run_batch(run->compiled, run->compiled->train, &run->compiled->train_meters, batch));
        run->at.state.batch_examples += (uint32_t)rf_element_global_rows(batch);
        run->at.batches++;
        run->at.state.epoch_examples = run->compiled->train_meters.examples;
        run->at.state.timed_examples += (uint64_t)rf_element_global_rows(batch);
        const bool stop = rf_strategy_stop_agreed(run->model->strategy);
        if (++in_group == group || stop) {
            in_group = 0;
            RF_TRY(end_execution(run, stop));
        }
        if (stop) break;
    }
    return in_group > 0 ? end_execution(run, false) : RF_OK;
}

static rf_result run_validation(fit_run *run)
{
    rf_compiled *c = run->compiled;
    RF_TRY(rf_evaluate_pass(c, run->params->validation_data, "rf_model_fit: validation_data", &run->cut_short));
    if (run->cut_short) return RF_OK;
    RF_TRY(rf_meters_read(&c->evaluate_meters, c->val_names, &run->logs));
    char where[96];
    snprintf(where, sizeof(where), "rf_model_fit: validation after epoch %" PRIu32, run->at.state.epoch + 1);
    return rf_logs_check_finite(&run->logs, c->val_names[0], where);
}

/* Whether validation follows the epoch that is at its end. */
static bool validation_follows(const rf_fit_params *params, uint32_t epoch)
{
    const uint64_t every = params->validation_freq ? params->validation_freq : 1;
    return params->validation_data && ((uint64_t)epoch + 1) % every == 0;
}

/* The end of an epoch is whole or not at all: where it was cut short, a resumed fit repeats it, as all that it begins
 * with, the weights and the values of the training, is unchanged. */
static rf_result end_epoch(fit_run *run, rf_history *history)
{
    rf_compiled *c = run->compiled;
    rf_strategy *s = run->model->strategy;
    run->logs = (rf_logs){ 0 };
    RF_TRY(rf_meters_read(&c->train_meters, c->names, &run->logs)); /* waits for the devices */
    RF_TRY(check_loss(run, &run->logs));
    run->at.state.train_seconds = (double)(rf_now_ns() - run->epoch_start_ns) * 1e-9;
    if (validation_follows(run->params, run->at.state.epoch)) RF_TRY(run_validation(run));
    if (run->cut_short) return report_progress(run, RF_FIT_STOPPED);
    rf_logs_add(&run->logs, "learning_rate", rf_optimizer_learning_rate(c->optimizer));
    RF_TRY(tell_progress(run, &run->logs));
    RF_TRY(call_all(run, EPOCH_END, &run->logs));
    /* Only one worker's callback may have been stopped. */
    if (rf_strategy_stop_agreed(s)) RF_TRY(rf_strategy_any(s, run->cut_short, &run->cut_short));
    if (run->cut_short) return report_progress(run, RF_FIT_STOPPED);
    if (history) RF_TRY(rf_history_add(history, &run->logs));
    RF_TRY(rf_strategy_any(s, run->at.state.stop_training, &run->at.state.stop_training));
    if (run->params->steps_per_epoch == 0) rf_iterator_destroy(&run->at.iterator);
    run->at.state.epoch++;
    run->at.batches = 0;
    return report_progress(run, RF_FIT_EPOCH_END);
}

/* An epoch that a resumed fit continues has its iterator and meters already; its rate was set when it began. */
static rf_result begin_epoch(fit_run *run)
{
    rf_compiled *c = run->compiled;
    if (run->at.batches > 0) {
        const rf_schedule schedule = rf_optimizer_configuration(c->optimizer)->schedule;
        RF_TRY(call_all(run, EPOCH_BEGIN, NULL));
        return rf_optimizer_set_schedule(c->optimizer, &schedule);
    }
    RF_TRY(call_all(run, EPOCH_BEGIN, NULL));
    RF_TRY(rf_meters_reset(&c->train_meters));
    return run->params->steps_per_epoch == 0 || !run->at.iterator ? next_pass(run) : RF_OK;
}

static rf_result train_epoch(fit_run *run, rf_history *history)
{
    run->epoch_start_ns = rf_now_ns();
    run->at.state.batch = run->at.batches;
    run->at.state.batch_examples = 0;
    run->at.state.epoch_examples = run->at.batches > 0 ? run->compiled->train_meters.examples : 0;
    run->at.state.timed_examples = 0;
    run->at.state.train_seconds = 0;
    RF_TRY(begin_epoch(run));
    RF_TRY(tell_progress(run, NULL));
    RF_TRY(train_batches(run));
    RF_REQUIRE(run->at.batches > 0, "rf_model_fit: data has no elements");
    run->at.state.batches_per_epoch = (int64_t)run->at.batches;
    return rf_strategy_stop_agreed(run->model->strategy) ? RF_OK : end_epoch(run, history);
}

/* `state.epoch` counts epochs that have ended; callbacks at the end of training see the last one. */
static rf_result fit_run_train(fit_run *run, rf_history *history)
{
    rf_fit_state *state = &run->at.state;
    /* Reading values is collective: where one worker's callbacks want them, all read them. */
    RF_TRY(rf_strategy_any(run->model->strategy, run->reads_batches, &run->reads_batches));
    RF_TRY(call_all(run, TRAIN_BEGIN, NULL));
    RF_TRY(fit_run_resume(run));
    RF_TRY(fit_run_begin(run));
    RF_TRY(continue_passes(run));
    while (state->epoch < state->num_epochs && !state->stop_training) {
        if (rf_strategy_stop_agreed(run->model->strategy)) break; /* by a callback, which went on all the same */
        RF_TRY(train_epoch(run, history));
        if (run->at.batches > 0) break; /* stopped within the epoch, or at its end */
    }
    /* Not where training was interrupted, to be resumed. */
    if (run->at.batches == 0 && !rf_strategy_stop_agreed(run->model->strategy))
        RF_TRY(rf_optimizer_finalize_variables(run->compiled->optimizer));
    if (run->at.batches == 0 && state->epoch > run->params->initial_epoch) state->epoch--;
    return call_all(run, TRAIN_END, &run->logs);
}

/* ---- the public function ---- */

static rf_result check_params(const rf_model *model, const rf_fit_params *params)
{
    RF_REQUIRE(model, "rf_model_fit: model is NULL");
    RF_TRY(rf_model_check_alive(model, "rf_model_fit"));
    RF_REQUIRE(params, "rf_model_fit: params is NULL; data is needed");
    RF_REQUIRE(model->compiled, "rf_model_fit: model is not compiled; call rf_model_compile() first");
    RF_TRY(rf_optimizer_check_alive(model->compiled->optimizer, "rf_model_fit"));
    RF_TRY(rf_check_dataset(model, params->data, true, "rf_model_fit: data"));
    if (params->validation_data)
        RF_TRY(rf_check_dataset(model, params->validation_data, true, "rf_model_fit: validation_data"));
    RF_REQUIRE(params->steps_per_epoch > 0 || rf_dataset_cardinality(params->data) != RF_CARDINALITY_INFINITE,
               "rf_model_fit: data is infinite; set steps_per_epoch");
    RF_REQUIRE(params->num_callbacks == 0 || params->callbacks,
               "rf_model_fit: callbacks is NULL but num_callbacks is %u", params->num_callbacks);
    const rf_logs names = name_logs(model->compiled, params);
    for (uint32_t i = 0; i < params->num_callbacks; i++) {
        const rf_callback *callback = params->callbacks[i];
        RF_REQUIRE(callback, "rf_model_fit: callbacks[%u] is NULL", i);
        if (callback->extras && callback->extras->check)
            RF_TRY(rf_error_context(callback->extras->check(callback->user, &names), "rf_model_fit: callbacks[%u]", i));
    }
    return RF_OK;
}

/* Callbacks find a model with variables from the start, where the type of the data allows to say so beforehand. */
static rf_result build_for(rf_model *model, const rf_dataset *data)
{
    rf_element_spec spec;
    rf_dataset_spec(data, &spec);
    if (model->built) return RF_OK;
    for (uint32_t i = 0; i < model->num_inputs; i++) {
        const bool plain = spec.dtype[i] == RF_F32 || spec.dtype[i] == RF_I32;
        if (!plain || spec.shape[i].rank < (model->apply ? 1 : 2)) return RF_OK;
    }
    return rf_model_build_inputs(model, &spec);
}

static rf_result model_fit(rf_model *model, const rf_fit_params *params, rf_history *history)
{
    const int64_t cardinality = rf_dataset_cardinality(params->data);
    fit_run run = { .model = model,
                    .compiled = model->compiled,
                    .params = params,
                    .at = { .compiled = model->compiled, .params = params } };
    run.at.state = (rf_fit_state){
        .model = model,
        .optimizer = model->compiled->optimizer,
        .rank = rf_strategy_rank(model->strategy),
        .epoch = params->initial_epoch,
        .num_epochs = params->epochs ? params->epochs : 1,
        .batches_per_epoch = params->steps_per_epoch > 0 ? (int64_t)params->steps_per_epoch
                             : cardinality >= 0          ? cardinality
                                                         : -1,
    };
    run.at.pass = params->initial_epoch;
    run.epoch_start_ns = rf_now_ns();
    for (uint32_t i = 0; i < params->num_callbacks; i++) {
        run.reads_batches = run.reads_batches || params->callbacks[i]->fns.on_batch_end;
    }
    const rf_result r = keep_passes(&run, fit_run_train(&run, history));
    rf_iterator_destroy(&run.at.iterator);
    return r;
}

/* Rows of a batch that some layer needs on one worker. Where the layers' numbers have no common multiple, the step says
 * so. */
static uint32_t rows_together(const rf_model *model)
{
    uint32_t together = 1;
    for (uint32_t i = 0; i < rf_model_num_all_layers(model) && together > 0; i++)
        together = rf_common_unit(together, rf_layer_keeps_together(rf_model_any_layer(model, i)));
    return together;
}

/* The datasets as this worker reads them. */
static rf_result datasets_distribute(const rf_model *model, const rf_fit_params *params, rf_dataset **data,
                                     rf_dataset **validation)
{
    rf_strategy *s = model->strategy;
    rf_distribute_params how = { .policy = params->distribute, .keep_together = rows_together(model) };
    RF_TRY(rf_strategy_distribute_dataset(s, params->data, &how, data));
    if (!params->validation_data) return RF_OK;
    if (how.policy == RF_DISTRIBUTE_BY_FILE) how.policy = RF_DISTRIBUTE_BY_EXAMPLE;
    return rf_strategy_distribute_dataset(s, params->validation_data, &how, validation);
}

/* The train step reads a data set that is no longer kept. Returns `result`, unless only this fails. */
static rf_result forget_step(rf_compiled *c, rf_result result)
{
    rf_error_record record;
    if (result >= 0) return rf_function_forget(c->train);
    rf_error_save(&record);
    (void)rf_function_forget(c->train); /* fails only where the strategy does, which then runs nothing any more */
    return rf_error_restore(&record);
}

/* `kept`: the data on the devices; NULL: it comes from the host. */
static rf_result fit_on(rf_model *model, const rf_fit_params *params, const rf_device_data *kept, rf_history *history)
{
    rf_compiled *c = model->compiled;
    rf_dataset *data = NULL, *validation = NULL;
    rf_fit_params own = *params;
    if (kept) own.data = rf_device_data_rows(kept);
    rf_result r = datasets_distribute(model, &own, &data, &validation);
    if (r >= 0) {
        own.data = data;
        own.validation_data = validation;
        c->device_data = kept;
        r = model_fit(model, &own, history);
        c->device_data = NULL;
    }
    if (kept) r = forget_step(c, r);
    rf_dataset_destroy(&data);
    rf_dataset_destroy(&validation);
    return r;
}

rf_result rf_model_fit(rf_model *model, const rf_fit_params *params, rf_history *history)
{
    if (history) *history = (rf_history){ 0 };
    RF_TRY(RF_PARAMS_CHECK(rf_fit_params, params));
    RF_TRY(check_params(model, params));
    RF_TRY(build_for(model, params->data));
    rf_class_weights weights;
    rf_dataset *weighted;
    rf_device_data *kept = NULL;
    RF_TRY(rf_class_weights_apply(model, params, &weights, &weighted));
    rf_fit_params own = *params;
    if (weighted) own.data = weighted;
    const rf_device_data_params how = { .policy = params->device_cache };
    rf_result r =
        rf_error_context(rf_device_data_create(model->strategy, own.data, &how, &kept), "rf_model_fit: device_cache");
    if (r >= 0) r = fit_on(model, &own, kept, history);
    rf_device_data_destroy(&kept);
    rf_dataset_destroy(&weighted);
    return rf_strategy_fail_in_job(model->strategy, r);
}
