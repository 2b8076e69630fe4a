/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Filter gradients of convolutions with kernels of 3 x 3 and steps of one by F(3 x 3, 2 x 2) of Winograd: what a block of 2 x 2 pixels
 * of dy and the 4 x 4 pixels of x around it add to the nine taps is made of 16 products a channel and column instead of 36.
 *   dk = A^T [sum over blocks of (B^T x B) * (G dy G^T)] A; winograd_sum.comp applies A and the factors of 1/2 that G leaves out here
 * A tile is 16 channels by 16 columns. A workgroup has a quarter of the 16 products, so that its loop fits the instruction cache: lines
 * 0 and 1 of B and G, or 3 and 2, which are the same of pixels in reverse but for a sign (of the last one's sums, too), and their
 * columns likewise. Four lanes lie along the channels and columns; the other four go through other blocks and write sums of their
 * own. A turn takes a strip of four blocks that lie side by side, and a walk all strips of an image that lie below each other: the
 * line of x that two of them share is loaded once.
 */
#version 450
#extension GL_GOOGLE_include_directive : require
#include "include/linear_lanes.glsl"

layout(std430, binding = 2) writeonly buffer C { vec4 c[]; };
layout(std430, binding = 3) writeonly buffer BiasGradient { vec4 bias_gradient[]; };
layout(push_constant) uniform P {
    int total;                    /* workgroups */
    int row_tiles, column_tiles;
    int walks, split;             /* all, and for four lanes */
    int line_strips, block_lines; /* of an image: strips of a line, lines of blocks */
    int h, w, oh, ow;
    int pad_y, pad_x;
    int a_pixel, b_pixel;         /* strides of a pixel, in fours */
    int c_split;                  /* from sums to sums of four lanes, in fours */
    int bias_gradient_at;         /* where those of dy stand in them, -1: nowhere */
};

#define BLOCKS 4
#define PIXELS (BLOCKS * 2)
#undef SUMS
#define SUMS (ROW_LANES * 4) /* of a lane, per product: its four columns by all channels */

void main()
{
    int id = int(gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x), lane = int(gl_SubgroupInvocationID), column_lane = lane % ROW_LANES;
    if (id >= total) return;
    int quarter = id % 4;
    id /= 4;
    int tile = id % (row_tiles * column_tiles), part = id / (row_tiles * column_tiles) * 2 + lane / ROW_LANES;
    int row_tile = tile % row_tiles, column_tile = tile / row_tiles;
    int a_first = min(row_tile * ROW_LANES + column_lane, a_pixel - 1), b_first = min(column_tile * ROW_LANES + column_lane, b_pixel - 1);

    int walk = part * split, end = min(walk + split, walks), turns = split;
    int image = walk / line_strips, x = (walk - image * line_strips) * PIXELS;
    bool reverse_x = (quarter & 1) != 0, reverse_y = quarter > 1;
    int step_x = reverse_x ? -1 : 1, step_y = reverse_y ? -1 : 1;
    float sign_x = reverse_x ? -1.0 : 1.0, sign_y = reverse_y ? -1.0 : 1.0;
    int first_x = reverse_x ? PIXELS + 1 - pad_x : -pad_x, first_out = reverse_x ? PIXELS - 1 : 0;
    int a_step = step_x * a_pixel, b_step = step_x * b_pixel;
    int lines = h, line_length = w, out_lines = oh, out_line = ow, steps = block_lines;
    int first_y = reverse_y ? block_lines * 2 - 1 : 0, pad = reverse_y ? pad_y - 2 : pad_y; /* where a walk starts */

    vec4 sums[4][SUMS], bias_sums = vec4(0.0); /* product: line * 2 + column */
    [[unroll]] for (int p = 0; p < 4; p++) [[unroll]] for (int r = 0; r < SUMS; r++) sums[p][r] = vec4(0.0);

#define LOAD_LINE(line, at_y)                                                                                          \
    {                                                                                                                  \
        int line_y = at_y, line_at = ((image * lines + line_y) * line_length + x + first_x) * a_pixel + a_first;       \
        bool line_inside = live && uint(line_y) < uint(lines);                                                         \
        [[unroll]] for (int p = 0; p < PIXELS + 1; p++) {                                                              \
            bool inside = line_inside && uint(x + first_x + p * step_x) < uint(line_length);                           \
            line[p] = LOAD_A(inside ? line_at + p * a_step : 0);                                                       \
            line[p] = inside ? line[p] : vec4(0.0);                                                                    \
        }                                                                                                              \
    }
#define LOAD_OUT_LINE(line, at_y)                                                                                      \
    {                                                                                                                  \
        int line_y = at_y, line_at = ((image * out_lines + line_y) * out_line + x + first_out) * b_pixel + b_first;    \
        bool line_inside = live && line_y < out_lines;                                                                 \
        [[unroll]] for (int p = 0; p < PIXELS; p++) {                                                                  \
            bool inside = line_inside && x + first_out + p * step_x < out_line;                                        \
            line[p] = LOAD_B(inside ? line_at + p * b_step : 0);                                                       \
            line[p] = inside ? line[p] : vec4(0.0);                                                                    \
        }                                                                                                              \
    }

    int turn = 0;
    /* Loops test at their end: lavapipe would run the body of others once more, for nothing. */
    do {
        bool live = walk < end;
        int y = first_y, step = 0;
        vec4 shared_line[PIXELS + 1];
        LOAD_LINE(shared_line, y - pad)
        do {
            vec4 u[4][BLOCKS], g[4][BLOCKS];
            {
                vec4 first[PIXELS], second[PIXELS];
                LOAD_OUT_LINE(first, y)
                LOAD_OUT_LINE(second, y + step_y)
                [[unroll]] for (int p = 0; p < PIXELS; p++) second[p] = first[p] + sign_y * second[p];
                [[unroll]] for (int q = 0; q < BLOCKS; q++) {
                    g[0][q] = first[q * 2];
                    g[1][q] = first[q * 2] + sign_x * first[q * 2 + 1];
                    g[2][q] = second[q * 2];
                    g[3][q] = second[q * 2] + sign_x * second[q * 2 + 1];
                    bias_sums += g[3][q];
                }
            }
            {
                vec4 first[PIXELS + 1], second[PIXELS + 1], third[PIXELS + 1];
                LOAD_LINE(second, y - pad + step_y)
                LOAD_LINE(third, y - pad + step_y * 2)
                [[unroll]] for (int p = 0; p < PIXELS + 1; p++) {
                    first[p] = shared_line[p] - third[p];
                    second[p] += sign_y * third[p];
                    shared_line[p] = third[p];
                }
                [[unroll]] for (int q = 0; q < BLOCKS; q++) {
                    u[0][q] = first[q * 2] - first[q * 2 + 2];
                    u[1][q] = first[q * 2 + 1] + sign_x * first[q * 2 + 2];
                    u[2][q] = second[q * 2] - second[q * 2 + 2];
                    u[3][q] = second[q * 2 + 1] + sign_x * second[q * 2 + 2];
                }
            }
            /* Conditions that hold, which the compiler does not know: behind each of them lavapipe writes back what it changed. At the
             * end of the turn it would write all 256 registers, which it had put on the stack meanwhile. */
            [[unroll]] for (int p = 0; p < 4; p++) if (walks > -p) {
                [[unroll]] for (int r = 0; r < SUMS; r++) {
                    float s[4];
                    TAKE_4(s, u[p][0][r % 4], u[p][1][r % 4], u[p][2][r % 4], u[p][3][r % 4], ROW_LANE(r / 4))
                    ADD_PRODUCTS_4(sums[p][r], s, g[p][0], g[p][1], g[p][2], g[p][3])
                }
            }
            y += step_y * 2;
            step++;
        } while (step < steps);
        walk++;
        x += PIXELS;
        bool next_image = x >= out_line;
        x = next_image ? 0 : x;
        image += next_image ? 1 : 0;
        turn++;
    } while (turn < turns);

    /* [sums of four lanes][tile][quarter][product][channel][column]. Not 64 bits at a time: with those around, lavapipe keeps each sum
     * in 512 bits of its stack. */
    int at = part * c_split + (tile * 4 + quarter) * (4 * 16 * ROW_LANES) + column_lane;
    [[unroll]] for (int p = 0; p < 4; p++) [[unroll]] for (int r = 0; r < SUMS; r++)
        c[at + (p * 16 + int(ROW_LANE(r / 4)) % ROW_LANES * 4 + r % 4) * ROW_LANES] = sums[p][r];
    if (bias_gradient_at >= 0 && quarter == 0 && row_tile == 0)
        bias_gradient[part * c_split + bias_gradient_at + column_tile * ROW_LANES + column_lane] = bias_sums;
}
