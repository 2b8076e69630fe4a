/* SPDX-License-Identifier: Apache-2.0 */
/* Multiply-adds in 16 independent chains, 64 a round. */
#version 450
#extension GL_EXT_control_flow_attributes : require
layout(local_size_x_id = 0) in;
layout(std430, binding = 0) writeonly buffer Y { float y[]; };
layout(push_constant) uniform P { uint rounds; float factor, summand; };

void main()
{
    vec4 a = vec4(gl_LocalInvocationID.x) * 1e-3, b = a + 0.1, c = a + 0.2, d = a + 0.3;
    for (uint r = 0; r < rounds; r++) {
        [[unroll]] for (int i = 0; i < 4; i++) {
            a = fma(a, vec4(factor), vec4(summand));
            b = fma(b, vec4(factor), vec4(summand));
            c = fma(c, vec4(factor), vec4(summand));
            d = fma(d, vec4(factor), vec4(summand));
        }
    }
    a += b + c + d;
    y[gl_LocalInvocationID.x] = a.x + a.y + a.z + a.w;
}
