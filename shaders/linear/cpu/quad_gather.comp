/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lanes_gather.comp for subgroups that are one quad: the same product, push constants and bindings.
 * Rows come in the order of pixels, and b as it is stored. -DSCALAR_A: any number of channels, read
 * one by one.
 */
#version 450
#extension GL_GOOGLE_include_directive : require
#include "linear_quad.glsl"
#include "include/linear_epilogue.glsl"
layout(constant_id = 3) const int SPREAD = 0;

layout(std430, binding = 2) readonly buffer Bias { float bias[]; };
layout(std430, binding = 3) buffer C { float c[]; };
layout(constant_id = 4) const int WIDE_ROWS = 0;
layout(std430, binding = 4) buffer WideC { vec4 wide_c[]; };
layout(push_constant) uniform P {
    int total;                     /* workgroups */
    int row_tiles, column_tiles;
    int rows, columns;
    int channels;                  /* per tap, in loads: fours, or ones with SCALAR_A */
    int taps;                      /* high | width */
    int h, w;                      /* images that a holds */
    int pixels, width;             /* of one output image: all, and of a line */
    int steps;                     /* stride y | stride x | up y | up x, a byte each */
    int dilation, padding;         /* y | x, 16 bits each, signed */
    int a_pixel;                   /* stride of a pixel, in loads */
    int b_base, b_tap, b_row, b_last; /* in fours; b_row: stride of a channel; last row */
    int c_row;
    int z_dim_1, z_dim_2;          /* batch dimensions (groups): the two inner ones */
    /* their strides: loads of a, fours of b, elements of c and bias */
    int a_z0, a_z1, a_z2, b_z0, b_z1, b_z2, c_z, bias_z;
    /* channels per part when k is split; elements from part to part */
    int split, c_split;
};

#define ROW_GROUPS (ROWS / 4)
#ifdef SCALAR_A
#define STEP 3 /* kernels of 3 x 3 divide evenly */
#define ADD_STEP ADD_3
#else
#define STEP 8
#define ADD_STEP ADD_8
#endif

/* Line, column and first line of the image that tap 0 of an output pixel reads. */
ivec3 locate(int row)
{
    int image = row / pixels, pixel = row - image * pixels, y = pixel / width,
        x = pixel - y * width;
    return ivec3(y * (steps & 255) - (padding << 16 >> 16),
        x * (steps >> 8 & 255) - (padding >> 16), image * h);
}

/* First load of the pixel that tap (ky, kx) reads; -1 in the padding or between strides. */
int address(ivec3 from, int ky, int kx)
{
    int y = from.x + ky * (dilation << 16 >> 16), x = from.y + kx * (dilation >> 16);
    int up_y = steps >> 16 & 255, up_x = steps >> 24 & 255;
    bool inside = true;
    if (SPREAD != 0) {
        int ty = y / up_y, tx = x / up_x;
        inside = y >= 0 && x >= 0 && ty * up_y == y && tx * up_x == x;
        y = ty;
        x = tx;
    }
    inside = inside && uint(y) < uint(h) && uint(x) < uint(w);
    return inside ? ((from.z + y) * w + x) * a_pixel : -1;
}

void main()
{
    int id = int(gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x),
        lane = int(gl_SubgroupInvocationID);
    if (id >= total) return;
    int first_row = id % row_tiles * ROWS;
    id /= row_tiles;
    int first_column = id % column_tiles * (GROUPS * 4); /* in fours */
    id /= column_tiles;
    int parts = (channels + split - 1) / split, part = id % parts, z = id / parts;
    int z2 = z % z_dim_2, z1 = z / z_dim_2 % z_dim_1, z0 = z / z_dim_2 / z_dim_1;
    int a_first = z0 * a_z0 + z1 * a_z1 + z2 * a_z2,
        b_first = b_base + z0 * b_z0 + z1 * b_z1 + z2 * b_z2;

    ivec3 sources[ROW_GROUPS];
    [[unroll]] for (int r = 0; r < ROW_GROUPS; r++)
        sources[r] = locate(min(first_row + r * 4 + lane, rows - 1));
    int b_column[GROUPS * 4];
    [[unroll]] for (int g = 0; g < GROUPS; g++) {
        b_column[g] = b_first + min(first_column + g * 4 + lane, (columns + 3) / 4 - 1);
    }
    float sums[ROW_GROUPS][4][GROUPS][4];
    [[unroll]] for (int r = 0; r < ROW_GROUPS; r++) [[unroll]] for (int x = 0; x < 4; x++)
        [[unroll]] for (int g = 0; g < GROUPS; g++) [[unroll]] for (int i = 0; i < 4; i++)
            sums[r][x][g][i] = 0.0;

    int high = taps & 65535, wide = taps >> 16, ky = 0, kx = 0;
#ifdef SCALAR_A
    int channel = 0, summands = high * wide * channels;
    for (int k = 0; k < summands; k += STEP) {
        float a[ROW_GROUPS][4][STEP];
        int b_at[STEP];
        /* No branch, not even a conditional expression: with a few dozen of them among so many
         * values SwiftShader takes minutes to compile this. */
        [[unroll]] for (int q = 0; q < STEP; q++) {
            bool live = k + q < summands;
            [[unroll]] for (int r = 0; r < ROW_GROUPS; r++) {
                int y = sources[r].x + ky * (dilation << 16 >> 16),
                    x = sources[r].y + kx * (dilation >> 16);
                bool inside = all(bvec3(live, uint(y) < uint(h), uint(x) < uint(w)));
                int at = ((sources[r].z + y) * w + x) * a_pixel + a_first + channel;
                float value = mix(0.0, operand_a[mix(0, at, inside)], inside);
                [[unroll]] for (int e = 0; e < 4; e++) a[r][e][q] = EXCHANGE(value, e);
            }
            b_at[q] = int(live) * ((ky * wide + kx) * b_tap + channel * b_row);
            channel++;
            int next_tap = int(channel == channels);
            channel *= 1 - next_tap;
            kx += next_tap;
            int next_line = int(kx == wide);
            kx *= 1 - next_line;
            ky += next_line;
        }
        [[unroll]] for (int g = 0; g < GROUPS; g++) {
            float b[4][STEP];
            [[unroll]] for (int q = 0; q < STEP; q++) {
                vec4 line = operand_b[b_column[g] + b_at[q]];
                [[unroll]] for (int i = 0; i < 4; i++) b[i][q] = line[i];
            }
            MULTIPLY(sums, ROW_GROUPS, a, b, g)
        }
    }
#else
    int from = part * split, to = min(from + split, channels), k = from;
    for (int turns = high * wide * ((to - from + 1) / 2); turns > 0; turns--) {
        bool second = k + 1 < to; /* an odd number of fours: the last turn of a tap has but one */
        float a[ROW_GROUPS][4][STEP];
        [[unroll]] for (int r = 0; r < ROW_GROUPS; r++) {
            int at = address(sources[r], ky, kx);
            bool inside = at >= 0;
            at = max(at, 0) + a_first + k;
            vec4 low = operand_a[at], upper = operand_a[second ? at + 1 : at];
            low = inside ? low : vec4(0.0);
            upper = inside && second ? upper : vec4(0.0);
            [[unroll]] for (int x = 0; x < 4; x++) [[unroll]] for (int q = 0; q < 4; q++) {
                a[r][x][q] = EXCHANGE(low[q], x);
                a[r][x][q + 4] = EXCHANGE(upper[q], x);
            }
        }
        int b_at = (ky * wide + kx) * b_tap;
        [[unroll]] for (int g = 0; g < GROUPS; g++) {
            float b[4][STEP];
            [[unroll]] for (int q = 0; q < STEP; q++) {
                vec4 line = operand_b[b_column[g] + b_at + min(k * 4 + q, b_last) * b_row];
                [[unroll]] for (int i = 0; i < 4; i++) b[i][q] = line[i];
            }
            MULTIPLY(sums, ROW_GROUPS, a, b, g)
        }
        k += 2;
        bool next_tap = k >= to;
        k = next_tap ? from : k;
        kx += next_tap ? 1 : 0;
        bool next_line = kx == wide;
        kx = next_line ? 0 : kx;
        ky += next_line ? 1 : 0;
    }
#endif

    /* Whoever adds partial sums makes the end. */
    bool whole = parts == 1;
    int c_first = part * c_split + z * c_z, z_bias = z * bias_z;
    [[unroll]] for (int g = 0; g < GROUPS; g++) {
        int column = (first_column + g * 4 + lane) * 4, last = columns - 1;
        vec4 add = vec4(0.0);
        if (HAS_BIAS != 0 && whole)
            add = vec4(bias[z_bias + min(column, last)], bias[z_bias + min(column + 1, last)],
                       bias[z_bias + min(column + 2, last)], bias[z_bias + min(column + 3, last)]);
        [[unroll]] for (int r = 0; r < ROW_GROUPS; r++) [[unroll]] for (int x = 0; x < 4; x++) {
            int row = first_row + r * 4 + (lane ^ x), at = c_first + row * c_row + column;
            vec4 sum = vec4(sums[r][x][g][0], sums[r][x][g][1], sums[r][x][g][2], sums[r][x][g][3]);
            vec4 v = whole ? CHEAP_ACTIVATION(sum + add) : sum;
            if (row < rows && column < columns) {
                if (WIDE_ROWS != 0) wide_c[at >> 2] = v;
                else {
                    c[at] = v.x;
                    if (column + 1 < columns) c[at + 1] = v.y;
                    if (column + 2 < columns) c[at + 2] = v.z;
                    if (column + 3 < columns) c[at + 3] = v.w;
                }
            }
        }
    }
    if (ACTIVATION > 1 && whole) /* over what this invocation has just written */
        for (int g = 0; g < GROUPS; g++) {
            int column = (first_column + g * 4 + lane) * 4, end = min(columns - column, 4);
            for (int row = first_row; row < min(first_row + ROWS, rows); row++)
                for (int i = 0; i < end; i++) {
                    int at = c_first + row * c_row + column + i;
                    if (WIDE_ROWS != 0) wide_c[at >> 2][at & 3] =
                        linear_activate(wide_c[at >> 2][at & 3]);
                    else c[at] = linear_activate(c[at]);
                }
        }
}
