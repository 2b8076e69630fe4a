/* SPDX-License-Identifier: Apache-2.0 */
/* WordPiece: a word becomes the longest tokens that it begins with, one after the other. */
#ifndef RF_TEXT_WORD_PIECES_H
#define RF_TEXT_WORD_PIECES_H

#include "text/table.h"

#define RF_WORD_MARK "##" /* in front of the tokens inside of words, unless a file says another one */
enum { RF_WORD_MARK_BYTES = sizeof(RF_WORD_MARK) - 1 };

typedef struct rf_word_pieces {
    const rf_string_table *tokens;
    const bool *skip; /* [tokens->count]: those that text never becomes */
    const char *mark;
    uint32_t mark_size;
    uint32_t longest; /* bytes of a token */
    uint32_t max_characters;
} rf_word_pieces;

/* Whether the word has at most `max_characters`. */
bool rf_word_pieces_fit(const rf_word_pieces *rules, const char *word, size_t size);
/* `room` is scratch memory of mark_size + size bytes, `out` holds `size` tokens. False: the word cannot be made of
 * tokens. */
bool rf_word_pieces_find(const rf_word_pieces *rules, char *room, const char *word, uint32_t size, int32_t *out,
                         uint32_t *count);

#endif
