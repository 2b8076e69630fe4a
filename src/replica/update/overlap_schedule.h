/* SPDX-License-Identifier: Apache-2.0 */
/* The buckets of an update and the turns that they are exchanged in while the backward pass goes on. */
#ifndef RF_REPLICA_UPDATE_OVERLAP_SCHEDULE_H
#define RF_REPLICA_UPDATE_OVERLAP_SCHEDULE_H

#include "replica/store/variables.h"
#include "replica/update/overlap_plan.h"

/* The graph that the gradients are part of, and what stands behind its states. Borrowed. */
typedef struct rf_traced_states {
    const rf_graph *graph;
    const rf_state_ref *states; /* by slot */
    uint32_t count;
} rf_traced_states;

typedef struct rf_overlap_schedule {
    bool overlaps;             /* the step is submitted in parts */
    uint32_t *bucket_of;       /* by variable of the update, as given */
    uint32_t *bucket_of_state; /* by slot of the traced graph; UINT32_MAX: the update has no such variable */
    uint32_t num_states;
    rf_overlap_plan plan;
} rf_overlap_schedule;

struct rf_update;
/* Once the update has its buckets. Pure. */
rf_result rf_overlap_schedule_make(const struct rf_update *update, const rf_traced_states *traced, bool overlaps,
                                   rf_overlap_schedule *out);
void rf_overlap_schedule_free(rf_overlap_schedule *overlap);

#endif
