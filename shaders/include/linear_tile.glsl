/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The core of the portable matrix kernels: a workgroup computes TILE_ROWS x TILE_COLUMNS of c from slices of a and b that it
 * stages in shared memory, each invocation 4 x 4 of them. No assumption on subgroups; 128 or 256 invocations (build
 * variants), 6 or 8 KiB of shared memory. The including shader defines, before main:
 *   float a_value(int row, int k), float b_value(int k, int column): zero outside
 *   A_ALONG_K, B_ALONG_K: neighbouring invocations read neighbouring k instead of rows or columns
 */
#extension GL_EXT_control_flow_attributes : require

layout(local_size_x_id = 0) in;

#define TILE_K 16
#define TILE_ROWS 64
#define TILE_COLUMNS (THREADS / 4)
#define LINE_A (TILE_ROWS + 4)
#define LINE_B (TILE_COLUMNS + 4)
shared float tile_a[TILE_K * LINE_A];
shared float tile_b[TILE_K * LINE_B];

float a_value(int row, int k);
float b_value(int k, int column);

/* Adds a[first_row .., from .. to) * b[from .. to, first_column ..) for the 4 x 4 that start at this invocation's place. */
void tile_multiply(int first_row, int first_column, int from, int to, out float sum[4][4])
{
    int thread = int(gl_LocalInvocationID.x), my_row = thread / (TILE_COLUMNS / 4) * 4, my_column = thread % (TILE_COLUMNS / 4) * 4;
    [[unroll]] for (int r = 0; r < 4; r++) [[unroll]] for (int s = 0; s < 4; s++) sum[r][s] = 0.0;
    for (int k = from; k < to; k += TILE_K) {
        [[unroll]] for (int i = 0; i < TILE_ROWS * TILE_K / THREADS; i++) {
            int at = i * THREADS + thread;
#ifdef A_ALONG_K
            int row = at / TILE_K, p = at % TILE_K;
#else
            int row = at % TILE_ROWS, p = at / TILE_ROWS;
#endif
            tile_a[p * LINE_A + row] = k + p < to ? a_value(first_row + row, k + p) : 0.0;
        }
        [[unroll]] for (int i = 0; i < TILE_COLUMNS * TILE_K / THREADS; i++) {
            int at = i * THREADS + thread;
#ifdef B_ALONG_K
            int column = at / TILE_K, p = at % TILE_K;
#else
            int column = at % TILE_COLUMNS, p = at / TILE_COLUMNS;
#endif
            tile_b[p * LINE_B + column] = k + p < to ? b_value(k + p, first_column + column) : 0.0;
        }
        barrier();
        [[unroll]] for (int p = 0; p < TILE_K; p++) {
            float a[4], b[4];
            [[unroll]] for (int r = 0; r < 4; r++) a[r] = tile_a[p * LINE_A + my_row + r];
            [[unroll]] for (int s = 0; s < 4; s++) b[s] = tile_b[p * LINE_B + my_column + s];
            [[unroll]] for (int r = 0; r < 4; r++) [[unroll]] for (int s = 0; s < 4; s++) sum[r][s] += a[r] * b[s];
        }
        barrier();
    }
}
