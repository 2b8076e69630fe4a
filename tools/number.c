/* SPDX-License-Identifier: Apache-2.0 */
#include "number.h"

bool parse_decimal(const char *text, size_t length, uint32_t most, uint32_t *out)
{
    uint64_t value = 0;
    for (size_t i = 0; i < length; i++) {
        if (text[i] < '0' || text[i] > '9') return false;
        value = 10 * value + (uint64_t)(text[i] - '0');
        if (value > most) return false;
    }
    *out = (uint32_t)value;
    return length > 0;
}
