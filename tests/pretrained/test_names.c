/* SPDX-License-Identifier: Apache-2.0 */
/* Patterns of names. */
#include <string.h>

#include "../support/expect.h"
#include "base/memory.h"
#include "pretrained/names.h"
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

TESTS(names, NULL, NULL)
