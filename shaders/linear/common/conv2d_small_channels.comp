/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Convolutions of few input channels, as first layers have: y = activation(x * kernel + bias), and
 * with POOL the maxima of its 2 x 2 windows side by side. Sums are so short that to find and to
 * store elements takes as long as to multiply them. So an invocation finds its pixels once, and
 * keeps whole windows of eight neighbouring channels each.
 *   Without LANES an invocation takes one window, and reads what it multiplies.
 *   LANES: a workgroup is one subgroup, of four lanes or of eight. COLUMN_LANES of them lie along
 *   channels, the others along windows. A lane reads for one pixel, and hands that to all that
 *   have it.
 */
#version 450
#extension GL_EXT_control_flow_attributes : require
#extension GL_GOOGLE_include_directive : require
#ifdef LANES
#include "include/write_fours.glsl"
#endif
#include "include/division.glsl"
#include "include/linear_epilogue.glsl"
layout(local_size_x_id = 0) in;
layout(constant_id = 3) const int PADDED = 0; /* taps may fall outside of the image */
layout(constant_id = 4) const int EIGHTS = 0; /* channels come in eights */
layout(constant_id = 5) const int POOL = 0;
/* a step has all summands: each window is stored as soon as it is summed */
layout(constant_id = 6) const int ONE_STEP = 0;

layout(push_constant) uniform P {
    int images;
    /* of an image: what workgroups or invocations stand for, all of them and along channels */
    int units, column_units;
    int line;                  /* windows of a line */
    uint by_line, line_shift, by_columns, columns_shift;
    int in_h, in_w, out_h, out_w;
    int channels, columns;     /* of x and of y */
    int kernel_w, summands;
    int stride_y, stride_x, step_y, step_x, first_y, first_x;
};

#ifdef LANES
#define ABREAST (int(gl_WorkGroupSize.x) / COLUMN_LANES)
#define SUMS 16
#define STEP 9 /* summands at a time: 3 x 3 */
layout(binding = 0) uniform samplerBuffer x_in;
layout(binding = 1) uniform samplerBuffer kernel4;
layout(binding = 2) uniform samplerBuffer kernel1;
layout(binding = 7) uniform samplerBuffer bias;
#define LOAD_X(at) texelFetch(x_in, at).x
#define LOAD_KERNEL4(at) texelFetch(kernel4, at)
#define LOAD_KERNEL1(at) texelFetch(kernel1, at).x
#define LOAD_BIAS(at) texelFetch(bias, at)
layout(std430, binding = 4) writeonly buffer Y8 { u64vec4 y8[]; };
layout(std430, binding = 6) writeonly buffer Pooled8 { u64vec4 pooled8[]; };
#define WORDS(lo, hi)                                                                              \
    u64vec4(pack64(floatBitsToUint(lo.xy)), pack64(floatBitsToUint(lo.zw)),                        \
        pack64(floatBitsToUint(hi.xy)),                                                            \
            pack64(floatBitsToUint(hi.zw)))
/* Lanes of lower halves write for those of upper halves, or each for itself: RF_WRITE of
 * wide.glsl says why. */
#define STORE8(to, row, lo, hi)                                                                    \
    {                                                                                              \
        int at = (row) >= 0 && column < columns ? (row) + column : -1;                             \
        if (RF_SWAPS_HALVES) {                                                                     \
            uint partner = gl_SubgroupInvocationID ^ 4u;                                           \
            int at_there = subgroupShuffle(at, partner);                                           \
            vec4 lo_there = subgroupShuffle(lo, partner), hi_there = subgroupShuffle(hi, partner); \
            bool writes = (gl_SubgroupInvocationID & 4u) == 0u;                                    \
            if (writes && at >= 0) to##8[at >> 3] = WORDS(lo, hi);                                 \
            if (writes && at_there >= 0) to##8[at_there >> 3] = WORDS(lo_there, hi_there);         \
        } else {                                                                                   \
            if (at >= 0) to##8[at >> 3] = WORDS(lo, hi);                                           \
        }                                                                                          \
    }
#define FROM_LANE(value, lane) subgroupShuffle(value, uint(lane))
#else
#define COLUMN_LANES 1
#define ABREAST 1
#define SUMS 4
#define STEP 3
layout(std430, binding = 0) readonly buffer X { float x_in[]; };
layout(std430, binding = 1) readonly buffer Kernel4 { vec4 kernel4[]; };
layout(std430, binding = 2) readonly buffer Kernel1 { float kernel1[]; };
#define LOAD_X(at) x_in[at]
#define LOAD_KERNEL4(at) kernel4[at]
#define LOAD_KERNEL1(at) kernel1[at]
layout(std430, binding = 4) writeonly buffer Y8 { vec4 y8[]; };
layout(std430, binding = 6) writeonly buffer Pooled8 { vec4 pooled8[]; };
#define STORE8(to, row, lo, hi)                                                                    \
    if ((row) >= 0 && column < columns) {                                                          \
        to##8[(row) + column >> 2] = lo;                                                           \
        to##8[((row) + column >> 2) + 1] = hi;                                                     \
    }
#define FROM_LANE(value, lane) value
layout(std430, binding = 7) readonly buffer Bias { float bias[]; };
#endif
layout(std430, binding = 3) writeonly buffer Y { float y1[]; };
layout(std430, binding = 5) writeonly buffer Pooled { float pooled1[]; };

/* Rows of a load lie along the lanes; a load has COLUMN_LANES rows of each of the ABREAST
 * windows beside each other. */
#define LOADS (SUMS / COLUMN_LANES)
/* The load and lane that have what sum i reads. */
#define LOAD_OF(i) ((i) / COLUMN_LANES)
#define LANE_OF(i) ((i) % COLUMN_LANES * ABREAST + abreast)

/* Stores the eight channels from `column` on of what starts at `row`, where that is not
 * negative. */
#define STORE(to, row, lo, hi)                                                                     \
    {                                                                                              \
        if (EIGHTS != 0) {                                                                         \
            STORE8(to, row, lo, hi)                                                                \
        } else [[unroll]] for (int j = 0; j < 4; j++) {                                            \
            if ((row) >= 0 && column + j < columns) to##1[(row) + column + j] = lo[j];             \
            if ((row) >= 0 && column + 4 + j < columns) to##1[(row) + column + 4 + j] = hi[j];     \
        }                                                                                          \
    }

/* Written out: loops around stores are not unrolled, and then arrays that they are in stay in
 * memory. */
#define FINISH_SUM(r)                                                                              \
    {                                                                                              \
        lo[r] = linear_activate(lo[r] + add_lo);                                                   \
        hi[r] = linear_activate(hi[r] + add_hi);                                                   \
        int row = FROM_LANE(y_at[LOAD_OF(r)], LANE_OF(r));                                         \
        STORE(y, row, lo[r], hi[r])                                                                \
    }
/* Activates and stores the sums of a window, i to i + 3, and their maximum. */
#define FINISH_WINDOW(i)                                                                           \
    {                                                                                              \
        FINISH_SUM((i)) FINISH_SUM((i) + 1) FINISH_SUM((i) + 2) FINISH_SUM((i) + 3)                \
        if (POOL != 0) {                                                                           \
            vec4 most_lo = rf_larger(rf_larger(lo[i], lo[i + 1]),                                  \
                rf_larger(lo[i + 2], lo[i + 3]));                                                  \
            vec4 most_hi = rf_larger(rf_larger(hi[i], hi[i + 1]),                                  \
                rf_larger(hi[i + 2], hi[i + 3]));                                                  \
            int row = FROM_LANE(pooled_at[LOAD_OF(i)], LANE_OF(i));                                \
            STORE(pooled, row, most_lo, most_hi)                                                   \
        }                                                                                          \
    }
#define ADD_TO_SUM(i)                                                                              \
    [[unroll]] for (int q = 0; q < STEP; q++) {                                                    \
        float s = FROM_LANE(a[q][LOAD_OF(i)], LANE_OF(i));                                         \
        lo[i] += s * b_lo[q];                                                                      \
        hi[i] += s * b_hi[q];                                                                      \
    }
#define ADD_TO_WINDOW(i)                                                                           \
    ADD_TO_SUM((i)) ADD_TO_SUM((i) + 1) ADD_TO_SUM((i) + 2) ADD_TO_SUM((i) + 3)                    \
    if (ONE_STEP != 0) FINISH_WINDOW(i)
#ifdef LANES
#define ALL_WINDOWS(DO) DO(0) DO(4) DO(8) DO(12)
#else
#define ALL_WINDOWS(DO) DO(0)
#endif

void main()
{
    int image = int(gl_WorkGroupID.y);
#ifdef LANES
    int lane = int(gl_SubgroupInvocationID), unit = int(gl_WorkGroupID.x),
        column_lane = lane % COLUMN_LANES, abreast = lane / COLUMN_LANES;
    int own_row = lane / ABREAST, own_window = lane % ABREAST;
#else
    int unit = int(gl_GlobalInvocationID.x);
    const int column_lane = 0, abreast = 0, own_row = 0, own_window = 0;
#endif
    if (unit >= units) return;
    int windows = int(rf_divide(uint(unit), by_columns, columns_shift)),
        column = ((unit - windows * column_units) * COLUMN_LANES + column_lane) * 8;
    windows *= SUMS / 4 * ABREAST; /* the first of them */

    /* Where tap 0 of a lane's rows falls, and where results go; negative: nowhere. */
    int origin_y[LOADS], origin_x[LOADS], x_at[LOADS], y_at[LOADS], pooled_at[LOADS];
    int pooled_h = out_h / 2, pooled_w = out_w / 2;
    [[unroll]] for (int g = 0; g < LOADS; g++) {
        int row = g * COLUMN_LANES + own_row, window = windows + row / 4 * ABREAST + own_window;
        int wy = int(rf_divide(uint(window), by_line, line_shift)), wx = window - wy * line;
        int y = 2 * wy + (row >> 1 & 1), x = 2 * wx + (row & 1);
        y_at[g] = y < out_h && x < out_w ? ((image * out_h + y) * out_w + x) * columns : -1;
        pooled_at[g] = wy < pooled_h && wx < pooled_w
            ? ((image * pooled_h + wy) * pooled_w + wx) * columns : -1;
        origin_y[g] = min(y, out_h - 1) * stride_y + first_y;
        origin_x[g] = min(x, out_w - 1) * stride_x + first_x;
        x_at[g] = ((image * in_h + origin_y[g]) * in_w + origin_x[g]) * channels;
    }
    vec4 lo[SUMS], hi[SUMS];
    [[unroll]] for (int i = 0; i < SUMS; i++) lo[i] = hi[i] = vec4(0.0);

    vec4 add_lo = vec4(0.0), add_hi = vec4(0.0);
    if (HAS_BIAS != 0) {
#ifdef LANES
        if (EIGHTS != 0) {
            int four = (column < columns ? column : 0) >> 2;
            add_lo = LOAD_BIAS(four);
            add_hi = LOAD_BIAS(four + 1);
        } else
#else
#define LOAD_BIAS(at) vec4(bias[at])
#endif
        [[unroll]] for (int j = 0; j < 4; j++) {
            add_lo[j] = LOAD_BIAS(min(column + j, columns - 1)).x;
            add_hi[j] = LOAD_BIAS(min(column + 4 + j, columns - 1)).x;
        }
    }

    /* Loops test at their end: lavapipe would run the body of others once more, for nothing. */
    int k = 0, channel = 0, kx = 0, tap_y = 0, tap_x = 0, tap_at = 0;
    int to_line = (step_y * in_w - kernel_w * step_x) * channels,
        to_pixel = (step_x - 1) * channels;
    do {
        float a[STEP][LOADS];
        vec4 b_lo[STEP], b_hi[STEP];
        [[unroll]] for (int q = 0; q < STEP; q++) {
            bool live = k + q < summands;
            int b_at = (live ? k + q : 0) * columns + column;
            [[unroll]] for (int g = 0; g < LOADS; g++) {
                bool inside = live;
                if (PADDED != 0) inside = live && uint(origin_y[g] + tap_y) < uint(in_h) &&
                    uint(origin_x[g] + tap_x) < uint(in_w);
                a[q][g] = LOAD_X(inside ? x_at[g] + tap_at : 0);
                a[q][g] = inside ? a[q][g] : 0.0;
            }
            if (EIGHTS != 0) {
                int four = (column < columns ? b_at : 0) >> 2;
                b_lo[q] = LOAD_KERNEL4(four);
                b_hi[q] = LOAD_KERNEL4(four + 1);
            } else [[unroll]] for (int j = 0; j < 4; j++) {
                b_lo[q][j] = LOAD_KERNEL1(column + j < columns ? b_at + j : 0);
                b_hi[q][j] = LOAD_KERNEL1(column + 4 + j < columns ? b_at + 4 + j : 0);
            }
            bool next_tap = ++channel == channels;
            channel = next_tap ? 0 : channel;
            kx += next_tap ? 1 : 0;
            tap_x += next_tap ? step_x : 0;
            tap_at += next_tap ? to_pixel + 1 : 1;
            bool next_line = kx == kernel_w;
            kx = next_line ? 0 : kx;
            tap_x = next_line ? 0 : tap_x;
            tap_y += next_line ? step_y : 0;
            tap_at += next_line ? to_line : 0;
        }
        ALL_WINDOWS(ADD_TO_WINDOW)
        k += STEP;
    } while (ONE_STEP == 0 && k < summands);

    if (ONE_STEP == 0) {
        ALL_WINDOWS(FINISH_WINDOW)
    }
}
