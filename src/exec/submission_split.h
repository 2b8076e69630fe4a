/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where a run is cut into several submissions. Most systems reset a GPU that is busy with one submission for seconds,
 * or leave the desktop without it meanwhile; on the other hand each submission costs time and lets the device run
 * empty. How long nodes take is estimated from their costs, first at an assumed rate, and once a run has been measured
 * at its pace. A node that takes too long by itself is taken apart. Decisions are pure functions.
 */
#ifndef RF_EXEC_SUBMISSION_SPLIT_H
#define RF_EXEC_SUBMISSION_SPLIT_H

#include <ringfire/device.h>

#include "graph/op.h"

typedef struct rf_split_policy {
    double target;     /* seconds of a submission; 0: runs are not cut */
    double node_limit; /* a node that takes longer is taken apart */
} rf_split_policy;
/* Software devices are never cut, and discrete GPUs not where nothing watches over them; all others soon. */
rf_split_policy rf_split_policy_of(rf_device_type type, bool on_linux);

/* Seconds that a node takes at the assumed rate: that of a slow integrated GPU with middling kernels. */
double rf_split_assumed_seconds(const rf_cost *cost);
/* The factor of estimates: the seconds that a run took by those assumed for it, within limits that no device is beyond;
 * 1 where one of them says nothing. */
double rf_split_pace(double measured, double assumed);

/*
 * Shares a node's seconds out to its dispatches, by the work that each declares. Where they are within the limit,
 * pieces[i] is 1 for all of them; otherwise as many as keep each within the target.
 */
void rf_split_node(const rf_split_policy *policy, const rf_kernel_plan *plan, double node_seconds, double *seconds,
                   uint32_t *pieces);

/* Cuts a run into submissions of at most `target` seconds: cut[i] is true when a new recording starts before dispatch
 * i, which it may where may_cut[i] is true. Returns the number of recordings. */
uint32_t rf_split_run(const double *seconds, const bool *may_cut, uint32_t count, double target, bool *cut);

#endif
