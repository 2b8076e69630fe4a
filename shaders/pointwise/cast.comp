#version 450
/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Converts between f32, f16, bf16, i32 and u8, four elements an invocation. Small types are packed in words here, so no
 * 8 or 16 bit storage is needed; conversions to f16 and bf16 round to the nearest even number in integer arithmetic, because
 * packHalf2x16 may round as the driver likes. Types are numbered as rf_dtype.
 */
#extension GL_GOOGLE_include_directive : require
#define W 1
#include "include/wide.glsl"

layout(constant_id = 1) const uint FROM = 1;
layout(constant_id = 2) const uint TO = 1;
#define F32 1u
#define F16 2u
#define BF16 3u
#define I32 4u
#define U8 5u
layout(push_constant) uniform Push { uint count; } p;
layout(std430, binding = 0) readonly buffer In4 { uvec4 x4[]; };
layout(std430, binding = 0) readonly buffer In2 { uvec2 x2[]; };
layout(std430, binding = 0) readonly buffer In1 { uint x1[]; };
layout(std430, binding = 1) buffer Out4 { uvec4 y4[]; };
layout(std430, binding = 1) buffer Out2 { uvec2 y2[]; };
layout(std430, binding = 1) buffer Out1 { uint y1[]; };

/* Both of the pair's 16 bits in each of four words. */
uvec4 spread(uvec2 w) { return uvec4(w.x & 0xffffu, w.x >> 16, w.y & 0xffffu, w.y >> 16); }
uvec2 gather(uvec4 h) { return uvec2(h.x | h.y << 16, h.z | h.w << 16); }

vec4 from_half(uvec4 h)
{
    uvec4 sign = (h & 0x8000u) << 16, exponent = h >> 10 & 31u, mantissa = h & 1023u;
    uvec4 normal = (exponent + 112u) << 23 | mantissa << 13;
    uvec4 small = floatBitsToUint(vec4(mantissa) * 5.9604644775390625e-8); /* 2^-24: exact */
    uvec4 special = uvec4(0x7f800000u) | mantissa << 13;
    uvec4 bits = mix(normal, small, equal(exponent, uvec4(0)));
    bits = mix(bits, special, equal(exponent, uvec4(31)));
    return uintBitsToFloat(bits | sign);
}

uvec4 to_half(vec4 f)
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

uvec4 to_bfloat(vec4 f)
{
    uvec4 bits = floatBitsToUint(f);
    uvec4 rounded = (bits + 0x7fffu + (bits >> 16 & 1u)) >> 16;
    return mix(rounded, bits >> 16 | 0x40u, greaterThan(bits & 0x7fffffffu, uvec4(0x7f800000u)));
}

/* As C, but saturating; NaN becomes 0. */
ivec4 to_int(vec4 f)
{
    bvec4 high = greaterThanEqual(f, vec4(2147483648.0)), low = lessThan(f, vec4(-2147483648.0));
    bvec4 usual = lessThan(abs(f), vec4(2147483648.0));
    ivec4 r = ivec4(mix(vec4(0), f, usual));
    r = mix(r, ivec4(0x7fffffff), high);
    return mix(r, ivec4(0x80000000), mix(low, bvec4(true), equal(f, vec4(-2147483648.0))));
}

void main()
{
    uint t = rf_invocation();
    if (t * 4 >= p.count) return;
    uint left = min(p.count - t * 4, 4u);

    /* Words of the last group that do not exist are not read. */
    vec4 f = vec4(0);
    ivec4 i = ivec4(0);
    if (FROM == F32 || FROM == I32) {
        uvec4 w = uvec4(0);
        if (left == 4u) {
            w = x4[t];
        } else {
            w.x = x1[t * 4];
            if (left > 1u) w.y = x1[t * 4 + 1];
            if (left > 2u) w.z = x1[t * 4 + 2];
        }
        f = uintBitsToFloat(w);
        i = ivec4(w);
    }
    if (FROM == F16 || FROM == BF16) {
        uvec2 w = uvec2(0);
        if (left > 2u) w = x2[t];
        else w.x = x1[t * 2];
        if (FROM == F16) f = from_half(spread(w));
        else f = uintBitsToFloat(spread(w) << 16);
    }
    if (FROM == U8) {
        uint w = x1[t];
        i = ivec4(w & 255u, w >> 8 & 255u, w >> 16 & 255u, w >> 24);
    }

    if (FROM == I32 || FROM == U8) f = vec4(i);
    else if (TO == I32 || TO == U8) i = to_int(f);

    if (TO == F32 || TO == I32) {
        uvec4 w = TO == F32 ? floatBitsToUint(f) : uvec4(i);
        if (left == 4u) {
            y4[t] = w;
        } else {
            y1[t * 4] = w.x;
            if (left > 1u) y1[t * 4 + 1] = w.y;
            if (left > 2u) y1[t * 4 + 2] = w.z;
        }
    }
    /* A word that is only partly the tensor's keeps its other bytes. */
    if (TO == F16 || TO == BF16) {
        uvec2 w = gather(TO == F16 ? to_half(f) : to_bfloat(f));
        if (left == 4u) {
            y2[t] = w;
        } else {
            y1[t * 2] = left > 1u ? w.x : (y1[t * 2] & 0xffff0000u) | (w.x & 0xffffu);
            if (left > 2u) y1[t * 2 + 1] = (y1[t * 2 + 1] & 0xffff0000u) | (w.y & 0xffffu);
        }
    }
    if (TO == U8) {
        uvec4 b = uvec4(clamp(i, ivec4(0), ivec4(255)));
        uint w = b.x | b.y << 8 | b.z << 16 | b.w << 24;
        if (left < 4u) {
            uint mask = (1u << (8u * left)) - 1u;
            w = (y1[t] & ~mask) | (w & mask);
        }
        y1[t] = w;
    }
}
