#version 450
/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rows of up to four tensors one behind the other, whatever their lengths: four elements of the
 * result an invocation, read by texels of one from every tensor, of which one has it. EIGHTS: eight
 * elements, of rows of eight or more in every tensor, by three texels of four from each, of which
 * one or two tensors have some.
 */
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#extension GL_EXT_shader_explicit_arithmetic_types_int64 : require
#include "include/wide.glsl"
#include "include/division.glsl"

layout(constant_id = 1) const uint INPUTS = 4;
layout(constant_id = 2) const uint TAIL = 7; /* EIGHTS: elements behind the last eight */
layout(push_constant) uniform Push {
    /* of the result: elements, those of a row and the division by them */
    uint count, columns, magic, shift;
    uint begin[5];                     /* of each tensor in a row, and the end of the last one */
    uint last[4];                      /* EIGHTS: texel of each tensor */
} p;
layout(binding = 0) uniform samplerBuffer x0;
layout(binding = 1) uniform samplerBuffer x1;
layout(binding = 2) uniform samplerBuffer x2;
layout(binding = 3) uniform samplerBuffer x3;
layout(std430, binding = 4) writeonly buffer Y { u64vec2 y[]; };
layout(std430, binding = 4) writeonly buffer Y8 { VEC y8[]; };
layout(std430, binding = 4) writeonly buffer YOne { float y_one[]; };

#ifdef EIGHTS
vec4 shifted(uint by, vec4 low, vec4 high)
{
    const bool one = (by & 1u) != 0u, two = (by & 2u) != 0u;
    const vec4 begin = one ? vec4(low.yzw, high.x) : low, end = one ? vec4(high.yzw, 0.0) : high;
    return two ? vec4(begin.zw, end.xy) : begin;
}
bvec4 within(uvec4 place, uint begin, uint end)
{
    return equal(uvec4(greaterThanEqual(place, uvec4(begin))) & uvec4(lessThan(place, uvec4(end))),
        uvec4(1));
}
uvec4 place_of(uint column)
{
    const uvec4 place = column + uvec4(0, 1, 2, 3);
    /* in the next row */
    return mix(place, place - p.columns, greaterThanEqual(place, uvec4(p.columns)));
}

/* From any element of the result on. Where they would begin in a tensor may be up to seven elements
 * in front of its first, or behind its last: what it does not have is anything. */
Reg eight(uint row, uint column)
{
    Reg v = rf_splat(0.0);
    const uvec4 low = place_of(column), high = place_of(column + 4);
#define FROM(i)                                                                                    \
    if (INPUTS > i) {                                                                              \
        const int length = int(p.begin[i + 1] - p.begin[i]), last = int(p.last[i]);                \
        const int here = int(row) * length + int(column - p.begin[i]),                             \
            ahead = here + length - int(p.columns);                                                \
        const int at = (i == 0 && column + 7 >= p.columns ? ahead : here) + 8, texel = at / 4 - 2; \
        const vec4 a = texelFetch(x##i, clamp(texel, 0, last)),                                    \
            b = texelFetch(x##i, clamp(texel + 1, 0, last)),                                       \
                   c = texelFetch(x##i, clamp(texel + 2, 0, last));                                \
        v.lo = mix(v.lo, shifted(uint(at), a, b), within(low, p.begin[i], p.begin[i + 1]));        \
        v.hi = mix(v.hi, shifted(uint(at), b, c), within(high, p.begin[i], p.begin[i + 1]));       \
    }
    FROM(0) FROM(1) FROM(2) FROM(3)
    return v;
}

/* All invocations take part throughout: those beyond the end read what the last one does. */
void main()
{
    uint t = rf_invocation(), first = 8 * t, from = min(first, p.count - 1), n = p.count / 8;
    uint row = rf_divide(from, p.magic, p.shift);
    const Reg v = eight(row, from - row * p.columns);
    RF_WRITE(y8, n, t, v)
    if (TAIL != 0u && t == n) {
        const float f[8] = float[8](v.lo.x, v.lo.y, v.lo.z, v.lo.w, v.hi.x, v.hi.y, v.hi.z, v.hi.w);
        [[unroll]] for (uint k = 0; k < 7; k++)
            if (k < TAIL) y_one[first + k] = f[k];
    }
}
#else
float element(uint row, uint column)
{
    float v = 0.0;
#define FROM(i)                                                                                    \
    if (INPUTS > i) {                                                                              \
        bool own = column >= p.begin[i] && column < p.begin[i + 1];                                \
        uint at = row * (p.begin[i + 1] - p.begin[i]) + column - p.begin[i];                       \
        float there = texelFetch(x##i, int(own ? at : 0u)).x;                                      \
        v = own ? there : v;                                                                       \
    }
    FROM(0) FROM(1) FROM(2) FROM(3)
    return v;
}


/* All invocations take part throughout: those beyond the end read what the last one does. Rows have
 * four elements at least. */
void main()
{
    uint t = rf_invocation(), first = 4 * t, from = min(first, p.count - 1);
    uint row = rf_divide(from, p.magic, p.shift), column = from - row * p.columns;
    vec4 v;
    [[unroll]] for (uint k = 0; k < 4; k++) {
        bool next = column + k >= p.columns, beyond = from + k >= p.count;
        v[k] = element(next && !beyond ? row + 1 : row,
            beyond ? column : next ? column + k - p.columns : column + k);
    }
    bool whole = first + 3 < p.count;
    RF_WRITE4(y, whole, t, v)
    if (!whole)
        [[unroll]] for (uint k = 0; k < 3; k++)
            if (first + k < p.count) y_one[first + k] = v[k];
}
#endif
