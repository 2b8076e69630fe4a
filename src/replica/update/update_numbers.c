/* SPDX-License-Identifier: Apache-2.0 */
/* The host's part in an update: the numbers that its programs read, what it counts, and its settings. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/numbers.h"
#include "base/philox.h"
#include "replica/store/variables.h"
#include "replica/update/update.h"

/* ---- numbers ---- */

/* Numbers of update number `iteration`. Any two that may be made next have places of their own. */
static float *row_of(const rf_update *update, uint32_t hyper, uint64_t iteration)
{
    const size_t row = (size_t)hyper * update->num_rows + iteration % update->num_rows;
    return update->hypers + row * rf_updater_num_numbers(update->updater);
}

/* The update that comes next where so many of the pending ones are skipped. */
static uint64_t next_iteration(const rf_updater *u, uint32_t skipped)
{
    return u->iterations > skipped ? u->iterations - skipped : 0;
}

static void compute_row(rf_update *update, uint64_t iteration)
{
    const rf_updater *u = update->updater;
    for (uint32_t i = 0; i < update->num_hypers; i++) {
        const double norm = u->params.norms != RF_NORMS_NONE ? sqrt(update->squares[i]) / update->divisor : 0;
        float *values = row_of(update, i, iteration);
        u->params.hyper(u->params.user, iteration, norm, update->hyper_groups[i], values);
        rf_update_weigh_numbers(update, values);
    }
}

/* Where the device decides it takes one of several rows. Each is made once, for some take long. */
static void compute_rows(rf_update *update)
{
    const rf_updater *u = update->updater;
    if (update->num_rows == 1 || update->numbers_version != u->numbers_version ||
        update->rows_divisor != update->divisor)
        memset(update->rows_made, 0, update->num_rows * sizeof(update->rows_made[0]));
    update->numbers_version = u->numbers_version;
    update->rows_divisor = update->divisor;
    for (uint32_t skipped = 0; skipped <= u->scaling.pending; skipped++) {
        const uint64_t iteration = next_iteration(u, skipped);
        uint64_t *made = &update->rows_made[iteration % update->num_rows];
        if (*made != iteration + 1) compute_row(update, iteration);
        *made = iteration + 1;
    }
}

rf_result rf_update_compute_numbers(rf_update *update, const uint32_t *examples)
{
    RF_TRY(rf_update_take_divisor(update, examples));
    compute_rows(update);
    return RF_OK;
}

static void fill_rows(const rf_update *update, uint32_t hyper, float factor, float *rows)
{
    const rf_updater *u = update->updater;
    const uint32_t count = u->params.hyper_count, rate = u->params.rate_hyper;
    for (uint32_t skipped = 0; skipped <= u->scaling.pending; skipped++) {
        float *row = rows + (size_t)skipped * count;
        memcpy(row, row_of(update, hyper, next_iteration(u, skipped)), count * sizeof(float));
        if (rate < count) row[rate] *= factor;
    }
    if (update->num_rows > 1) rows[update->num_rows * count] = u->scaling.skipped;
}

rf_result rf_update_fill_numbers(const rf_step_stage *stage, uint32_t index, rf_frame *frame)
{
    const rf_update *update = stage->user;
    const rf_updater *u = update->updater;
    const uint32_t count = u->params.hyper_count, scalars = u->params.num_scalars;
    /* RINGFIRE_TEST_PERTURB: a device whose arithmetic rounds differently. */
    const float factor = u->strategy->members.first + index == u->strategy->health.perturbed ? 1 + 0x1p-23f : 1;
    for (uint32_t i = 0; i < update->num_hypers; i++) {
        const float *from = row_of(update, i, u->iterations) + count;
        float *rows = rf_frame_host(frame, i * (1 + scalars));
        if (rows) fill_rows(update, i, factor, rows);
        for (uint32_t k = 0; k < scalars; k++) {
            float *value = rf_frame_host(frame, i * (1 + scalars) + 1 + k);
            if (value) *value = from[k] * (u->params.rate_hyper == count + k ? factor : 1);
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
    compute_rows(stage->user);
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

/* ---- settings, as workers compare them: whoever owns a shard updates it for all ---- */

static void hash_setting(rf_update_settings *s, const char *name, const void *value, size_t size)
{
    if (s->list) s->hash = rf_hash64(s->hash, s->index);
    s->hash = rf_hash_bytes(name, strlen(name), s->hash);
    s->hash = rf_hash_bytes(value, size, s->hash);
}

static void add_line(rf_update_settings *s, const char *name, const char *value)
{
    char prefix[64] = "";
    if (!s->wants_text || s->result < 0) return;
    if (s->list) snprintf(prefix, sizeof(prefix), "%s[%u]%s", s->list, s->index, *name ? "." : "");
    char *line = rf_asprintf("%s%s %s\n", prefix, name, value);
    const uint32_t length = line ? (uint32_t)strlen(line) : 0;
    s->result = line ? rf_array_reserve((void **)&s->text.items, &s->text.capacity, s->text.count + length, 1)
                     : RF_ERROR_OUT_OF_HOST_MEMORY;
    if (s->result >= 0) {
        memcpy(s->text.items + s->text.count, line, length);
        s->text.count += length;
    }
    rf_free(line);
}

void rf_update_settings_number(rf_update_settings *s, const char *name, double value)
{
    char text[40];
    hash_setting(s, name, &value, sizeof(value));
    if (!s->wants_text) return;
    rf_number_print(text, sizeof(text), "%.17g", value);
    add_line(s, name, text);
}

void rf_update_settings_text(rf_update_settings *s, const char *name, const char *value)
{
    hash_setting(s, name, value, strlen(value));
    add_line(s, name, value);
}

void rf_update_describe(const rf_update *update, rf_update_settings *settings)
{
    const rf_updater *u = update->updater;
    if (u->params.describe) u->params.describe(u->params.user, u->iterations, settings);
    rf_update_settings_number(settings, "updates", (double)u->iterations);
    rf_update_settings_number(settings, "accumulation_steps", u->params.accumulation_steps);
    rf_update_settings_number(settings, "accumulated steps", u->accumulated);
    if (u->params.scaling.initial != 0) {
        rf_update_settings_number(settings, "loss_scale.initial", (double)u->params.scaling.initial);
        rf_update_settings_number(settings, "loss_scale.growth_steps", u->params.scaling.growth_steps);
        rf_update_settings_number(settings, "loss_scale.fixed", u->params.scaling.fixed);
    }
    if (update->transform.graph)
        rf_update_settings_number(settings, "a computation on gradients", (double)(update->transform_hash >> 11));
    settings->list = "variables";
    for (settings->index = 0; settings->index < update->count; settings->index++)
        rf_update_settings_text(settings, "", update->variables[settings->index]->name);
    settings->list = NULL;
}
