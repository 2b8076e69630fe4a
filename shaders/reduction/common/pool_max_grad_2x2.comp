// SPDX-License-Identifier: Apache-2.0
// Gradient of pool_max_2x2: one invocation per 2 x 2 elements, among them the odd last row and
// column that no window covers.
#version 450
#extension GL_GOOGLE_include_directive : require
#define VEC4
#include "pool.glsl"

POOL_INPUT(0, Gradients, dy)
POOL_INPUT(1, Images, x)
POOL_OUTPUT(2, dx)
#define WRITE(has, i, k) if (has) POOL_WRITE(dx, i, four.at[k])

// The gradients of a window's elements, line by line: the last that took the place of those before
// it gets g, the others zero.
struct Quad { vec4 at[4]; };
Quad gradients_of(vec4 v0, vec4 v1, vec4 v2, vec4 v3, vec4 g, bool whole)
{
    const vec4 zero = vec4(0.0);
    const bvec4 takes1 = rf_takes_place(v1, v0);
    vec4 top = mix(v0, v1, takes1);
    const bvec4 takes2 = rf_takes_place(v2, top);
    top = mix(top, v2, takes2);
    const bvec4 takes3 = rf_takes_place(v3, top);
    if (relu_mask != 0) g = rf_relu_grad(g, mix(top, v3, takes3));
    if (!whole) g = zero;
    Quad quad;
    quad.at[3] = mix(zero, g, takes3);
    g = mix(g, zero, takes3);
    quad.at[2] = mix(zero, g, takes2);
    g = mix(g, zero, takes2);
    quad.at[1] = mix(zero, g, takes1);
    quad.at[0] = mix(g, zero, takes1);
    return quad;
}

void main()
{
    Place p = rf_place((height + 1) / 2, (width + 1) / 2);
    if (!p.inside) return;
    // Software drivers execute both sides of every branch: so no branch but round the stores, and
    // valid addresses for all.
    const bool right = 2 * p.column + 1 < width, below = 2 * p.row + 1 < height;
    const int to_right = right ? channels : 0, to_below = below ? width * channels : 0;
    const int at = rf_in_at(2 * p.row, 2 * p.column, p.channel);
    const vec4 v0 = POOL_READ(x, at), v1 = POOL_READ(x, at + to_right),
        v2 = POOL_READ(x, at + to_below), v3 = POOL_READ(x, at + to_below + to_right);
    const int out_at = rf_out_at(min(p.row, out_height - 1), min(p.column, out_width - 1),
        p.channel);
    const vec4 g = POOL_READ(dy, out_at);
    const Quad four = gradients_of(v0, v1, v2, v3, g, right && below);
    WRITE(right && below, at + to_below + to_right, 3)
    WRITE(below, at + to_below, 2)
    WRITE(right, at + to_right, 1)
    WRITE(true, at, 0)
}
