/* SPDX-License-Identifier: Apache-2.0 */
/* One invocation per element of y. */
#version 450
#extension GL_GOOGLE_include_directive : require
#include "include/linear_epilogue.glsl"

layout(local_size_x_id = 0) in;
layout(std430, binding = 0) readonly buffer X { float x[]; };
layout(std430, binding = 1) readonly buffer Kernel { float kernel[]; };
layout(std430, binding = 2) readonly buffer Bias { float bias[]; };
layout(std430, binding = 3) buffer Y { float y[]; };
#include "conv2d_naive.glsl"

void main()
{
    int i = int((gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x) * gl_WorkGroupSize.x +
        gl_LocalInvocationID.x);
    if (i >= total) return;
    int co = i % cout, ox = i / cout % ow, oy = i / cout / ow % oh, image = i / cout / ow / oh;
    int first = co / cog * cig;
    float sum = 0.0;
    for (int ky = from_y; ky < to_y; ky++) {
        int iy = oy * sy + ky * dy - pt;
        if (iy < 0 || iy >= h) continue;
        for (int kx = from_x; kx < to_x; kx++) {
            int ix = ox * sx + kx * dx - pl;
            if (ix < 0 || ix >= w) continue;
            int ia = x_base + ((image * h + iy) * w + ix) * cin + first;
            int ib = (ky * kw + kx) * cig * cout + co;
            for (int c = from_c; c < to_c; c++) sum += x[ia + c] * kernel[ib + c * cout];
        }
    }
    if (accumulate != 0) sum += y[y_base + i];
    if (last != 0) {
        if (HAS_BIAS != 0) sum += bias[bias_base + co];
        sum = linear_activate(sum);
    }
    y[y_base + i] = sum;
}
