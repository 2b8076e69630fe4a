/* SPDX-License-Identifier: Apache-2.0 */
/* Reports of weights, and the notes that workers send each other of them. */
#ifndef RF_TRAIN_FILES_WEIGHT_NOTES_H
#define RF_TRAIN_FILES_WEIGHT_NOTES_H

#include <ringfire/interchange.h>

#include "base/error.h"

/* For each note its outcome, then the name of the variable, that of the tensor and the detail, as texts that end with
 * 0; an empty one is none. */
typedef struct rf_weight_notes {
    char *items;
    uint32_t count, capacity; /* bytes */
    uint32_t counts[4];       /* notes, by outcome */
} rf_weight_notes;

rf_result rf_weight_note_add(rf_weight_notes *notes, rf_weight_outcome outcome, const char *variable,
                             const char *tensor, const char *detail);
/* The four texts of the note at `*at`, which moves on; false: there is none. */
bool rf_weight_note_take(const rf_weight_notes *notes, uint32_t *at, const char **texts);
void rf_weight_notes_free(rf_weight_notes *notes);
/* A report of notes, which are taken over, also when it fails. */
rf_result rf_weight_report_make(rf_weight_notes *notes, rf_weight_report *out);
/* The report of all workers, of the chief's notes. Collective. */
rf_result rf_weight_report_share(rf_strategy *strategy, rf_weight_notes *notes, rf_weight_report *out);

#endif
