/* SPDX-License-Identifier: Apache-2.0 */
/*
 * c[row, :] = activation(sum over taps and channels of a[pixel(row, tap), channel] * b[tap,
 * channel, :] + bias) for rows that are output pixels: convolution as implicit matrix product, its
 * data gradient (a is dy, b the flipped kernel, `up` the stride), and the plain product (1 x 1
 * images, one tap). Channels are multiples of four, padded with zeros.
 * -DTRANSPOSED_B: b is [tap, :, channel]. -DSCALAR_A: any number of channels, read one by one.
 */
#version 450
#extension GL_GOOGLE_include_directive : require
#include "linear_lanes.glsl"
#include "include/linear_epilogue.glsl"
#ifdef ABREAST
#extension GL_EXT_shader_explicit_arithmetic_types_int64 : require
#include "write_rows.glsl"
#else
/* With whole registers of columns lavapipe would keep most sums twice. */
layout(std430, binding = 3) writeonly buffer C { float c[]; };
/* c once more, for rows that are multiples of four. */
layout(constant_id = 3) const int WIDE_ROWS = 0;
layout(std430, binding = 4) writeonly buffer WideC { vec4 wide_c[]; };
#endif
/* Strides of a data gradient: kept out of the other products because some drivers run both sides
 * of a branch. */
layout(constant_id = 4) const int SPREAD = 0;
/* Rows go through the images first, then through the pixels: tiles of few pixels, which leave
 * out taps that are padding. */
layout(constant_id = 5) const int IMAGES_FIRST = 0;

layout(std430, binding = 2) readonly buffer Bias { float bias[]; };
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
    /* in fours; b_row: stride of a channel (TRANSPOSED_B: of a column); last row */
    int b_base, b_tap, b_row, b_last;
    int c_row;
    int z_dim_1, z_dim_2;          /* batch dimensions (groups): the two inner ones */
    /* their strides: loads of a, fours of b, elements of c and bias */
    int a_z0, a_z1, a_z2, b_z0, b_z1, b_z2, c_z, bias_z;
    /* channels per part when k is split; elements from part to part */
    int split, c_split;
};

/* Push constants that the loops need: lavapipe reads those lane by lane wherever they
 * stand. */
int lines, line_length, line_stride, pixel_stride, up_y, up_x;

/* Along one axis, where pixels of a are `up` apart: how many of them, and what is left; up is 1
 * unless SPREAD. Sums of such distances stand for divisions, of which lavapipe makes eight of
 * each. */
struct distance { int whole, rest; };

distance distance_of(int at, int up)
{
    if (SPREAD == 0) return distance(at, 0);
    int whole = at / up, rest = at - whole * up;
    return rest < 0 ? distance(whole - 1, rest + up) : distance(whole, rest);
}

distance add_distances(distance a, distance b, int up)
{
    int whole = a.whole + b.whole, rest = a.rest + b.rest;
    if (SPREAD == 0) return distance(whole, 0);
    bool carry = rest >= up;
    return distance(whole + (carry ? 1 : 0), carry ? rest - up : rest);
}

/* of one output pixel: where tap 0 falls, first line of its image */
struct source { distance y, x; int image; };
struct tap { int ky, kx; distance y, x; };   /* how far it is from tap 0 */

source source_of(int image, int pixel)
{
    int y = pixel / width, x = pixel - y * width;
    return source(distance_of(y * (steps & 255) - (padding << 16 >> 16), up_y),
        distance_of(x * (steps >> 8 & 255) - (padding >> 16), up_x),
                  image * lines);
}

/* First load of the pixel that a tap reads; -1 in the padding or between strides. */
int address(source s, tap t)
{
    distance y = add_distances(s.y, t.y, up_y), x = add_distances(s.x, t.x, up_x);
    bool inside = y.rest == 0 && x.rest == 0 && uint(y.whole) < uint(lines) &&
        uint(x.whole) < uint(line_length);
    return inside ? (s.image + y.whole) * line_stride + x.whole * pixel_stride : -1;
}

distance step_y, step_x; /* from tap to tap */

/* On to the next tap where `on`. */
void advance(inout tap t, bool on, int wide)
{
    bool next_line = on && t.kx + 1 == wide;
    distance y = add_distances(t.y, step_y, up_y), x = add_distances(t.x, step_x, up_x);
    t.ky += next_line ? 1 : 0;
    t.kx = next_line ? 0 : on ? t.kx + 1 : t.kx;
    t.y = distance(next_line ? y.whole : t.y.whole, next_line ? y.rest : t.y.rest);
    t.x = distance(next_line ? 0 : on ? x.whole : t.x.whole,
        next_line ? 0 : on ? x.rest : t.x.rest);
}

bool few_pixels; /* the tile lies within two pixels */

/* The next tap that some row of the tile needs, as far as its first and last pixel tell. */
void next_tap(inout tap t, int high, int wide, source ends[2])
{
    bool useless;
    do {
        advance(t, true, wide);
        useless = IMAGES_FIRST != 0 && few_pixels && t.ky < high && address(ends[0], t) < 0 &&
            address(ends[1], t) < 0;
    } while (useless);
}

vec4 accumulator[SUMS][GROUPS];
#define ACCUMULATOR(i) accumulator[i][g]
#define ROW_AT(i) row_at[i]

void main()
{
    int id = int(gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x),
        lane = int(gl_SubgroupInvocationID), column_lane = lane % ROW_LANES;
    if (id >= total) return;
    int first_row = id % row_tiles * ROWS;
    id /= row_tiles;
    int first_column = id % column_tiles * (GROUPS * ROW_LANES); /* in fours */
    id /= column_tiles;
    int parts = (channels + split - 1) / split, part = id % parts, z = id / parts;
    int z2 = z % z_dim_2, z1 = z / z_dim_2 % z_dim_1, z0 = z / z_dim_2 / z_dim_1;
    int a_first = z0 * a_z0 + z1 * a_z1 + z2 * a_z2,
        b_first = b_base + z0 * b_z0 + z1 * b_z1 + z2 * b_z2;

    lines = h;
    line_length = w;
    pixel_stride = a_pixel;
    line_stride = line_length * pixel_stride;
    up_y = steps >> 16 & 255;
    up_x = steps >> 24 & 255;
    step_y = distance_of(dilation << 16 >> 16, up_y);
    step_x = distance_of(dilation >> 16, up_x);

    source sources[ROW_GROUPS];
    int c_at[ROW_GROUPS]; /* a lane's rows in c, negative past the last */
    int images = rows / pixels;
    [[unroll]] for (int g = 0; g < ROW_GROUPS; g++) {
        int row = first_row + g * LANES + lane, real = min(row, rows - 1);
        int slow = real / (IMAGES_FIRST != 0 ? images : pixels),
            fast = real - slow * (IMAGES_FIRST != 0 ? images : pixels);
        int image = IMAGES_FIRST != 0 ? fast : slow, pixel = IMAGES_FIRST != 0 ? slow : fast;
        sources[g] = source_of(image, pixel);
        c_at[g] = row < rows ? (image * pixels + pixel) * c_row : -1;
    }
    int first_pixel = first_row / images, last_pixel = (min(first_row + ROWS, rows) - 1) / images;
    few_pixels = last_pixel - first_pixel < 2;
    source ends[2] = source[2](source_of(0, first_pixel), source_of(0, last_pixel));

    int b_column[GROUPS * 4];
    [[unroll]] for (int g = 0; g < GROUPS; g++) {
#ifdef TRANSPOSED_B
        [[unroll]] for (int i = 0; i < 4; i++)
            b_column[g * 4 + i] = b_first +
                min((first_column + g * ROW_LANES + column_lane) * 4 + i, columns - 1) * b_row;
#else
        b_column[g] = b_first + min(first_column + g * ROW_LANES + column_lane,
            (columns + 3) / 4 - 1);
#endif
    }
    [[unroll]] for (int r = 0; r < SUMS; r++) [[unroll]] for (int g = 0; g < GROUPS; g++)
        accumulator[r][g] = vec4(0.0);

    int from = part * split, to = min(from + split, channels), k_row = b_row, k_last = b_last,
        k_tap = b_tap;
    int high = taps & 65535, wide = taps >> 16;
    const distance none = distance(0, 0);
    tap t = tap(0, 0, none, none);
    /* Loops test at their end: lavapipe would run the body of others once more, for nothing. */
#ifdef SCALAR_A
    /* Three summands at a time: kernels of 3 x 3 divide evenly, and sums stay in registers for
     * longer. */
    int channel = 0, summands = high * wide * to, k = 0;
    do {
        float a[3][ROW_GROUPS];
        vec4 b[3][GROUPS];
        [[unroll]] for (int q = 0; q < 3; q++) {
            bool live = k + q < summands;
            [[unroll]] for (int g = 0; g < ROW_GROUPS; g++) {
                int at = address(sources[g], t);
                at = live ? at : -1;
                a[q][g] = LOAD_A_SCALAR(max(at, 0) + a_first + channel);
                a[q][g] = at >= 0 ? a[q][g] : 0.0;
            }
            int line = live ? (t.ky * wide + t.kx) * k_tap + channel * k_row : 0;
            [[unroll]] for (int g = 0; g < GROUPS; g++) b[q][g] = LOAD_B(b_column[g] + line);
            bool next_tap = ++channel == to;
            channel = next_tap ? 0 : channel;
            advance(t, next_tap, wide);
        }
        [[unroll]] for (int r = 0; r < SUMS; r++) {
            float s[3];
            TAKE_3(s, a[0][ROW_GROUP(r)], a[1][ROW_GROUP(r)], a[2][ROW_GROUP(r)], ROW_LANE(r))
            [[unroll]] for (int g = 0; g < GROUPS; g++) {
                ADD_PRODUCTS_3(accumulator[r][g], s, b[0][g], b[1][g], b[2][g])
            }
        }
        k += 3;
    } while (k < summands);
#else
    if (IMAGES_FIRST != 0) {
        t = tap(0, -1, none, distance(-step_x.whole, -step_x.rest));
        next_tap(t, high, wide, ends);
        bool any = t.ky < high; /* no tap at all: one that reads only padding */
        t = tap(any ? t.ky : 0, any ? t.kx : 0, distance(any ? t.y.whole : 0, any ? t.y.rest : 0),
            distance(any ? t.x.whole : 0, any ? t.x.rest : 0));
    }
    do {
        int at[ROW_GROUPS];
        bool inside[ROW_GROUPS];
        [[unroll]] for (int g = 0; g < ROW_GROUPS; g++) {
            at[g] = address(sources[g], t);
            inside[g] = at[g] >= 0;
            at[g] = max(at[g], 0) + a_first;
        }
        int b_at = (t.ky * wide + t.kx) * k_tap, k = from;
        do {
            vec4 a[ROW_GROUPS];
            [[unroll]] for (int g = 0; g < ROW_GROUPS; g++) {
                a[g] = LOAD_A(at[g] + k);
                a[g] = inside[g] ? a[g] : vec4(0.0);
            }
            vec4 b[4][GROUPS];
#ifdef TRANSPOSED_B
            [[unroll]] for (int g = 0; g < GROUPS; g++) [[unroll]] for (int i = 0; i < 4; i += 2) {
                vec4 one, two;
#define B_COLUMN(j) ((j) == 0 ? b_column[g * 4 + i] : b_column[g * 4 + i + 1]) + b_at + k
                LOAD_B_TWICE(one, two, B_COLUMN)
                [[unroll]] for (int q = 0; q < 4; q++) {
                    b[q][g][i] = one[q];
                    b[q][g][i + 1] = two[q];
                }
            }
#else
            [[unroll]] for (int q = 0; q < 4; q += 2) [[unroll]] for (int g = 0; g < GROUPS; g++) {
#define B_LINE(i) (b_column[g] + b_at + min(k * 4 + q + (i), k_last) * k_row)
                LOAD_B_TWICE(b[q][g], b[q + 1][g], B_LINE)
            }
#endif
            [[unroll]] for (int r = 0; r < SUMS; r++) {
                float s[4];
                TAKE_4(s, a[ROW_GROUP(r)][0], a[ROW_GROUP(r)][1], a[ROW_GROUP(r)][2],
                    a[ROW_GROUP(r)][3], ROW_LANE(r))
                [[unroll]] for (int g = 0; g < GROUPS; g++) {
                    ADD_PRODUCTS_4(accumulator[r][g], s, b[0][g], b[1][g], b[2][g], b[3][g])
                }
            }
            k++;
        } while (k < to);
        next_tap(t, high, wide, ends);
    } while (t.ky < high);
#endif

    int row_at[SUMS]; /* in c, negative past the last */
    [[unroll]] for (int r = 0; r < SUMS; r++)
        row_at[r] = FROM_LANE(c_at[ROW_GROUP(r)], ROW_LANE(r));
    /* Whoever adds partial sums makes the end: decided here, so that both are one
     * pipeline. */
    bool whole = parts == 1;
#ifndef SHUFFLE
    /* SwiftShader's, which takes six times as long to compile the other way. */
    vec4 add[GROUPS];
    [[unroll]] for (int g = 0; g < GROUPS; g++) {
        int column = (first_column + g * ROW_LANES + column_lane) * 4;
        add[g] = vec4(0.0);
        if (HAS_BIAS != 0) [[unroll]] for (int i = 0; i < 4; i++)
            add[g][i] = bias[z * bias_z + min(column + i, columns - 1)];
    }
    int turn;
#define BIASED(v, g) (v) + add[g]
#else
#define BIASED(v, g) v
    /* A loop of one turn: Mesa's compiler keeps sums that are used behind the loop where they
     * were added up twice, with and without the mask of that loop, and spills products to make
     * room: a quarter more instructions. For sums that the next loop changes, by a zero that the
     * compiler does not know at least, it keeps one. */
    int turn = total >> 31; /* 0, which the compiler does not know */
    do {
        [[unroll]] for (int g = 0; g < GROUPS; g++) {
            int column = (first_column + g * ROW_LANES + column_lane) * 4;
            vec4 add = vec4(intBitsToFloat(turn));
            if (HAS_BIAS != 0) [[unroll]] for (int i = 0; i < 4; i++)
                add[i] = whole ? bias[z * bias_z + min(column + i, columns - 1)] : 0.0;
            [[unroll]] for (int r = 0; r < SUMS; r++) accumulator[r][g] += add;
        }
        turn++;
    } while (turn < 1);
#endif
    turn = 0;
    int c_first = part * c_split + z * c_z, all_columns = columns;
    do {
#ifdef ABREAST
        [[unroll]] for (int r = 0; r < SUMS_OF_TURN; r += 2)
            [[unroll]] for (int g = 0; g < GROUPS; g++) {
            int row, next_row;
            TAKE_OF_TURN(row, turn, r, ROW_AT)
            TAKE_OF_TURN(next_row, turn, r + 1, ROW_AT)
            vec4 v, next;
            TAKE_OF_TURN(v, turn, r, ACCUMULATOR)
            TAKE_OF_TURN(next, turn, r + 1, ACCUMULATOR)
            if (whole) v = linear_activate(v);
            if (whole) next = linear_activate(next);
            int column = (first_column + g * ROW_LANES + column_lane) * 4;
            WRITE_ROWS(v, next, row >= 0, next_row >= 0, c_first + row, c_first + next_row)
        }
#else
        [[unroll]] for (int r = 0; r < SUMS_OF_TURN; r++) {
            int row;
            TAKE_OF_TURN(row, turn, r, ROW_AT)
            [[unroll]] for (int g = 0; g < GROUPS; g++) {
                vec4 v;
                TAKE_OF_TURN(v, turn, r, ACCUMULATOR)
                if (whole) v = linear_activate(BIASED(v, g));
                int column = (first_column + g * ROW_LANES + column_lane) * 4,
                    at = c_first + row + column;
                if (WIDE_ROWS != 0) {
                    if (row >= 0 && column < all_columns) wide_c[at >> 2] = v;
                } else [[unroll]] for (int i = 0; i < 4; i++)
                    if (row >= 0 && column + i < all_columns) c[at + i] = v[i];
            }
        }
#endif
        turn++;
    } while (turn < END_TURNS);
}
