// SPDX-License-Identifier: Apache-2.0
// Reduces the middle of [outer, rows, columns], columns a multiple of 4: one invocation reduces a slice of four columns.
// TEXEL: reads through a texel buffer, for a driver that spends as much on a turn of a loop as on a load.
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
layout(std430, binding = 1) writeonly buffer Y { vec4 y[]; };

void main()
{
    const uint t = rf_thread();
    const uint n_out4 = n_out / 4;
    if (t >= n_out4 * slices) return;
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
            [[unroll]] for (uint k = 0; k < TURN; k++) part = rf_combine(part, rf_apply(X(at + k * columns4)));
        if (TURN > 1)
            for (; r < block_end; r++, at += columns4) part = rf_combine(part, rf_apply(X(at)));
        result = rf_combine(result, part);
    }
    y[first_slice * n_out4 + t] = result * scale;
}
