/* SPDX-License-Identifier: Apache-2.0 */
/* Gradient of a convolution by its kernel and bias, as an implicit product for devices with
 * shared memory: rows are (tap, input channel) and one of ones for the bias, columns output
 * channels, summands output pixels. */
#version 450
#extension GL_GOOGLE_include_directive : require
/* the channels of a group are a multiple of four: input, */
layout(constant_id = 5) const int VECTOR_A = 0;
layout(constant_id = 6) const int VECTOR_C = 0; /* output */
#define A_ALONG_K false
#define B_ALONG_K false
#define WIDEN_A (NARROW_A && VECTOR_A != 0)
#define WIDEN_B (NARROW_B && VECTOR_C != 0)
#define STAGED_A(i) staged_a(i)
#include "include/linear_block.glsl"
#include "include/division.glsl"

BLOCK_OPERAND(a, 0) /* x */
BLOCK_OPERAND(b, 1) /* dy */
BLOCK_BIASES
layout(std430, binding = 3) writeonly buffer C { float c[]; };
layout(std430, binding = 3) writeonly buffer C4 { vec4 c4[]; };
layout(std430, binding = 6) writeonly buffer Extra { float extra[]; }; /* the bias' gradient */
layout(std430, binding = 6) writeonly buffer Extra4 { vec4 extra4[]; };
layout(push_constant) uniform P {
    int total, row_tiles, column_tiles, parts, parts_of_group, split; /* summands per part */
    int h, w, pixel, channels;       /* of a: sizes, all channels, those of a group */
    int out_h, out_w, to_line;       /* pixels; from line to line of c */
    int rows, ones, columns, length; /* of a group's product; the row of ones */
    int kw, sy, sx, dy, dx, pt, pl;
    uint channels_magic, kw_magic, out_h_magic, out_w_magic, shifts;
};
#include "include/linear_block_end.glsl"

#define PUT_EXTRA(at, x) extra[at] = x;
#define PUT_EXTRA4(at, x) extra4[at] = x;

#define STATES (VECTOR_A != 0 ? 1 : 4)
/* Tap and channel of this invocation's rows, relative to the first element that an output pixel
 * meets. */
int row_y[4], row_x[4], row_at[4];
/* Its loads: that element of the next slice's pixel; from slice to slice, line to line and image
 * to image. */
int y_at[LOADS_A], x_at[LOADS_A], at[LOADS_A];
int slice_y, slice_x, slice_at, line_at, image_at;

/* Where the loads of the present slice came from: -1 for pixels that are not there. */
ivec4 source[LOADS_A];
OPERAND4 other_rows; /* what stands for those */

OPERAND4 staged_a(int i)
{
    return mix(other_rows, ra[i],
        VECTOR_A != 0 ? bvec4(source[i].x >= 0) : greaterThanEqual(source[i], ivec4(0)));
}

void start(int first_row, int group, int from)
{
    other_rows = OPERAND4(0);
    [[unroll]] for (int j = 0; j < STATES; j++) {
        int row = first_row + LINE_OF(0, false, BM) + j,
            tap = int(rf_divide(uint(row), channels_magic, shifts & 255u));
        int ky = int(rf_divide(uint(tap), kw_magic, shifts >> 8 & 255u));
        row_y[j] = ky * dy - pt;
        row_x[j] = (tap - ky * kw) * dx - pl;
        row_at[j] = (row_y[j] * w + row_x[j]) * pixel + row - tap * channels + group * channels;
        if (row >= ones) row_y[j] = 1 << 30; /* outside */
        if (row == ones) other_rows[j] = OPERAND_ONE;
    }
#ifndef COOPERATIVE
    if (WIDEN_A) other_rows = block_words(rf_narrow(TYPE, other_rows));
#endif
    int lines = int(rf_divide(BK, out_w_magic, shifts >> 24)),
        images = int(rf_divide(uint(lines), out_h_magic, shifts >> 16 & 255u));
    slice_x = (BK - lines * out_w) * sx;
    slice_y = (lines - images * out_h) * sy;
    slice_at = ((images * h + slice_y) * w + slice_x) * pixel;
    line_at = (sy * w - out_w * sx) * pixel;
    image_at = (h - out_h * sy) * w * pixel;
    [[unroll]] for (int i = 0; i < LOADS_A; i++) {
        int k = from + K_OF(i, false, BM),
            line = int(rf_divide(uint(k), out_w_magic, shifts >> 24));
        int image = int(rf_divide(uint(line), out_h_magic, shifts >> 16 & 255u));
        y_at[i] = (line - image * out_h) * sy;
        x_at[i] = (k - line * out_w) * sx;
        at[i] = ((image * h + y_at[i]) * w + x_at[i]) * pixel;
    }
}

void load_a(int k, int to)
{
    [[unroll]] for (int i = 0; i < LOADS_A; i++) {
        [[unroll]] for (int j = 0; j < STATES; j++) {
            bool inside = uint(y_at[i] + row_y[j]) < uint(h) &&
                uint(x_at[i] + row_x[j]) < uint(w) && k + K_OF(i, false, BM) < to;
            source[i][j] = inside ? at[i] + row_at[j] : -1;
            int from = max(source[i][j], 0);
            if (VECTOR_A != 0) ra[i] = BLOCK_VECTOR(a, NARROW_A, from >> 2);
            else ra[i][j] = BLOCK_ELEMENT(a, NARROW_A, from);
        }
        x_at[i] += slice_x;
        bool wrap = x_at[i] >= out_w * sx;
        x_at[i] -= wrap ? out_w * sx : 0;
        y_at[i] += slice_y + (wrap ? sy : 0);
        at[i] += slice_at + (wrap ? line_at : 0);
        wrap = y_at[i] >= out_h * sy;
        y_at[i] -= wrap ? out_h * sy : 0;
        at[i] += wrap ? image_at : 0;
    }
}

void settle_a(int k, int to) {} /* staged_a() has zeros */

BLOCK_MATRIX(b, b, NARROW_B, rb, LOADS_B, BN, B_ALONG_K, VECTOR_C != 0)

void main()
{
    int id = int(gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x);
    if (id >= total) return;
    int tiles = row_tiles * column_tiles, part = id / tiles % parts, group = id / tiles / parts;
    ivec2 place = block_order(id % tiles, row_tiles, column_tiles);
    int first_row = place.x * BM, first_column = place.y * BN, from = part * split,
        to = min(from + split, length);
    start(first_row, group, from);
    b_start(group * columns, to_line, first_column, columns, from);
    vec4 sum[TM][TN4];
    block_multiply(from, to, sum);
    if (SPLIT != 0 && !block_add_parts(group * tiles + id % tiles, part, parts, parts_of_group,
        sum)) return;
    [[unroll]] for (int r = 0; r < TM; r++) {
        int row = first_row + block_row(r);
        if (row < ones) BLOCK_STORE_ROW(PUT_C, PUT_C4, VECTOR_C != 0, sum[r],
            row * to_line + group * columns, first_column, columns)
        else if (row < rows) BLOCK_STORE_ROW(PUT_EXTRA, PUT_EXTRA4, VECTOR_C != 0, sum[r],
            group * columns, first_column, columns)
    }
}
