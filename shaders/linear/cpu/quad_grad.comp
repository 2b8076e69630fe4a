/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lanes_grad.comp for subgroups that are one quad: the same product, push constants and bindings.
 * -DSCALAR_A: any number of channels, read one by one.
 */
#version 450
#extension GL_GOOGLE_include_directive : require
#include "linear_quad.glsl"
#include "include/linear_epilogue.glsl"
#include "include/exact_sum.glsl"

layout(std430, binding = 2) readonly buffer Bias { float bias[]; };
layout(std430, binding = 3) buffer C { float c[]; };
layout(std430, binding = 4) writeonly buffer BiasGradient { float bias_gradient[]; };
layout(push_constant) uniform P {
    int total;                  /* workgroups */
    int row_tiles, column_tiles, parts;
    int taps;                   /* high | width */
    int loads, channels;        /* of a per tap; channels that they hold (the rest is padding) */
    int columns;
    int h, w;                   /* images that a holds */
    int oh, ow, count;          /* pixels of b: lines and columns of an image, all */
    int stride, dilation, padding; /* y | x, 16 bits each, padding signed */
    int a_pixel, b_pixel;       /* strides of a pixel: loads of a, fours of b */
    int c_row;
    int split;                  /* pixels per part */
    int z_dim_1, z_dim_2;       /* batch dimensions (groups): the two inner ones */
    /* their strides: loads of a, fours of b, elements of c and bias */
    int a_z0, a_z1, a_z2, b_z0, b_z1, b_z2, c_z, bias_z;
    /* elements from part to part; where its sums of b over its pixels stand, -1: nowhere */
    int c_split, bias_gradient_at;
};

#ifdef SCALAR_A
#define STEP 4 /* pixels */
#define ADD_STEP ADD_4
#define ROWS_PER_LOAD 1
#define COMPONENT(value, i) value
#define A_TYPE float
#else
#define STEP 8
#define ADD_STEP ADD_8
#define ROWS_PER_LOAD 4
#define COMPONENT(value, i) value[i]
#define A_TYPE vec4
#endif
#define ROW_LOADS (ROWS / (4 * ROWS_PER_LOAD))
#define ROW_GROUPS (ROWS / 4)

void main()
{
    int id = int(gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x),
        lane = int(gl_SubgroupInvocationID);
    if (id >= total) return;
    uint no_bits = RF_NO_BITS(total);
    int row_tile = id % row_tiles;
    id /= row_tiles;
    int first_column = id % column_tiles * (GROUPS * 4); /* in fours */
    id /= column_tiles;
    int part = id % parts, z = id / parts;
    int z2 = z % z_dim_2, z1 = z / z_dim_2 % z_dim_1, z0 = z / z_dim_2 / z_dim_1;
    int high = taps & 65535, wide = taps >> 16;

    /* Each lane's rows: which tap and channels, hence which offset from a pixel. */
    int shift_y[ROW_LOADS], shift_x[ROW_LOADS], a_at[ROW_LOADS], row_at[ROW_LOADS],
        row_count[ROW_LOADS];
    [[unroll]] for (int g = 0; g < ROW_LOADS; g++) {
        int load = (row_tile * ROW_LOADS + g) * 4 + lane, tap = load / loads,
            channel = load - tap * loads;
        bool real = tap < high * wide;
        tap = min(tap, high * wide - 1);
        int ky = tap / wide, kx = tap - ky * wide;
        shift_y[g] = ky * (dilation & 65535) - (padding << 16 >> 16);
        shift_x[g] = kx * (dilation >> 16) - (padding >> 16);
        a_at[g] = (shift_y[g] * w + shift_x[g]) * a_pixel + channel + z0 * a_z0 + z1 * a_z1 +
            z2 * a_z2;
        row_at[g] = (tap * channels + channel * ROWS_PER_LOAD) * c_row;
        row_count[g] = real ? min(channels - channel * ROWS_PER_LOAD, ROWS_PER_LOAD) : 0;
    }
    int b_at[GROUPS];
    [[unroll]] for (int g = 0; g < GROUPS; g++)
        b_at[g] = z0 * b_z0 + z1 * b_z1 + z2 * b_z2 +
            min(first_column + g * 4 + lane, (columns + 3) / 4 - 1);
    /* row group: load * ROWS_PER_LOAD + component */
    float sums[ROW_GROUPS][4][GROUPS][4], b_sums[GROUPS][4], lost[GROUPS][4];
    [[unroll]] for (int g = 0; g < GROUPS; g++) [[unroll]] for (int i = 0; i < 4; i++) {
        b_sums[g][i] = lost[g][i] = 0.0;
        [[unroll]] for (int r = 0; r < ROW_GROUPS; r++) [[unroll]] for (int x = 0; x < 4; x++)
            sums[r][x][g][i] = 0.0;
    }

    int pixel = part * split, end = min(pixel + split, count);
    int line = pixel / ow, x0 = (pixel - line * ow) * (stride >> 16), image = line / oh;
    int y0 = (line - image * oh) * (stride & 65535), image_line = image * h;
    int x_end = ow * (stride >> 16), y_end = oh * (stride & 65535);
    for (; pixel < end; pixel += STEP) {
        float a[ROW_GROUPS][4][STEP];
        [[unroll]] for (int q = 0; q < STEP; q++) {
            bool live = pixel + q < end;
            int base = ((image_line + y0) * w + x0) * a_pixel;
            [[unroll]] for (int g = 0; g < ROW_LOADS; g++) {
                bool inside = live && uint(y0 + shift_y[g]) < uint(h) &&
                    uint(x0 + shift_x[g]) < uint(w);
                A_TYPE value = operand_a[inside ? base + a_at[g] : 0];
                value = inside ? value : A_TYPE(0.0);
                [[unroll]] for (int j = 0; j < ROWS_PER_LOAD; j++)
                    [[unroll]] for (int x = 0; x < 4; x++)
                    a[g * ROWS_PER_LOAD + j][x][q] = EXCHANGE(COMPONENT(value, j), x);
            }
            x0 += stride >> 16;
            bool wrap_x = x0 == x_end;
            x0 = wrap_x ? 0 : x0;
            y0 += wrap_x ? stride & 65535 : 0;
            bool wrap_y = y0 == y_end;
            y0 = wrap_y ? 0 : y0;
            image_line += wrap_y ? h : 0;
        }
        [[unroll]] for (int g = 0; g < GROUPS; g++) {
            float b[4][STEP], of_step[4];
            [[unroll]] for (int q = 0; q < STEP; q++) {
                vec4 value = operand_b[b_at[g] + min(pixel + q, end - 1) * b_pixel];
                [[unroll]] for (int i = 0; i < 4; i++) {
                    b[i][q] = value[i];
                    /* cheaper than to ask whether it is wanted */
                    float addend = pixel + q < end ? value[i] : 0.0;
                    of_step[i] = q == 0 ? addend : of_step[i] + addend;
                }
            }
            [[unroll]] for (int i = 0; i < 4; i++)
                RF_ADD_EXACTLY(float, b_sums[g][i], lost[g][i], of_step[i], no_bits)
            MULTIPLY(sums, ROW_GROUPS, a, b, g)
        }
    }

    int c_first = part * c_split + z * c_z, z_bias = z * bias_z;
    [[unroll]] for (int g = 0; g < GROUPS; g++) {
        int column = (first_column + g * 4 + lane) * 4, last = columns - 1;
        vec4 add = vec4(0.0);
        if (HAS_BIAS != 0)
            add = vec4(bias[z_bias + min(column, last)], bias[z_bias + min(column + 1, last)],
                       bias[z_bias + min(column + 2, last)], bias[z_bias + min(column + 3, last)]);
        [[unroll]] for (int r = 0; r < ROW_GROUPS; r++) [[unroll]] for (int x = 0; x < 4; x++) {
            vec4 v = CHEAP_ACTIVATION(vec4(sums[r][x][g][0], sums[r][x][g][1], sums[r][x][g][2],
                sums[r][x][g][3]) + add);
            int live = EXCHANGE(row_count[r / ROWS_PER_LOAD], x) - r % ROWS_PER_LOAD;
            int at = c_first + EXCHANGE(row_at[r / ROWS_PER_LOAD], x) + r % ROWS_PER_LOAD * c_row +
                column;
            if (live > 0 && column < columns) {
                c[at] = v.x;
                if (column + 1 < columns) c[at + 1] = v.y;
                if (column + 2 < columns) c[at + 2] = v.z;
                if (column + 3 < columns) c[at + 3] = v.w;
            }
        }
        if (bias_gradient_at >= 0 && row_tile == 0) {
            int at = part * c_split + bias_gradient_at + z_bias + column;
            if (column < columns) bias_gradient[at] = b_sums[g][0];
            if (column + 1 < columns) bias_gradient[at + 1] = b_sums[g][1];
            if (column + 2 < columns) bias_gradient[at + 2] = b_sums[g][2];
            if (column + 3 < columns) bias_gradient[at + 3] = b_sums[g][3];
        }
    }
    /* over what this invocation has just written; only plain products have one: a single tap */
    if (ACTIVATION > 1)
        for (int g = 0; g < GROUPS; g++) {
            int column = (first_column + g * 4 + lane) * 4, wanted = min(columns - column, 4);
            for (int row = row_tile * ROWS; row < min(row_tile * ROWS + ROWS, channels); row++)
                for (int i = 0; i < wanted; i++) {
                    int at = c_first + row * c_row + column + i;
                    c[at] = linear_activate(c[at]);
                }
        }
}
