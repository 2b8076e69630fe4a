#version 450
/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Convolutions of each channel by itself with kernels of K x K, for drivers that fetch texels at
 * once: an invocation has 8 channels of TILE neighbouring lines and walks along them, so that it
 * loads each of their pixels once, and the kernel, too; what columns share stays in registers. It
 * reads and writes memory in order, as processors like it. Loops test at their end: lavapipe would
 * run the body of others once more.
 *   FORWARD: x -> y in steps of STRIDE pixels; sums of columns that are begun stay. Backwards
 *   (`flip`) also dy -> dx, for steps of one.
 *   DATA: dy -> dx for steps of two. Lines and columns are counted from where a step begins, which
 *   may be one outside of dx; a column of dy finishes two columns.
 *   FILTER: x, dy -> partial sums of the kernel's gradient, those of a part of all tiles; and of
 *   the bias'. Columns of x stay.
 */
#extension GL_EXT_shader_explicit_arithmetic_types_int64 : require
#extension GL_EXT_control_flow_attributes : require
#extension GL_GOOGLE_include_directive : require
#include "include/wide.glsl"
#define TILE (K == 3 ? 4 : 2) /* what is unrolled, drivers compile */

layout(push_constant) uniform P {
    int images;
    int vectors;                  /* of a pixel */
    /* "in" is what taps read, "out" what they add up to; FILTER: x and dy */
    int in_h, in_w, out_h, out_w;
    /* of tap 0 of the first pixel; DATA: of dy, for the first line and column that are counted */
    int first_y, first_x;
    int skip_y, skip_x;           /* DATA: lines and columns that are counted before those of dx */
    int tiles, strips, columns;   /* of an image; of a tile; of a strip */
    int flip;                     /* the kernel is read from its end */
    int parts, units, bias_tap;   /* FILTER: tiles in a part; whether there is a tap of ones */
};

#define LOAD(name, at) Reg(texelFetch(name, 2 * (at)), texelFetch(name, 2 * (at) + 1))
/* Zeros where not `inside`. */
#define LOAD_INSIDE(to, name, inside, at)                                                          \
    {                                                                                              \
        bool within = inside;                                                                      \
        Reg loaded = LOAD(name, within ? at : 0);                                                  \
        to = Reg(mix(vec4(0.0), loaded.lo, bvec4(within)),                                         \
            mix(vec4(0.0), loaded.hi, bvec4(within)));                                             \
    }
#define MULTIPLY_ADD(sum, a, b)                                                                    \
    {                                                                                              \
        sum.lo += a.lo * b.lo;                                                                     \
        sum.hi += a.hi * b.hi;                                                                     \
    }
#define TAP(kx, ky) ((ky) * K + (kx))

#ifdef FILTER
layout(binding = 0) uniform samplerBuffer x_in;
layout(binding = 1) uniform samplerBuffer dy_in;
layout(std430, binding = 2) writeonly buffer Partial { VEC partial[]; };
/* whether the last tile of an image has lines beyond its end */
layout(constant_id = 1) const uint TAIL = 1;

#define LINES ((TILE - 1) * STRIDE + K)
#define WARM ((K - 1) / STRIDE) /* turns that only fill the window */
void main()
{
    int t = int(rf_invocation()), part = t / vectors, channel = t - part * vectors;
    if (part >= parts) return;
    Reg sum[K * K], window[K][LINES], sum_of_dy = rf_splat(0.0);
    [[unroll]] for (int i = 0; i < K * K; i++) sum[i] = rf_splat(0.0);
    int unit = part * units, last = min(unit + units, images * tiles) - 1;
    /* parts that have nothing left repeat the last unit without adding: turns are the same for
     * all invocations */
    do {
        int image = min(unit, last) / tiles, line = (min(unit, last) - image * tiles) * TILE;
        int column = -WARM, y = line * STRIDE + first_y, x = column * STRIDE + first_x + K - STRIDE;
        int at = ((image * in_h + y) * in_w + x) * vectors + channel;
        int dy_at = ((image * out_h + line) * out_w + column) * vectors + channel;
        [[unroll]] for (int k = 0; k < K; k++)
            [[unroll]] for (int i = 0; i < LINES; i++) window[k][i] = rf_splat(0.0);
        do {
            [[unroll]] for (int k = K - STRIDE; k < K; k++) {
                bool inside_x = uint(x) < uint(in_w);
                [[unroll]] for (int i = 0; i < LINES; i++)
                    LOAD_INSIDE(window[k][i], x_in, all(bvec2(inside_x, uint(y + i) < uint(in_h))),
                        at + i * in_w * vectors)
                x++;
                at += vectors;
            }
            if (column >= 0 && unit <= last) {
                [[unroll]] for (int i = 0; i < TILE; i++) {
                    bool inside = TAIL == 0u || line + i < out_h;
                    Reg d;
                    LOAD_INSIDE(d, dy_in, inside, dy_at + i * out_w * vectors)
                    [[unroll]] for (int k = 0; k < K * K; k++) {
                        Reg v = window[k % K][i * STRIDE + k / K];
                        /* A pixel that is not there must not meet infinities. */
                        if (TAIL != 0u && i > 0)
                            v = Reg(mix(vec4(0.0), v.lo, bvec4(inside)),
                                mix(vec4(0.0), v.hi, bvec4(inside)));
                        MULTIPLY_ADD(sum[k], v, d)
                    }
                    sum_of_dy.lo += d.lo;
                    sum_of_dy.hi += d.hi;
                }
            }
            dy_at += vectors;
            [[unroll]] for (int k = 0; k < K - STRIDE; k++)
                [[unroll]] for (int i = 0; i < LINES; i++) window[k][i] = window[k + STRIDE][i];
            column++;
        } while (column < out_w);
        unit++;
    } while (unit < part * units + units);
    int first = part * (K * K + bias_tap) * vectors + channel;
    [[unroll]] for (int k = 0; k < K * K; k++) partial[first + k * vectors] = rf_pack(sum[k]);
    if (bias_tap != 0) partial[first + K * K * vectors] = rf_pack(sum_of_dy);
}
#else
#include "include/linear_epilogue.glsl"
layout(binding = 0) uniform samplerBuffer data;
layout(binding = 1) uniform samplerBuffer kernel;
layout(std430, binding = 2) readonly buffer Bias { VEC bias[]; };
layout(std430, binding = 3) writeonly buffer Result { VEC result[]; };

#ifdef FORWARD
#define LINES ((TILE - 1) * STRIDE + K)
#define BEGUN ((K - 1) / STRIDE) /* columns whose sums are carried on */
#define WARM BEGUN               /* turns before the first column is whole */
#define LOADED STRIDE            /* columns that a turn loads */
#define DONE 1                   /* that it finishes */
#else
#define LINES ((K - 1) / 2 + TILE / 2)
#define BEGUN (K - 2)
#define WARM ((K - 1) / 2)
#define LOADED 1
#define DONE 2
#endif
#define OPEN (BEGUN + DONE)

void main()
{
    int t = int(gl_GlobalInvocationID.x), image = int(gl_WorkGroupID.y);
    int unit = t / vectors, channel = t - unit * vectors, tile = unit / strips,
        strip = unit - tile * strips;
    /* all invocations take part: those beyond the end go with the last tile */
    bool live = tile < tiles;
    int line = min(tile, tiles - 1) * TILE;
    Reg f[K * K];
    [[unroll]] for (int k = 0; k < K * K; k++)
        f[k] = LOAD(kernel, (flip != 0 ? K * K - 1 - k : k) * vectors + channel);
#ifdef FORWARD
    Reg add = rf_splat(0.0);
    if (HAS_BIAS != 0) add = rf_unpack(bias[channel]);
    int y = line * STRIDE + first_y, x = strip * columns * STRIDE + first_x;
#else
    int y = line / 2 + first_y - WARM, x = strip * columns + first_x - WARM;
    line -= skip_y;
#endif
    int column = (strip * columns - WARM) * DONE - skip_x, begin = max(column + WARM * DONE, 0);
    int end = min(column + (WARM + columns) * DONE, out_w), turn = 0;
    int at = ((image * in_h + y) * in_w + x) * vectors + channel;
    int to = ((image * out_h + line) * out_w + column) * vectors + channel;
    bool inside_y[LINES];
    [[unroll]] for (int i = 0; i < LINES; i++) inside_y[i] = uint(y + i) < uint(in_h);
    Reg sum[OPEN][TILE]; /* those that are finished first come first */
    [[unroll]] for (int k = 0; k < OPEN; k++)
        [[unroll]] for (int i = 0; i < TILE; i++) sum[k][i] = rf_splat(0.0);
    do {
        [[unroll]] for (int r = 0; r < LOADED; r++) {
            Reg v[LINES];
            bool inside_x = uint(x) < uint(in_w);
            [[unroll]] for (int i = 0; i < LINES; i++)
                LOAD_INSIDE(v[i], data, all(bvec2(inside_x, inside_y[i])), at + i * in_w * vectors)
            [[unroll]] for (int kx = 0; kx < K; kx++)
                [[unroll]] for (int ky = 0; ky < K; ky++)
                    [[unroll]] for (int i = 0; i < TILE; i++) {
#ifdef FORWARD
                        if (kx % STRIDE == r)
                            MULTIPLY_ADD(sum[BEGUN - kx / STRIDE][i], v[i * STRIDE + ky],
                                f[TAP(kx, ky)])
#else
                        if ((i + ky) % 2 == 0)
                            MULTIPLY_ADD(sum[kx][i], v[(i - ky) / 2 + WARM], f[TAP(kx, ky)])
#endif
                    }
            x++;
            at += vectors;
        }
        [[unroll]] for (int k = 0; k < DONE; k++) {
            bool writes = live && column >= begin && column < end;
            [[unroll]] for (int i = 0; i < TILE; i++) {
#ifdef FORWARD
                sum[k][i] = Reg(linear_activate(sum[k][i].lo + add.lo),
                    linear_activate(sum[k][i].hi + add.hi));
#endif
                uint goal = writes && uint(line + i) < uint(out_h) ? uint(to + i * out_w * vectors)
                    : ~0u;
                RF_WRITE(result, ~0u, goal, sum[k][i])
            }
            column++;
            to += vectors;
        }
        [[unroll]] for (int k = 0; k < OPEN; k++)
            [[unroll]] for (int i = 0; i < TILE; i++)
                if (k < BEGUN) sum[k][i] = sum[k + DONE][i];
                else sum[k][i] = rf_splat(0.0);
        turn++;
    } while (turn < columns + WARM);
}
#endif
