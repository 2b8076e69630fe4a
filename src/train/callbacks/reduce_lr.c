/* SPDX-License-Identifier: Apache-2.0 */
/* Lowers the learning rate when a value no longer improves; counts epochs as Keras' ReduceLROnPlateau. */
#include <math.h>
#include <string.h>

#include "base/error.h"
#include "base/memory.h"
#include "base/params.h"
#include "train/callbacks/callback.h"
#include "train/callbacks/monitor.h"

typedef struct reduce_lr {
    rf_monitor monitor;
    double factor, min_lr;
    uint32_t patience, cooldown;
    uint32_t wait;    /* epochs since the best one or the latest reduction */
    uint32_t cooling; /* epochs that are left of the cooldown */
} reduce_lr;

static rf_result on_train_begin(void *user, rf_fit_state *state)
{
    reduce_lr *p = user;
    (void)state;
    rf_monitor_reset(&p->monitor);
    p->wait = p->cooling = 0;
    return RF_OK;
}

/* Whether the rate is due, after an epoch with that value. */
static bool is_due(reduce_lr *p, double value)
{
    if (p->cooling > 0) {
        p->cooling--;
        p->wait = 0;
    }
    if (rf_monitor_improves(&p->monitor, value)) {
        p->wait = 0;
        return false;
    }
    return p->cooling == 0 && ++p->wait >= p->patience;
}

static rf_result on_epoch_end(void *user, rf_fit_state *state, const rf_logs *logs)
{
    reduce_lr *p = user;
    double value;
    if (!rf_logs_get(logs, p->monitor.name, &value) || !is_due(p, value)) return RF_OK;
    const double rate = rf_optimizer_learning_rate(state->optimizer);
    if (rate <= p->min_lr) return RF_OK;
    p->wait = 0;
    p->cooling = p->cooldown;
    return rf_optimizer_set_learning_rate(state->optimizer, fmax(rate * p->factor, p->min_lr));
}

static rf_result check_monitor(void *user, const rf_logs *names)
{
    const reduce_lr *p = user;
    return rf_monitor_check(&p->monitor, "reduce_lr_on_plateau", names);
}

/* ---- for fits that are resumed ---- */

typedef struct saved_state {
    double best;
    uint32_t wait, cooling;
} saved_state;

static rf_result save_state(void *user, void **data, size_t *size)
{
    const reduce_lr *p = user;
    const saved_state state = { p->monitor.best, p->wait, p->cooling };
    *size = sizeof(state);
    *data = rf_calloc(1, sizeof(state));
    if (!*data) return RF_ERROR_OUT_OF_HOST_MEMORY;
    memcpy(*data, &state, sizeof(state));
    return RF_OK;
}

static rf_result restore_state(void *user, const void *data, size_t size)
{
    reduce_lr *p = user;
    saved_state state;
    if (size != sizeof(state))
        return RF_FAIL(RF_ERROR_CORRUPT_DATA, "%zu bytes are not a state of reduce_lr_on_plateau", size);
    memcpy(&state, data, sizeof(state));
    p->monitor.best = state.best;
    p->wait = state.wait;
    p->cooling = state.cooling;
    return RF_OK;
}

static const rf_callback_extras extras = { .check = check_monitor, .save = save_state, .restore = restore_state };

static void reduce_lr_destroy(void *user)
{
    reduce_lr *p = user;
    rf_monitor_close(&p->monitor);
    rf_free(p);
}

rf_result rf_callback_reduce_lr_on_plateau(const rf_reduce_lr_on_plateau_params *params, rf_callback **out)
{
    RF_REQUIRE(out, "rf_callback_reduce_lr_on_plateau: out is NULL");
    *out = NULL;
    RF_TRY(RF_PARAMS_CHECK(rf_reduce_lr_on_plateau_params, params));
    const rf_reduce_lr_on_plateau_params p = params ? *params : (rf_reduce_lr_on_plateau_params){ 0 };
    RF_REQUIRE(p.factor >= 0.0 && p.factor < 1.0, "rf_callback_reduce_lr_on_plateau: factor %g is not in [0, 1)",
               p.factor);
    RF_REQUIRE(p.min_delta >= 0.0 && isfinite(p.min_delta),
               "rf_callback_reduce_lr_on_plateau: min_delta %g is not in [0, inf)", p.min_delta);
    RF_REQUIRE(p.min_lr >= 0.0 && isfinite(p.min_lr), "rf_callback_reduce_lr_on_plateau: min_lr %g is not in [0, inf)",
               p.min_lr);
    reduce_lr *s = RF_NEW(reduce_lr);
    if (!s) return RF_ERROR_OUT_OF_HOST_MEMORY;
    s->factor = rf_setting(p.factor, 0.1);
    s->min_lr = p.min_lr;
    s->patience = p.patience ? p.patience : 10;
    s->cooldown = p.cooldown;
    const rf_callback_fns fns = { .on_train_begin = on_train_begin,
                                  .on_epoch_end = on_epoch_end,
                                  .destroy = reduce_lr_destroy };
    rf_result r = rf_monitor_open(&s->monitor, p.monitor, p.maximize, rf_setting(p.min_delta, 1e-4));
    if (r >= 0) r = rf_callback_create(&fns, s, out);
    if (r < 0) {
        reduce_lr_destroy(s);
        return r;
    }
    (*out)->extras = &extras;
    return RF_OK;
}
