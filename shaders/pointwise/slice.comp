#version 450
/* SPDX-License-Identifier: Apache-2.0 */
/* A box of up to six dimensions out of a tensor, evenly spaced along each, one element (W 1) or four neighbours
 * (W 4) an invocation, in the order of the slice. With SCATTER the other way: the slice goes back to where it came from. */
#extension GL_GOOGLE_include_directive : require
#include "include/wide.glsl"
#include "include/division.glsl"

#if W == 4
#define WORDS uvec4 /* copied bit by bit */
#else
#define WORDS uint
#endif

layout(constant_id = 1) const uint RANK = 6;
layout(push_constant) uniform Push {
    uint count, tensor_offset, slice_offset; /* in units of W elements, as the strides */
    uint shifts;                             /* of the divisions by size, five bits each */
    uint size[6], magic[6], stride[6];       /* innermost first; negative strides wrap around */
} p;
#ifdef SCATTER
layout(std430, binding = 0) readonly buffer Slice { WORDS slice[]; };
layout(std430, binding = 1) writeonly buffer Tensor { WORDS tensor[]; };
#else
layout(std430, binding = 0) readonly buffer Tensor { WORDS tensor[]; };
layout(std430, binding = 1) writeonly buffer Slice { WORDS slice[]; };
#endif

void main()
{
    uint t = rf_invocation();
    if (t >= p.count) return;
    uint rest = t, at = p.tensor_offset;
#define DIMENSION(d)                                                                                                   \
    if (RANK > d) {                                                                                                    \
        uint above = 0u;                                                                                               \
        if (RANK > d + 1) above = rf_divide(rest, p.magic[d], p.shifts >> (5 * d) & 31u);                              \
        at += (rest - above * p.size[d]) * p.stride[d];                                                                \
        rest = above;                                                                                                  \
    }
    DIMENSION(0) DIMENSION(1) DIMENSION(2) DIMENSION(3) DIMENSION(4) DIMENSION(5)
#ifdef SCATTER
    tensor[at] = slice[p.slice_offset + t];
#else
    slice[p.slice_offset + t] = tensor[at];
#endif
}
