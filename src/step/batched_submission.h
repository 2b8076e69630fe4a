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
#ifndef RF_STEP_BATCHED_SUBMISSION_H
#define RF_STEP_BATCHED_SUBMISSION_H

#include "replica/internal.h"

#define RF_BATCHES_UNDER_WAY 2

/* These facts decide whether a run may be held back. */
typedef struct rf_submission_batch_facts {
    uint32_t wanted; /* runs that are to go together */
    bool updates;    /* variables */
    bool waits;      /* the host waits for devices, or computes something between them */
    bool copied;     /* variables are being read by another thread, for a checkpoint */
    bool paced;      /* it is measured how long each replica takes */
} rf_submission_batch_facts;
/* NULL: it may, else what the host does between two runs. Pure. */
const char *rf_submission_batch_obstacle(const rf_submission_batch_facts *facts);

typedef struct rf_submission_batch_limits {
    uint32_t wanted;
    uint32_t frames;   /* runs that may be under way */
    uint32_t previous; /* size of the group before; 0: the devices had nothing left to do since */
    double seconds;    /* that a run takes, 0: not known */
    double longest;    /* seconds of a submission */
} rf_submission_batch_limits;
/* How many runs go together. Small groups come first, so that an idle device soon has something to do. A submission
 * stays short: waits have deadlines, systems reset devices that are busy for long, and nothing is gained by joining
 * long ones. Pure. */
uint32_t rf_submission_batch_size(const rf_submission_batch_limits *limits);

typedef struct rf_submission_batch {
    uint32_t wanted;
    double longest;
    uint32_t size, count;                    /* of the group being made: 0 before its first run */
    uint32_t sizes[RF_BATCHES_UNDER_WAY];    /* of those before it, latest first; 0: none since the devices were idle */
    uint64_t *tickets[RF_BATCHES_UNDER_WAY]; /* [num_local] */
    uint64_t opened_ns;                      /* when the latest was begun */
    uint64_t drains;                         /* of the devices, then */
    double seconds;                          /* that a run takes, 0: not known */
} rf_submission_batch;

rf_result rf_submission_batch_init(rf_submission_batch *group, const rf_strategy *strategy, uint32_t wanted);
/* Runs that may be under way. */
uint32_t rf_submission_batch_most(const rf_submission_batch *group);
void rf_submission_batch_free(rf_submission_batch *group);
/* Before frames are acquired: where a group begins, waits for the one before the last. */
rf_result rf_submission_batch_begin(rf_submission_batch *group, rf_strategy *strategy);
/* A run is about to be submitted; `frames` are those of the replicas, NULL where one has none. `holds`: it is held
 * back. */
void rf_submission_batch_hold(rf_submission_batch *group, rf_strategy *strategy, rf_frame *const *frames, bool holds);
/* It was, with this result, which is returned where nothing else fails: submits the group where it is complete. */
rf_result rf_submission_batch_end(rf_submission_batch *group, rf_strategy *strategy, rf_result result);

#endif
