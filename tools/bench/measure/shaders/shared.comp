/* SPDX-License-Identifier: Apache-2.0 */
/* Reads vectors of shared memory, neighbours beside each other, eight a round. */
#version 450
#extension GL_EXT_control_flow_attributes : require
#define VECTORS 512
layout(local_size_x_id = 0) in;
layout(std430, binding = 0) writeonly buffer Y { vec4 y[]; };
layout(push_constant) uniform P { uint rounds, step; };
shared vec4 s[VECTORS];

void main()
{
    uint at = gl_LocalInvocationID.x;
    for (uint i = at; i < VECTORS; i += gl_WorkGroupSize.x) s[i] = vec4(i);
    barrier();
    vec4 sum = vec4(0.0);
    for (uint r = 0; r < rounds; r++) {
        [[unroll]] for (uint i = 0; i < 8; i++) sum += s[(at + i * step) % VECTORS];
        at += 8 * step;
    }
    y[gl_LocalInvocationID.x] = sum;
}
