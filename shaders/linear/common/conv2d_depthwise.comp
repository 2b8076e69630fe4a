/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Convolutions of each channel by itself, four neighbouring channels an invocation.
 *   FORWARD: x -> y, TILE neighbours of a line an invocation, which share what they read of the
 *   kernel.
 *   DATA: dy -> dx, the same with taps that go the other way, and with strides of which only some
 *   pixels of dy lie on.
 *   WINDOW: steps of one along a line and kernels as wide as it says, so that neighbours share the
 *   pixels, too; instead of FORWARD and DATA, whose steps have a sign. With FILTER an invocation
 *   takes a line of the kernel, and the last one the bias' tap.
 *   FILTER: x, dy -> partial sums of the kernel's gradient, an invocation for each tap in each part
 *   of dy's lines; where `bias` is set one tap more, of ones.
 */
#version 450
#extension GL_EXT_control_flow_attributes : require
#extension GL_GOOGLE_include_directive : require
#include "include/wide.glsl"
#include "include/linear_epilogue.glsl"
#include "include/division.glsl"
#define TILE 4
#if defined(WINDOW) && !defined(FILTER)
#define FORWARD
#endif

/* "In" is what taps read, "out" what they add up to; FILTER: x and dy. */
layout(push_constant) uniform P {
    int images;
    int vectors;                       /* of a pixel */
    int in_h, in_w, out_h, out_w;
    int kernel_h, kernel_w;
    /* DATA: from pixel to pixel of dy, which lie so far apart in dx */
    int stride_y, stride_x;
    int step_y, step_x;                /* from tap to tap */
    int first_y, first_x;              /* of tap 0 */
    int tiles;                         /* of a line; FILTER: parts */
    int lines;                         /* FILTER: of a part */
    int bias_tap;                      /* FILTER: whether there is one */
    /* what divides by the strides, DATA, and by out_h, FILTER: magic, shift */
    uint by_y[2], by_x[2], by_height[2];
};
#define divide(n, by) int(rf_divide(uint(n), by[0], by[1])) /* of no negative n */

#define INPUT(number, name) layout(std430, binding = number)                                       \
    readonly buffer B##number { VEC name[]; }
#define LOAD(name, at) Reg(name[at])

#ifdef FILTER
INPUT(0, x_in);
INPUT(1, dy_in);
layout(std430, binding = 2) writeonly buffer Partial { VEC partial[]; };

#ifdef WINDOW
void main()
{
    int t = int(gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x) *
        int(gl_WorkGroupSize.x) + int(gl_LocalInvocationID.x);
    int each = kernel_h * vectors, part = t / each, rest = t - part * each, ky = rest / vectors,
        channel = rest - ky * vectors;
    if (part >= tiles) return;
    Reg sum[WINDOW], sum_of_dy = rf_splat(0.0);
    [[unroll]] for (int i = 0; i < WINDOW; i++) sum[i] = rf_splat(0.0);
    /* Loops test at their end: lavapipe would run the body of others once more. Their turns are
     * the same for all invocations, of which SwiftShader loses some otherwise: the last part
     * goes past its end. */
    int turn = 0;
    do {
        int line = min(part * lines + turn, images * out_h - 1);
        bool live = line == part * lines + turn;
        int image = divide(line, by_height),
            y = (line - image * out_h) * stride_y + ky * step_y + first_y;
        bool inside_y = live && uint(y) < uint(in_h);
        int row = inside_y ? (image * in_h + y) * in_w : 0;
        Reg v[WINDOW];
#define NEXT_PIXEL(to, column)                                                                     \
    {                                                                                              \
        const int i = to, x = (column) + first_x;                                                  \
        bool inside = all(bvec2(inside_y, uint(x) < uint(in_w)));                                  \
        v[i] = LOAD(x_in, (row + (inside ? x : 0)) * vectors + channel);                           \
        v[i].lo = mix(vec4(0.0), v[i].lo, bvec4(inside));                                          \
    }
        [[unroll]] for (int k = 1; k < WINDOW; k++) NEXT_PIXEL(k, k - 1)
        int column = 0;
        do {
            [[unroll]] for (int k = 1; k < WINDOW; k++) v[k - 1] = v[k];
            NEXT_PIXEL(WINDOW - 1, column + WINDOW - 1)
            Reg d = LOAD(dy_in, (line * out_w + column) * vectors + channel);
            d.lo = mix(vec4(0.0), d.lo, bvec4(live));
            [[unroll]] for (int k = 0; k < WINDOW; k++) sum[k].lo += v[k].lo * d.lo;
            sum_of_dy.lo += d.lo;
            column++;
        } while (column < out_w);
        turn++;
    } while (turn < lines);
    int first = (part * (kernel_h * WINDOW + bias_tap) + ky * WINDOW) * vectors + channel;
    [[unroll]] for (int k = 0; k < WINDOW; k++) partial[first + k * vectors] = rf_pack(sum[k]);
    if (ky == kernel_h - 1 && bias_tap != 0) partial[first + WINDOW * vectors] = rf_pack(sum_of_dy);
}
#else
void main()
{
    int t = int(gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x) *
        int(gl_WorkGroupSize.x) + int(gl_LocalInvocationID.x);
    int taps = kernel_h * kernel_w, each = (taps + bias_tap) * vectors;
    int part = t / each, rest = t - part * each, tap = rest / vectors,
        channel = rest - tap * vectors;
    if (part >= tiles) return;
    bool ones = tap == taps;
    int ky = ones ? 0 : tap / kernel_w, kx = ones ? 0 : tap - ky * kernel_w;
    Reg sum = rf_splat(0.0);
    int line = part * lines, end = min(line + lines, images * out_h);
    for (; line < end; line++) {
        int image = divide(line, by_height),
            y = (line - image * out_h) * stride_y + ky * step_y + first_y;
        bool inside_y = ones || uint(y) < uint(in_h);
        int row = inside_y && !ones ? (image * in_h + y) * in_w : 0, x = kx * step_x + first_x;
        for (int column = 0; column < out_w; column++) {
            Reg d = LOAD(dy_in, (line * out_w + column) * vectors + channel);
            bool inside = inside_y && (ones || uint(x) < uint(in_w));
            Reg v = LOAD(x_in, (row + (inside && !ones ? x : 0)) * vectors + channel);
            sum.lo += mix(vec4(0.0), mix(v.lo, vec4(1.0), bvec4(ones)) * d.lo,
            bvec4(inside));
            x += stride_x;
        }
    }
    partial[t] = rf_pack(sum);
}
#endif
#else
INPUT(0, data);
INPUT(1, kernel);
#ifdef FORWARD
layout(std430, binding = 2) readonly buffer Bias { VEC bias[]; };
layout(std430, binding = 3) writeonly buffer Result { VEC result[]; };
#else
layout(std430, binding = 2) writeonly buffer Result { VEC result[]; };
#endif

void main()
{
    int t = int(gl_GlobalInvocationID.x), image = int(gl_WorkGroupID.y);
    int tile = t / vectors, channel = t - tile * vectors, line = tile / tiles,
        first = (tile - line * tiles) * TILE;
    if (line >= out_h) return;
    Reg sum[TILE];
    [[unroll]] for (int i = 0; i < TILE; i++) sum[i] = rf_splat(0.0);
#ifdef WINDOW
    /* A kernel that goes backwards begins at its end. */
    int begin = first + first_x + min(step_x, 0) * (WINDOW - 1),
        first_tap = step_x < 0 ? WINDOW - 1 : 0;
    int ky = 0;
    do { /* tests at its end: lavapipe would run the body of others once more */
        int y = line * stride_y + ky * step_y + first_y; /* backwards the stride is 1 */
        bool inside_y = uint(y) < uint(in_h);
        int row = (image * in_h + (inside_y ? y : 0)) * in_w;
        Reg f[WINDOW], v[TILE + WINDOW - 1];
        [[unroll]] for (int i = 0; i < WINDOW; i++)
            f[i] = LOAD(kernel, (ky * WINDOW + first_tap + i * step_x) * vectors + channel);
        [[unroll]] for (int i = 0; i < TILE + WINDOW - 1; i++) {
            int x = begin + i;
            bool inside = all(bvec2(inside_y, uint(x) < uint(in_w)));
            v[i] = LOAD(data, (row + (inside ? x : 0)) * vectors + channel);
            v[i].lo = mix(vec4(0.0), v[i].lo, bvec4(inside));
        }
        [[unroll]] for (int i = 0; i < TILE; i++)
            [[unroll]] for (int k = 0; k < WINDOW; k++) {
                sum[i].lo += v[i + k].lo * f[k].lo;
            }
        ky++;
    } while (ky < kernel_h);
#else
    for (int ky = 0; ky < kernel_h; ky++)
        for (int kx = 0; kx < kernel_w; kx++) {
            Reg f = LOAD(kernel, (ky * kernel_w + kx) * vectors + channel);
#ifdef FORWARD
            int y = line * stride_y + ky * step_y + first_y,
                x = first * stride_x + kx * step_x + first_x;
            bool inside_y = uint(y) < uint(in_h);
#else
            int far_y = line + ky * step_y + first_y, y = divide(max(far_y, 0), by_y);
            bool inside_y = all(bvec3(far_y >= 0, y * stride_y == far_y, y < in_h));
#endif
            int row = (image * in_h + (inside_y ? y : 0)) * in_w;
            [[unroll]] for (int i = 0; i < TILE; i++) {
#ifdef FORWARD
                bool inside = all(bvec2(inside_y, uint(x) < uint(in_w)));
#else
                int far_x = first + i + kx * step_x + first_x, x = divide(max(far_x, 0), by_x);
                bool inside = all(bvec4(inside_y, far_x >= 0, x * stride_x == far_x, x < in_w));
#endif
                Reg v = LOAD(data, (row + (inside ? x : 0)) * vectors + channel);
                sum[i].lo += mix(vec4(0.0), v.lo * f.lo, bvec4(inside));
#ifdef FORWARD
                x += stride_x;
#endif
            }
        }
#endif
#ifdef FORWARD
    Reg add = rf_splat(0.0);
    if (HAS_BIAS != 0) add = rf_unpack(bias[channel]);
#endif
    [[unroll]] for (int i = 0; i < TILE; i++) {
#ifdef FORWARD
        sum[i].lo = linear_activate(sum[i].lo + add.lo);
#endif
        int at = ((image * out_h + line) * out_w + first + i) * vectors + channel;
        if (first + i < out_w) result[at] = rf_pack(sum[i]);
    }
}
#endif
