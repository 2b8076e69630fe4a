/* SPDX-License-Identifier: Apache-2.0 */
/* Adds the sums that lanes_winograd_grad_4.comp left, in order, and makes the nine taps of them.
 * Elements after those of the kernel are the bias' gradient. */
#version 450
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#include "winograd_grad_4.glsl"

layout(local_size_x_id = 0) in;
layout(binding = 0) uniform samplerBuffer parts;
layout(std430, binding = 1) writeonly buffer C { float c[]; };
layout(std430, binding = 2) writeonly buffer BiasGradient { float bias_gradient[]; };
layout(push_constant) uniform P {
    int total;             /* fours of columns times channels, and of the bias' gradient */
    int channels, columns; /* that exist */
    int row_tiles;
    int num_parts, stride; /* in fours */
    int bias_gradient_at;
};

void main()
{
    int i = int((gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x) * gl_WorkGroupSize.x +
        gl_LocalInvocationID.x);
    if (i >= total) return;
    int fours = (columns + 3) / 4, channel = i / fours, four = i - channel * fours;
    if (channel == channels) {
        vec4 sum = vec4(0.0);
        for (int part = 0; part < num_parts; part++)
            sum += texelFetch(parts, part * stride + bias_gradient_at + four);
        for (int j = 0; j < 4; j++)
            if (four * 4 + j < columns) bias_gradient[four * 4 + j] = sum[j];
        return;
    }
    int at = ((four >> 2) * row_tiles + (channel >> 4)) * (36 * 64) + (channel & 15) * 4 +
        (four & 3);
    vec4 m[36]; /* [column][line] */
    [[unroll]] for (int p = 0; p < 36; p++) m[p] = vec4(0.0);
    for (int part = 0; part < num_parts; part++) {
        [[unroll]] for (int p = 0; p < 36; p++) m[p] += texelFetch(parts, at + p * 64);
        at += stride;
    }
    vec4 t[6][3];
#define SUM_OF(y) m[x * 6 + (y)]
    [[unroll]] for (int x = 0; x < 6; x++) TIMES_G(t[x], SUM_OF)
#define COLUMN_OF(x) t[x][y]
    [[unroll]] for (int y = 0; y < 3; y++) {
        vec4 k[3];
        TIMES_G(k, COLUMN_OF)
        [[unroll]] for (int x = 0; x < 3; x++) [[unroll]] for (int j = 0; j < 4; j++)
            if (four * 4 + j < columns)
                c[((y * 3 + x) * channels + channel) * columns + four * 4 + j] = k[x][j];
    }
}
