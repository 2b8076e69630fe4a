// SPDX-License-Identifier: Apache-2.0
// Any axes on any device: one invocation reduces one slice of one output.
#version 450
#extension GL_GOOGLE_include_directive : require
#include "reduce.glsl"

#define RF_TYPES_ID 2
#include "include/stored.glsl"
RF_STORED1(0, x)
#define X(i) RF_LOAD1(0, x, i)
layout(std430, binding = 1) writeonly buffer Y { float y[]; };

void main()
{
    const uint t = rf_thread();
    if (t >= n_out * slices) return;
    const uint o = t % n_out, s = t / n_out;
    const uint base = rf_kept_offset(o);
    const uint first = s * slice_len, end = min(first + slice_len, total);
    uint r2 = first % red2, r1 = first / red2 % red1, r0 = first / red2 / red1;
    float result = rf_start();
    for (uint block = first; block < end; block += BLOCK) {
        const uint block_end = min(block + BLOCK, end);
        float part = rf_start();
        for (uint r = block; r < block_end; r++) {
            part = rf_combine(part, rf_apply(X(base + r0 * red_stride0 + r1 * red_stride1 + r2 *
                red_stride2)));
            if (++r2 == red2) {
                r2 = 0;
                if (++r1 == red1) {
                    r1 = 0;
                    r0++;
                }
            }
        }
        result = rf_combine(result, part);
    }
    y[first_slice * n_out + t] = result * scale;
}
