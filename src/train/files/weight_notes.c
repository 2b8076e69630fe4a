/* SPDX-License-Identifier: Apache-2.0 */
#include "train/files/weight_notes.h"

#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "train/checkpoint/checkpoint.h"

/* ---- notes ---- */

static rf_result append_text(rf_weight_notes *notes, const char *text)
{
    const uint32_t size = (uint32_t)strlen(text) + 1;
    RF_TRY(rf_array_reserve((void **)&notes->items, &notes->capacity, notes->count + size, 1));
    memcpy(notes->items + notes->count, text, size);
    notes->count += size;
    return RF_OK;
}

rf_result rf_weight_note_add(rf_weight_notes *notes, rf_weight_outcome outcome, const char *variable,
                             const char *tensor, const char *detail)
{
    const char mark[2] = { (char)('0' + outcome), '\0' };
    RF_TRY(append_text(notes, mark));
    RF_TRY(append_text(notes, variable));
    RF_TRY(append_text(notes, tensor));
    notes->counts[outcome]++;
    return append_text(notes, detail);
}

bool rf_weight_note_take(const rf_weight_notes *notes, uint32_t *at, const char **texts)
{
    for (int i = 0; i < 4; i++) {
        const char *end = *at < notes->count ? memchr(notes->items + *at, 0, notes->count - *at) : NULL;
        if (!end) return false;
        texts[i] = notes->items + *at;
        *at = (uint32_t)(end - notes->items) + 1;
    }
    return texts[0][0] >= '0' && texts[0][0] <= '3' && texts[0][1] == '\0';
}

void rf_weight_notes_free(rf_weight_notes *notes)
{
    rf_free(notes->items);
    *notes = (rf_weight_notes){ 0 };
}

/* ---- reports ---- */

/* The line of a note; 0 bytes of one that was loaded. */
static int note_line(const rf_weight_note *note, char *out, size_t room)
{
    switch (note->outcome) {
    case RF_WEIGHT_LOADED: break;
    case RF_WEIGHT_MISSING: return snprintf(out, room, "'%s': there is no tensor\n", note->variable);
    case RF_WEIGHT_MISMATCHED:
        return snprintf(out, room, "'%s': tensor '%s' is %s\n", note->variable, note->tensor, note->detail);
    case RF_WEIGHT_LEFT_OVER: return snprintf(out, room, "tensor '%s' is not used\n", note->tensor);
    }
    return 0;
}

static rf_result make_summary(rf_weight_report *report)
{
    size_t size = 1, at = 0;
    for (uint32_t i = 0; i < report->count; i++) size += (size_t)note_line(&report->notes[i], NULL, 0);
    report->summary = rf_calloc(size, 1);
    if (!report->summary) return RF_ERROR_OUT_OF_HOST_MEMORY;
    for (uint32_t i = 0; i < report->count; i++)
        at += (size_t)note_line(&report->notes[i], report->summary + at, size - at);
    return RF_OK;
}

rf_result rf_weight_report_make(rf_weight_notes *notes, rf_weight_report *out)
{
    const char *texts[4];
    uint32_t count = 0, at = 0;
    *out = (rf_weight_report){ .text = notes->items };
    while (at < notes->count && rf_weight_note_take(notes, &at, texts)) count++;
    rf_result r = at == notes->count ? RF_OK : RF_FAIL(RF_ERROR_CORRUPT_DATA, "rank 0 sent no valid report of weights");
    if (r >= 0 && !(out->notes = RF_NEW_ARRAY(rf_weight_note, count))) r = RF_ERROR_OUT_OF_HOST_MEMORY;
    for (at = 0; r >= 0 && out->count < count; out->count++) {
        (void)rf_weight_note_take(notes, &at, texts);
        const rf_weight_outcome outcome = (rf_weight_outcome)(texts[0][0] - '0');
        out->counts[outcome]++;
        out->notes[out->count] = (rf_weight_note){ outcome, texts[1], outcome == RF_WEIGHT_MISSING ? NULL : texts[2],
                                                   outcome == RF_WEIGHT_MISMATCHED ? texts[3] : NULL };
    }
    *notes = (rf_weight_notes){ 0 }; /* the report's */
    if (r >= 0) r = make_summary(out);
    if (r < 0) rf_weight_report_free(out);
    return r;
}

rf_result rf_weight_report_share(rf_strategy *strategy, rf_weight_notes *notes, rf_weight_report *out)
{
    RF_TRY(rf_broadcast_bytes(strategy, "report of weights", &notes->count, sizeof(notes->count)));
    if (!rf_strategy_is_chief(strategy)) notes->items = rf_calloc(notes->count, 1);
    if (!notes->items && notes->count > 0) return rf_strategy_fail_in_job(strategy, RF_ERROR_OUT_OF_HOST_MEMORY);
    RF_TRY(rf_broadcast_bytes(strategy, "report of weights", notes->items, notes->count));
    return rf_strategy_fail_in_job(strategy, rf_weight_report_make(notes, out));
}

void rf_weight_report_free(rf_weight_report *report)
{
    if (!report) return;
    rf_free(report->notes);
    rf_free(report->text);
    rf_free(report->summary);
    *report = (rf_weight_report){ 0 };
}
