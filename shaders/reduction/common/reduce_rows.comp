// SPDX-License-Identifier: Apache-2.0
// Reduces the last dimension: one invocation reduces a slice of a row, four neighbours at a time.
// Rows are multiples of 4
// long, except when there is only one; its last few elements come through the second view of the
// input.
#version 450
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#include "reduce.glsl"

#define RF_TYPES_ID 2
#include "include/stored.glsl"
RF_STORED4(0, x, readonly)
#define X(i) RF_LOAD4(0, x, i)
layout(std430, binding = 1) writeonly buffer Y { float y[]; };
// Bit 2 of the types is bit 0.
RF_STORED1(2, x_tail)
#define TAIL(i) RF_LOAD1(2, x_tail, i)

void main()
{
    const uint t = rf_thread();
    if (t >= n_out * slices) return;
    const uint o = t % n_out, s = t / n_out;
    const uint base = o * (total / 4);
    const uint first = min(s * slice_len, total), end = min(first + slice_len, total);
    vec4 result = vec4(rf_start());
    for (uint block = first / 4; block < end / 4; block += BLOCK) {
        const uint block_end = min(block + BLOCK, end / 4);
        vec4 part = vec4(rf_start());
        for (uint r = block; r < block_end; r++) part = rf_combine(part, rf_apply(X(base + r)));
        result = rf_combine(result, part);
    }
    float whole = rf_combine(rf_combine(result.x, result.y), rf_combine(result.z, result.w));
    for (uint r = max(end / 4 * 4, first); r < end; r++) whole =
        rf_combine(whole, rf_apply(TAIL(r)));
    y[first_slice * n_out + t] = whole * scale;
}
