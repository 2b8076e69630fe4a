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

/* A report and behind it, where shares follow what is measured, the news of the worker's replicas. */
typedef struct mail {
    size_t news_size; /* of a replica; 0: none */
    unsigned char *mine, *all;
    rf_step_report *reports; /* [world size] */
    rf_replica_news *news;   /* [num_replicas] */
    rf_arena room;
} mail;

static rf_result mail_create(const rf_strategy *s, mail *m)
{
    const size_t news = s->members.balancing.automatic ? sizeof(rf_replica_news) : 0, size = s->members.world.size;
    *m = (mail){ .news_size = news };
    RF_TRY(RF_ARENA_ARRAY(&m->room, m->mine, sizeof(rf_step_report) + s->members.num_local * news));
    RF_TRY(RF_ARENA_ARRAY(&m->room, m->all, size * sizeof(rf_step_report) + s->members.num_replicas * news));
    RF_TRY(RF_ARENA_ARRAY(&m->room, m->reports, size));
    return RF_ARENA_ARRAY(&m->room, m->news, s->members.num_replicas);
}

static rf_result send_and_receive(rf_strategy *s, const rf_step_report *mine, mail *m)
{
    rf_world *w = &s->members.world;
    memcpy(m->mine, mine, sizeof(*mine));
    if (m->news_size > 0)
        memcpy(m->mine + sizeof(*mine), s->members.balancing.news, s->members.num_local * m->news_size);
    for (uint32_t r = 0; r < w->size; r++)
        w->counts[r] = sizeof(rf_step_report) + (w->first[r + 1] - w->first[r]) * m->news_size;
    RF_TRY(rf_world_gather_bytes(w, "report before a step", m->mine, m->all, w->counts));
    const unsigned char *from = m->all;
    for (uint32_t r = 0; r < w->size; from += w->counts[r++]) {
        memcpy(&m->reports[r], from, sizeof(rf_step_report));
        if (m->news_size > 0)
            memcpy(&m->news[w->first[r]], from + sizeof(rf_step_report), w->counts[r] - sizeof(rf_step_report));
    }
    return RF_OK;
}

static rf_result intents_compare(rf_strategy *s, const rf_step_intent *step, mail *m, rf_result prepared)
{
    rf_world *w = &s->members.world;
    for (uint32_t r = 0; r < w->size; r++)
        if (m->reports[r].result < 0) return share_failure(s, m->reports, prepared);
    RF_TRY(rf_agree_step(w, m->reports));
    for (uint32_t r = 1; r < w->size; r++)
        if (m->reports[r].settings != m->reports[0].settings) return find_difference(s, step);
    for (uint32_t r = 0; r < w->size; r++) rf_balancing_spread(s, r, m->reports[r].rows, step->unit, step->counts);
    return RF_OK;
}

static rf_result reports_exchange(rf_strategy *s, rf_step_intent *step, mail *m, rf_result prepared)
{
    rf_error_record failure = { 0 };
    if (prepared < 0) rf_error_save(&failure);
    RF_TRY(send_and_receive(s, &step->mine, m));
    if (prepared < 0) rf_error_restore(&failure);
    for (uint32_t r = 0; r < s->members.world.size; r++) s->health.stop_agreed |= m->reports[r].stop != 0;
    const rf_result r = intents_compare(s, step, m, prepared);
    rf_balancing_take_news(s, m->news, &step->again); /* last: it may move shares, which apply from the next run on */
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
    mail m;
    rf_result r = mail_create(s, &m);
    if (r >= 0)
        r = reports_exchange(s, step, &m, prepared);
    else
        rf_strategy_fail(s, r);
    rf_arena_free(&m.room);
    return r;
}
