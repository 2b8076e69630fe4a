/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Convolution and its gradient by the image, as implicit products for devices with shared memory.
 * Build variants:
 *   FORWARD rows are output pixels, columns output channels, summands (tap, input channel)
 *   DATA    rows are input pixels of one phase, columns input channels, summands (tap, output
 *           channel)
 * A phase is what is congruent by the strides: the taps that meet its pixels are the same for all,
 * so that a strided gradient is made of plain ones and multiplies no zeros.
 * With POOL, four rows after each other are a window of 2 x 2 output pixels, whose maximum is a
 * second result; the pixels that are in no window come last.
 */
#version 450
#extension GL_GOOGLE_include_directive : require
/* the channels of a group are a multiple of four: summands, */
layout(constant_id = 5) const int VECTOR_A = 0;
layout(constant_id = 6) const int VECTOR_C = 0; /* columns */
/* the latter's invocations do not have whole windows */
#if !defined(DATA) && !defined(COOPERATIVE) && !defined(GROUPS)
#define POOLS
layout(constant_id = 7) const int POOL = 0;
#endif
#define A_ALONG_K true
#ifdef DATA
#define B_ALONG_K true
#define VECTOR_B (VECTOR_A != 0)
#else
#define B_ALONG_K false
#define VECTOR_B (VECTOR_C != 0)
#endif
#define WIDEN_A (NARROW_A && VECTOR_A != 0)
#define WIDEN_B (NARROW_B && VECTOR_B)
#define STAGED_A(i) staged_a(i)
#include "include/linear_block.glsl"
#include "include/division.glsl"

BLOCK_OPERAND(a, 0) /* x; DATA: dy */
BLOCK_OPERAND(b, 1) /* kernel */
BLOCK_BIASES
layout(std430, binding = 3) writeonly buffer C { float c[]; };
layout(std430, binding = 3) writeonly buffer C4 { vec4 c4[]; };
layout(push_constant) uniform P {
    int total, row_tiles, column_tiles, parts, parts_of_group, split; /* summands per part */
    int h, w, pixel, channels;     /* of a: sizes, all channels, those of a group */
    int to_h, to_w, to_pixel;      /* of c */
    int rows, columns;             /* of a phase of a group's product */
    int grid_h, grid_w;            /* of the rows of an image */
    int kh, kw, sy, sx, dy, dx, pt, pl;
    uint channels_magic, grid_h_magic, grid_w_magic, shifts;
    int period_y, period_x;        /* DATA: from a tap to the next that meets the same pixels */
    int windowed;                  /* POOL: rows that are in windows, which the grid then is of */
};
#ifdef POOLS
layout(std430, binding = 6) writeonly buffer Pooled { float pooled[]; };
layout(std430, binding = 6) writeonly buffer Pooled4 { vec4 pooled4[]; };
#define PUT_POOLED(at, x) pooled[at] = x;
layout(std430, binding = 6) writeonly buffer NarrowPooled { uvec2 narrow_pooled[]; };
#define PUT_POOLED4(at, x) { if (NARROW_C) narrow_pooled[at] = rf_narrow(TYPE, x);                 \
    else pooled4[at] = x; }
#endif
#include "include/linear_block_end.glsl"

/* The taps that count: so many, from each to the next in the kernel and in the image. */
int taps_y, taps_x, first_y, first_x, step_y, step_x;

/* Where the rows of this invocation's loads begin, and the tap and channel of the next slice. */
#define STATES (VECTOR_A != 0 ? 1 : 4)
int at[LOADS_A], y_at[LOADS_A], x_at[LOADS_A];
int channel[4], ky[4], kx[4], slice_channel, slice_y, slice_x;

/* Where the loads of the present slice came from: -1 for pixels that are not there. */
ivec4 source[LOADS_A];

OPERAND4 staged_a(int i)
{
    return mix(OPERAND4(0), ra[i],
        VECTOR_A != 0 ? bvec4(source[i].x >= 0) : greaterThanEqual(source[i], ivec4(0)));
}

#ifdef POOLS
/* Image, y and x of a row that is in no window: in the last line, where lines are odd in number,
 * or column. */
ivec3 rest_of(int row)
{
    int line = (to_h & 1) * to_w, rest = to_h * to_w - 4 * grid_h * grid_w, image = row / rest,
        i = row - image * rest;
    return i < line ? ivec3(image, to_h - 1, i) : ivec3(image, i - line, to_w - 1);
}
#endif

ivec3 pixel_of(int row) /* image, y and x in the grid; POOL: in c */
{
#ifdef POOLS
    int corner = row & 3;
    if (POOL != 0) {
        if (row >= windowed) return rest_of(row - windowed);
        row >>= 2;
    }
#endif
    int line = int(rf_divide(uint(row), grid_w_magic, shifts & 255u)),
        image = int(rf_divide(uint(line), grid_h_magic, shifts >> 8 & 255u));
    ivec3 p = ivec3(image, line - image * grid_h, row - line * grid_w);
#ifdef POOLS
    if (POOL != 0) p.yz = 2 * p.yz + ivec2(corner >> 1, corner & 1);
#endif
    return p;
}

#ifdef DATA
/* The first tap, of one axis, that meets pixels of the phase; `taps` where none does. */
int first_tap(int phase, int stride, int dilation, int taps)
{
    int tap = 0;
    while (tap < min(taps, stride) && tap * dilation % stride != phase % stride) tap++;
    return tap < stride ? tap : taps;
}
#endif

void start(int first_row, int group, int from)
{
    slice_channel = BK % channels;
    slice_x = BK / channels % taps_x;
    slice_y = BK / channels / taps_x;
    [[unroll]] for (int j = 0; j < 4; j++) {
        int k = from + K_OF(0, true, BM) + j,
            tap = int(rf_divide(uint(k), channels_magic, shifts >> 16 & 255u));
        channel[j] = k - tap * channels;
        ky[j] = tap / taps_x;
        kx[j] = tap - ky[j] * taps_x;
    }
    [[unroll]] for (int i = 0; i < LOADS_A; i++) {
        ivec3 p = pixel_of(min(first_row + LINE_OF(i, true, BM), rows - 1));
#ifdef DATA
        y_at[i] = p.y + first_y;
        x_at[i] = p.z + first_x;
#else
        y_at[i] = p.y * sy - pt;
        x_at[i] = p.z * sx - pl;
#endif
        at[i] = ((p.x * h + y_at[i]) * w + x_at[i]) * pixel + group * channels;
    }
}

void load_a(int k, int to)
{
    [[unroll]] for (int j = 0; j < STATES; j++) {
        int y = ky[j] * step_y, x = kx[j] * step_x, tap_at = (y * w + x) * pixel + channel[j];
        [[unroll]] for (int i = 0; i < LOADS_A; i++) {
            bool inside = uint(y_at[i] + y) < uint(h) && uint(x_at[i] + x) < uint(w) &&
                ky[j] < taps_y;
            source[i][j] = inside ? at[i] + tap_at : -1;
            int from = max(source[i][j], 0);
            if (VECTOR_A != 0) ra[i] = BLOCK_VECTOR(a, NARROW_A, from >> 2);
            else ra[i][j] = BLOCK_ELEMENT(a, NARROW_A, from);
        }
    }
}

void settle_a(int k, int to) {} /* staged_a() has zeros */

void advance()
{
    [[unroll]] for (int j = 0; j < STATES; j++) {
        channel[j] += slice_channel;
        bool wrap = channel[j] >= channels;
        channel[j] -= wrap ? channels : 0;
        kx[j] += slice_x + int(wrap);
        wrap = kx[j] >= taps_x;
        kx[j] -= wrap ? taps_x : 0;
        ky[j] += slice_y + int(wrap);
    }
}

#ifdef DATA
int b_at[LOADS_B], tap_first, tap_y, tap_x; /* in the kernel */

void load_b(int k, int to)
{
    [[unroll]] for (int j = 0; j < STATES; j++) {
        int tap_at = tap_first + ky[j] * tap_y + kx[j] * tap_x + channel[j];
        bool inside = ky[j] < taps_y;
        [[unroll]] for (int i = 0; i < LOADS_B; i++) {
            int from = inside ? b_at[i] + tap_at : 0;
            if (VECTOR_A != 0) rb[i] = BLOCK_VECTOR(b, NARROW_B, from >> 2);
            else rb[i][j] = BLOCK_ELEMENT(b, NARROW_B, from);
        }
    }
    advance();
}

void settle_b(int k, int to)
{
    if (k + BK > to)
        [[unroll]] for (int i = 0; i < LOADS_B; i++)
            [[unroll]] for (int j = 0; j < 4; j++)
                if (k + K_OF(i, true, BN) + (VECTOR_A != 0 ? 0 : j) >= to) rb[i][j] = OPERAND(0);
}
#else
BLOCK_MATRIX(weights, b, NARROW_B, rb, LOADS_B, BN, false, VECTOR_B)
void load_b(int k, int to)
{
    load_weights(k, to);
    advance();
}
void settle_b(int k, int to) { settle_weights(k, to); }
#endif

void main()
{
    int id = int(gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x);
    if (id >= total) return;
    int tiles = row_tiles * column_tiles, part = id / tiles % parts, z = id / tiles / parts;
    ivec2 place = block_order(id % tiles, row_tiles, column_tiles);
    int first_row = place.x * BM, first_column = place.y * BN, from = part * split;
#ifdef DATA
    int group = z / (sy * sx), phase = z % (sy * sx), phase_y = phase / sx, phase_x = phase % sx;
    int tap_of_y = first_tap(phase_y + pt, sy, dy, kh),
        tap_of_x = first_tap(phase_x + pl, sx, dx, kw);
    taps_y = (kh - tap_of_y + period_y - 1) / period_y;
    taps_x = (kw - tap_of_x + period_x - 1) / period_x;
    first_y = (phase_y + pt - tap_of_y * dy) / sy;
    first_x = (phase_x + pl - tap_of_x * dx) / sx;
    step_y = -(period_y * dy / sy);
    step_x = -(period_x * dx / sx);
    if (taps_x == 0) taps_y = 0;
    taps_x = max(taps_x, 1);
    int kernel_tap = columns * pixel;
    tap_y = period_y * kw * kernel_tap;
    tap_x = period_x * kernel_tap;
    tap_first = (tap_of_y * kw + tap_of_x) * kernel_tap + group * channels;
    [[unroll]] for (int i = 0; i < LOADS_B; i++)
        b_at[i] = min(first_column + LINE_OF(i, true, BN), columns - 1) * pixel;
#else
    int group = z;
    taps_y = kh;
    taps_x = kw;
    step_y = dy;
    step_x = dx;
    weights_start(group * columns, to_pixel, first_column, columns, from);
#endif
    int to = min(from + split, taps_y * taps_x * channels);
    start(first_row, group, from);
    vec4 sum[TM][TN4];
    block_multiply(from, to, sum);
    if (SPLIT != 0 && !block_add_parts(z * tiles + id % tiles, part, parts, parts_of_group, sum))
        return;
    block_end(sum, group * columns + first_column, (group + 1) * columns);
    [[unroll]] for (int r = 0; r < TM; r++) {
        int row = first_row + block_row(r), to_at = row * to_pixel;
        bool inside = row < rows;
#ifdef DATA
        ivec3 p = pixel_of(row);
        int y = p.y * sy + phase_y, x = p.z * sx + phase_x;
        to_at = ((p.x * to_h + y) * to_w + x) * to_pixel;
        inside = inside && y < to_h && x < to_w;
#endif
#ifdef POOLS
        if (POOL != 0) {
            ivec3 p = pixel_of(row);
            to_at = ((p.x * to_h + p.y) * to_w + p.z) * to_pixel;
        }
#endif
        if (inside) BLOCK_STORE_ROW(PUT_C, PUT_C4, VECTOR_C != 0, sum[r], to_at + group * columns,
            first_column, columns)
    }
#ifdef POOLS
    if (POOL != 0)
        [[unroll]] for (int r = 0; r < TM; r += 4) {
            int row = first_row + block_row(r);
            vec4 most[TN4];
            [[unroll]] for (int s = 0; s < TN4; s++)
                most[s] = rf_larger(rf_larger(sum[r][s], sum[r + 1][s]),
                    rf_larger(sum[r + 2][s], sum[r + 3][s]));
            if (row < windowed)
                BLOCK_STORE_ROW(PUT_POOLED, PUT_POOLED4, VECTOR_C != 0, most,
                    row / 4 * to_pixel + group * columns, first_column, columns)
        }
#endif
}
