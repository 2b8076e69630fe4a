/* SPDX-License-Identifier: Apache-2.0 */
/* The worker of a parameter-server cluster: it receives work from the chief and parameters from the servers. */
#ifndef RF_SERVER_WORKER_H
#define RF_SERVER_WORKER_H

#include <ringfire/parameter_server.h>

#include "base/error.h"
#include "server/variables.h"

/* What the chief wants. */
typedef struct rf_ps_work {
    const char *function;
    uint64_t first, count; /* examples; count 0: of the worker's own dataset, which begins with batch `first` */
} rf_ps_work;

/* What came of it. */
typedef struct rf_ps_outcome {
    uint64_t examples;
    bool push; /* changes are there */
    uint32_t num_results;
    float results[RF_MAX_RESULTS];
} rf_ps_outcome;

/* `values` are the parameters, all variables end to end; `changes` has the same layout and is to be filled in where
 * `push` is set (rf_ps_variables_read_changes()). A failure is the function's: the worker goes on. */
typedef rf_result (*rf_ps_work_fn)(void *user, const rf_ps_work *work, const float *values, float *changes,
                                   rf_ps_outcome *out);

/* Returns when the chief has ended the job. */
rf_result rf_ps_worker_run(const rf_comm_params *comm, const rf_ps_variables *variables, double clip_norm,
                           rf_ps_work_fn work, void *user);

#endif
