/* SPDX-License-Identifier: Apache-2.0 */
#include "dates.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../common/common.h"

static const char source_characters[] = " ,./-'0123456789abcdefghijklmnopqrstuvwxyz",
                  target_characters[] = "-0123456789";
const uint32_t dates_source_vocabulary = DATES_FIRST + sizeof(source_characters) - 1,
               dates_target_vocabulary = DATES_FIRST + sizeof(target_characters) - 1;

static const char *const months[] = { "january", "february", "march",     "april",   "may",      "june",
                                      "july",    "august",   "september", "october", "november", "december" };
static const char *const weekdays[] = { "monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday" };

/* ---- tokens ---- */

static int32_t token_of(const char *characters, char c)
{
    const char *place = c ? strchr(characters, c) : NULL;
    return place ? DATES_FIRST + (int32_t)(place - characters) : -1;
}

bool dates_encode_source(const char *text, int32_t tokens[DATES_SOURCE_LENGTH])
{
    memset(tokens, 0, DATES_SOURCE_LENGTH * sizeof(tokens[0]));
    for (size_t i = 0; text[i]; i++) {
        if (i == DATES_SOURCE_LENGTH) return false;
        tokens[i] = token_of(source_characters, (char)tolower((unsigned char)text[i]));
        if (tokens[i] < 0) return false;
    }
    return text[0] != '\0';
}

uint32_t dates_encode_target(const char *text, int32_t tokens[DATES_TARGET_LENGTH])
{
    uint32_t count = 0;
    for (; text[count] && count + 1 < DATES_TARGET_LENGTH; count++)
        tokens[count] = token_of(target_characters, text[count]);
    return count;
}

void dates_decode_target(const int32_t *tokens, uint32_t count, char text[DATES_TARGET_LENGTH + 1])
{
    uint32_t length = 0;
    for (uint32_t i = 0; i < count && i < DATES_TARGET_LENGTH && tokens[i] != DATES_END; i++)
        text[length++] = tokens[i] < DATES_FIRST ? '?' : target_characters[tokens[i] - DATES_FIRST];
    text[length] = '\0';
}

/* ---- pairs ---- */

typedef struct day {
    int year, month, number, weekday; /* month 1 to 12; weekday 0 is Monday */
} day;

static bool is_leap(int year)
{
    return year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
}

/* 0 is 1 January 1900, a Monday. */
static day day_of(int index)
{
    static const int lengths[] = { 31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31 };
    day d = { 1900, 1, 0, index % 7 };
    for (int days; index >= (days = is_leap(d.year) ? 366 : 365); d.year++) index -= days;
    for (int days; index >= (days = lengths[d.month - 1] + (d.month == 2 && is_leap(d.year))); d.month++) index -= days;
    d.number = index + 1;
    return d;
}

enum { DAYS = 73049 }; /* of 1900 to 2099 */

/* Splitmix64; Steele, Lea, Flood 2014. */
static uint64_t mix(uint64_t z)
{
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

/* A tenth of the days is for tests. */
static bool is_for_tests(int index)
{
    return mix((uint64_t)index + 1) % 10 == 0;
}

static const char *ordinal(int number)
{
    if (number / 10 == 1) return "th";
    return number % 10 == 1 ? "st" : number % 10 == 2 ? "nd" : number % 10 == 3 ? "rd" : "th";
}

static void write_source(const day *d, uint64_t form, char *out, size_t size)
{
    const char *month = months[d->month - 1], *weekday = weekdays[d->weekday];
    switch (form) {
    case 0: snprintf(out, size, "%d %s %d", d->number, month, d->year); break;
    case 1: snprintf(out, size, "%s %d, %d", month, d->number, d->year); break;
    case 2: snprintf(out, size, "%d %.3s %d", d->number, month, d->year); break;
    case 3: snprintf(out, size, "%d.%d.%d", d->number, d->month, d->year); break;
    case 4: snprintf(out, size, "%02d/%02d/%d", d->month, d->number, d->year); break;
    case 5: snprintf(out, size, "%s, %d %s %d", weekday, d->number, month, d->year); break;
    case 6:
        snprintf(out, size, "%.3s %.3s %d%s '%02d", weekday, month, d->number, ordinal(d->number), d->year % 100);
        break;
    case 7: snprintf(out, size, "the %d%s of %s %d", d->number, ordinal(d->number), month, d->year); break;
    default: snprintf(out, size, "%d-%.3s-%d", d->number, month, d->year); break;
    }
}
enum { FORMS = 9, SHORT_YEAR_FORM = 6 };

date_pair dates_make(uint64_t seed, uint64_t index, bool for_training)
{
    uint64_t state = mix(mix(seed * 2 + for_training) + index); /* far from those of other pairs */
    date_pair pair;
    int number;
    do {
        state += 0x9e3779b97f4a7c15u;
        number = (int)(mix(state) % DAYS);
    } while (is_for_tests(number) == for_training);
    day d = day_of(number);
    uint64_t form = mix(state ^ 0x5851f42d4c957f2du) % FORMS;
    /* Two digits stand for 1950 to 2049. */
    if (form == SHORT_YEAR_FORM && (d.year < 1950 || d.year > 2049)) form = 0;
    write_source(&d, form, pair.source, sizeof(pair.source));
    snprintf(pair.target, sizeof(pair.target), "%04d-%02d-%02d", d.year % 10000, d.month % 100, d.number % 100);
    return pair;
}

/* ---- data ---- */

static void encode_pair(const date_pair *pair, int32_t *source, int32_t *target, int32_t *following)
{
    (void)dates_encode_source(pair->source, source); /* made here: it can be encoded */
    following[dates_encode_target(pair->target, following)] = DATES_END;
    target[0] = DATES_START;
    memcpy(target + 1, following, (DATES_TARGET_LENGTH - 1) * sizeof(target[0]));
}

int dates_dataset(uint64_t seed, uint64_t count, bool for_training, rf_dataset **out)
{
    const int64_t n = (int64_t)count;
    rf_array arrays[] = { { RF_I32, RF_SHAPE(n, DATES_SOURCE_LENGTH), NULL },
                          { RF_I32, RF_SHAPE(n, DATES_TARGET_LENGTH), NULL },
                          { RF_I32, RF_SHAPE(n, DATES_TARGET_LENGTH), NULL } };
    bool ok = true;
    for (int i = 0; i < 3; i++) {
        arrays[i].data = malloc((size_t)rf_shape_count(arrays[i].shape) * sizeof(int32_t));
        ok = ok && arrays[i].data;
    }
    for (uint64_t i = 0; ok && i < count; i++) {
        const date_pair pair = dates_make(seed, i, for_training);
        encode_pair(&pair, (int32_t *)arrays[0].data + i * DATES_SOURCE_LENGTH,
                    (int32_t *)arrays[1].data + i * DATES_TARGET_LENGTH,
                    (int32_t *)arrays[2].data + i * DATES_TARGET_LENGTH);
    }
    const rf_result r =
        ok ? rf_dataset_from_arrays(&(rf_dataset_arrays_params){ .arrays = arrays, .num_arrays = 3 }, out) : RF_OK;
    for (int i = 0; i < 3; i++) free(arrays[i].data);
    if (!ok)
        fprintf(stderr, "%s: no memory for %llu dates\n", program_invocation_short_name, (unsigned long long)count);
    TRY(r);
    return ok ? 0 : -1;
}
