/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Convolution with kernels of 3 x 3 and steps of one by F(4 x 4, 3 x 3) of Winograd: a block of 4 x
 * 4 output pixels is made of the 6 x 6 input pixels that it depends on with 36 products a channel
 * and column instead of 144.
 *   y = A^T [sum over channels of (B^T d B) * u] A,  u = G g G^T (winograd_pack.comp)
 * Rows of the tile are blocks. winograd_lines.comp has made d B: a store is dear to lavapipe, and
 * blocks below each other share lines. One column of the 6 x 6 products after the other is summed
 * over all channels, its six lines side by side; then it is added to the four columns of the
 * outputs.
 */
#version 450
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_shader_explicit_arithmetic_types_int64 : require
#include "linear_lanes.glsl"
#include "include/linear_epilogue.glsl"
#include "write_rows.glsl"
#include "winograd_4.glsl"

layout(std430, binding = 2) readonly buffer Bias { float bias[]; };
layout(push_constant) uniform P {
    int total;                   /* workgroups */
    int row_tiles;
    int blocks, columns;
    int channels;                /* in fours */
    /* that a holds, of all images and of one; line `lines` is of zeros */
    int lines, h;
    int out_h, out_w;
    int block_lines, block_line; /* of an image: lines of blocks, blocks of a line */
    int pad_y;
    int a_block, a_plane;        /* from block to block and from one matrix to the next, in fours */
    int c_row;
};

#define COLUMN_FOURS (GROUPS * ROW_LANES)

vec4 sums[6][SUMS][GROUPS], outputs[4][4][SUMS][GROUPS]; /* of the latter [line][pixel] */

void main()
{
    int id = int(gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x),
        lane = int(gl_SubgroupInvocationID), column_lane = lane % ROW_LANES;
    if (id >= total) return;
    int first_row = id % row_tiles * ROWS;
    int first_column = id / row_tiles * COLUMN_FOURS; /* in fours */

    int line_at[6][ROW_GROUPS];              /* of the lines of a block's input */
    /* a lane's blocks in c, negative past the last; pixels and lines that exist, 16 bits each */
    int c_at[ROW_GROUPS], c_end[ROW_GROUPS];
    [[unroll]] for (int g = 0; g < ROW_GROUPS; g++) {
        int row = first_row + g * LANES + lane, real = min(row, blocks - 1);
        int line = real / block_line, block = real - line * block_line;
        int image = line / block_lines, x = block * 4, y = (line - image * block_lines) * 4;
        [[unroll]] for (int i = 0; i < 6; i++) {
            int at = y - pad_y + i;
            line_at[i][g] = ((uint(at) < uint(h) ? image * h + at : lines) * block_line + block) *
                a_block;
        }
        c_at[g] = row < blocks ? ((image * out_h + y) * out_w + x) * c_row : -1;
        c_end[g] = min(out_h - y, 4) << 16 | min(out_w - x, 4);
    }
    /* A turn's share of b, 24 channels and lines by a tile's columns, follows what the turn
     * before took. */
    int b_at = id / row_tiles * channels * (144 * COLUMN_FOURS) + column_lane;
    [[unroll]] for (int r = 0; r < SUMS; r++) [[unroll]] for (int g = 0; g < GROUPS; g++) {
        [[unroll]] for (int p = 0; p < 6; p++) sums[p][r][g] = vec4(0.0);
        [[unroll]] for (int p = 0; p < 16; p++) outputs[p / 4][p % 4][r][g] = vec4(0.0);
    }

    int to = channels, plane = a_plane, j = 0;
    /* Loops test at their end: lavapipe would run the body of others once more, for nothing. */
    do {
        int k = 0, a_at = j * plane;
        do {
            vec4 a[6][ROW_GROUPS];
            [[unroll]] for (int g = 0; g < ROW_GROUPS; g++) {
                vec4 d[6], t[6];
                [[unroll]] for (int i = 0; i < 6; i++) d[i] = LOAD_A(line_at[i][g] + a_at);
                TIMES_B(t, d)
                [[unroll]] for (int i = 0; i < 6; i++) a[i][g] = t[i];
            }
            [[unroll]] for (int p = 0; p < 6; p++) {
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
            b_at += 24 * COLUMN_FOURS;
            a_at++;
            k++;
        } while (k < to);
        /* Column j of A. In a loop of one turn that changes the sums: lanes_gather.comp says
         * why; and behind conditions that hold: lanes_winograd_grad_4.comp says why. */
        float point = j == 1 ? 2.0 / 3.0 : j == 2 ? -2.0 / 3.0 : j == 3 ? 1.5 : j == 4 ? -1.5 : 0.0;
        float factor_0 = j == 5 ? 0.0 : 1.0, factor_2 = point * point,
            factor_3 = j == 5 ? 1.0 : factor_2 * point;
        int turn = total >> 31; /* 0, which the compiler does not know */
        do {
            [[unroll]] for (int r = 0; r < SUMS; r++) if (blocks > -r)
                [[unroll]] for (int g = 0; g < GROUPS; g++) {
                vec4 t[4];
#define SUM_OF(p) sums[p][r][g]
                TIMES_A(t, SUM_OF)
                [[unroll]] for (int y = 0; y < 4; y++) {
                    outputs[y][0][r][g] += factor_0 * t[y];
                    outputs[y][1][r][g] += point * t[y];
                    outputs[y][2][r][g] += factor_2 * t[y];
                    outputs[y][3][r][g] += factor_3 * t[y];
                }
                [[unroll]] for (int p = 0; p < 6; p++) sums[p][r][g] = vec4(0.0);
            }
            turn++;
        } while (turn < 1);
        j++;
    } while (j < 6);

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
    /* A line of pixels in each turn. */
    do {
#define EXISTS(r, x) (row_at[r] >= 0 && turn < row_end[r] >> 16 && x < (row_end[r] & 0xffff))
#define OUTPUT(r, x) (turn == 0 ? outputs[0][x][r][g] : turn == 1 ? outputs[1][x][r][g]            \
    : turn == 2 ? outputs[2][x][r][g] : outputs[3][x][r][g])
        [[unroll]] for (int r = 0; r < SUMS; r += 2) [[unroll]] for (int x = 0; x < 4; x++) {
            bool exists = EXISTS(r, x), next_exists = EXISTS(r + 1, x);
            int pixel = turn * line_out + x * row_stride, at = row_at[r] + pixel,
                next_at = row_at[r + 1] + pixel;
            [[unroll]] for (int g = 0; g < GROUPS; g++) {
                vec4 v = linear_activate(OUTPUT(r, x) + add[g]),
                    next = linear_activate(OUTPUT(r + 1, x) + add[g]);
                int column = (first_column + g * ROW_LANES + column_lane) * 4;
                WRITE_ROWS(v, next, exists, next_exists, at, next_at)
            }
        }
        turn++;
    } while (turn < 4);
}
