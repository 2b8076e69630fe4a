/* SPDX-License-Identifier: Apache-2.0 */
/* Added tokens, which are found in a text before anything else looks at it. */
#include <stddef.h>
#include <string.h>

#include "base/utf8.h"
#include "text/pipeline/pipeline.h"
#include "text/unicode.h"

#define FLAG(name, member)                                                                                             \
    {                                                                                                                  \
        name, RF_FIELD_FLAG, false, offsetof(rf_added_token, member), NULL                                             \
    }
static const rf_field fields[] = {
    { "id", RF_FIELD_COUNT, true, offsetof(rf_added_token, id), NULL },
    { "content", RF_FIELD_TEXT, true, offsetof(rf_added_token, content), NULL },
    FLAG("single_word", single_word),
    FLAG("lstrip", lstrip),
    FLAG("rstrip", rstrip),
    FLAG("normalized", normalized),
    FLAG("special", special),
    { 0 },
};

static rf_result read_token(rf_arena *arena, const json_t *value, rf_added_tokens *out)
{
    RF_TRY(RF_VEC_GROW(out));
    rf_added_token *token = &out->items[out->count];
    RF_TRY(rf_fields_read(arena, value, fields, token));
    if (token->content.size == 0) return RF_FAIL(RF_ERROR_CORRUPT_DATA, "content is empty");
    out->count++;
    return RF_OK;
}

rf_result rf_added_tokens_read(rf_arena *arena, const json_t *list, rf_added_tokens *out)
{
    if (!list || json_is_null(list)) return RF_OK;
    if (!json_is_array(list)) return RF_FAIL(RF_ERROR_CORRUPT_DATA, "added_tokens is no list");
    for (size_t i = 0; i < json_array_size(list); i++)
        RF_TRY(rf_error_context(read_token(arena, json_array_get(list, i), out), "added_tokens[%zu]", i));
    return RF_OK;
}

/* Those found behind the normalizers look as these make them. */
rf_result rf_added_tokens_finish(rf_tokenizer *t)
{
    rf_added_tokens *added = &t->pipeline->added;
    rf_flow f = { 0 };
    size_t size = 0;
    for (uint32_t i = 0; i < added->count; i++) size += added->items[i].content.size;
    rf_result r = rf_flow_begin(&f, t, size);
    for (uint32_t i = 0; i < added->count && r == RF_OK; i++) {
        const rf_added_token *token = &added->items[i];
        rf_piece text = { token->content.bytes, token->content.size, true };
        if (token->normalized) r = rf_flow_normalize(&f, text, &text);
        if (r == RF_OK && text.size > 0)
            r = rf_trie_add(token->normalized ? &added->normalized : &added->raw, text.bytes, text.size, i);
    }
    rf_flow_free(&f);
    return r;
}

void rf_added_tokens_free(rf_added_tokens *added)
{
    rf_free(added->items);
    rf_trie_free(&added->raw);
    rf_trie_free(&added->normalized);
}

/* ---- cutting ---- */

/* The longest token at the beginning of a text; RF_TABLE_NONE. */
static uint32_t longest_token(const rf_trie *trie, const char *text, size_t size, size_t *length)
{
    uint32_t node = 0, best = RF_TABLE_NONE;
    for (size_t i = 0; i < size;) {
        node = rf_trie_step(trie, node, (uint8_t)text[i++]);
        if (node == 0) break;
        const uint32_t token = rf_trie_end(trie, node);
        if (token == RF_TABLE_NONE) continue;
        best = token;
        *length = i;
    }
    return best;
}

/* The character that ends before `at`. */
static size_t character_before(const char *text, size_t at, uint32_t *code)
{
    size_t before = at - 1;
    while (before > 0 && ((uint8_t)text[before] & 0xc0) == 0x80) before--;
    rf_utf8_decode(text + before, at - before, code);
    return before;
}

static bool stands_alone(const char *text, size_t size, size_t begin, size_t end)
{
    uint32_t code;
    if (begin > 0) {
        character_before(text, begin, &code);
        if (rf_unicode_is_word(code)) return false;
    }
    if (end == size) return true;
    rf_utf8_decode(text + end, size - end, &code);
    return !rf_unicode_is_word(code);
}

static size_t spaces_before(const char *text, size_t from, size_t at)
{
    while (at > from) {
        uint32_t code;
        const size_t before = character_before(text, at, &code);
        if (!rf_unicode_is_white_space(code)) break;
        at = before;
    }
    return at > from ? at : from;
}

static size_t spaces_behind(const char *text, size_t size, size_t at)
{
    while (at < size) {
        uint32_t code;
        const uint32_t length = rf_utf8_decode(text + at, size - at, &code);
        if (!rf_unicode_is_white_space(code)) break;
        at += length;
    }
    return at;
}

rf_result rf_added_tokens_cut(rf_flow *f, const rf_trie *trie, rf_piece text,
                              rf_result (*section)(rf_flow *f, rf_piece section))
{
    size_t done = 0;
    for (size_t at = 0; at < text.size;) {
        size_t length = 0;
        const uint32_t found = trie->roots[(uint8_t)text.bytes[at]]
                                   ? longest_token(trie, text.bytes + at, text.size - at, &length)
                                   : RF_TABLE_NONE;
        if (found == RF_TABLE_NONE) {
            at++;
            continue;
        }
        const rf_added_token *token = &f->p->added.items[found];
        size_t begin = at, end = at + length;
        at = end;
        if (begin < done || (token->special && f->split_special) ||
            (token->single_word && !stands_alone(text.bytes, text.size, begin, end)))
            continue;
        if (token->lstrip) begin = spaces_before(text.bytes, done, begin);
        if (token->rstrip) end = spaces_behind(text.bytes, text.size, end);
        if (begin > done) RF_TRY(section(f, (rf_piece){ text.bytes + done, begin - done, text.first && done == 0 }));
        RF_TRY(rf_flow_token(f, token->id));
        done = end;
    }
    if (done == text.size) return RF_OK;
    return section(f, (rf_piece){ text.bytes + done, text.size - done, text.first && done == 0 });
}
