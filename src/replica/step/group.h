/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs of a function that are submitted together.
 *
 * A submission costs the host as much as all else that it does for the step of a small model. Where nothing that the
 * host does lies between two runs, the commands of the first are held back (rf_gpu_hold()) until those of further runs
 * can go with them. Whatever waits for one of them submits what is held, so nothing but the number of submissions
 * depends on this. Two groups are under way at a time: while the device computes one, the host writes the inputs of the
 * next.
 */
#ifndef RF_REPLICA_STEP_GROUP_H
#define RF_REPLICA_STEP_GROUP_H

#include "replica/internal.h"

#define RF_GROUPS_UNDER_WAY 2

/* What decides whether a run may be held back. */
typedef struct rf_group_facts {
    uint32_t wanted; /* runs that are to go together */
    bool updates;    /* variables */
    bool waits;      /* the host waits for devices, or computes something between them */
    bool copied;     /* variables are being read by another thread, for a checkpoint */
    bool paced;      /* it is measured how long each replica takes */
} rf_group_facts;
/* NULL: it may, else what the host does between two runs. Pure. */
const char *rf_group_obstacle(const rf_group_facts *facts);

typedef struct rf_group_limits {
    uint32_t wanted;
    uint32_t frames;   /* runs that may be under way */
    uint32_t previous; /* size of the group before; 0: the devices had nothing left to do since */
    double seconds;    /* that a run takes, 0: not known */
    double longest;    /* seconds of a submission */
} rf_group_limits;
/* How many runs go together. Small groups come first, so that an idle device soon has something to do. A submission
 * stays short: waits have deadlines, systems reset devices that are busy for long, and nothing is gained by joining
 * long ones. Pure. */
uint32_t rf_group_size(const rf_group_limits *limits);

typedef struct rf_step_group {
    uint32_t wanted;
    double longest;
    uint32_t size, count;                   /* of the group being made: 0 before its first run */
    uint32_t sizes[RF_GROUPS_UNDER_WAY];    /* of those before it, latest first; 0: none since the devices were idle */
    uint64_t *tickets[RF_GROUPS_UNDER_WAY]; /* [num_local] */
    uint64_t opened_ns;                     /* when the latest was begun */
    uint64_t drains;                        /* of the devices, then */
    double seconds;                         /* that a run takes, 0: not known */
} rf_step_group;

rf_result rf_group_init(rf_step_group *group, const rf_strategy *strategy, uint32_t wanted);
/* Runs that may be under way. */
uint32_t rf_group_most(const rf_step_group *group);
void rf_group_free(rf_step_group *group);
/* Before frames are acquired: where a group begins, waits for the one before the last. */
rf_result rf_group_begin(rf_step_group *group, rf_strategy *strategy);
/* A run is about to be submitted; `frames` are those of the replicas, NULL where one has none. `holds`: it is held
 * back. */
void rf_group_hold(rf_step_group *group, rf_strategy *strategy, rf_frame *const *frames, bool holds);
/* It was, with this result, which is returned where nothing else fails: submits the group where it is complete. */
rf_result rf_group_end(rf_step_group *group, rf_strategy *strategy, rf_result result);

#endif
