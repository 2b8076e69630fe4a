// SPDX-License-Identifier: Apache-2.0
// Pooling over windows of K x K in steps of STRIDE, for drivers that fetch texels at once: an
// invocation has 8 channels of TILE neighbouring
// lines and walks along them, so that it loads each pixel once and reads and writes memory in
// order.
//   MAX, AVERAGE  x -> y: lines of windows. Values that windows take from a column stay in
//                 registers until the last that has it.
//   MAX_GRAD, AVERAGE_GRAD  lines of dx: the gradients of windows are added up in columns that are
//                           begun. Lines and columns are
//   counted from where a step begins, which may lie outside of dx; a column of windows finishes
//   STRIDE columns.
// Tensors of 16 bits have a vector in a texel. Loops test at their end: lavapipe would run the body
// of others once more.
#version 450
#extension GL_EXT_shader_explicit_arithmetic_types_int64 : require
#extension GL_EXT_control_flow_attributes : require
#extension GL_GOOGLE_include_directive : require
#include "include/wide.glsl"
#include "include/narrow.glsl"
#include "include/scalar_math.glsl"
#define TILE 4

layout(constant_id = 1) const uint RELU_MASK = 0;
layout(constant_id = 2) const uint TYPE = 0;

layout(push_constant) uniform Push {
    int images;
    int vectors; // of a pixel
    int height, width, out_height, out_width, pad_top, pad_left;
    int tiles, strips, columns; // of an image; of a tile; of a strip
};

Reg widened(vec4 texel)
{
    return Reg(rf_widen(TYPE, floatBitsToUint(texel.xy)),
        rf_widen(TYPE, floatBitsToUint(texel.zw)));
}
#define LOAD(name, at)                                                                             \
    (TYPE == 0u ? Reg(texelFetch(name, 2 * (at)), texelFetch(name, 2 * (at) + 1)) :                \
        widened(texelFetch(name, at)))
#define STORE(name, goal, value)                                                                   \
    {                                                                                              \
        if (TYPE == 0u) RF_WRITE(name, ~0u, goal, value)                                           \
        else RF_WRITE_NARROW(name##_h, ~0u, goal, uvec4(rf_narrow(TYPE, value.lo),                 \
            rf_narrow(TYPE, value.hi)))                                                            \
    }
#define EACH_HALF(statement) statement(lo) statement(hi)
// `other` where not `inside`.
#define LOAD_INSIDE(to, name, inside, at, other)                                                   \
    {                                                                                              \
        bool within = inside;                                                                      \
        Reg loaded = LOAD(name, within ? at : 0);                                                  \
        to = Reg(mix(vec4(other), loaded.lo, bvec4(within)),                                       \
            mix(vec4(other), loaded.hi, bvec4(within)));                                           \
    }
#define LOWEST uintBitsToFloat(0xff800000u)

// Whether v takes the place of the maximum so far: it is greater, or NaN.
bvec4 takes_place(vec4 v, vec4 best)
{
    const bvec4 is_greater = greaterThan(v, best);
    const bvec4 is_nan = greaterThan(floatBitsToInt(v) & ivec4(0x7fffffff), ivec4(0x7f800000));
    return bvec4(is_greater.x || is_nan.x, is_greater.y || is_nan.y, is_greater.z || is_nan.z,
        is_greater.w || is_nan.w);
}

// Elements that a window, which begins at `at`, has along an axis.
int covered(int at, int size)
{
    return min(at + K, size) - max(at, 0);
}

#if defined(MAX) || defined(AVERAGE)
layout(binding = 0) uniform samplerBuffer x_in;
layout(std430, binding = 1) writeonly buffer Output { VEC result[]; };
layout(std430, binding = 1) writeonly buffer OutputHalves { u64vec2 result_h[]; };

#define LINES ((TILE - 1) * STRIDE + K)
#define KEPT (K - STRIDE)                  /* columns that the next window has, too */
#define WARM ((KEPT + STRIDE - 1) / STRIDE) /* turns that only fetch these */
#ifdef MAX
#define NOTHING LOWEST
#define JOIN(half) sum.half = mix(sum.half, v.half, takes_place(v.half, sum.half));
#else
#define NOTHING 0.0
#define JOIN(half) sum.half += v.half;
#endif

void main()
{
    const int t = int(gl_GlobalInvocationID.x), image = int(gl_WorkGroupID.y);
    const int unit = t / vectors, channel = t - unit * vectors, tile = unit / strips,
        strip = unit - tile * strips;
    // all invocations take part: those beyond the end go with the last tile
    const bool live = tile < tiles;
    const int line = min(tile, tiles - 1) * TILE, y = line * STRIDE - pad_top,
        begin = strip * columns;
    const int end = min(begin + columns, out_width);
    int column = begin - WARM, x = column * STRIDE + KEPT - pad_left;
    int at = ((image * height + y) * width + x) * vectors + channel;
    int to = ((image * out_height + line) * out_width + column) * vectors + channel;
    Reg kept[K][TILE]; // what windows take from a column
    [[unroll]] for (int k = 0; k < K; k++)
        [[unroll]] for (int i = 0; i < TILE; i++) kept[k][i] = rf_splat(NOTHING);
    int turn = 0;
    do {
        [[unroll]] for (int k = KEPT; k < K; k++) {
            const bool inside_x = uint(x) < uint(width);
            Reg lines[LINES];
            [[unroll]] for (int i = 0; i < LINES; i++)
                LOAD_INSIDE(lines[i], x_in, all(bvec2(inside_x, uint(y + i) < uint(height))),
                    at + i * width * vectors, NOTHING)
            [[unroll]] for (int i = 0; i < TILE; i++) {
                Reg sum = lines[i * STRIDE];
                [[unroll]] for (int r = 1; r < K; r++) {
                    const Reg v = lines[i * STRIDE + r];
                    EACH_HALF(JOIN)
                }
                kept[k][i] = sum;
            }
            x++;
            at += vectors;
        }
        const bool writes = live && column >= begin && column < end;
        [[unroll]] for (int i = 0; i < TILE; i++) {
            Reg sum = kept[0][i];
            [[unroll]] for (int k = 1; k < K; k++) {
                const Reg v = kept[k][i];
                EACH_HALF(JOIN)
            }
#ifdef AVERAGE
            const float share = 1.0 / float(covered(column * STRIDE - pad_left, width) *
                covered(y + i * STRIDE, height));
            sum = Reg(sum.lo * share, sum.hi * share);
#endif
            const uint goal = writes && line + i < out_height ?
                uint(to + i * out_width * vectors) : ~0u;
            STORE(result, goal, sum)
        }
        [[unroll]] for (int k = 0; k < KEPT; k++)
            [[unroll]] for (int i = 0; i < TILE; i++) kept[k][i] = kept[k + STRIDE][i];
        column++;
        to += vectors;
        turn++;
    } while (turn < columns + WARM);
}
#else
layout(binding = 0) uniform samplerBuffer dy;
#ifdef MAX_GRAD
layout(binding = 1) uniform samplerBuffer x_in;
#define NUMBER 2
#else
#define NUMBER 1
#endif
layout(std430, binding = NUMBER) writeonly buffer Output { VEC dx[]; };
layout(std430, binding = NUMBER) writeonly buffer OutputHalves { u64vec2 dx_h[]; };

#define BEFORE ((K - 1) / STRIDE)          /* windows that begin before a step and reach into it */
#define WINDOWS (BEFORE + TILE / STRIDE)   /* lines of windows that reach into the tile */
#define LINES ((WINDOWS - 1) * STRIDE + K) /* that these have */
#define KEPT (K - STRIDE)
#ifdef MAX_GRAD
#define WARM (BEFORE + (KEPT + STRIDE - 1) / STRIDE) /* x comes late, too */
#else
#define WARM BEFORE
#endif

void main()
{
    const int t = int(gl_GlobalInvocationID.x), image = int(gl_WorkGroupID.y);
    const int unit = t / vectors, channel = t - unit * vectors, tile = unit / strips,
        strip = unit - tile * strips;
    const bool live = tile < tiles;
    const int skip_y = pad_top % STRIDE, skip_x = pad_left % STRIDE;
    const int line = min(tile, tiles - 1) * TILE - skip_y, top = line - BEFORE * STRIDE;
    // of those lines; a whole number, perhaps below 0
    const int first_window = (top + pad_top) / STRIDE;
    int begin = strip * columns * STRIDE - skip_x;
    int column = begin - WARM * STRIDE, window = (column + pad_left) / STRIDE, turn = 0;
    const int end = min(begin + columns * STRIDE, width);
    begin = max(begin, 0);
    int dy_at = ((image * out_height + first_window) * out_width + window) * vectors + channel;
    int to = ((image * height + line) * width + column) * vectors + channel;
    Reg sum[K][TILE];
    [[unroll]] for (int k = 0; k < K; k++)
        [[unroll]] for (int i = 0; i < TILE; i++) sum[k][i] = rf_splat(0.0);
#ifdef MAX_GRAD
    int x = column + KEPT, at = ((image * height + top) * width + x) * vectors + channel;
    Reg seen[K][LINES];
    [[unroll]] for (int k = 0; k < K; k++)
        [[unroll]] for (int i = 0; i < LINES; i++) seen[k][i] = rf_splat(LOWEST);
#endif
    do {
#ifdef MAX_GRAD
        [[unroll]] for (int k = KEPT; k < K; k++) {
            const bool inside_x = uint(x) < uint(width);
            [[unroll]] for (int i = 0; i < LINES; i++)
                LOAD_INSIDE(seen[k][i], x_in, all(bvec2(inside_x, uint(top + i) < uint(height))),
                    at + i * width * vectors, LOWEST)
            x++;
            at += vectors;
        }
#endif
        [[unroll]] for (int w = 0; w < WINDOWS; w++) {
            const bool is_there = all(bvec2(uint(first_window + w) < uint(out_height),
                uint(window) < uint(out_width)));
            Reg g;
            LOAD_INSIDE(g, dy, is_there, dy_at + w * out_width * vectors, 0.0)
            const int window_top = top + w * STRIDE;
#ifdef MAX_GRAD
            // The first maximum: what lies outside of the image is never greater than what lies in
            // it.
            Reg best = rf_splat(LOWEST), place = rf_splat(float(max(-window_top, 0) * K +
                max(-column, 0)));
            [[unroll]] for (int k = 0; k < K * K; k++) {
                const Reg v = seen[k % K][w * STRIDE + k / K];
#define LOOK(half)                                                                                 \
    {                                                                                              \
        const bvec4 takes = takes_place(v.half, best.half);                                        \
        place.half = mix(place.half, vec4(float(k)), takes);                                       \
        best.half = mix(best.half, v.half, takes);                                                 \
    }
                EACH_HALF(LOOK)
            }
            if (RELU_MASK != 0u) {
                // Windows that are not there have seen pixels that are.
                g.lo = mix(vec4(0.0), rf_relu_grad(g.lo, best.lo), bvec4(is_there));
                g.hi = mix(vec4(0.0), rf_relu_grad(g.hi, best.hi), bvec4(is_there));
            }
#else
            const float share = 1.0 / float(covered(window_top, height) * covered(column, width));
            g = Reg(g.lo * share, g.hi * share);
            g = Reg(mix(vec4(0.0), g.lo, bvec4(is_there)), mix(vec4(0.0), g.hi, bvec4(is_there)));
#endif
            [[unroll]] for (int k = 0; k < K * K; k++) {
                const int i = (w - BEFORE) * STRIDE + k / K; // line of the tile
                if (i < 0 || i >= TILE) continue;
#ifdef MAX_GRAD
#define ADD(half) sum[k % K][i].half += mix(vec4(0.0), g.half, equal(place.half, vec4(float(k))));
#else
#define ADD(half) sum[k % K][i].half += g.half;
#endif
                EACH_HALF(ADD)
            }
        }
        [[unroll]] for (int k = 0; k < STRIDE; k++) {
            const bool writes = live && column >= begin && column < end;
            [[unroll]] for (int i = 0; i < TILE; i++) {
                const uint goal = writes && uint(line + i) < uint(height) ?
                    uint(to + i * width * vectors) : ~0u;
                STORE(dx, goal, sum[k][i])
            }
            column++;
            to += vectors;
        }
        [[unroll]] for (int k = 0; k < K; k++)
            [[unroll]] for (int i = 0; i < TILE; i++)
                if (k < KEPT) sum[k][i] = sum[k + STRIDE][i];
                else sum[k][i] = rf_splat(0.0);
#ifdef MAX_GRAD
        [[unroll]] for (int k = 0; k < KEPT; k++)
            [[unroll]] for (int i = 0; i < LINES; i++) seen[k][i] = seen[k + STRIDE][i];
#endif
        dy_at += vectors;
        window++;
        turn++;
    } while (turn < columns + WARM);
}
#endif
