/* SPDX-License-Identifier: Apache-2.0 */
#include "transport/mesh/topology.h"

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
