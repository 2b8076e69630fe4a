/* SPDX-License-Identifier: Apache-2.0 */
/* Vocabularies that are learned from texts. */
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/utf8.h"
#include "text/merges.h"
#include "text/split.h"
#include "text/tokenizer.h"

typedef struct training_texts {
    const char *const *texts;
    const size_t *sizes;
    uint64_t count;
} training_texts;

/* ---- counting ---- */

static rf_result count_word(void *user, const char *word, size_t size)
{
    rf_string_table *words = user;
    uint32_t number;
    RF_TRY(rf_string_table_add(words, word, size, &number));
    words->items[number].count++;
    return RF_OK;
}

static rf_result count_text(const rf_tokenizer *t, const char *text, size_t size, rf_string_table *words)
{
    switch (t->kind) {
    case RF_TOKENIZER_WORDS: return rf_split_words(text, size, t->keep_case, t->keep_punctuation, count_word, words);
    case RF_TOKENIZER_WORD_PIECE: return rf_split_basic(text, size, t->keep_case, count_word, words);
    case RF_TOKENIZER_BYTE_PAIR: return rf_split_pieces(text, size, count_word, words);
    default: return rf_split_characters(text, size, count_word, words);
    }
}

static rf_result count_words(const rf_tokenizer *t, const training_texts *from, rf_string_table *words)
{
    for (uint64_t i = 0; i < from->count; i++) {
        RF_REQUIRE(from->texts[i], "text %llu is NULL", (unsigned long long)i);
        RF_TRY(count_text(t, from->texts[i], from->sizes ? from->sizes[i] : strlen(from->texts[i]), words));
    }
    return RF_OK;
}

/* ---- the order of tokens ---- */

typedef struct ranked_word {
    const char *bytes;
    uint32_t size;
    uint64_t count;
} ranked_word;

static int by_bytes(const void *one, const void *other)
{
    const ranked_word *a = one, *b = other;
    const int order = memcmp(a->bytes, b->bytes, a->size < b->size ? a->size : b->size);
    if (order != 0) return order;
    return a->size < b->size ? -1 : a->size > b->size;
}

static int by_count(const void *one, const void *other)
{
    const ranked_word *a = one, *b = other;
    if (a->count != b->count) return a->count > b->count ? -1 : 1;
    return by_bytes(one, other);
}

/* Adds the most frequent `most` of the words that are no tokens yet, in the order of their counts or of their bytes. */
static rf_result add_words(rf_tokenizer *t, const rf_string_table *words, uint64_t min_count, uint32_t most,
                           bool in_order_of_bytes)
{
    ranked_word *ranked = RF_NEW_ARRAY(ranked_word, words->count);
    if (!ranked) return RF_ERROR_OUT_OF_HOST_MEMORY;
    uint32_t count = 0;
    for (uint32_t i = 0; i < words->count; i++) {
        const rf_string_item *item = &words->items[i];
        const char *bytes = rf_string_table_text(words, i);
        if (item->count < min_count) continue;
        if (rf_string_table_find(&t->tokens, bytes, item->size) != RF_TABLE_NONE) continue; /* a special token's text */
        ranked[count++] = (ranked_word){ bytes, item->size, item->count };
    }
    qsort(ranked, count, sizeof(*ranked), by_count);
    if (count > most) count = most;
    if (in_order_of_bytes) qsort(ranked, count, sizeof(*ranked), by_bytes);
    rf_result r = RF_OK;
    for (uint32_t i = 0; i < count && r == RF_OK; i++)
        r = rf_tokenizer_add(t, ranked[i].bytes, ranked[i].size, RF_ERROR_INTERNAL);
    rf_free(ranked);
    return r;
}

/* ---- merging ---- */

typedef struct merge_target {
    rf_tokenizer *tokenizer;
    const rf_tokenizer_params *params;
} merge_target;

static bool is_special_text(const rf_tokenizer_params *p, const rf_tokenizer *t, uint32_t left, uint32_t right)
{
    const rf_string_item *a = &t->tokens.items[left], *b = &t->tokens.items[right];
    for (uint32_t i = 0; i < p->num_special_tokens; i++) {
        const char *text = p->special_tokens[i];
        if (strlen(text) == (size_t)a->size + b->size &&
            memcmp(text, rf_string_table_text(&t->tokens, left), a->size) == 0 &&
            memcmp(text + a->size, rf_string_table_text(&t->tokens, right), b->size) == 0)
            return true;
    }
    return false;
}

static rf_result take_merge(void *user, uint32_t left, uint32_t right, uint32_t symbol, bool *taken)
{
    const merge_target *target = user;
    (void)symbol; /* the next token */
    *taken = false;
    if (is_special_text(target->params, target->tokenizer, left, right)) return RF_OK;
    return rf_tokenizer_add_merged(target->tokenizer, left, right, taken);
}

static rf_result allocate_words(const rf_string_table *words, rf_symbol_words *out)
{
    uint64_t symbols = 0;
    for (uint32_t i = 0; i < words->count; i++) symbols += words->items[i].size;
    if (symbols >= UINT32_MAX)
        return RF_FAIL(RF_ERROR_UNSUPPORTED, "the different words have %llu bytes together; train on less text",
                       (unsigned long long)symbols);
    out->symbols = RF_NEW_ARRAY(uint32_t, symbols);
    out->starts = RF_NEW_ARRAY(uint32_t, words->count + 1);
    out->weights = RF_NEW_ARRAY(uint64_t, words->count);
    return out->symbols && out->starts && out->weights ? RF_OK : RF_ERROR_OUT_OF_HOST_MEMORY;
}

static void end_symbols(rf_symbol_words *out, uint32_t end, uint64_t weight)
{
    out->weights[out->count++] = weight;
    out->starts[out->count] = end;
}

static rf_result learn_byte_pairs(const rf_string_table *words, rf_symbol_words *symbols,
                                  const rf_merge_params *learning)
{
    RF_TRY(allocate_words(words, symbols));
    uint32_t at = 0;
    for (uint32_t w = 0; w < words->count; w++) {
        const char *bytes = rf_string_table_text(words, w);
        for (uint32_t i = 0; i < words->items[w].size; i++) symbols->symbols[at++] = (uint8_t)bytes[i];
        end_symbols(symbols, at, words->items[w].count);
    }
    return rf_learn_merges(symbols, learning);
}

/* A character as a token: "##" stands before those inside of words. */
typedef struct piece_text {
    char bytes[2 + 4];
    uint32_t size;
} piece_text;

static piece_text piece_at(const char *word, size_t size, size_t at, size_t *end)
{
    piece_text piece = { "##", at > 0 ? 2 : 0 };
    uint32_t code;
    const uint32_t length = rf_utf8_decode(word + at, size - at, &code);
    memcpy(piece.bytes + piece.size, word + at, length);
    piece.size += length;
    *end = at + length;
    return piece;
}

static bool is_too_long(const char *word, size_t size)
{
    size_t characters = 0;
    for (size_t i = 0; i < size; i++) characters += ((uint8_t)word[i] & 0xc0) != 0x80;
    return characters > RF_MAX_WORD_CHARACTERS;
}

static rf_result count_pieces(const rf_string_table *words, rf_string_table *pieces)
{
    for (uint32_t w = 0; w < words->count; w++) {
        const char *word = rf_string_table_text(words, w);
        const size_t size = words->items[w].size;
        if (is_too_long(word, size)) continue;
        for (size_t at = 0; at < size;) {
            const piece_text piece = piece_at(word, size, at, &at);
            uint32_t number;
            RF_TRY(rf_string_table_add(pieces, piece.bytes, piece.size, &number));
            pieces->items[number].count += words->items[w].count;
        }
    }
    return RF_OK;
}

/* Words with characters that are no tokens are left out. */
static void spell_word(const rf_tokenizer *t, const char *word, const rf_string_item *item, rf_symbol_words *out)
{
    uint32_t end = out->starts[out->count];
    if (is_too_long(word, item->size)) return;
    for (size_t at = 0; at < item->size;) {
        const piece_text piece = piece_at(word, item->size, at, &at);
        const uint32_t number = rf_string_table_find(&t->tokens, piece.bytes, piece.size);
        if (number == RF_TABLE_NONE) return;
        out->symbols[end++] = number;
    }
    end_symbols(out, end, item->count);
}

static rf_result learn_word_pieces(rf_tokenizer *t, const rf_string_table *words, rf_symbol_words *symbols,
                                   uint64_t min_count, rf_merge_params *learning)
{
    rf_string_table pieces = { 0 };
    rf_result r = count_pieces(words, &pieces);
    if (r == RF_OK) r = add_words(t, &pieces, min_count, learning->max_symbols - t->tokens.count, true);
    rf_string_table_free(&pieces);
    RF_TRY(r);
    RF_TRY(allocate_words(words, symbols));
    for (uint32_t w = 0; w < words->count; w++)
        spell_word(t, rf_string_table_text(words, w), &words->items[w], symbols);
    learning->num_symbols = t->tokens.count;
    return rf_learn_merges(symbols, learning);
}

/* ---- all kinds ---- */

static rf_result learn_tokens(rf_tokenizer *t, const rf_tokenizer_params *params, const rf_string_table *words)
{
    const uint64_t min_count = params->min_count ? params->min_count : 1;
    const uint32_t last = t->kind == RF_TOKENIZER_BYTE_PAIR ? params->num_special_tokens : 0;
    merge_target target = { t, params };
    rf_merge_params learning = { .num_symbols = t->tokens.count,
                                 .max_symbols = params->max_tokens - last,
                                 .min_count = params->min_count ? params->min_count : 2,
                                 .merge = take_merge,
                                 .user = &target };
    rf_symbol_words symbols = { 0 };
    rf_result r;
    if (t->kind == RF_TOKENIZER_BYTE_PAIR)
        r = learn_byte_pairs(words, &symbols, &learning);
    else if (t->kind == RF_TOKENIZER_WORD_PIECE)
        r = learn_word_pieces(t, words, &symbols, min_count, &learning);
    else
        r = add_words(t, words, min_count, params->max_tokens - t->tokens.count, t->kind == RF_TOKENIZER_CHARACTERS);
    rf_symbol_words_free(&symbols);
    return r;
}

static rf_result tokenizer_train(rf_tokenizer *t, const rf_tokenizer_params *params, const training_texts *from)
{
    const bool pairs = t->kind == RF_TOKENIZER_BYTE_PAIR;
    RF_TRY(rf_tokenizer_add_own(t));
    RF_TRY(pairs ? rf_tokenizer_add_bytes(t) : rf_tokenizer_add_special(t, params));
    const uint64_t least = (uint64_t)t->tokens.count + (pairs ? params->num_special_tokens : 0);
    RF_REQUIRE(least <= params->max_tokens, "max_tokens is %u, but %llu tokens are always there", params->max_tokens,
               (unsigned long long)least);
    rf_string_table words = { 0 };
    rf_result r = count_words(t, from, &words);
    if (r == RF_OK) r = learn_tokens(t, params, &words);
    rf_string_table_free(&words);
    RF_TRY(r);
    if (pairs) RF_TRY(rf_tokenizer_add_special(t, params));
    return rf_tokenizer_finish(t, params, RF_ERROR_INTERNAL);
}

rf_result rf_tokenizer_train(const rf_tokenizer_params *params, const char *const *texts, const size_t *sizes,
                             uint64_t num_texts, rf_tokenizer **out)
{
    static const uint32_t default_tokens[RF_TOKENIZER_KINDS] = {
        [RF_TOKENIZER_CHARACTERS] = RF_TABLE_MOST,
        [RF_TOKENIZER_WORDS] = RF_TABLE_MOST,
        [RF_TOKENIZER_WORD_PIECE] = 30522,
        [RF_TOKENIZER_BYTE_PAIR] = 50257,
    };
    RF_REQUIRE(out, "rf_tokenizer_train: out is NULL");
    *out = NULL;
    rf_tokenizer_params p = params ? *params : (rf_tokenizer_params){ 0 };
    rf_result r = rf_tokenizer_check_params(&p);
    if (r < 0) return rf_error_context(r, "rf_tokenizer_train");
    RF_REQUIRE(texts || num_texts == 0, "rf_tokenizer_train: texts is NULL");
    if (p.max_tokens == 0) p.max_tokens = default_tokens[p.kind];
    if (p.max_tokens > RF_TABLE_MOST) p.max_tokens = RF_TABLE_MOST;
    const training_texts from = { texts, sizes, num_texts };
    r = rf_tokenizer_new(&p, out);
    if (r == RF_OK) r = tokenizer_train(*out, &p, &from);
    if (r < 0) rf_tokenizer_destroy(out);
    return rf_error_context(r, "rf_tokenizer_train");
}
