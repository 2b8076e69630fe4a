// SPDX-License-Identifier: Apache-2.0
// Gradient of pool_max_2x2: one invocation per 2 x 2 elements, among them the odd last row and column that no window covers.
// TEXEL: reads through texel buffers and writes 64 bits at once, in which all invocations take part.
#version 450
#extension GL_GOOGLE_include_directive : require
#define VEC4
#ifdef TEXEL
#extension GL_EXT_shader_explicit_arithmetic_types_int64 : require
#include "include/write_fours.glsl"
#endif
#include "pool.glsl"

POOL_INPUT(0, Gradients, dy)
POOL_INPUT(1, Images, x)
#define DY(i) POOL_READ(dy, i)
#define X(i) POOL_READ(x, i)
#ifdef TEXEL
layout(std430, binding = 2) writeonly buffer Output { u64vec2 dx[]; };
layout(std430, binding = 2) writeonly buffer OutputHalves { uvec2 dx_h[]; };
#define WRITE(has, i, value)                                                                                           \
    if (TYPE != 0u) {                                                                                                  \
        if (has) dx_h[i] = rf_narrow(TYPE, value);                                                                     \
    } else RF_WRITE4(dx, has, uint(i), value)
#else
POOL_OUTPUT(2, dx)
#define WRITE(has, i, value) if (has) POOL_WRITE(dx, i, value)
#endif

void main()
{
    Place p = rf_place((height + 1) / 2, (width + 1) / 2);
#ifdef TEXEL
    const bool inside = p.inside;
    if (!inside) p.row = p.column = p.channel = 0;
#else
    const bool inside = true;
    if (!p.inside) return;
#endif
    // Software drivers execute both sides of every branch: so no branch but round the stores, and valid addresses for all.
    const bool right = 2 * p.column + 1 < width, below = 2 * p.row + 1 < height;
    const int to_right = right ? channels : 0, to_below = below ? width * channels : 0;
    const int at = rf_in_at(2 * p.row, 2 * p.column, p.channel);
    const vec4 v0 = X(at), v1 = X(at + to_right), v2 = X(at + to_below), v3 = X(at + to_below + to_right);
    const vec4 zero = vec4(0.0);
    vec4 g = DY(rf_out_at(min(p.row, out_height - 1), min(p.column, out_width - 1), p.channel));

    const bvec4 takes1 = rf_takes_place(v1, v0);
    vec4 top = mix(v0, v1, takes1);
    const bvec4 takes2 = rf_takes_place(v2, top);
    top = mix(top, v2, takes2);
    const bvec4 takes3 = rf_takes_place(v3, top);
    if (relu_mask != 0) g = rf_relu_grad(g, mix(top, v3, takes3));
    if (!(right && below)) g = zero;

    // The last that took the place of those before it gets g, the others zero.
    WRITE(inside && right && below, at + to_below + to_right, mix(zero, g, takes3))
    g = mix(g, zero, takes3);
    WRITE(inside && below, at + to_below, mix(zero, g, takes2))
    g = mix(g, zero, takes2);
    WRITE(inside && right, at + to_right, mix(zero, g, takes1))
    WRITE(inside, at, mix(g, zero, takes1))
}
