/* SPDX-License-Identifier: Apache-2.0 */
/* What tokenizers have to know of characters. Pure functions that no locale changes. */
#ifndef RF_TEXT_UNICODE_H
#define RF_TEXT_UNICODE_H

#include <stdbool.h>
#include <stdint.h>

/* ASCII's, as isspace() and ispunct() in the C locale. */
bool rf_ascii_is_space(uint8_t byte);
bool rf_ascii_is_punctuation(uint8_t byte);

bool rf_unicode_is_space(uint32_t code);
bool rf_unicode_is_control(uint32_t code); /* also what only formats; white space is none */
bool rf_unicode_is_punctuation(uint32_t code);
bool rf_unicode_is_chinese(uint32_t code); /* of the blocks of CJK ideographs */
/* Lower case without accents; 0 for accents that are characters of their own. No more bytes of UTF-8 than before. */
uint32_t rf_unicode_fold(uint32_t code);

#endif
