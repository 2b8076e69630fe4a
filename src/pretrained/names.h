/* SPDX-License-Identifier: Apache-2.0 */
/* Patterns of names, in which "{}" stands for a number. */
#ifndef RF_PRETRAINED_NAMES_H
#define RF_PRETRAINED_NAMES_H

#include <ringfire/common.h>

#include "base/error.h"

enum { RF_MOST_NUMBERS = 4 };
typedef struct rf_name_numbers {
    uint32_t items[RF_MOST_NUMBERS];
    uint32_t count;
} rf_name_numbers;

/* Whether `name` is of the pattern, and with which numbers. Those of several digits do not begin with 0. */
bool rf_name_match(const char *pattern, const char *name, rf_name_numbers *numbers);
/* The pattern with these numbers; NULL: out of memory. */
char *rf_name_fill(const char *pattern, const rf_name_numbers *numbers);
/* As many "{}" as a row may have, and as many in both of its names. */
rf_result rf_name_check(const char *pattern, const char *other);

#endif
