/* SPDX-License-Identifier: Apache-2.0 */
/* The worker of a parameter-server cluster: it receives work from the chief and parameters from the servers. */
#ifndef RF_SERVER_WORKER_H
#define RF_SERVER_WORKER_H

#include <ringfire/parameter_server.h>

#include "base/error.h"
#include "server/variables.h"

/* A share that the chief wants done. */
typedef struct rf_ps_work {
    const char *function;
    uint64_t first, count;  /* examples; count 0: of a dataset, which begins with batch `first` */
    uint64_t number;        /* of the function's work: what random numbers follow */
    uint64_t row;           /* examples of that work before `first` */
    uint64_t seed;          /* the chief's, of random numbers */
    uint64_t share, shares; /* of that work */
    bool synchronous;
} rf_ps_work;

/* Its results. */
typedef struct rf_ps_outcome {
    uint64_t examples;
    bool push;     /* changes are there */
    uint64_t hash; /* of a batch of the worker's own data; 0: it has none */
    uint32_t num_results;
    float results[RF_MAX_RESULTS];
} rf_ps_outcome;

/* `values` are the parameters, all variables end to end; `changes` has the same layout and is to be filled in where
 * `push` is set (rf_ps_variables_read_changes()). A failure is the function's: the worker goes on. */
typedef rf_result (*rf_ps_work_fn)(void *user, const rf_ps_work *work, const float *values, float *changes,
                                   rf_ps_outcome *out);

/* Returns when the chief has ended the job. `own_data`: some functions have data that other workers do not have. */
rf_result rf_ps_worker_run(const rf_comm_params *comm, const rf_ps_variables *variables, bool own_data,
                           double clip_norm, rf_ps_work_fn work, void *user);

#endif
