#version 450
/* SPDX-License-Identifier: Apache-2.0 */
/* Copies a box of up to six dimensions between two strided layouts, one element (W 1) or four (W 4,
 * innermost dimension kept) an invocation, in the output's order. TEXEL: eight, fetched as texels
 * of four. */
#extension GL_GOOGLE_include_directive : require
#ifdef TEXEL
#extension GL_EXT_shader_explicit_arithmetic_types_int64 : require
#endif
#include "include/wide.glsl"
#include "include/division.glsl"

layout(constant_id = 1) const uint RANK = 6;
layout(push_constant) uniform Push {
    uint count, in_offset, out_offset; /* in units of W elements, as the strides */
    uint shifts;                       /* of the divisions by size, five bits each */
    uint size[6], magic[6], in_stride[6], out_stride[6]; /* innermost first */
} p;
#ifdef TEXEL
layout(binding = 0) uniform samplerBuffer x;
#else
layout(std430, binding = 0) readonly buffer In { VEC x[]; };
#endif
layout(std430, binding = 1) writeonly buffer Out { VEC y[]; };

void main()
{
    uint t = rf_invocation();
#ifdef TEXEL
    /* all invocations take part in writing */
    uint rest = min(t, p.count - 1), from = p.in_offset, to = p.out_offset;
#else
    if (t >= p.count) return;
    uint rest = t, from = p.in_offset, to = p.out_offset;
#endif
#define DIMENSION(d)                                                                               \
    if (RANK > d) {                                                                                \
        uint above = 0u;                                                                           \
        if (RANK > d + 1) above = rf_divide(rest, p.magic[d], p.shifts >> (5 * d) & 31u);          \
        uint at = rest - above * p.size[d];                                                        \
        rest = above;                                                                              \
        from += at * p.in_stride[d];                                                               \
        to += at * p.out_stride[d];                                                                \
    }
    DIMENSION(0) DIMENSION(1) DIMENSION(2) DIMENSION(3) DIMENSION(4) DIMENSION(5)
#ifdef TEXEL
    uint goal = t < p.count ? to : ~0u;
    RF_WRITE(y, ~0u, goal, Reg(texelFetch(x, int(2 * from)), texelFetch(x, int(2 * from + 1))))
#else
    y[to] = x[from];
#endif
}
