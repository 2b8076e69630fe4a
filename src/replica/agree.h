/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What workers tell each other, as bytes of these structs in the layout of their common architecture (libraries of
 * another one are refused when the data connections are made), and what is taken of it. Whoever is in the job is
 * believed what he says of himself, but not that it makes sense: whatever the bytes are, these functions refuse it or
 * hand on numbers that can be computed with. They exchange nothing.
 */
#ifndef RF_REPLICA_AGREE_H
#define RF_REPLICA_AGREE_H

#include "replica/internal.h"

#define RF_MAX_LOCAL_REPLICAS 4096

/* Must be the same everywhere. */
typedef struct rf_settings {
    uint32_t num_local; /* this may differ */
    uint32_t update_mode;
    uint32_t check_interval;
    uint32_t overlap;
    uint32_t balance;
    uint64_t bucket_elements;
} rf_settings;

/* Of one replica. */
typedef struct rf_offer {
    rf_replica_identity identity;
    uint64_t alignment, range; /* bytes */
    double share;
    uint32_t has_share;
} rf_offer;

/* Of one worker, before a step. */
typedef struct rf_step_report {
    uint64_t number, examples, first_row, rows;
    int32_t result;
    uint32_t stop;
    char function[48];
} rf_step_report;

/* all[world size]: compares them and fills in world->first. */
rf_result rf_agree_settings(rf_world *world, const rf_settings *all);
/* all[num_replicas]: fills in the strategy's identities, alignment, max_segment and shares. */
rf_result rf_agree_offers(rf_strategy *strategy, const rf_offer *all);
/* all[world size], of workers that are all ready: they are about to run the same, and the rows they hold are the whole
 * batch, in order, without gaps. Makes the names printable. */
rf_result rf_agree_step(const rf_world *world, rf_step_report *all);
/* Ends the text that came in `size` bytes and makes it fit for messages of one line. */
void rf_agree_text(char *text, size_t size);
/* rows[world size] of `row` bytes become bytes; *total rows, which can be in memory. `name`: of what is gathered. */
rf_result rf_agree_rows(const rf_world *world, const char *name, uint64_t row, uint64_t *rows, uint64_t *total);

#endif
