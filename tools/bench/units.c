/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/units.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <ringfire/common.h>

bool parse_size(const char *text, uint64_t *out)
{
    char *end;
    const unsigned long long n = strtoull(text, &end, 10);
    int shift = 0;
    if (*end == 'K' || *end == 'k') shift = 10;
    if (*end == 'M' || *end == 'm') shift = 20;
    if (*end == 'G' || *end == 'g') shift = 30;
    if (end == text || (shift ? end[1] : end[0]) || n == 0 || n > (UINT64_C(4) << 30) >> shift) return false;
    *out = ((uint64_t)n << shift) / sizeof(float) * sizeof(float);
    return *out > 0;
}

typedef struct unit {
    const char *name;
    double factor;
} unit;

/* A number that begins with a digit, and one of the units behind it. */
static bool parse_with_unit(const char *text, const unit *units, double most, double *out)
{
    char *end;
    if (text[0] < '0' || text[0] > '9') return false;
    const double n = rf_number_parse(text, &end);
    for (; units->name; units++) {
        if (strcmp(end, units->name) != 0) continue;
        *out = n * units->factor;
        return *out >= 0 && *out <= most;
    }
    return false;
}

bool parse_time(const char *text, double *seconds)
{
    static const unit units[] = { { "us", 1e-6 }, { "ms", 1e-3 }, { "s", 1 }, { NULL, 0 } };
    *seconds = 0;
    return strcmp(text, "0") == 0 || parse_with_unit(text, units, 1e3, seconds);
}

bool parse_rate(const char *text, double *bytes)
{
    static const unit units[] = { { "kbit", 1e3 / 8 }, { "mbit", 1e6 / 8 }, { "gbit", 1e9 / 8 }, { NULL, 0 } };
    return parse_with_unit(text, units, 1e14 / 8, bytes) && *bytes >= 1e4 / 8;
}

void print_size(char *out, unsigned room, uint64_t bytes)
{
    if (bytes % (1u << 20) == 0)
        snprintf(out, room, "%llu MiB", (unsigned long long)(bytes >> 20));
    else if (bytes % 1024 == 0)
        snprintf(out, room, "%llu KiB", (unsigned long long)(bytes >> 10));
    else
        snprintf(out, room, "%llu B", (unsigned long long)bytes);
}
