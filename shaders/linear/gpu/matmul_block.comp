/* SPDX-License-Identifier: Apache-2.0 */
/* Product for devices with shared memory, in blocks of which each invocation holds many sums. With
 * QUANTIZED b is a matrix of few bits, whose slices are decoded on their way to shared memory. */
#version 450
#extension GL_GOOGLE_include_directive : require
layout(constant_id = 5) const int TRANSPOSED_A = 0;
layout(constant_id = 6) const int TRANSPOSED_B = 0;
layout(constant_id = 7) const int VECTOR_A = 0; /* lines start at multiples of four */
layout(constant_id = 8) const int VECTOR_B = 0;
layout(constant_id = 9) const int VECTOR_C = 0;
#ifndef COOPERATIVE /* which leaves it to what follows */
/* what lies in place of biases is like c, which counts where that is positive */
layout(constant_id = 11) const int MASK = 0;
#endif
#ifdef QUANTIZED
#define QUANTIZED_ID 10
#include "include/quantized.glsl"
#define SUMS 0
#else
/* of b's rows, too: the product of one more line of a, of ones */
layout(constant_id = 10) const int SUMS = 0;
#endif
#define A_ALONG_K (TRANSPOSED_A == 0)
#define B_ALONG_K (TRANSPOSED_B != 0)
#define WIDEN_A (NARROW_A && VECTOR_A != 0)
#ifdef QUANTIZED
#define WIDEN_B false
#else
#define WIDEN_B (NARROW_B && VECTOR_B != 0)
#endif
#include "include/linear_block.glsl"

BLOCK_OPERAND(a, 0)
#ifndef QUANTIZED
BLOCK_OPERAND(b, 1)
#endif
BLOCK_BIASES
layout(std430, binding = 3) writeonly buffer C { float c[]; };
layout(std430, binding = 3) writeonly buffer C4 { vec4 c4[]; };
layout(push_constant) uniform P {
    int total, row_tiles, column_tiles, parts;
    int m, n, k, split;            /* summands per part */
    int a_line, b_line;            /* from line to line as stored; of few bits in fours */
    int parts_of_group, scales_at; /* the vectors stand at multiples of four */
    ivec4 dim, a_stride, b_stride; /* batch dimensions */
};

BLOCK_MATRIX(given_a, a, NARROW_A, ra, LOADS_A, BM, A_ALONG_K, VECTOR_A != 0)
#ifdef QUANTIZED
layout(std430, binding = 1) readonly buffer Codes { uint codes[]; };
layout(std430, binding = 6) readonly buffer Scales { uint scales[]; };
#define PUT_SUM(at, x) {}

/* Fours of the next slice, and what was loaded for this one: the word of their codes, and that of
 * their scale. */
int b_at[LOADS_B], b_step;
uvec2 raw_b[LOADS_B];

void b_start(int base, int line_fours, int first, int count, int from)
{
    [[unroll]] for (int i = 0; i < LOADS_B; i++) {
        int line = min(first + LINE_OF(i, B_ALONG_K, BN), count - 1),
            p = from + K_OF(i, B_ALONG_K, BN);
        b_at[i] = B_ALONG_K ? line * line_fours + p / 4 : p * line_fours + line / 4;
    }
    b_step = B_ALONG_K ? BK / 4 : BK * line_fours;
}

bool b_is_there(int i, int k, int to) { return k + K_OF(i, B_ALONG_K, BN) < to; }

uint b_block(uint four) { return uint(scales_at) + quantized_block(four); }

void load_b(int k, int to)
{
    [[unroll]] for (int i = 0; i < LOADS_B; i++) {
        uint four = b_is_there(i, k, to) ? uint(b_at[i]) : 0u;
        raw_b[i] = uvec2(codes[quantized_word(four)], scales[b_block(four) >> 1]);
        b_at[i] += b_step;
    }
}

/* Numbers behind the last one of a line are zeros. */
void settle_b(int k, int to)
{
    [[unroll]] for (int i = 0; i < LOADS_B; i++) {
        uint four = uint(b_at[i] - b_step);
        vec4 v = quantized_four(raw_b[i].x, quantized_shift(four),
            quantized_scale(raw_b[i].y, b_block(four)));
        if (!b_is_there(i, k, to)) v = vec4(0.0);
#ifdef COOPERATIVE
        rb[i] = OPERAND4(NARROW_BITS(NARROW(v.x)), NARROW_BITS(NARROW(v.y)),
            NARROW_BITS(NARROW(v.z)), NARROW_BITS(NARROW(v.w)));
#else
        rb[i] = v;
#endif
    }
}
#else
layout(std430, binding = 6) writeonly buffer Sums { float sums[]; };
#define PUT_SUM(at, x) sums[at] = x;
BLOCK_MATRIX(b, b, NARROW_B, rb, LOADS_B, BN, B_ALONG_K, VECTOR_B != 0)
#endif
#include "include/linear_block_end.glsl"

int first_row;

/* A one or a zero, in place of what load_a() left. */
void set_element(int i, int j, bool one)
{
#ifndef COOPERATIVE
    if (WIDEN_A) {
        uvec2 words = floatBitsToUint(ra[i].xy);
        words[j / 2] = bitfieldInsert(words[j / 2], one ? RF_ONE(TYPE) : 0u, 16 * (j & 1), 16);
        ra[i].xy = uintBitsToFloat(words);
        return;
    }
#endif
    ra[i][j] = one ? OPERAND_ONE : OPERAND(0);
}

void load_a(int k, int to) { load_given_a(k, to); }

void settle_a(int k, int to)
{
    settle_given_a(k, to);
    if (SUMS != 0 && m - first_row < BM)
        [[unroll]] for (int i = 0; i < LOADS_A; i++)
            [[unroll]] for (int j = 0; j < 4; j++) {
                int line = first_row + LINE_OF(i, A_ALONG_K, BM) + (A_ALONG_K ? 0 : j);
                int p = k + K_OF(i, A_ALONG_K, BM) + (A_ALONG_K ? j : 0);
                if (line == m) set_element(i, j, p < to);
            }
}

#ifndef COOPERATIVE
vec4 mask_vector(int at) { return NARROW_BIAS ? rf_widen(TYPE, bias_h[at]) : bias4[at]; }

/* The columns of one row, which starts at element `at`, where the mask is positive. */
void mask_row(inout vec4 values[TN4], int at, int first)
{
    [[unroll]] for (int s = 0; s < TN4; s++) {
        int column = first + block_column(s);
        if (VECTOR_C != 0) {
            if (column < n) values[s] = rf_relu_grad(values[s], mask_vector(at + column >> 2));
        } else {
            [[unroll]] for (int j = 0; j < 4; j++)
                if (column + j < n) values[s][j] =
                    rf_relu_grad(values[s][j], bias_at(at + column + j));
        }
    }
}

#endif

void main()
{
    int id = int(gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x);
    if (id >= total) return;
    int tiles = row_tiles * column_tiles, part = id / tiles % parts, z = id / tiles / parts;
    ivec2 place = block_order(id % tiles, row_tiles, column_tiles);
    int a_first = 0, b_first = 0;
    if (z > 0)
        for (int d = 3, rest = z; d >= 0; d--) {
            a_first += rest % dim[d] * a_stride[d];
            b_first += rest % dim[d] * b_stride[d];
            rest /= dim[d];
        }
    first_row = place.x * BM;
    int first_column = place.y * BN, from = part * split, to = min(from + split, k);
    given_a_start(a_first, a_line, first_row, m, from);
    b_start(b_first, b_line, first_column, n, from);
    vec4 sum[TM][TN4];
    block_multiply(from, to, sum);
    if (SPLIT != 0 && !block_add_parts(z * tiles + id % tiles, part, parts, parts_of_group, sum))
        return;
    block_end(sum, first_column, n);
    [[unroll]] for (int r = 0; r < TM; r++) {
        int row = first_row + block_row(r);
#ifndef COOPERATIVE
        if (MASK != 0 && row < m) mask_row(sum[r], (z * m + row) * n, first_column);
#endif
        if (row < m) BLOCK_STORE_ROW(PUT_C, PUT_C4, VECTOR_C != 0, sum[r], (z * m + row) * n,
            first_column, n)
        if (SUMS != 0 && row == m)
            BLOCK_STORE_ROW(PUT_SUM, PUT_C4, false, sum[r], 0, first_column, n)
    }
}
