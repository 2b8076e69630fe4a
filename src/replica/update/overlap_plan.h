/* SPDX-License-Identifier: Apache-2.0 */
/* In which order buckets are exchanged while a backward pass goes on. Pure. */
#ifndef RF_REPLICA_UPDATE_OVERLAP_PLAN_H
#define RF_REPLICA_UPDATE_OVERLAP_PLAN_H

#include "base/error.h"

/* The life of one bucket, in positions of nodes in the step's graph. */
typedef struct rf_bucket_life {
    uint32_t ready;    /* after this node its gradients are there */
    uint32_t last_use; /* the last node that reads one of its variables */
} rf_bucket_life;

/*
 * The run has a part for each bucket. After part k, in turn: the reduction of the bucket that is ready starts, values
 * of the buckets whose turn it is are gathered, reductions whose turn it is are waited for and their updates begin.
 * Turns after the last part are for what is left.
 */
typedef struct rf_overlap_plan {
    uint32_t num_buckets, num_turns;
    uint32_t *order; /* [num_buckets]: bucket of each part */
    uint32_t *part;  /* [num_buckets], by bucket: the reverse */
    uint32_t
        *gather; /* [num_buckets], by bucket: turn at which its values are gathered; the update begins one before */
} rf_overlap_plan;

rf_result rf_overlap_plan_make(const rf_bucket_life *lives, uint32_t num_buckets, rf_overlap_plan *out);
void rf_overlap_plan_free(rf_overlap_plan *plan);

#endif
