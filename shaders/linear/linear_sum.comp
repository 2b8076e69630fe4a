/* SPDX-License-Identifier: Apache-2.0 */
/* Adds partial sums in the order of their parts, then finishes as an undivided product would have: bias and activation.
 * Elements from `first_extra` on (the bias' gradient) go to a tensor of their own. */
#version 450
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#include "include/linear_epilogue.glsl"

layout(local_size_x_id = 0) in;
layout(std430, binding = 0) readonly buffer Parts { vec4 parts[]; };
layout(std430, binding = 1) readonly buffer Bias { float bias[]; };
layout(std430, binding = 2) writeonly buffer C { float c[]; };
layout(std430, binding = 3) writeonly buffer Extra { float extra[]; };
layout(push_constant) uniform P { int total /* fours */, count /* elements */, columns, num_parts, stride /* fours */, first_extra; };

void main()
{
    int i = int((gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x) * gl_WorkGroupSize.x + gl_LocalInvocationID.x);
    if (i >= total) return;
    vec4 sum = parts[i];
    int part = 1;
    /* Many parts are read eight at a time, none of which waits for an addition. */
    for (; part + 8 <= num_parts; part += 8) {
        vec4 next[8];
        [[unroll]] for (int p = 0; p < 8; p++) next[p] = parts[(part + p) * stride + i];
        [[unroll]] for (int p = 0; p < 8; p++) sum += next[p];
    }
    for (; part < num_parts; part++) sum += parts[part * stride + i];
    if (HAS_BIAS != 0)
        for (int j = 0; j < 4; j++) sum[j] += bias[(i * 4 + j) % columns];
    sum = linear_activate(sum);
    for (int j = 0; j < 4; j++) {
        int at = i * 4 + j;
        if (at < first_extra) c[at] = sum[j];
        else if (at < count) extra[at - first_extra] = sum[j];
    }
}
