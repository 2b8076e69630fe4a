/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Large products of operands in 16 bits on cooperative matrices. Where linear_coop.glsl has to find
 * elements for any op, this has a product of whole tiles only, and as little as possible between
 * the matrix units and memory:
 *
 * - A subgroup computes SUBGROUP_M x SUBGROUP_N, 64 x 64 on GPUs: each fragment of a and b serves
 *   four products.
 * - Eight elements, 16 bytes, are what is loaded and stored to shared memory at once: lines start
 *   at multiples of eight.
 * - One stage in shared memory, and the next slice on its way to registers while this one is
 *   multiplied. A second stage saves a barrier, but on an NVIDIA H200 one stage is a third faster.
 * - No load has a condition. The last tiles of rows and of columns begin so early that they end
 *   with the matrix, and store what the tiles before them do not. The first slice ends so early
 *   that the last one ends with the sum: what it has in front of the first summand are zeros. So
 *   there are at least BM rows, BN columns, and more than BK summands.
 * - A long sum is cut into parts, each of which writes a whole c of its own; another dispatch adds
 *   these up.
 * - Eight neighbours, which memory serves at once, have all of lines l and l + 4 where lines are of
 *   summands: whole sectors are read, and with PADDING those two stand in different banks.
 */
#version 450
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
layout(constant_id = 4) const int SPLIT = 0; /* sums are cut into parts of `split` summands */
layout(constant_id = 5) const int TRANSPOSED_A = 0;
layout(constant_id = 6) const int TRANSPOSED_B = 0;
layout(constant_id = 9) const int VECTOR_C = 0; /* lines start at multiples of four */
#define A_ALONG_K (TRANSPOSED_A == 0)
#define B_ALONG_K (TRANSPOSED_B != 0)
#include "include/linear_matrices.glsl"
#include "include/linear_order.glsl"

layout(local_size_x_id = 0) in;
layout(constant_id = 20) const int SUBGROUP_M = 16;
layout(constant_id = 21) const int SUBGROUP_N = 16;

layout(std430, binding = 0) readonly restrict buffer A { uvec4 a[]; };
layout(std430, binding = 1) readonly restrict buffer B { uvec4 b[]; };
layout(std430, binding = 2) readonly buffer Bias { float bias[]; };
layout(std430, binding = 3) writeonly buffer C { float c[]; };
layout(std430, binding = 3) writeonly buffer C4 { vec4 c4[]; };
layout(push_constant) uniform P { /* as matmul_block.comp has them */
    int total, row_tiles, column_tiles, parts;
    int m, n, k, split;
    int a_line, b_line;
    int parts_of_group, unused;
    ivec4 dim, a_stride, b_stride;
};

#define UNIT 8 /* elements of a load */
#define LOADS_A (BM * BK / UNIT / THREADS)
#define LOADS_B (BN * BK / UNIT / THREADS)
#define FRAGMENTS_M (SUBGROUP_M / MATRIX_M)
#define FRAGMENTS_N (SUBGROUP_N / MATRIX_N)
/* From one line of shared memory to the next, in units. Operands stand there as they lie in
 * memory, lines of summands or summands of lines. */
#define STRIDE(along, lines) (((along) ? BK + PADDING : (lines) + PADDING) / UNIT)
/* enough for both, BK being no more than BM and BN */
shared uvec4 tile_a[BM * (BK + PADDING) / UNIT];
shared uvec4 tile_b[BN * (BK + PADDING) / UNIT];
shared vec4 drain[THREADS * VECTORS];

int thread = int(gl_LocalInvocationIndex), lane = int(gl_SubgroupInvocationID),
    subgroup = int(gl_SubgroupID);
int subgroup_row = subgroup / (BN / SUBGROUP_N) * SUBGROUP_M,
    subgroup_column = subgroup % (BN / SUBGROUP_N) * SUBGROUP_N;
uvec4 ra[LOADS_A], rb[LOADS_B];

/* The invocation's first load within a slice: its line as the matrix is stored, and its unit of
 * that line. A line of 32 summands is four units. */
#define LINE(along, lines) ((along) ? thread / 8 % 4 + thread / 4 % 2 * 4 + thread / 32 * 8        \
    : thread / ((lines) / UNIT))
#define COLUMN(along, lines) ((along) ? thread % 4 : thread % ((lines) / UNIT))
/* Lines from one load to the next. */
#define STEP(along, lines) ((along) ? THREADS / (BK / UNIT) : THREADS / ((lines) / UNIT))
/* First summand of load i. */
#define SUMMAND(i, along,                                                                          \
    lines) ((along) ? COLUMN(along, lines) * UNIT : LINE(along, lines) + (i) * STEP(along, lines))

/* In units: where slice 0 has the invocation's first load, from there to the next load, and to
 * the next slice. */
struct Walk {
    int at, more, slice;
};
Walk walk_a, walk_b;

Walk walk_of(bool along, int lines, int base, int line_size, int first, int missing)
{
    int line = LINE(along, lines) + (along ? first : -missing),
        column = COLUMN(along, lines) * UNIT + (along ? -missing : first);
    int size = line_size / UNIT;
    return Walk((base + line * line_size + column) / UNIT, STEP(along, lines) * size,
        along ? BK / UNIT : BK * size);
}

void load_slice(int t)
{
    [[unroll]] for (int i = 0; i < LOADS_A; i++)
        ra[i] = a[walk_a.at + t * walk_a.slice + i * walk_a.more];
    [[unroll]] for (int i = 0; i < LOADS_B; i++)
        rb[i] = b[walk_b.at + t * walk_b.slice + i * walk_b.more];
}

/* The first slice of a part; of that of the whole sum the first summands are not there. */
void load_first(int t, int missing)
{
    [[unroll]] for (int i = 0; i < LOADS_A; i++) {
        ra[i] = uvec4(0);
        if (SUMMAND(i, A_ALONG_K, BM) >= missing)
            ra[i] = a[walk_a.at + t * walk_a.slice + i * walk_a.more];
    }
    [[unroll]] for (int i = 0; i < LOADS_B; i++) {
        rb[i] = uvec4(0);
        if (SUMMAND(i, B_ALONG_K, BN) >= missing)
            rb[i] = b[walk_b.at + t * walk_b.slice + i * walk_b.more];
    }
}

#define STORE_SLICE(tile, r, loads, along, lines)                                                  \
    [[unroll]] for (int i = 0; i < loads; i++)                                                     \
        tile[(LINE(along, lines) + i * STEP(along, lines)) * STRIDE(along, lines) +                \
            COLUMN(along, lines)] = r[i];

void store_slice()
{
    STORE_SLICE(tile_a, ra, LOADS_A, A_ALONG_K, BM)
    STORE_SLICE(tile_b, rb, LOADS_B, B_ALONG_K, BN)
}

/* The results of matrix i of c, bit for bit what the ends of other kernels make of it, which
 * take vectors of rows. */
const int TM = VECTORS;
#define TN4 1
int block_column(int s) { return lane % MATRIX_LINE * 4; }
#include "include/linear_block_end.glsl"

/* The last tiles leave alone what lies in front of `own_row` and `own_column`. `at`: of c. */
void store_matrix(inout vec4 sum[TM][TN4], int at, int row, int column, int own_row, int own_column)
{
    block_end(sum, column, n);
    column += block_column(0);
    [[unroll]] for (int v = 0; v < VECTORS; v++) {
        int line = row + (v * LANES + lane) / MATRIX_LINE, to = at + line * n + column;
        if (line < own_row) continue;
        if (VECTOR_C != 0) {
            if (column >= own_column) PUT_C4(to >> 2, sum[v][0])
        } else {
            [[unroll]] for (int j = 0; j < 4; j++)
                if (column + j >= own_column) PUT_C(to + j, sum[v][0][j])
        }
    }
}

void main()
{
    int id = int(gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x);
    if (id >= total) return;
    int tiles = row_tiles * column_tiles, part = SPLIT != 0 ? id / tiles % parts : 0, a_first = 0,
        b_first = 0;
    int z = id / tiles / (SPLIT != 0 ? parts : 1), c_first = z * m * n;
    ivec2 place = block_order(id % tiles, row_tiles, column_tiles);
    if (z > 0)
        for (int d = 3, rest = z; d >= 0; d--) {
            a_first += rest % dim[d] * a_stride[d];
            b_first += rest % dim[d] * b_stride[d];
            rest /= dim[d];
        }
    int first_row = min(place.x * BM, m - BM), first_column = min(place.y * BN, n - BN);
    int slices = (k + BK - 1) / BK, missing = slices * BK - k, from = 0, to = slices;
    if (SPLIT != 0) {
        from = part * (split / BK);
        to = min(from + split / BK, slices);
        c_first += part * (total / tiles / parts) * m * n;
    }
    walk_a = walk_of(A_ALONG_K, BM, a_first, a_line, first_row, missing);
    walk_b = walk_of(B_ALONG_K, BN, b_first, b_line, first_column, missing);

    MATRIX_C sums[FRAGMENTS_M * FRAGMENTS_N];
    [[unroll]] for (int i = 0; i < FRAGMENTS_M * FRAGMENTS_N; i++) sums[i] = MATRIX_C(0.0);
    load_first(from, from == 0 ? missing : 0);
    for (int t = from; t < to; t++) {
        barrier();
        store_slice();
        barrier();
        load_slice(min(t + 1, to - 1));
        [[unroll]] for (int p = 0; p < BK; p += MATRIX_K) {
            MATRIX_A fa[FRAGMENTS_M];
            [[unroll]] for (int r = 0; r < FRAGMENTS_M; r++) {
                int line = subgroup_row + r * MATRIX_M;
                if (A_ALONG_K)
                    coopMatLoad(fa[r], tile_a, line * STRIDE(true, BM) + p / UNIT,
                        STRIDE(true, BM), gl_CooperativeMatrixLayoutRowMajor);
                else
                    coopMatLoad(fa[r], tile_a, p * STRIDE(false, BM) + line / UNIT,
                        STRIDE(false, BM), gl_CooperativeMatrixLayoutColumnMajor);
            }
            [[unroll]] for (int s = 0; s < FRAGMENTS_N; s++) {
                MATRIX_B fb;
                int line = subgroup_column + s * MATRIX_N;
                if (B_ALONG_K)
                    coopMatLoad(fb, tile_b, line * STRIDE(true, BN) + p / UNIT, STRIDE(true, BN),
                        gl_CooperativeMatrixLayoutColumnMajor);
                else
                    coopMatLoad(fb, tile_b, p * STRIDE(false, BN) + line / UNIT, STRIDE(false, BN),
                        gl_CooperativeMatrixLayoutRowMajor);
                [[unroll]] for (int r = 0; r < FRAGMENTS_M; r++)
                    sums[r * FRAGMENTS_N + s] = coopMatMulAdd(fa[r], fb, sums[r * FRAGMENTS_N + s]);
            }
        }
    }

    int own = subgroup * (LANES * VECTORS);
    [[unroll]] for (int r = 0; r < FRAGMENTS_M; r++)
        [[unroll]] for (int s = 0; s < FRAGMENTS_N; s++) {
            vec4 sum[TM][TN4];
            coopMatStore(sums[r * FRAGMENTS_N + s], drain, own, MATRIX_LINE,
                gl_CooperativeMatrixLayoutRowMajor);
            subgroupBarrier();
            [[unroll]] for (int v = 0; v < VECTORS; v++) sum[v][0] = drain[own + v * LANES + lane];
            subgroupBarrier();
            store_matrix(sum, c_first, first_row + subgroup_row + r * MATRIX_M,
                first_column + subgroup_column + s * MATRIX_N,
                         place.x * BM, place.y * BN);
        }
}
