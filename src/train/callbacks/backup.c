/* SPDX-License-Identifier: Apache-2.0 */
/* The callback that lets an interrupted fit continue. */
#include <stdio.h>

#include "base/params.h"
#include "persist/file_ops.h"
#include "train/callbacks/callback.h"
#include "train/checkpoint/checkpoint.h"
#include "train/model/model.h"

typedef struct backup {
    char *directory;
    rf_backup_params params;
    rf_checkpoint *checkpoint; /* of the fit that runs */
    rf_checkpoint_manager *manager;
    uint64_t number; /* of the latest backup */
    uint64_t epoch, stopped;
    uint64_t counted, unsaved; /* batches of the epoch that were looked at; those since the latest backup */
} backup;

static void forget_fit(backup *b)
{
    rf_checkpoint_manager_destroy(&b->manager);
    rf_checkpoint_destroy(&b->checkpoint);
}

/* ---- what belongs to a fit ---- */

static rf_result add_metrics(rf_checkpoint *c, rf_meters *meters)
{
    RF_TRY(rf_checkpoint_add_metric(c, "metric_loss", meters->loss));
    for (uint32_t i = 0; i < meters->num_output_losses; i++) {
        char name[32];
        snprintf(name, sizeof(name), "metric_loss_%u", i);
        RF_TRY(rf_checkpoint_add_metric(c, name, meters->output_losses[i]));
    }
    for (uint32_t i = 0; i < meters->num_metrics; i++) {
        char name[128];
        snprintf(name, sizeof(name), "metric_%s", rf_metric_name(meters->metrics[i]));
        RF_TRY(rf_checkpoint_add_metric(c, name, meters->metrics[i]));
    }
    return rf_checkpoint_add_counter(c, "examples", &meters->examples);
}

/* Callbacks are known by their place in the list. */
static rf_result add_callbacks(rf_checkpoint *c, const rf_fit_params *params)
{
    for (uint32_t i = 0; i < params->num_callbacks; i++) {
        const rf_callback *callback = params->callbacks[i];
        if (!callback->extras || !callback->extras->save) continue;
        char name[32];
        snprintf(name, sizeof(name), "callback_%u", i);
        const rf_blob_fns fns = { callback->extras->save, callback->extras->restore };
        RF_TRY(rf_checkpoint_add_blob(c, name, &fns, callback->user));
    }
    return RF_OK;
}

static rf_result collect_objects(backup *b, rf_fit_progress *at)
{
    rf_checkpoint *c = b->checkpoint;
    rf_compiled *compiled = at->compiled;
    RF_TRY(rf_checkpoint_add_model(c, "model", compiled->model));
    RF_TRY(rf_checkpoint_add_optimizer(c, "optimizer", compiled->optimizer));
    RF_TRY(rf_checkpoint_add_function(c, "train_step", compiled->train));
    RF_TRY(add_metrics(c, &compiled->train_meters));
    RF_TRY(rf_checkpoint_add_iterator(c, "iterator", &at->iterator, at->params->data));
    RF_TRY(rf_checkpoint_add_counter(c, "pass", &at->pass));
    RF_TRY(rf_checkpoint_add_counter(c, "epoch", &b->epoch));
    RF_TRY(rf_checkpoint_add_counter(c, "batch", &at->batches));
    RF_TRY(rf_checkpoint_add_counter(c, "stopped", &b->stopped));
    return add_callbacks(c, at->params);
}

/* ---- events ---- */

static rf_result backup_save(backup *b, const rf_fit_progress *at)
{
    b->epoch = at->state.epoch;
    b->stopped = at->state.stop_training;
    b->unsaved = 0;
    return rf_checkpoint_manager_save(b->manager, ++b->number);
}

/* The directory is there once there is a manager. On the chief, who writes the file itself. */
static rf_result check_writable(const backup *b, rf_strategy *strategy)
{
    rf_result r = RF_OK;
    if (rf_strategy_is_chief(strategy)) {
        char *path = rf_asprintf("%s/backup", b->directory);
        r = path ? rf_new_file_try(&rf_system_file_ops, path) : RF_ERROR_OUT_OF_HOST_MEMORY;
        rf_free(path);
    }
    return rf_broadcast_result(strategy, r);
}

/* Whether there is a backup at all, on the chief. */
static rf_result find_backup(backup *b, const rf_fit_progress *at, bool *found)
{
    rf_strategy *strategy = at->compiled->model->strategy;
    rf_result r = RF_OK;
    uint8_t there = 0;
    if (rf_strategy_is_chief(strategy)) {
        rf_error_record before;
        char *path = NULL;
        rf_error_save(&before);
        r = rf_checkpoint_latest(b->directory, "backup", &path);
        there = r >= 0;
        rf_string_free(path);
        if (r == RF_ERROR_NOT_FOUND) {
            (void)rf_error_restore(&before); /* the first start is no failure */
            r = RF_OK;
        }
    }
    RF_TRY(rf_broadcast_result(strategy, r));
    RF_TRY(rf_broadcast_bytes(strategy, "whether there is a backup", &there, sizeof(there)));
    *found = there != 0;
    return RF_OK;
}

static rf_result take_up(backup *b, rf_fit_progress *at)
{
    bool found;
    RF_TRY(collect_objects(b, at));
    const rf_checkpoint_manager_params manager = {
        .directory = b->directory, .prefix = "backup", .max_to_keep = 2, .save = b->params.save
    };
    RF_TRY(rf_checkpoint_manager_create(b->checkpoint, &manager, &b->manager));
    RF_TRY(check_writable(b, at->compiled->model->strategy));
    RF_TRY(find_backup(b, at, &found));
    if (!found) return RF_OK;
    RF_TRY(rf_checkpoint_manager_restore(b->manager, NULL, &b->number));
    RF_REQUIRE(b->epoch <= UINT32_MAX, "epoch %llu", (unsigned long long)b->epoch);
    at->state.epoch = (uint32_t)b->epoch;
    at->state.stop_training = b->stopped != 0;
    b->counted = at->batches;
    at->resumed = true;
    return RF_OK;
}

static rf_result backup_resume(void *user, rf_fit_progress *at)
{
    backup *b = user;
    forget_fit(b); /* an earlier fit ended with an error */
    b->number = b->counted = b->unsaved = 0;
    rf_result r = rf_checkpoint_create(at->compiled->model->strategy, &b->checkpoint);
    if (r >= 0) r = take_up(b, at);
    return rf_error_context(r, "backup in '%s'", b->directory);
}

static rf_result save_progress(void *user, rf_fit_progress *at, rf_fit_point point)
{
    backup *b = user;
    const uint64_t every = b->params.save_every_batches;
    const bool stops = point == RF_FIT_STOPPED || rf_strategy_stop_agreed(at->compiled->model->strategy);
    if (point != RF_FIT_EPOCH_END) b->unsaved += at->batches - b->counted;
    b->counted = at->batches;
    const bool due = point == RF_FIT_EPOCH_END ? every == 0 : every > 0 && b->unsaved >= every;
    rf_result r = due || stops ? backup_save(b, at) : RF_OK;
    if (r >= 0 && stops) r = rf_checkpoint_wait(b->checkpoint);
    return rf_error_context(r, "backup in '%s'", b->directory);
}

static rf_result on_train_end(void *user, rf_fit_state *state, const rf_logs *logs)
{
    backup *b = user;
    (void)logs;
    if (!b->checkpoint) return RF_OK;
    rf_result r = rf_checkpoint_wait(b->checkpoint);
    if (r >= 0 && !b->params.keep && !rf_strategy_stop_agreed(state->model->strategy))
        r = rf_checkpoint_manager_clear(b->manager);
    forget_fit(b);
    return rf_error_context(r, "backup in '%s'", b->directory);
}

static void backup_destroy(void *user)
{
    backup *b = user;
    forget_fit(b);
    rf_free(b->directory);
    rf_free(b);
}

static const rf_callback_extras extras = { .resume = backup_resume, .progressed = save_progress };

rf_result rf_callback_backup_and_restore(const rf_backup_params *params, rf_callback **out)
{
    RF_REQUIRE(out, "rf_callback_backup_and_restore: out is NULL");
    *out = NULL;
    RF_TRY(RF_PARAMS_CHECK(rf_backup_params, params));
    RF_REQUIRE(params && params->directory && *params->directory,
               "rf_callback_backup_and_restore: params->directory is missing");
    backup *b = RF_NEW(backup);
    if (!b) return RF_ERROR_OUT_OF_HOST_MEMORY;
    b->params = *params;
    b->directory = rf_strdup(params->directory);
    const rf_callback_fns fns = { .on_train_end = on_train_end, .destroy = backup_destroy };
    const rf_result r = b->directory ? rf_callback_create(&fns, b, out) : RF_ERROR_OUT_OF_HOST_MEMORY;
    if (r < 0) {
        backup_destroy(b);
        return r;
    }
    (*out)->extras = &extras;
    return RF_OK;
}
