/* SPDX-License-Identifier: Apache-2.0 */
/* A parameter server: its shard of the parameters, the clients that read them, and how gradients update them. */
#ifndef RF_SERVER_SERVER_H
#define RF_SERVER_SERVER_H

#include <ringfire/comm.h>

#include "base/error.h"

/* Where parameters lie and what updates them. Calls come from several threads, one at a time. */
typedef struct rf_ps_store_fns {
    /* `optimizer` is what the chief sent; trust nothing in it. `count` > 0. */
    rf_result (*create)(void *user, const void *optimizer, size_t size, const float *values, uint64_t count,
                        void **store);
    /* One update; `values` gets the new parameters. */
    rf_result (*apply)(void *store, const float *gradient, float *values);
    void (*destroy)(void *store);
} rf_ps_store_fns;

/* Runs this process as the parameter server that TF_CONFIG describes, until the chief ends the job or another task is
 * lost. */
rf_result rf_ps_server_run(const rf_comm_params *comm, const rf_ps_store_fns *fns, void *user);

#endif
