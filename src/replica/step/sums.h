/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sums over all replicas within a step (rf_all_replica_sum()).
 *
 * Stage A is cut where the first of its nodes reads a sum: up to there every replica writes what it adds to the
 * strategy's `summands`, the exchange that gradients take adds it up on the host in a fixed order, and all get the same
 * bits in `sums`. Sums that do not depend on each other travel together. Replicas without examples add nothing.
 */
#ifndef RF_REPLICA_STEP_SUMS_H
#define RF_REPLICA_STEP_SUMS_H

#include "replica/exchange/segments.h"
#include "replica/internal.h"

/* The sums that are exchanged at the end of one part. */
typedef struct rf_sum_part {
    rf_segment *segments; /* borrowed from rf_step_sums */
    uint32_t num_segments;
    rf_bucket_exchange *exchange;
    rf_gpu_recording **down, **up; /* [num_local]: staging; NULL where device memory is mapped */
} rf_sum_part;

typedef struct rf_step_sums {
    uint64_t elements; /* room that they take; 0: the step has none */
    /* made for the generations of the signature: */
    rf_strategy *strategy; /* NULL: nothing is made */
    rf_segment *segments;
    rf_sum_part *parts;
    uint32_t num_parts;
    const float **from; /* [num_local]: room */
    float **to;         /* [num_local]: room */
} rf_step_sums;

/* The room that the sums of a traced graph take. */
uint64_t rf_step_sums_elements(const rf_strategy *strategy, const rf_graph *graph);
/* Checks that summed values have one shape, whatever the batch. */
rf_result rf_step_sums_check(rf_graph *graph);
/* Makes the room; raises the strategy's generation where arrays move. */
rf_result rf_step_sums_ensure(rf_strategy *strategy, uint64_t elements);
/* After that. `program` is a replica's: all have the same sums. */
rf_result rf_step_sums_prepare(rf_step_sums *sums, rf_strategy *strategy, const rf_program *program);
/* Nothing of it may be in flight. */
void rf_step_sums_unprepare(rf_step_sums *sums);
/* Submits the parts of sums of all replicas, and exchanges them; the parts after them are left to be submitted.
 * frames[r]: of this worker's replicas, NULL where one has no examples. */
rf_result rf_step_sums_run(rf_step_sums *sums, rf_frame *const *frames);

#endif
