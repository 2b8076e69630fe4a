/* SPDX-License-Identifier: Apache-2.0 */
/* Initial values, computed once on the host and copied to every replica. Pure. */
#ifndef RF_BASE_INITIALIZER_H
#define RF_BASE_INITIALIZER_H

#include <ringfire/strategy.h>

#include "base/error.h"

/* Fills rf_shape_count(shape) floats. The same initializer, shape and seed give the same values everywhere. */
rf_result rf_initializer_fill(const rf_initializer *initializer, rf_shape shape, uint64_t seed, float *values);
/* Whether the fields mean something. The message begins with them, for the caller to name the place. */
rf_result rf_initializer_check(const rf_initializer *initializer);
/* As Keras counts them: kernels [..., in, out] have a receptive field of the product of the leading dimensions. */
void rf_initializer_fans(rf_shape shape, double *fan_in, double *fan_out);

#endif
