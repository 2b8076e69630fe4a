/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Common to the matrix kernels made for drivers that run one subgroup as the lanes of a SIMD register (build variants):
 *   LANES   lanes of a subgroup; a workgroup is exactly one subgroup
 *   ROWS    rows of the tile that a workgroup keeps in registers, a multiple of LANES
 *   GROUPS  columns of the tile / (4 * LANES): each lane owns 4 neighbouring columns per group
 *   TEXEL   operands are read through uniform texel buffers instead of storage buffers
 *   SHUFFLE values are handed from lane to lane by shuffles instead of broadcasts
 * Which of them is fast differs from driver to driver and is found by measurement.
 */
#include "include/products.glsl"
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
