/* SPDX-License-Identifier: Apache-2.0 */
#include "text/word_pieces.h"

#include <string.h>

bool rf_word_pieces_fit(const rf_word_pieces *rules, const char *word, size_t size)
{
    uint32_t characters = 0;
    for (size_t i = 0; i < size && characters <= rules->max_characters; i++)
        characters += ((uint8_t)word[i] & 0xc0) != 0x80;
    return characters <= rules->max_characters;
}

static uint32_t next_boundary(const char *text, uint32_t at, uint32_t size)
{
    do at++;
    while (at < size && ((uint8_t)text[at] & 0xc0) == 0x80);
    return at;
}

/* The longest token that the word's rest begins with. `text` is the token's text with all of the rest. */
static uint32_t longest_match(const rf_word_pieces *rules, const char *text, uint32_t begin, uint32_t size,
                              uint32_t *end)
{
    uint32_t best = RF_TABLE_NONE;
    uint64_t hash = rf_hash_append(RF_HASH_START, text, begin);
    for (uint32_t at = begin; at < size && at < rules->longest;) {
        const uint32_t after = next_boundary(text, at, size);
        hash = rf_hash_append(hash, text + at, after - at);
        at = after;
        const uint32_t number = rf_string_table_find_hashed(rules->tokens, hash, text, at);
        if (number == RF_TABLE_NONE || rules->skip[number]) continue;
        best = number;
        *end = at;
    }
    return best;
}

/* The mark is written over what was matched, before the rest. */
bool rf_word_pieces_find(const rf_word_pieces *rules, char *room, const char *word, uint32_t size, int32_t *out,
                         uint32_t *count)
{
    *count = 0;
    memcpy(room + rules->mark_size, word, size);
    for (uint32_t at = 0; at < size;) {
        const uint32_t mark = at > 0 ? rules->mark_size : 0, first = rules->mark_size + at - mark;
        uint32_t end = 0;
        if (mark) memcpy(room + first, rules->mark, mark);
        const uint32_t number = longest_match(rules, room + first, mark, size + rules->mark_size - first, &end);
        if (number == RF_TABLE_NONE) return false;
        out[(*count)++] = (int32_t)number;
        at += end - mark;
    }
    return true;
}
