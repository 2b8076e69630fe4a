/* SPDX-License-Identifier: Apache-2.0 */
/* Saves the model after epochs. */
#include <math.h>
#include <string.h>

#include "base/params.h"
#include "base/platform.h"
#include "persist/directory_lock.h"
#include "persist/file_ops.h"
#include "persist/path_format.h"
#include "train/callbacks/callback.h"
#include "train/callbacks/monitor.h"
#include "train/checkpoint/checkpoint.h"

#define SUFFIX ".rfck"

typedef struct model_checkpoint {
    rf_model_checkpoint_params params; /* strings are owned */
    char *path;
    rf_monitor monitor;     /* its best value is that of the file, of all fits */
    char *fixed;            /* the path up to its first place */
    const char *rest;       /* the others, as they stand in the path */
    uint32_t num_names;     /* of values, after an epoch that ends with validation */
    rf_directory_lock lock; /* while fit runs, on the chief */
} model_checkpoint;

static rf_result make_directory_of(const char *path)
{
    const char *slash = strrchr(path, '/');
    if (!slash || slash == path) return RF_OK;
    char *directory = rf_asprintf("%.*s", (int)(slash - path), path);
    const rf_result r = directory ? rf_make_directories(directory, 0777) : RF_ERROR_OUT_OF_HOST_MEMORY;
    rf_free(directory);
    return r;
}

/* Two trainings would take turns in overwriting one series of files. Which directories a path with places in their
 * names will have is not known yet, only where they will be. */
static rf_result prepare_files(model_checkpoint *m)
{
    const char *slash = strrchr(m->fixed, '/');
    const bool known = !strchr(m->rest, '/');
    char *path = known ? rf_asprintf("%s%s", m->fixed, m->rest)
                       : rf_asprintf("%.*scheckpoint" SUFFIX, slash ? (int)(slash - m->fixed) + 1 : 0, m->fixed);
    rf_result r = path ? make_directory_of(path) : RF_ERROR_OUT_OF_HOST_MEMORY;
    if (r >= 0) r = rf_new_file_try(&rf_system_file_ops, path);
    if (r >= 0 && known) r = rf_directory_lock_take_file(&m->lock, path);
    rf_free(path);
    return rf_error_context(r, "model checkpoint");
}

/* That there is a value for each place, and what the path is without them. */
static rf_result check_names(void *user, const rf_logs *names)
{
    model_checkpoint *m = user;
    char *path;
    m->num_names = names->count;
    if (m->params.save_best_only) RF_TRY(rf_monitor_check(&m->monitor, "model checkpoint", names));
    RF_TRY(rf_error_context(rf_path_format(m->path, 1, names, &path), "model checkpoint"));
    rf_free(path);
    rf_free(m->fixed);
    RF_TRY(rf_path_fixed(m->path, names, &m->fixed, &m->rest));
    return RF_OK;
}

static rf_result on_train_begin(void *user, rf_fit_state *state)
{
    model_checkpoint *m = user;
    return state->rank == 0 ? prepare_files(m) : RF_OK;
}

static rf_result on_train_end(void *user, rf_fit_state *state, const rf_logs *logs)
{
    model_checkpoint *m = user;
    (void)state;
    (void)logs;
    rf_directory_lock_release(&m->lock);
    return RF_OK;
}

/* *best: the best value once this is saved. An epoch without validation has no values of it to compare or to put into
 * the path. */
static bool is_wanted(const model_checkpoint *m, const rf_logs *logs, double *best)
{
    *best = m->monitor.best;
    if (logs->count < m->num_names && strstr(m->path, "{val_")) return false;
    if (!m->params.save_best_only) return true;
    return rf_logs_get(logs, m->monitor.name, best) && rf_monitor_better(&m->monitor, *best, m->monitor.best);
}

static rf_result on_epoch_end(void *user, rf_fit_state *state, const rf_logs *logs)
{
    model_checkpoint *m = user;
    double best;
    char *path;
    if (!is_wanted(m, logs, &best)) return RF_OK;
    RF_TRY(rf_error_context(rf_path_format(m->path, (uint64_t)state->epoch + 1, logs, &path), "model checkpoint"));
    rf_result r = state->rank == 0 ? make_directory_of(path) : RF_OK;
    if (r >= 0)
        r = m->params.save_weights_only ? rf_model_save_weights(state->model, path, &m->params.save)
                                        : rf_model_save(state->model, path, &m->params.save);
    rf_free(path);
    if (r >= 0) m->monitor.best = best;
    return rf_error_context(r, "model checkpoint");
}

static rf_result save_best(void *user, void **data, size_t *size)
{
    const model_checkpoint *m = user;
    *data = rf_calloc(1, sizeof(m->monitor.best));
    if (!*data) return RF_ERROR_OUT_OF_HOST_MEMORY;
    memcpy(*data, &m->monitor.best, sizeof(m->monitor.best));
    *size = sizeof(m->monitor.best);
    return RF_OK;
}

static rf_result restore_best(void *user, const void *data, size_t size)
{
    model_checkpoint *m = user;
    if (size != sizeof(m->monitor.best)) return RF_FAIL(RF_ERROR_CORRUPT_DATA, "%zu bytes are not a number", size);
    memcpy(&m->monitor.best, data, size);
    return RF_OK;
}

static const rf_callback_extras extras = { .check = check_names, .save = save_best, .restore = restore_best };

static void model_checkpoint_destroy(void *user)
{
    model_checkpoint *m = user;
    rf_directory_lock_release(&m->lock);
    rf_free(m->path);
    rf_free(m->fixed);
    rf_monitor_close(&m->monitor);
    rf_free(m);
}

static bool ends_with(const char *text, const char *end)
{
    const size_t a = strlen(text), b = strlen(end);
    return a >= b && strcmp(text + a - b, end) == 0;
}

rf_result rf_callback_model_checkpoint(const rf_model_checkpoint_params *params, rf_callback **out)
{
    RF_REQUIRE(out, "rf_callback_model_checkpoint: out is NULL");
    *out = NULL;
    RF_TRY(RF_PARAMS_CHECK(rf_model_checkpoint_params, params));
    RF_REQUIRE(params && params->path && *params->path, "rf_callback_model_checkpoint: params->path is missing");
    RF_REQUIRE(!params->save.async, "rf_callback_model_checkpoint: save.async is for rf_checkpoint_save()");
    const double *threshold = params->initial_value_threshold;
    RF_REQUIRE(params->save_best_only || (!params->monitor && !params->maximize && !threshold),
               "rf_callback_model_checkpoint: monitor, maximize and initial_value_threshold are for save_best_only");
    RF_REQUIRE(!threshold || !isnan(*threshold),
               "rf_callback_model_checkpoint: initial_value_threshold is NaN, which no value is better than");
    model_checkpoint *m = RF_NEW(model_checkpoint);
    if (!m) return RF_ERROR_OUT_OF_HOST_MEMORY;
    m->params = *params;
    m->lock = RF_DIRECTORY_LOCK_NONE;
    m->path = rf_asprintf("%s%s", params->path, ends_with(params->path, SUFFIX) ? "" : SUFFIX);
    const rf_callback_fns fns = { .on_train_begin = on_train_begin,
                                  .on_epoch_end = on_epoch_end,
                                  .on_train_end = on_train_end,
                                  .destroy = model_checkpoint_destroy };
    rf_result r = rf_monitor_open(&m->monitor, params->monitor, params->maximize, 0);
    if (threshold) m->monitor.best = *threshold;
    if (r >= 0) r = m->path ? rf_callback_create(&fns, m, out) : RF_ERROR_OUT_OF_HOST_MEMORY;
    if (r < 0) {
        model_checkpoint_destroy(m);
        return r;
    }
    (*out)->extras = &extras;
    return RF_OK;
}
