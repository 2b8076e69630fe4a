/* SPDX-License-Identifier: Apache-2.0 */
/* Adds the sums that lanes_winograd_grad.comp left, in order, and makes the nine taps of them. Elements after those of the kernel are
 * the bias' gradient. */
#version 450
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require

layout(local_size_x_id = 0) in;
layout(std430, binding = 0) readonly buffer Parts { vec4 parts[]; };
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
    int i = int((gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x) * gl_WorkGroupSize.x + gl_LocalInvocationID.x);
    if (i >= total) return;
    int fours = (columns + 3) / 4, channel = i / fours, four = i - channel * fours;
    if (channel == channels) {
        vec4 sum = vec4(0.0);
        for (int part = 0; part < num_parts; part++) sum += parts[part * stride + bias_gradient_at + four];
        for (int j = 0; j < 4; j++)
            if (four * 4 + j < columns) bias_gradient[four * 4 + j] = sum[j];
        return;
    }
    int at = ((four >> 2) * row_tiles + (channel >> 4)) * (16 * 64) + (channel & 15) * 4 + (four & 3);
    vec4 m[16];
    [[unroll]] for (int p = 0; p < 16; p++) m[p] = vec4(0.0);
    for (int part = 0; part < num_parts; part++) {
        [[unroll]] for (int p = 0; p < 16; p++) m[p] += parts[at + p * 64];
        at += stride;
    }
    /* Quarters have products of lines 0 and 1 or 3 and 2, of columns likewise; number 2 has the wrong sign. */
    vec4 t[3][4];
#define PRODUCT(y, x) m[((y) / 2 * 2 + (x) / 2) * 4 + ((y) < 2 ? (y) : 3 - (y)) * 2 + ((x) < 2 ? (x) : 3 - (x))]
    [[unroll]] for (int x = 0; x < 4; x++) {
        vec4 sum = 0.5 * (PRODUCT(1, x) - PRODUCT(2, x)), difference = 0.5 * (PRODUCT(1, x) + PRODUCT(2, x));
        float sign = x == 2 ? -1.0 : 1.0;
        t[0][x] = sign * (PRODUCT(0, x) + sum);
        t[1][x] = sign * difference;
        t[2][x] = sign * (sum + PRODUCT(3, x));
    }
    [[unroll]] for (int y = 0; y < 3; y++) {
        vec4 sum = 0.5 * (t[y][1] + t[y][2]), k[3];
        k[0] = t[y][0] + sum;
        k[1] = 0.5 * (t[y][1] - t[y][2]);
        k[2] = sum + t[y][3];
        [[unroll]] for (int x = 0; x < 3; x++) [[unroll]] for (int j = 0; j < 4; j++)
            if (four * 4 + j < columns) c[((y * 3 + x) * channels + channel) * columns + four * 4 + j] = k[x][j];
    }
}
