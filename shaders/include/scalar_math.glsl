/* SPDX-License-Identifier: Apache-2.0 */
/* Functions that GLSL lacks or that drivers may overflow in; see scalar_fns.h. */
#ifndef RF_SCALAR_MATH_GLSL
#define RF_SCALAR_MATH_GLSL

vec4 rf_exp(vec4 a) { return exp(a); }

vec4 rf_log(vec4 a) { return log(a); }

/* 1 / (1 + exp(-a)), written with exp of a negative number so that nothing overflows. */
vec4 rf_sigmoid(vec4 a)
{
    vec4 t = rf_exp(-abs(a));
    vec4 r = 1.0 / (1.0 + t);
    return mix(t * r, r, greaterThanEqual(a, vec4(0)));
}

/* (1 - t) / (1 + t) with t = exp(-2|a|); near zero, where that cancels, the Taylor series to a^7 (next term: 62/2835 a^9). */
vec4 rf_tanh(vec4 a)
{
    vec4 t = rf_exp(-2.0 * abs(a));
    vec4 far = sign(a) * (1.0 - t) / (1.0 + t);
    vec4 s = a * a;
    vec4 near = a + a * s * (-0.333333333 + s * (0.133333333 - s * 0.0539682540));
    return mix(far, near, lessThan(abs(a), vec4(0.25)));
}

vec4 rf_normal_pdf(vec4 a) { return 0.398942280401 * rf_exp(-0.5 * a * a); }

/* Distribution function of the normal distribution: half of erfc(-a / sqrt 2), with erfc(z) = P(t) exp(-z^2),
 * t = 1 / (1 + p z), for z >= 0: formula 7.1.26 of Abramowitz & Stegun, Handbook of Mathematical Functions (1964), after
 * C. Hastings; error of erf below 1.5e-7. No 1 - x of nearly equal numbers for negative a. */
vec4 rf_normal_cdf(vec4 a)
{
    vec4 z = abs(a) * 0.707106781187;
    vec4 t = 1.0 / (1.0 + 0.3275911 * z);
    vec4 poly = t * (0.254829592 + t * (-0.284496736 + t * (1.421413741 + t * (-1.453152027 + t * 1.061405429))));
    vec4 tail = 0.5 * poly * rf_exp(-z * z);
    return mix(tail, 1.0 - tail, greaterThanEqual(a, vec4(0)));
}

/* (1 + tanh u) / 2 = sigmoid(2u), u = sqrt(2 / pi) (a + 0.044715 a^3): Hendrycks & Gimpel 2016. */
vec4 rf_gelu_gate(vec4 a) { return rf_sigmoid(1.595769121606 * (a + 0.044715 * a * a * a)); }

vec4 rf_gelu_tanh_slope(vec4 a)
{
    vec4 s = rf_gelu_gate(a);
    /* s (1 - s) is 0 long before the cubic overflows: keep 0 * infinity out. */
    vec4 c = clamp(a, vec4(-20.0), vec4(20.0));
    return s + c * s * (1.0 - s) * 1.595769121606 * (1.0 + 0.134145 * c * c);
}

/* pow of C: GLSL's is undefined for negative bases. */
vec4 rf_pow(vec4 a, vec4 b)
{
    vec4 m = pow(max(abs(a), vec4(1e-37)), b);
    vec4 half_b = 0.5 * b;
    bvec4 odd = notEqual(floor(half_b), half_b);
    bvec4 whole = equal(floor(b), b);
    vec4 negative = mix(vec4(uintBitsToFloat(0x7fc00000u)), mix(m, -m, odd), whole);
    vec4 zero = mix(vec4(0), vec4(uintBitsToFloat(0x7f800000u)), lessThan(b, vec4(0)));
    vec4 r = mix(m, negative, lessThan(a, vec4(0)));
    r = mix(r, zero, equal(a, vec4(0)));
    return mix(r, vec4(1), equal(b, vec4(0)));
}

#endif
