/* SPDX-License-Identifier: Apache-2.0 */
#include "transport/collective/reduce.h"

#include <string.h>

#include "base/half.h"

/* ---- four-byte and eight-byte types ---- */

/* Vectors of 32 bytes, loaded and stored unaligned: compilers turn them into what the target has. The rest one by one.
 */
#define VECTOR_KERNEL(name, scalar, vector, lanes, vector_expression, scalar_expression)                               \
    typedef scalar vector __attribute__((vector_size(lanes * sizeof(scalar))));                                        \
    static void name(void *out, const void *left, const void *right, size_t count)                                     \
    {                                                                                                                  \
        char *o = out;                                                                                                 \
        const char *l = left, *r = right;                                                                              \
        size_t i = 0;                                                                                                  \
        for (; i + lanes <= count; i += lanes) {                                                                       \
            vector a, b;                                                                                               \
            memcpy(&a, l + i * sizeof(scalar), sizeof(a));                                                             \
            memcpy(&b, r + i * sizeof(scalar), sizeof(b));                                                             \
            const vector c = (vector_expression);                                                                      \
            memcpy(o + i * sizeof(scalar), &c, sizeof(c));                                                             \
        }                                                                                                              \
        for (; i < count; i++) {                                                                                       \
            scalar a, b;                                                                                               \
            memcpy(&a, l + i * sizeof(scalar), sizeof(a));                                                             \
            memcpy(&b, r + i * sizeof(scalar), sizeof(b));                                                             \
            const scalar c = (scalar_expression);                                                                      \
            memcpy(o + i * sizeof(scalar), &c, sizeof(c));                                                             \
        }                                                                                                              \
    }

/* Where `mask` is all ones the bits of a, else those of b. */
#define SELECT(vector, integers, mask, a, b) ((vector)(((mask) & (integers)(a)) | (~(mask) & (integers)(b))))

typedef int32_t int8x32 __attribute__((vector_size(32)));
typedef int64_t int4x64 __attribute__((vector_size(32)));

VECTOR_KERNEL(sum_f32, float, float_sum, 8, a + b, a + b)
VECTOR_KERNEL(max_f32, float, float_max, 8, SELECT(float_max, int8x32, (a > b) | (a != a), a, b),
              a > b || a != a ? a : b)
VECTOR_KERNEL(min_f32, float, float_min, 8, SELECT(float_min, int8x32, (a < b) | (a != a), a, b),
              a < b || a != a ? a : b)
VECTOR_KERNEL(sum_i32, uint32_t, word_sum, 8, a + b, a + b)
VECTOR_KERNEL(max_i32, int32_t, word_max, 8, SELECT(word_max, int8x32, a > b, a, b), a > b ? a : b)
VECTOR_KERNEL(min_i32, int32_t, word_min, 8, SELECT(word_min, int8x32, a < b, a, b), a < b ? a : b)
VECTOR_KERNEL(sum_i64, uint64_t, long_sum, 4, a + b, a + b)
VECTOR_KERNEL(max_i64, int64_t, long_max, 4, SELECT(long_max, int4x64, a > b, a, b), a > b ? a : b)
VECTOR_KERNEL(min_i64, int64_t, long_min, 4, SELECT(long_min, int4x64, a < b, a, b), a < b ? a : b)

/* ---- two-byte types ---- */

/* In blocks that stay in the first-level cache. */
enum { BLOCK = 512 };

static void reduce_halves(rf_dtype dtype, rf_reduce_fn fn, void *out, const void *left, const void *right, size_t count)
{
    float a[BLOCK], b[BLOCK];
    for (size_t i = 0; i < count; i += BLOCK) {
        const size_t n = count - i < BLOCK ? count - i : BLOCK;
        rf_floats_widen(a, (const uint16_t *)left + i, dtype, n);
        rf_floats_widen(b, (const uint16_t *)right + i, dtype, n);
        fn(a, a, b, n);
        rf_floats_narrow((uint16_t *)out + i, dtype, a, n);
    }
}

#define HALF_KERNEL(name, dtype, fn)                                                                                   \
    static void name(void *out, const void *left, const void *right, size_t count)                                     \
    {                                                                                                                  \
        reduce_halves(dtype, fn, out, left, right, count);                                                             \
    }
HALF_KERNEL(sum_f16, RF_F16, sum_f32)
HALF_KERNEL(max_f16, RF_F16, max_f32)
HALF_KERNEL(min_f16, RF_F16, min_f32)
HALF_KERNEL(sum_bf16, RF_BF16, sum_f32)
HALF_KERNEL(max_bf16, RF_BF16, max_f32)
HALF_KERNEL(min_bf16, RF_BF16, min_f32)

rf_reduce_fn rf_reduce_find(rf_dtype dtype, rf_comm_op op)
{
    static const rf_reduce_fn table[RF_DTYPE_COUNT][3] = {
        [RF_F32] = { [RF_COMM_SUM] = sum_f32, [RF_COMM_MAX] = max_f32, [RF_COMM_MIN] = min_f32 },
        [RF_F16] = { [RF_COMM_SUM] = sum_f16, [RF_COMM_MAX] = max_f16, [RF_COMM_MIN] = min_f16 },
        [RF_BF16] = { [RF_COMM_SUM] = sum_bf16, [RF_COMM_MAX] = max_bf16, [RF_COMM_MIN] = min_bf16 },
        [RF_I32] = { [RF_COMM_SUM] = sum_i32, [RF_COMM_MAX] = max_i32, [RF_COMM_MIN] = min_i32 },
        [RF_I64] = { [RF_COMM_SUM] = sum_i64, [RF_COMM_MAX] = max_i64, [RF_COMM_MIN] = min_i64 },
    };
    if ((unsigned)dtype >= RF_DTYPE_COUNT || (unsigned)op > RF_COMM_MIN) return NULL;
    return table[dtype][op];
}
