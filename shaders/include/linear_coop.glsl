/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The core of linear_block.glsl on cooperative matrices: operands are stored in 16 bits, sums are
 * f32. Loads, parts, ends and stores are those of all block kernels; what differs is how a slice
 * stands in shared memory, and who multiplies it.
 *
 * A subgroup computes FRAGMENTS x TN4 matrices of MATRIX_M x MATRIX_N. Operands go through
 * registers and shared memory as bits, because bf16 has no arithmetic; as they are loaded so they
 * stand there, lines of summands or summands of lines, each with eight elements more than needed:
 * lines that are read at once begin in different banks. When all is summed, each matrix goes
 * through shared memory once more, so that an invocation knows which elements it has: vectors of
 * four of a row.
 *
 * Every size is a specialization constant. Compilers older than those of 2023 do not know the
 * extension: what a newer one makes of this is kept in shaders/coop.
 */
#include "linear_matrices.glsl"

layout(constant_id = 20) const int LOADS_A = 2;   /* BM * BK / 4 / THREADS */
layout(constant_id = 21) const int LOADS_B = 2;
layout(constant_id = 22) const
    int TM = 2; /* rows that an invocation has elements of; vectors of each: */
layout(constant_id = 23) const int TN4 = 1;

#define FRAGMENTS (TM / VECTORS)
#define STAGE_A                                                                                    \
    (BM * (BK + PADDING) / 4) /* enough for both ways to stand, BK being no more than BM and BN */
#define STAGE_B (BN * (BK + PADDING) / 4)
shared OPERAND4 tile_a[2 * STAGE_A];
shared OPERAND4 tile_b[2 * STAGE_B];
shared vec4 drain[THREADS * VECTORS];
#define ARRIVED drain[0].x

OPERAND4 ra[LOADS_A], rb[LOADS_B];
int thread = int(gl_LocalInvocationID.x), lane = int(gl_SubgroupInvocationID),
    subgroup = int(gl_SubgroupID);
/* The place of the subgroup within the block. */
int subgroup_row = subgroup / (BN / (TN4 * MATRIX_N)) * (FRAGMENTS * MATRIX_M);
int subgroup_column = subgroup % (BN / (TN4 * MATRIX_N)) * (TN4 * MATRIX_N);

void load_a(int k, int to);
void load_b(int k, int to);
void settle_a(int k, int to);
void settle_b(int k, int to);

#ifdef STAGED_A
OPERAND4 staged_a(int i);
#else
#define STAGED_A(i) ra[i]
#endif
#define STAGED_B(i) rb[i]
/* Vectors from one line to the next. */
#define STRIDE(along, lines) (((along) ? BK + PADDING : (lines) + PADDING) / 4)
#define STORE_OPERAND(tile, staged, loads, stage_size, along, lines)                               \
    [[unroll]] for (int i = 0; i < loads; i++)                                                     \
    {                                                                                              \
        int line = LINE_OF(i, along, lines), p = K_OF(i, along, lines);                            \
        tile[stage * stage_size + (along ? line * STRIDE(along, lines) + p / 4                     \
                                         : p * STRIDE(along, lines) + line / 4)] = staged(i);      \
    }

void block_stage(int stage, int k, int to)
{
    settle_a(k, to);
    settle_b(k, to);
    STORE_OPERAND(tile_a, STAGED_A, LOADS_A, STAGE_A, A_ALONG_K, BM)
    STORE_OPERAND(tile_b, STAGED_B, LOADS_B, STAGE_B, B_ALONG_K, BN)
}

/* sum = the product over summands from .. to - 1 of the lines that the loads take. */
void block_multiply(int from, int to, out vec4 sum[TM][TN4])
{
    MATRIX_C c[FRAGMENTS * TN4];
    [[unroll]] for (int i = 0; i < FRAGMENTS * TN4; i++) c[i] = MATRIX_C(0.0);
    load_a(from, to);
    load_b(from, to);
    block_stage(0, from, to);
    barrier();
    int stage = 0;
    for (int k = from; k < to; k += BK) {
        bool more = k + BK < to;
        if (more) {
            load_a(k + BK, to);
            load_b(k + BK, to);
        }
        [[unroll]] for (int p = 0; p < BK; p += MATRIX_K) {
            MATRIX_A a[FRAGMENTS];
            [[unroll]] for (int r = 0; r < FRAGMENTS; r++) {
                int line = subgroup_row + r * MATRIX_M;
                if (A_ALONG_K)
                    coopMatLoad(a[r], tile_a, stage * STAGE_A + line * STRIDE(true, BM) + p / 4,
                                STRIDE(true, BM), gl_CooperativeMatrixLayoutRowMajor);
                else
                    coopMatLoad(a[r], tile_a, stage * STAGE_A + p * STRIDE(false, BM) + line / 4,
                                STRIDE(false, BM), gl_CooperativeMatrixLayoutColumnMajor);
            }
            [[unroll]] for (int s = 0; s < TN4; s++) {
                MATRIX_B b;
                int line = subgroup_column + s * MATRIX_N;
                if (B_ALONG_K)
                    coopMatLoad(b, tile_b, stage * STAGE_B + line * STRIDE(true, BN) + p / 4,
                                STRIDE(true, BN), gl_CooperativeMatrixLayoutColumnMajor);
                else
                    coopMatLoad(b, tile_b, stage * STAGE_B + p * STRIDE(false, BN) + line / 4,
                                STRIDE(false, BN), gl_CooperativeMatrixLayoutRowMajor);
                [[unroll]] for (int r = 0; r < FRAGMENTS; r++) c[r * TN4 + s] =
                    coopMatMulAdd(a[r], b, c[r * TN4 + s]);
            }
        }
        stage ^= 1;
        if (more) block_stage(stage, k + BK, to);
        barrier();
    }
    int own = subgroup * (LANES * VECTORS);
    [[unroll]] for (int r = 0; r < FRAGMENTS; r++)
        [[unroll]] for (int s = 0; s < TN4; s++) {
        coopMatStore(c[r * TN4 + s], drain, own, MATRIX_LINE, gl_CooperativeMatrixLayoutRowMajor);
        subgroupBarrier();
        [[unroll]] for (int v = 0; v < VECTORS; v++) sum[r * VECTORS + v][s] =
            drain[own + v * LANES + lane];
        subgroupBarrier();
        }
}

/* Row and first column of sum[r][s] within the block. */
int block_row(int r)
{
    return subgroup_row + r / VECTORS * MATRIX_M + (r % VECTORS * LANES + lane) / MATRIX_LINE;
}
int block_column(int s) { return subgroup_column + s * MATRIX_N + lane % MATRIX_LINE * 4; }
