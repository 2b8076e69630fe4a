/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers of optimizers in few bits: the dynamic map against its definition, rounding to the nearest value, numbers
 * that come back as they were, and what is not finite or tiny. */
#include <math.h>
#include <string.h>

#include "base/philox.h"
#include "base/state_form.h"
#include "tests/room.h"

enum { BLOCK = RF_STATE_BLOCK, WORDS = 65 };
static const rf_state_form bytes = { RF_OPTIMIZER_STATE_8BIT, false },
                           positive_bytes = { RF_OPTIMIZER_STATE_8BIT, true };
static const rf_state_form halves = { RF_OPTIMIZER_STATE_BF16, false };

/* As the paper's program makes it: in decade i the middles of cells between 0.1 and 1, times 10^(i - 6), then 0 and 1,
 * in order. */
static void dynamic_map(bool positive, double map[256])
{
    const int zero = positive ? 0 : 127;
    int count = 0;
    for (int i = 0; i < 7; i++) {
        const int cells = 1 << (positive ? i + 1 : i);
        for (int k = 0; k < cells; k++) {
            const double low = 0.1 + 0.9 * k / cells, high = 0.1 + 0.9 * (k + 1) / cells;
            map[zero + ++count] = (low + high) / 2 * pow(10, i - 6);
            if (!positive) map[zero - count] = -map[zero + count];
        }
    }
    map[zero] = 0;
    map[255] = 1;
    assert_int_equal(zero + count, 254);
}

TEST(codes_stand_for_the_dynamic_map)
{
    for (int positive = 0; positive < 2; positive++) {
        double map[256];
        dynamic_map(positive, map);
        for (uint32_t code = 0; code < 256; code++) {
            const double value = (double)rf_state_code_value(positive, code);
            assert_true(fabs(value - map[code]) <= 1.5e-7 * fabs(map[code]));
        }
    }
    assert_true(rf_state_code_value(false, 0) == -0.99296875f);
    assert_true(rf_state_code_value(false, 127) == 0);
    assert_true(rf_state_code_value(false, 255) == 1 && rf_state_code_value(true, 255) == 1);
}

static void draw(rf_rng *rng, bool positive, float values[BLOCK])
{
    const double size = pow(10, 20 * (double)rf_rng_uniform(rng) - 12);
    for (int i = 0; i < BLOCK; i++) {
        const double x = rf_rng_normal(rng) * size * (i % 3 ? 1 : pow(10, -6 * (double)rf_rng_uniform(rng)));
        values[i] = (float)(positive ? fabs(x) : x);
    }
}

static double largest(const float values[BLOCK])
{
    double most = 0;
    for (int i = 0; i < BLOCK; i++) most = fmax(most, fabs((double)values[i]));
    return most;
}

/* No value of the map is nearer, by more than a rounding of f32. */
TEST(numbers_become_the_nearest_values)
{
    rf_rng rng = { .key = 1 };
    for (int round = 0; round < 200; round++) {
        const bool positive = round % 2;
        float values[BLOCK], back[BLOCK];
        uint32_t words[WORDS];
        double map[256];
        dynamic_map(positive, map);
        draw(&rng, positive, values);
        const double scale = largest(values);
        rf_state_encode(positive ? positive_bytes : bytes, values, BLOCK, words);
        rf_state_decode(positive ? positive_bytes : bytes, words, 0, BLOCK, back);
        for (int i = 0; i < BLOCK; i++) {
            double least = INFINITY;
            for (int k = 0; k < 256; k++) least = fmin(least, fabs(map[k] * scale - (double)values[i]));
            assert_true(fabs((double)back[i] - (double)values[i]) <=
                        least + 1e-6 * fabs((double)values[i]) + 1e-13 * scale);
        }
    }
}

TEST(decoded_numbers_come_back_as_they_were)
{
    const rf_state_form forms[] = { bytes, positive_bytes, halves };
    rf_rng rng = { .key = 2 };
    for (int round = 0; round < 3000; round++) {
        const rf_state_form form = forms[round % 3];
        float values[BLOCK], once[BLOCK], twice[BLOCK];
        uint32_t words[2 * WORDS];
        draw(&rng, form.positive, values);
        rf_state_encode(form, values, BLOCK, words);
        rf_state_decode(form, words, 0, BLOCK, once);
        rf_state_encode(form, once, BLOCK, words);
        rf_state_decode(form, words, 0, BLOCK, twice);
        assert_memory_equal(once, twice, sizeof(once));
    }
}

TEST(parts_of_blocks)
{
    float values[300], back[300];
    for (int i = 0; i < 300; i++) values[i] = (float)(i % 2 ? 1 : -0.99296875);
    const rf_state_form forms[] = { bytes, halves };
    for (int f = 0; f < 2; f++) {
        uint32_t words[2 * 128];
        assert_int_equal(rf_state_words(forms[f].type, 512), f ? 256 : 130);
        rf_state_encode(forms[f], values, 300, words);
        rf_state_decode(forms[f], words, 250, 12, back);
        for (int i = 0; i < 12; i++) assert_true(fabsf(back[i] - values[250 + i]) <= (f ? 0.003f : 0));
        rf_state_decode(forms[f], words, 300, 212, back);
        for (int i = 0; i < 212; i++) assert_true(back[i] == 0);
    }
}

TEST(numbers_that_no_scale_fits)
{
    uint32_t words[WORDS];
    float values[BLOCK] = { 1, [17] = NAN }, back[BLOCK];
    rf_state_encode(bytes, values, BLOCK, words);
    rf_state_decode(bytes, words, 0, BLOCK, back);
    for (int i = 0; i < BLOCK; i++) assert_true(isnan(back[i]));
    values[17] = INFINITY;
    rf_state_encode(bytes, values, BLOCK, words);
    rf_state_decode(bytes, words, 3, 1, back);
    assert_true(isnan(back[0]));
    for (int i = 0; i < BLOCK; i++) values[i] = 1e-38f;
    rf_state_encode(bytes, values, BLOCK, words);
    rf_state_decode(bytes, words, 0, BLOCK, back);
    for (int i = 0; i < BLOCK; i++) assert_true(back[i] == 0);
}

TESTS(state_form, NULL, NULL)
