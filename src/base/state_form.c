/* SPDX-License-Identifier: Apache-2.0 */
#include "base/state_form.h"

#include <math.h>
#include <string.h>

#include "base/half.h"

enum { CODE_WORDS = RF_STATE_BLOCK / 4, ZERO = 127 /* the code of 0 among signed ones */ };

/* ---- the map ---- */

/* Magnitude k of the map: 0, then the middles of the equal cells that decades are cut into, then 1. Multiplied and
 * rounded as the kernels do it. */
static float magnitude_of(bool positive, uint32_t k)
{
    static const float decades[] = { 1e-7f, 1e-6f, 1e-5f, 1e-4f, 1e-3f, 1e-2f, 1e-1f };
    const uint32_t q = k + positive;
    uint32_t e = 0;
    if (k == 0) return 0;
    while (q >> (e + 1)) e++; /* 2^e cells */
    if (e - positive == 7) return 1;
    return (float)(18 * q + 9 - (16u << e)) * decades[e - positive] * ldexpf(1, -(int)e - 1);
}

float rf_state_code_value(bool positive, uint32_t code)
{
    if (positive) return magnitude_of(true, code);
    return code < ZERO ? -magnitude_of(false, ZERO - code) : magnitude_of(false, code - ZERO);
}

typedef struct code_map {
    float value[256], middle[255]; /* `middle` i lies between values i and i + 1 */
} code_map;

static void fill_map(bool positive, code_map *map)
{
    for (uint32_t i = 0; i < 256; i++) map->value[i] = rf_state_code_value(positive, i);
    for (uint32_t i = 0; i < 255; i++) map->middle[i] = 0.5f * (map->value[i] + map->value[i + 1]);
}

/* Halfway numbers go towards 0. */
static uint32_t find_code(const code_map *map, float scale, float x)
{
    uint32_t low = 0, high = 255; /* the code is one of these or lies between */
    while (low < high) {
        const uint32_t i = (low + high) / 2;
        const float border = map->middle[i] * scale;
        if (x < 0 ? x >= border : x > border)
            low = i + 1;
        else
            high = i;
    }
    return low;
}

/* ---- blocks of 8 bits ---- */

static void write_codes(const code_map *map, float scale, const float values[RF_STATE_BLOCK], uint32_t *words)
{
    for (uint32_t i = 0; i < CODE_WORDS; i++) {
        words[i] = 0;
        for (uint32_t k = 0; k < 4; k++) words[i] |= find_code(map, scale, values[4 * i + k]) << 8 * k;
    }
    memcpy(&words[CODE_WORDS], &scale, sizeof(scale));
}

static float number_at(const code_map *map, const uint32_t *words, uint64_t i)
{
    const uint32_t *block = words + i / RF_STATE_BLOCK * (CODE_WORDS + 1);
    const uint32_t at = (uint32_t)(i % RF_STATE_BLOCK);
    float scale;
    memcpy(&scale, &block[CODE_WORDS], sizeof(scale));
    return map->value[block[at / 4] >> 8 * (at % 4) & 255] * scale;
}

static bool block_holds(const code_map *map, const uint32_t *words, const float values[RF_STATE_BLOCK])
{
    for (uint32_t i = 0; i < RF_STATE_BLOCK; i++)
        if (number_at(map, words, i) != values[i]) return false;
    return true;
}

/* Numbers that were decoded have a scale that gives them back. It is the greatest of them, or, where that is negative,
 * what it was a rounded part of. */
static bool encode_again(const code_map *map, float most, const float values[RF_STATE_BLOCK], uint32_t *words)
{
    const float middle = most / -map->value[0];
    float scale = nextafterf(nextafterf(middle, 0), 0);
    for (int i = 0; i < 5; i++, scale = nextafterf(scale, INFINITY)) {
        if (-map->value[0] * scale != most) continue;
        write_codes(map, scale, values, words);
        if (block_holds(map, words, values)) return true;
    }
    return false;
}

static void encode_block(const code_map *map, const float values[RF_STATE_BLOCK], uint32_t *words)
{
    float most = 0;
    bool finite = true, negative = false;
    for (uint32_t i = 0; i < RF_STATE_BLOCK; i++) {
        const float size = fabsf(values[i]);
        finite &= isfinite(size) != 0;
        negative = size > most ? values[i] < 0 : negative || (size == most && values[i] < 0);
        most = size > most ? size : most;
    }
    if (finite && most >= RF_STATE_LEAST) {
        const bool rounded = negative && map->value[0] < 0;
        if (!rounded || !encode_again(map, most, values, words)) write_codes(map, most, values, words);
        return;
    }
    const float scale = finite ? 0 : NAN;
    memset(words, 0, CODE_WORDS * sizeof(words[0]));
    memcpy(&words[CODE_WORDS], &scale, sizeof(scale));
}

/* ---- all forms ---- */

void rf_state_decode(rf_state_form form, const void *words, uint64_t first, uint64_t count, float *values)
{
    code_map map;
    switch (form.type) {
    case RF_OPTIMIZER_STATE_F32: memcpy(values, (const float *)words + first, count * sizeof(float)); return;
    case RF_OPTIMIZER_STATE_BF16: rf_floats_widen(values, (const uint16_t *)words + first, RF_BF16, count); return;
    case RF_OPTIMIZER_STATE_8BIT: break;
    }
    fill_map(form.positive, &map);
    for (uint64_t i = 0; i < count; i++) values[i] = number_at(&map, words, first + i);
}

void rf_state_encode(rf_state_form form, const float *values, uint64_t count, void *words)
{
    const uint64_t size = rf_state_block_words(form.type);
    uint32_t *to = words;
    code_map map;
    if (form.type == RF_OPTIMIZER_STATE_F32) {
        memcpy(words, values, count * sizeof(float));
        return;
    }
    if (form.type == RF_OPTIMIZER_STATE_8BIT) fill_map(form.positive, &map);
    for (uint64_t at = 0; at < count; at += RF_STATE_BLOCK, to += size) {
        const uint64_t n = count - at < RF_STATE_BLOCK ? count - at : RF_STATE_BLOCK;
        float block[RF_STATE_BLOCK] = { 0 };
        memcpy(block, values + at, n * sizeof(float));
        if (form.type == RF_OPTIMIZER_STATE_8BIT)
            encode_block(&map, block, to);
        else
            rf_floats_narrow(to, RF_BF16, block, RF_STATE_BLOCK);
    }
}
