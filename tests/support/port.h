/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RF_TESTS_SUPPORT_PORT_H
#define RF_TESTS_SUPPORT_PORT_H

#include <stdint.h>
#include <stdlib.h>

#include "../../tools/ports.h"

/* A port of this host for a listener of the test. Never one of those that the system gives out by itself: it could give
 * it to another test, or to a connection, before the listener is there. */
static inline uint16_t free_port(void)
{
    uint16_t port;
    if (!free_ports(&port, 1)) abort();
    return port;
}

#endif
