/* SPDX-License-Identifier: Apache-2.0 */
#include "base/quantize.h"

#include <math.h>
#include <string.h>

#include "base/half.h"
#include "base/memory.h"

enum { GROUP = 32 /* codes of 4 bits that lie together */, SCALES_ALIGNMENT = 256 };

/* ---- 8 bits: multiples of the scale, from -127 to 127 ---- */

static float largest_of(const float *values, int count, bool *finite)
{
    float most = 0;
    *finite = true;
    for (int i = 0; i < count; i++) {
        *finite &= isfinite(values[i]) != 0;
        most = fmaxf(most, fabsf(values[i]));
    }
    return most;
}

static bool encode_int8(const float *values, uint8_t *codes, uint16_t *scale)
{
    bool finite;
    const float d = largest_of(values, 32, &finite) / 127, inverse = d > 0 ? 1 / d : 0;
    *scale = rf_f32_to_f16(d);
    if (!finite || !isfinite(rf_f16_to_f32(*scale)) || !isfinite(inverse)) return false;
    for (int i = 0; i < 32; i++) codes[i] = (uint8_t)(int8_t)roundf(values[i] * inverse);
    return true;
}

static void decode_int8(const uint8_t *codes, uint16_t scale, float *values)
{
    const float d = rf_f16_to_f32(scale);
    for (int i = 0; i < 32; i++) values[i] = (float)(int8_t)codes[i] * d;
}

/* ---- 4 bits ---- */

static void nibbles_pack(const uint8_t *numbers, int count, uint8_t *codes)
{
    for (int at = 0; at < count; at += GROUP)
        for (int i = 0; i < GROUP / 2; i++)
            codes[at / 2 + i] = (uint8_t)(numbers[at + i] | numbers[at + GROUP / 2 + i] << 4);
}

static uint8_t nibble_at(const uint8_t *codes, int i)
{
    const uint8_t pair = codes[i / GROUP * (GROUP / 2) + i % (GROUP / 2)];
    return i % GROUP < GROUP / 2 ? pair & 15 : pair >> 4;
}

/* Multiples of the scale from -8 to 7: the scale has the sign with which the number of the greatest magnitude is -8. */
static bool encode_q4_0(const float *values, uint8_t *codes, uint16_t *scale)
{
    bool finite;
    uint8_t numbers[32];
    const float most = largest_of(values, 32, &finite);
    float d = 0;
    for (int i = 31; i >= 0; i--)
        if (fabsf(values[i]) == most) d = values[i] / -8;
    const float inverse = d != 0 ? 1 / d : 0;
    *scale = rf_f32_to_f16(d);
    if (!finite || !isfinite(rf_f16_to_f32(*scale)) || !isfinite(inverse)) return false;
    for (int i = 0; i < 32; i++) {
        const int number = (int)(values[i] * inverse + 8.5f);
        numbers[i] = (uint8_t)(number < 15 ? number : 15);
    }
    nibbles_pack(numbers, 32, codes);
    return true;
}

static void decode_q4_0(const uint8_t *codes, uint16_t scale, float *values)
{
    const float d = rf_f16_to_f32(scale);
    for (int i = 0; i < 32; i++) values[i] = (float)(nibble_at(codes, i) - 8) * d;
}

/* NF4 (Dettmers et al. 2023, QLoRA, appendix E): quantiles of N(0, 1), scaled to [-1, 1], with a zero among them. The
 * shader's include quantized.glsl has the same. */
static const float nf4_levels[16] = {
    -1.0f,
    -0.6961928009986877f,
    -0.5250730514526367f,
    -0.39491748809814453f,
    -0.28444138169288635f,
    -0.18477343022823334f,
    -0.09105003625154495f,
    0.0f,
    0.07958029955625534f,
    0.16093020141124725f,
    0.24611230194568634f,
    0.33791524171829224f,
    0.44070982933044434f,
    0.5626170039176941f,
    0.7229568362236023f,
    1.0f,
};

/* The nearest one. */
static uint8_t nf4_code(float x)
{
    uint8_t code = 0;
    while (code < 15 && x > (nf4_levels[code] + nf4_levels[code + 1]) / 2) code++;
    return code;
}

/* Levels of what the scale is once it is stored: the greatest magnitude, rounded to f16. */
static bool encode_nf4(const float *values, uint8_t *codes, uint16_t *scale)
{
    bool finite;
    uint8_t numbers[64];
    *scale = rf_f32_to_f16(largest_of(values, 64, &finite));
    const float d = rf_f16_to_f32(*scale), inverse = d > 0 ? 1 / d : 0;
    if (!finite || !isfinite(d)) return false;
    for (int i = 0; i < 64; i++) numbers[i] = nf4_code(values[i] * inverse);
    nibbles_pack(numbers, 64, codes);
    return true;
}

static void decode_nf4(const uint8_t *codes, uint16_t scale, float *values)
{
    const float d = rf_f16_to_f32(scale);
    for (int i = 0; i < 64; i++) values[i] = nf4_levels[nibble_at(codes, i)] * d;
}

/* ---- forms ---- */

static const rf_quantized_form forms[] = {
    [RF_QUANTIZATION_NONE] = { .name = "none" },
    [RF_QUANTIZATION_INT8] = { "int8", 8, 32, encode_int8, decode_int8 },
    [RF_QUANTIZATION_NF4] = { "nf4", 4, 64, encode_nf4, decode_nf4 },
    [RF_QUANTIZATION_Q4_0] = { "q4_0", 4, 32, encode_q4_0, decode_q4_0 },
};
enum { NUM_FORMS = sizeof(forms) / sizeof(forms[0]) };

const rf_quantized_form *rf_quantized_form_of(rf_quantization kind)
{
    return (uint32_t)kind < NUM_FORMS && forms[kind].block > 0 ? &forms[kind] : NULL;
}

const char *rf_quantization_name(uint32_t kind)
{
    return kind < NUM_FORMS ? forms[kind].name : "?";
}

/* ---- matrices ---- */

rf_quantized_layout rf_quantized_layout_make(rf_quantization kind, uint64_t lines, uint64_t length)
{
    rf_quantized_layout l = { .form = rf_quantized_form_of(kind), .lines = lines, .length = length };
    const uint64_t limit = UINT64_MAX / 16;
    if (!l.form || lines == 0 || length == 0 || lines > limit || length > limit) return l;
    l.padded = rf_align_up(length, l.form->block);
    l.line_bytes = l.padded * l.form->bits / 8;
    l.line_scales = l.padded / l.form->block;
    if (lines > limit / l.padded) return l;
    l.scales_at = rf_align_up(lines * l.line_bytes, SCALES_ALIGNMENT);
    l.words = l.scales_at / 4 + rf_div_up(lines * l.line_scales, 2);
    return l;
}

/* Where block `b` of a line begins, and how many numbers of it there are. */
static uint64_t block_of(const rf_quantized_layout *l, uint64_t b, uint64_t *first)
{
    *first = b * l->form->block;
    return l->length - *first < l->form->block ? l->length - *first : l->form->block;
}

bool rf_quantize_lines(const rf_quantized_layout *l, uint64_t begin, uint64_t count, const float *values, void *words)
{
    uint8_t *codes = words;
    uint16_t *scales = (uint16_t *)((uint8_t *)words + l->scales_at);
    for (uint64_t i = 0; i < count * l->line_scales; i++) {
        const uint64_t line = i / l->line_scales, block = begin * l->line_scales + i;
        float padded[RF_QUANTIZED_LARGEST_BLOCK] = { 0 };
        uint64_t first;
        const uint64_t n = block_of(l, i % l->line_scales, &first);
        memcpy(padded, values + line * l->length + first, (size_t)n * sizeof(float));
        if (!l->form->encode(padded, codes + block * l->form->block * l->form->bits / 8, &scales[block])) return false;
    }
    return true;
}

void rf_dequantize_lines(const rf_quantized_layout *l, uint64_t begin, uint64_t count, const void *words, float *values)
{
    const uint8_t *codes = words;
    const uint16_t *scales = (const uint16_t *)((const uint8_t *)words + l->scales_at);
    for (uint64_t i = 0; i < count * l->line_scales; i++) {
        const uint64_t line = i / l->line_scales, block = begin * l->line_scales + i;
        float padded[RF_QUANTIZED_LARGEST_BLOCK];
        uint64_t first;
        const uint64_t n = block_of(l, i % l->line_scales, &first);
        l->form->decode(codes + block * l->form->block * l->form->bits / 8, scales[block], padded);
        memcpy(values + line * l->length + first, padded, (size_t)n * sizeof(float));
    }
}
