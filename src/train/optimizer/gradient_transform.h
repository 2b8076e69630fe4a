/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A step may transform gradients between rf_gradients() and rf_optimizer_apply_gradients(). A replica's gradient is a
 * contribution to the sum over all replicas: what is not linear in it (clipping by a norm, a sign) must see the sum.
 */
#ifndef RF_TRAIN_OPTIMIZER_GRADIENT_TRANSFORM_H
#define RF_TRAIN_OPTIMIZER_GRADIENT_TRANSFORM_H

#include "replica/strategy.h"

typedef struct rf_gradient_use {
    uint32_t steps; /* that gradients are accumulated over */
    bool remote;    /* parameter servers sum them */
    bool scaled;    /* they are divided by a loss scale once they are summed */
} rf_gradient_use;

/* values[i]: what the step gives for variable i; becomes what is to be reduced. `out` is empty where that is the same:
 * one replica that scales no losses, or nothing that needs the sum. On failure the trace fails. */
rf_result rf_gradient_transform_find(rf_trace *t, const rf_gradient_use *use, rf_value *values,
                                     rf_variable_list variables, rf_gradient_transform *out);

#endif
