#version 450
/* SPDX-License-Identifier: Apache-2.0 */
/* Copies a box of up to six dimensions between two strided layouts, one element (W 1) or four (W 4, innermost dimension kept)
 * an invocation, in the output's order. */
#extension GL_GOOGLE_include_directive : require
#include "include/wide.glsl"
#include "include/division.glsl"

layout(constant_id = 1) const uint RANK = 6;
layout(push_constant) uniform Push {
    uint count, in_offset, out_offset; /* in units of W elements, as the strides */
    uint shifts;                       /* of the divisions by size, five bits each */
    uint size[6], magic[6], in_stride[6], out_stride[6]; /* innermost first */
} p;
layout(std430, binding = 0) readonly buffer In { VEC x[]; };
layout(std430, binding = 1) writeonly buffer Out { VEC y[]; };

void main()
{
    uint t = rf_invocation();
    if (t >= p.count) return;
    uint rest = t, from = p.in_offset, to = p.out_offset;
#define DIMENSION(d)                                                                                                   \
    if (RANK > d) {                                                                                                    \
        uint above = 0u;                                                                                               \
        if (RANK > d + 1) above = rf_divide(rest, p.magic[d], p.shifts >> (5 * d) & 31u);                              \
        uint at = rest - above * p.size[d];                                                                            \
        rest = above;                                                                                                  \
        from += at * p.in_stride[d];                                                                                   \
        to += at * p.out_stride[d];                                                                                    \
    }
    DIMENSION(0) DIMENSION(1) DIMENSION(2) DIMENSION(3) DIMENSION(4) DIMENSION(5)
    y[to] = x[from];
}
