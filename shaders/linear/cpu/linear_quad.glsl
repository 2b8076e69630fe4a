/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Common to the matrix kernels whose subgroup is one quad, made for drivers that keep SIMD
 * registers of four (SwiftShader):
 *   ROWS    rows of the tile that a workgroup computes, a multiple of 4 (16 where rows are read by
 *           fours)
 *   GROUPS  columns of the tile / 16: each lane owns 4 neighbouring columns per group
 * Such a driver spends a dozen instructions on a broadcast or on each float of a load, but a single
 * one on the exchange of values between neighbours of a quad. So rows are not handed round:
 * exchange x gives lane l the value of lane l ^ x, and accumulator [x] of lane l belongs to the row
 * that lane l ^ x has loaded. Accumulators pass through memory at every turn of a loop, hence one
 * flat loop that takes STEP summands at a time. All indices are constants once loops are unrolled.
 */
#ifndef LINEAR_QUAD_GLSL
#define LINEAR_QUAD_GLSL
#extension GL_EXT_control_flow_attributes : require
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_quad : require

#ifdef SCALAR_A
layout(std430, binding = 0) readonly buffer OperandA { float operand_a[]; };
#else
layout(std430, binding = 0) readonly buffer OperandA { vec4 operand_a[]; };
#endif
layout(std430, binding = 1) readonly buffer OperandB { vec4 operand_b[]; };

layout(local_size_x_id = 0) in;

#define EXCHANGE(value, x)                                                                         \
    ((x) == 0 ? (value)                                                                            \
     : (x) == 1 ? subgroupQuadSwapHorizontal(value)                                                \
     : (x) == 2 ? subgroupQuadSwapVertical(value)                                                  \
                : subgroupQuadSwapDiagonal(value))

/* sum += a[q] * b[q] for STEP of them, which the shader chooses, written out as in
 * products.glsl. */
#define ADD_3(sum, a, b)                                                                           \
    sum += a[0] * b[0];                                                                            \
    sum += a[1] * b[1];                                                                            \
    sum += a[2] * b[2];
#define ADD_4(sum, a, b)                                                                           \
    ADD_3(sum, a, b)                                                                               \
    sum += a[3] * b[3];
#define ADD_8(sum, a, b)                                                                           \
    ADD_4(sum, a, b)                                                                               \
    sum += a[4] * b[4];                                                                            \
    sum += a[5] * b[5];                                                                            \
    sum += a[6] * b[6];                                                                            \
    sum += a[7] * b[7];

/* sums[row][exchange][group][i] += products of to[q] (b of one group) with a[row][exchange][q]. */
#define MULTIPLY(sums, rows, a, b, g)                                                              \
    [[unroll]] for (int i = 0; i < 4; i++) [[unroll]] for (int r = 0; r < (rows); r++)             \
        [[unroll]] for (int x = 0; x < 4; x++) {                                                   \
            ADD_STEP(sums[r][x][g][i], a[r][x], b[i])                                              \
        }

/* Activations that cost one instruction; the rest are applied in a pass of their own, or each
 * store would carry them all. */
#define CHEAP_ACTIVATION(x) (ACTIVATION == 1 ? rf_relu(x) : (x))

#endif
