/* SPDX-License-Identifier: Apache-2.0 */
/*
 * c[row][column] = activation(sum of a[row's pixel of each tap][channel] * b[tap][channel][column]
 * + bias), as lanes_gather.comp, in the way of register_resident.glsl: for 32 channels of one tap
 * after the other a workgroup adds to what it has left in c. Taps in the padding are left out.
 */
#version 450
#extension GL_GOOGLE_include_directive : require
#include "register_resident.glsl"
#include "include/linear_epilogue.glsl"

layout(local_size_x_id = 0) in;
layout(std430, binding = 0) readonly buffer A { Eight a[]; };
layout(std430, binding = 1) readonly buffer B { Eight b[]; };
layout(std430, binding = 2) readonly buffer Bias { Eight bias[]; };
layout(std430, binding = 3) buffer C { Eight c[]; };
layout(push_constant) uniform P {
    int total;             /* workgroups */
    int line_tiles, tiles; /* of rows, of columns */
    int lines, split;      /* of out_w rows: all, of a tile */
    int eights;            /* of channels */
    int high, wide;        /* taps */
    int h, w, out_h, out_w;
    int step_y, step_x, dilation_y, dilation_x, pad_y, pad_x;
    int b_base, b_tap; /* in eights */
};

/* Output pixels whose tap falls into the image, along a side. */
ivec2 reach(int tap, int stride, int size, int out_size)
{
    return ivec2(max((stride - 1 - tap) / stride, 0),
        min((size - tap + stride - 1) / stride, out_size));
}

#define END_ROWS(ACTIVATE)                                                                         \
    for (int row = from_row; row < end_row; row++) {                                               \
        Eight sum = c[row * c_row + column];                                                       \
        c[row * c_row + column] = Eight(ACTIVATE(sum.low), ACTIVATE(sum.high));                    \
    }

void main()
{
    int id = int(gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x),
        lane = int(gl_SubgroupInvocationID);
    if (id >= total) return;
    int first_line = id % line_tiles * split, end_line = min(first_line + split, lines),
        tile = id / line_tiles;
    int c_row = tiles * 4, column = tile * 4 + lane, from_row = first_line * out_w,
        end_row = end_line * out_w;
    Eight held[SUMMANDS], add = Eight(vec4(0.0), vec4(0.0));
    if (HAS_BIAS != 0) add = bias[column];
    for (int row = from_row; row < end_row; row++) c[row * c_row + column] = add;
    int ky = 0, kx = 0, eight = 0, first_image = first_line / out_h,
        first_y = first_line - first_image * out_h;
    while (ky < high) {
        int b_at = b_base + (ky * wide + kx) * b_tap + eight * 8 * c_row + column;
        for (int i = 0; i < SUMMANDS; i++) held[i] = b[b_at + HELD_SUMMAND(i) * c_row];
        /* Nothing but rows that have the tap: SwiftShader goes through what a condition leaves
         * out. */
        int tap_y = ky * dilation_y - pad_y, tap_x = kx * dilation_x - pad_x;
        ivec2 ys = reach(tap_y, step_y, h, out_h), xs = reach(tap_x, step_x, w, out_w);
        int image = first_image, y = max(first_y, ys.x), x = xs.x;
        int wrap = int(y >= ys.y);
        image += wrap;
        y = wrap * ys.x + (1 - wrap) * y;
        int end = ys.x < ys.y && xs.x < xs.y ? end_line : 0;
        while (image * out_h + y < end) {
            int at = ((image * h + y * step_y + tap_y) * w + x * step_x + tap_x) * eights + eight +
                lane;
            int to = ((image * out_h + y) * out_w + x) * c_row + column;
            Eight sum = c[to], value = a[at];
            vec4 low = sum.low, high = sum.high;
            ADD_ROW_HELD(value.low, value.high)
            c[to] = Eight(low, high);
            x++;
            wrap = int(x == xs.y);
            x -= wrap * (xs.y - xs.x);
            y += wrap;
            wrap = int(y == ys.y);
            y -= wrap * (ys.y - ys.x);
            image += wrap;
        }
        eight += 4;
        int next = int(eight == eights);
        eight *= 1 - next;
        kx += next;
        next = int(kx == wide);
        kx *= 1 - next;
        ky += next;
    }
    /* Not as one loop: the functions that return early stay in a specialized module, whatever
     * the constant. */
    if (ACTIVATION == 1) END_ROWS(rf_relu)
    if (ACTIVATION > 1) END_ROWS(linear_activate)
}
