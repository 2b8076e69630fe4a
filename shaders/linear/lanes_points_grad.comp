/* SPDX-License-Identifier: Apache-2.0 */
/*
 * c[row, column] = sum over pixels of a[pixel, row] * b[pixel, column]: filter gradients of convolutions of 1 x 1 without strides. Of the
 * image's and dy's channels either may be the rows. lanes_grad.comp has tiles of 32 and 64 rows by 64 and 16 columns, of which
 * layers with 24 to 48 channels fill a third to a half; here they are of ROWS by GROUPS * 16. Four lanes lie along the columns; the
 * other four go through other pixels and write sums of their own. Rows and columns are multiples of four.
 */
#version 450
#extension GL_GOOGLE_include_directive : require
#include "include/linear_lanes.glsl"

layout(std430, binding = 2) writeonly buffer C { float c[]; };
layout(push_constant) uniform P {
    int total;               /* workgroups */
    int row_tiles, column_tiles;
    int rows, columns;       /* in fours */
    int pixels, split;       /* all, and for four lanes */
    int c_row, c_column, c_split; /* elements from row to row, column to column, sums to sums */
};

#define ROW_LOADS ((ROWS + ROW_LANES * 4 - 1) / (ROW_LANES * 4))
#undef SUMS
#define SUMS ROWS

void main()
{
    int id = int(gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x), lane = int(gl_SubgroupInvocationID);
    if (id >= total) return;
    int column_lane = lane % ROW_LANES, first_lane = lane - column_lane;
    int tile = id % (row_tiles * column_tiles), part = id / (row_tiles * column_tiles) * ROWS_ABREAST + lane / ROW_LANES;
    int first_row = tile % row_tiles * (ROWS / 4), first_column = tile / row_tiles * (GROUPS * ROW_LANES); /* in fours */
    int a_at[ROW_LOADS], b_at[GROUPS], a_pixel = rows, b_pixel = columns;
    [[unroll]] for (int g = 0; g < ROW_LOADS; g++) a_at[g] = min(first_row + g * ROW_LANES + column_lane, rows - 1);
    [[unroll]] for (int g = 0; g < GROUPS; g++) b_at[g] = min(first_column + g * ROW_LANES + column_lane, columns - 1);

    vec4 accumulator[SUMS][GROUPS];
    [[unroll]] for (int r = 0; r < SUMS; r++) [[unroll]] for (int g = 0; g < GROUPS; g++) accumulator[r][g] = vec4(0.0);

    int pixel = part * split, end = min(pixel + split, pixels), last = pixels - 1, turns = split / 4, turn = 0;
    do {
        vec4 a[4][ROW_LOADS], b[4][GROUPS];
        [[unroll]] for (int q = 0; q < 4; q++) {
            bool live = pixel + q < end;
            int at = min(pixel + q, last);
            [[unroll]] for (int g = 0; g < ROW_LOADS; g++) {
                a[q][g] = LOAD_A(at * a_pixel + a_at[g]);
                a[q][g] = live ? a[q][g] : vec4(0.0);
            }
            [[unroll]] for (int g = 0; g < GROUPS; g++) b[q][g] = LOAD_B(at * b_pixel + b_at[g]);
        }
        [[unroll]] for (int r = 0; r < SUMS; r++) {
            float s[4];
            int load = r / (ROW_LANES * 4), from = first_lane + r / 4 % ROW_LANES;
            TAKE_4(s, a[0][load][r % 4], a[1][load][r % 4], a[2][load][r % 4], a[3][load][r % 4], from)
            [[unroll]] for (int g = 0; g < GROUPS; g++) {
                ADD_PRODUCTS_4(accumulator[r][g], s, b[0][g], b[1][g], b[2][g], b[3][g])
            }
        }
        pixel += 4;
        turn++;
    } while (turn < turns);

    int c_first = part * c_split;
    [[unroll]] for (int g = 0; g < GROUPS; g++) {
        int column = first_column + g * ROW_LANES + column_lane;
        [[unroll]] for (int r = 0; r < SUMS; r++) {
            bool exists = column < columns && first_row + r / 4 < rows;
            int at = c_first + (first_row * 4 + r) * c_row + column * 4 * c_column;
            [[unroll]] for (int i = 0; i < 4; i++) if (exists) c[at + i * c_column] = accumulator[r][g][i];
        }
    }
}
