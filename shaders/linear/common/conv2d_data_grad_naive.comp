/* SPDX-License-Identifier: Apache-2.0 */
/* One invocation per element of dx: gathers from the outputs that its pixel took part in. */
#version 450
#extension GL_GOOGLE_include_directive : require

layout(local_size_x_id = 0) in;
layout(std430, binding = 0) readonly buffer Dy { float dout[]; };
layout(std430, binding = 1) readonly buffer Kernel { float kernel[]; };
layout(std430, binding = 2) buffer Dx { float din[]; };
#include "conv2d_naive.glsl"

void main()
{
    int i = int((gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x) * gl_WorkGroupSize.x +
        gl_LocalInvocationID.x);
    if (i >= total) return;
    int ci = i % cin, ix = i / cin % w, iy = i / cin / w % h, image = i / cin / w / h;
    int first = ci / cig * cog;
    float sum = 0.0;
    for (int ky = from_y; ky < to_y; ky++) {
        int ty = iy + pt - ky * dy, oy = ty / sy;
        if (ty < 0 || oy * sy != ty || oy >= oh) continue;
        for (int kx = from_x; kx < to_x; kx++) {
            int tx = ix + pl - kx * dx, ox = tx / sx;
            if (tx < 0 || ox * sx != tx || ox >= ow) continue;
            int ia = y_base + ((image * oh + oy) * ow + ox) * cout + first;
            int ib = ((ky * kw + kx) * cig + ci % cig) * cout + first;
            for (int c = from_c; c < to_c; c++) sum += dout[ia + c] * kernel[ib + c];
        }
    }
    if (accumulate != 0) sum += din[x_base + i];
    din[x_base + i] = sum;
}
