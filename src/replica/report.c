/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the workers tell each other before each step. A worker that could not prepare it (no memory, a step that fails
 * to trace) says so while nothing has changed yet, and all of them leave the step out; without this the others would
 * wait for it.
 */
#include <stdio.h>
#include <string.h>

#include "replica/internal.h"

typedef struct report {
    uint64_t number, examples;
    int32_t result;
    uint32_t stop;
    char function[48];
} report;

/* ---- the sad case ---- */

#define MESSAGE_SIZE 400

/* The failure of the first rank that has one, in its words. */
static rf_result share_failure(rf_strategy *s, const report *all, rf_result prepared)
{
    rf_world *w = &s->world;
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
    message[sizeof(message) - 1] = '\0';
    return RF_FAIL((rf_result)all[culprit].result, "rank %u could not prepare the step: %s", culprit, message);
}

static rf_result check_same_step(const rf_world *w, report *all)
{
    for (uint32_t r = 0; r < w->size; r++) all[r].function[sizeof(all[r].function) - 1] = '\0';
    for (uint32_t r = 1; r < w->size; r++) {
        RF_REQUIRE(
            strcmp(all[r].function, all[0].function) == 0 && all[r].number == all[0].number &&
                all[r].examples == all[0].examples,
            "rank 0 runs '%s' (run %llu, %llu examples) but rank %u '%s' (run %llu, %llu examples); every rank must "
            "run the same functions with the same global batches",
            all[0].function, (unsigned long long)all[0].number, (unsigned long long)all[0].examples, r, all[r].function,
            (unsigned long long)all[r].number, (unsigned long long)all[r].examples);
    }
    return RF_OK;
}

/* ---- the exchange ---- */

static rf_result exchange(rf_strategy *s, const report *mine, report *all, rf_result prepared)
{
    rf_world *w = &s->world;
    rf_error_record failure = { 0 };
    if (prepared < 0) rf_error_save(&failure);
    RF_TRY(rf_world_gather(w, "report before a step", mine, all, sizeof(*mine)));
    for (uint32_t r = 0; r < w->size; r++) s->stop_agreed |= all[r].stop != 0;
    if (prepared < 0) rf_error_restore(&failure);
    for (uint32_t r = 0; r < w->size; r++)
        if (all[r].result < 0) return share_failure(s, all, prepared);
    return check_same_step(w, all);
}

rf_result rf_strategy_report(rf_strategy *s, const rf_step *step, rf_result prepared)
{
    if (s->failed) return rf_strategy_status(s); /* while preparing; the others have been told */
    const bool stop = atomic_load(&s->stop_requested);
    if (s->world.size == 1) {
        s->stop_agreed |= stop;
        return prepared;
    }
    report mine, *all = RF_NEW_ARRAY(report, s->world.size);
    if (!all) return rf_strategy_stick(s, RF_ERROR_OUT_OF_HOST_MEMORY);
    memset(&mine, 0, sizeof(mine));
    mine.number = step->number;
    mine.examples = step->examples;
    mine.result = prepared < 0 ? prepared : RF_OK;
    mine.stop = stop;
    snprintf(mine.function, sizeof(mine.function), "%s", step->function);
    const rf_result r = exchange(s, &mine, all, prepared);
    rf_free(all);
    return r;
}

rf_result rf_strategy_any(rf_strategy *s, bool mine, bool *any)
{
    *any = mine;
    RF_TRY(rf_strategy_status(s));
    if (s->world.size == 1) return RF_OK;
    const uint8_t byte = mine;
    uint8_t *all = RF_NEW_ARRAY(uint8_t, s->world.size);
    if (!all) return rf_strategy_stick(s, RF_ERROR_OUT_OF_HOST_MEMORY);
    const rf_result r = rf_world_gather(&s->world, "flag", &byte, all, 1);
    for (uint32_t k = 0; r >= 0 && k < s->world.size; k++) *any |= all[k] != 0;
    rf_free(all);
    return r;
}

rf_result rf_strategy_give_up(rf_strategy *s, rf_result result)
{
    return rf_strategy_stick_if_alone(s, result);
}

/* ---- public ---- */

RF_API void rf_strategy_request_stop(rf_strategy *strategy)
{
    if (strategy) atomic_store(&strategy->stop_requested, true);
}

RF_API bool rf_strategy_stop_agreed(const rf_strategy *strategy)
{
    return strategy && strategy->stop_agreed;
}
