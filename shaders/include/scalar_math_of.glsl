/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Included by scalar_math.glsl for each type T, with INT, LESS, GREATER, EQUAL and NOT_LESS of that
 * type. Shaders that define ACTIVATIONS_ONLY are spared the rest, for the time that optimising them
 * takes.
 *
 * Drivers may compile as if there were no NaN: they fold a != a, and turn a < b ? b : a into a
 * maximum that loses NaN. So NaN is recognised by its bits, in integers, which leave nothing to
 * assume. Where a comparison chooses between two branches, NaN is free of charge if it comes to the
 * one that is made by arithmetic alone. exp and log of some drivers lose it.
 */

/* `a` where it is NaN, else `value`. */
T rf_keep_nan(T value, T a)
{
    return mix(value, a, GREATER(floatBitsToInt(a) & INT(0x7fffffff), INT(0x7f800000)));
}

/* One comparison of integers: from -infinity up to NaN with the sign set, numbers with the sign set
 * grow as they near -0. */
T rf_relu(T a) { return mix(a, T(0), LESS(floatBitsToInt(a), INT(0xff800001u))); }

T rf_relu_grad(T dy, T a) { return rf_keep_nan(mix(T(0), dy, GREATER(a, T(0))), a); }

T rf_larger(T a, T b) { return rf_keep_nan(mix(a, b, GREATER(b, a)), b); }

T rf_leaky_relu(T a, float slope) { return mix(slope * a, a, GREATER(a, T(0))); }

/* 1 / (1 + exp(-a)), written with exp of a negative number so that nothing overflows. */
T rf_sigmoid(T a)
{
    T t = exp(-abs(a));
    T r = 1.0 / (1.0 + t);
    return rf_keep_nan(mix(t * r, r, NOT_LESS(a, T(0))), a);
}

/*
 * 1 - 2t / (1 + t) with t = exp(-2|a|), of which GPUs get the last few bits wrong. Near zero, where
 * that shows in the result, a polynomial in s = a^2 for (tanh(a) / a - 1) / s, found by
 * interpolation at Chebyshev nodes; it is off by 0.9 units in the last place at most, and is what
 * NaN comes out of.
 */
T rf_tanh(T a)
{
    T t = exp(-2.0 * abs(a));
    T far = sign(a) * (1.0 - 2.0 * t / (1.0 + t));
    T s = a * a;
    T poly = -0.333333284 +
             s * (0.133327693 + s * (-0.0538509078 + s * (0.0209971797 + s * -0.00609671418)));
    return mix(a + a * s * poly, far, NOT_LESS(abs(a), T(0.625)));
}

/*
 * Distribution function of the normal distribution: half of erfc(z), z = |a| / sqrt 2, for negative
 * a, and 1 less that for others, so that nothing cancels. erfc(z) exp(z^2) is t times a polynomial
 * of degree 7 in t = 1 / (1 + 0.44 z), found by interpolation at Chebyshev nodes for z up to 9.5:
 * it is off by 2.2e-7 of its value at most. The root is in the coefficient.
 */
T rf_normal_cdf(T a)
{
    T t = 1.0 / (1.0 + 0.311126984 * abs(a));
    T poly = 0.217640605 +
             t * (-0.0234641494 + t * (0.300039697 + t * (-0.279762047 + t * 0.0716272842)));
    poly = 0.248214895 + t * (0.248964739 + t * (0.216739148 + t * poly));
    T tail = 0.5 * t * poly * exp(-0.5 * a * a);
    return mix(tail, 1.0 - tail, NOT_LESS(a, T(0)));
}

T rf_gelu(T a) { return a * rf_normal_cdf(a); }

#ifndef ACTIVATIONS_ONLY

T rf_exp(T a) { return rf_keep_nan(exp(a), a); }

/* Some drivers take the exponent's bits of denormals for a number: they are zeros here. */
#ifndef SMALLEST_NORMAL
#define SMALLEST_NORMAL 1.17549435e-38
#endif

T rf_log(T a)
{
    const T nan = T(uintBitsToFloat(0x7fc00000u)), infinity = T(uintBitsToFloat(0x7f800000u));
    T r = mix(log(a), -infinity, LESS(abs(a), T(SMALLEST_NORMAL)));
    r = mix(r, infinity, EQUAL(a, infinity));
    return rf_keep_nan(mix(r, nan, LESS(a, T(0))), a);
}

T rf_normal_pdf(T a) { return 0.398942280401 * rf_exp(-0.5 * a * a); }

/* (1 + tanh u) / 2 = sigmoid(2u), u = sqrt(2 / pi) (a + 0.044715 a^3): Hendrycks & Gimpel 2016. */
T rf_gelu_gate(T a) { return rf_sigmoid(1.595769121606 * (a + 0.044715 * a * a * a)); }

T rf_gelu_tanh_slope(T a)
{
    T s = rf_gelu_gate(a);
    /* s (1 - s) is 0 long before the cubic overflows: keep 0 * infinity out. */
    T c = clamp(a, T(-20.0), T(20.0));
    return s + c * s * (1.0 - s) * 1.595769121606 * (1.0 + 0.134145 * c * c);
}

/* The gradient `dy` where the other operand is positive. */
T rf_leaky_relu_grad(T dy, T a, float slope)
{
    return rf_keep_nan(mix(slope * dy, dy, GREATER(a, T(0))), a);
}

T rf_smaller(T a, T b) { return rf_keep_nan(mix(a, b, LESS(b, a)), b); }
T rf_clamp(T a, float low, float high) { return rf_keep_nan(clamp(a, T(low), T(high)), a); }

/* The worth of sums of exp(a - shift): NaN when the greatest a, `shift`, is infinite or NaN, where
 * exp may be anything. */
T rf_if_finite(T value, T shift)
{
    return mix(value, T(uintBitsToFloat(0x7fc00000u)),
               GREATER(floatBitsToInt(shift) & INT(0x7fffffff), INT(0x7f7fffff)));
}

T rf_sign(T a) { return rf_keep_nan(sign(a), a); }

#endif
