/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RF_TRANSPORT_COLLECTIVE_COMM_INTERNAL_H
#define RF_TRANSPORT_COLLECTIVE_COMM_INTERNAL_H

#include "transport/mesh/mesh.h"

/* A communicator over a mesh that exists. It owns the mesh from here on, also when this fails. `mesh` NULL: a world of
 * one. */
rf_result rf_comm_create_on_mesh(const rf_job *job, rf_mesh *mesh, rf_comm **out);
/* Where a rank is reached ("" in a world of one), and the number of its host. */
const char *rf_comm_address(const rf_comm *comm, uint32_t rank);
uint32_t rf_comm_host(const rf_comm *comm, uint32_t rank);
/* Says goodbye to the others and closes the connections to them, which waits for all to leave. Calls fail from here on;
 * requests that were started are done and can still be waited for. */
void rf_comm_leave(rf_comm *comm);

#endif
