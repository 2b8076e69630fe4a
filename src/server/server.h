/* SPDX-License-Identifier: Apache-2.0 */
/* A parameter server: its shard of the parameters, the clients that read them, and how gradients update them. */
#ifndef RF_SERVER_SERVER_H
#define RF_SERVER_SERVER_H

#include <ringfire/comm.h>

#include "base/error.h"
#include "server/plan.h"

/* Where parameters lie and what updates them: those of the groups of a layout, which has some. Calls come from several
 * threads, one at a time. */
typedef struct rf_ps_store_fns {
    /* `optimizer` is what the chief sent; trust nothing in it, nor in the groups that have parameters. `updates` have
     * been made before. */
    rf_result (*create)(void *user, const void *optimizer, size_t size, const float *values, const rf_ps_layout *layout,
                        uint64_t updates, void **store);
    /* One update; `values` gets the new parameters. */
    rf_result (*apply)(void *store, const float *gradient, float *values);
    /* The optimizer's numbers beside each parameter. */
    uint32_t (*num_slots)(void *store);
    rf_result (*read_slot)(void *store, uint32_t slot, float *values);
    rf_result (*write_slot)(void *store, uint32_t slot, const float *values);
    void (*destroy)(void *store);
} rf_ps_store_fns;

/* Runs this process as the parameter server that TF_CONFIG describes, until the chief ends the job or another task is
 * lost. */
rf_result rf_ps_server_run(const rf_comm_params *comm, const rf_ps_store_fns *fns, void *user);

#endif
