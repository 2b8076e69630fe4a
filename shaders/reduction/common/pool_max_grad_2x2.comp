// SPDX-License-Identifier: Apache-2.0
// Gradient of pool_max_2x2: one invocation per 2 x 2 elements, among them the odd last row and
// column that no window covers.
// TEXEL: reads through texel buffers and writes 64 bits at once, in which all invocations take
// part. EIGHTS: the same with eight channels, in
// which sizes count then.
#version 450
#extension GL_GOOGLE_include_directive : require
#define VEC4
#ifdef TEXEL
#extension GL_EXT_shader_explicit_arithmetic_types_int64 : require
#include "include/write_fours.glsl"
#endif
#ifdef EIGHTS
#include "include/wide.glsl"
#endif
#include "pool.glsl"

POOL_INPUT(0, Gradients, dy)
POOL_INPUT(1, Images, x)
#ifdef EIGHTS
#define FETCH(name, i)                                                                             \
    (TYPE == 0u ? Reg(texelFetch(name, 2 * (i)), texelFetch(name, 2 * (i) + 1)) :                  \
        halves_of(texelFetch(name, i)))
Reg halves_of(vec4 texel)
{
    return Reg(rf_widen(TYPE, floatBitsToUint(texel.xy)),
        rf_widen(TYPE, floatBitsToUint(texel.zw)));
}
layout(std430, binding = 2) writeonly buffer Output { VEC dx[]; };
layout(std430, binding = 2) writeonly buffer OutputHalves { u64vec2 dx_h[]; };
#define VALUE Reg
#define WRITE(has, i, k)                                                                           \
    {                                                                                              \
        const uint goal = has ? uint(i) : ~0u;                                                     \
        const Reg r = Reg(low.at[k], high.at[k]);                                                  \
        if (TYPE != 0u) RF_WRITE_NARROW(dx_h, ~0u, goal,                                           \
            uvec4(rf_narrow(TYPE, r.lo), rf_narrow(TYPE, r.hi)))                                   \
        else RF_WRITE(dx, ~0u, goal, r)                                                            \
    }
#else
#define FETCH(name, i) POOL_READ(name, i)
#define VALUE vec4
#ifdef TEXEL
layout(std430, binding = 2) writeonly buffer Output { u64vec2 dx[]; };
layout(std430, binding = 2) writeonly buffer OutputHalves { uvec2 dx_h[]; };
#define WRITE(has, i, k)                                                                           \
    if (TYPE != 0u) {                                                                              \
        if (has) dx_h[i] = rf_narrow(TYPE, four.at[k]);                                            \
    } else RF_WRITE4(dx, has, uint(i), four.at[k])
#else
POOL_OUTPUT(2, dx)
#define WRITE(has, i, k) if (has) POOL_WRITE(dx, i, four.at[k])
#endif
#endif

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
#ifdef TEXEL
    const bool inside = p.inside;
    if (!inside) p.row = p.column = p.channel = 0;
#else
    const bool inside = true;
    if (!p.inside) return;
#endif
    // Software drivers execute both sides of every branch: so no branch but round the stores, and
    // valid addresses for all.
    const bool right = 2 * p.column + 1 < width, below = 2 * p.row + 1 < height;
    const int to_right = right ? channels : 0, to_below = below ? width * channels : 0;
    const int at = rf_in_at(2 * p.row, 2 * p.column, p.channel);
    const VALUE v0 = FETCH(x, at), v1 = FETCH(x, at + to_right), v2 = FETCH(x, at + to_below),
        v3 = FETCH(x, at + to_below + to_right);
    const int out_at = rf_out_at(min(p.row, out_height - 1), min(p.column, out_width - 1),
        p.channel);
    const VALUE g = FETCH(dy, out_at);
#ifdef EIGHTS
    const Quad low = gradients_of(v0.lo, v1.lo, v2.lo, v3.lo, g.lo, right && below),
               high = gradients_of(v0.hi, v1.hi, v2.hi, v3.hi, g.hi, right && below);
#else
    const Quad four = gradients_of(v0, v1, v2, v3, g, right && below);
#endif
    WRITE(inside && right && below, at + to_below + to_right, 3)
    WRITE(inside && below, at + to_below, 2)
    WRITE(inside && right, at + to_right, 1)
    WRITE(inside, at, 0)
}
