/* SPDX-License-Identifier: Apache-2.0 */
/* How much of a batch each replica gets: the strategy's shares, which follow what was measured where that is wanted. */
#ifndef RF_REPLICA_BALANCE_BALANCING_H
#define RF_REPLICA_BALANCE_BALANCING_H

#include <ringfire/strategy.h>

#include "replica/balance/balance.h"
#include "replica/balance/step_timing.h"

/* The news that a worker reports about each of its replicas before each run. */
typedef struct rf_replica_news {
    double seconds;          /* of the latest step that was measured; 0: none */
    uint32_t limit, limited; /* limited: it could not get memory for what it was given, but may take so many */
} rf_replica_news;

/* Part of a strategy. All but `news` is the same on all workers. */
typedef struct rf_balancing {
    bool automatic;
    rf_balance balance;     /* only when automatic */
    rf_step_timing *timing; /* NULL: nothing to measure or to slow down */
    bool measured;          /* of a step that has not been reported yet: */
    uint32_t *examples;     /* [num_replicas], of that */
    uint32_t unit;          /* of that */
    double *seconds;        /* [num_replicas] */
    rf_replica_news *news;  /* [num_local] */
    uint32_t bounded;       /* replica that acts as if its memory were small, for tests; UINT32_MAX: none */
    double bound;
} rf_balancing;

/* To be called once the strategy knows its replicas. */
rf_result rf_balancing_create(rf_strategy *strategy, rf_balance_mode mode);
void rf_balancing_free(rf_strategy *strategy);
/* Counts of a run, [num_replicas], in multiples of `unit` (rf_split_units()). */
rf_result rf_balancing_split(const rf_strategy *strategy, uint64_t examples, uint32_t unit, uint32_t *counts);
/* Rows that a worker holds, over its replicas: as in `counts`, of the whole batch, where that agrees with it. Changes
 * only the worker's counts. */
void rf_balancing_spread(const rf_strategy *strategy, uint32_t rank, uint64_t rows, uint32_t unit, uint32_t *counts);
/* Local replica `index` got RF_ERROR_OUT_OF_DEVICE_MEMORY for so many examples: the next news report a lower limit.
 * False where that does not help. */
bool rf_balancing_refuse(rf_strategy *strategy, uint32_t index, uint32_t examples);
/* A step that is measured was submitted, with these counts on all replicas. */
void rf_balancing_measured(rf_strategy *strategy, const uint32_t *counts, uint32_t unit);
/* Fills in `news` of this worker; then all workers take in those of all replicas. *again: a replica has a new limit, so
 * the run must be prepared anew. */
void rf_balancing_make_news(rf_strategy *strategy);
void rf_balancing_take_news(rf_strategy *strategy, const rf_replica_news *all, bool *again);

#endif
