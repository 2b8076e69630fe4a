/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Convolution with kernels of 3 x 3 and steps of one by F(2 x 2, 3 x 3) of Winograd: a block of 2 x
 * 2 output pixels is made of the 4 x 4 input pixels that it depends on with 16 products a channel
 * and column instead of 36.
 *   y = A^T [sum over channels of (B^T d B) * u] A,  u = G g G^T (winograd_pack.comp)
 * Rows of the tile are blocks. One column of the 4 x 4 products after the other is summed over all
 * channels, its four lines side by side, so that their pixels are fetched and combined once; then
 * it is added to the two columns of the outputs.
 */
#version 450
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_shader_explicit_arithmetic_types_int64 : require
#include "linear_lanes.glsl"
#include "include/linear_epilogue.glsl"
#include "write_rows.glsl"

layout(std430, binding = 2) readonly buffer Bias { float bias[]; };
layout(push_constant) uniform P {
    int total;                     /* workgroups */
    int row_tiles;
    int blocks, columns;
    int channels;                  /* in fours */
    int h, w;                      /* images that a holds */
    int out_h, out_w;
    int block_lines, block_line;   /* of an image: lines of blocks, blocks of a line */
    int padding;                   /* y | x, 16 bits each, signed */
    int a_pixel;                   /* stride of a pixel, in fours */
    int c_row;
};

#define COLUMN_FOURS (GROUPS * ROW_LANES)

vec4 sums[4][SUMS][GROUPS], outputs[4][SUMS][GROUPS];

void main()
{
    int id = int(gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x),
        lane = int(gl_SubgroupInvocationID), column_lane = lane % ROW_LANES;
    if (id >= total) return;
    int first_row = id % row_tiles * ROWS;
    int first_column = id / row_tiles * COLUMN_FOURS; /* in fours */

    /* of the lines of a block's input, negative outside of the image; their first pixel */
    int line_at[4][ROW_GROUPS], left[ROW_GROUPS];
    /* a lane's blocks in c, negative past the last; bits of pixels beyond the image */
    int c_at[ROW_GROUPS], c_end[ROW_GROUPS];
    int pad_y = padding << 16 >> 16, pad_x = padding >> 16, line_length = w,
        line_stride = w * a_pixel, pixel_stride = a_pixel;
    [[unroll]] for (int g = 0; g < ROW_GROUPS; g++) {
        int row = first_row + g * LANES + lane, real = min(row, blocks - 1);
        int line = real / block_line, x = (real - line * block_line) * 2;
        int image = line / block_lines, y = (line - image * block_lines) * 2;
        [[unroll]] for (int i = 0; i < 4; i++) {
            int at = y - pad_y + i;
            line_at[i][g] = uint(at) < uint(h) ? (image * h + at) * line_stride : -1;
        }
        left[g] = x - pad_x;
        c_at[g] = row < blocks ? ((image * out_h + y) * out_w + x) * c_row : -1;
        c_end[g] = (y + 1 < out_h ? 0 : 2) | (x + 1 < out_w ? 0 : 1);
    }
    /* A turn's share of b, 16 channels and lines by a tile's columns, follows what the turn
     * before took. */
    int b_at = id / row_tiles * channels * (64 * COLUMN_FOURS) + column_lane;
    [[unroll]] for (int p = 0; p < 4; p++) [[unroll]] for (int r = 0; r < SUMS; r++)
        [[unroll]] for (int g = 0; g < GROUPS; g++) sums[p][r][g] = outputs[p][r][g] = vec4(0.0);

    int to = channels, j = 0;
    /* Loops test at their end: lavapipe would run the body of others once more, for nothing. */
    do {
        /* Column j of B: one pixel, and another one with a sign. */
        int first = j == 0 ? 0 : j == 2 ? 2 : 1, second = j == 3 ? 3 : j == 2 ? 1 : 2;
        float sign = j == 1 ? 1.0 : -1.0;
        int at[2][4][ROW_GROUPS];
        [[unroll]] for (int g = 0; g < ROW_GROUPS; g++) [[unroll]] for (int i = 0; i < 4; i++) {
            int x0 = left[g] + first, x1 = left[g] + second;
            at[0][i][g] = line_at[i][g] >= 0 && uint(x0) < uint(line_length)
                ? line_at[i][g] + x0 * pixel_stride : -1;
            at[1][i][g] = line_at[i][g] >= 0 && uint(x1) < uint(line_length)
                ? line_at[i][g] + x1 * pixel_stride : -1;
        }
        int k = 0;
        do {
            vec4 a[4][ROW_GROUPS];
            [[unroll]] for (int g = 0; g < ROW_GROUPS; g++) {
                vec4 d[4];
                [[unroll]] for (int i = 0; i < 4; i++) {
                    vec4 p = LOAD_A(max(at[0][i][g], 0) + k), q = LOAD_A(max(at[1][i][g], 0) + k);
                    p = at[0][i][g] >= 0 ? p : vec4(0.0);
                    q = at[1][i][g] >= 0 ? q : vec4(0.0);
                    d[i] = p + sign * q;
                }
                a[0][g] = d[0] - d[2];
                a[1][g] = d[1] + d[2];
                a[2][g] = d[2] - d[1];
                a[3][g] = d[1] - d[3];
            }
            [[unroll]] for (int p = 0; p < 4; p++) {
                vec4 b[4][GROUPS];
                [[unroll]] for (int q = 0; q < 4; q += 2)
                    [[unroll]] for (int g = 0; g < GROUPS; g++) {
#define B_OF(i) (b_at + ((p * 4 + q + (i)) * GROUPS + g) * ROW_LANES)
                    LOAD_B_TWICE(b[q][g], b[q + 1][g], B_OF)
                }
                [[unroll]] for (int r = 0; r < SUMS; r++) {
                    float s[4];
                    TAKE_4(s, a[p][ROW_GROUP(r)][0], a[p][ROW_GROUP(r)][1], a[p][ROW_GROUP(r)][2],
                        a[p][ROW_GROUP(r)][3], ROW_LANE(r))
                    [[unroll]] for (int g = 0; g < GROUPS; g++) {
                        ADD_PRODUCTS_4(sums[p][r][g], s, b[0][g], b[1][g], b[2][g], b[3][g])
                    }
                }
            }
            b_at += 16 * COLUMN_FOURS;
            k++;
        } while (k < to);
        /* Column j of A. In a loop of one turn that changes the sums: lanes_gather.comp says
         * why; and behind conditions that hold: lanes_winograd_grad_4.comp says why. */
        float left_factor = j == 3 ? 0.0 : 1.0, right_factor = j == 0 ? 0.0 : j == 1 ? 1.0 : -1.0;
        int turn = total >> 31; /* 0, which the compiler does not know */
        do {
            [[unroll]] for (int r = 0; r < SUMS; r++) if (blocks > -r)
                [[unroll]] for (int g = 0; g < GROUPS; g++) {
                vec4 upper = sums[0][r][g] + sums[1][r][g] + sums[2][r][g],
                    lower = sums[1][r][g] - sums[2][r][g] - sums[3][r][g];
                outputs[0][r][g] += left_factor * upper;
                outputs[1][r][g] += right_factor * upper;
                outputs[2][r][g] += left_factor * lower;
                outputs[3][r][g] += right_factor * lower;
                [[unroll]] for (int p = 0; p < 4; p++) sums[p][r][g] = vec4(0.0);
            }
            turn++;
        } while (turn < 1);
        j++;
    } while (j < 4);

    int row_at[SUMS], row_end[SUMS];
    [[unroll]] for (int r = 0; r < SUMS; r++) {
        row_at[r] = FROM_LANE(c_at[ROW_GROUP(r)], ROW_LANE(r));
        row_end[r] = FROM_LANE(c_end[ROW_GROUP(r)], ROW_LANE(r));
    }
    int turn = total >> 31; /* 0, which the compiler does not know */
    int row_stride = c_row, line_out = out_w * c_row, all_columns = columns;
    vec4 add[GROUPS];
    [[unroll]] for (int g = 0; g < GROUPS; g++) {
        int column = (first_column + g * ROW_LANES + column_lane) * 4;
        add[g] = vec4(0.0);
        if (HAS_BIAS != 0) [[unroll]] for (int i = 0; i < 4; i++)
            add[g][i] = bias[min(column + i, all_columns - 1)];
    }
    do {
#define EXISTS(r) (row_at[r] >= 0 && (row_end[r] & turn) == 0)
#define OUTPUT(r) (turn == 0 ? outputs[0][r][g] : turn == 1 ? outputs[1][r][g] : turn == 2         \
    ? outputs[2][r][g] : outputs[3][r][g])
        int pixel = ((turn & 1) != 0 ? row_stride : 0) + (turn > 1 ? line_out : 0);
        [[unroll]] for (int r = 0; r < SUMS; r += 2) {
            bool exists = EXISTS(r), next_exists = EXISTS(r + 1);
            int at = row_at[r] + pixel, next_at = row_at[r + 1] + pixel;
            [[unroll]] for (int g = 0; g < GROUPS; g++) {
                vec4 v = linear_activate(OUTPUT(r) + add[g]),
                    next = linear_activate(OUTPUT(r + 1) + add[g]);
                int column = (first_column + g * ROW_LANES + column_lane) * 4;
                WRITE_ROWS(v, next, exists, next_exists, at, next_at)
            }
        }
        turn++;
    } while (turn < 4);
}
