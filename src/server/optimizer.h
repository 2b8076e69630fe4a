/* SPDX-License-Identifier: Apache-2.0 */
/* The parameters of an optimizer, encoded for the way from the chief to the servers. */
#ifndef RF_SERVER_OPTIMIZER_H
#define RF_SERVER_OPTIMIZER_H

#include <ringfire/train.h>

#include "base/error.h"

#define RF_PS_OPTIMIZER_BYTES 512 /* enough */

/* `params` must be good for rf_optimizer_create(). *size bytes. */
void rf_ps_optimizer_encode(const rf_optimizer_params *params, uint8_t bytes[RF_PS_OPTIMIZER_BYTES], size_t *size);
/* RF_ERROR_CORRUPT_DATA when it is none; rf_optimizer_create() checks the numbers. `params->schedule` points to
 * *schedule or nowhere. */
rf_result rf_ps_optimizer_decode(const void *bytes, size_t size, rf_optimizer_params *params, rf_schedule *schedule);

#endif
