/* SPDX-License-Identifier: Apache-2.0 */
/* y = x + bias along the last axis; four elements at a time with -DWIDE (rows are then multiples of four). */
#version 450

layout(local_size_x_id = 0) in;
#ifdef WIDE
#define ELEMENT vec4
#else
#define ELEMENT float
#endif
layout(std430, binding = 0) readonly buffer X { ELEMENT x[]; };
layout(std430, binding = 1) readonly buffer Bias { ELEMENT bias[]; };
layout(std430, binding = 2) writeonly buffer Y { ELEMENT y[]; };
layout(push_constant) uniform P { int total, columns, base, first; }; /* first: column of element 0 of this part */

void main()
{
    int i = int((gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x) * gl_WorkGroupSize.x + gl_LocalInvocationID.x);
    if (i >= total) return;
    y[base + i] = x[base + i] + bias[(first + i) % columns];
}
