/* SPDX-License-Identifier: Apache-2.0 */
#include "pretrained/names.h"

#include <stdio.h>
#include <string.h>

#include "base/memory.h"

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* Behind a number of at most nine digits; NULL: there is none. */
static const char *read_number(const char *at, uint32_t *number)
{
    int digits = 0;
    *number = 0;
    while (is_digit(at[digits]) && digits < 10) *number = *number * 10 + (uint32_t)(at[digits++] - '0');
    return digits == 0 || digits > 9 || (digits > 1 && at[0] == '0') ? NULL : at + digits;
}

bool rf_name_match(const char *pattern, const char *name, rf_name_numbers *numbers)
{
    numbers->count = 0;
    while (*pattern) {
        if (pattern[0] != '{' || pattern[1] != '}') {
            if (*pattern++ != *name++) return false;
            continue;
        }
        if (numbers->count == RF_MOST_NUMBERS) return false;
        name = read_number(name, &numbers->items[numbers->count]);
        if (!name) return false;
        numbers->count++;
        pattern += 2;
    }
    return *name == '\0';
}

char *rf_name_fill(const char *pattern, const rf_name_numbers *numbers)
{
    const size_t room = strlen(pattern) + RF_MOST_NUMBERS * 10 + 1;
    char *out = rf_calloc(room, 1);
    size_t at = 0;
    uint32_t next = 0;
    while (out && *pattern) {
        if (pattern[0] == '{' && pattern[1] == '}' && next < numbers->count) {
            at += (size_t)snprintf(out + at, room - at, "%u", numbers->items[next++]);
            pattern += 2;
        } else {
            out[at++] = *pattern++;
        }
    }
    return out;
}

static uint32_t count_numbers(const char *pattern)
{
    uint32_t count = 0;
    for (const char *at = strstr(pattern, "{}"); at; at = strstr(at + 2, "{}")) count++;
    return count;
}

rf_result rf_name_check(const char *pattern, const char *other)
{
    const uint32_t count = count_numbers(pattern);
    RF_REQUIRE(count <= RF_MOST_NUMBERS, "'%s' has more than %d times {}", pattern, RF_MOST_NUMBERS);
    RF_REQUIRE(count == count_numbers(other), "'%s' and '%s' do not have {} equally often", pattern, other);
    return RF_OK;
}
