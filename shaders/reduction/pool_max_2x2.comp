// SPDX-License-Identifier: Apache-2.0
// Maximum of 2 x 2 windows side by side without padding, the usual case, without loops. TEXEL: reads through a texel buffer.
#version 450
#extension GL_GOOGLE_include_directive : require
#define VEC4
#include "pool.glsl"

#ifdef TEXEL
layout(binding = 0) uniform samplerBuffer x;
#define X(i) texelFetch(x, i)
#else
layout(std430, binding = 0) readonly buffer Images { vec4 x[]; };
#define X(i) x[i]
#endif
layout(std430, binding = 1) writeonly buffer Y { vec4 y[]; };

void main()
{
    const Place p = rf_place(out_height, out_width);
    if (!p.inside) return;
    const int upper = rf_in_at(2 * p.row, 2 * p.column, p.channel), lower = upper + width * channels;
    const vec4 v0 = X(upper), v1 = X(upper + channels), v2 = X(lower), v3 = X(lower + channels);
    y[rf_out_at(p.row, p.column, p.channel)] = rf_larger(rf_larger(v0, v1), rf_larger(v2, v3));
}
