/* SPDX-License-Identifier: Apache-2.0 */
/* Copies a four-dimensional array, in any order of its axes, to one whose last axis is padded with zeros to a multiple of
 * four: what lets the matrix kernels load four elements at once whatever the shapes. */
#version 450

layout(local_size_x_id = 0) in;
layout(std430, binding = 0) readonly buffer From { float from[]; };
layout(std430, binding = 1) writeonly buffer To { vec4 to[]; };
layout(push_constant) uniform P {
    int total;              /* fours of `to` */
    int d1, d2, d3;         /* axes of `to`, the last one in fours */
    int s0, s1, s2, s3;     /* their strides in `from` */
    int valid;              /* elements of the last axis that exist */
};

void main()
{
    int i = int((gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x) * gl_WorkGroupSize.x + gl_LocalInvocationID.x);
    if (i >= total) return;
    int i3 = i % d3, i2 = i / d3 % d2, i1 = i / d3 / d2 % d1, i0 = i / d3 / d2 / d1;
    int at = i0 * s0 + i1 * s1 + i2 * s2;
    vec4 v;
    for (int j = 0; j < 4; j++) {
        int k = i3 * 4 + j;
        v[j] = k < valid ? from[at + min(k, valid - 1) * s3] : 0.0;
    }
    to[i] = v;
}
