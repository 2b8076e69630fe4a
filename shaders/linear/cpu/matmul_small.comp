#version 450
/* SPDX-License-Identifier: Apache-2.0 */
/*
 * c = activation(op(a) op(b) + bias) of small matrices, on drivers that run a subgroup of LANES as
 * the lanes of a SIMD register and fetch four numbers of a texel buffer as fast as one. Nothing is
 * padded before and no sum is cut into parts, which would be dispatches of their own. A workgroup
 * is a subgroup: each lane has four lines of the operand `own`, and all lanes have the same four
 * lines of the other one, of which they load one number each and hand it on. Lines are rows of
 * op(a) or columns of op(b).
 */
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#include "include/write_fours.glsl"
#include "include/linear_epilogue.glsl"
#include "include/exact_sum.glsl"
/* HAS_BIAS: 1: a bias is added. 2: in its place lies a mask like c, which counts where that is
 * positive. */
/* of `own`, four lines side by side make a texel, not four summands */
layout(constant_id = 3) const bool ACROSS = false;
layout(constant_id = 4) const bool RAGGED = false;    /* summands are no multiple of four */
layout(constant_id = 5) const bool OWN_IS_B = false;
/* rows of c are multiples of four, and so are those of a mask */
layout(constant_id = 6) const bool WIDE = false;

layout(local_size_x_id = 0) in;
layout(binding = 0) uniform samplerBuffer own;        /* of fours */
layout(binding = 1) uniform samplerBuffer other;
/* bias or mask, the latter of fours where rows are WIDE */
layout(binding = 2) uniform samplerBuffer extra;
layout(std430, binding = 3) writeonly buffer C { float c[]; };
layout(std430, binding = 3) writeonly buffer WideC { u64vec2 wide_c[]; };
layout(std430, binding = 4) writeonly buffer Sums { float sums[]; };
layout(push_constant) uniform P {
    int total, own_blocks;         /* workgroups */
    int own_lines, other_lines, summands;
    int other_line, other_k;       /* strides */
    int rows, columns;             /* of c */
    int has_sums;                  /* those of the other operand's lines are wanted as well */
};

/* numbers that a lane loads of the other operand in a turn: four summands of four lines */
#define LOADS (16 / LANES)
#define GIVEN(k, line) subgroupShuffle(given[((k) * 4 + (line)) / LANES],                          \
    uint(((k) * 4 + (line)) % LANES))

/* The four numbers from number `skip` on of the eight in `low` and `high`. */
vec4 shifted(vec4 low, vec4 high, int skip)
{
    bool two = (skip & 2) != 0;
    vec4 start = two ? vec4(low.zw, high.xy) : low;
    float next = two ? high.z : high.x;
    return (skip & 1) != 0 ? vec4(start.yzw, next) : start;
}

void main()
{
    int id = int(gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x),
        lane = int(gl_SubgroupInvocationID);
    if (id >= total) return;
    uint no_bits = RF_NO_BITS(total);
    /* Push constants that the loop needs: lavapipe reads those lane by lane. */
    int all = summands, step = other_k, lines = own_lines;
    int block = id / own_blocks, first = ((id - block * own_blocks) * LANES + lane) * 4,
        other_first = block * 4;

    int given_at = min(other_first + (lane & 3), other_lines - 1) * other_line;
    ivec4 base, skip;
    int last = (lines * all - 1) / 4;
    vec4 low[4], sum[4];
    [[unroll]] for (int q = 0; q < 4; q++) {
        base[q] = min(first + q, lines - 1) * all;
        skip[q] = base[q] & 3;
        base[q] /= 4;
        if (RAGGED && !ACROSS) low[q] = texelFetch(own, base[q]);
        sum[q] = vec4(0.0);
    }
    if (ACROSS) base.x = min(first, lines - 4) / 4;
    lines /= 4;
    float of_lines = 0.0, lost = 0.0;
    int k = 0;
    do {
        vec4 read[4];
        float given[LOADS], of_turn = 0.0;
        [[unroll]] for (int i = 0; i < LOADS; i++) {
            int at = k + lane / 4 + i * (LANES / 4);
            given[i] = texelFetch(other, given_at + min(at, all - 1) * step).x;
            if (RAGGED) given[i] = at < all ? given[i] : 0.0;
            of_turn += given[i];
        }
        RF_ADD_EXACTLY(float, of_lines, lost, of_turn, no_bits)
        [[unroll]] for (int q = 0; q < 4; q++) {
            if (ACROSS) {
                read[q] = texelFetch(own, base.x + min(k + q, all - 1) * lines);
                if (RAGGED) read[q] = k + q < all ? read[q] : vec4(0.0);
            } else if (RAGGED) {
                vec4 high = texelFetch(own, min(base[q] + k / 4 + 1, last));
                read[q] = shifted(low[q], high, skip[q]);
                read[q] = mix(vec4(0.0), read[q], lessThan(k + ivec4(0, 1, 2, 3), ivec4(all)));
                low[q] = high;
            } else {
                read[q] = texelFetch(own, base[q] + k / 4);
            }
        }
        [[unroll]] for (int i = 0; i < 4; i++) {
            vec4 x = ACROSS ? read[i] : vec4(read[0][i], read[1][i], read[2][i], read[3][i]);
            vec4 y = vec4(GIVEN(i, 0), GIVEN(i, 1), GIVEN(i, 2), GIVEN(i, 3));
            [[unroll]] for (int q = 0; q < 4; q++) sum[q] += OWN_IS_B ? y[q] * x : x[q] * y;
        }
        k += 4;
    } while (k < all);

    int row = OWN_IS_B ? other_first : first, column = OWN_IS_B ? first : other_first;
    vec4 add = vec4(0.0);
    if (HAS_BIAS == 1) [[unroll]] for (int p = 0; p < 4; p++)
        add[p] = texelFetch(extra, min(column + p, columns - 1)).x;
    [[unroll]] for (int q = 0; q < 4; q++) {
        vec4 v = linear_activate(sum[q] + add);
        bool inside = row + q < rows && column < columns;
        int at = inside ? (row + q) * columns + column : 0;
        if (HAS_BIAS == 2 && WIDE) v = rf_relu_grad(v, texelFetch(extra, at / 4));
        if (HAS_BIAS == 2 && !WIDE)
            [[unroll]] for (int p = 0; p < 4; p++)
                v[p] = rf_relu_grad(v[p], texelFetch(extra, column + p < columns ? at + p : 0).x);
        if (WIDE) {
            RF_WRITE4(wide_c, inside, at / 4, v)
        } else {
            [[unroll]] for (int p = 0; p < 4; p++)
                if (inside && column + p < columns) c[at + p] = v[p];
        }
    }
    [[unroll]] for (int distance = 4; distance < LANES; distance *= 2)
        of_lines += subgroupShuffle(of_lines, gl_SubgroupInvocationID ^ uint(distance));
    if (has_sums != 0 && first < 16 && first / 4 + other_first < other_lines)
        sums[other_first + first / 4] = of_lines;
}
