// SPDX-License-Identifier: Apache-2.0
// Reduces the last dimension: one invocation reduces a slice of a row, four neighbours at a time.
// Rows are multiples of 4
// long, except when there is only one; its last few elements come through the second view of the
// input.
// WHOLE, of one row: the workgroup that comes last adds all slices up (reduce_whole.glsl).
// TEXEL: reads through a texel buffer, for a driver that spends as much on a turn of a loop as on a
// load.
// LANES, of many rows: the lanes of a subgroup share each of their rows, so that they read what
// lies side by side. Rows are multiples of
// what they take in a turn, 32 each.
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
#ifdef LANES
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_shuffle : require
#endif
#ifdef WHOLE
#define ARRIVALS 4
#include "reduce_whole.glsl"
layout(std430, binding = 1) coherent buffer Y { float y[]; };
layout(std430, binding = 3) writeonly buffer Result { float result_of[]; };

#else
layout(std430, binding = 1) writeonly buffer Y { float y[]; };
#endif
#if defined(WHOLE) || defined(LANES)
// The result of all lanes.
float of_lanes(float v)
{
    for (uint distance = 1; distance < gl_SubgroupSize; distance *= 2)
        v = rf_combine(v, subgroupShuffle(v, gl_SubgroupInvocationID ^ distance));
    return v;
}
#endif
#ifdef TEXEL
layout(std430, binding = 2) readonly buffer XTail { float x_tail[]; };
#define TAIL(i) x_tail[i]
#else
// Bit 2 of the types is bit 0.
RF_STORED1(2, x_tail)
#define TAIL(i) RF_LOAD1(2, x_tail, i)
#endif

#ifdef LANES
// Those beyond the last row take part with it. Loops test at their end: lavapipe would run the body
// of others once more.
void main()
{
    const uint t = rf_thread(), lane = gl_SubgroupInvocationID, lanes = gl_SubgroupSize,
        fours = total / 4, rows = n_out;
    const float factor = scale;
    float own = 0.0;
    uint row = 0;
    do {
        const uint base = min(t - lane + row, rows - 1) * fours + lane;
        vec4 result = vec4(rf_start());
        uint r = 0;
        do {
            const uint block_end = min(r + BLOCK * lanes, fours);
            vec4 part = vec4(rf_start());
            do {
                [[unroll]] for (uint k = 0; k < TURN; k++) part =
                    rf_combine(part, rf_apply(X(base + r + k * lanes)));
                r += TURN * lanes;
            } while (r < block_end);
            result = rf_combine(result, part);
        } while (r < fours);
        const float whole = of_lanes(rf_combine(rf_combine(result.x, result.y),
            rf_combine(result.z, result.w)));
        own = row == lane ? whole : own;
        row++;
    } while (row < lanes);
    if (t < rows) y[first_slice * rows + t] = own * factor;
}
#else
void main()
{
#ifdef WHOLE
    const uint groups = rf_groups_of(slices);
    if (rf_group() >= groups) return;
    const uint t = min(rf_thread(), slices); // those beyond the last slice have nothing
#else
    const uint t = rf_thread();
    if (t >= n_out * slices) return;
#endif
    const uint o = t % n_out, s = t / n_out;
    const uint base = o * (total / 4);
    const uint first = min(s * slice_len, total), end = min(first + slice_len, total);
    vec4 result = vec4(rf_start());
    for (uint block = first / 4; block < end / 4; block += BLOCK) {
        const uint block_end = min(block + BLOCK, end / 4);
        vec4 part = vec4(rf_start());
        uint r = block;
        for (; r + TURN <= block_end; r += TURN)
            [[unroll]] for (uint k = 0; k < TURN; k++) part =
                rf_combine(part, rf_apply(X(base + r + k)));
        if (TURN > 1)
            for (; r < block_end; r++) part = rf_combine(part, rf_apply(X(base + r)));
        result = rf_combine(result, part);
    }
    float whole = rf_combine(rf_combine(result.x, result.y), rf_combine(result.z, result.w));
    for (uint r = max(end / 4 * 4, first); r < end; r++) whole =
        rf_combine(whole, rf_apply(TAIL(r)));
#ifdef WHOLE
    const float found = of_lanes(whole);
    if (gl_SubgroupInvocationID == 0) y[rf_group()] = found;
    if (!rf_comes_last(groups)) return;
    whole = rf_start();
    for (uint i = gl_SubgroupInvocationID; i < groups; i += gl_SubgroupSize) whole =
        rf_combine(whole, y[i]);
    whole = of_lanes(whole);
    if (gl_SubgroupInvocationID == 0) result_of[0] = whole * scale;
#else
    y[first_slice * n_out + t] = whole * scale;
#endif
}
#endif
