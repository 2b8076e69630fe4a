/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Before each step workers report its number, how much of its batch they hold, and their replicas' speed in the step
 * before (balancing.h). A worker that cannot prepare the step (no memory, a step that fails to trace) says so while
 * nothing has changed yet, and all of them skip the step. Without this the others would wait for it.
 */
#include <stdio.h>
#include <string.h>

#include "step/signature.h"

/* ---- the sad case ---- */

#define MESSAGE_SIZE 400

/* The failure of the first rank that has one, in its words. */
static rf_result share_failure(rf_strategy *s, const rf_step_report *all, rf_result prepared)
{
    rf_world *w = &s->members.world;
    uint32_t culprit = 0;
    while (all[culprit].result >= 0) culprit++;
    char message[MESSAGE_SIZE] = "";
    rf_error_record mine = { 0 };
    if (prepared < 0) {
        rf_error_save(&mine);
        snprintf(message, sizeof(message), "%.*s", MESSAGE_SIZE - 1, mine.message);
    }
    RF_TRY(rf_world_broadcast(w, "reason of a failure", message, sizeof(message), w->first[culprit]));
    if (prepared < 0) return rf_error_restore(&mine);
    rf_agree_text(message, sizeof(message));
    return RF_FAIL(rf_error_code(all[culprit].result), "rank %u could not prepare the step: %s", culprit, message);
}

/* ---- what the steps update with ---- */

static void describe_step(const rf_step_intent *step, rf_update_settings *settings)
{
    const rf_signature *sig = step->signature;
    for (uint32_t u = 0; sig && u < sig->updates.count; u++) rf_update_describe(&sig->updates.items[u], settings);
}

static rf_result gather_settings(rf_world *w, const rf_update_settings *mine, uint64_t *sizes, char **texts)
{
    uint64_t size = mine->text.count, total;
    RF_TRY(rf_world_gather(w, "sizes of settings", &size, sizes, sizeof(size)));
    RF_TRY(rf_agree_rows(w, "settings", 1, sizes, &total));
    *texts = RF_NEW_ARRAY(char, total);
    if (!*texts) return RF_ERROR_OUT_OF_HOST_MEMORY;
    return rf_world_gather_bytes(w, "settings", mine->text.items, *texts, sizes);
}

/* Nothing has changed yet; each worker finds the same difference. */
static rf_result find_difference(rf_strategy *s, const rf_step_intent *step)
{
    rf_update_settings mine = { .wants_text = true };
    uint64_t *sizes = RF_NEW_ARRAY(uint64_t, s->members.world.size);
    char *texts = NULL;
    describe_step(step, &mine);
    rf_result r = sizes ? mine.result : RF_ERROR_OUT_OF_HOST_MEMORY;
    rf_strategy_fail_in_job(s, r);
    if (r >= 0) r = rf_strategy_fail_in_job(s, gather_settings(&s->members.world, &mine, sizes, &texts));
    if (r >= 0) r = rf_agree_settings_differ(&s->members.world, texts, sizes);
    rf_free(mine.text.items);
    rf_free(sizes);
    rf_free(texts);
    return r;
}

/* ---- the exchange ---- */

/* A worker's report and the news of one of its replicas: each replica has a row, the report is that of the first. */
typedef struct report_row {
    rf_step_report report;
    rf_replica_news news;
} report_row;

static rf_result rows_gather(rf_strategy *s, const rf_step_report *mine, report_row *rows, report_row *all)
{
    for (uint32_t r = 0; r < s->members.num_local; r++) {
        rows[r].report = *mine;
        if (s->members.balancing.automatic) rows[r].news = s->members.balancing.news[r];
    }
    return rf_world_gather_replicas(&s->members.world, "report before a step", rows, all, sizeof(rows[0]));
}

static rf_result intents_compare(rf_strategy *s, const rf_step_intent *step, rf_step_report *all, rf_result prepared)
{
    rf_world *w = &s->members.world;
    for (uint32_t r = 0; r < w->size; r++)
        if (all[r].result < 0) return share_failure(s, all, prepared);
    RF_TRY(rf_agree_step(w, all));
    for (uint32_t r = 1; r < w->size; r++)
        if (all[r].settings != all[0].settings) return find_difference(s, step);
    for (uint32_t r = 0; r < w->size; r++) rf_balancing_spread(s, r, all[r].rows, step->unit, step->counts);
    return RF_OK;
}

static rf_result reports_exchange(rf_strategy *s, rf_step_intent *step, rf_result prepared, rf_arena *room)
{
    const rf_world *w = &s->members.world;
    report_row *mine, *all;
    rf_step_report *reports;
    rf_replica_news *news;
    RF_TRY(rf_strategy_fail(s, RF_ARENA_ARRAY(room, mine, s->members.num_local)));
    RF_TRY(rf_strategy_fail(s, RF_ARENA_ARRAY(room, all, s->members.num_replicas)));
    RF_TRY(rf_strategy_fail(s, RF_ARENA_ARRAY(room, reports, w->size)));
    RF_TRY(rf_strategy_fail(s, RF_ARENA_ARRAY(room, news, s->members.num_replicas)));
    rf_error_record failure = { 0 };
    if (prepared < 0) rf_error_save(&failure);
    RF_TRY(rows_gather(s, &step->mine, mine, all));
    if (prepared < 0) rf_error_restore(&failure);
    for (uint32_t r = 0; r < w->size; r++) {
        reports[r] = all[w->first[r]].report;
        s->health.stop_agreed |= reports[r].stop != 0;
    }
    for (uint32_t r = 0; r < s->members.num_replicas; r++) news[r] = all[r].news;
    const rf_result r = intents_compare(s, step, reports, prepared);
    rf_balancing_take_news(s, news, &step->again); /* last: it may move shares, which apply from the next run on */
    return r;
}

rf_result rf_strategy_report(rf_strategy *s, rf_step_intent *step, rf_result prepared)
{
    if (s->health.failed) return rf_strategy_status(s); /* while preparing; the others know of it */
    const bool stop = atomic_load(&s->health.stop_requested);
    step->again = false;
    rf_balancing_make_news(s);
    if (s->members.world.size == 1) {
        s->health.stop_agreed |= stop;
        rf_balancing_take_news(s, s->members.balancing.news, &step->again);
        return prepared;
    }
    rf_update_settings settings = { 0 };
    describe_step(step, &settings);
    step->mine.settings = settings.hash;
    step->mine.result = prepared < 0 ? prepared : RF_OK;
    step->mine.stop = stop;
    rf_arena room = { 0 };
    const rf_result r = reports_exchange(s, step, prepared, &room);
    rf_arena_free(&room);
    return r;
}
