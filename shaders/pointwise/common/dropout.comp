#version 450
/* SPDX-License-Identifier: Apache-2.0 */
/* UNIFORM: y is the number's 23 upper bits, in the middle of steps of 2^-23 between 0 and 1. Else:
 * y = x * scale where the element's random number says "keep", else 0. The number is word (position
 * & 3) of the Philox block (position >> 2), position being the element's place in the global batch,
 * counted as if the batch were the first dimension. An invocation handles one block of four
 * elements; ALIGNED says that blocks start at multiples of four elements, which may then be stored
 * in 16 bits. SCATTERED: the batch is another dimension, so that positions jump from row to row;
 * where they are not ALIGNED an invocation handles one element. */
#extension GL_GOOGLE_include_directive : require
#define W 4
#include "include/wide.glsl"
#include "philox.glsl"

layout(constant_id = 1) const uint ALIGNED = 0;
#define RF_TYPES_ID 2
#include "include/stored.glsl"
layout(constant_id = 3) const uint SCATTERED = 0;
layout(push_constant) uniform Push {
    uint count, start_low, start_high; /* of this dispatch's elements within the replica's tensor */
    uint per_example, threshold, stream;
    float scale;
    uint seed_low, seed_high; /* both 0: the seed of the host value */
    /* SCATTERED: rows of `inner` elements, `examples` of them for each place before the batch; the
     * first element's place */
    uint inner, examples, outer_at, example_at, inner_at;
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
    return mix(vec4(0), RF_LOAD4(0, x, t) * p.scale,
        greaterThanEqual(bits >> 8, uvec4(p.threshold)));
}
float result(uint at, uint bits) { return bits >> 8 >= p.threshold ? xs[at] * p.scale : 0.0; }
#endif
layout(std430, binding = FIRST) readonly buffer Random { uint random[]; };
RF_STORED4(FIRST + 1, y, writeonly)
layout(std430, binding = FIRST + 1) writeonly buffer OutS { float ys[]; };

/* The position of element t of this dispatch, 64 bits: (high, low). */
uvec2 position_of(uint t)
{
    uint high, low, carry;
    if (SCATTERED == 0u) {
        umulExtended(random[4], p.per_example, high, low);
        low = uaddCarry(low, p.start_low, carry);
        high += p.start_high + carry;
        low = uaddCarry(low, t, carry);
        return uvec2(high + carry, low);
    }
    uint i = p.inner_at + t, example = p.example_at + i / p.inner,
        outer = p.outer_at + example / p.examples;
    umulExtended(random[4] + example % p.examples, p.per_example, high, low);
    low = uaddCarry(low, outer * p.inner + i % p.inner, carry);
    return uvec2(high + carry, low);
}

uvec4 random_block(uvec2 position)
{
    uvec2 seed = (p.seed_low | p.seed_high) != 0u ? uvec2(p.seed_low, p.seed_high) :
        uvec2(random[0], random[1]);
    return rf_philox(uvec2(seed.x, seed.y ^ random[3]),
                     uvec4(position.y >> 2 | position.x << 30, position.x >> 2, random[2],
                         p.stream));
}

void main()
{
    uint t = rf_invocation();
    if (ALIGNED != 0u) {
        uvec4 bits = random_block(position_of(t * 4));
        if (t * 4 + 3 < p.count) RF_STORE4(FIRST + 1, y, t, result4(t, bits))
    } else if (SCATTERED != 0u) {
        uvec2 position = position_of(t);
        uvec4 bits = random_block(position);
        if (t < p.count) ys[t] = result(t, bits[position.y & 3u]);
    } else {
        uint ahead = position_of(0).y & 3u; /* elements of the first block that are not ours */
        uint at = t * 4 - ahead;            /* wraps around below 0: not < count then */
        uvec4 bits = random_block(position_of(t * 4 - (t > 0u ? ahead : 0u)));
        if (at < p.count) ys[at] = result(at, bits.x);
        if (at + 1 < p.count) ys[at + 1] = result(at + 1, bits.y);
        if (at + 2 < p.count) ys[at + 2] = result(at + 2, bits.z);
        if (at + 3 < p.count) ys[at + 3] = result(at + 3, bits.w);
    }
}
