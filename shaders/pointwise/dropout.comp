#version 450
/* SPDX-License-Identifier: Apache-2.0 */
/* UNIFORM: y is the number's 23 upper bits, in the middle of steps of 2^-23 between 0 and 1. Else:
 * y = x * scale where the element's random number says "keep", else 0. The number is word (position & 3) of the Philox
 * block (position >> 2), position being the element's place in the global batch. An invocation handles one block of four
 * elements; ALIGNED says that blocks start at multiples of four elements, which may then be stored in 16 bits. */
#extension GL_GOOGLE_include_directive : require
#define W 4
#include "include/wide.glsl"
#include "include/philox.glsl"

layout(constant_id = 1) const uint ALIGNED = 0;
#define RF_TYPES_ID 2
#include "include/stored.glsl"
layout(push_constant) uniform Push {
    uint count, start_low, start_high; /* of this dispatch's elements within the replica's tensor */
    uint per_example, threshold, stream;
    float scale;
    uint seed_low, seed_high; /* both 0: the seed of the host value */
} p;
#ifdef UNIFORM
#define FIRST 0
vec4 result4(uint t, uvec4 bits) { return (vec4(bits >> 9) + 0.5) * 1.1920929e-7; }
float result(uint at, uint bits) { return (float(bits >> 9) + 0.5) * 1.1920929e-7; }
#else
#define FIRST 1
RF_STORED4(0, x, readonly)
layout(std430, binding = 0) readonly buffer InS { float xs[]; };
vec4 result4(uint t, uvec4 bits)
{
    return mix(vec4(0), RF_LOAD4(0, x, t) * p.scale, greaterThanEqual(bits >> 8, uvec4(p.threshold)));
}
float result(uint at, uint bits) { return bits >> 8 >= p.threshold ? xs[at] * p.scale : 0.0; }
#endif
layout(std430, binding = FIRST) readonly buffer Random { uint random[]; };
RF_STORED4(FIRST + 1, y, writeonly)
layout(std430, binding = FIRST + 1) writeonly buffer OutS { float ys[]; };

void main()
{
    uint t = rf_invocation();
    /* Position of element 0, 64 bits. */
    uint high, low, carry;
    umulExtended(random[4], p.per_example, high, low);
    low = uaddCarry(low, p.start_low, carry);
    high += p.start_high + carry;
    uint ahead = ALIGNED != 0u ? 0u : low & 3u; /* elements of the first block that are not ours */
    /* Block number, 64 bits. */
    uint block_high = high >> 2;
    uint block = uaddCarry(low >> 2 | high << 30, t, carry);
    block_high += carry;

    uvec2 seed = (p.seed_low | p.seed_high) != 0u ? uvec2(p.seed_low, p.seed_high) : uvec2(random[0], random[1]);
    uvec4 bits = rf_philox(uvec2(seed.x, seed.y ^ random[3]), uvec4(block, block_high, random[2], p.stream));
    uint at = t * 4 - ahead; /* wraps around below 0: not < count then */
    if (ALIGNED != 0u) {
        if (at + 3 < p.count) RF_STORE4(FIRST + 1, y, t, result4(t, bits))
    } else {
        if (at < p.count) ys[at] = result(at, bits.x);
        if (at + 1 < p.count) ys[at + 1] = result(at + 1, bits.y);
        if (at + 2 < p.count) ys[at + 2] = result(at + 2, bits.z);
        if (at + 3 < p.count) ys[at + 3] = result(at + 3, bits.w);
    }
}
