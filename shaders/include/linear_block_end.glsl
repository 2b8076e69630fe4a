/* SPDX-License-Identifier: Apache-2.0 */
/* What follows a product on linear_block.glsl: bias, activation, and stores of rows. */
#include "linear_epilogue.glsl"

#define BLOCK_EACH(expression)                                                                                         \
    {                                                                                                                  \
        [[unroll]] for (int r = 0; r < TM; r++) [[unroll]] for (int s = 0; s < TN / 4; s++) sum[r][s] = expression;    \
    }

/* One condition around all of a block's sums instead of one around each. `first`: of the block's columns, of which the tensor
 * of biases has `count`. */
void block_end(inout vec4 sum[TM][TN / 4], int first, int count)
{
    if (HAS_BIAS != 0) {
        vec4 add[TN / 4];
        [[unroll]] for (int s = 0; s < TN / 4; s++)
            [[unroll]] for (int j = 0; j < 4; j++) add[s][j] = bias[min(first + block_column(s) + j, count - 1)];
        BLOCK_EACH(sum[r][s] + add[s])
    }
    if (ACTIVATION == 1) BLOCK_EACH(rf_relu(sum[r][s]))
    if (ACTIVATION == 2) BLOCK_EACH(rf_leaky_relu(sum[r][s], 0.2))
    if (ACTIVATION == 3) BLOCK_EACH(rf_sigmoid(sum[r][s]))
    if (ACTIVATION == 4) BLOCK_EACH(rf_tanh(sum[r][s]))
    if (ACTIVATION == 5) BLOCK_EACH(rf_gelu(sum[r][s]))
}

/* Stores the columns below `count` of one row, which starts at element `at`. */
#define BLOCK_STORE_ROW(c, c4, vector, values, at, first, count)                                                       \
    {                                                                                                                  \
        [[unroll]] for (int s = 0; s < TN / 4; s++) {                                                                  \
            int column = first + block_column(s);                                                                      \
            if (vector) {                                                                                              \
                if (column < count) c4[(at) + column >> 2] = values[s];                                               \
            } else {                                                                                                   \
                [[unroll]] for (int j = 0; j < 4; j++)                                                                 \
                    if (column + j < count) c[(at) + column + j] = values[s][j];                                       \
            }                                                                                                          \
        }                                                                                                              \
    }
