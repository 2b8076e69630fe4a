/* SPDX-License-Identifier: Apache-2.0 */
/* Reports the speed of training after each epoch. */
#include "base/error.h"
#include "base/memory.h"
#include "train/callbacks/callback.h"

typedef struct rate {
    rf_throughput_fn fn;
    void *user;
} rate;

static rf_result on_epoch_end(void *user, rf_fit_state *state, const rf_logs *logs)
{
    const rate *r = user;
    (void)logs;
    r->fn(r->user, state, state->train_seconds > 0 ? (double)state->timed_examples / state->train_seconds : 0);
    return RF_OK;
}

rf_result rf_callback_throughput(rf_throughput_fn fn, void *user, rf_callback **out)
{
    RF_REQUIRE(out, "rf_callback_throughput: out is NULL");
    *out = NULL;
    RF_REQUIRE(fn, "rf_callback_throughput: fn is NULL");
    rate *state = RF_NEW(rate);
    if (!state) return RF_ERROR_OUT_OF_HOST_MEMORY;
    *state = (rate){ fn, user };
    const rf_result r =
        rf_callback_create(&(rf_callback_fns){ .on_epoch_end = on_epoch_end, .destroy = rf_free }, state, out);
    if (r < 0) rf_free(state);
    return r;
}
