/* SPDX-License-Identifier: Apache-2.0 */
/* Copies a four-dimensional array, in any order of its axes, to one whose last axis is padded
 * with zeros to a multiple of four: what lets the matrix kernels load four elements at once
 * whatever the shapes. -DTEXEL: reads through a texel buffer. */
#version 450
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#include "include/division.glsl"

layout(local_size_x_id = 0) in;
#ifdef TEXEL
layout(binding = 0) uniform samplerBuffer from;
#define FROM(i) texelFetch(from, i).x
#else
layout(std430, binding = 0) readonly buffer From { float from[]; };
#define FROM(i) from[i]
#endif
layout(std430, binding = 1) writeonly buffer To { vec4 to[]; };
layout(push_constant) uniform P {
    uint total;             /* fours of `to` */
    uint d1, d2, d3;        /* axes of `to`, the last one in fours */
    uint magic1, magic2, magic3, shift1, shift2, shift3; /* for divisions by them */
    int s0, s1, s2, s3;     /* their strides in `from` */
    int valid;              /* elements of the last axis that exist */
};

void main()
{
    uint i = (gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x) * gl_WorkGroupSize.x +
        gl_LocalInvocationID.x;
    if (i >= total) return;
    uint line = rf_divide(i, magic3, shift3), plane = rf_divide(line, magic2, shift2),
        i0 = rf_divide(plane, magic1, shift1);
    int at = int(i0) * s0 + int(plane - i0 * d1) * s1 + int(line - plane * d2) * s2,
        first = int(i - line * d3) * 4;
    vec4 v;
    [[unroll]] for (int j = 0; j < 4; j++) {
        float x = FROM(at + min(first + j, valid - 1) * s3);
        v[j] = first + j < valid ? x : 0.0;
    }
    to[i] = v;
}
