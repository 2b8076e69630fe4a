/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Matrices in 8 and 4 bits, as src/base/quantize.h lays them out: lines of whole blocks, of which
 * every four neighbours are one word, or half of the bits of one. Fours are numbered through all
 * lines. The including shader defines QUANTIZED_ID, the number of the constant that says which kind
 * it is.
 */
#ifndef RF_QUANTIZED_GLSL
#define RF_QUANTIZED_GLSL
#include "narrow.glsl"

#define RF_INT8 1u
#define RF_NF4 2u
#define RF_Q4_0 3u
layout(constant_id = QUANTIZED_ID) const uint KIND = RF_INT8;

/* Where a four is: the word of its codes, how far these are shifted there, and its block. */
uint quantized_word(uint four)
{
    return KIND == RF_INT8 ? four : (four >> 3) * 4u + (four & 3u);
}
uint quantized_shift(uint four) { return KIND == RF_INT8 ? 0u : four & 4u; }
uint quantized_block(uint four) { return KIND == RF_NF4 ? four >> 4 : four >> 3; }

float quantized_scale(uint pair, uint block)
{
    return rf_widen_one(RF_F16, (block & 1u) == 0u ? pair & 0xffffu : pair >> 16);
}

/* The levels of NF4: a tree of choices, because tables cost software a load for each number, and
 * GPUs a place in memory. */
#define NF4_OF(bit, low, high) mix(low, high, notEqual(codes & bit, uvec4(0)))
vec4 nf4_levels(uvec4 codes)
{
    vec4 a = NF4_OF(1u, vec4(-1.0), vec4(-0.6961928009986877));
    vec4 b = NF4_OF(1u, vec4(-0.5250730514526367), vec4(-0.39491748809814453));
    vec4 c = NF4_OF(1u, vec4(-0.28444138169288635), vec4(-0.18477343022823334));
    vec4 d = NF4_OF(1u, vec4(-0.09105003625154495), vec4(0.0));
    vec4 e = NF4_OF(1u, vec4(0.07958029955625534), vec4(0.16093020141124725));
    vec4 f = NF4_OF(1u, vec4(0.24611230194568634), vec4(0.33791524171829224));
    vec4 g = NF4_OF(1u, vec4(0.44070982933044434), vec4(0.5626170039176941));
    vec4 h = NF4_OF(1u, vec4(0.7229568362236023), vec4(1.0));
    a = NF4_OF(2u, a, b);
    c = NF4_OF(2u, c, d);
    e = NF4_OF(2u, e, f);
    g = NF4_OF(2u, g, h);
    a = NF4_OF(4u, a, c);
    e = NF4_OF(4u, e, g);
    return NF4_OF(8u, a, e);
}

/* Four numbers, of the word of their codes. */
vec4 quantized_four(uint word, uint shift, float scale)
{
    if (KIND == RF_INT8) {
        int w = int(word);
        return vec4(ivec4(w << 24 >> 24, w << 16 >> 24, w << 8 >> 24, w >> 24)) * scale;
    }
    uvec4 codes = uvec4(word, word >> 8, word >> 16, word >> 24) >> shift & 15u;
    if (KIND == RF_NF4) return nf4_levels(codes) * scale;
    return (vec4(codes) - 8.0) * scale;
}

#endif
