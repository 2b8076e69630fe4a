/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RF_SERVER_COORDINATOR_H
#define RF_SERVER_COORDINATOR_H

#include <ringfire/parameter_server.h>

#include "base/error.h"

/* rf_coordinator_create() for an optimizer in the form in which it travels. */
rf_result rf_coordinator_open(const rf_coordinator_params *params, const void *optimizer, size_t size,
                              rf_coordinator **out);

#endif
