/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers in 8 and 4 bits: levels and codes worked out by hand, errors, lines that end within a block, and memory. */
#include <math.h>
#include <string.h>

#include "base/half.h"
#include "base/memory.h"
#include "base/philox.h"
#include "base/quantize.h"
#include "tests/room.h"

static const rf_quantization kinds[] = { RF_QUANTIZATION_INT8, RF_QUANTIZATION_NF4, RF_QUANTIZATION_Q4_0 };
enum { NUM_KINDS = sizeof(kinds) / sizeof(kinds[0]) };

TEST(int8_codes_are_multiples_of_the_scale)
{
    float values[32] = { 127, -127, 1, -64.4f };
    uint8_t codes[32];
    uint16_t scale;
    assert_true(rf_quantized_form_of(RF_QUANTIZATION_INT8)->encode(values, codes, &scale));
    assert_true(rf_f16_to_f32(scale) == 1);
    assert_int_equal((int8_t)codes[0], 127);
    assert_int_equal((int8_t)codes[1], -127);
    assert_int_equal((int8_t)codes[2], 1);
    assert_int_equal((int8_t)codes[3], -64);
    assert_int_equal(codes[4], 0);
}

/* Numbers 0 and 16 are in the halves of byte 0. */
TEST(q4_0_has_its_greatest_magnitude_at_minus_8)
{
    float values[32] = { [0] = 4, [16] = -3, [17] = 3.4f };
    uint8_t codes[16];
    uint16_t scale;
    assert_true(rf_quantized_form_of(RF_QUANTIZATION_Q4_0)->encode(values, codes, &scale));
    assert_true(rf_f16_to_f32(scale) == -0.5f);
    assert_int_equal(codes[0], 0 | 14 << 4);
    assert_int_equal(codes[1], 8 | 1 << 4); /* -6.8 is nearest to -7 */
}

TEST(nf4_has_the_nearest_level)
{
    float values[64] = { [0] = -2, [1] = 0.1f, [15] = 0.17f, [16] = 2, [32] = -1.2f, [48] = 1.2f };
    uint8_t codes[32];
    uint16_t scale;
    float back[64];
    const rf_quantized_form *form = rf_quantized_form_of(RF_QUANTIZATION_NF4);
    assert_true(form->encode(values, codes, &scale));
    assert_true(rf_f16_to_f32(scale) == 2);
    assert_int_equal(codes[0], 0 | 15 << 4);
    assert_int_equal(codes[1], 8 | 7 << 4);   /* 0.05 lies above half of the level after 0 */
    assert_int_equal(codes[16], 2 | 13 << 4); /* the second half of the block */
    form->decode(codes, scale, back);
    assert_true(back[0] == -2 && back[16] == 2 && back[2] == 0);
    assert_true(back[48] == 2 * 0.5626170039176941f);
}

/* Half of the widest step, by the block's greatest magnitude, and the scale is rounded to f16. */
static float most_error(rf_quantization kind)
{
    return kind == RF_QUANTIZATION_INT8 ? 0.5f / 127 * 1.1f : kind == RF_QUANTIZATION_NF4 ? 0.153f : 0.126f;
}

static void fill(float *values, uint64_t count, uint64_t key)
{
    rf_rng rng = { .key = key };
    for (uint64_t i = 0; i < count; i++) values[i] = (float)rf_rng_normal(&rng);
}

TEST(lines_come_back)
{
    enum { LINES = 6, MOST = 200 };
    static const uint64_t lengths[] = { 1, 31, 32, 33, 64, 100, MOST };
    static float values[LINES * MOST], back[LINES * MOST];
    for (uint32_t k = 0; k < NUM_KINDS * 7; k++) {
        const rf_quantization kind = kinds[k % NUM_KINDS];
        const uint64_t length = lengths[k / NUM_KINDS];
        const rf_quantized_layout l = rf_quantized_layout_make(kind, LINES, length);
        void *whole = rf_calloc((size_t)l.words, 4), *pieces = rf_calloc((size_t)l.words, 4);
        fill(values, LINES * length, k);
        assert_true(rf_quantize_lines(&l, 0, LINES, values, whole));
        assert_true(rf_quantize_lines(&l, 4, 2, values + 4 * length, pieces));
        assert_true(rf_quantize_lines(&l, 0, 4, values, pieces));
        assert_memory_equal(whole, pieces, (size_t)l.words * 4);
        rf_dequantize_lines(&l, 0, LINES, whole, back);
        for (uint64_t i = 0; i < LINES * length; i++) {
            const uint64_t line = i / length, first = i % length / l.form->block * l.form->block;
            float most = 0;
            for (uint64_t j = first; j < first + l.form->block && j < length; j++)
                most = fmaxf(most, fabsf(values[line * length + j]));
            assert_true(fabsf(back[i] - values[i]) <= most * most_error(kind));
        }
        /* They are numbers of the form: once more, and the int8 scale may be another one, but NF4's codes stay. */
        if (kind == RF_QUANTIZATION_NF4) {
            assert_true(rf_quantize_lines(&l, 0, LINES, back, pieces));
            assert_memory_equal(whole, pieces, (size_t)l.words * 4);
        }
        rf_free(whole);
        rf_free(pieces);
    }
}

TEST(numbers_that_do_not_fit_are_refused)
{
    static const float wrong[] = { NAN, INFINITY, -INFINITY, 1e7f };
    for (uint32_t k = 0; k < NUM_KINDS; k++) {
        const rf_quantized_form *form = rf_quantized_form_of(kinds[k]);
        uint8_t codes[RF_QUANTIZED_LARGEST_BLOCK];
        uint16_t scale;
        for (uint32_t i = 0; i < 4; i++) {
            float values[RF_QUANTIZED_LARGEST_BLOCK] = { 0 };
            values[5] = wrong[i];
            assert_false(form->encode(values, codes, &scale));
        }
        float zeros[RF_QUANTIZED_LARGEST_BLOCK] = { 0 }, tiny[RF_QUANTIZED_LARGEST_BLOCK] = { 1e-30f };
        assert_true(form->encode(zeros, codes, &scale));
        form->decode(codes, scale, zeros);
        for (uint32_t i = 0; i < form->block; i++) assert_true(zeros[i] == 0);
        assert_true(form->encode(tiny, codes, &scale)); /* the scale is 0 */
        form->decode(codes, scale, tiny);
        assert_true(tiny[0] == 0);
    }
}

/* GPT-2's linear weights of a layer and its table, against 2 bytes a number. */
TEST(memory_by_bf16)
{
    static const struct {
        uint64_t lines, length;
    } weights[] = { { 2304, 768 }, { 768, 768 }, { 3072, 768 }, { 768, 3072 }, { 50257, 768 } };
    for (uint32_t k = 0; k < NUM_KINDS; k++)
        for (uint32_t i = 0; i < 5; i++) {
            const rf_quantized_layout l = rf_quantized_layout_make(kinds[k], weights[i].lines, weights[i].length);
            const double share = 4.0 * (double)l.words / (2.0 * (double)(weights[i].lines * weights[i].length));
            assert_true(share <= (l.form->bits == 8 ? 0.56 : 0.30));
        }
}

TEST(what_is_no_matrix_has_no_words)
{
    assert_null(rf_quantized_form_of(RF_QUANTIZATION_NONE));
    assert_null(rf_quantized_form_of((rf_quantization)77));
    assert_int_equal(rf_quantized_layout_make(RF_QUANTIZATION_NONE, 2, 2).words, 0);
    assert_int_equal(rf_quantized_layout_make(RF_QUANTIZATION_NF4, UINT64_MAX / 8, UINT64_MAX / 8).words, 0);
    assert_int_equal(rf_quantized_layout_make(RF_QUANTIZATION_INT8, 0, 5).words, 0);
}

TESTS(quantize, NULL, NULL)
