/* SPDX-License-Identifier: Apache-2.0 */
/* The scalar functions of shaders, each for float and for vec4. scalar_fns.h says what they owe to
 * NaN. */
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

/* ---- pow as C has it (C11, annex F.10.4.4): GLSL's is undefined for negative bases, drivers
 * differ about the rest ----
 *
 * Zeros, infinities and NaN are told apart by their bits: whether comparisons see a denormal number
 * or a NaN is up to the driver, and so is what logarithm and exponential function make of either.
 */
bvec4 rf_has_nan(vec4 a)
{
    return greaterThan(floatBitsToUint(a) & 0x7fffffffu, uvec4(0x7f800000u));
}
bool rf_some_nan(vec4 a) { return any(rf_has_nan(a)); }
bool rf_some_nan(float a) { return rf_is_nan(a); }

/* `a`, and `otherwise` where that is NaN. */
float rf_known(float a, float otherwise) { return rf_is_nan(a) ? otherwise : a; }
vec4 rf_known(vec4 a, vec4 otherwise) { return mix(a, otherwise, rf_has_nan(a)); }

/* log2 |a|; a denormal number is a whole multiple of 2^-149. */
vec4 rf_log2_abs(vec4 a)
{
    uvec4 bits = floatBitsToUint(a) & 0x7fffffffu;
    bvec4 denormal = lessThan(bits, uvec4(0x00800000u));
    vec4 x =
        mix(uintBitsToFloat(min(bits, uvec4(0x7f7fffffu))), vec4(max(bits, uvec4(1u))), denormal);
    vec4 r = log2(x) - mix(vec4(0), vec4(149), denormal);
    r = mix(r, vec4(uintBitsToFloat(0xff800000u)), equal(bits, uvec4(0u)));
    r = mix(r, vec4(uintBitsToFloat(0x7f800000u)), equal(bits, uvec4(0x7f800000u)));
    r = mix(r, vec4(0), equal(bits, uvec4(0x3f800000u)));
    return mix(r, vec4(uintBitsToFloat(0x7fc00000u)), greaterThan(bits, uvec4(0x7f800000u)));
}

/* An exponent that counts as 0: also a denormal one, which some drivers take for 0 and others do
 * not. */
bvec4 rf_is_zero(vec4 b) { return lessThan(floatBitsToUint(b) & 0x7fffffffu, uvec4(0x00800000u)); }

vec4 rf_pow(vec4 a, vec4 b)
{
    uvec4 bits = floatBitsToUint(a), size = bits & 0x7fffffffu;
    bvec4 one = equal(size, uvec4(0x3f800000u));
    /* |a|^b; where |a| is 1, an infinite b would give 0 * infinity */
    vec4 e = mix(b, vec4(1), one) * rf_log2_abs(a);
    vec4 r = exp2(clamp(e, vec4(-160), vec4(127.999992)));
    r = mix(r, vec4(0), lessThan(e, vec4(-150)));
    r = mix(r, vec4(uintBitsToFloat(0x7f800000u)), greaterThanEqual(e, vec4(128)));
    /* The sign. Numbers from 2^24 on are whole and even, those below 1 are not whole. */
    uvec4 size_b = floatBitsToUint(b) & 0x7fffffffu, negative = bits >> 31;
    uvec4 large = uvec4(greaterThanEqual(size_b, uvec4(0x4b800000u)));
    uvec4 small = uvec4(lessThan(size_b, uvec4(0x3f800000u)));
    vec4 half_b = 0.5 * b;
    uvec4 whole = large | (uvec4(equal(floor(b), b)) & (small ^ 1u));
    uvec4 odd = uvec4(notEqual(floor(half_b), half_b)) & whole & (large ^ 1u) & negative;
    r = mix(r, -r, equal(odd, uvec4(1u)));
    /* A negative number (zero and infinity are none here) to a power that is not whole, and NaN. */
    uvec4 root = negative & (whole ^ 1u) & uvec4(lessThan(size - 1u, uvec4(0x7f7fffffu)));
    uvec4 undefined = root | uvec4(rf_has_nan(a)) | uvec4(rf_has_nan(b));
    r = mix(r, vec4(uintBitsToFloat(0x7fc00000u)), equal(undefined, uvec4(1u)));
    /* Whatever the other operand is, NaN too. */
    return mix(r, vec4(1),
               equal(uvec4(equal(bits, uvec4(0x3f800000u))) | uvec4(rf_is_zero(b)), uvec4(1u)));
}

/* b a^(b - 1), the slope of a^b by a: 0 for b = 0, where a^b is 1 for every a. */
vec4 rf_pow_slope(vec4 a, vec4 b)
{
    return mix(b * rf_pow(a, b - 1.0), vec4(0), rf_is_zero(b));
}

/* The factor of a^b in its slope by b: log(a), but 0 where 0^b does not depend on b. */
vec4 rf_pow_log(vec4 a, vec4 b)
{
    uvec4 bits = floatBitsToUint(a);
    vec4 r = mix(0.693147180560 * rf_log2_abs(a), vec4(uintBitsToFloat(0x7fc00000u)),
                 greaterThan(bits, uvec4(0x80000000u)));
    /* Not `bits << 1`: that of a denormal number is 0 on Mesa 26. */
    uvec4 flat_there =
        uvec4(equal(bits & 0x7fffffffu, uvec4(0u))) & uvec4(greaterThanEqual(b, vec4(0)));
    return mix(r, vec4(0), equal(flat_there, uvec4(1u)));
}

#endif

#endif
