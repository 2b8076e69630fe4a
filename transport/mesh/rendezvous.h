/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Brings the workers of a job together. Rank 0 listens where everybody looks for it; each other rank connects, says
 * where it listens itself and on which host it is. When all have come rank 0 sends the table of all; each rank then
 * connects to every lower one, says "ready", and goes on when rank 0, having heard that from everybody, says "go". The
 * connections to rank 0 stay in use. Whoever fails before that tells rank 0, which tells all: everybody returns the
 * same reason.
 */
#ifndef RF_TRANSPORT_MESH_RENDEZVOUS_H
#define RF_TRANSPORT_MESH_RENDEZVOUS_H

#include "transport/channel/channel.h"
#include "transport/mesh/message.h"

/* Who a worker is connected to. */
typedef struct rf_assembly {
    uint32_t rank, world;
    rf_mesh_table table;
    rf_channel **channels; /* [world]; NULL for this rank */
} rf_assembly;

rf_result rf_rendezvous(const rf_job *job, rf_assembly *out);
/* Closes the connections, too. */
void rf_assembly_clear(rf_assembly *assembly);

/* Ends the sending side of connections and waits until the others have ended theirs, `timeout_ns` at most: closing a
 * socket with unread input could take what was sent last with it. */
void rf_part(rf_channel *const *channels, uint32_t count, uint64_t timeout_ns);

#endif
