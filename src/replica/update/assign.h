/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Values that a step gives to variables that no optimizer updates: counters, moving averages.
 *
 * The step writes a replica's value to the strategy's `assigned`, beside the variables, so that everything in it still
 * reads the old one. When the step and the optimizers' updates have been submitted, one replica copies it over; several
 * first make one value of theirs, through the exchange that gradients take, on the host: whatever the replicas'
 * drivers, all get the same bits.
 */
#ifndef RF_REPLICA_UPDATE_ASSIGN_H
#define RF_REPLICA_UPDATE_ASSIGN_H

#include "replica/schedule/schedule.h"

/* One rf_variable_update() of a signature. */
typedef struct rf_assignment {
    rf_variable *variable; /* borrowed: the signature has a reference */
    rf_value value;        /* in the signature's graph; of a mean, what this replica adds to it */
    rf_aggregation aggregation;
} rf_assignment;

typedef struct rf_assignments {
    rf_assignment *items; /* as given */
    uint32_t count, capacity;
    rf_segment
        *segments; /* [count]: of what all replicas give, then of what the first does; by place; for a schedule */
} rf_assignments;

/* Room for what steps assign. */
rf_result rf_assignments_ensure(rf_strategy *strategy);
/* After that, and after the stages of the step and its updates. */
rf_result rf_assignments_append(rf_step_schedule *schedule, rf_assignments *assignments);
void rf_assignments_free(rf_assignments *assignments);

extern const rf_stage_action rf_assign_action; /* of one replica */

#endif
