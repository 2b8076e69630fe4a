/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RINGFIRE_PORTS_H
#define RINGFIRE_PORTS_H

#include <stdbool.h>
#include <stdint.h>

/* Different TCP ports of this host that are free, below the range from which systems take the ports of outgoing
 * connections. False: there are not so many, or errno says why none can be tried. */
bool free_ports(uint16_t *ports, uint32_t count);

#endif
