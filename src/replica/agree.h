/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Messages between workers, as bytes of these structs, and how they are read. The layout is that of the workers' common
 * architecture: libraries of another one are refused when the data connections are made. A worker of the job is trusted
 * to describe itself truthfully, but its message may be malformed. Whatever the bytes are, these functions refuse them
 * or return numbers that are safe to compute with. They communicate nothing themselves.
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
    uint32_t compression;
    uint64_t bucket_elements;
    double top_k_share;
} rf_settings;

/* One replica's offer. */
typedef struct rf_offer {
    rf_replica_identity identity;
    uint64_t alignment, range; /* bytes */
    double share;
    uint32_t has_share;
} rf_offer;

/* One worker's report, before a step. */
typedef struct rf_step_report {
    uint64_t number, examples, first_row, rows;
    int32_t result;
    uint32_t stop;
    char function[48];
    uint64_t seed;     /* of the strategy, where the step draws random numbers; else 0 */
    uint64_t settings; /* a hash of what the step updates with, and what */
} rf_step_report;

/* all[world size]: compares them and fills in world->first. */
rf_result rf_agree_settings(rf_world *world, const rf_settings *all);
/* all[num_replicas]: fills in the strategy's identities, alignment, max_segment and shares. */
rf_result rf_agree_offers(rf_strategy *strategy, const rf_offer *all);
/* all[world size], of workers that are all ready: they are about to run the same step, and the rows that they hold make
 * up the whole batch, in order, without gaps. Makes the names printable. */
rf_result rf_agree_step(const rf_world *world, rf_step_report *all);
/* texts: what the workers' steps update with, sizes[world size] bytes each, one after the other; not all are equal.
 * Fails with the first line that differs. */
rf_result rf_agree_settings_differ(const rf_world *world, const char *texts, const uint64_t *sizes);
/* Terminates the text that came in `size` bytes and makes it printable on one line. */
void rf_agree_text(char *text, size_t size);
/* rows[world size] of `row` bytes become bytes; *total rows, which fit into memory. `name` says what is gathered. */
rf_result rf_agree_rows(const rf_world *world, const char *name, uint64_t row, uint64_t *rows, uint64_t *total);

#endif
