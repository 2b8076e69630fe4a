/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Common to the matrix kernels made for drivers that run one subgroup as the lanes of a SIMD
 * register (build variants):
 *   LANES   lanes of a subgroup; a workgroup is exactly one subgroup. Not defined: as many as the
 *           workgroup has, four or eight, and ROW_LANES is defined
 *   SUMS    rows of the tile that a lane has, a multiple of ROW_LANES
 *   GROUPS  columns of the tile / (4 * ROW_LANES): each lane owns 4 neighbouring columns per group
 *   ROW_LANES lanes that a row's columns lie along, all of them unless said otherwise; where they
 *           are fewer, rows that follow each other lie side by side in a register, so that few
 *           columns leave no lane idle (needs SHUFFLE)
 *   TEXEL   operands are read through uniform texel buffers instead of storage buffers
 *   SHUFFLE values are handed from lane to lane by shuffles instead of broadcasts
 * Which of them is fast differs from driver to driver and is found by measurement.
 */
#include "products.glsl"
#extension GL_EXT_control_flow_attributes : require
#extension GL_KHR_shader_subgroup_basic : require
#ifdef SHUFFLE
#extension GL_KHR_shader_subgroup_shuffle : require
#define FROM_LANE(value, lane) subgroupShuffle(value, uint(lane))
#else
#extension GL_KHR_shader_subgroup_ballot : require
#define FROM_LANE(value, lane) subgroupBroadcast(value, uint(lane))
#endif

#ifdef TEXEL
layout(binding = 0) uniform samplerBuffer operand_a;
layout(binding = 1) uniform samplerBuffer operand_b;
#define LOAD_A(i) texelFetch(operand_a, i)
#define LOAD_A_SCALAR(i) texelFetch(operand_a, i).x
#define LOAD_B(i) texelFetch(operand_b, i)
#else
#ifdef SCALAR_A
layout(std430, binding = 0) readonly buffer OperandA { float operand_a[]; };
#else
layout(std430, binding = 0) readonly buffer OperandA { vec4 operand_a[]; };
#endif
layout(std430, binding = 1) readonly buffer OperandB { vec4 operand_b[]; };
#define LOAD_A(i) operand_a[i]
#define LOAD_A_SCALAR(i) operand_a[i]
#define LOAD_B(i) operand_b[i]
#endif

layout(local_size_x_id = 0) in;

#ifdef ROW_LANES
#define ABREAST
#else
#define ROW_LANES LANES
#endif
#ifndef LANES
#define LANES int(gl_WorkGroupSize.x)
#endif
#define ROWS (SUMS * (LANES / ROW_LANES)) /* of the tile */
/* Rows lie along the lanes, too: so many for each lane, and where those of sum i stand. */
#define ROW_GROUPS (SUMS / ROW_LANES)
#define ROW_GROUP(i) ((i) / ROW_LANES)
#if defined(SHUFFLE) && (defined(ABREAST) || GROUPS > 1 || defined(CROSSWISE))
/* Not one row for all lanes: lanes beside each other have different rows at each sum, until each
 * had all of them. To exchange values within 128 bits is one instruction; to give one of them to
 * all lanes takes two, which wait for multiplications. */
#define ROW_LANE(i) (gl_SubgroupInvocationID ^ uint((i) % ROW_LANES))
#define ROWS_EXCHANGED 1
#else
/* The factors of one group of columns just fit in 32 registers; exchanged values, which live
 * longer, are too many beside them. */
#define ROW_LANE(i) ((i) % LANES)
#define ROWS_EXCHANGED 0
#endif

/* Loads of b at two places: OF(0) to `first` and OF(1) to `second`, where OF takes which of them
 * a lane asks for. Where two rows lie abreast each half of the lanes loads one of them for both. */
#ifdef ABREAST
#define LOAD_B_TWICE(first, second, OF)                                                            \
    {                                                                                              \
        if (LANES == ROW_LANES * 2) {                                                              \
            uint place = gl_SubgroupInvocationID % uint(ROW_LANES);                                \
            vec4 both = LOAD_B(OF(int(gl_SubgroupInvocationID / uint(ROW_LANES))));                \
            first = FROM_LANE(both, place);                                                        \
            second = FROM_LANE(both, place + uint(ROW_LANES));                                     \
        } else {                                                                                   \
            first = LOAD_B(OF(0));                                                                 \
            second = LOAD_B(OF(1));                                                                \
        }                                                                                          \
    }
#else
#define LOAD_B_TWICE(first, second, OF)                                                            \
    {                                                                                              \
        first = LOAD_B(OF(0));                                                                     \
        second = LOAD_B(OF(1));                                                                    \
    }
#endif

/* The end of lanes_gather.comp takes a few sums of a lane in each turn of a loop. Written out
 * for all of them it was half of what the driver's compiler has to do for the whole kernel, and
 * three quarters of what it does when it knows the kernel from before. */
#define SUMS_OF_TURN 4
#define END_TURNS (SUMS / SUMS_OF_TURN)
/* value = OF(i) for sum i, the r-th of this turn. */
#define TAKE_OF_TURN(value, turn, r, OF)                                                           \
    value = OF(r);                                                                                 \
    [[unroll]] for (int t = 1; t < END_TURNS; t++)                                                 \
        value = turn == t ? OF(t * SUMS_OF_TURN + (r)) : value;
