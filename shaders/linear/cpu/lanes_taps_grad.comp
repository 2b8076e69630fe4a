/* SPDX-License-Identifier: Apache-2.0 */
/*
 * c[tap, row, column] = sum over pixels of a[pixel, row] * b[pixel, column], where one of both is
 * shifted by the tap: filter gradients of convolutions with few channels. From the image's and dy's
 * channels either may be the rows. lanes_grad.comp has tiles of 32 and 64 rows by 64 and 16
 * columns, of which layers with 12 to 48 channels fill a third to three quarters; here they are of
 * ROWS by GROUPS * 16, for TAPS taps. Several taps lie side by side, so that what is loaded serves
 * them all: for images as large as dy, whose pixels then follow dy's at a fixed distance. Four
 * lanes lie along the columns; the other four go through other pixels and write sums of their own.
 * Rows and columns are multiples of four.
 */
#version 450
#extension GL_GOOGLE_include_directive : require
#include "linear_lanes.glsl"

/* one tap, no strides, no padding: nothing is shifted */
layout(constant_id = 1) const int POINTS = 0;
layout(constant_id = 2) const int SWAPPED = 0; /* b is the image */

layout(std430, binding = 2) writeonly buffer C { vec4 c[]; };
layout(push_constant) uniform P {
    int total;               /* workgroups */
    int row_tiles, column_tiles, tap_tiles;
    int rows, columns;       /* in fours */
    int pixels, split;       /* all, and for four lanes */
    /* elements from row to row, column to column, tap to tap, sums to sums */
    int c_row, c_column, c_tap, c_split;
    int h, w, oh, ow;
    int wide;                /* taps of a line */
    int stride_y, stride_x, dilation_y, dilation_x, pad_y, pad_x;
};

#define ROW_LOADS ((ROWS + ROW_LANES * 4 - 1) / (ROW_LANES * 4))
#undef SUMS
#define SUMS ROWS
#define PIXELS 4                    /* of dy, in a turn of the loop */
#define IMAGE_PIXELS (PIXELS + TAPS - 1)

void main()
{
    int id = int(gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x),
        lane = int(gl_SubgroupInvocationID);
    if (id >= total) return;
    int column_lane = lane % ROW_LANES, first_lane = lane - column_lane;
    int tiles = row_tiles * column_tiles * tap_tiles, tile = id % tiles,
        part = id / tiles * ROWS_ABREAST + lane / ROW_LANES;
    int tap = tile / (row_tiles * column_tiles);
    tile -= tap * (row_tiles * column_tiles);
    tap *= TAPS;
    /* in fours */
    int first_row = tile % row_tiles * (ROWS / 4),
        first_column = tile / row_tiles * (GROUPS * ROW_LANES);
    int a_at[ROW_LOADS], b_at[GROUPS], a_pixel = rows, b_pixel = columns;
    [[unroll]] for (int g = 0; g < ROW_LOADS; g++)
        a_at[g] = min(first_row + g * ROW_LANES + column_lane, rows - 1);
    [[unroll]] for (int g = 0; g < GROUPS; g++)
        b_at[g] = min(first_column + g * ROW_LANES + column_lane, columns - 1);

    vec4 accumulator[TAPS][SUMS][GROUPS];
    [[unroll]] for (int k = 0; k < TAPS; k++) [[unroll]] for (int r = 0; r < SUMS; r++)
        [[unroll]] for (int g = 0; g < GROUPS; g++)
        accumulator[k][r][g] = vec4(0.0);

    int ky = tap / wide, shift_y = ky * dilation_y - pad_y,
        shift_x = (tap - ky * wide) * dilation_x - pad_x;
    int step_y = stride_y, step_x = stride_x, x_end = ow * stride_x, y_end = oh * stride_y,
        height = h, width = w;
    int pixel = part * split, end = min(pixel + split, pixels), last = pixels - 1,
        turns = split / PIXELS, turn = 0;
    int line = pixel / ow, image = line / oh, image_line = image * h;
    /* of the image, but for the shift */
    int x = (pixel - line * ow) * step_x, y = (line - image * oh) * step_y;
    do {
        vec4 a[IMAGE_PIXELS][ROW_LOADS], b[IMAGE_PIXELS][GROUPS];
        bool live[PIXELS], inside[PIXELS][TAPS];
        [[unroll]] for (int q = 0; q < IMAGE_PIXELS; q++) {
            int out_at = min(pixel + q, last), image_at = out_at;
            if (TAPS > 1) image_at = clamp(pixel + q + shift_y * width + shift_x, 0, last);
            if (q < PIXELS) {
                live[q] = pixel + q < end;
                [[unroll]] for (int k = 0; k < TAPS; k++)
                    inside[q][k] = POINTS != 0 ||
                        (live[q] && uint(y + shift_y) < uint(height) &&
                        uint(x + shift_x + k) < uint(width));
                if (POINTS == 0) {
                    if (TAPS == 1) image_at = inside[q][0]
                        ? (image_line + y + shift_y) * width + x + shift_x : 0;
                    x += step_x;
                    bool wrap_x = x == x_end;
                    x = wrap_x ? 0 : x;
                    y += wrap_x ? step_y : 0;
                    bool wrap_y = y == y_end;
                    y = wrap_y ? 0 : y;
                    image_line += wrap_y ? height : 0;
                }
            }
            int a_first = (SWAPPED != 0 ? out_at : image_at) * a_pixel,
                b_first = (SWAPPED != 0 ? image_at : out_at) * b_pixel;
            if (q < PIXELS || SWAPPED == 0) [[unroll]] for (int g = 0; g < ROW_LOADS; g++)
                a[q][g] = LOAD_A(a_first + a_at[g]);
            if (q < PIXELS || SWAPPED != 0) [[unroll]] for (int g = 0; g < GROUPS; g++)
                b[q][g] = LOAD_B(b_first + b_at[g]);
        }
        /* A condition that holds, which the compiler does not know: lanes_winograd_grad_4.comp
         * says why. */
        [[unroll]] for (int k = 0; k < TAPS; k++) if (TAPS == 1 || total > -k) {
            vec4 ak[PIXELS][ROW_LOADS], bk[PIXELS][GROUPS];
            [[unroll]] for (int q = 0; q < PIXELS; q++) {
                [[unroll]] for (int g = 0; g < ROW_LOADS; g++)
                    ak[q][g] = live[q] && inside[q][k] ? a[SWAPPED != 0 ? q : q + k][g] : vec4(0.0);
                [[unroll]] for (int g = 0; g < GROUPS; g++) {
                    bk[q][g] = b[SWAPPED != 0 ? q + k : q][g];
                    /* A pixel elsewhere in the image that is not finite says nothing of this
                     * tap. */
                    if (POINTS == 0 && SWAPPED != 0) bk[q][g] = inside[q][k] ? bk[q][g] : vec4(0.0);
                }
            }
            [[unroll]] for (int r = 0; r < SUMS; r++) {
                float s[4];
                int load = r / (ROW_LANES * 4), from = first_lane + r / 4 % ROW_LANES;
                TAKE_4(s, ak[0][load][r % 4], ak[1][load][r % 4], ak[2][load][r % 4],
                    ak[3][load][r % 4], from)
                [[unroll]] for (int g = 0; g < GROUPS; g++) {
                    ADD_PRODUCTS_4(accumulator[k][r][g], s, bk[0][g], bk[1][g], bk[2][g], bk[3][g])
                }
            }
        }
        pixel += PIXELS;
        turn++;
    } while (turn < turns);

    /* Fours that follow each other in c: of columns, or of rows. */
    int c_first = part * c_split + tap * c_tap, k = 0;
    do {
        [[unroll]] for (int g = 0; g < GROUPS; g++) {
            int column = first_column + g * ROW_LANES + column_lane;
            [[unroll]] for (int r = 0; r < SUMS; r++) {
                vec4 v;
                [[unroll]] for (int i = 0; i < 4; i++) {
#define SUM_OF(k) (SWAPPED != 0 ? accumulator[k][r / 4 * 4 + i][g][r % 4] : accumulator[k][r][g][i])
                    v[i] = SUM_OF(0);
                    [[unroll]] for (int t = 1; t < TAPS; t++) v[i] = k == t ? SUM_OF(t) : v[i];
                }
                int at = c_first + (SWAPPED != 0
                    ? first_row * 4 + r / 4 * 4 + (column * 4 + r % 4) * c_column
                    : (first_row * 4 + r) * c_row + column * 4);
                if (column < columns && first_row + r / 4 < rows) c[at >> 2] = v;
            }
        }
        c_first += c_tap;
        k++;
    } while (k < TAPS);
}
