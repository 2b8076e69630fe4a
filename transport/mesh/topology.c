/* SPDX-License-Identifier: Apache-2.0 */
#include "transport/mesh/topology.h"

#include <string.h>

#include "transport/job/host.h"

bool rf_mesh_is_full(uint32_t world)
{
    return world <= RF_MESH_FULL;
}

bool rf_mesh_linked(uint32_t a, uint32_t b, uint32_t world)
{
    if (a == b) return false;
    if (rf_mesh_is_full(world) || a == 0 || b == 0) return true;
    const uint32_t ring = world - 1, apart = a < b ? b - a : a - b,
                   distance = apart < ring - apart ? apart : ring - apart;
    uint32_t far =
        1; /* about the root: so no two ranks are more steps apart than that, and witnesses on several hosts */
    while (far * far < ring) far++;
    return distance == 1 || distance == far;
}

uint32_t rf_mesh_outside(const rf_mesh_member *members, uint32_t count)
{
    for (int any_host = 0; any_host < 2; any_host++)
        for (uint32_t r = 1; r < count; r++)
            if (!rf_is_loopback(members[r].address) && (any_host || members[r].host != members[0].host)) return r;
    return 1;
}

void rf_mesh_settle_addresses(rf_mesh_member *members, uint32_t count)
{
    if (rf_is_loopback(members[0].address)) return;
    for (uint32_t r = 1; r < count; r++)
        if (rf_is_loopback(members[r].address))
            memcpy(members[r].address, members[0].address, sizeof(members[r].address));
}
