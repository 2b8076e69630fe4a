/* SPDX-License-Identifier: Apache-2.0 */
/* The host's part in an update: the numbers that its programs read, and what it counts. */
#include <math.h>
#include <string.h>

#include "replica/store/variables.h"
#include "replica/update/update.h"

/* ---- numbers ---- */

static void compute_hypers(rf_update *update)
{
    const rf_updater *u = update->updater;
    if (update->facts.device_decides) {
        rf_update_compute_rows(update);
        return;
    }
    for (uint32_t i = 0; i < update->num_hypers; i++) {
        const double norm = u->params.norms != RF_NORMS_NONE ? sqrt(update->squares[i]) / update->divisor : 0;
        float *values = update->hypers + (size_t)i * rf_updater_num_numbers(u);
        u->params.hyper(u->params.user, u->iterations, norm, update->hyper_groups[i], values);
        rf_update_weigh_numbers(update, values);
    }
}

rf_result rf_update_compute_numbers(rf_update *update, const uint32_t *examples)
{
    RF_TRY(rf_update_take_divisor(update, examples));
    compute_hypers(update);
    return RF_OK;
}

rf_result rf_update_fill_numbers(const rf_step_stage *stage, uint32_t index, rf_frame *frame)
{
    const rf_update *update = stage->user;
    const rf_updater *u = update->updater;
    const uint32_t count = u->params.hyper_count, scalars = u->params.num_scalars, rate = u->params.rate_hyper;
    /* RINGFIRE_TEST_PERTURB: a device whose arithmetic rounds differently. */
    const float factor = u->strategy->members.first + index == u->strategy->health.perturbed ? 1 + 0x1p-23f : 1;
    if (update->facts.device_decides) {
        rf_update_fill_rows(update, frame);
        return RF_OK;
    }
    for (uint32_t i = 0; i < update->num_hypers; i++) {
        const float *from = update->hypers + (size_t)i * (count + scalars);
        float *values = rf_frame_host(frame, i * (1 + scalars));
        if (values) memcpy(values, from, count * sizeof(float));
        if (values && rate < count) values[rate] *= factor;
        for (uint32_t k = 0; k < scalars; k++) {
            float *value = rf_frame_host(frame, i * (1 + scalars) + 1 + k);
            if (value) *value = from[count + k] * (rate == count + k ? factor : 1);
        }
    }
    return RF_OK;
}

static rf_result take_divisor(const rf_step_stage *stage, const rf_step_schedule_run *run)
{
    return rf_update_take_divisor(stage->user, run->examples + run->strategy->members.first);
}

static rf_result compute_numbers(const rf_step_stage *stage, const rf_step_schedule_run *run)
{
    (void)run;
    compute_hypers(stage->user);
    return RF_OK;
}

/* ---- runs ---- */

void rf_update_begin(rf_update *update, uint64_t examples)
{
    const rf_updater *u = update->updater;
    rf_update_begin_weight(update, examples);
    update->state = (rf_stage_state){ .first = u->params.accumulation_steps > 1 && u->accumulated == 0,
                                      .due = u->accumulated + 1 == u->params.accumulation_steps };
}

static void count_due(rf_update *update, const rf_stage_work *applied)
{
    rf_updater *u = update->updater;
    u->latest = rf_update_gradients(update);
    if (!update->state.skipped) u->iterations++;
    if (update->facts.device_decides) rf_updater_add_pending(u, applied->frame, applied->ticket);
    u->accumulated = 0;
    if (update->facts.exchanges) u->strategy->exchange.stats.updates++;
    if (update->facts.hands_on) u->strategy->store.weight_copies.stale = true;
}

static rf_result count_step(const rf_step_stage *stage, const rf_step_schedule_run *run)
{
    rf_update *update = stage->user;
    rf_updater *u = update->updater;
    rf_update_count_weight(update, run->examples + run->strategy->members.first);
    u->runs++;
    if (update->state.due)
        count_due(update, rf_step_schedule_work(run->schedule, stage->reads, 0));
    else
        u->accumulated++;
    for (uint32_t i = 0; i < update->count; i++) {
        update->variables[i]->updater = u;
        update->variables[i]->run = u->runs;
    }
    return RF_OK;
}

const rf_stage_action rf_update_divisor_action = { .name = "what sums are divided by", .host = take_divisor };
const rf_stage_action rf_update_numbers_action = { .name = "numbers of the update", .host = compute_numbers };
const rf_stage_action rf_update_count_action = { .name = "count the step", .host = count_step };
