/* SPDX-License-Identifier: Apache-2.0 */
/*
 * c[row, :] = sum over pixels of a[pixel shifted by the row's tap, the row's channel] * b[pixel,
 * :]: the filter gradient of a convolution (b is dy, rows are taps x channels), and the product
 * with a transposed left operand (1 x 1 images, one tap). Channels are multiples of four, padded
 * with zeros; -DSCALAR_A: any number of them, read one by one. The pixels are dealt out in parts,
 * one after the other; with more than one part c is a list of partial sums.
 */
#version 450
#extension GL_GOOGLE_include_directive : require
#define CROSSWISE /* for tiles of one group, too */
#include "linear_lanes.glsl"
#include "include/linear_epilogue.glsl"
#include "include/exact_sum.glsl"

layout(std430, binding = 2) readonly buffer Bias { float bias[]; };
layout(std430, binding = 3) writeonly buffer C { float c[]; };
#ifdef TEXEL
/* c once more, for rows that are multiples of four. */
layout(constant_id = 3) const bool WIDE_ROWS = false;
layout(std430, binding = 3) writeonly buffer WideC { vec4 wide_c[]; };
#endif
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
#define ROWS_PER_LOAD 1
#define A_TYPE float
#define FETCH_A(i) LOAD_A_SCALAR(i)
#define A_VALUE(q, r) a[q][ROW_GROUP(r)]
#else
#define ROWS_PER_LOAD 4
#define A_TYPE vec4
#define FETCH_A(i) LOAD_A(i)
#define A_VALUE(q, r) a[q][ROW_GROUP((r) / 4)][(r) % 4]
#endif
#define ROW_LOADS (ROW_GROUPS / ROWS_PER_LOAD)

void main()
{
    int id = int(gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x),
        lane = int(gl_SubgroupInvocationID), column_lane = lane % ROW_LANES;
    if (id >= total) return;
    uint no_bits = RF_NO_BITS(total);
    int row_tile = id % row_tiles;
    id /= row_tiles;
    int first_column = id % column_tiles * (GROUPS * ROW_LANES); /* in fours */
    id /= column_tiles;
    int part = id % parts, z = id / parts;
    int z2 = z % z_dim_2, z1 = z / z_dim_2 % z_dim_1, z0 = z / z_dim_2 / z_dim_1;
    int high = taps & 65535, wide = taps >> 16;

    /* Each lane's rows: which tap and channels, hence which offset from a pixel. */
    int shift_y[ROW_LOADS], shift_x[ROW_LOADS], a_at[ROW_LOADS], row_at[ROW_LOADS],
        row_count[ROW_LOADS];
    [[unroll]] for (int g = 0; g < ROW_LOADS; g++) {
        int load = (row_tile * ROW_LOADS + g) * LANES + lane, tap = load / loads,
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
            min(first_column + g * ROW_LANES + column_lane, (columns + 3) / 4 - 1);
    vec4 accumulator[SUMS][GROUPS], sums[GROUPS], lost[GROUPS];
    [[unroll]] for (int g = 0; g < GROUPS; g++) {
        sums[g] = lost[g] = vec4(0.0);
        [[unroll]] for (int r = 0; r < SUMS; r++) accumulator[r][g] = vec4(0.0);
    }

    int pixel = part * split, end = min(pixel + split, count);
    int line = pixel / ow, x = (pixel - line * ow) * (stride >> 16), image = line / oh;
    int y = (line - image * oh) * (stride & 65535), image_line = image * h;
    int x_end = ow * (stride >> 16), y_end = oh * (stride & 65535);
    for (; pixel < end; pixel += 4) {
        A_TYPE a[4][ROW_LOADS];
        vec4 b[4][GROUPS], of_four[GROUPS];
        [[unroll]] for (int q = 0; q < 4; q++) {
            bool live = pixel + q < end;
            int base = ((image_line + y) * w + x) * a_pixel;
            [[unroll]] for (int g = 0; g < ROW_LOADS; g++) {
                bool inside = live && uint(y + shift_y[g]) < uint(h) &&
                    uint(x + shift_x[g]) < uint(w);
                a[q][g] = FETCH_A(inside ? base + a_at[g] : 0);
                a[q][g] = inside ? a[q][g] : A_TYPE(0.0);
            }
#define B_PIXEL(i) (b_at[g] + min(pixel + q + (i), end - 1) * b_pixel)
            [[unroll]] for (int g = 0; g < GROUPS; g++) {
#ifdef ABREAST
                if (q % 2 == 0) LOAD_B_TWICE(b[q][g], b[q + 1][g], B_PIXEL)
#else
                /* two in a row made lavapipe's code of wide tiles a fifth slower */
                b[q][g] = LOAD_B(B_PIXEL(0));
#endif
                vec4 addend = live ? b[q][g] : vec4(0.0);
                of_four[g] = q == 0 ? addend : of_four[g] + addend;
            }
            x += stride >> 16;
            bool wrap_x = x == x_end;
            x = wrap_x ? 0 : x;
            y += wrap_x ? stride & 65535 : 0;
            bool wrap_y = y == y_end;
            y = wrap_y ? 0 : y;
            image_line += wrap_y ? h : 0;
        }
        /* Always, wanted or not: a few in a hundred additions are less than another pipeline to
         * compile. */
        [[unroll]] for (int g = 0; g < GROUPS; g++)
            RF_ADD_EXACTLY(vec4, sums[g], lost[g], of_four[g], no_bits)
        [[unroll]] for (int r = 0; r < SUMS; r++) {
            float s[4];
            TAKE_4(s, A_VALUE(0, r), A_VALUE(1, r), A_VALUE(2, r), A_VALUE(3, r),
                ROW_LANE(r / ROWS_PER_LOAD))
            [[unroll]] for (int g = 0; g < GROUPS; g++) {
                ADD_PRODUCTS_4(accumulator[r][g], s, b[0][g], b[1][g], b[2][g], b[3][g])
            }
        }
    }

    /* Written out: with turns as in lanes_gather.comp the loop above ran at 0.67 to 0.88 of its
     * speed on lavapipe. */
    int c_first = part * c_split + z * c_z;
    [[unroll]] for (int g = 0; g < GROUPS; g++) {
        int column = (first_column + g * ROW_LANES + column_lane) * 4;
        vec4 add = vec4(0.0);
        if (HAS_BIAS != 0) [[unroll]] for (int i = 0; i < 4; i++)
            add[i] = bias[z * bias_z + min(column + i, columns - 1)];
        [[unroll]] for (int r = 0; r < SUMS; r++) {
            vec4 v = linear_activate(accumulator[r][g] + add);
            int load = r / ROWS_PER_LOAD, row = r % ROWS_PER_LOAD;
            bool real = row < FROM_LANE(row_count[ROW_GROUP(load)], ROW_LANE(load));
            int at = c_first + FROM_LANE(row_at[ROW_GROUP(load)], ROW_LANE(load)) + row * c_row +
                column;
#ifdef TEXEL
            if (WIDE_ROWS) {
                if (real && column < columns) wide_c[at >> 2] = v;
                continue;
            }
#endif
            [[unroll]] for (int i = 0; i < 4; i++)
                if (real && column + i < columns) c[at + i] = v[i];
        }
        if (bias_gradient_at >= 0 && row_tile == 0 && lane < ROW_LANES)
            [[unroll]] for (int i = 0; i < 4; i++)
                if (column + i < columns)
                    bias_gradient[part * c_split + bias_gradient_at + z * bias_z + column + i] =
                        sums[g][i];
    }
}
