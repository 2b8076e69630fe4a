/* SPDX-License-Identifier: Apache-2.0 */
/* Text to token numbers. */
#include <string.h>

#include "base/memory.h"
#include "text/split.h"
#include "text/tokenizer.h"

/* The symbols of a piece while its pairs are merged. */
typedef struct pair_work {
    uint32_t *symbols, *next, *previous, capacity;
    uint64_t *heap; /* token that a pair becomes and the pair's place: the pair to merge next on top */
    uint32_t heap_count;
} pair_work;

typedef struct encoder {
    const rf_tokenizer *t;
    int32_t *tokens; /* room for one for each byte of the text */
    uint64_t count;
    pair_work work;
} encoder;

/* ---- characters, words ---- */

static void add_unknown(encoder *e)
{
    if (e->t->unknown >= 0) e->tokens[e->count++] = e->t->unknown;
}

static rf_result encode_whole(void *user, const char *word, size_t size)
{
    encoder *e = user;
    const uint32_t number = rf_tokenizer_find(e->t, word, size);
    if (number == RF_TABLE_NONE)
        add_unknown(e);
    else
        e->tokens[e->count++] = (int32_t)number;
    return RF_OK;
}

/* ---- WordPiece ---- */

enum { MARK = 2 /* bytes of "##" */ };

static uint32_t next_boundary(const char *text, uint32_t at, uint32_t size)
{
    do at++;
    while (at < size && ((uint8_t)text[at] & 0xc0) == 0x80);
    return at;
}

/* The longest token that the word's rest begins with. `text` is the token's text with all of the rest. */
static uint32_t longest_match(const rf_tokenizer *t, const char *text, uint32_t begin, uint32_t size, uint32_t *end)
{
    uint32_t best = RF_TABLE_NONE;
    uint64_t hash = rf_hash_append(RF_HASH_START, text, begin);
    for (uint32_t at = begin; at < size && at < t->longest;) {
        const uint32_t after = next_boundary(text, at, size);
        hash = rf_hash_append(hash, text + at, after - at);
        at = after;
        const uint32_t number = rf_string_table_find_hashed(&t->tokens, hash, text, at);
        if (number == RF_TABLE_NONE || t->special[number]) continue;
        best = number;
        *end = at;
    }
    return best;
}

static rf_result encode_pieces(void *user, const char *word, size_t size)
{
    encoder *e = user;
    char text[MARK + 4 * RF_MAX_WORD_CHARACTERS]; /* "##" is written over what was matched, before the rest */
    const uint64_t count = e->count;
    uint32_t characters = 0;
    for (size_t i = 0; i < size && characters <= RF_MAX_WORD_CHARACTERS; i++)
        characters += ((uint8_t)word[i] & 0xc0) != 0x80;
    if (characters > RF_MAX_WORD_CHARACTERS) {
        add_unknown(e);
        return RF_OK;
    }
    memcpy(text + MARK, word, size);
    for (uint32_t at = 0; at < size;) {
        const uint32_t mark = at > 0 ? MARK : 0, first = MARK + at - mark;
        uint32_t end = 0;
        if (mark) memset(text + first, '#', MARK);
        const uint32_t number = longest_match(e->t, text + first, mark, (uint32_t)size + MARK - first, &end);
        if (number == RF_TABLE_NONE) {
            e->count = count;
            add_unknown(e);
            return RF_OK;
        }
        e->tokens[e->count++] = (int32_t)number;
        at += end - mark;
    }
    return RF_OK;
}

/* ---- byte pairs ---- */

#define NO_PLACE UINT32_MAX

static rf_result reserve_work(pair_work *w, size_t size)
{
    if (size <= w->capacity) return RF_OK;
    if (size >= UINT32_MAX / 3) return RF_FAIL(RF_ERROR_UNSUPPORTED, "a word of %zu bytes; cut the text", size);
    uint32_t capacity = w->capacity ? w->capacity : 64;
    while (capacity < size) capacity *= 2;
    rf_free(w->symbols);
    rf_free(w->heap);
    w->capacity = 0;
    w->symbols = RF_NEW_ARRAY(uint32_t, 3 * (size_t)capacity);
    w->heap =
        RF_NEW_ARRAY(uint64_t, 3 * (size_t)capacity); /* at first a pair less than symbols, two more for each merge */
    if (!w->symbols || !w->heap) return RF_ERROR_OUT_OF_HOST_MEMORY;
    w->next = w->symbols + capacity;
    w->previous = w->next + capacity;
    w->capacity = capacity;
    return RF_OK;
}

static void push_place(const rf_tokenizer *t, pair_work *w, uint32_t place)
{
    const uint32_t second = w->next[place];
    if (second == NO_PLACE) return;
    const uint32_t merged = rf_pair_table_find(&t->merges, rf_pair_key(w->symbols[place], w->symbols[second]));
    if (merged == RF_TABLE_NONE) return;
    const uint64_t entry = rf_pair_key(merged, place);
    uint32_t at = w->heap_count++;
    for (; at > 0 && entry < w->heap[(at - 1) / 2]; at = (at - 1) / 2) w->heap[at] = w->heap[(at - 1) / 2];
    w->heap[at] = entry;
}

static uint64_t pop_place(pair_work *w)
{
    const uint64_t top = w->heap[0], last = w->heap[--w->heap_count];
    uint32_t at = 0;
    for (;;) {
        uint32_t child = 2 * at + 1;
        if (child >= w->heap_count) break;
        if (child + 1 < w->heap_count && w->heap[child + 1] < w->heap[child]) child++;
        if (w->heap[child] >= last) break;
        w->heap[at] = w->heap[child];
        at = child;
    }
    w->heap[at] = last;
    return top;
}

/* Merges the pair at a place where it still is what the heap remembers. */
static void merge_place(const rf_tokenizer *t, pair_work *w, uint32_t place, uint32_t merged)
{
    const uint32_t second = w->symbols[place] == RF_TABLE_NONE ? NO_PLACE : w->next[place];
    if (second == NO_PLACE) return;
    if (rf_pair_table_find(&t->merges, rf_pair_key(w->symbols[place], w->symbols[second])) != merged) return;
    w->symbols[place] = merged;
    w->symbols[second] = RF_TABLE_NONE;
    w->next[place] = w->next[second];
    if (w->next[place] != NO_PLACE) w->previous[w->next[place]] = place;
    push_place(t, w, place);
    if (w->previous[place] != NO_PLACE) push_place(t, w, w->previous[place]);
}

static rf_result encode_pairs(void *user, const char *piece, size_t size)
{
    encoder *e = user;
    pair_work *w = &e->work;
    RF_TRY(reserve_work(w, size));
    for (uint32_t i = 0; i < size; i++) {
        w->symbols[i] = (uint8_t)piece[i];
        w->previous[i] = i > 0 ? i - 1 : NO_PLACE;
        w->next[i] = i + 1 < size ? i + 1 : NO_PLACE;
    }
    w->heap_count = 0;
    for (uint32_t i = 0; i < size; i++) push_place(e->t, w, i);
    while (w->heap_count > 0) {
        const uint64_t top = pop_place(w);
        merge_place(e->t, w, (uint32_t)top, (uint32_t)(top >> 32));
    }
    for (uint32_t i = 0; i != NO_PLACE; i = w->next[i]) e->tokens[e->count++] = (int32_t)w->symbols[i];
    return RF_OK;
}

/* ---- all kinds ---- */

static rf_result text_encode(encoder *e, const char *text, size_t size)
{
    const rf_tokenizer *t = e->t;
    switch (t->kind) {
    case RF_TOKENIZER_WORDS: return rf_split_words(text, size, t->keep_case, t->keep_punctuation, encode_whole, e);
    case RF_TOKENIZER_WORD_PIECE: return rf_split_basic(text, size, t->keep_case, encode_pieces, e);
    case RF_TOKENIZER_BYTE_PAIR: return rf_split_pieces(text, size, encode_pairs, e);
    default: return rf_split_characters(text, size, encode_whole, e);
    }
}

rf_result rf_tokenizer_encode(const rf_tokenizer *tokenizer, const char *text, size_t size, rf_array *out)
{
    RF_REQUIRE(out, "rf_tokenizer_encode: out is NULL");
    *out = (rf_array){ 0 };
    RF_REQUIRE(tokenizer && text, "rf_tokenizer_encode: %s is NULL", tokenizer ? "text" : "tokenizer");
    encoder e = { .t = tokenizer, .tokens = RF_NEW_ARRAY(int32_t, size) };
    rf_result r = e.tokens ? text_encode(&e, text, size) : RF_ERROR_OUT_OF_HOST_MEMORY;
    int32_t *exact = r == RF_OK ? RF_NEW_ARRAY(int32_t, e.count) : NULL;
    if (r == RF_OK && !exact) r = RF_ERROR_OUT_OF_HOST_MEMORY;
    if (r == RF_OK) {
        memcpy(exact, e.tokens, e.count * sizeof(*exact));
        *out = (rf_array){ RF_I32, { 1, { (int64_t)e.count } }, exact };
    }
    rf_free(e.tokens);
    rf_free(e.work.symbols);
    rf_free(e.work.heap);
    return rf_error_context(r, "rf_tokenizer_encode");
}
