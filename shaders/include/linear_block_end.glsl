/* SPDX-License-Identifier: Apache-2.0 */
/* The end of a product on linear_block.glsl: bias, activation, and stores of rows. */
#include "linear_epilogue.glsl"

#ifdef COOPERATIVE
layout(std430, binding = 2) readonly buffer NarrowBias { OPERAND narrow_bias[]; };
layout(std430, binding = 3) writeonly buffer NarrowC { OPERAND narrow_c[]; };
layout(std430, binding = 3) writeonly buffer NarrowC4 { OPERAND4 narrow_c4[]; };

float bias_at(int i) { return NARROW_BIAS != 0 ? float(NARROW_OF(narrow_bias[i])) : bias[i]; }
OPERAND narrow(float x) { return NARROW_BITS(NARROW(x)); }
OPERAND4 narrow4(vec4 x) { return OPERAND4(narrow(x.x), narrow(x.y), narrow(x.z), narrow(x.w)); }
#define PUT_C(at, x) { if (NARROW_C != 0) narrow_c[at] = narrow(x); else c[at] = x; }
#define PUT_C4(at, x) { if (NARROW_C != 0) narrow_c4[at] = narrow4(x); else c4[at] = x; }
#else
layout(std430, binding = 3) writeonly buffer NarrowC { uvec2 narrow_c[]; };

float bias_at(int i) { return BLOCK_ELEMENT(bias, NARROW_BIAS, i); }
/* In 16 bits only whole vectors are stored. */
#define PUT_C(at, x) c[at] = x;
#define PUT_C4(at, x) { if (NARROW_C) narrow_c[at] = rf_narrow(TYPE, x); else c4[at] = x; }
#endif

#define BLOCK_EACH(expression)                                                                     \
    {                                                                                              \
        [[unroll]] for (int r = 0; r < TM; r++) [[unroll]] for (int s = 0; s < TN4; s++)           \
            sum[r][s] = expression;                                                                \
    }

/* One condition around all of a block's sums instead of one around each. `first`: of the block's
 * columns, of which the tensor of biases has `count`. */
void block_end(inout vec4 sum[TM][TN4], int first, int count)
{
    if (HAS_BIAS != 0) {
        vec4 add[TN4];
        [[unroll]] for (int s = 0; s < TN4; s++) [[unroll]] for (int j = 0; j < 4; j++) add[s][j] =
            bias_at(min(first + block_column(s) + j, count - 1));
        BLOCK_EACH(sum[r][s] + add[s])
    }
    if (ACTIVATION == 1) BLOCK_EACH(rf_relu(sum[r][s]))
    if (ACTIVATION == 2) BLOCK_EACH(rf_leaky_relu(sum[r][s], 0.2))
    if (ACTIVATION == 3) BLOCK_EACH(rf_sigmoid(sum[r][s]))
    if (ACTIVATION == 4) BLOCK_EACH(rf_tanh(sum[r][s]))
    if (ACTIVATION == 5) BLOCK_EACH(rf_gelu(sum[r][s]))
}

/* Stores the columns below `count` of one row, which starts at element `at`, by put(element, x) or
 * put4(vector, x). */
#define BLOCK_STORE_ROW(put, put4, vector, values, at, first, count)                               \
    {                                                                                              \
        [[unroll]] for (int s = 0; s < TN4; s++)                                                   \
        {                                                                                          \
            int column = first + block_column(s);                                                  \
            if (vector) {                                                                          \
                if (column < count) put4((at) + column >> 2, values[s])                            \
            } else {                                                                               \
                [[unroll]] for (int j = 0; j < 4; j++) if (column + j < count)                     \
                    put((at) + column + j, values[s][j])                                           \
            }                                                                                      \
        }                                                                                          \
    }
