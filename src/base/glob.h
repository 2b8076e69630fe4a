/* SPDX-License-Identifier: Apache-2.0 */
/* Patterns of names. */
#ifndef RF_BASE_GLOB_H
#define RF_BASE_GLOB_H

#include <stdbool.h>
#include <stddef.h>

/* Whether all of a text is as the first `length` characters of a pattern: `*` is any text, `?` one character. */
bool rf_glob_matches(const char *pattern, size_t length, const char *text);

#endif
