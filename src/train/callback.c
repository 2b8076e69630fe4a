/* SPDX-License-Identifier: Apache-2.0 */
/* Callbacks in general, and the learning-rate scheduler. */
#include "train/callback.h"

#include "base/error.h"
#include "base/memory.h"

rf_result rf_callback_create(const rf_callback_fns *fns, void *user, rf_callback **out)
{
    RF_REQUIRE(out, "rf_callback_create: out is NULL");
    *out = NULL;
    RF_REQUIRE(fns, "rf_callback_create: fns is NULL");
    rf_callback *callback = RF_NEW(rf_callback);
    if (!callback) return RF_ERROR_OUT_OF_HOST_MEMORY;
    callback->fns = *fns;
    callback->user = user;
    *out = callback;
    return RF_OK;
}

void rf_callback_destroy(rf_callback **callback)
{
    if (!callback || !*callback) return;
    if ((*callback)->fns.destroy) (*callback)->fns.destroy((*callback)->user);
    rf_free(*callback);
    *callback = NULL;
}

typedef struct rate_scheduler {
    rf_epoch_rate_fn fn;
    void *user;
} rate_scheduler;

static rf_result set_rate(void *user, rf_fit_state *state)
{
    const rate_scheduler *scheduler = user;
    const double rate = scheduler->fn(scheduler->user, state->epoch, rf_optimizer_learning_rate(state->optimizer));
    const rf_result r = rf_optimizer_set_learning_rate(state->optimizer, rate);
    return r < 0 ? rf_error_context(r, "learning-rate scheduler, epoch %u", state->epoch) : r;
}

rf_result rf_callback_learning_rate_scheduler(rf_epoch_rate_fn fn, void *user, rf_callback **out)
{
    RF_REQUIRE(out, "rf_callback_learning_rate_scheduler: out is NULL");
    *out = NULL;
    RF_REQUIRE(fn, "rf_callback_learning_rate_scheduler: fn is NULL");
    rate_scheduler *scheduler = RF_NEW(rate_scheduler);
    if (!scheduler) return RF_ERROR_OUT_OF_HOST_MEMORY;
    scheduler->fn = fn;
    scheduler->user = user;
    const rf_result r =
        rf_callback_create(&(rf_callback_fns){ .on_epoch_begin = set_rate, .destroy = rf_free }, scheduler, out);
    if (r < 0) rf_free(scheduler);
    return r;
}
