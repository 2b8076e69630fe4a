#version 450
/* SPDX-License-Identifier: Apache-2.0 */
/* u8 to f32 for drivers that fetch texels at once: two texels of sixteen elements an invocation. */
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#extension GL_EXT_shader_explicit_arithmetic_types_int64 : require
#include "include/wide.glsl"

layout(push_constant) uniform Push { uint count; } p; /* of elements, a multiple of sixteen */
layout(binding = 0) uniform samplerBuffer x;
layout(std430, binding = 1) writeonly buffer Out { VEC y[]; };

const uint TEXELS = 2; /* of an invocation */

vec4 four_of(uint w)
{
    return vec4(uvec4(w & 255u, w >> 8 & 255u, w >> 16 & 255u, w >> 24));
}

/* Texels that follow each other go to lanes that do; all invocations take part in writing. */
void main()
{
    const uint lane = gl_SubgroupInvocationID, first = (rf_invocation() - lane) * TEXELS + lane,
        n = p.count / 16u;
    uvec4 texel[TEXELS];
    [[unroll]] for (uint i = 0; i < TEXELS; i++)
        texel[i] = floatBitsToUint(texelFetch(x, int(min(first + i * gl_SubgroupSize, n - 1u))));
    [[unroll]] for (uint i = 0; i < TEXELS; i++) {
        const uint t = first + i * gl_SubgroupSize, low = 2u * t, high = low + 1u;
        RF_WRITE(y, 2u * n, low, Reg(four_of(texel[i].x), four_of(texel[i].y)))
        RF_WRITE(y, 2u * n, high, Reg(four_of(texel[i].z), four_of(texel[i].w)))
    }
}
