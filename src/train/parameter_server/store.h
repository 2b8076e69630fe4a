/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RF_TRAIN_PARAMETER_SERVER_STORE_H
#define RF_TRAIN_PARAMETER_SERVER_STORE_H

#include <ringfire/strategy.h>

#include "server/server.h"

/* A server's parameters as variables of a one-device strategy, updated by an optimizer there; `user` is a
 * rf_one_device_params. */
const rf_ps_store_fns *rf_parameter_store_fns(void);

#endif
