// SPDX-License-Identifier: Apache-2.0
// Sums of squares over blocks of BLOCK elements; -DLAMB: of parameters and of LAMB's step. A
// workgroup of LANES sums one block:
// each lane what stands LANES apart, a tree in shared memory the sums of the lanes. Both sizes are
// fixed, and `precise`
// keeps the compiler from contracting, so that the order of additions is the same everywhere.
#version 450
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#include "include/reduction.glsl"

const uint BLOCK = 1024, LANES = 64;

#ifdef LAMB
#define SUM vec2
layout(std430, binding = 0) readonly buffer Param { float param[]; };
layout(std430, binding = 1) readonly buffer M { float m[]; };
layout(std430, binding = 2) readonly buffer V { float v[]; };
layout(std430, binding = 3) readonly buffer Hyper {
    float rate, grad_scale, clip_value, weight_decay, beta_1, beta_2, correction_1, correction_2,
        epsilon;
} h;
layout(std430, binding = 4) writeonly buffer Sums { float sums[]; };
// Where the first element of each tensor stands in what is bound.
layout(push_constant) uniform Push { uint count, blocks, sums_base, param_base, m_base, v_base; };

SUM squares(uint at)
{
    const float x = param[param_base + at];
    // As in update.comp.
    precise float u = (m[m_base + at] * h.correction_1) /
        (sqrt(v[v_base + at] * h.correction_2) + h.epsilon) +
                      h.weight_decay * x;
    precise SUM both = vec2(x * x, u * u);
    return both;
}

void write_sums(uint block, SUM sum)
{
    sums[sums_base + 2 * block] = sum.x;
    sums[sums_base + 2 * block + 1] = sum.y;
}
#else
#define SUM float
layout(std430, binding = 0) readonly buffer X { float x[]; };
layout(std430, binding = 1) writeonly buffer Sums { float sums[]; };
layout(push_constant) uniform Push { uint count, blocks, sums_base, x_base; };

SUM squares(uint at)
{
    precise SUM square = x[x_base + at] * x[x_base + at];
    return square;
}

void write_sums(uint block, SUM sum)
{
    sums[sums_base + block] = sum;
}
#endif

shared SUM parts[LANES];

void main()
{
    const uint block = rf_group();
    if (block >= blocks) return;
    const uint lane = gl_LocalInvocationID.x;
    precise SUM sum = SUM(0);
    // Four loads are under way at once. Elements beyond the end add 0, which changes no sum of
    // squares.
    for (uint i = lane; i < BLOCK; i += 4 * LANES) {
        SUM four[4];
        [[unroll]] for (uint k = 0; k < 4; k++) four[k] =
            squares(min(block * BLOCK + i + k * LANES, count - 1));
        [[unroll]] for (uint k = 0; k < 4; k++)
            sum += block * BLOCK + i + k * LANES < count ? four[k] : SUM(0);
    }
    parts[lane] = sum;
    barrier();
    for (uint width = LANES / 2; width > 0; width /= 2) {
        if (lane < width) {
            precise SUM both = parts[lane] + parts[lane + width];
            parts[lane] = both;
        }
        barrier();
    }
    if (lane == 0) write_sums(block, parts[0]);
}
