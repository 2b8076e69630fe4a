/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which workers are connected to each other. Small worlds: all of them. In larger ones connections between all would
 * cost more than the work: 32,640 of them for 256 ranks. There rank 0, which everybody has to reach anyway to join, is
 * connected to all, watches all and passes on what concerns all. Every other rank watches rank 0, and has four
 * witnesses: the ranks next to it and those some way off in a ring of all but rank 0. They are asked only when somebody
 * is missed, and an abort reaches all ranks through them when rank 0 is what is lost.
 */
#ifndef RF_TRANSPORT_MESH_TOPOLOGY_H
#define RF_TRANSPORT_MESH_TOPOLOGY_H

#include "transport/mesh/message.h"

/* False: rank 0 passes on. */
bool rf_mesh_is_full(uint32_t world);
/* Symmetric; false for a rank and itself. */
bool rf_mesh_linked(uint32_t a, uint32_t b, uint32_t world);

/* The rank whose connection shows under which address rank 0 is reached from elsewhere: the first of another host, else
 * the first that did not come over loopback, else rank 1. */
uint32_t rf_mesh_outside(const rf_mesh_member *members, uint32_t count);
/* Who came over loopback is where rank 0 is, and is reached from elsewhere as rank 0 is. */
void rf_mesh_settle_addresses(rf_mesh_member *members, uint32_t count);

#endif
