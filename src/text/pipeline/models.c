/* SPDX-License-Identifier: Apache-2.0 */
/* Models: they turn a piece of text into tokens. */
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "base/utf8.h"
#include "text/pipeline/pipeline.h"
#include "text/word_pieces.h"

static rf_result fail_token(const char *what, const char *bytes, size_t size)
{
    char shown[48] = "";
    memcpy(shown, bytes, size < sizeof(shown) ? size : sizeof(shown) - 1);
    rf_error_one_line(shown);
    return RF_FAIL(RF_ERROR_CORRUPT_DATA, "%s \"%s\" is not in the vocabulary", what, shown);
}

/* ---- BPE ---- */

enum { MOST_AFFIX_BYTES = 64 };

/* Two texts of a merge: "a b" or ["a", "b"]. */
static rf_result merge_sides(const json_t *merge, rf_slice_text *left, rf_slice_text *right)
{
    if (json_is_string(merge)) {
        const char *text = json_string_value(merge), *space = strchr(text, ' ');
        const size_t size = json_string_length(merge);
        if (!space || strchr(space + 1, ' ')) return RF_FAIL(RF_ERROR_CORRUPT_DATA, "is not two tokens and a space");
        *left = (rf_slice_text){ text, (size_t)(space - text) };
        *right = (rf_slice_text){ space + 1, size - left->size - 1 };
        return RF_OK;
    }
    const json_t *a = json_array_get(merge, 0), *b = json_array_get(merge, 1);
    if (json_array_size(merge) != 2 || !json_is_string(a) || !json_is_string(b))
        return RF_FAIL(RF_ERROR_CORRUPT_DATA, "is no pair of tokens");
    *left = (rf_slice_text){ json_string_value(a), json_string_length(a) };
    *right = (rf_slice_text){ json_string_value(b), json_string_length(b) };
    return RF_OK;
}

static rf_result add_junction(rf_token_model *m, rf_slice_text left, rf_slice_text right)
{
    uint32_t last = RF_UTF8_INVALID, first = RF_UTF8_INVALID;
    size_t at = left.size;
    while (at > 0 && ((uint8_t)left.bytes[--at] & 0xc0) == 0x80) {}
    if (left.size > 0) rf_utf8_decode(left.bytes + at, left.size - at, &last);
    if (right.size > 0) rf_utf8_decode(right.bytes, right.size, &first);
    return rf_pair_table_add(&m->junctions, rf_pair_key(last, first), 0);
}

static rf_result read_merge(rf_tokenizer *t, const json_t *merge, uint32_t rank, rf_text_bytes *text)
{
    rf_token_model *m = &t->pipeline->model;
    rf_slice_text left = { 0 }, right = { 0 };
    RF_TRY(merge_sides(merge, &left, &right));
    const uint32_t a = rf_token_model_id(t, left.bytes, left.size), b = rf_token_model_id(t, right.bytes, right.size);
    if (a == RF_TABLE_NONE) return fail_token("token", left.bytes, left.size);
    if (b == RF_TABLE_NONE) return fail_token("token", right.bytes, right.size);
    if (right.size < m->prefix.size) return fail_token("the prefix of", right.bytes, right.size);
    text->size = 0;
    RF_TRY(rf_text_bytes_append(text, left.bytes, left.size));
    RF_TRY(rf_text_bytes_append(text, right.bytes + m->prefix.size, right.size - m->prefix.size));
    m->results[rank] = rf_token_model_id(t, text->bytes, text->size);
    if (m->results[rank] == RF_TABLE_NONE) return fail_token("its result", text->bytes, text->size);
    RF_TRY(add_junction(m, left, right));
    return rf_pair_table_add(&m->ranks, rf_pair_key(a, b), rank);
}

static rf_result read_merges(rf_tokenizer *t, const json_t *object)
{
    rf_token_model *m = &t->pipeline->model;
    const json_t *list = json_object_get(object, "merges");
    rf_text_bytes text = { 0 };
    rf_result r = RF_OK;
    if (!json_is_array(list)) return RF_FAIL(RF_ERROR_CORRUPT_DATA, "merges is no list");
    RF_TRY(RF_ARENA_ARRAY(&t->pipeline->arena, m->results, json_array_size(list)));
    for (size_t i = 0; i < json_array_size(list) && r == RF_OK; i++)
        r = rf_error_context(read_merge(t, json_array_get(list, i), (uint32_t)i, &text), "merges[%zu]", i);
    rf_text_bytes_free(&text);
    return r;
}

static rf_result read_bpe(rf_tokenizer *t, const json_t *object)
{
    rf_token_model *m = &t->pipeline->model;
    const json_t *dropout = json_object_get(object, "dropout");
    if (dropout && json_number_value(dropout) != 0)
        return RF_FAIL(RF_ERROR_UNSUPPORTED, "dropout other than null is not supported: a text has the same tokens "
                                             "every time");
    if (m->prefix.size + m->suffix.size > MOST_AFFIX_BYTES)
        return RF_FAIL(RF_ERROR_UNSUPPORTED, "continuing_subword_prefix and end_of_word_suffix have more than %d bytes",
                       MOST_AFFIX_BYTES);
    for (uint32_t code = 1; code < 0x200; code++) {
        char text[4];
        m->characters[code] = rf_token_model_id(t, text, rf_utf8_encode(code, text));
    }
    m->characters[0] = RF_TABLE_NONE;
    return read_merges(t, object);
}

/* The symbols that a piece begins with. */
typedef struct bpe_symbols {
    rf_flow *f;
    uint32_t count;
    bool unknown; /* the last one is the unknown token, which takes further characters in */
} bpe_symbols;

static void put_symbol(bpe_symbols *s, uint32_t id)
{
    s->f->pairs.symbols[s->count++] = id;
}

/* A character with its prefix and suffix; one that is no token. */
static void put_unknown(bpe_symbols *s, const char *text, size_t size)
{
    const rf_token_model *m = &s->f->p->model;
    bool all = m->byte_fallback;
    for (size_t i = 0; i < size && all; i++) all = m->bytes[(uint8_t)text[i]] != RF_TABLE_NONE;
    if (all) {
        for (size_t i = 0; i < size; i++) put_symbol(s, m->bytes[(uint8_t)text[i]]);
    } else if (m->unknown != RF_TABLE_NONE && !(m->fuse_unknown && s->unknown)) {
        put_symbol(s, m->unknown);
        s->unknown = true;
        return;
    } else if (m->unknown != RF_TABLE_NONE) {
        return;
    }
    s->unknown = s->unknown && !all;
}

static rf_result put_character(bpe_symbols *s, const char *text, uint32_t length, uint32_t code, bool first, bool last)
{
    const rf_token_model *m = &s->f->p->model;
    const bool plain = (first || m->prefix.size == 0) && (!last || m->suffix.size == 0);
    rf_text_bytes *word = &s->f->word;
    uint32_t id;
    if (plain && code < 0x200) {
        id = m->characters[code];
    } else if (plain) {
        id = rf_token_model_id(s->f->t, text, length);
    } else {
        word->size = 0;
        if (!first) RF_TRY(rf_text_bytes_append(word, m->prefix.bytes, m->prefix.size));
        RF_TRY(rf_text_bytes_append(word, text, length));
        if (last) RF_TRY(rf_text_bytes_append(word, m->suffix.bytes, m->suffix.size));
        id = rf_token_model_id(s->f->t, word->bytes, word->size);
    }
    if (id != RF_TABLE_NONE) {
        put_symbol(s, id);
        s->unknown = false;
    } else {
        put_unknown(s, plain ? text : word->bytes, plain ? length : word->size);
    }
    return RF_OK;
}

static rf_result encode_word(rf_flow *f, const char *piece, size_t size)
{
    const rf_token_model *m = &f->p->model;
    rf_pair_work *w = &f->pairs;
    bpe_symbols s = { .f = f };
    size_t most;
    /* A character that its bytes stand for has those of a prefix or suffix, too. */
    if (!rf_mul_size(size, m->byte_fallback ? 1 + m->prefix.size + m->suffix.size : 1, &most))
        return RF_ERROR_OUT_OF_HOST_MEMORY;
    RF_TRY(rf_pair_work_reserve(w, most));
    for (size_t i = 0; i < size;) {
        uint32_t code;
        const uint32_t length = rf_utf8_decode(piece + i, size - i, &code);
        RF_TRY(put_character(&s, piece + i, length, code, i == 0, i + length == size));
        i += length;
    }
    if (s.count == 0) return RF_OK;
    rf_pairs_merge(w, &m->ranks, m->results, s.count);
    for (uint32_t i = 0; i != RF_NO_PLACE; i = w->next[i]) RF_TRY(rf_flow_token(f, w->symbols[i]));
    return RF_OK;
}

static bool is_token(const rf_flow *f, const char *text, uint32_t length, uint32_t code)
{
    const rf_token_model *m = &f->p->model;
    return (code < 0x200 ? m->characters[code] : rf_token_model_id(f->t, text, length)) != RF_TABLE_NONE;
}

/* Where the word's first part ends: between two tokens of one character that no merge has on its two sides, what
 * stands left and right of them is never merged. */
static size_t part_end(const rf_flow *f, const char *word, size_t size)
{
    uint32_t before, code;
    size_t at = rf_utf8_decode(word, size, &before);
    bool known = is_token(f, word, (uint32_t)at, before);
    while (at < size) {
        const uint32_t length = rf_utf8_decode(word + at, size - at, &code);
        const bool next = is_token(f, word + at, length, code);
        if (known && next && rf_pair_table_find(&f->p->model.junctions, rf_pair_key(before, code)) == RF_TABLE_NONE)
            return at;
        at += length;
        before = code;
        known = next;
    }
    return size;
}

/* Without a pre-tokenizer, a word is a whole text: its parts take less time than all of it. */
static rf_result encode_bpe(rf_flow *f, const char *piece, size_t size)
{
    enum { LONG_WORD = 64 };
    const rf_token_model *m = &f->p->model;
    const uint32_t whole = m->ignore_merges ? rf_token_model_id(f->t, piece, size) : RF_TABLE_NONE;
    if (whole != RF_TABLE_NONE) return rf_flow_token(f, whole);
    if (size < LONG_WORD || m->prefix.size + m->suffix.size > 0) return encode_word(f, piece, size);
    for (size_t begin = 0; begin < size;) {
        const size_t part = part_end(f, piece + begin, size - begin);
        RF_TRY(encode_word(f, piece + begin, part));
        begin += part;
    }
    return RF_OK;
}

/* ---- WordPiece, WordLevel ---- */

static rf_result need_unknown(rf_tokenizer *t, const json_t *object)
{
    (void)object;
    const rf_token_model *m = &t->pipeline->model;
    if (m->unknown != RF_TABLE_NONE) return RF_OK;
    return fail_token("unk_token", m->unknown_text.bytes, m->unknown_text.size);
}

static rf_result encode_word_piece(rf_flow *f, const char *piece, size_t size)
{
    const rf_token_model *m = &f->p->model;
    const rf_word_pieces rules = { .tokens = &f->t->tokens,
                                   .skip = f->p->outside,
                                   .mark = m->prefix.bytes,
                                   .mark_size = (uint32_t)m->prefix.size,
                                   .longest = m->longest,
                                   .max_characters = m->max_characters };
    uint32_t count;
    if (size >= UINT32_MAX / 2 || !rf_word_pieces_fit(&rules, piece, size)) return rf_flow_token(f, m->unknown);
    f->word.size = 0;
    RF_TRY(rf_text_bytes_reserve(&f->word, size + m->prefix.size));
    RF_TRY(rf_array_reserve((void **)&f->tokens.items, &f->tokens.capacity, f->tokens.count + (uint32_t)size,
                            sizeof(*f->tokens.items)));
    if (!rf_word_pieces_find(&rules, f->word.bytes, piece, (uint32_t)size, f->tokens.items + f->tokens.count, &count))
        return rf_flow_token(f, m->unknown);
    f->tokens.count += count;
    return RF_OK;
}

static rf_result encode_word_level(rf_flow *f, const char *piece, size_t size)
{
    const uint32_t id = rf_token_model_id(f->t, piece, size);
    return rf_flow_token(f, id != RF_TABLE_NONE ? id : f->p->model.unknown);
}

/* ---- the table ---- */

#define FLAG(name, member)                                                                                             \
    {                                                                                                                  \
        name, RF_FIELD_FLAG, false, offsetof(rf_token_model, member), NULL                                             \
    }
#define TEXT(name, member, needed)                                                                                     \
    {                                                                                                                  \
        name, RF_FIELD_TEXT, needed, offsetof(rf_token_model, member), NULL                                            \
    }
static const rf_field bpe_fields[] = {
    TEXT("unk_token", unknown_text, false),        TEXT("continuing_subword_prefix", prefix, false),
    TEXT("end_of_word_suffix", suffix, false),     FLAG("fuse_unk", fuse_unknown),
    FLAG("byte_fallback", byte_fallback),          FLAG("ignore_merges", ignore_merges),
    { .name = "dropout", .kind = RF_FIELD_OTHER }, { .name = "vocab", .kind = RF_FIELD_OTHER },
    { .name = "merges", .kind = RF_FIELD_OTHER },  { 0 },
};
static const rf_field word_piece_fields[] = {
    TEXT("unk_token", unknown_text, true),
    TEXT("continuing_subword_prefix", prefix, true),
    { "max_input_chars_per_word", RF_FIELD_COUNT, true, offsetof(rf_token_model, max_characters), NULL },
    { .name = "vocab", .kind = RF_FIELD_OTHER },
    { 0 },
};
static const rf_field word_level_fields[] = {
    TEXT("unk_token", unknown_text, true),
    { .name = "vocab", .kind = RF_FIELD_OTHER },
    { 0 },
};
static const rf_field unigram_fields[] = {
    FLAG("byte_fallback", byte_fallback),
    { .name = "unk_id", .kind = RF_FIELD_OTHER },
    { .name = "vocab", .kind = RF_FIELD_OTHER },
    { 0 },
};

static const rf_token_model_type models[] = {
    { .name = "BPE", .fields = bpe_fields, .read = read_bpe, .encode = encode_bpe },
    { .name = "WordPiece", .fields = word_piece_fields, .read = need_unknown, .encode = encode_word_piece },
    { .name = "WordLevel", .fields = word_level_fields, .read = need_unknown, .encode = encode_word_level },
    { .name = "Unigram", .fields = unigram_fields, .read = rf_unigram_read, .encode = rf_unigram_encode },
};

rf_result rf_token_model_find(const json_t *object, const rf_token_model_type **out)
{
    const char *name = rf_type_of(object);
    /* Old files do not name the model. */
    if (!name && json_object_get(object, "merges")) name = "BPE";
    if (!name && json_object_get(object, "max_input_chars_per_word")) name = "WordPiece";
    if (!name && json_is_array(json_object_get(object, "vocab"))) name = "Unigram";
    if (!name && json_is_object(json_object_get(object, "vocab"))) name = "WordLevel";
    for (size_t i = 0; name && i < sizeof(models) / sizeof(models[0]); i++) {
        *out = &models[i];
        if (strcmp(models[i].name, name) == 0) return RF_OK;
    }
    return rf_type_unknown(object);
}

rf_result rf_token_model_read(rf_tokenizer *t, const json_t *object)
{
    rf_token_model *m = &t->pipeline->model;
    RF_TRY(rf_fields_read(&t->pipeline->arena, object, m->type->fields, m));
    m->longest = t->longest;
    m->unknown = RF_TABLE_NONE;
    if (m->unknown_text.bytes) m->unknown = rf_token_model_id(t, m->unknown_text.bytes, m->unknown_text.size);
    for (uint32_t byte = 0; byte < 256; byte++) {
        char text[8];
        const int size = snprintf(text, sizeof(text), "<0x%02X>", byte);
        m->bytes[byte] = rf_token_model_id(t, text, (size_t)size);
    }
    return m->type->read(t, object);
}

void rf_token_model_free(rf_token_model *m)
{
    rf_pair_table_free(&m->ranks);
    rf_pair_table_free(&m->junctions);
    rf_trie_free(&m->trie);
}
