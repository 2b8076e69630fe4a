/* SPDX-License-Identifier: Apache-2.0 */
#include "base/half.h"

#include <string.h>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

/* ---- one number ---- */

static uint32_t bits_of(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof(bits));
    return bits;
}

static float from_bits(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof(value));
    return value;
}

uint16_t rf_f32_to_f16(float value)
{
    const uint32_t bits = bits_of(value);
    const uint32_t sign = bits >> 16 & 0x8000u, magnitude = bits & 0x7FFFFFFFu;
    if (magnitude > 0x7F800000u) return (uint16_t)(sign | 0x7E00u | (magnitude >> 13 & 0x3FFu)); /* NaN, made quiet */
    if (magnitude >= 0x477FF000u) return (uint16_t)(sign | 0x7C00u); /* rounds to 65536 or more: infinity */
    if (magnitude < 0x38800000u) { /* below the smallest normal: the float adder rounds at the right bit */
        const uint32_t shifted = bits_of(from_bits(magnitude) + 0.5f) - bits_of(0.5f);
        return (uint16_t)(sign | shifted);
    }
    const uint32_t odd = magnitude >> 13 & 1u;
    return (uint16_t)(sign | ((magnitude - 0x38000000u + 0xFFFu + odd) >> 13));
}

float rf_f16_to_f32(uint16_t half)
{
    const uint32_t sign = (uint32_t)(half & 0x8000u) << 16, exponent = half >> 10 & 0x1Fu, mantissa = half & 0x3FFu;
    if (exponent == 31) return from_bits(sign | 0x7F800000u | mantissa << 13);
    if (exponent == 0) {
        const float magnitude = (float)mantissa * 0x1p-24f;
        return from_bits(sign | bits_of(magnitude));
    }
    return from_bits(sign | (exponent + 112) << 23 | mantissa << 13);
}

uint16_t rf_f32_to_bf16(float value)
{
    const uint32_t bits = bits_of(value);
    if ((bits & 0x7FFFFFFFu) > 0x7F800000u) return (uint16_t)(bits >> 16 | 0x40u);
    return (uint16_t)((bits + 0x7FFFu + (bits >> 16 & 1u)) >> 16);
}

float rf_bf16_to_f32(uint16_t half)
{
    return from_bits((uint32_t)half << 16);
}

/* ---- many ---- */

/* bf16 is the upper half of an f32: vectors of integers do it, with the rounding above. */
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
/* The processor's conversions: the same bits as above, but that a signalling NaN becomes quiet on the way up. */
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

void rf_floats_widen(float *out, const void *in, rf_dtype dtype, size_t count)
{
    if (dtype == RF_F32)
        memcpy(out, in, count * sizeof(float));
    else if (dtype == RF_F16)
        unpack_f16(out, in, count);
    else
        unpack_bf16(out, in, count);
}

void rf_floats_narrow(void *out, rf_dtype dtype, const float *in, size_t count)
{
    if (dtype == RF_F32)
        memcpy(out, in, count * sizeof(float));
    else if (dtype == RF_F16)
        pack_f16(out, in, count);
    else
        pack_bf16(out, in, count);
}
