/* SPDX-License-Identifier: Apache-2.0 */
/* How much a step counts among those whose gradients are accumulated: as much as its loss was divided by. */
#ifndef RF_TRAIN_OPTIMIZER_STEP_DIVISOR_H
#define RF_TRAIN_OPTIMIZER_STEP_DIVISOR_H

#include "step/step.h"

/* Finds the divisor of a loss, a scalar: weights of rf_compute_weighted_loss(), or examples. Without one, as with sums,
 * every step counts alike. RF_ERROR_UNSUPPORTED where parts of the loss were divided by different ones. */
rf_result rf_step_divisor_find(rf_trace *t, rf_value loss, rf_step_divisor *out);
/* The factor of the loss, or of its gradients, for an updater that accumulates, an f32 scalar; 0: it is 1. The next
 * rf_trace_update() is of this step. */
rf_result rf_step_weigh(rf_trace *t, rf_updater *updater, rf_value loss, rf_value *factor);

#endif
