/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers as text, with a decimal point whatever the locale of the program is. check_numbers.py refuses others. */
#ifndef RF_BASE_NUMBERS_H
#define RF_BASE_NUMBERS_H

#include <locale.h>
#include <stdarg.h>
#include <stddef.h>

#include <ringfire/common.h>

/* As strtof(); rf_number_parse() is as strtod(). */
float rf_number_read_float(const char *text, char **end);
/* As those of C. */
int rf_number_print(char *buf, size_t size, const char *format, ...) RF_PRINTF(3, 4);
int rf_number_vprint(char *buf, size_t size, const char *format, va_list arguments);

/* Makes numbers of the calling thread those of C, for libraries that read and write them by its locale, and back. */
locale_t rf_numbers_enter(void);
void rf_numbers_leave(locale_t before);
#define RF_WITH_C_NUMBERS(statement)                                                                                   \
    do {                                                                                                               \
        const locale_t locale_before_ = rf_numbers_enter();                                                            \
        statement;                                                                                                     \
        rf_numbers_leave(locale_before_);                                                                              \
    } while (0)

#endif
