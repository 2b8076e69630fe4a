/* SPDX-License-Identifier: Apache-2.0 */
/* Swish with a slope of its own for each column: y = x * sigmoid(beta * x). With GRADIENT: what dy
 * is worth in x, and in beta before the rows are added up. One invocation for each element. */
#version 450

layout(local_size_x_id = 0) in;
layout(std430, binding = 0) readonly buffer X { float x[]; };
layout(std430, binding = 1) readonly buffer Beta { float beta[]; };
#ifdef GRADIENT
layout(std430, binding = 2) readonly buffer DY { float dy[]; };
layout(std430, binding = 3) writeonly buffer DX { float dx[]; };
layout(std430, binding = 4) writeonly buffer DBeta { float dbeta[]; };
#else
layout(std430, binding = 2) writeonly buffer Y { float y[]; };
#endif
layout(push_constant) uniform Push { uint count, columns; };

void main()
{
    /* The grid's x and y are one line of workgroups. */
    uint i = (gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x) * gl_WorkGroupSize.x +
             gl_LocalInvocationID.x;
    if (i >= count) return;
    float b = beta[i % columns], s = 1.0 / (1.0 + exp(-b * x[i]));
#ifdef GRADIENT
    float slope = x[i] * s * (1.0 - s);
    dx[i] = dy[i] * (s + b * slope);
    dbeta[i] = dy[i] * x[i] * slope;
#else
    y[i] = x[i] * s;
#endif
}
