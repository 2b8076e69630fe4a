/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Values that a step gives to variables that no optimizer updates: counters, moving averages.
 *
 * Stage A writes a replica's value to the strategy's `assigned`, beside the variables, so that everything in the step
 * still reads the old one. When stage A and the optimizers' updates have been submitted, one replica copies it over;
 * several first make one value of theirs, through the exchange that gradients take, on the host: whatever the replicas'
 * drivers, all get the same bits.
 */
#ifndef RF_REPLICA_UPDATE_ASSIGN_H
#define RF_REPLICA_UPDATE_ASSIGN_H

#include "replica/exchange/segments.h"
#include "replica/internal.h"
#include "replica/update/repeated.h"

/* One rf_variable_update() of a signature. */
typedef struct rf_assignment {
    rf_variable *variable; /* borrowed: the signature has a reference */
    rf_value value;        /* in the signature's graph; of a mean, what this replica adds to it */
    rf_aggregation aggregation;
} rf_assignment;

/* Whose values are added up. */
enum { RF_ASSIGN_FROM_ALL, RF_ASSIGN_FROM_FIRST, RF_ASSIGN_GROUPS };

typedef struct rf_assign_replica {
    rf_repeated copies;          /* one replica: `assigned` to the variables */
    rf_gpu_recording *down, *up; /* several: staging */
} rf_assign_replica;

typedef struct rf_assignments {
    rf_assignment *items; /* as given */
    uint32_t count, capacity;
    /* made for the generations of the signature: */
    rf_strategy *strategy; /* NULL: nothing is made */
    rf_segment *segments;  /* [count]: of the groups one after the other, by place */
    uint32_t num_segments[RF_ASSIGN_GROUPS];
    rf_bucket_exchange *exchanges[RF_ASSIGN_GROUPS]; /* NULL: one replica, or nothing in the group */
    rf_assign_replica *replicas;                     /* [num_local] */
    const float **from;                              /* [num_local]: room */
    float **to;                                      /* [num_local]: room */
} rf_assignments;

/* Room for what steps assign. */
rf_result rf_assignments_ensure(rf_strategy *strategy);
/* After rf_assignments_ensure(). */
rf_result rf_assignments_prepare(rf_assignments *assignments, rf_strategy *strategy);
/* Nothing of it may be in flight. */
void rf_assignments_unprepare(rf_assignments *assignments);
void rf_assignments_free(rf_assignments *assignments);
/* After stage A and the updates were submitted on all replicas; examples[r]: of each replica of the job. */
rf_result rf_assignments_run(rf_assignments *assignments, const uint32_t *examples);

#endif
