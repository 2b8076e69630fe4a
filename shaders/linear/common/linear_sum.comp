/* SPDX-License-Identifier: Apache-2.0 */
/* Adds partial sums in the order of their parts, then finishes as an undivided product would
 * have: bias and activation. Elements from `first_extra` on (the bias' gradient) go to a tensor
 * of their own. */
#version 450
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#include "include/linear_epilogue.glsl"
#include "include/exact_sum.glsl"

layout(local_size_x_id = 0) in;
layout(std430, binding = 0) readonly buffer Parts { vec4 parts[]; };
layout(std430, binding = 1) readonly buffer Bias { float bias[]; };
layout(std430, binding = 2) writeonly buffer C { float c[]; };
layout(std430, binding = 3) writeonly buffer Extra { float extra[]; };
layout(push_constant) uniform P { int total /* fours */, count /* elements */, columns, num_parts,
    stride /* fours */, first_extra; };

void main()
{
    int i = int((gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x) * gl_WorkGroupSize.x +
        gl_LocalInvocationID.x);
    if (i >= total) return;
    uint no_bits = RF_NO_BITS(total);
    vec4 sum = parts[i], lost = vec4(0.0);
    int part = 1;
    /* Many parts are read eight at a time, none of which waits for an addition, and added up
     * with less rounding. */
    for (; part + 8 <= num_parts; part += 8) {
        vec4 next[8];
        [[unroll]] for (int p = 0; p < 8; p++) next[p] = parts[(part + p) * stride + i];
        vec4 of_eight = ((next[0] + next[1]) + (next[2] + next[3])) +
            ((next[4] + next[5]) + (next[6] + next[7]));
        RF_ADD_EXACTLY(vec4, sum, lost, of_eight, no_bits)
    }
    for (; part < num_parts; part++)
        RF_ADD_EXACTLY(vec4, sum, lost, parts[part * stride + i], no_bits)
    if (HAS_BIAS != 0)
        for (int j = 0; j < 4; j++) sum[j] += bias[(i * 4 + j) % columns];
    sum = linear_activate(sum);
    for (int j = 0; j < 4; j++) {
        int at = i * 4 + j;
        if (at < first_extra) c[at] = sum[j];
        else if (at < count) extra[at - first_extra] = sum[j];
    }
}
