/* SPDX-License-Identifier: Apache-2.0 */
/* Reads 16 bytes per invocation and step, and READ: adds them up, else writes them. */
#version 450
layout(local_size_x_id = 0) in;
layout(std430, binding = 0) readonly buffer X { vec4 x[]; };
layout(std430, binding = 1) writeonly buffer Y { vec4 y[]; };
layout(push_constant) uniform P { uint count, stride; }; /* vectors; invocations */

void main()
{
    uint first = gl_GlobalInvocationID.x;
#ifdef READ
    vec4 sum = vec4(0.0);
    for (uint i = first; i < count; i += stride) sum += x[i];
    y[first] = sum;
#else
    for (uint i = first; i < count; i += stride) y[i] = x[i];
#endif
}
