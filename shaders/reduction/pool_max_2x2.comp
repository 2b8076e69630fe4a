// SPDX-License-Identifier: Apache-2.0
// Maximum of 2 x 2 windows side by side without padding, the usual case, without loops.
#version 450
#extension GL_GOOGLE_include_directive : require
#define VEC4
#include "pool.glsl"

layout(std430, binding = 0) readonly buffer X { vec4 x[]; };
layout(std430, binding = 1) writeonly buffer Y { vec4 y[]; };

void main()
{
    const Place p = rf_place(out_height, out_width, per_out_width);
    if (!p.inside) return;
    const int upper = rf_in_at(2 * p.row, 2 * p.column, p.channel), lower = upper + width * channels;
    vec4 result = x[upper];
    vec4 v = x[upper + channels];
    result = mix(result, v, GT(v, result));
    v = x[lower];
    result = mix(result, v, GT(v, result));
    v = x[lower + channels];
    result = mix(result, v, GT(v, result));
    y[rf_out_at(p.row, p.column, p.channel)] = result;
}
