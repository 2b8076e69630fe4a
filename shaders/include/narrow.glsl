/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Elements of 16 bits, four in two words, so that no 16 bit storage is needed; all arithmetic is in f32. A type is a number of rf_dtype,
 * with what the driver converts itself added (src/ops/kit.h): packHalf2x16 may round as the driver likes, and both may flush small
 * numbers to zero, so elsewhere that is integer arithmetic. Results are rounded to the nearest even number.
 */
#ifndef RF_NARROW_GLSL
#define RF_NARROW_GLSL

#define RF_F32 1u
#define RF_F16 2u
#define RF_BF16 3u
#define RF_TYPE(word) ((word) & 7u)
#define RF_READS_HALVES 8u
#define RF_WRITES_HALVES 16u

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
    uvec4 bits = floatBitsToUint(f), sign = bits >> 16 & 0x8000u;
    bits &= 0x7fffffffu;
    /* Normal halves: move the exponent, round by adding just under half a unit, plus one where the result would be odd. */
    uvec4 normal = (bits - 0x38000000u + 0xfffu + (bits >> 13 & 1u)) >> 13;
    /* Subnormal ones: the significand with its hidden bit, shifted right by 14 to 24 with the same rounding. */
    uvec4 shift = min(uvec4(126) - min(bits >> 23, uvec4(126)), uvec4(25));
    uvec4 significand = (bits & 0x7fffffu) | 0x800000u;
    uvec4 kept = significand >> shift;
    uvec4 rest = significand - (kept << shift), tie = uvec4(1) << (shift - 1u);
    bvec4 up = greaterThan(rest + (kept & 1u), tie);
    uvec4 small = kept + mix(uvec4(0), uvec4(1), up);
    uvec4 r = mix(normal, small, lessThan(bits, uvec4(0x38800000u)));
    r = mix(r, uvec4(0x7c00u), greaterThanEqual(bits, uvec4(0x477ff000u)));
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
    if (RF_TYPE(type) == RF_BF16) return uintBitsToFloat(uvec4(w.x << 16, w.x & 0xffff0000u, w.y << 16, w.y & 0xffff0000u));
    if ((type & RF_READS_HALVES) != 0u) return vec4(unpackHalf2x16(w.x), unpackHalf2x16(w.y));
    return rf_from_half(rf_spread(w));
}
float rf_widen_one(uint type, uint h) { return rf_widen(type, uvec2(h, 0)).x; }

uvec2 rf_narrow(uint type, vec4 f)
{
    if (RF_TYPE(type) == RF_BF16) return rf_gather(rf_to_bfloat(f));
    if ((type & RF_WRITES_HALVES) != 0u) return uvec2(packHalf2x16(f.xy), packHalf2x16(f.zw));
    return rf_gather(rf_to_half(f));
}
#endif
