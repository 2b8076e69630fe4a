#version 450
/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Converts between f32, f16, bf16, i32 and u8, four elements an invocation. Small types are packed
 * in words here, so no 8 or 16 bit storage is needed. Types are numbered as in include/narrow.glsl.
 */
#extension GL_GOOGLE_include_directive : require
#define W 1
#include "include/wide.glsl"
#include "include/narrow.glsl"

layout(constant_id = 1) const uint FROM_WORD = 1;
layout(constant_id = 2) const uint TO_WORD = 1;
const uint FROM = RF_TYPE(FROM_WORD), TO = RF_TYPE(TO_WORD);
#define F32 RF_F32
#define F16 RF_F16
#define BF16 RF_BF16
#define I32 4u
#define U8 5u
layout(push_constant) uniform Push { uint count; } p;
layout(std430, binding = 0) readonly buffer In4 { uvec4 x4[]; };
layout(std430, binding = 0) readonly buffer In2 { uvec2 x2[]; };
layout(std430, binding = 0) readonly buffer In1 { uint x1[]; };
layout(std430, binding = 1) buffer Out4 { uvec4 y4[]; };
layout(std430, binding = 1) buffer Out2 { uvec2 y2[]; };
layout(std430, binding = 1) buffer Out1 { uint y1[]; };

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
        f = rf_widen(FROM_WORD, w);
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
        uvec2 w = rf_narrow(TO_WORD, f);
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
