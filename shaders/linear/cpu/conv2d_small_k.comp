/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Convolutions whose sums have nine summands, as first layers of one channel have: y = activation(x
 * * kernel + bias), and with POOL the maxima of its 2 x 2 windows side by side, for 32 columns. A
 * lane goes through windows of its own. Made for SwiftShader, which takes a dozen instructions for
 * each float that a lane loads from a place of its own, but two for one that all of them load from
 * a place that its compiler knows. So the kernel comes as a buffer that starts with these columns.
 */
#version 450
#extension GL_EXT_control_flow_attributes : require
#extension GL_GOOGLE_include_directive : require
#include "include/division.glsl"
#include "include/linear_epilogue.glsl"
layout(local_size_x_id = 0) in;
layout(constant_id = 3) const int PADDED = 0; /* taps may fall outside of the image */
layout(constant_id = 4) const int POOL = 0;

layout(push_constant) uniform P {
    int total, first_column; /* workgroups */
    int windows, split;      /* all of them; that a lane takes */
    int line, lines;         /* windows along an image's sides */
    uint by_line, line_shift, by_lines, lines_shift;
    int in_h, in_w, out_h, out_w;
    int channels, columns; /* of x and of y */
    int kernel_w;
    int stride_y, stride_x, step_y, step_x, first_y, first_x;
};

layout(std430, binding = 0) readonly buffer X { float x_in[]; };
/* [summand][fours of the 32 columns] */
layout(std430, binding = 1) readonly buffer Kernel { vec4 kernel[]; };
layout(std430, binding = 2) readonly buffer Bias { vec4 bias[]; };
layout(std430, binding = 3) writeonly buffer Y { vec4 y[]; };
layout(std430, binding = 4) writeonly buffer Pooled { vec4 pooled[]; };

#define SUMMANDS 9

/* Four columns of what starts at `row`, negative: of nothing. Written out, as are all loops over
 * columns: those that the optimiser unrolls may hold no others, and places in the kernel have to
 * be constants. */
#define STORE(to, row, a, b, c, d)                                                                 \
    if ((row) >= 0) to[(row) + column >> 2] = vec4(a, b, c, d);

/* The sums of a window's four pixels, of column i of four. */
#define SUM(i)                                                                                     \
    linear_activate(a[0] * w0[i] + a[1] * w1[i] + a[2] * w2[i] + a[3] * w3[i] + a[4] * w4[i] +     \
        a[5] * w5[i] + a[6] * w6[i] +                                                              \
                    a[7] * w7[i] + a[8] * w8[i] + add[i])
#define MOST(v) rf_larger(rf_larger(v.x, v.y), rf_larger(v.z, v.w))
#define FOUR_COLUMNS(c)                                                                            \
    {                                                                                              \
        vec4 w0 = kernel[c], w1 = kernel[8 + c], w2 = kernel[16 + c], w3 = kernel[24 + c],         \
            w4 = kernel[32 + c];                                                                   \
        vec4 w5 = kernel[40 + c], w6 = kernel[48 + c], w7 = kernel[56 + c], w8 = kernel[64 + c],   \
            add = vec4(0.0);                                                                       \
        if (HAS_BIAS != 0) add = bias[c];                                                          \
        vec4 sum_0 = SUM(0), sum_1 = SUM(1), sum_2 = SUM(2), sum_3 = SUM(3);                       \
        int column = first_column + c * 4;                                                         \
        STORE(y, y_at[0], sum_0.x, sum_1.x, sum_2.x, sum_3.x)                                      \
        STORE(y, y_at[1], sum_0.y, sum_1.y, sum_2.y, sum_3.y)                                      \
        STORE(y, y_at[2], sum_0.z, sum_1.z, sum_2.z, sum_3.z)                                      \
        STORE(y, y_at[3], sum_0.w, sum_1.w, sum_2.w, sum_3.w)                                      \
        if (POOL != 0) STORE(pooled, pooled_at, MOST(sum_0), MOST(sum_1), MOST(sum_2),             \
            MOST(sum_3))                                                                           \
    }

void main()
{
    int id = int(gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x),
        lane = int(gl_LocalInvocationID.x);
    int lanes = int(gl_WorkGroupSize.x);
    if (id >= total) return;
    int tap_y[SUMMANDS], tap_x[SUMMANDS], tap_at[SUMMANDS];
    [[unroll]] for (int q = 0; q < SUMMANDS; q++) {
        int tap = q / channels, ky = tap / kernel_w;
        tap_y[q] = ky * step_y;
        tap_x[q] = (tap - ky * kernel_w) * step_x;
        tap_at[q] = (tap_y[q] * in_w + tap_x[q]) * channels + q - tap * channels;
    }
    int pooled_h = out_h / 2, pooled_w = out_w / 2;
    for (int turn = 0; turn < split; turn++) {
        int window = (id * split + turn) * lanes + lane, real = min(window, windows - 1);
        int all_lines = int(rf_divide(uint(real), by_line, line_shift)),
            image = int(rf_divide(uint(all_lines), by_lines, lines_shift));
        int wx = real - all_lines * line, wy = all_lines - image * lines;
        bool live = window < windows;
        int y_at[4], pooled_at = live && wy < pooled_h && wx < pooled_w
            ? ((image * pooled_h + wy) * pooled_w + wx) * columns : -1;
        vec4 a[SUMMANDS];
        [[unroll]] for (int p = 0; p < 4; p++) {
            int py = 2 * wy + (p >> 1), px = 2 * wx + (p & 1);
            y_at[p] = live && py < out_h && px < out_w
                ? ((image * out_h + py) * out_w + px) * columns : -1;
            int from_y = min(py, out_h - 1) * stride_y + first_y,
                from_x = min(px, out_w - 1) * stride_x + first_x;
            int from = ((image * in_h + from_y) * in_w + from_x) * channels;
            [[unroll]] for (int q = 0; q < SUMMANDS; q++) {
                if (PADDED != 0) {
                    int there = uint(from_y + tap_y[q]) < uint(in_h) &&
                        uint(from_x + tap_x[q]) < uint(in_w) ? -1 : 0;
                    a[q][p] = intBitsToFloat(floatBitsToInt(x_in[from + tap_at[q] & there]) &
                        there);
                } else a[q][p] = x_in[from + tap_at[q]];
            }
        }
        FOUR_COLUMNS(0)
        FOUR_COLUMNS(1)
        FOUR_COLUMNS(2)
        FOUR_COLUMNS(3)
        FOUR_COLUMNS(4)
        FOUR_COLUMNS(5)
        FOUR_COLUMNS(6)
        FOUR_COLUMNS(7)
    }
}
