/* SPDX-License-Identifier: Apache-2.0 */
/* Declarations that rank 0's side and the others' side of the rendezvous share. */
#ifndef RF_TRANSPORT_MESH_RENDEZVOUS_INTERNAL_H
#define RF_TRANSPORT_MESH_RENDEZVOUS_INTERNAL_H

#include "transport/mesh/rendezvous.h"

#define RF_WORKER_ROLE "worker"
#define RF_LINGER_NS UINT64_C(200000000)

typedef struct rf_bootstrap {
    const rf_job *job;
    rf_assembly *out;
    rf_hello hello;
    uint64_t deadline;
    double seconds; /* the whole time, for messages */
    rf_listener *listener;
    rf_listen_plan plan; /* where it listens */
    /* rank 0 */
    uint64_t widen_at; /* 0: never; until then it stays on the loopback that it was told of */
    bool *joined;
    rf_mesh_join *joins;
    /* others */
    char waiting[RF_MESH_REASON]; /* what rank 0 waits for, as it said last */
    bool told;                    /* rank 0 knows of the failure: it said so itself, or is gone */
} rf_bootstrap;

uint64_t rf_bootstrap_left(const rf_bootstrap *b);
rf_result rf_bootstrap_send(const rf_bootstrap *b, rf_channel *channel, rf_mesh_frame type, const void *body,
                            size_t size);
/* The calling thread's error as a frame; errors of sending are not reported: there is a worse one already. */
void rf_bootstrap_send_failure(rf_channel *channel, uint32_t culprit, rf_result result);

rf_result rf_bootstrap_master(rf_bootstrap *b);
rf_result rf_bootstrap_worker(rf_bootstrap *b);

#endif
