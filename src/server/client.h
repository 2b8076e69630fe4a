/* SPDX-License-Identifier: Apache-2.0 */
/* Reads parameters from all servers of a cluster and sends them gradients. */
#ifndef RF_SERVER_CLIENT_H
#define RF_SERVER_CLIENT_H

#include "server/link.h"
#include "server/plan.h"

typedef struct rf_ps_client rf_ps_client;

typedef struct rf_ps_client_params {
    const rf_job *job; /* borrowed, as all of these */
    const rf_cluster *cluster;
    const rf_ps_plan *plan;
    uint64_t incarnation;
    /* Called while waiting, when there is something to read on `watched`, the chief's connection (NULL: none). A
     * negative result ends the wait. */
    rf_result (*watch)(void *user);
    void *user;
    rf_ps_link *watched;
} rf_ps_client_params;

rf_result rf_ps_client_create(const rf_ps_client_params *params, rf_ps_client **out);
void rf_ps_client_destroy(rf_ps_client **client);
/* All variables end to end (slot 0), or slot - 1 of the optimizer, which leaves places of what it does not update as
 * they are. The versions that came are those of the next push. */
rf_result rf_ps_client_pull(rf_ps_client *client, uint64_t slot, float *values);
/* The largest of the latest pull. */
uint64_t rf_ps_client_version(const rf_ps_client *client);
/* The largest staleness that a server saw. `step` and `share` matter in synchronous training. */
rf_result rf_ps_client_push(rf_ps_client *client, const float *gradients, uint64_t step, uint64_t share,
                            uint64_t examples, uint64_t *staleness);
/* Ends all waits, now and later. From any thread. */
void rf_ps_client_shutdown(rf_ps_client *client);

#endif
