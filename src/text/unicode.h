/* SPDX-License-Identifier: Apache-2.0 */
/* Tokenizers ask these about characters; the answers are from utf8proc's tables. Pure functions that no locale changes.
 */
#ifndef RF_TEXT_UNICODE_H
#define RF_TEXT_UNICODE_H

#include <stdbool.h>
#include <stdint.h>

#include "text/bytes.h"

/* ASCII's, as isspace() and ispunct() in the C locale. */
bool rf_ascii_is_space(uint8_t byte);
bool rf_ascii_is_punctuation(uint8_t byte);

/* The classes of BERT's basic tokenizer. */
bool rf_unicode_is_space(uint32_t code);
bool rf_unicode_is_control(uint32_t code); /* also what only formats, is private or not assigned; white space is none */
bool rf_unicode_is_punctuation(uint32_t code);
bool rf_unicode_is_chinese(uint32_t code); /* of the blocks of CJK ideographs */
bool rf_unicode_is_accent(uint32_t code);  /* a mark without a width of its own */

bool rf_unicode_is_assigned(uint32_t code); /* to a character */
/* Unicode's White_Space, marks (all of M), numbers (all of N); the characters of words are letters, marks, decimal
 * digits, connectors and joiners. */
bool rf_unicode_is_white_space(uint32_t code);
bool rf_unicode_is_mark(uint32_t code);
bool rf_unicode_is_number(uint32_t code);
bool rf_unicode_is_word(uint32_t code);

/* For the small sigma at the end of words (Unicode's Final_Sigma). */
bool rf_unicode_is_cased(uint32_t code);
bool rf_unicode_is_case_ignorable(uint32_t code);

uint32_t rf_unicode_lower(uint32_t code);
/* 0, or the place that a mark has among those of its letter. */
uint32_t rf_unicode_order(uint32_t code);
enum { RF_UNICODE_PARTS = 8 };
/* The canonical decomposition, whole; returns how many characters it has. */
uint32_t rf_unicode_decompose(uint32_t code, uint32_t parts[RF_UNICODE_PARTS]);

typedef enum rf_unicode_form { RF_UNICODE_NFC, RF_UNICODE_NFD, RF_UNICODE_NFKC, RF_UNICODE_NFKD } rf_unicode_form;
/* Appends valid UTF-8 in a normal form, in a time in proportion to it. */
rf_result rf_unicode_normalize(const char *text, size_t size, rf_unicode_form form, rf_text_bytes *out);

#endif
