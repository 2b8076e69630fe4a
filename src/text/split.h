/* SPDX-License-Identifier: Apache-2.0 */
/* Cutting text into the words that tokens are found in. Each function takes time in proportion to the text. */
#ifndef RF_TEXT_SPLIT_H
#define RF_TEXT_SPLIT_H

#include "base/error.h"

/* Called for one word after the other; a failure ends the splitting. */
typedef rf_result (*rf_word_fn)(void *user, const char *word, size_t size);

/* As Keras' TextVectorization: white space separates, and unless they are kept, upper case and punctuation (ASCII's)
 * become lower case and nothing. No word is empty. */
rf_result rf_split_words(const char *text, size_t size, bool keep_case, bool keep_punctuation, rf_word_fn fn,
                         void *user);
/* As BERT's basic tokenizer. Words are valid UTF-8. */
rf_result rf_split_basic(const char *text, size_t size, bool keep_case, rf_word_fn fn, void *user);
/* As GPT-2's: the words together are the text. */
rf_result rf_split_pieces(const char *text, size_t size, rf_word_fn fn, void *user);
/* Characters, and the bytes that belong to none. */
rf_result rf_split_characters(const char *text, size_t size, rf_word_fn fn, void *user);

#endif
