/* SPDX-License-Identifier: Apache-2.0 */
/* Callbacks that watch a value: when they stop and when they lower the rate, for values that a table gives, also when a
 * backup is taken up after every epoch. Expected are the decisions of Keras. */
#include "../support/strategies.h"
#include "base/memory.h"
#include "tests/room.h"
#include "train/callbacks/callback.h"
#include "train/metrics/logs.h"

enum { MOST_EPOCHS = 12 };
#define UNKNOWN NAN /* an epoch without validation */

typedef rf_result (*make_fn)(const void *params, rf_callback **out);

/* Another program goes on with what the callback has kept. */
static void resume(make_fn make, const void *params, rf_callback **callback, rf_fit_state *state)
{
    void *data;
    size_t size;
    const rf_callback *before = *callback;
    rf_callback *after;
    OK(before->extras->save(before->user, &data, &size));
    OK(make(params, &after));
    OK(after->fns.on_train_begin(after->user, state));
    OK(after->extras->restore(after->user, data, size));
    FAILS(after->extras->restore(after->user, data, size - 1), RF_ERROR_CORRUPT_DATA, "are not a state of");
    rf_free(data);
    rf_callback_destroy(callback);
    *callback = after;
}

static void end_epoch(rf_callback *callback, rf_fit_state *state, double value)
{
    rf_logs logs = { 0 };
    rf_logs_add(&logs, "loss", 1);
    if (!isnan(value)) rf_logs_add(&logs, "val_loss", value);
    OK(callback->fns.on_epoch_end(callback->user, state, &logs));
    state->epoch++;
}

/* ---- early stopping ---- */

static const double three = 3, half = 0.5, zero = 0;
static const struct {
    rf_early_stopping_params params;
    double values[MOST_EPOCHS];
    uint32_t epochs; /* that are trained */
} stops[] = {
    { { .patience = 2 }, { 5, 4, 4.5, 4.25, 3, 3 }, 4 },
    { { .patience = 2 }, { 5, UNKNOWN, UNKNOWN, 6, UNKNOWN, 7, 1 }, 6 },
    { { .min_delta = 0.25 }, { 5, 4.5, 4.375, 1 }, 3 },
    { { .patience = 2, .start_from_epoch = 3 }, { 1, 9, 9, 8, 7, 7.5, 7.5, 1 }, 7 },
    { { .patience = 2, .baseline = &three }, { 9, 8, 7, 7.5, 1 }, 4 },
    { { .patience = 2, .baseline = &three }, { 2.5, 2.75, 2.625, 1 }, 3 },
    { { .patience = 2, .baseline = &three }, { 3.5, 2.5, 2.75, 2.625, 1 }, 4 },
    { { .patience = 2, .baseline = &three, .min_delta = 1 }, { 2.5, 1.25, 1.25, 1.25, 0 }, 4 },
    { { .patience = 1, .baseline = &half, .maximize = true }, { 0.375, 0.25, 1 }, 2 },
    { { .patience = 2, .baseline = &zero, .maximize = true }, { -1, -0.5, -0.75, 1 }, 3 },
};

static rf_result make_stop(const void *params, rf_callback **out)
{
    return rf_callback_early_stopping(params, out);
}

static uint32_t epochs_until_stop(size_t row, bool resumed)
{
    rf_fit_state state = { 0 };
    rf_callback *callback;
    OK(make_stop(&stops[row].params, &callback));
    OK(callback->fns.on_train_begin(callback->user, &state));
    while (!state.stop_training && state.epoch < MOST_EPOCHS) {
        end_epoch(callback, &state, stops[row].values[state.epoch]);
        if (resumed) resume(make_stop, &stops[row].params, &callback, &state);
    }
    rf_callback_destroy(&callback);
    return state.epoch;
}

TEST(early_stopping)
{
    const double none = NAN;
    rf_callback *callback;
    for (size_t i = 0; i < sizeof(stops) / sizeof(stops[0]); i++)
        for (int resumed = 0; resumed < 2; resumed++) {
            const uint32_t epochs = epochs_until_stop(i, resumed);
            if (epochs != stops[i].epochs) fail_msg("row %zu: %u epochs, not %u", i, epochs, stops[i].epochs);
        }
    FAILS(rf_callback_early_stopping(&(rf_early_stopping_params){ .baseline = &none }, &callback),
          RF_ERROR_INVALID_ARGUMENT, "baseline is NaN");
}

/* ---- the learning rate ---- */

static const struct {
    rf_reduce_lr_on_plateau_params params;
    uint32_t epochs;
    double values[MOST_EPOCHS], rates[MOST_EPOCHS]; /* after them; 1 at first */
} plateaus[] = {
    { { .patience = 2 }, 5, { 5, 5, 5, 5, 5 }, { 1, 1, 0.1, 0.1, 0.01 } },
    { { 0 }, 12, { 5, 5, 5, 5, 5, 5, 5, 5, 5, 5, 5, 5 }, { 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 0.1, 0.1 } },
    { { .patience = 1, .factor = 0.5 }, 3, { 5, 4.99995, 4 }, { 1, 0.5, 0.5 } },
    { { .patience = 1, .factor = 0.5, .cooldown = 2 }, 6, { 5, 5, 5, 5, 5, 5 }, { 1, 0.5, 0.5, 0.25, 0.25, 0.125 } },
    { { .patience = 2, .factor = 0.5, .cooldown = 1 }, 5, { 5, 5, 5, 5, 5 }, { 1, 1, 0.5, 0.5, 0.25 } },
    { { .patience = 1, .factor = 0.5, .min_lr = 0.375 }, 4, { 5, 5, 5, 5 }, { 1, 0.5, 0.375, 0.375 } },
    { { .patience = 1 }, 4, { 5, UNKNOWN, 5, UNKNOWN }, { 1, 1, 0.1, 0.1 } },
    { { .patience = 1, .maximize = true }, 3, { 0.5, 0.625, 0.5 }, { 1, 1, 0.1 } },
};

static rf_result make_plateau(const void *params, rf_callback **out)
{
    return rf_callback_reduce_lr_on_plateau(params, out);
}

static void follow_plateau(rf_optimizer *optimizer, size_t row, bool resumed)
{
    rf_fit_state state = { .optimizer = optimizer };
    rf_callback *callback;
    OK(rf_optimizer_set_learning_rate(optimizer, 1));
    OK(make_plateau(&plateaus[row].params, &callback));
    OK(callback->fns.on_train_begin(callback->user, &state));
    for (uint32_t i = 0; i < plateaus[row].epochs; i++) {
        end_epoch(callback, &state, plateaus[row].values[i]);
        const double rate = rf_optimizer_learning_rate(optimizer), wanted = plateaus[row].rates[i];
        if (fabs(rate - wanted) > 1e-12) fail_msg("row %zu, epoch %u: rate %g, not %g", row, i, rate, wanted);
        if (resumed) resume(make_plateau, &plateaus[row].params, &callback, &state);
    }
    rf_callback_destroy(&callback);
}

static void reduced_rates(rf_strategy *strategy)
{
    rf_optimizer *optimizer;
    OK(rf_optimizer_create(strategy, NULL, &optimizer));
    for (size_t i = 0; i < sizeof(plateaus) / sizeof(plateaus[0]); i++)
        for (int resumed = 0; resumed < 2; resumed++) follow_plateau(optimizer, i, resumed);
    rf_optimizer_destroy(&optimizer);
}

TEST_ON_ONE(reduced_rates)

TEST(plateau_arguments)
{
    static const struct {
        rf_reduce_lr_on_plateau_params params;
        const char *part;
    } cases[] = {
        { { .factor = 1 }, "factor 1 is not in [0, 1)" },
        { { .factor = -0.5 }, "factor -0.5" },
        { { .factor = NAN }, "factor" },
        { { .min_delta = -1 }, "min_delta -1 is not in" },
        { { .min_lr = -1 }, "min_lr -1 is not in [0, inf)" },
    };
    rf_callback *callback;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        FAILS(rf_callback_reduce_lr_on_plateau(&cases[i].params, &callback), RF_ERROR_INVALID_ARGUMENT, cases[i].part);
        assert_null(callback);
    }
}

TESTS(callbacks, NULL, NULL)
