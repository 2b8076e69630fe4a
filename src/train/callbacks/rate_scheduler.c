/* SPDX-License-Identifier: Apache-2.0 */
/* Sets the learning rate at the beginning of each epoch. */
#include "base/error.h"
#include "base/memory.h"
#include "train/callbacks/callback.h"

typedef struct rate_scheduler {
    rf_learning_rate_fn fn;
    void *user;
} rate_scheduler;

static rf_result set_rate(void *user, rf_fit_state *state)
{
    const rate_scheduler *scheduler = user;
    const double rate = scheduler->fn(scheduler->user, state->epoch, rf_optimizer_learning_rate(state->optimizer));
    const rf_result r = rf_optimizer_set_learning_rate(state->optimizer, rate);
    return r < 0 ? rf_error_context(r, "learning-rate scheduler, epoch %u", state->epoch) : r;
}

rf_result rf_callback_learning_rate_scheduler(rf_learning_rate_fn fn, void *user, rf_callback **out)
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
