/* SPDX-License-Identifier: Apache-2.0 */
/* One invocation per element of the kernel's gradient, then one per element of the bias'
 * (out_base: elements of the kernel). */
#version 450
#extension GL_GOOGLE_include_directive : require

layout(local_size_x_id = 0) in;
layout(std430, binding = 0) readonly buffer X { float x[]; };
layout(std430, binding = 1) readonly buffer Dy { float dout[]; };
layout(std430, binding = 2) buffer Dkernel { float dkernel[]; };
layout(std430, binding = 3) buffer Dbias { float dbias[]; };
#include "conv2d_naive.glsl"

float weight(int i)
{
    int co = i % cout, ci = i / cout % cig + co / cog * cig, kx = i / cout / cig % kw,
        ky = i / cout / cig / kw;
    float sum = 0.0;
    for (int image = 0; image < n; image++)
        for (int oy = from_y; oy < to_y; oy++) {
            int iy = oy * sy + ky * dy - pt;
            if (iy < 0 || iy >= h) continue;
            float line = 0.0; /* rounding errors grow with lines, not with pixels */
            for (int ox = from_x; ox < to_x; ox++) {
                int ix = ox * sx + kx * dx - pl;
                if (ix < 0 || ix >= w) continue;
                line += x[x_base + ((image * h + iy) * w + ix) * cin + ci] *
                    dout[y_base + ((image * oh + oy) * ow + ox) * cout + co];
            }
            sum += line;
        }
    return sum;
}

void main()
{
    int i = int((gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x) * gl_WorkGroupSize.x +
        gl_LocalInvocationID.x);
    if (i >= total) return;
    if (i < out_base) {
        float sum = weight(i);
        if (accumulate != 0) sum += dkernel[i];
        dkernel[i] = sum;
        return;
    }
    int co = i - out_base;
    float sum = 0.0;
    /* Lines, then images: as many roundings at the sum's own size as there are images. */
    for (int image = 0; image < n; image++) {
        float picture = 0.0;
        for (int oy = from_y; oy < to_y; oy++) {
            float line = 0.0;
            for (int ox = from_x; ox < to_x; ox++)
                line += dout[y_base + ((image * oh + oy) * ow + ox) * cout + co];
            picture += line;
        }
        sum += picture;
    }
    if (accumulate != 0) sum += dbias[co];
    dbias[co] = sum;
}
