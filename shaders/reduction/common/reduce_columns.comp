// SPDX-License-Identifier: Apache-2.0
// Reduces the middle of [outer, rows, columns], columns a multiple of 4: one invocation reduces a
// slice of four columns.
// WHOLE: the workgroup that comes last adds all slices up (reduce_whole.glsl). TEXEL: reads through
// a texel buffer, for a driver that spends as much on a turn of a loop as on a load.
#version 450
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#include "reduce.glsl"

#ifdef TEXEL
layout(binding = 0) uniform samplerBuffer x;
#define X(i) texelFetch(x, int(i))
#else
#define RF_TYPES_ID 2
#include "include/stored.glsl"
RF_STORED4(0, x, readonly)
#define X(i) RF_LOAD4(0, x, i)
#endif
#ifdef WHOLE
#define ARRIVALS 3
#include "reduce_whole.glsl"
layout(std430, binding = 1) coherent buffer Y { vec4 y[]; };
layout(std430, binding = 2) writeonly buffer Result { vec4 result_of[]; };
#else
layout(std430, binding = 1) writeonly buffer Y { vec4 y[]; };
#endif

void main()
{
    const uint n_out4 = n_out / 4;
#ifdef WHOLE
    const uint groups = rf_groups_of(n_out4 * slices);
    if (rf_group() >= groups) return;
    const bool live = rf_thread() < n_out4 * slices;
    const uint t = live ? rf_thread() : 0;
#else
    const uint t = rf_thread();
    if (t >= n_out4 * slices) return;
#endif
    const uint o = t % n_out4, s = t / n_out4;
    const uint columns4 = kept2 / 4;
    const uint first = s * slice_len, end = min(first + slice_len, total);
    uint at = o / columns4 * (kept_stride1 / 4) + o % columns4 + first * columns4;
    vec4 result = vec4(rf_start());
    for (uint block = first; block < end; block += BLOCK) {
        const uint block_end = min(block + BLOCK, end);
        vec4 part = vec4(rf_start());
        uint r = block;
        for (; r + TURN <= block_end; r += TURN, at += TURN * columns4)
            [[unroll]] for (uint k = 0; k < TURN; k++) part =
                rf_combine(part, rf_apply(X(at + k * columns4)));
        if (TURN > 1)
            for (; r < block_end; r++, at += columns4) part = rf_combine(part, rf_apply(X(at)));
        result = rf_combine(result, part);
    }
#ifdef WHOLE
    if (live) y[t] = result;
    if (!rf_comes_last(groups)) return;
    for (uint c = gl_SubgroupInvocationID; c < n_out4; c += gl_SubgroupSize) {
        vec4 whole = y[c];
        for (uint i = 1; i < slices; i++) whole = rf_combine(whole, y[i * n_out4 + c]);
        result_of[c] = whole * scale;
    }
#else
    y[first_slice * n_out4 + t] = result * scale;
#endif
}
