/* SPDX-License-Identifier: Apache-2.0 */
/* y = x + bias along the last axis; four elements at a time with -DWIDE (rows are then multiples
 * of four), which may be stored in 16 bits. */
#version 450
#extension GL_GOOGLE_include_directive : require

layout(local_size_x_id = 0) in;
#ifdef WIDE
#define RF_TYPES_ID 1
#include "include/stored.glsl"
RF_STORED4(0, x, readonly)
RF_STORED4(1, bias, readonly)
RF_STORED4(2, y, writeonly)
#else
#define RF_LOAD4(i, name, at) name[at]
#define RF_STORE4(i, name, at, v) name[at] = v;
layout(std430, binding = 0) readonly buffer X { float x[]; };
layout(std430, binding = 1) readonly buffer Bias { float bias[]; };
layout(std430, binding = 2) writeonly buffer Y { float y[]; };
#endif
/* first: column of element 0 of this part */
layout(push_constant) uniform P { int total, columns, base, first; };

void main()
{
    int i = int((gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x) * gl_WorkGroupSize.x +
        gl_LocalInvocationID.x);
    if (i >= total) return;
    RF_STORE4(2, y, base + i, RF_LOAD4(0, x, base + i) + RF_LOAD4(1, bias, (first + i) % columns))
}
