/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The gradient of a convolution of few input channels by its kernel, on SIMD lanes: partial sums
 * over parts of the 2 x 2 windows of its output, TAPS elements of a kernel's rows at a time, eight
 * neighbouring columns a lane. Where COLUMN_LANES lanes lie along columns, the others lie along
 * windows: each of them walks a range of its own, and their sums are added in the end. A workgroup
 * is one subgroup.
 *   POOL: what is given is the gradient of the windows' maxima, and y, which tells where these are
 *   (pool_max_grad_2x2.comp); else it is that of y itself.
 */
#version 450
#extension GL_EXT_control_flow_attributes : require
#extension GL_GOOGLE_include_directive : require
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_shuffle : require
#include "include/division.glsl"
#define ACTIVATIONS_ONLY
#include "include/scalar_math.glsl"
#include "include/exact_sum.glsl"
layout(local_size_x_id = 0) in;
layout(constant_id = 1) const int PADDED = 0; /* taps may fall outside of the image */
layout(constant_id = 2) const int EIGHTS = 0; /* columns come in eights */
layout(constant_id = 3) const int POOL = 0;
layout(constant_id = 4) const int RELU_MASK = 0;

layout(push_constant) uniform P {
    int total, tap_units, column_units; /* workgroups; of a part */
    int windows, split;                 /* all of them; that a lane takes */
    int line, lines;                    /* windows along an image's sides */
    uint by_line, line_shift, by_lines, lines_shift;
    int in_h, in_w, out_h, out_w;
    int channels, columns;
    int kernel_w, summands;             /* of the kernel: rows are summands of the convolution */
    int stride_y, stride_x, step_y, step_x, first_y, first_x;
    /* floats from part to part; where the sums of the gradient stand, -1: nowhere */
    int part_size, bias_at;
};

layout(binding = 0) uniform samplerBuffer x_in;
layout(binding = 1) uniform samplerBuffer dy;
layout(binding = 2) uniform samplerBuffer y;
layout(std430, binding = 3) writeonly buffer Partial { float partial[]; };

#define TAPS 9
#define ABREAST (int(gl_WorkGroupSize.x) / COLUMN_LANES)
#define LOADS (4 / COLUMN_LANES)
#define FROM_LANE(value, lane) subgroupShuffle(value, uint(lane))

struct Reg { vec4 lo, hi; };
/* Eight elements from the `skip`-th of these twelve on. */
Reg skip_some(int skip, vec4 a, vec4 b, vec4 c)
{
    bvec4 one = bvec4((skip & 1) != 0), two = bvec4((skip & 2) != 0);
    a = mix(a, vec4(a.yzw, b.x), one);
    b = mix(b, vec4(b.yzw, c.x), one);
    c.xy = mix(c.xy, c.yz, one.xy);
    return Reg(mix(a, vec4(a.zw, b.xy), two), mix(b, vec4(b.zw, c.xy), two));
}

/* Eight columns of what starts at element `row`; what is beyond the last column counts for
 * nothing. */
#define LOAD_REG(to, name, row)                                                                    \
    {                                                                                              \
        int at = column < columns ? (row) + column : 0, four = at >> 2;                            \
        if (EIGHTS != 0) to = Reg(texelFetch(name, four), texelFetch(name, four + 1));             \
        else to = skip_some(at & 3, texelFetch(name, four),                                        \
            texelFetch(name, min(four + 1, last_##name)),                                          \
                            texelFetch(name, min(four + 2, last_##name)));                         \
    }

bvec4 takes_place(vec4 v, vec4 best)
{
    return greaterThan(ivec4(greaterThan(v, best)) +
        ivec4(greaterThan(floatBitsToInt(v) & 0x7fffffff, ivec4(0x7f800000))), ivec4(0));
}

/* The gradient g of a window's maximum, given to the element that is it: the last that took the
 * place of those before it. */
void give(inout vec4 v[4], vec4 g)
{
    bvec4 takes_1 = takes_place(v[1], v[0]);
    vec4 most = mix(v[0], v[1], takes_1), zero = vec4(0.0);
    bvec4 takes_2 = takes_place(v[2], most);
    most = mix(most, v[2], takes_2);
    bvec4 takes_3 = takes_place(v[3], most);
    if (RELU_MASK != 0) g = rf_relu_grad(g, mix(most, v[3], takes_3));
    v[3] = mix(zero, g, takes_3);
    g = mix(g, zero, takes_3);
    v[2] = mix(zero, g, takes_2);
    g = mix(g, zero, takes_2);
    v[1] = mix(zero, g, takes_1);
    v[0] = mix(g, zero, takes_1);
}

void main()
{
    int id = int(gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x),
        lane = int(gl_SubgroupInvocationID);
    if (id >= total) return;
    uint no_bits = RF_NO_BITS(total);
    int column_lane = lane % COLUMN_LANES, abreast = lane / COLUMN_LANES, own_row = lane / ABREAST,
        own_window = lane % ABREAST;
    int column = (id % column_units * COLUMN_LANES + column_lane) * 8;
    id /= column_units;
    int first_tap = id % tap_units * TAPS, part = id / tap_units;

    int tap_y[TAPS], tap_x[TAPS], tap_at[TAPS];
    [[unroll]] for (int j = 0; j < TAPS; j++) {
        int row = min(first_tap + j, summands - 1), tap = row / channels, ky = tap / kernel_w;
        tap_y[j] = ky * step_y;
        tap_x[j] = (tap - ky * kernel_w) * step_x;
        tap_at[j] = (tap_y[j] * in_w + tap_x[j]) * channels + row - tap * channels;
    }

    /* The window that a lane reads for. */
    int window = (part * ABREAST + own_window) * split, left = min(split, windows - window),
        from = left > 0 ? window : 0;
    int all_lines = int(rf_divide(uint(from), by_line, line_shift)),
        image = int(rf_divide(uint(all_lines), by_lines, lines_shift));
    int wx = from - all_lines * line, wy = all_lines - image * lines;
    int last_dy = textureSize(dy) - 1, last_y = textureSize(y) - 1;
    Reg sums[TAPS], of_dy = Reg(vec4(0.0), vec4(0.0)), lost = of_dy;
    [[unroll]] for (int j = 0; j < TAPS; j++) sums[j] = Reg(vec4(0.0), vec4(0.0));

    int turn = 0;
    do {
        bool live = turn < left;
        float a[LOADS][TAPS];
        [[unroll]] for (int g = 0; g < LOADS; g++) {
            int row = g * COLUMN_LANES + own_row;
            int out_y = 2 * wy + (row >> 1), out_x = 2 * wx + (row & 1);
            /* else x may be infinite, and that times 0 is NaN */
            bool given = live && out_y < out_h && out_x < out_w;
            int y = out_y * stride_y + first_y, x = out_x * stride_x + first_x;
            int at = ((image * in_h + y) * in_w + x) * channels;
            [[unroll]] for (int j = 0; j < TAPS; j++) {
                bool inside = given;
                if (PADDED != 0) inside = given && uint(y + tap_y[j]) < uint(in_h) &&
                    uint(x + tap_x[j]) < uint(in_w);
                a[g][j] = texelFetch(x_in, inside ? at + tap_at[j] : 0).x;
                a[g][j] = inside ? a[g][j] : 0.0;
            }
        }
        int y_at = FROM_LANE(((image * out_h + 2 * wy) * out_w + 2 * wx) * columns, abreast);
        bool counts = FROM_LANE(int(live), abreast) != 0;
        Reg d[4], of_turn = Reg(vec4(0.0), vec4(0.0));
        if (POOL != 0) {
            int window_at = FROM_LANE(((image * lines + wy) * line + wx) * columns, abreast);
            Reg g;
            LOAD_REG(g, dy, window_at)
            g.lo = counts ? g.lo : vec4(0.0);
            g.hi = counts ? g.hi : vec4(0.0);
            [[unroll]] for (int q = 0; q < 4; q++)
                LOAD_REG(d[q], y, y_at + ((q >> 1) * out_w + (q & 1)) * columns)
            vec4 lo[4] = vec4[4](d[0].lo, d[1].lo, d[2].lo, d[3].lo),
                hi[4] = vec4[4](d[0].hi, d[1].hi, d[2].hi, d[3].hi);
            give(lo, g.lo);
            give(hi, g.hi);
            [[unroll]] for (int q = 0; q < 4; q++) d[q] = Reg(lo[q], hi[q]);
            of_turn.lo = (lo[0] + lo[1]) + (lo[2] + lo[3]);
            of_turn.hi = (hi[0] + hi[1]) + (hi[2] + hi[3]);
        } else {
            int below = FROM_LANE(int(2 * wy + 1 < out_h), abreast),
                beside = FROM_LANE(int(2 * wx + 1 < out_w), abreast);
            [[unroll]] for (int q = 0; q < 4; q++) {
                bool inside = counts && (q < 2 || below != 0) && ((q & 1) == 0 || beside != 0);
                LOAD_REG(d[q], dy, inside ? y_at + ((q >> 1) * out_w + (q & 1)) * columns : 0)
                d[q].lo = inside ? d[q].lo : vec4(0.0);
                d[q].hi = inside ? d[q].hi : vec4(0.0);
                of_turn.lo += d[q].lo;
                of_turn.hi += d[q].hi;
            }
        }
        RF_ADD_EXACTLY(vec4, of_dy.lo, lost.lo, of_turn.lo, no_bits)
        RF_ADD_EXACTLY(vec4, of_dy.hi, lost.hi, of_turn.hi, no_bits)
        [[unroll]] for (int j = 0; j < TAPS; j++) [[unroll]] for (int q = 0; q < 4; q++) {
            float s = FROM_LANE(a[q / COLUMN_LANES][j], q % COLUMN_LANES * ABREAST + abreast);
            sums[j].lo += s * d[q].lo;
            sums[j].hi += s * d[q].hi;
        }
        turn++;
        wx += turn < left ? 1 : 0; /* the last one again, where there are no more */
        bool next_line = wx == line;
        wx = next_line ? 0 : wx;
        wy += next_line ? 1 : 0;
        bool next_image = wy == lines;
        wy = next_image ? 0 : wy;
        image += next_image ? 1 : 0;
    } while (turn < split);

/* Written out: a loop whose steps are products is not unrolled, and then arrays that it is in
 * stay in memory. */
#define ADD_OTHER(sum, distance)                                                                   \
    sum.lo += subgroupShuffle(sum.lo, gl_SubgroupInvocationID ^ distance);                         \
    sum.hi += subgroupShuffle(sum.hi, gl_SubgroupInvocationID ^ distance);
#define ADD_ABREAST(sum)                                                                           \
    if (ABREAST == 2) {                                                                            \
        ADD_OTHER(sum, uint(COLUMN_LANES))                                                         \
    }
#define STORE_SUM(sum, row, has)                                                                   \
    {                                                                                              \
        ADD_ABREAST(sum)                                                                           \
        [[unroll]] for (int i = 0; i < 4; i++) {                                                   \
            if (abreast == 0 && (has) && column + i < columns)                                     \
                partial[part * part_size + (row) + column + i] = sum.lo[i];                        \
            if (abreast == 0 && (has) && column + 4 + i < columns)                                 \
                partial[part * part_size + (row) + column + 4 + i] = sum.hi[i];                    \
        }                                                                                          \
    }
    [[unroll]] for (int j = 0; j < TAPS; j++)
        STORE_SUM(sums[j], (first_tap + j) * columns, first_tap + j < summands)
    STORE_SUM(of_dy, bias_at, bias_at >= 0 && first_tap == 0)
}
