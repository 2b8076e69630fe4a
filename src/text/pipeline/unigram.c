/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Unigram (Kudo 2018): of all ways to cut a piece into tokens, the one whose scores have the largest sum (Viterbi).
 * A character that is no token costs more than any token; such characters in a row are one token.
 */
#include <string.h>

#include "base/utf8.h"
#include "text/pipeline/pipeline.h"

#define UNKNOWN_PENALTY 10.0

rf_result rf_unigram_read(rf_tokenizer *t, const json_t *object)
{
    rf_token_model *m = &t->pipeline->model;
    const json_t *list = json_object_get(object, "vocab"), *unknown = json_object_get(object, "unk_id");
    const size_t count = json_array_size(list);
    double lowest = 0;
    RF_TRY(RF_ARENA_ARRAY(&t->pipeline->arena, m->scores, count));
    for (size_t i = 0; i < count; i++) {
        const json_t *score = json_array_get(json_array_get(list, i), 1);
        if (!json_is_number(score)) return RF_FAIL(RF_ERROR_CORRUPT_DATA, "vocab[%zu] has no score", i);
        m->scores[i] = json_number_value(score);
        if (i == 0 || m->scores[i] < lowest) lowest = m->scores[i];
        if (t->tokens.items[i].size > 0)
            RF_TRY(rf_trie_add(&m->trie, rf_string_table_text(&t->tokens, (uint32_t)i), t->tokens.items[i].size,
                               (uint32_t)i));
    }
    m->unknown_score = lowest - UNKNOWN_PENALTY;
    if (!unknown || json_is_null(unknown)) return RF_OK;
    const json_int_t id = json_integer_value(unknown);
    if (!json_is_integer(unknown) || id < 0 || (uint64_t)id >= count)
        return RF_FAIL(RF_ERROR_CORRUPT_DATA, "unk_id is no number of a token of the vocabulary");
    m->unknown = (uint32_t)id;
    return RF_OK;
}

static void offer_way(rf_lattice_node *node, uint32_t start, uint32_t token, double score)
{
    if (node->token != RF_TABLE_NONE && !(score > node->score)) return;
    *node = (rf_lattice_node){ .score = score, .start = start, .token = token };
}

static rf_result find_best(rf_flow *f, const char *piece, uint32_t size)
{
    const rf_token_model *m = &f->p->model;
    rf_lattice_node *nodes = f->lattice.items;
    for (uint32_t i = 0; i <= size; i++) nodes[i] = (rf_lattice_node){ .token = RF_TABLE_NONE };
    for (uint32_t start = 0; start < size;) {
        const double score = nodes[start].score;
        uint32_t code, node = 0;
        const uint32_t length = rf_utf8_decode(piece + start, size - start, &code);
        bool single = false;
        for (uint32_t at = start; at < size;) {
            node = rf_trie_step(&m->trie, node, (uint8_t)piece[at++]);
            if (node == 0) break;
            const uint32_t token = rf_trie_end(&m->trie, node);
            if (token == RF_TABLE_NONE) continue;
            offer_way(&nodes[at], start, token, score + m->scores[token]);
            single |= at == start + length;
        }
        if (!single && m->unknown == RF_TABLE_NONE)
            return RF_FAIL(RF_ERROR_UNSUPPORTED, "U+%04X is no token, and the vocabulary has no \"unk_id\"", code);
        if (!single) offer_way(&nodes[start + length], start, m->unknown, score + m->unknown_score);
        start += length;
    }
    return RF_OK;
}

/* Characters that are no tokens are so as a row, unless it is one or its bytes are. */
static rf_result put_unknown(rf_flow *f, const char *text, size_t size)
{
    const rf_token_model *m = &f->p->model;
    const uint32_t id = rf_token_model_id(f->t, text, size);
    bool all = m->byte_fallback;
    if (id != RF_TABLE_NONE) return rf_flow_token(f, id);
    for (size_t i = 0; i < size && all; i++) all = m->bytes[(uint8_t)text[i]] != RF_TABLE_NONE;
    if (!all) return rf_flow_token(f, m->unknown);
    for (size_t i = 0; i < size; i++) RF_TRY(rf_flow_token(f, m->bytes[(uint8_t)text[i]]));
    return RF_OK;
}

rf_result rf_unigram_encode(rf_flow *f, const char *piece, size_t size)
{
    const rf_token_model *m = &f->p->model;
    if (size >= UINT32_MAX / 2) return RF_FAIL(RF_ERROR_UNSUPPORTED, "a word of %zu bytes; cut the text", size);
    RF_TRY(rf_array_reserve((void **)&f->lattice.items, &f->lattice.capacity, (uint32_t)size + 1,
                            sizeof(*f->lattice.items)));
    RF_TRY(find_best(f, piece, (uint32_t)size));
    /* The way back turns each node's start into the end of what follows it. */
    rf_lattice_node *nodes = f->lattice.items;
    uint32_t after = (uint32_t)size;
    for (uint32_t end = (uint32_t)size; end > 0;) {
        const uint32_t start = nodes[end].start;
        nodes[end].start = after;
        after = end;
        end = start;
    }
    for (uint32_t at = 0, end = after; at < size;) {
        const uint32_t first = at;
        const uint32_t token = nodes[end].token;
        for (;;) {
            const uint32_t next = nodes[end].start;
            at = end;
            end = next;
            if (token != m->unknown || at >= size || nodes[end].token != m->unknown) break;
        }
        RF_TRY(token != m->unknown ? rf_flow_token(f, token) : put_unknown(f, piece + first, at - first));
    }
    return RF_OK;
}
