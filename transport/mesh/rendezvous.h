/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Assembles the workers of a job. Rank 0 listens at the address that all of them know; every other rank connects, and
 * sends where it listens itself and on which host it is. When all have joined, rank 0 sends the table of all ranks;
 * each rank then connects to every lower one that it is linked to (topology.h), sends "ready", and continues when rank
 * 0, having received that from all, sends "go". The connections to rank 0 remain in use. A rank that fails before that
 * tells rank 0, which tells all, so that all return the same reason.
 */
#ifndef RF_TRANSPORT_MESH_RENDEZVOUS_H
#define RF_TRANSPORT_MESH_RENDEZVOUS_H

#include "transport/channel/channel.h"
#include "transport/mesh/message.h"

/* Who a worker is connected to. */
typedef struct rf_assembly {
    uint32_t rank, world;
    rf_mesh_table table;
    rf_channel **channels; /* [world]; NULL for this rank and those it is not linked to */
} rf_assembly;

rf_result rf_rendezvous(const rf_job *job, rf_assembly *out);
/* Closes the connections, too. */
void rf_assembly_clear(rf_assembly *assembly);

/* Ends the sending side of connections and waits until the others have ended theirs, `timeout_ns` at most: closing a
 * socket with unread input could take what was sent last with it. */
void rf_channels_linger(rf_channel *const *channels, uint32_t count, uint64_t timeout_ns);

#endif
