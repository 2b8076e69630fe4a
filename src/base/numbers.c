/* SPDX-License-Identifier: Apache-2.0 */
#include "base/numbers.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

static locale_t c_numbers;
static pthread_once_t made = PTHREAD_ONCE_INIT;

static void make_locale(void)
{
    c_numbers = newlocale(LC_NUMERIC_MASK, "C", (locale_t)0);
}

/* All of it is C's, which the C library has without allocating: never (locale_t)0 there. */
static locale_t numbers_locale(void)
{
    (void)pthread_once(&made, make_locale);
    return c_numbers;
}

locale_t rf_numbers_enter(void)
{
    const locale_t c = numbers_locale();
    return c ? uselocale(c) : (locale_t)0;
}

void rf_numbers_leave(locale_t before)
{
    if (before) uselocale(before);
}

RF_API double rf_number_parse(const char *text, char **end)
{
    double value = 0;
    if (end) *end = (char *)(uintptr_t)text;
    if (text) RF_WITH_C_NUMBERS(value = strtod(text, end));
    return value;
}

float rf_number_read_float(const char *text, char **end)
{
    float value = 0;
    RF_WITH_C_NUMBERS(value = strtof(text, end));
    return value;
}

int rf_number_vprint(char *buf, size_t size, const char *format, va_list arguments)
{
    int length = 0;
    RF_WITH_C_NUMBERS(length = vsnprintf(buf, size, format, arguments));
    return length;
}

int rf_number_print(char *buf, size_t size, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    const int length = rf_number_vprint(buf, size, format, arguments);
    va_end(arguments);
    return length;
}
