/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RF_SERVER_SERVER_INTERNAL_H
#define RF_SERVER_SERVER_INTERNAL_H

#include "server/link.h"
#include "server/server.h"

/* Gradients of one share of a synchronous step. */
typedef struct rf_ps_share {
    float *gradient;
    uint64_t examples;
    bool present;
} rf_ps_share;

/* Parameters, and the gradients that have arrived for them. `lock` protects all of it. */
typedef struct rf_ps_shard {
    pthread_mutex_t lock;
    const rf_ps_store_fns *fns;
    void *store; /* NULL where no element has an optimizer */
    float *values, *sum;
    uint64_t count, version;
    uint64_t optimized; /* elements that the store updates; to those after them, changes are added */
    bool synchronous;
    rf_ps_share *shares; /* [num_shares]; of step `version` */
    uint32_t num_shares;
    bool failed; /* the store failed: later calls report it */
    rf_error_record failure;
} rf_ps_shard;

void rf_ps_shard_free(rf_ps_shard *shard);
/* A copy of the parameters (slot 0) or of slot - 1 of what the store updates, and their version. */
rf_result rf_ps_shard_read(rf_ps_shard *shard, uint64_t slot, float *values, uint64_t *count, uint64_t *version);
/* Gradients and changes made from `push->version`. Asynchronous: applies them. Synchronous: keeps them as share
 * `push->share` of step `push->step` in exchange for *gradient's old memory. A share that is there already stays: it
 * was made from the same parameters. */
rf_result rf_ps_shard_push(rf_ps_shard *shard, const rf_ps_message *push, float **gradient, uint64_t *version,
                           uint64_t *staleness);
/* Adds up shares 0 .. count - 1 of `step` and updates. Count 0 drops those that have arrived. */
rf_result rf_ps_shard_commit(rf_ps_shard *shard, uint64_t step, uint64_t count, uint64_t *version);
/* The store's failure. */
rf_result rf_ps_shard_status(rf_ps_shard *shard);

/* All connections but the chief's control connection. */
typedef struct rf_ps_clients rf_ps_clients;
rf_result rf_ps_clients_start(rf_listener *listener, rf_ps_shard *shard, const rf_job *job, const rf_cluster *cluster,
                              rf_ps_clients **out);
/* Ends the connections of a worker that the chief has given up. */
void rf_ps_clients_expel(rf_ps_clients *clients, uint64_t rank, uint64_t incarnation);
void rf_ps_clients_stop(rf_ps_clients **clients);

#endif
