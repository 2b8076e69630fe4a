#version 450
/* SPDX-License-Identifier: Apache-2.0 */
/* Updates whose slots are in few bits, as src/base/state_form.h has them: RULE 1 momentum, 2 Adam,
 * 6 Lion, as in update.comp. A workgroup has a block of 256 elements, an invocation four of them.
 * -DBYTES: slots are in 8 bits, else in bf16, into which they are rounded up or down by chance.
 * Codes, and numbers that they stand for, follow from products and sums of f32, which all devices
 * round alike. */
#extension GL_GOOGLE_include_directive : require
#include "include/reduction.glsl"
#include "include/scalar_math.glsl"
#include "include/narrow.glsl"
#include "pointwise/common/philox.glsl"

#if RULE == 2
#define SLOTS 2
#else
#define SLOTS 1
#endif
const uint LANES = 64;
layout(constant_id = 1) const uint NESTEROV = 0;
layout(constant_id = 2) const uint SHADOW = 0;
/* Where the first block begins in what is bound: in fours of elements, and in words. `place`: among
 * all parameters, in fours. */
layout(push_constant) uniform Push {
    uint blocks, param_base, grad_base, shadow_base;
    uint slot_base[2];
    uvec2 place;
} p;

layout(std430, binding = 0) buffer Param { vec4 param[]; };
layout(std430, binding = 1) readonly buffer Grad { vec4 grad[]; };
layout(std430, binding = 2) buffer Slot0 { uint slot0[]; };
#if SLOTS == 2
layout(std430, binding = 3) buffer Slot1 { uint slot1[]; };
#endif
layout(std430, binding = SLOTS + 2) writeonly buffer Shadow { uvec2 shadow[]; };
#define HYPER (SLOTS + 3)
#include "pointwise/common/update_rule.glsl"

#ifdef BYTES
const uint BLOCK_WORDS = 65;
shared uvec2 parts[LANES];

/* Magnitude k of the dynamic map, below its last; `positive` is 0 or 1. */
vec4 magnitude_of(uint positive, uvec4 k)
{
    uvec4 q = max(k, uvec4(1)) + positive, e = (floatBitsToUint(vec4(q)) >> 23) - 127u;
    uvec4 d = e - positive;
    vec4 low = mix(mix(vec4(1e-7), vec4(1e-6), equal(d, uvec4(1))), vec4(1e-5), equal(d, uvec4(2)));
    vec4 high = mix(vec4(1e-4), vec4(1e-3), equal(d, uvec4(4)));
    high = mix(high, vec4(1e-2), equal(d, uvec4(5)));
    vec4 decade = mix(mix(low, high, greaterThan(d, uvec4(2))), vec4(1e-1), equal(d, uvec4(6)));
    precise vec4 size = vec4(18u * q + 9u - (uvec4(16) << e)) * decade;
    size = size * uintBitsToFloat((126u - e) << 23);
    size = mix(size, vec4(1), equal(k, uvec4(128u + positive * 127u)));
    return mix(size, vec4(0), equal(k, uvec4(0)));
}

vec4 value_of(uint positive, uint word, float scale)
{
    uvec4 code = uvec4(word) >> uvec4(0, 8, 16, 24) & 255u;
    bvec4 negative = lessThan(code, uvec4(positive != 0u ? 0u : 127u));
    uvec4 k = positive != 0u ? code : mix(code - 127u, 127u - code, negative);
    vec4 size = magnitude_of(positive, k);
    precise vec4 value = mix(size, -size, negative) * scale;
    return value;
}

/* The nearest one: about where it must be, then held against the middles between it and its
 * neighbours. */
uint code_of(uint positive, vec4 x, float scale)
{
    vec4 size = abs(x), y = min(size * (1.0 / scale), vec4(1));
    uvec4 d = uvec4(greaterThanEqual(y, vec4(1e-6))) + uvec4(greaterThanEqual(y, vec4(1e-5))) +
        uvec4(greaterThanEqual(y, vec4(1e-4))) + uvec4(greaterThanEqual(y, vec4(1e-3))) +
        uvec4(greaterThanEqual(y, vec4(1e-2))) + uvec4(greaterThanEqual(y, vec4(1e-1)));
    vec4 low = mix(mix(vec4(1e6), vec4(1e5), equal(d, uvec4(1))), vec4(1e4), equal(d, uvec4(2)));
    vec4 high = mix(mix(vec4(1e3), vec4(1e2), equal(d, uvec4(4))), vec4(1e1), equal(d, uvec4(5)));
    vec4 up = mix(mix(low, high, greaterThan(d, uvec4(2))), vec4(1), equal(d, uvec4(6)));
    uvec4 cells = uvec4(1) << (d + positive);
    vec4 cell = floor((y * up - 0.1) * (vec4(cells) / 0.9));
    uvec4 k = cells - positive + min(uvec4(max(cell, vec4(0))), cells - 1u);
    vec4 here = magnitude_of(positive, k);
    precise vec4 below = 0.5 * (magnitude_of(positive, k - 1u) + here);
    precise vec4 above = 0.5 * (here + magnitude_of(positive, k + 1u));
    below = below * scale;
    above = above * scale;
    k = k + uvec4(greaterThan(size, above)) - uvec4(lessThanEqual(size, below));
    uvec4 code = positive != 0u ? k :
        mix(127u + k, 127u - min(k, uvec4(127)), lessThan(x, vec4(0)));
    return code.x | code.y << 8 | code.z << 16 | code.w << 24;
}

/* Bits of magnitudes are in their order, those of NaN above all. */
uint largest_of(vec4 x)
{
    uvec4 size = floatBitsToUint(x) & 0x7fffffffu;
    return max(max(size.x, size.y), max(size.z, size.w));
}

/* The scale of a block is its greatest magnitude; 0 where that is below RF_STATE_LEAST. */
uint scale_of(uint largest)
{
    return largest >= 0x7f800000u ? 0x7fc00000u : largest < 0x0d800000u ? 0u : largest;
}

uint codes_of(uint positive, vec4 x, uint scale)
{
    return scale == 0u || scale == 0x7fc00000u ? 0u : code_of(positive, x, uintBitsToFloat(scale));
}

/* The largest ones of all invocations of the workgroup. */
uvec2 gather_largest(uvec2 largest)
{
    uint lane = gl_LocalInvocationID.x;
    parts[lane] = largest;
    barrier();
    if (lane < 8) {
        for (uint i = 8; i < LANES; i += 8) largest = max(largest, parts[lane + i]);
        parts[lane] = largest;
    }
    barrier();
    for (uint i = 0; i < 8; i++) largest = max(largest, parts[i]);
    return largest;
}
#else
const uint BLOCK_WORDS = 128;

vec4 value_of(uvec2 words)
{
    return uintBitsToFloat(
        uvec4(words.x << 16, words.x & 0xffff0000u, words.y << 16, words.y & 0xffff0000u));
}

/* `chance` has 16 bits: how often of 65536 times a number is rounded away from 0 is its distance
 * from the one below. Devices disagree about denormal numbers, which become 0, and about the sign
 * of NaN. */
uvec2 round_to_bf16(vec4 x, uvec4 chance)
{
    uvec4 bits = floatBitsToUint(x), size = bits & 0x7fffffffu;
    uvec4 rounded = (bits + mix(chance, uvec4(0), equal(size, uvec4(0x7f800000u)))) >> 16;
    rounded = mix(rounded, uvec4(0), lessThan(size, uvec4(0x00800000u)));
    return rf_gather(mix(rounded, uvec4(0x7fc0u), greaterThan(size, uvec4(0x7f800000u))));
}
#endif

void main()
{
    uint block = rf_group(), lane = gl_LocalInvocationID.x;
    if (block >= p.blocks || SKIPS) return; /* all of the workgroup */
    uint at = block * LANES + lane;
    vec4 x = param[p.param_base + at], a, b = vec4(0);
    uint first0 = p.slot_base[0] + block * BLOCK_WORDS;
    uint first1 = p.slot_base[1] + block * BLOCK_WORDS;
#ifdef BYTES
    a = value_of(0u, slot0[first0 + lane], uintBitsToFloat(slot0[first0 + LANES]));
#if SLOTS == 2
    b = value_of(1u, slot1[first1 + lane], uintBitsToFloat(slot1[first1 + LANES]));
#endif
#else
    first0 += 2 * lane;
    first1 += 2 * lane;
    a = value_of(uvec2(slot0[first0], slot0[first0 + 1]));
#if SLOTS == 2
    b = value_of(uvec2(slot1[first1], slot1[first1 + 1]));
#endif
#endif
    update(x, grad[p.grad_base + at], a, b);
    param[p.param_base + at] = x;
    if (SHADOW != 0u) shadow[p.shadow_base + at] = rf_narrow(SHADOW, x);
#ifdef BYTES
    uvec2 largest = gather_largest(uvec2(largest_of(a), largest_of(b)));
    uint scale = scale_of(largest.x);
    slot0[first0 + lane] = codes_of(0u, a, scale);
    if (lane == 0) slot0[first0 + LANES] = scale;
#if SLOTS == 2
    scale = scale_of(largest.y);
    slot1[first1 + lane] = codes_of(1u, b, scale);
    if (lane == 0) slot1[first1 + LANES] = scale;
#endif
#else
    uint carry, low = uaddCarry(p.place.x, at, carry);
    uvec4 random = rf_philox(uvec2(0x52494e47u, 0x46495245u), uvec4(low, p.place.y + carry,
        uint(h.step_number), 0u));
    uvec2 words = round_to_bf16(a, random & 0xffffu);
    slot0[first0] = words.x;
    slot0[first0 + 1] = words.y;
#if SLOTS == 2
    words = round_to_bf16(b, random >> 16);
    slot1[first1] = words.x;
    slot1[first1 + 1] = words.y;
#endif
#endif
}
