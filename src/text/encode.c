/* SPDX-License-Identifier: Apache-2.0 */
/* Text to token numbers. */
#include <string.h>

#include "base/memory.h"
#include "base/params.h"
#include "text/pairs.h"
#include "text/pipeline/pipeline.h"
#include "text/split.h"
#include "text/tokenizer.h"
#include "text/word_pieces.h"

typedef struct encoder {
    const rf_tokenizer *t;
    int32_t *tokens; /* room for one for each byte of the text */
    uint64_t count;
    rf_pair_work work;
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

static rf_result encode_pieces(void *user, const char *word, size_t size)
{
    encoder *e = user;
    char room[RF_WORD_MARK_BYTES + 4 * RF_MAX_WORD_CHARACTERS];
    const rf_word_pieces rules = { .tokens = &e->t->tokens,
                                   .skip = e->t->special,
                                   .mark = RF_WORD_MARK,
                                   .mark_size = RF_WORD_MARK_BYTES,
                                   .longest = e->t->longest,
                                   .max_characters = RF_MAX_WORD_CHARACTERS };
    uint32_t count;
    if (rf_word_pieces_fit(&rules, word, size) &&
        rf_word_pieces_find(&rules, room, word, (uint32_t)size, e->tokens + e->count, &count))
        e->count += count;
    else
        add_unknown(e);
    return RF_OK;
}

/* ---- byte pairs ---- */

static rf_result encode_pairs(void *user, const char *piece, size_t size)
{
    encoder *e = user;
    rf_pair_work *w = &e->work;
    RF_TRY(rf_pair_work_reserve(w, size));
    for (uint32_t i = 0; i < size; i++) w->symbols[i] = (uint8_t)piece[i];
    rf_pairs_merge(w, &e->t->merges, NULL, (uint32_t)size);
    for (uint32_t i = 0; i != RF_NO_PLACE; i = w->next[i]) e->tokens[e->count++] = (int32_t)w->symbols[i];
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

/* The kinds that have parameters. */
static rf_result encode_learned(const rf_tokenizer *tokenizer, const char *text, size_t size, rf_array *out)
{
    encoder e = { .t = tokenizer, .tokens = RF_NEW_ARRAY(int32_t, size) };
    rf_result r = e.tokens ? text_encode(&e, text, size) : RF_ERROR_OUT_OF_HOST_MEMORY;
    int32_t *exact = r == RF_OK ? RF_NEW_ARRAY(int32_t, e.count) : NULL;
    if (r == RF_OK && !exact) r = RF_ERROR_OUT_OF_HOST_MEMORY;
    if (r == RF_OK) {
        memcpy(exact, e.tokens, e.count * sizeof(*exact));
        *out = (rf_array){ RF_I32, { 1, { (int64_t)e.count } }, exact };
    }
    rf_free(e.tokens);
    rf_pair_work_free(&e.work);
    return r;
}

rf_result rf_tokenizer_encode(const rf_tokenizer *tokenizer, const char *text, size_t size, rf_array *out)
{
    RF_REQUIRE(out, "rf_tokenizer_encode: out is NULL");
    *out = (rf_array){ 0 };
    RF_REQUIRE(tokenizer && text, "rf_tokenizer_encode: %s is NULL", tokenizer ? "text" : "tokenizer");
    const rf_tokenizer_encode_params all = { 0 };
    const rf_result r = tokenizer->kind == RF_TOKENIZER_PIPELINE
                            ? rf_pipeline_encode(tokenizer, text, size, &all, out, NULL)
                            : encode_learned(tokenizer, text, size, out);
    return rf_error_context(r, "rf_tokenizer_encode");
}

rf_result rf_tokenizer_encode_with(const rf_tokenizer *tokenizer, const char *text, size_t size,
                                   const rf_tokenizer_encode_params *params, rf_array *out, rf_array *types)
{
    static const rf_tokenizer_encode_params defaults;
    RF_REQUIRE(out, "rf_tokenizer_encode_with: out is NULL");
    *out = (rf_array){ 0 };
    if (types) *types = (rf_array){ 0 };
    RF_TRY(RF_PARAMS_CHECK(rf_tokenizer_encode_params, params));
    RF_REQUIRE(tokenizer && text, "rf_tokenizer_encode_with: %s is NULL", tokenizer ? "text" : "tokenizer");
    if (!params) params = &defaults;
    RF_REQUIRE(
        tokenizer->kind == RF_TOKENIZER_PIPELINE,
        "rf_tokenizer_encode_with: the tokenizer is of no tokenizer.json, and so knows neither pairs nor special "
        "tokens around texts; use rf_tokenizer_encode()");
    return rf_error_context(rf_pipeline_encode(tokenizer, text, size, params, out, types), "rf_tokenizer_encode_with");
}
