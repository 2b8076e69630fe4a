/* SPDX-License-Identifier: Apache-2.0 */
#include "transport/collective/reduce.h"

#include <string.h>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

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

/* bf16 is the upper half of an f32: vectors of integers do it, with rf_f32_to_bf16's rounding. */
typedef uint32_t word8 __attribute__((vector_size(32)));
typedef uint16_t half8 __attribute__((vector_size(16)));

static void pack_bf16(uint16_t *out, const float *in, size_t count)
{
    size_t i = 0;
    for (; i + 8 <= count; i += 8) {
        word8 bits;
        memcpy(&bits, in + i, sizeof(bits));
        const word8 rounded = (bits + 0x7FFFu + (bits >> 16 & 1u)) >> 16, quiet = bits >> 16 | 0x40u;
        const word8 nan = (word8)((bits & 0x7FFFFFFFu) > 0x7F800000u);
        const half8 narrow = __builtin_convertvector((nan & quiet) | (~nan & rounded), half8);
        memcpy(out + i, &narrow, sizeof(narrow));
    }
    for (; i < count; i++) out[i] = rf_f32_to_bf16(in[i]);
}

static void unpack_bf16(float *out, const uint16_t *in, size_t count)
{
    size_t i = 0;
    for (; i + 8 <= count; i += 8) {
        half8 narrow;
        memcpy(&narrow, in + i, sizeof(narrow));
        const word8 bits = __builtin_convertvector(narrow, word8) << 16;
        memcpy(out + i, &bits, sizeof(bits));
    }
    for (; i < count; i++) out[i] = rf_bf16_to_f32(in[i]);
}

#if defined(__x86_64__)
/* The processor's conversions: the same bits as base/half.h, but that a signalling NaN becomes quiet on the way up. */
__attribute__((target("avx,f16c"))) static size_t pack_f16_fast(uint16_t *out, const float *in, size_t count)
{
    size_t i = 0;
    for (; i + 8 <= count; i += 8)
        _mm_storeu_si128((__m128i *)(void *)(out + i),
                         _mm256_cvtps_ph(_mm256_loadu_ps(in + i), _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
    return i;
}

__attribute__((target("avx,f16c"))) static size_t unpack_f16_fast(float *out, const uint16_t *in, size_t count)
{
    size_t i = 0;
    for (; i + 8 <= count; i += 8)
        _mm256_storeu_ps(out + i, _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(const void *)(in + i))));
    return i;
}

/* Compilers cannot all be asked for F16C itself; every processor with AVX2 has it. */
static bool has_f16c(void)
{
    return __builtin_cpu_supports("avx2");
}
#endif

static void pack_f16(uint16_t *out, const float *in, size_t count)
{
    size_t i = 0;
#if defined(__x86_64__)
    if (has_f16c()) i = pack_f16_fast(out, in, count);
#endif
    for (; i < count; i++) out[i] = rf_f32_to_f16(in[i]);
}

static void unpack_f16(float *out, const uint16_t *in, size_t count)
{
    size_t i = 0;
#if defined(__x86_64__)
    if (has_f16c()) i = unpack_f16_fast(out, in, count);
#endif
    for (; i < count; i++) out[i] = rf_f16_to_f32(in[i]);
}

/* In blocks that stay in the first-level cache. */
enum { BLOCK = 512 };

static void reduce_halves(rf_dtype dtype, rf_reduce_fn fn, void *out, const void *left, const void *right, size_t count)
{
    float a[BLOCK], b[BLOCK];
    for (size_t i = 0; i < count; i += BLOCK) {
        const size_t n = count - i < BLOCK ? count - i : BLOCK;
        rf_wire_unpack(dtype, a, (const uint16_t *)left + i, n);
        rf_wire_unpack(dtype, b, (const uint16_t *)right + i, n);
        fn(a, a, b, n);
        rf_wire_pack(dtype, (uint16_t *)out + i, a, n);
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

void rf_wire_pack(rf_dtype wire, void *out, const float *in, size_t count)
{
    if (wire == RF_F16)
        pack_f16(out, in, count);
    else
        pack_bf16(out, in, count);
}

void rf_wire_unpack(rf_dtype wire, float *out, const void *in, size_t count)
{
    if (wire == RF_F16)
        unpack_f16(out, in, count);
    else
        unpack_bf16(out, in, count);
}

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
