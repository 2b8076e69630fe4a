/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How much each of several accumulated steps counts: n of them give what one step with all of their examples would. A
 * loss is a sum over a divisor, examples or weights of tokens. So each step multiplies its loss by its own divisor
 * again, in units of the first step's, and the update divides the sum of gradients by the sum of these factors, in
 * place of the number of steps. Steps of one size have the factor 1.
 *
 * Numbers of examples are known to the host. Sums of weights are not: each replica adds up its own on the device (masks
 * add up exactly there), and the host reads them when it updates, for which it waits anyway where there are several
 * replicas.
 */
#include <string.h>

#include "replica/internal.h"
#include "replica/store/flat.h"
#include "replica/store/local_state.h"
#include "replica/update/update.h"
#include "replica/update/updater.h"

rf_result rf_updater_ensure_weights(rf_updater *u)
{
    if (u->weights.device) return RF_OK;
    if (!u->weights.took_part) u->weights.took_part = RF_NEW_ARRAY(bool, u->strategy->members.num_local);
    if (!u->weights.took_part) return RF_ERROR_OUT_OF_HOST_MEMORY;
    RF_TRY(rf_local_state_create(u->strategy, 1, "weights of accumulated steps", &u->weights.device));
    u->generation++; /* updates do not go with stage A any more */
    return RF_OK;
}

/* ---- in a step ---- */

/* The step's divisor, where it is known beforehand: else what weights cannot be larger than by much. */
static double step_units(const rf_update *update, uint64_t examples)
{
    switch (update->weighing.kind) {
    case RF_DIVISOR_NONE: break;
    case RF_DIVISOR_BATCH: return (double)examples;
    case RF_DIVISOR_WEIGHTS: return (double)examples * update->weighing.elements;
    }
    return 1;
}

void rf_update_begin_weight(rf_update *update, uint64_t examples)
{
    const rf_updater *u = update->updater;
    const double units = step_units(update, examples);
    const bool first = u->accumulated == 0;
    update->reference = first || u->weights.reference == 0 ? units : u->weights.reference;
    update->factor = update->weighing.kind == RF_DIVISOR_NONE ? 1 : units / update->reference;
    update->weight = first ? 0 : u->weights.sum;
    if (update->weighing.kind != RF_DIVISOR_WEIGHTS) update->weight += update->factor;
    if (first && u->weights.took_part) memset(u->weights.took_part, 0, u->strategy->members.num_local);
}

void rf_update_fill_weight(const rf_update *update, uint32_t index, rf_frame *frame)
{
    const rf_update_weighing *w = &update->weighing;
    if (w->kind == RF_DIVISOR_NONE) return;
    float *factor = rf_frame_host(frame, w->factor_slot);
    if (w->kind == RF_DIVISOR_BATCH) {
        if (factor) *factor = (float)update->factor;
        return;
    }
    float *keep = rf_frame_host(frame, w->keep_slot);
    if (factor) *factor = (float)(1 / update->reference);
    if (keep) *keep = update->updater->weights.took_part[index] ? 1 : 0;
}

void rf_update_count_weight(rf_update *update, const uint32_t *examples)
{
    rf_updater *u = update->updater;
    u->weights.reference = update->reference;
    u->weights.sum = update->weight;
    for (uint32_t r = 0; update->weighing.kind == RF_DIVISOR_WEIGHTS && r < u->strategy->members.num_local; r++)
        u->weights.took_part[r] |= examples[r] > 0;
}

/* ---- what they add up to ---- */

/* The sum over this worker's replicas: `also` marks those that take part in the step under way. */
static rf_result read_device(rf_updater *u, const uint32_t *also, double *sum)
{
    *sum = 0;
    for (uint32_t r = 0; r < u->strategy->members.num_local; r++) {
        float own;
        if (!u->weights.took_part[r] && !(also && also[r] > 0)) continue;
        RF_TRY(rf_strategy_wait_local(u->strategy, r));
        RF_TRY(rf_flat_read(&u->weights.device->values, r, 0, 1, &own));
        *sum += (double)own;
    }
    return RF_OK;
}

static rf_result sum_device(rf_updater *u, const uint32_t *also, double *sum)
{
    rf_world *w = &u->strategy->members.world;
    double mine;
    *sum = 0;
    if (!u->weights.device) return RF_OK;
    rf_result r = read_device(u, also, &mine);
    if (w->size == 1) {
        *sum = mine;
        return r;
    }
    double *all = RF_NEW_ARRAY(double, w->size);
    if (r >= 0 && !all) r = RF_ERROR_OUT_OF_HOST_MEMORY;
    r = rf_strategy_fail_in_job(u->strategy, r);
    if (r >= 0) r = rf_world_gather(w, "weights of accumulated steps", &mine, all, sizeof(mine));
    for (uint32_t i = 0; r >= 0 && i < w->size; i++) *sum += all[i];
    rf_free(all);
    return r;
}

rf_result rf_update_take_divisor(rf_update *update, const uint32_t *examples)
{
    rf_updater *u = update->updater;
    double device;
    update->divisor = 1;
    if (u->params.accumulation_steps == 1) return RF_OK;
    RF_TRY(sum_device(u, update->weighing.kind == RF_DIVISOR_WEIGHTS ? examples : NULL, &device));
    update->divisor = update->weight + device / update->reference;
    if (update->divisor == 0) update->divisor = 1; /* nothing counts, and all gradients are 0 */
    return RF_OK;
}

void rf_update_weigh_numbers(const rf_update *update, float *values)
{
    const rf_updater_params *p = &update->updater->params;
    if (update->divisor != p->accumulation_steps)
        values[p->scale_hyper] = (float)((double)values[p->scale_hyper] * p->accumulation_steps / update->divisor);
}

/* ---- for checkpoints ---- */

rf_result rf_updater_read_weight(rf_updater *u, double *sum, double *reference)
{
    double device;
    RF_TRY(sum_device(u, NULL, &device));
    *reference = u->weights.reference;
    *sum = u->weights.sum + (device > 0 ? device / *reference : 0);
    return RF_OK;
}

void rf_updater_write_weight(rf_updater *u, double sum, double reference)
{
    u->weights.sum = sum;
    u->weights.reference = reference;
    if (u->weights.took_part) memset(u->weights.took_part, 0, u->strategy->members.num_local);
}
