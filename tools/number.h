/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RINGFIRE_NUMBER_H
#define RINGFIRE_NUMBER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Decimal digits and nothing else, at least one, of a number up to `most`. False: something else. */
bool parse_decimal(const char *text, size_t length, uint32_t most, uint32_t *out);

#endif
