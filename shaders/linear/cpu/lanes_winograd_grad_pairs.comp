/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Filter gradients of convolutions with kernels of 3 x 3 and steps of one by F(3 x 3, 4 x 4) of
 * Winograd: what a block of 4 x 4 pixels of dy and the 6 x 6 pixels of x around it add to the nine
 * taps is made of 36 products a channel and column instead of 144.
 *   dk = G^T [sum over blocks of (B^T x B) * (A dy A^T)] G; winograd_sum_4.comp applies G
 * As lanes_winograd_grad_4.comp, without matrices of transformed lines: images of few channels are
 * read anew for each workgroup of a tile in less time than such matrices take to write.
 * A tile is 16 channels by 16 columns, of which a workgroup has two lines of the products: 1 and 2,
 * 3 and 4, or 0 and 5. Four lanes lie along the columns, and each half of them has half of the
 * channels. A turn takes two blocks that lie below each other, of two images sometimes; a walk all
 * those that lie beside each other: the two columns of x that neighbours share are loaded once.
 */
#version 450
#extension GL_GOOGLE_include_directive : require
#include "linear_lanes.glsl"
#include "winograd_grad_4.glsl"
#include "include/exact_sum.glsl"

layout(std430, binding = 2) writeonly buffer C { vec4 c[]; };
layout(std430, binding = 3) writeonly buffer BiasGradient { vec4 bias_gradient[]; };
layout(push_constant) uniform P {
    int total;                    /* workgroups */
    int row_tiles, column_tiles;
    int positions;                /* lines of blocks of all images */
    int walks, split;             /* along two of them: all, and of a workgroup */
    int block_lines, line_blocks; /* of an image: lines of blocks, blocks of a line */
    int h, w, oh, ow;
    int pad_y, pad_x;
    int a_pixel, b_pixel;         /* strides of a pixel, in fours */
    int c_split;                  /* from sums to sums, in fours */
    int bias_gradient_at;         /* where those of dy stand in them, -1: nowhere */
};

#define NOWHERE (-0x40000000) /* less than 0 with any place added, and twice */
#undef SUMS
/* of a lane, per product: its four columns by the channels of its half */
#define SUMS (ROWS / 2)

void main()
{
    int id = int(gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x),
        lane = int(gl_SubgroupInvocationID), place = lane % ROW_LANES, half_ = lane / ROW_LANES;
    if (id >= total) return;
    uint no_bits = RF_NO_BITS(total);
    int pair = id % 3;
    id /= 3;
    int tile = id % (row_tiles * column_tiles), part = id / (row_tiles * column_tiles);
    int row_tile = tile % row_tiles, column_tile = tile / row_tiles;
    /* A half loads its channels of two blocks, and the columns of one. */
    int a_first = min(row_tile * ROW_LANES + half_ * 2 + (place & 1), a_pixel - 1),
        b_first = min(column_tile * ROW_LANES + place, b_pixel - 1);
    int a_stride = a_pixel, b_stride = b_pixel, a_length = w, b_length = ow,
        all_positions = positions, all_walks = walks, steps = line_blocks;
    int first_x = -pad_x, walk = part * split, end = min(walk + split, walks);

    /* The two lines of B^T and of A. */
#define OF_PAIR(x, y, z) (pair == 0 ? x : pair == 1 ? y : z)
    float u[6][2], v[4][2];
    u[0][0] = OF_PAIR(0.0, 0.0, 1.0);
    u[1][0] = OF_PAIR(-1.0, -2.0, -1.5);
    u[2][0] = OF_PAIR(0.5, -1.0, -2.0);
    u[3][0] = OF_PAIR(2.5, 2.0, 1.5);
    u[4][0] = 1.0;
    u[5][0] = 0.0;
    u[0][1] = 0.0;
    u[1][1] = OF_PAIR(1.0, 0.5, 1.0);
    u[2][1] = OF_PAIR(-2.5, -1.0, -1.5);
    u[3][1] = OF_PAIR(0.5, -0.5, -2.0);
    u[4][1] = OF_PAIR(1.0, 1.0, 1.5);
    u[5][1] = OF_PAIR(0.0, 0.0, 1.0);
    v[0][0] = 1.0;
    v[1][0] = OF_PAIR(1.0, 0.5, 0.0);
    v[2][0] = OF_PAIR(1.0, 0.25, 0.0);
    v[3][0] = OF_PAIR(1.0, 0.125, 0.0);
    v[0][1] = OF_PAIR(1.0, 1.0, 0.0);
    v[1][1] = OF_PAIR(-1.0, -2.0, 0.0);
    v[2][1] = OF_PAIR(1.0, 4.0, 0.0);
    v[3][1] = OF_PAIR(-1.0, -8.0, 1.0);

    vec4 sums[12][SUMS], bias_sums = vec4(0.0), lost = vec4(0.0); /* product: line * 6 + column */
    [[unroll]] for (int p = 0; p < 12; p++) [[unroll]] for (int r = 0; r < SUMS; r++)
        sums[p][r] = vec4(0.0);

    /* `to` = both lines of the pixels that lie below each other at `at_x`. */
#define LOAD_PIXELS(to, count, LOAD, line_at, factors, at_x, length, stride)                       \
    {                                                                                              \
        int pixel_x = at_x, from_line = uint(pixel_x) < uint(length) ? pixel_x * stride : NOWHERE; \
        [[unroll]] for (int n = 0; n < count; n++) {                                               \
            int at = line_at[n] + from_line;                                                       \
            vec4 pixel = LOAD(max(at, 0));                                                         \
            pixel = at >= 0 ? pixel : vec4(0.0);                                                   \
            [[unroll]] for (int l = 0; l < 2; l++)                                                 \
                to[l] = n == 0 ? factors[n][l] * pixel : to[l] + factors[n][l] * pixel;            \
        }                                                                                          \
    }
#define LOAD_X(to, at_x) LOAD_PIXELS(to, 6, LOAD_A, a_line, u, at_x, a_length, a_stride)
#define LOAD_DY(to, at_x) LOAD_PIXELS(to, 4, LOAD_B, b_line, v, at_x, b_length, b_stride)

    /* Loops test at their end: lavapipe would run the body of others once more, for nothing. */
    do {
        int a_line[6], b_line[4]; /* where lines of a lane's block start */
        {
            int position = walk * 2 + (place >> 1), image = position / block_lines,
                first_y = (position - image * block_lines) * 4 - pad_y;
            [[unroll]] for (int i = 0; i < 6; i++) {
                bool inside = position < all_positions && uint(first_y + i) < uint(h);
                a_line[i] = inside ? (image * h + first_y + i) * a_length * a_stride + a_first
                    : NOWHERE;
            }
            position = walk * 2 + half_;
            image = position / block_lines;
            first_y = (position - image * block_lines) * 4;
            [[unroll]] for (int i = 0; i < 4; i++) {
                bool inside = position < all_positions && first_y + i < oh;
                b_line[i] = inside ? (image * oh + first_y + i) * b_length * b_stride + b_first
                    : NOWHERE;
            }
        }
        int x = first_x, out_x = 0, step = 0;
        vec4 shared_pixels[2][2];
        LOAD_X(shared_pixels[0], x)
        LOAD_X(shared_pixels[1], x + 1)
        do {
            vec4 a[2][6], b[2][6];
            {
                vec4 d[6][2];
                [[unroll]] for (int i = 2; i < 6; i++) LOAD_X(d[i], x + i)
                [[unroll]] for (int l = 0; l < 2; l++) {
                    vec4 e[6];
                    [[unroll]] for (int i = 0; i < 6; i++)
                        e[i] = i < 2 ? shared_pixels[i][l] : d[i][l];
                    TIMES_B(a[l], e)
                    shared_pixels[0][l] = d[4][l];
                    shared_pixels[1][l] = d[5][l];
                }
            }
            {
                vec4 d[4][2];
                [[unroll]] for (int i = 0; i < 4; i++) LOAD_DY(d[i], out_x + i)
                [[unroll]] for (int l = 0; l < 2; l++) {
                    vec4 e[4];
                    [[unroll]] for (int i = 0; i < 4; i++) e[i] = d[i][l];
                    TIMES_A_PIXELS(b[l], e)
                }
                RF_ADD_EXACTLY(vec4, bias_sums, lost, b[0][1], no_bits)
            }
            /* Conditions that hold, which the compiler does not know: lanes_winograd_grad_4.comp
             * says why. */
            [[unroll]] for (int p = 0; p < 12; p++) if (all_walks > -p) {
                vec4 first = FROM_LANE(b[p / 6][p % 6], place),
                    second = FROM_LANE(b[p / 6][p % 6], place + ROW_LANES);
                [[unroll]] for (int r = 0; r < SUMS; r++) {
                    uint from = gl_SubgroupInvocationID & 4u | (gl_SubgroupInvocationID & 1u) ^
                        uint(r / 4);
                    float s = FROM_LANE(a[p / 6][p % 6][r % 4], from),
                        t = FROM_LANE(a[p / 6][p % 6][r % 4], from | 2u);
                    [[unroll]] for (int i = 0; i < 4; i++) {
                        sums[p][r][i] += s * first[i];
                        sums[p][r][i] += t * second[i];
                    }
                }
            }
            x += 4;
            out_x += 4;
            step++;
        } while (step < steps);
        walk++;
    } while (walk < end);

    /* [part][tile][column of the products][line][channel][column]. Not 64 bits at a time: with
     * those around, lavapipe keeps each sum in 512 bits of its stack. */
    int at = part * c_split + tile * (36 * 16 * ROW_LANES) + place;
    [[unroll]] for (int p = 0; p < 12; p++) {
        int line = p < 6 ? OF_PAIR(1, 3, 0) : OF_PAIR(2, 4, 5);
        [[unroll]] for (int r = 0; r < SUMS; r++)
            c[at + ((p % 6 * 6 + line) * 16 + half_ * 8 + ((place & 1) ^ (r / 4)) * 4 + r % 4) *
                ROW_LANES] = sums[p][r];
    }
    bias_sums += FROM_LANE(bias_sums, lane ^ ROW_LANES);
    if (bias_gradient_at >= 0 && pair == 0 && row_tile == 0 && half_ == 0)
        bias_gradient[part * c_split + bias_gradient_at + column_tile * ROW_LANES + place] =
            bias_sums;
}
