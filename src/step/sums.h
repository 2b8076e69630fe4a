/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sums over all replicas within a step (rf_all_replica_sum()).
 *
 * The step is cut where the first of its nodes reads a sum: up to there every replica writes what it adds to the
 * strategy's `summands`, the exchange that gradients take adds it up on the host in a fixed order, and all get the same
 * bits in `sums`. Sums that do not depend on each other travel together. Replicas without examples add nothing.
 */
#ifndef RF_STEP_SUMS_H
#define RF_STEP_SUMS_H

#include "replica/schedule/schedule.h"

typedef struct rf_step_sums {
    uint64_t elements;    /* room that they take; 0: the step has none */
    uint32_t num_parts;   /* of the step that end with sums; 0 where nothing is prepared */
    rf_segment *segments; /* of all parts; for a schedule */
} rf_step_sums;

/* The room that the sums of a traced graph take. */
uint64_t rf_step_sums_elements(const rf_strategy *strategy, const rf_graph *graph);
/* Checks that summed values have one shape, whatever the batch. */
rf_result rf_step_sums_check(rf_graph *graph);
/* Makes the room; raises the strategy's generation where arrays move. */
rf_result rf_step_sums_ensure(rf_strategy *strategy, uint64_t elements);
/* After that: the parts of the step that end with sums, and these. */
rf_result rf_step_sums_append(rf_step_schedule *schedule, rf_step_sums *sums, const rf_program_sum *list,
                              uint32_t count);
/* No schedule has stages of it. */
void rf_step_sums_unprepare(rf_step_sums *sums);

#endif
