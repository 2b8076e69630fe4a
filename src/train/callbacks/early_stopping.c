/* SPDX-License-Identifier: Apache-2.0 */
/* Stops training when a value no longer improves; counts epochs as Keras' EarlyStopping. */
#include <math.h>
#include <string.h>

#include "base/error.h"
#include "base/memory.h"
#include "base/params.h"
#include "train/callbacks/callback.h"
#include "train/model/model.h"

typedef struct early_stopping {
    char *monitor;
    double min_delta;
    uint32_t patience;
    bool maximize, restore;
    double best;
    uint32_t wait;  /* epochs since the best one */
    float *weights; /* of the best epoch, all variables one after the other; NULL: none yet */
    uint64_t num_weights;
} early_stopping;

static void forget_weights(early_stopping *s)
{
    rf_free(s->weights);
    s->weights = NULL;
    s->num_weights = 0;
}

static rf_result on_train_begin(void *user, rf_fit_state *state)
{
    early_stopping *s = user;
    (void)state;
    s->best = s->maximize ? -INFINITY : INFINITY;
    s->wait = 0;
    forget_weights(s);
    return RF_OK;
}

static rf_result save_weights(early_stopping *s, const rf_model *model)
{
    const uint64_t count = rf_model_num_params(model);
    if (count != s->num_weights || !s->weights) {
        forget_weights(s);
        s->weights = RF_NEW_ARRAY(float, count);
        if (!s->weights) return RF_ERROR_OUT_OF_HOST_MEMORY;
        s->num_weights = count;
    }
    float *at = s->weights;
    for (uint32_t i = 0; i < model->tracked.count; i++) {
        RF_TRY(rf_variable_read(model->tracked.items[i].variable, at));
        at += rf_shape_count(rf_variable_shape(model->tracked.items[i].variable));
    }
    return RF_OK;
}

static rf_result on_epoch_end(void *user, rf_fit_state *state, const rf_logs *logs)
{
    early_stopping *s = user;
    double value;
    RF_TRY(rf_callback_monitor("early stopping", s->monitor, logs, &value));
    const bool better = s->maximize ? value - s->min_delta > s->best : value + s->min_delta < s->best;
    if (better) {
        s->best = value;
        s->wait = 0;
        return s->restore ? save_weights(s, state->model) : RF_OK;
    }
    s->wait++;
    if (s->wait >= s->patience) state->stop_training = true;
    return RF_OK;
}

static rf_result on_train_end(void *user, rf_fit_state *state, const rf_logs *logs)
{
    early_stopping *s = user;
    (void)logs;
    if (!s->weights) return RF_OK;
    RF_REQUIRE(s->num_weights == rf_model_num_params(state->model),
               "early stopping: weights of another model were restored");
    const float *at = s->weights;
    for (uint32_t i = 0; i < state->model->tracked.count; i++) {
        rf_variable *variable = state->model->tracked.items[i].variable;
        RF_TRY(rf_variable_assign(variable, at));
        at += rf_shape_count(rf_variable_shape(variable));
    }
    forget_weights(s);
    return RF_OK;
}

static rf_result check_monitor(void *user, const rf_logs *names)
{
    const early_stopping *s = user;
    double value;
    return rf_callback_monitor("early stopping", s->monitor, names, &value);
}

/* ---- for fits that are resumed ---- */

typedef struct saved_state {
    double best;
    uint64_t wait, num_weights; /* which follow */
} saved_state;

static rf_result save_state(void *user, void **data, size_t *size)
{
    const early_stopping *s = user;
    const uint64_t num_weights = s->weights ? s->num_weights : 0;
    const saved_state state = { s->best, s->wait, num_weights };
    *size = sizeof(state) + (size_t)num_weights * sizeof(float);
    *data = rf_calloc(*size, 1);
    if (!*data) return RF_ERROR_OUT_OF_HOST_MEMORY;
    memcpy(*data, &state, sizeof(state));
    if (num_weights > 0) memcpy((char *)*data + sizeof(state), s->weights, (size_t)num_weights * sizeof(float));
    return RF_OK;
}

static rf_result restore_state(void *user, const void *data, size_t size)
{
    early_stopping *s = user;
    saved_state state = { 0 };
    if (size >= sizeof(state)) memcpy(&state, data, sizeof(state));
    if (size < sizeof(state) || state.num_weights != (size - sizeof(state)) / sizeof(float) || state.wait > UINT32_MAX)
        return RF_FAIL(RF_ERROR_CORRUPT_DATA, "%zu bytes are not a state of early stopping", size);
    forget_weights(s);
    s->best = state.best;
    s->wait = (uint32_t)state.wait;
    if (state.num_weights == 0) return RF_OK;
    s->weights = RF_NEW_ARRAY(float, state.num_weights);
    if (!s->weights) return RF_ERROR_OUT_OF_HOST_MEMORY;
    s->num_weights = state.num_weights;
    memcpy(s->weights, (const char *)data + sizeof(state), (size_t)state.num_weights * sizeof(float));
    return RF_OK;
}

static const rf_callback_extras extras = { .check = check_monitor, .save = save_state, .restore = restore_state };

static void early_stopping_destroy(void *user)
{
    early_stopping *s = user;
    forget_weights(s);
    rf_free(s->monitor);
    rf_free(s);
}

rf_result rf_callback_early_stopping(const rf_early_stopping_params *params, rf_callback **out)
{
    RF_REQUIRE(out, "rf_callback_early_stopping: out is NULL");
    *out = NULL;
    RF_TRY(RF_PARAMS_CHECK(rf_early_stopping_params, params));
    const rf_early_stopping_params p = params ? *params : (rf_early_stopping_params){ 0 };
    RF_REQUIRE(p.min_delta >= 0.0 && isfinite(p.min_delta),
               "rf_callback_early_stopping: min_delta %g is not in [0, inf)", p.min_delta);
    early_stopping *s = RF_NEW(early_stopping);
    if (!s) return RF_ERROR_OUT_OF_HOST_MEMORY;
    s->min_delta = p.min_delta;
    s->patience = p.patience;
    s->maximize = p.maximize;
    s->restore = p.restore_best_weights;
    s->monitor = rf_strdup(p.monitor ? p.monitor : "val_loss");
    const rf_callback_fns fns = { .on_train_begin = on_train_begin,
                                  .on_epoch_end = on_epoch_end,
                                  .on_train_end = on_train_end,
                                  .destroy = early_stopping_destroy };
    const rf_result r = s->monitor ? rf_callback_create(&fns, s, out) : RF_ERROR_OUT_OF_HOST_MEMORY;
    if (r < 0) {
        early_stopping_destroy(s);
        return r;
    }
    (*out)->extras = &extras;
    return RF_OK;
}
