/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Products of 32 summands and 32 columns where a subgroup is a quad, for drivers that keep SIMD
 * registers of four (SwiftShader). A lane holds eight columns of one operand, and a turn of the
 * loop takes a row of the other. Such a driver takes about 45 instructions for each float of a load
 * or store by four lanes, and what passes through a loop is stored at every turn; what does not
 * change in it costs nothing there, sums that begin and end in a turn stay in registers, and the
 * turn's code fits the processor's first cache, which counts more than how many instructions it
 * has.
 */
#ifndef LINEAR_HELD_GLSL
#define LINEAR_HELD_GLSL
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_quad : require

#define SUMMANDS 32

struct Eight {
    vec4 low, high;
};

/* sum of eight columns += value of a summand that another lane has * held. Written out by
 * components: a product of a vector is four values at once, more than there are registers for. */
#define ADD_HELD(EXCHANGE, value, by)                                                              \
    {                                                                                              \
        float s = EXCHANGE(value);                                                                 \
        low.x += held[by].low.x * s;                                                               \
        low.y += held[by].low.y * s;                                                               \
        low.z += held[by].low.z * s;                                                               \
        low.w += held[by].low.w * s;                                                               \
        high.x += held[by].high.x * s;                                                             \
        high.y += held[by].high.y * s;                                                             \
        high.z += held[by].high.z * s;                                                             \
        high.w += held[by].high.w * s;                                                             \
    }
#define ADD_EIGHT_HELD(EXCHANGE, value_low, value_high, first)                                     \
    ADD_HELD(EXCHANGE, value_low.x, first)                                                         \
    ADD_HELD(EXCHANGE, value_low.y, first + 1)                                                     \
    ADD_HELD(EXCHANGE, value_low.z, first + 2)                                                     \
    ADD_HELD(EXCHANGE, value_low.w, first + 3)                                                     \
    ADD_HELD(EXCHANGE, value_high.x, first + 4)                                                    \
    ADD_HELD(EXCHANGE, value_high.y, first + 5)                                                    \
    ADD_HELD(EXCHANGE, value_high.z, first + 6)                                                    \
    ADD_HELD(EXCHANGE, value_high.w, first + 7)

/* Lane l has loaded eight of the 32 summands of a row, from 8 l on, and gets those of lane l ^ x
 * by exchange x: held[x * 8 + i] of lane l belongs to summand HELD_SUMMAND. */
#define SAME(value) subgroupQuadSwapHorizontal(subgroupQuadSwapHorizontal(value))
#define HELD_SUMMAND(i) ((lane ^ (i) >> 3) * 8 + ((i) & 7))
#define ADD_ROW_HELD(value_low, value_high)                                                        \
    ADD_EIGHT_HELD(SAME, value_low, value_high, 0)                                                 \
    ADD_EIGHT_HELD(subgroupQuadSwapHorizontal, value_low, value_high, 8)                           \
    ADD_EIGHT_HELD(subgroupQuadSwapVertical, value_low, value_high, 16)                            \
    ADD_EIGHT_HELD(subgroupQuadSwapDiagonal, value_low, value_high, 24)

#endif
