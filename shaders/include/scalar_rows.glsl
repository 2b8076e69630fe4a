/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What only rows of scalar_fns.h need, for vec4 alone: it is included by the element-wise shader and by no other, so that
 * these are spared it. scalar_math_of.glsl says how NaN is kept.
 */
#ifndef RF_SCALAR_ROWS_GLSL
#define RF_SCALAR_ROWS_GLSL

#include "scalar_math.glsl"

/* `b` where the mask `a` is not 0, and where it is; a NaN in what is not taken has no part. Denormals in a mask are zeros. */
vec4 rf_if_set(vec4 a, vec4 b) { return rf_keep_nan(mix(b, vec4(0), rf_is_zero(a)), a); }
vec4 rf_unless_set(vec4 a, vec4 b) { return rf_keep_nan(mix(vec4(0), b, rf_is_zero(a)), a); }

#endif
