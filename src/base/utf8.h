/* SPDX-License-Identifier: Apache-2.0 */
/* UTF-8 as RFC 3629 has it: no overlong forms, no surrogates, nothing above U+10FFFF. */
#ifndef RF_BASE_UTF8_H
#define RF_BASE_UTF8_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <ringfire/common.h>

#define RF_UTF8_INVALID UINT32_MAX

/* The character that `size` > 0 bytes begin with; returns how many bytes it has. Bytes that are not UTF-8 are
 * RF_UTF8_INVALID, one each. */
uint32_t rf_utf8_decode(const char *text, size_t size, uint32_t *code);
/* Writes up to four bytes; returns how many. */
uint32_t rf_utf8_encode(uint32_t code, char *out);
bool rf_utf8_valid(const char *text, size_t size); /* 0 bytes are; `text` may be NULL then */
/* Where the text of a file begins: behind its byte order mark, where it has one. RF_ERROR_UNSUPPORTED for what is no
 * text of bytes, as its first ones say: UTF-16 and UTF-32 (where zero bytes follow, which the line feeds of such a text
 * have), and archives. */
rf_result rf_utf8_begin(const void *bytes, size_t size, size_t *begin);

#endif
