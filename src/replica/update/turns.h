/* SPDX-License-Identifier: Apache-2.0 */
/* The buckets of an update and the turns that they are exchanged in, which update_run.c follows. */
#ifndef RF_REPLICA_UPDATE_TURNS_H
#define RF_REPLICA_UPDATE_TURNS_H

#include "replica/store/variables.h"
#include "replica/update/overlap_plan.h"
#include "replica/update/update.h"

/* The graph that the gradients are part of, and what stands behind its states. Borrowed. */
typedef struct rf_traced_states {
    const rf_graph *graph;
    const rf_state_ref *states; /* by slot */
    uint32_t count;
} rf_traced_states;

typedef struct rf_turn_bucket_replica {
    rf_frame *frame;   /* of the update; NULL: it owns nothing of the bucket */
    rf_frame *sum;     /* of gradients that meet; NULL: the host adds them up */
    uint32_t last_use; /* part of the replica's run that touches its variables last */
    uint64_t ticket;   /* of the update */
} rf_turn_bucket_replica;

typedef struct rf_turn_bucket {
    rf_bucket_exchange *exchange;     /* NULL: there is one replica */
    rf_turn_bucket_replica *replicas; /* [num_local] */
    bool gathering;
} rf_turn_bucket;

typedef struct rf_turn_replica {
    rf_frame *frame;   /* of stage A, to be submitted in parts; NULL: it was submitted as a whole, or has no examples */
    bool contributes;  /* its gradients are not all zero */
    uint64_t *tickets; /* [num_buckets]: end of each part that was submitted, staging included */
    uint32_t submitted;
    bool known; /* rf_turn_bucket_replica::last_use is */
} rf_turn_replica;

typedef struct rf_turns {
    rf_strategy *strategy;
    rf_traced_states traced;
    rf_update *update;
    bool overlaps;       /* stage A is submitted in parts */
    bool exchanges;      /* there are several replicas */
    bool gathers;        /* values come from their owners */
    bool meets;          /* devices do both among themselves */
    uint32_t *bucket_of; /* by variable of the update */
    rf_overlap_plan plan;
    rf_turn_bucket *buckets;
    rf_turn_replica *locals;  /* [num_local] */
    uint32_t *parts;          /* [number of states]: room */
    const float **from;       /* [num_local]: room */
    float **to;               /* [num_local]: room */
    const uint32_t *examples; /* of the step under way, of this worker's replicas */
    rf_frame **checks;        /* [num_local]: of gradients of scaled losses, if the host asks; or NULL */
    uint32_t depth;           /* parts under way */
    double exposed;           /* seconds of this step */
} rf_turns;

/* Whether an update that is alone in its step can be prepared by bucket, so that gradients are exchanged while the
 * backward pass goes on. */
bool rf_update_can_overlap(const rf_update *update);
/* After rf_update_prepare(). */
rf_result rf_turns_create(const rf_traced_states *traced, rf_update *update, bool by_bucket);
void rf_turns_free(rf_turns **turns);
/* Part of the run in which the gradient of the update's variable i is placed. */
uint32_t rf_turns_part(const rf_turns *turns, uint32_t variable);

/* The bucket of the variable behind a state; UINT32_MAX where the update has none. */
uint32_t rf_turns_bucket_of_state(const rf_turns *turns, uint32_t slot);

#endif
