/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Filter gradients of convolutions with kernels of 3 x 3 and steps of one by F(3 x 3, 4 x 4) of
 * Winograd: what a block of 4 x 4 pixels of dy and the 6 x 6 pixels of x around it add to the nine
 * taps is made of 36 products a channel and column instead of 144.
 *   dk = G^T [sum over blocks of (B^T x B) * (A dy A^T)] G; winograd_sum_4.comp applies G
 * winograd_walks.comp has made x B and dy A^T. A tile is 16 channels by 16 columns, of which a
 * workgroup has one column of the products, six lines. Four lanes lie along the columns and each
 * half of them has half of the channels; of four lanes, each workgroup has half of the channels. A
 * turn takes four blocks that lie side by side, in images beside each other, too; a walk all those
 * that lie below each other: the two lines of x that they share are loaded once.
 */
#version 450
#extension GL_GOOGLE_include_directive : require
#include "linear_lanes.glsl"
#include "winograd_grad_4.glsl"
#include "include/exact_sum.glsl"

layout(std430, binding = 2) writeonly buffer C { vec4 c[]; };
layout(std430, binding = 3) writeonly buffer BiasGradient { vec4 bias_gradient[]; };
layout(push_constant) uniform P {
    int total;                  /* workgroups of eight lanes */
    int row_tiles, column_tiles;
    int walks, split;           /* all, and of a workgroup */
    int block_lines;            /* lines of blocks of an image */
    int h, oh;
    int pad_y;
    int a_tile, b_tile;         /* from sixteen channels or columns to the next, in fours */
    /* from one matrix to the next, whose last line is of zeros, in fours */
    int a_plane, b_plane;
    int c_split;                /* from sums to sums, in fours */
    int bias_gradient_at;       /* where those of dy stand in them, -1: nowhere */
};

#define LINE (4 * ROW_LANES) /* fours of a line of four blocks */
#define PAIRS 2        /* of blocks that a turn takes */
#define HALVES (LANES / ROW_LANES)

void main()
{
    int id = int(gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x),
        lane = int(gl_SubgroupInvocationID), place = lane % ROW_LANES, half_ = lane / ROW_LANES;
    if (HALVES == 1) {
        half_ = id & 1;
        id >>= 1;
    }
    if (id >= total) return;
    uint no_bits = RF_NO_BITS(total);
    int j = id % 6;
    id /= 6;
    int tile = id % (row_tiles * column_tiles), part = id / (row_tiles * column_tiles);
    int row_tile = tile % row_tiles, column_tile = tile / row_tiles;
    /* A half loads its channels of two blocks, and the columns of one, or of both. */
    int a_lane = (place >> 1) * ROW_LANES + half_ * 2 + (place & 1), b_lane = lane;
    int a_zeros = (j + 1) * a_plane - LINE + a_lane, b_zeros = (j + 1) * b_plane - LINE + b_lane;
    int a_lines = h, b_lines = oh, all_walks = walks, steps = block_lines, first_y = -pad_y;
    int walk = part * split, end = min(walk + split, walks);
    int a_at = j * a_plane + row_tile * a_tile + walk * a_lines * LINE + a_lane,
        b_at = j * b_plane + column_tile * b_tile + walk * b_lines * LINE + b_lane;

    vec4 sums[6][SUMS], bias_sums = vec4(0.0), lost = vec4(0.0);
    [[unroll]] for (int p = 0; p < 6; p++) [[unroll]] for (int r = 0; r < SUMS; r++)
        sums[p][r] = vec4(0.0);

#define LOAD_LINE(to, at_y)                                                                        \
    {                                                                                              \
        int line_y = at_y, line_at = uint(line_y) < uint(a_lines) ? a_at + line_y * LINE           \
            : a_zeros;                                                                             \
        [[unroll]] for (int t = 0; t < PAIRS; t++) to[t] = LOAD_A(line_at + t * 2 * ROW_LANES);    \
    }

    /* Loops test at their end: lavapipe would run the body of others once more, for nothing. */
    do {
        int y = first_y, out_y = 0, step = 0;
        vec4 shared_lines[2][PAIRS];
        LOAD_LINE(shared_lines[0], y)
        LOAD_LINE(shared_lines[1], y + 1)
        do {
            vec4 a[PAIRS][6], b[PAIRS][6], b_beside[PAIRS][6];
            {
                vec4 d[6][PAIRS];
                [[unroll]] for (int i = 2; i < 6; i++) LOAD_LINE(d[i], y + i)
                [[unroll]] for (int t = 0; t < PAIRS; t++) {
                    vec4 e[6];
                    [[unroll]] for (int i = 0; i < 6; i++)
                        e[i] = i < 2 ? shared_lines[i][t] : d[i][t];
                    TIMES_B(a[t], e)
                    shared_lines[0][t] = d[4][t];
                    shared_lines[1][t] = d[5][t];
                }
            }
            {
                vec4 d[4][PAIRS], d_beside[4][PAIRS];
                [[unroll]] for (int i = 0; i < 4; i++) {
                    int line_at = out_y + i < b_lines ? b_at + (out_y + i) * LINE : b_zeros;
                    [[unroll]] for (int t = 0; t < PAIRS; t++) {
                        d[i][t] = LOAD_B(line_at + t * 2 * ROW_LANES);
                        if (HALVES == 1) d_beside[i][t] = LOAD_B(line_at + (t * 2 + 1) * ROW_LANES);
                    }
                }
                [[unroll]] for (int t = 0; t < PAIRS; t++) {
                    vec4 e[4];
                    [[unroll]] for (int i = 0; i < 4; i++) e[i] = d[i][t];
                    TIMES_A_PIXELS(b[t], e)
                    if (HALVES == 1) {
                        [[unroll]] for (int i = 0; i < 4; i++) e[i] = d_beside[i][t];
                        TIMES_A_PIXELS(b_beside[t], e)
                    }
                }
                vec4 of_turn = b[0][1];
                [[unroll]] for (int t = 1; t < PAIRS; t++) of_turn += b[t][1];
                if (HALVES == 1)
                    [[unroll]] for (int t = 0; t < PAIRS; t++) of_turn += b_beside[t][1];
                RF_ADD_EXACTLY(vec4, bias_sums, lost, of_turn, no_bits)
            }
            /* Conditions that hold, which the compiler does not know: behind each of them
             * lavapipe writes back what it changed. At the end of the turn it would write all
             * sums, which it had put on the stack meanwhile. */
            [[unroll]] for (int p = 0; p < 6; p++) if (all_walks > -p) {
                vec4 f[PAIRS][2];
                [[unroll]] for (int t = 0; t < PAIRS; t++) {
                    f[t][0] = b[t][p];
                    f[t][1] = b_beside[t][p];
                    if (HALVES == 2) {
                        f[t][0] = FROM_LANE(b[t][p], place);
                        f[t][1] = FROM_LANE(b[t][p], place + ROW_LANES);
                    }
                }
                [[unroll]] for (int r = 0; r < SUMS; r++) {
                    float s[4];
                    uint from = gl_SubgroupInvocationID & 4u | (gl_SubgroupInvocationID & 1u) ^
                        uint(r / 4);
                    s[0] = FROM_LANE(a[0][p][r % 4], from);
                    s[1] = FROM_LANE(a[0][p][r % 4], from | 2u);
                    s[2] = FROM_LANE(a[1][p][r % 4], from);
                    s[3] = FROM_LANE(a[1][p][r % 4], from | 2u);
                    ADD_PRODUCTS_4(sums[p][r], s, f[0][0], f[0][1], f[1][0], f[1][1])
                }
            }
            y += 4;
            out_y += 4;
            step++;
        } while (step < steps);
        a_at += a_lines * LINE;
        b_at += b_lines * LINE;
        walk++;
    } while (walk < end);

    /* [part][tile][column of the products][line][channel][column]. Not 64 bits at a time: with
     * those around, lavapipe keeps each sum in 512 bits of its stack. */
    int at = part * c_split + (tile * 6 + j) * (6 * 16 * ROW_LANES) + place;
    [[unroll]] for (int p = 0; p < 6; p++) [[unroll]] for (int r = 0; r < SUMS; r++)
        c[at + (p * 16 + half_ * 8 + ((place & 1) ^ (r / 4)) * 4 + r % 4) * ROW_LANES] = sums[p][r];
    if (HALVES == 2) bias_sums += FROM_LANE(bias_sums, lane ^ ROW_LANES);
    if (bias_gradient_at >= 0 && j == 1 && row_tile == 0 && half_ == 0)
        bias_gradient[part * c_split + bias_gradient_at + column_tile * ROW_LANES + place] =
            bias_sums;
}
