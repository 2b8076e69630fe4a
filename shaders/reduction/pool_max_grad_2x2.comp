// SPDX-License-Identifier: Apache-2.0
// Gradient of pool_max_2x2: one invocation per window fills the window in, and the odd last row and column with zeros.
#version 450
#extension GL_GOOGLE_include_directive : require
#define VEC4
#include "pool.glsl"

layout(std430, binding = 0) readonly buffer Dy { vec4 dy[]; };
layout(std430, binding = 1) readonly buffer X { vec4 x[]; };
layout(std430, binding = 2) writeonly buffer Dx { vec4 dx[]; };

void main()
{
    const Place p = rf_place(out_height, out_width, per_out_width);
    if (!p.inside) return;
    const int upper = rf_in_at(2 * p.row, 2 * p.column, p.channel), lower = upper + width * channels;
    const vec4 v0 = x[upper], v1 = x[upper + channels], v2 = x[lower], v3 = x[lower + channels];
    vec4 top = v0, at = vec4(0.0);
    at = mix(at, vec4(1.0), GT(v1, top));
    top = mix(top, v1, GT(v1, top));
    at = mix(at, vec4(2.0), GT(v2, top));
    top = mix(top, v2, GT(v2, top));
    at = mix(at, vec4(3.0), GT(v3, top));
    top = mix(top, v3, GT(v3, top));
    const vec4 zero = vec4(0.0);
    vec4 g = dy[rf_out_at(p.row, p.column, p.channel)];
    if (relu_mask != 0) g = mix(zero, g, GT(top, zero));
    dx[upper] = mix(zero, g, EQ(at, zero));
    dx[upper + channels] = mix(zero, g, EQ(at, vec4(1.0)));
    dx[lower] = mix(zero, g, EQ(at, vec4(2.0)));
    dx[lower + channels] = mix(zero, g, EQ(at, vec4(3.0)));

    const bool odd_column = p.column == out_width - 1 && 2 * out_width < width;
    const bool odd_row = p.row == out_height - 1 && 2 * out_height < height;
    if (odd_column) dx[upper + 2 * channels] = dx[lower + 2 * channels] = zero;
    if (odd_row) {
        const int last = lower + width * channels;
        dx[last] = dx[last + channels] = zero;
        if (odd_column) dx[last + 2 * channels] = zero;
    }
}
