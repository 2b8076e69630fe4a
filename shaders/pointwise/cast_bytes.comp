#version 450
/* SPDX-License-Identifier: Apache-2.0 */
/* u8 to f32 for drivers that fetch texels at once: eight elements an invocation, half a texel. */
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_shader_explicit_arithmetic_types_int64 : require
#include "include/wide.glsl"

layout(push_constant) uniform Push { uint count; } p; /* of elements, a multiple of sixteen */
layout(binding = 0) uniform samplerBuffer x;
layout(std430, binding = 1) writeonly buffer Out { VEC y[]; };

vec4 four_of(uint w)
{
    return vec4(uvec4(w & 255u, w >> 8 & 255u, w >> 16 & 255u, w >> 24));
}

void main()
{
    const uint t = rf_invocation(), n = p.count / 8u; /* all invocations take part in writing */
    const uvec4 texel = floatBitsToUint(texelFetch(x, int(min(t, n - 1u) / 2u)));
    const uvec2 words = (t & 1u) == 0u ? texel.xy : texel.zw;
    RF_WRITE(y, n, t, Reg(four_of(words.x), four_of(words.y)))
}
