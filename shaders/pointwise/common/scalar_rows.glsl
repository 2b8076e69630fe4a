/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Functions that only rows of scalar_fns.h need, for vec4 alone. This file is included by the
 * element-wise shader and by no other, so that these are spared it. scalar_math_of.glsl says how
 * NaN is kept.
 */
#ifndef RF_SCALAR_ROWS_GLSL
#define RF_SCALAR_ROWS_GLSL

#include "include/scalar_math.glsl"

/* `b` where the mask `a` is not 0, and where it is; a NaN in what is not taken has no part.
 * Denormals in a mask are zeros. */
vec4 rf_if_set(vec4 a, vec4 b) { return rf_keep_nan(mix(b, vec4(0), rf_is_zero(a)), a); }
vec4 rf_unless_set(vec4 a, vec4 b) { return rf_keep_nan(mix(vec4(0), b, rf_is_zero(a)), a); }

/*
 * sin(a + shift pi / 2), within 1e-6 for |a| up to 100,000; drivers' own are off by up to 2^-11.
 * Multiples n of pi / 2 are taken off `a` in three parts: products of n and the first two are
 * exact. The polynomials of sine and cosine up to pi / 4 were found by interpolation at Chebyshev
 * nodes; they are off by 7e-8 at most. Beyond 100,000 those products lose digits, and the result
 * merely stays between -1 and 1.
 */
vec4 rf_sine(vec4 a, int shift)
{
    vec4 n = roundEven(a * 0.636619772);
    precise vec4 r = ((a - n * 1.5703125) - n * 4.83751296997070312e-4) - n * 7.54978995e-8;
    r = clamp(r, vec4(-0.8), vec4(0.8));
    ivec4 quarter = ivec4(clamp(n, vec4(-1e9), vec4(1e9))) + shift;
    vec4 s = r * r;
    vec4 sine = r + r * s * (-0.166666646 + s * (8.3327436e-3 + s * -1.95868828e-4));
    vec4 cosine =
        1.0 - 0.5 * s + s * s * (4.16666646e-2 + s * (-1.38882984e-3 + s * 2.45469318e-5));
    vec4 y = mix(sine, cosine, equal(quarter & 1, ivec4(1)));
    return rf_if_finite(mix(y, -y, equal(quarter & 2, ivec4(2))), a);
}

/* Near 0, where 1 + a loses digits, 2 artanh(a / (2 + a)) by its series (next term: 2/13 of the
 * 13th power); NaN comes out of it. */
vec4 rf_log1p(vec4 a)
{
    vec4 t = a / (2.0 + a), s = t * t;
    vec4 near = 2.0 * t *
                (1.0 + s * (0.333333333 +
                            s * (0.2 + s * (0.142857143 + s * (0.111111111 + s * 0.0909090909)))));
    return mix(near, rf_log(1.0 + a), greaterThanEqual(abs(a - 0.075), vec4(0.375)));
}

/* Near 0 the Taylor series (next term: a^9 / 9!), which NaN comes out of. */
vec4 rf_expm1(vec4 a)
{
    vec4 near = 1.98412698e-4 + a * 2.48015873e-5;
    near = a + a * a *
                   (0.5 +
                    a * (0.166666667 + a * (4.16666667e-2 +
                                            a * (8.33333333e-3 + a * (1.38888889e-3 + a * near)))));
    return mix(near, exp(a) - 1.0, greaterThanEqual(abs(a), vec4(0.5)));
}

/* Near 0 the Taylor series (next term: 1.5e-5 a^15), which NaN comes out of. */
vec4 rf_erf(vec4 a)
{
    vec4 s = a * a;
    vec4 near = 5.22397763e-3 + s * (-8.54832702e-4 + s * 1.20553329e-4);
    near =
        a * (1.12837917 + s * (-0.376126389 + s * (0.112837917 + s * (-2.68661706e-2 + s * near))));
    vec4 far = sign(a) * (1.0 - 2.0 * rf_normal_cdf(-1.41421356 * abs(a)));
    return mix(near, far, greaterThanEqual(abs(a), vec4(0.6)));
}

#endif
