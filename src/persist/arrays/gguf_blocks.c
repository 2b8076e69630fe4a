/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The blocks of GGUF's tensors, written from the description of the format. Numbers are little-endian. Q is a scale d
 * for each block and small integers; in the blocks of 256, which are called K, parts have scales of their own, small
 * integers too, that d multiplies.
 */
#include <math.h>
#include <string.h>

#include "base/half.h"
#include "base/quantize.h"
#include "persist/arrays/gguf.h"

static uint32_t load_16(const uint8_t *at)
{
    return at[0] | (uint32_t)at[1] << 8;
}

static void store_16(uint8_t *at, uint32_t value)
{
    at[0] = (uint8_t)value;
    at[1] = (uint8_t)(value >> 8);
}

static float load_half(const uint8_t *at)
{
    return rf_f16_to_f32((uint16_t)load_16(at));
}

/* ---- plain numbers ---- */

static void decode_f32(const uint8_t *block, float *out)
{
    const uint32_t bits = load_16(block) | load_16(block + 2) << 16;
    memcpy(out, &bits, sizeof(*out));
}

static bool encode_f32(const float *in, uint8_t *block)
{
    uint32_t bits;
    memcpy(&bits, in, sizeof(bits));
    store_16(block, bits);
    store_16(block + 2, bits >> 16);
    return true;
}

static void decode_f16(const uint8_t *block, float *out)
{
    *out = load_half(block);
}

static bool encode_f16(const float *in, uint8_t *block)
{
    const uint16_t bits = rf_f32_to_f16(*in);
    store_16(block, bits);
    return isfinite(rf_f16_to_f32(bits));
}

static void decode_bf16(const uint8_t *block, float *out)
{
    *out = rf_bf16_to_f32((uint16_t)load_16(block));
}

static bool encode_bf16(const float *in, uint8_t *block)
{
    store_16(block, rf_f32_to_bf16(*in));
    return true;
}

/* ---- blocks of 32 ---- */

/* d, then the codes of a form. */
static void decode_block(rf_quantization kind, const uint8_t *block, float *out)
{
    rf_quantized_form_of(kind)->decode(block + 2, (uint16_t)load_16(block), out);
}

static bool encode_block(rf_quantization kind, const float *in, uint8_t *block)
{
    uint16_t d;
    const bool fits = rf_quantized_form_of(kind)->encode(in, block + 2, &d);
    store_16(block, d);
    return fits;
}

static void decode_q4_0(const uint8_t *block, float *out)
{
    decode_block(RF_QUANTIZATION_Q4_0, block, out);
}

static void decode_q8_0(const uint8_t *block, float *out)
{
    decode_block(RF_QUANTIZATION_INT8, block, out);
}

static bool encode_q8_0(const float *in, uint8_t *block)
{
    return encode_block(RF_QUANTIZATION_INT8, in, block);
}

/* ---- blocks of 256 ---- */

/* Scale and minimum of part i of 8, 6 bits each: those of parts 0 to 3 are the low bits of bytes 0 to 3 and 4 to 7;
 * those of the others have their low halves in bytes 8 to 11, and their high bits above those of the first ones. */
static void part_scale(const uint8_t *packed, int i, float *scale, float *minimum)
{
    if (i < 4) {
        *scale = (float)(packed[i] & 63);
        *minimum = (float)(packed[i + 4] & 63);
        return;
    }
    *scale = (float)((packed[i + 4] & 15) | packed[i - 4] >> 6 << 4);
    *minimum = (float)(packed[i + 4] >> 4 | packed[i] >> 6 << 4);
}

/* d and the factor of minima, 12 bytes of scales, 128 bytes of numbers. Each 32 bytes hold two parts: the low halves
 * one, the high halves the next. */
static void decode_q4_k(const uint8_t *block, float *out)
{
    const float d = load_half(block), of_minima = load_half(block + 2);
    const uint8_t *packed = block + 4, *numbers = block + 16;
    for (int part = 0; part < 8; part++) {
        float scale, minimum;
        part_scale(packed, part, &scale, &minimum);
        scale *= d;
        minimum *= of_minima;
        for (int i = 0; i < 32; i++) {
            const uint8_t pair = numbers[32 * (part / 2) + i];
            out[32 * part + i] = scale * (float)(part % 2 ? pair >> 4 : pair & 15) - minimum;
        }
    }
}

/* 128 bytes of low halves, 64 of the two bits above them, 16 scales with a sign, d. Part p of the four of each 128
 * numbers has its low halves in bytes 32 (p mod 2) on, in the low or, from part 2 on, the high ones, and its two bits
 * at place 2 p of each byte. Each scale is that of 16 numbers. */
static void decode_q6_k(const uint8_t *block, float *out)
{
    const float d = load_half(block + 208);
    for (int half = 0; half < 2; half++) {
        const uint8_t *low = block + 64 * half, *high = block + 128 + 32 * half;
        const uint8_t *scales = block + 192 + 8 * half;
        for (int k = 0; k < 128; k++) {
            const int part = k / 32, i = k % 32, pair = low[32 * (part % 2) + i];
            const int number = (part < 2 ? pair & 15 : pair >> 4) | (high[i] >> 2 * part & 3) << 4;
            out[128 * half + k] = d * (float)(int8_t)scales[k / 16] * (float)(number - 32);
        }
    }
}

/* ---- all ---- */

static const rf_gguf_form forms[] = {
    { RF_GGUF_F32, "F32", 1, 4, decode_f32, encode_f32 },       { RF_GGUF_F16, "F16", 1, 2, decode_f16, encode_f16 },
    { RF_GGUF_BF16, "BF16", 1, 2, decode_bf16, encode_bf16 },   { RF_GGUF_Q4_0, "Q4_0", 32, 18, decode_q4_0, NULL },
    { RF_GGUF_Q8_0, "Q8_0", 32, 34, decode_q8_0, encode_q8_0 }, { RF_GGUF_Q4_K, "Q4_K", 256, 144, decode_q4_k, NULL },
    { RF_GGUF_Q6_K, "Q6_K", 256, 210, decode_q6_k, NULL },
};

const rf_gguf_form *rf_gguf_find_form(uint32_t type)
{
    for (size_t i = 0; i < sizeof(forms) / sizeof(forms[0]); i++)
        if ((uint32_t)forms[i].type == type) return &forms[i];
    return NULL;
}

const char *rf_gguf_type_name(uint32_t type)
{
    static const char *const names[] = {
        "F32",   "F16",    "Q4_0", "Q4_1", "",     "",        "Q5_0",   "Q5_1",    "Q8_0",  "Q8_1",   "Q2_K",
        "Q3_K",  "Q4_K",   "Q5_K", "Q6_K", "Q8_K", "IQ2_XXS", "IQ2_XS", "IQ3_XXS", "IQ1_S", "IQ4_NL", "IQ3_S",
        "IQ2_S", "IQ4_XS", "I8",   "I16",  "I32",  "I64",     "F64",    "IQ1_M",   "BF16",
    };
    return type < sizeof(names) / sizeof(names[0]) && names[type][0] ? names[type]
                                                                     : "a type of numbers that is not known here";
}

uint32_t rf_gguf_value_size(uint32_t type)
{
    static const uint8_t sizes[] = { 1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8 };
    return type < sizeof(sizes) / sizeof(sizes[0]) ? sizes[type] : 0;
}
