// SPDX-License-Identifier: Apache-2.0
// One group of reduced dimensions, for GPUs: a workgroup reduces one slice of one output,
// neighbouring invocations read
// neighbouring elements, and a tree in shared memory adds up theirs.
#version 450
#extension GL_GOOGLE_include_directive : require
#include "reduce.glsl"

#define RF_TYPES_ID 2
#include "include/stored.glsl"
RF_STORED1(0, x)
#define X(i) RF_LOAD1(0, x, i)
layout(std430, binding = 1) writeonly buffer Y { float y[]; };

shared float parts[256];

void main()
{
    const uint g = rf_group();
    if (g >= n_out * slices) return;
    const uint lane = gl_LocalInvocationID.x;
    const uint o = g % n_out, s = g / n_out;
    const uint base = rf_kept_offset(o);
    const uint first = s * slice_len, end = min(first + slice_len, total);
    float result = rf_start();
    for (uint r = first + lane; r < end; r += gl_WorkGroupSize.x)
        result = rf_combine(result, rf_apply(X(base + r * red_stride2)));
    parts[lane] = result;
    barrier();
    for (uint width = gl_WorkGroupSize.x / 2; width > 0; width /= 2) {
        if (lane < width) parts[lane] = rf_combine(parts[lane], parts[lane + width]);
        barrier();
    }
    if (lane == 0) y[first_slice * n_out + g] = parts[0] * scale;
}
