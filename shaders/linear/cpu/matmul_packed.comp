/* SPDX-License-Identifier: Apache-2.0 */
/*
 * c = activation(a b + bias) of operands that panel_pack.comp has copied, for drivers that run a
 * subgroup as the lanes of a SIMD register: of a, for each tile of rows, lines of ROWS fours of
 * summands; of b, for each tile of columns, lines of fours of columns. So everything that a tile
 * loads lies in the order in which it does, whatever the operands' sizes and axes: lines of a
 * matrix, which are often a power of two apart, evict each other from the first cache before the
 * next turn has use for them.
 */
#version 450
#extension GL_GOOGLE_include_directive : require
#include "linear_lanes.glsl"
#include "include/linear_epilogue.glsl"
#include "include/exact_sum.glsl"

layout(std430, binding = 2) readonly buffer Bias { float bias[]; };
layout(std430, binding = 3) writeonly buffer C { float c[]; };
/* c once more, for rows that are multiples of four. */
layout(constant_id = 3) const int WIDE_ROWS = 0;
layout(std430, binding = 4) writeonly buffer WideC { vec4 wide_c[]; };
/* Sums of b's rows go with the product. */
layout(constant_id = 4) const int WITH_SUMS = 0;
layout(std430, binding = 5) writeonly buffer Sums { float sums[]; };
layout(push_constant) uniform P {
    int total;                     /* workgroups */
    int row_tiles, column_tiles;
    int rows, columns;
    int turns, split;              /* of four summands: of a sum, and of a part of it */
    int c_split;                   /* elements from part to part */
    int z_dim_1, z_dim_2;          /* batch dimensions: the two inner ones */
    /* their strides: panels of a, of b, elements of c */
    int a_z0, a_z1, a_z2, b_z0, b_z1, b_z2, c_z;
    int sums_at;                   /* of a part, where they are not a tensor of their own */
};

#define ROW_GROUPS (ROWS / LANES)
#define LINE (GROUPS * LANES) /* fours of b */

vec4 accumulator[SUMS][GROUPS];
#define ACCUMULATOR(i) accumulator[i][g]
#define ROW_AT(i) row_at[i]

void main()
{
    int id = int(gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x),
        lane = int(gl_SubgroupInvocationID);
    if (id >= total) return;
    uint no_bits = RF_NO_BITS(total);
    int row_tile = id % row_tiles;
    id /= row_tiles;
    int column_tile = id % column_tiles;
    id /= column_tiles;
    int parts = (turns + split - 1) / split, part = id % parts, z = id / parts;
    int z2 = z % z_dim_2, z1 = z / z_dim_2 % z_dim_1, z0 = z / z_dim_2 / z_dim_1;
    int from = part * split, left = min(split, turns - from);
    int a_at = ((z0 * a_z0 + z1 * a_z1 + z2 * a_z2 + row_tile) * turns + from) * ROWS + lane;
    int b_at = ((z0 * b_z0 + z1 * b_z1 + z2 * b_z2 + column_tile) * turns + from) * (4 * LINE) +
        lane;
    [[unroll]] for (int r = 0; r < SUMS; r++) [[unroll]] for (int g = 0; g < GROUPS; g++)
        accumulator[r][g] = vec4(0.0);
    vec4 row_sums[GROUPS], lost[GROUPS];
    [[unroll]] for (int g = 0; g < GROUPS; g++) row_sums[g] = lost[g] = vec4(0.0);

    /* Four summands a turn, and no more: with eight lavapipe loads and stores each sum half as
     * often, and yet it took 1.6 times as long, probably because the loop is more code than the
     * first cache holds. */
    do {
        vec4 a[ROW_GROUPS], b[4][GROUPS];
        [[unroll]] for (int g = 0; g < ROW_GROUPS; g++) a[g] = LOAD_A(a_at + g * LANES);
        [[unroll]] for (int q = 0; q < 4; q++) [[unroll]] for (int g = 0; g < GROUPS; g++)
            b[q][g] = LOAD_B(b_at + q * LINE + g * LANES);
        [[unroll]] for (int r = 0; r < SUMS; r++) {
            float s[4];
            TAKE_4(s, a[ROW_GROUP(r)][0], a[ROW_GROUP(r)][1], a[ROW_GROUP(r)][2],
                a[ROW_GROUP(r)][3], ROW_LANE(r))
            [[unroll]] for (int g = 0; g < GROUPS; g++) {
                ADD_PRODUCTS_4(accumulator[r][g], s, b[0][g], b[1][g], b[2][g], b[3][g])
            }
        }
        if (WITH_SUMS != 0)
            [[unroll]] for (int g = 0; g < GROUPS; g++)
                RF_ADD_EXACTLY(vec4, row_sums[g], lost[g],
                    (b[0][g] + b[1][g]) + (b[2][g] + b[3][g]), no_bits)
        a_at += ROWS;
        b_at += 4 * LINE;
        left--;
    } while (left > 0);

    int row_at[SUMS]; /* in c, negative past the last */
    [[unroll]] for (int r = 0; r < SUMS; r++) {
        int row = row_tile * ROWS + ROW_GROUP(r) * LANES + int(ROW_LANE(r));
        row_at[r] = row < rows ? row * columns : -1;
    }
    bool whole = parts == 1;
    /* 0, which the compiler does not know: why, and why there are turns, lanes_gather.comp says */
    int turn = total >> 31;
    do {
        [[unroll]] for (int g = 0; g < GROUPS; g++) {
            int column = (column_tile * LINE + g * LANES + lane) * 4;
            vec4 add = vec4(intBitsToFloat(turn));
            if (HAS_BIAS != 0) [[unroll]] for (int i = 0; i < 4; i++)
                add[i] = whole ? bias[min(column + i, columns - 1)] : 0.0;
            [[unroll]] for (int r = 0; r < SUMS; r++) accumulator[r][g] += add;
        }
        turn++;
    } while (turn < 1);
    turn = 0;
    int c_first = part * c_split + z * c_z, all_columns = columns;
    do {
        [[unroll]] for (int r = 0; r < SUMS_OF_TURN; r++) {
            int row;
            TAKE_OF_TURN(row, turn, r, ROW_AT)
            [[unroll]] for (int g = 0; g < GROUPS; g++) {
                vec4 v;
                TAKE_OF_TURN(v, turn, r, ACCUMULATOR)
                if (whole) v = linear_activate(v);
                int column = (column_tile * LINE + g * LANES + lane) * 4,
                    at = c_first + row + column;
                if (WIDE_ROWS != 0) {
                    if (row >= 0 && column < all_columns) wide_c[at >> 2] = v;
                } else [[unroll]] for (int i = 0; i < 4; i++)
                    if (row >= 0 && column + i < all_columns) c[at + i] = v[i];
            }
        }
        turn++;
    } while (turn < END_TURNS);
    if (WITH_SUMS != 0 && row_tile == 0) [[unroll]] for (int g = 0; g < GROUPS; g++) {
        int column = (column_tile * LINE + g * LANES + lane) * 4;
        [[unroll]] for (int i = 0; i < 4; i++)
            if (column + i < all_columns)
                sums[part * c_split + sums_at + column + i] = row_sums[g][i];
    }
}
