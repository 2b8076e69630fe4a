/* SPDX-License-Identifier: Apache-2.0 */
/* Tokenizers as objects: filling, finishing, and what can be asked of them. */
#include "text/tokenizer.h"

#include <string.h>

#include "base/memory.h"
#include "base/params.h"
#include "base/utf8.h"
#include "text/pipeline/pipeline.h"

const char *const *rf_tokenizer_own_tokens(rf_tokenizer_kind kind, uint32_t *count)
{
    static const char *const words[] = { "", "[UNK]" };
    static const char *const word_piece[] = { "[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]" };
    switch (kind) {
    case RF_TOKENIZER_WORDS: *count = sizeof(words) / sizeof(words[0]); return words;
    case RF_TOKENIZER_WORD_PIECE: *count = sizeof(word_piece) / sizeof(word_piece[0]); return word_piece;
    default: *count = 0; return NULL;
    }
}

/* ---- filling ---- */

rf_result rf_tokenizer_new(const rf_tokenizer_params *params, rf_tokenizer **out)
{
    rf_tokenizer *t = *out = RF_NEW(rf_tokenizer);
    if (!t) return RF_ERROR_OUT_OF_HOST_MEMORY;
    t->kind = params->kind;
    t->keep_case = params->keep_case;
    t->keep_punctuation = params->keep_punctuation;
    t->unknown = -1;
    return RF_OK;
}

rf_result rf_tokenizer_add(rf_tokenizer *t, const char *bytes, size_t size, rf_result failure)
{
    const uint32_t number = t->tokens.count;
    uint32_t found;
    RF_TRY(rf_string_table_add(&t->tokens, bytes, size, &found));
    if (found == number) return RF_OK;
    return RF_FAIL(failure, "token %u has the same text as token %u; each token can be there only once", number, found);
}

static rf_result add_texts(rf_tokenizer *t, const char *const *texts, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        RF_TRY(rf_tokenizer_add(t, texts[i], strlen(texts[i]), RF_ERROR_INVALID_ARGUMENT));
    return RF_OK;
}

rf_result rf_tokenizer_add_own(rf_tokenizer *t)
{
    uint32_t count;
    const char *const *own = rf_tokenizer_own_tokens(t->kind, &count);
    return add_texts(t, own, count);
}

rf_result rf_tokenizer_add_special(rf_tokenizer *t, const rf_tokenizer_params *params)
{
    return rf_error_context(add_texts(t, params->special_tokens, params->num_special_tokens), "special tokens");
}

rf_result rf_tokenizer_add_bytes(rf_tokenizer *t)
{
    for (uint32_t byte = 0; byte < 256; byte++) {
        const char text = (char)byte;
        RF_TRY(rf_tokenizer_add(t, &text, 1, RF_ERROR_INTERNAL));
    }
    return RF_OK;
}

/* WordPiece's tokens inside of words. */
static bool continues_word(const rf_tokenizer *t, const char *bytes, size_t size)
{
    return t->kind == RF_TOKENIZER_WORD_PIECE && size > 2 && bytes[0] == '#' && bytes[1] == '#';
}

rf_result rf_tokenizer_add_merged(rf_tokenizer *t, uint32_t left, uint32_t right, bool *taken)
{
    char text[2 * RF_MAX_MERGED_BYTES];
    const rf_string_item *a = &t->tokens.items[left], *b = &t->tokens.items[right];
    const char *second = rf_string_table_text(&t->tokens, right);
    const size_t skip = continues_word(t, second, b->size) ? 2 : 0, size = (size_t)a->size + b->size - skip;
    *taken = false;
    if (size > RF_MAX_MERGED_BYTES) return RF_OK;
    memcpy(text, rf_string_table_text(&t->tokens, left), a->size);
    memcpy(text + a->size, second + skip, b->size - skip);
    if (rf_string_table_find(&t->tokens, text, size) != RF_TABLE_NONE) return RF_OK;
    const uint64_t key = rf_pair_key(left, right);
    if (t->kind == RF_TOKENIZER_BYTE_PAIR) {
        RF_TRY(RF_VEC_GROW(&t->merge_list));
        RF_TRY(rf_pair_table_add(&t->merges, key, t->tokens.count));
        t->merge_list.items[t->merge_list.count++] = key;
    }
    *taken = true;
    return rf_tokenizer_add(t, text, size, RF_ERROR_INTERNAL);
}

/* ---- finishing ---- */

static rf_result mark_special(rf_tokenizer *t, const char *text, rf_result failure)
{
    const uint32_t number = rf_string_table_find(&t->tokens, text, strlen(text));
    if (number == RF_TABLE_NONE) {
        char name[64];
        strncpy(name, text, sizeof(name) - 1);
        name[sizeof(name) - 1] = '\0';
        rf_error_one_line(name);
        return RF_FAIL(failure, "the vocabulary lacks the special token '%s'", name);
    }
    t->special[number] = true;
    return RF_OK;
}

static bool can_occur(const rf_tokenizer *t, uint32_t number)
{
    const uint32_t size = t->tokens.items[number].size;
    uint32_t code;
    if (t->kind != RF_TOKENIZER_CHARACTERS) return size > 0;
    return size > 0 && rf_utf8_decode(rf_string_table_text(&t->tokens, number), size, &code) == size;
}

rf_result rf_tokenizer_finish(rf_tokenizer *t, const rf_tokenizer_params *params, rf_result failure)
{
    uint32_t num_own;
    const char *const *own = rf_tokenizer_own_tokens(t->kind, &num_own);
    t->special = RF_NEW_ARRAY(bool, t->tokens.count);
    if (!t->special) return RF_ERROR_OUT_OF_HOST_MEMORY;
    for (uint32_t i = 0; i < num_own; i++) RF_TRY(mark_special(t, own[i], failure));
    for (uint32_t i = 0; i < params->num_special_tokens; i++)
        RF_TRY(mark_special(t, params->special_tokens[i], failure));
    for (uint32_t i = 0; i < t->tokens.count; i++) {
        if (t->tokens.items[i].size > t->longest) t->longest = t->tokens.items[i].size;
        if (!t->special[i] && !can_occur(t, i))
            return RF_FAIL(failure, "token %u is %s", i,
                           t->tokens.items[i].size > 0 ? "more than one character" : "empty");
    }
    const uint32_t unknown = rf_string_table_find(&t->tokens, "[UNK]", 5);
    if (unknown != RF_TABLE_NONE && t->special[unknown]) t->unknown = (int32_t)unknown;
    return RF_OK;
}

void rf_tokenizer_destroy(rf_tokenizer **tokenizer)
{
    if (!tokenizer || !*tokenizer) return;
    rf_tokenizer *t = *tokenizer;
    *tokenizer = NULL;
    rf_pipeline_destroy(&t->pipeline);
    rf_string_table_free(&t->tokens);
    rf_pair_table_free(&t->merges);
    rf_free(t->merge_list.items);
    rf_free(t->special);
    rf_free(t);
}

/* ---- a given vocabulary ---- */

static rf_result check_special_tokens(const rf_tokenizer_params *p)
{
    RF_REQUIRE(p->special_tokens || p->num_special_tokens == 0, "special_tokens is NULL, but num_special_tokens is %u",
               p->num_special_tokens);
    for (uint32_t i = 0; i < p->num_special_tokens; i++) {
        const char *text = p->special_tokens[i];
        RF_REQUIRE(text && text[0], "special token %u is %s", i, text ? "empty" : "NULL");
        RF_REQUIRE(rf_utf8_valid(text, strlen(text)), "special token %u is not UTF-8", i);
    }
    return RF_OK;
}

rf_result rf_tokenizer_check_params(const rf_tokenizer_params *params)
{
    RF_TRY(RF_PARAMS_CHECK(rf_tokenizer_params, params));
    RF_REQUIRE(params->kind != RF_TOKENIZER_PIPELINE, "kind RF_TOKENIZER_PIPELINE comes from a file alone; use "
                                                      "rf_tokenizer_load()");
    RF_REQUIRE((unsigned)params->kind < RF_TOKENIZER_KINDS, "kind %d is no rf_tokenizer_kind", (int)params->kind);
    return check_special_tokens(params);
}

static rf_result tokenizer_fill(rf_tokenizer *t, const char *const *tokens, const size_t *sizes, uint32_t num_tokens)
{
    for (uint32_t i = 0; i < num_tokens; i++) {
        RF_REQUIRE(tokens[i], "token %u is NULL", i);
        RF_TRY(rf_tokenizer_add(t, tokens[i], sizes ? sizes[i] : strlen(tokens[i]), RF_ERROR_INVALID_ARGUMENT));
    }
    return RF_OK;
}

rf_result rf_tokenizer_create(const rf_tokenizer_params *params, const char *const *tokens, const size_t *sizes,
                              uint32_t num_tokens, rf_tokenizer **out)
{
    static const rf_tokenizer_params defaults;
    RF_REQUIRE(out, "rf_tokenizer_create: out is NULL");
    *out = NULL;
    if (!params) params = &defaults;
    rf_result r = rf_tokenizer_check_params(params);
    if (r < 0) return rf_error_context(r, "rf_tokenizer_create");
    RF_REQUIRE(tokens || num_tokens == 0, "rf_tokenizer_create: tokens is NULL");
    RF_REQUIRE(params->kind != RF_TOKENIZER_BYTE_PAIR,
               "rf_tokenizer_create: byte pairs need an order of merging; use rf_tokenizer_train() or "
               "rf_tokenizer_load()");
    r = rf_tokenizer_new(params, out);
    if (r == RF_OK) r = tokenizer_fill(*out, tokens, sizes, num_tokens);
    if (r == RF_OK) r = rf_tokenizer_finish(*out, params, RF_ERROR_INVALID_ARGUMENT);
    if (r < 0) rf_tokenizer_destroy(out);
    return rf_error_context(r, "rf_tokenizer_create");
}

/* ---- questions ---- */

rf_tokenizer_kind rf_tokenizer_get_kind(const rf_tokenizer *tokenizer)
{
    return tokenizer ? tokenizer->kind : RF_TOKENIZER_CHARACTERS;
}

uint32_t rf_tokenizer_vocabulary_size(const rf_tokenizer *tokenizer)
{
    return tokenizer ? tokenizer->tokens.count : 0;
}

int32_t rf_tokenizer_id(const rf_tokenizer *tokenizer, const char *token)
{
    if (!tokenizer || !token) return -1;
    const uint32_t number = rf_string_table_find(&tokenizer->tokens, token, strlen(token));
    return number == RF_TABLE_NONE ? -1 : (int32_t)number;
}

static bool has_token(const rf_tokenizer *t, int32_t id)
{
    return t && id >= 0 && (uint32_t)id < t->tokens.count;
}

const char *rf_tokenizer_token(const rf_tokenizer *tokenizer, int32_t id, size_t *size)
{
    const bool found = has_token(tokenizer, id);
    if (size) *size = found ? tokenizer->tokens.items[id].size : 0;
    return found ? rf_string_table_text(&tokenizer->tokens, (uint32_t)id) : NULL;
}

bool rf_tokenizer_is_special(const rf_tokenizer *tokenizer, int32_t id)
{
    return has_token(tokenizer, id) && tokenizer->special[id];
}

/* ---- decoding ---- */

/* Appends a token to a text that has `length` bytes already. `out` NULL: only says how much that adds. */
static size_t write_token(const rf_tokenizer *t, int32_t id, size_t length, char *out)
{
    const char *bytes = rf_string_table_text(&t->tokens, (uint32_t)id);
    size_t size = t->tokens.items[id].size;
    if (t->special[id] && id != t->unknown) return 0;
    const bool of_words = t->kind == RF_TOKENIZER_WORDS || t->kind == RF_TOKENIZER_WORD_PIECE;
    const bool inside = continues_word(t, bytes, size);
    const size_t space = of_words && !inside && length > 0;
    if (inside) {
        bytes += 2;
        size -= 2;
    }
    if (out && space) out[0] = ' ';
    if (out && size) memcpy(out + space, bytes, size);
    return space + size;
}

rf_result rf_tokenizer_decode(const rf_tokenizer *tokenizer, const int32_t *tokens, uint64_t count, char **text,
                              size_t *size)
{
    RF_REQUIRE(text, "rf_tokenizer_decode: text is NULL");
    *text = NULL;
    if (size) *size = 0;
    RF_REQUIRE(tokenizer, "rf_tokenizer_decode: tokenizer is NULL");
    RF_REQUIRE(tokens || count == 0, "rf_tokenizer_decode: tokens is NULL");
    size_t length = 0;
    const bool is_pipeline = tokenizer->kind == RF_TOKENIZER_PIPELINE;
    for (uint64_t i = 0; i < count; i++) {
        RF_REQUIRE(has_token(tokenizer, tokens[i]), "rf_tokenizer_decode: number %llu is %d, no token of 0 to %u",
                   (unsigned long long)i, tokens[i], tokenizer->tokens.count - 1);
        if (!is_pipeline) length += write_token(tokenizer, tokens[i], length, NULL);
    }
    if (is_pipeline)
        return rf_error_context(rf_pipeline_decode(tokenizer, tokens, count, text, size), "rf_tokenizer_decode");
    char *out = rf_calloc(length + 1, 1);
    if (!out) return RF_ERROR_OUT_OF_HOST_MEMORY;
    size_t used = 0;
    for (uint64_t i = 0; i < count; i++) used += write_token(tokenizer, tokens[i], used, out + used);
    *text = out;
    if (size) *size = length;
    return RF_OK;
}
