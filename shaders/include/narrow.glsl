/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Elements of 16 bits, four in two words, so that no 16 bit storage is needed; all arithmetic is in
 * f32. Results are rounded to the nearest even number in integer arithmetic: packHalf2x16 may round
 * as the driver likes, and lavapipe's rounds toward zero. A type is a number of rf_dtype, to which
 * is added whether unpackHalf2x16 keeps numbers that are subnormal (src/ops/kit.c).
 */
#ifndef RF_NARROW_GLSL
#define RF_NARROW_GLSL

#define RF_F32 1u
#define RF_F16 2u
#define RF_BF16 3u
#define RF_TYPE(word) ((word) & 7u)
#define RF_READS_HALVES 8u

#define RF_ONE(type) (RF_TYPE(type) == RF_BF16 ? 0x3f80u : 0x3c00u)

uvec4 rf_spread(uvec2 w) { return uvec4(w.x & 0xffffu, w.x >> 16, w.y & 0xffffu, w.y >> 16); }
uvec2 rf_gather(uvec4 h) { return uvec2(h.x | h.y << 16, h.z | h.w << 16); }

vec4 rf_from_half(uvec4 h)
{
    uvec4 sign = (h & 0x8000u) << 16, exponent = h >> 10 & 31u, mantissa = h & 1023u;
    uvec4 normal = (exponent + 112u) << 23 | mantissa << 13;
    uvec4 small = floatBitsToUint(vec4(mantissa) * 5.9604644775390625e-8); /* 2^-24: exact */
    uvec4 special = uvec4(0x7f800000u) | mantissa << 13;
    uvec4 bits = mix(normal, small, equal(exponent, uvec4(0)));
    bits = mix(bits, special, equal(exponent, uvec4(31)));
    return uintBitsToFloat(bits | sign);
}

uvec4 rf_to_half(vec4 f)
{
    uvec4 sign = floatBitsToUint(f) >> 16 & 0x8000u, bits = floatBitsToUint(f) & 0x7fffffffu;
    /* Normal halves: move the exponent, round by adding just under half a unit, plus one where the
     * result would be odd. */
    uvec4 normal = min((bits - 0x38000000u + 0xfffu + (bits >> 13 & 1u)) >> 13, uvec4(0x7c00));
    /* Subnormal ones: multiples of 2^-24, which is the unit of 0.75, so that the addition rounds.
     */
    uvec4 small = floatBitsToUint(uintBitsToFloat(bits) + 0.75) - 0x3f400000u;
    uvec4 r = mix(normal, small, lessThan(bits, uvec4(0x38800000u)));
    r = mix(r, uvec4(0x7e00u) | (bits >> 13 & 0x3ffu), greaterThan(bits, uvec4(0x7f800000u)));
    return r | sign;
}

uvec4 rf_to_bfloat(vec4 f)
{
    uvec4 bits = floatBitsToUint(f);
    uvec4 rounded = (bits + 0x7fffu + (bits >> 16 & 1u)) >> 16;
    return mix(rounded, bits >> 16 | 0x40u, greaterThan(bits & 0x7fffffffu, uvec4(0x7f800000u)));
}

/* Four elements, and one that stands in the lower bits. */
vec4 rf_widen(uint type, uvec2 w)
{
    if (RF_TYPE(type) == RF_BF16)
        return uintBitsToFloat(uvec4(w.x << 16, w.x & 0xffff0000u, w.y << 16, w.y & 0xffff0000u));
    if ((type & RF_READS_HALVES) != 0u) return vec4(unpackHalf2x16(w.x), unpackHalf2x16(w.y));
    return rf_from_half(rf_spread(w));
}
float rf_widen_one(uint type, uint h) { return rf_widen(type, uvec2(h, 0)).x; }

uvec2 rf_narrow(uint type, vec4 f)
{
    return rf_gather(RF_TYPE(type) == RF_BF16 ? rf_to_bfloat(f) : rf_to_half(f));
}
#endif
