/* SPDX-License-Identifier: Apache-2.0 */
/* Patterns of names, and what changes on the way into a GGUF file. */
#include <string.h>

#include "../support/expect.h"
#include "base/memory.h"
#include "pretrained/gguf_parts.h"
#include "tests/room.h"

static void match(const char *pattern, const char *name, uint32_t count, uint32_t first, uint32_t second)
{
    rf_name_numbers numbers;
    if (!rf_name_match(pattern, name, &numbers)) fail_msg("'%s' is not of '%s'", name, pattern);
    assert_int_equal(numbers.count, count);
    if (count > 0) assert_int_equal(numbers.items[0], first);
    if (count > 1) assert_int_equal(numbers.items[1], second);
    char *filled = rf_name_fill(pattern, &numbers);
    assert_string_equal(filled, name);
    rf_free(filled);
}

static void match_not(const char *pattern, const char *name)
{
    rf_name_numbers numbers;
    if (rf_name_match(pattern, name, &numbers)) fail_msg("'%s' is of '%s'", name, pattern);
}

TEST(names_of_patterns)
{
    match("", "", 0, 0, 0);
    match("wte.weight", "wte.weight", 0, 0, 0);
    match("h.{}.ln_1.bias", "h.0.ln_1.bias", 1, 0, 0);
    match("h.{}.ln_1.bias", "h.123.ln_1.bias", 1, 123, 0);
    match("layer{}.{}.conv1", "layer2.10.conv1", 2, 2, 10);
    match("{}", "999999999", 1, 999999999, 0);
}

TEST(names_of_others)
{
    match_not("wte", "wte.weight");
    match_not("wte.weight", "wte");
    match_not("h.{}.b", "h..b");
    match_not("h.{}.b", "h.x.b");
    match_not("h.{}.b", "h.-1.b");
    match_not("h.{}.b", "h.01.b");         /* two names would be one variable */
    match_not("h.{}.b", "h.1000000000.b"); /* more than a number may have */
    match_not("h.{}.b", "h.1");
    match_not("{}{}{}{}{}", "1");
}

TEST(rows_of_heads)
{
    static const uint64_t wanted[8] = { 0, 2, 1, 3, 4, 6, 5, 7 }; /* two heads of four rows: halves become neighbours */
    for (uint64_t row = 0; row < 8; row++) {
        assert_int_equal(rf_gguf_row_in_hub(row, 8, 2), wanted[row]);
        assert_int_equal(rf_gguf_row_in_file(wanted[row], 8, 2), row);
    }
    for (uint64_t row = 0; row < 60; row++)
        assert_int_equal(rf_gguf_row_in_file(rf_gguf_row_in_hub(row, 60, 5), 60, 5), row);
}

/* The settings of a file's divisors are those that made them, of any Llama 3. */
TEST(divisors_of_frequencies)
{
    static const struct {
        double factor, base;
        int32_t length;
        uint32_t width;
    } models[] = { { 8, 500000, 8192, 128 }, { 32, 500000, 8192, 64 }, { 4, 500, 32, 8 }, { 2, 10000, 512, 16 } };
    for (size_t i = 0; i < sizeof(models) / sizeof(models[0]); i++) {
        const rf_rotary_params rotary = { .scaling = RF_ROTARY_LLAMA3,
                                          .original_length = models[i].length,
                                          .factor = models[i].factor,
                                          .low_frequency_factor = 1,
                                          .high_frequency_factor = 4 };
        rf_rotary_params fit;
        float divisors[64];
        rf_gguf_divisors(&rotary, models[i].base, models[i].width, divisors);
        assert_true(rf_gguf_fit_divisors(divisors, models[i].base, models[i].width, &fit));
        assert_memory_equal(&fit, &rotary, sizeof(fit));
        divisors[models[i].width / 4] = 0.5F; /* no divisor of Llama's */
        assert_false(rf_gguf_fit_divisors(divisors, models[i].base, models[i].width, &fit));
    }
}

TESTS(names, NULL, NULL)
