/* SPDX-License-Identifier: Apache-2.0 */
/* The buckets of an update and the turns that they are exchanged in: what update_run.c goes by. */
#ifndef RF_REPLICA_UPDATE_TURNS_H
#define RF_REPLICA_UPDATE_TURNS_H

#include "replica/internal.h"
#include "replica/update/overlap_plan.h"

typedef struct rf_turn_bucket_replica {
    rf_frame *frame;   /* of the update; NULL: it owns nothing of the bucket */
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

struct rf_turns {
    rf_strategy *strategy;
    const rf_signature *signature;
    rf_update *update;
    bool overlaps;       /* stage A is submitted in parts */
    bool exchanges;      /* there are several replicas */
    bool gathers;        /* values come from their owners */
    uint32_t *bucket_of; /* by variable of the update */
    rf_overlap_plan plan;
    rf_turn_bucket *buckets;
    rf_turn_replica *locals; /* [num_local] */
    uint32_t *parts;         /* [number of states]: room */
    const float **from;      /* [num_local]: room */
    float **to;              /* [num_local]: room */
    uint32_t depth;          /* parts under way */
    double exposed;          /* seconds of this step */
};

/* The bucket of the variable behind a state; UINT32_MAX where the update has none. */
uint32_t rf_turns_bucket_of_state(const rf_turns *turns, uint32_t slot);

#endif
