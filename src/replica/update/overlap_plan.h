/* SPDX-License-Identifier: Apache-2.0 */
/* In which order buckets are exchanged while a backward pass goes on. Pure. */
#ifndef RF_REPLICA_UPDATE_OVERLAP_PLAN_H
#define RF_REPLICA_UPDATE_OVERLAP_PLAN_H

#include "base/memory.h"
#include "replica/store/variables.h"

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

rf_result rf_overlap_plan_make(const rf_bucket_life *lives, uint32_t num_buckets, rf_arena *arena,
                               rf_overlap_plan *out);

/* The graph that the gradients are part of, and what stands behind its states. Borrowed. */
typedef struct rf_traced_states {
    const rf_graph *graph;
    const rf_state_ref *states; /* by slot */
    uint32_t count;
} rf_traced_states;

/* The buckets of an update and the turns that they are exchanged in. */
typedef struct rf_overlap_schedule {
    bool overlaps;             /* the step is submitted in parts */
    uint32_t *bucket_of;       /* by variable of the update, as given */
    uint32_t *bucket_of_state; /* by slot of the traced graph; UINT32_MAX: the update has no such variable */
    uint32_t num_states;
    rf_overlap_plan plan;
} rf_overlap_schedule;

struct rf_update;
/* Once the update has its buckets. */
rf_result rf_overlap_schedule_make(const struct rf_update *update, const rf_traced_states *traced, bool overlaps,
                                   rf_arena *arena, rf_overlap_schedule *out);

#endif
