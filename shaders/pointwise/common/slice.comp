#version 450
/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A box of up to six dimensions out of a tensor, evenly spaced along each, in the order of the box.
 * With SCATTER the other way: what is dense goes back into the box. One element (W 1) or four
 * neighbours (W 4) an invocation; TEXEL: SPAN times four, read as texels, or with EIGHTS eight
 * neighbours. ONES: four elements of the box, which are apart in the tensor and read by texels of
 * one; lines of the box are at least as long.
 */
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#ifdef TEXEL
#extension GL_EXT_shader_explicit_arithmetic_types_int64 : require
#endif
#include "include/wide.glsl"
#include "include/division.glsl"

layout(constant_id = 1) const uint RANK = 6;
layout(push_constant) uniform Push {
    /* in units of W elements (four with TEXEL, eight with EIGHTS), as the strides */
    uint count, tensor_offset, box_offset;
    uint shifts;                           /* of the divisions by size, five bits each */
    uint size[6], magic[6], stride[6];     /* innermost first; negative strides wrap around */
} p;

/* Where unit t of the box is in the tensor. */
uint place(uint t)
{
    uint rest = t, at = p.tensor_offset;
#define DIMENSION(d)                                                                               \
    if (RANK > d) {                                                                                \
        uint above = 0u;                                                                           \
        if (RANK > d + 1) above = rf_divide(rest, p.magic[d], p.shifts >> (5 * d) & 31u);          \
        at += (rest - above * p.size[d]) * p.stride[d];                                            \
        rest = above;                                                                              \
    }
    DIMENSION(0) DIMENSION(1) DIMENSION(2) DIMENSION(3) DIMENSION(4) DIMENSION(5)
    return at;
}

#ifdef TEXEL
layout(binding = 0) uniform samplerBuffer from;
#ifdef EIGHTS
layout(std430, binding = 1) writeonly buffer To { u64vec4 to[]; };
#else
layout(std430, binding = 1) writeonly buffer To { u64vec2 to[]; };
#endif

#ifdef ONES
layout(std430, binding = 1) writeonly buffer ToOne { float to_one[]; };
#endif

/* All invocations take part throughout: those beyond the end read what the first does. */
#ifdef ONES
void main()
{
    uint t = rf_invocation(), first = 4 * t;
    bool whole = first + 3 < p.count;
    uint line = RANK > 1 ? rf_divide(min(first, p.count - 1), p.magic[0], p.shifts & 31u) : 0u,
        end = (line + 1) * p.size[0];
    uint at = place(min(first, p.count - 1)), next = RANK > 1 && end < p.count ? place(end) : at;
    uint from_at[4];
    [[unroll]] for (uint k = 0; k < 4; k++)
        from_at[k] = first + k >= p.count ? at : first + k < end ? at + k * p.stride[0] : next +
            (first + k - end) * p.stride[0];
    vec4 x = vec4(texelFetch(from, int(from_at[0])).x, texelFetch(from, int(from_at[1])).x,
        texelFetch(from, int(from_at[2])).x,
                  texelFetch(from, int(from_at[3])).x);
    RF_WRITE4(to, whole, t, x)
    if (!whole)
        [[unroll]] for (uint k = 0; k < 3; k++)
            if (first + k < p.count) to_one[first + k] = x[k];
}
#else
#ifdef EIGHTS
#define UNIT Reg
#define FETCH(at) Reg(texelFetch(from, int(2 * (at))), texelFetch(from, int(2 * (at) + 1)))
#define STORE(goal, x) RF_WRITE(to, ~0u, goal, x)
#else
#define UNIT vec4
#define FETCH(at) texelFetch(from, int(at))
#define STORE(goal, x) RF_WRITE4(to, (goal) != ~0u, goal, x)
#endif

/* Units that follow each other go to lanes that do. All are read before any is written: stores that
 * wait for what they store let nothing behind them begin. */
void main()
{
    const uint lane = gl_SubgroupInvocationID, first = (rf_invocation() - lane) * SPAN + lane;
    uint goal[SPAN];
    UNIT held[SPAN];
    [[unroll]] for (uint i = 0; i < SPAN; i++) {
        const uint t = first + i * gl_SubgroupSize, item = t < p.count ? t : 0u,
            tensor = place(item), box = p.box_offset + item;
#ifdef SCATTER
        const uint from_at = box, to_at = tensor;
#else
        const uint from_at = tensor, to_at = box;
#endif
        goal[i] = t < p.count ? to_at : ~0u;
        held[i] = FETCH(from_at);
    }
    [[unroll]] for (uint i = 0; i < SPAN; i++) STORE(goal[i], held[i])
}
#endif
#else
#if W == 4
#define WORDS uvec4 /* copied bit by bit */
#else
#define WORDS uint
#endif
#ifdef SCATTER
layout(std430, binding = 0) readonly buffer Box { WORDS box[]; };
layout(std430, binding = 1) writeonly buffer Tensor { WORDS tensor[]; };
#else
layout(std430, binding = 0) readonly buffer Tensor { WORDS tensor[]; };
layout(std430, binding = 1) writeonly buffer Box { WORDS box[]; };
#endif

void main()
{
    uint t = rf_invocation();
    if (t >= p.count) return;
#ifdef SCATTER
    tensor[place(t)] = box[p.box_offset + t];
#else
    box[p.box_offset + t] = tensor[place(t)];
#endif
}
#endif
