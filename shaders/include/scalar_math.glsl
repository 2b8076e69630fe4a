/* SPDX-License-Identifier: Apache-2.0 */
/* The scalar functions of shaders, each for float and for vec4. scalar_fns.h says what they owe to NaN. */
#ifndef RF_SCALAR_MATH_GLSL
#define RF_SCALAR_MATH_GLSL

#define T float
#define INT int
#define LESS(a, b) ((a) < (b))
#define GREATER(a, b) ((a) > (b))
#define EQUAL(a, b) ((a) == (b))
#define NOT_LESS(a, b) ((a) >= (b))
#include "scalar_math_of.glsl"
#undef T
#undef INT
#undef LESS
#undef GREATER
#undef EQUAL
#undef NOT_LESS

#define T vec4
#define INT ivec4
#define LESS(a, b) lessThan(a, b)
#define GREATER(a, b) greaterThan(a, b)
#define EQUAL(a, b) equal(a, b)
#define NOT_LESS(a, b) greaterThanEqual(a, b)
#include "scalar_math_of.glsl"
#undef T
#undef INT
#undef LESS
#undef GREATER
#undef EQUAL
#undef NOT_LESS

#ifndef ACTIVATIONS_ONLY

bool rf_is_finite(float a) { return (floatBitsToInt(a) & 0x7fffffff) < 0x7f800000; }
bool rf_is_nan(float a) { return (floatBitsToInt(a) & 0x7fffffff) > 0x7f800000; }

/* Whether v takes the place of the first maximum so far: it is greater, or the first NaN. */
bool rf_exceeds(float v, float best) { return v > best || (rf_is_nan(v) && !rf_is_nan(best)); }

#endif

#endif
