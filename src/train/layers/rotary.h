/* SPDX-License-Identifier: Apache-2.0 */
/* Angles of rotary positions: pure functions. */
#ifndef RF_TRAIN_LAYERS_ROTARY_H
#define RF_TRAIN_LAYERS_ROTARY_H

#include <ringfire/layers.h>

#include "base/error.h"

/* NULL is fine. `function`, a constructor, is for messages. */
rf_result rf_rotary_check(const rf_rotary_params *params, const char *function);
/* The angle that pair i of `half` turns by from one place to the next, in sequences of so many steps. */
double rf_rotary_angle(const rf_rotary_params *params, double base, int64_t i, int64_t half, int64_t steps);

#endif
