/* SPDX-License-Identifier: Apache-2.0 */
/* A text through the pipeline, and tokens back. */
#include <string.h>

#include "base/utf8.h"
#include "text/pipeline/pipeline.h"

/* ---- UTF-8 ---- */

/* How many bytes at the beginning, which are not UTF-8, are one replacement character: those that a character could
 * begin with, or one. */
static uint32_t invalid_length(const char *text, size_t size)
{
    const uint8_t lead = (uint8_t)text[0];
    const uint32_t wanted = lead >= 0xf0 && lead <= 0xf4 ? 4 : lead >= 0xe0 && lead < 0xf0 ? 3 : 1;
    const uint8_t low = lead == 0xe0 ? 0xa0 : lead == 0xf0 ? 0x90 : 0x80;
    const uint8_t high = lead == 0xed ? 0x9f : lead == 0xf4 ? 0x8f : 0xbf;
    uint32_t length = 1;
    if (wanted > 1 && size > 1 && (uint8_t)text[1] >= low && (uint8_t)text[1] <= high) length = 2;
    while (length > 1 && length < wanted && length < size && ((uint8_t)text[length] & 0xc0) == 0x80) length++;
    return length;
}

static rf_result repair_text(const char *text, size_t size, rf_text_bytes *out)
{
    enum { REPLACEMENT = 0xfffd };
    for (size_t i = 0; i < size;) {
        uint32_t code;
        uint32_t length = rf_utf8_decode(text + i, size - i, &code);
        if (code == RF_UTF8_INVALID) {
            length = invalid_length(text + i, size - i);
            RF_TRY(rf_text_bytes_append_code(out, REPLACEMENT));
        } else {
            RF_TRY(rf_text_bytes_append(out, text + i, length));
        }
        i += length;
    }
    return RF_OK;
}

/* ---- encoding ---- */

static rf_result cut_section(rf_flow *f, rf_piece section)
{
    return rf_flow_piece(f, 0, section);
}

static rf_result normalize_section(rf_flow *f, rf_piece section)
{
    RF_TRY(rf_flow_normalize(f, section, &section));
    return rf_added_tokens_cut(f, &f->p->added.normalized, section, cut_section);
}

static rf_result encode_text(rf_flow *f, const char *text, size_t size)
{
    rf_text_bytes repaired = { 0 };
    rf_piece piece = { text, size, true };
    if (!rf_utf8_valid(text, size)) {
        const rf_result r = repair_text(text, size, &repaired);
        piece = (rf_piece){ repaired.bytes, repaired.size, true };
        if (r < 0) {
            rf_text_bytes_free(&repaired);
            return r;
        }
    }
    f->tokens.count = 0;
    const rf_result r = rf_added_tokens_cut(f, &f->p->added.raw, piece, normalize_section);
    rf_text_bytes_free(&repaired);
    return r;
}

/* How many tokens of the one text and of the other stay. */
static rf_result truncate_counts(const rf_truncation *t, uint32_t special, bool pair, uint32_t counts[2])
{
    const uint64_t most = t->max_length > special ? t->max_length - special : 0,
                   total = (uint64_t)counts[0] + counts[1];
    if (total <= most) return RF_OK;
    if (pair && t->strategy == RF_TRUNCATE_LONGEST_FIRST) {
        const bool swapped = counts[0] > counts[1];
        uint64_t few = swapped ? counts[1] : counts[0], many = few;
        if (few <= most && most - few > few) many = most - few;
        if (few + many > most) {
            few = most / 2;
            many = few + most % 2;
        }
        counts[swapped ? 1 : 0] = (uint32_t)few;
        counts[swapped ? 0 : 1] = (uint32_t)many;
        return RF_OK;
    }
    const uint32_t which = t->strategy == RF_TRUNCATE_ONLY_SECOND && pair;
    if (pair && counts[which] <= total - most)
        return RF_FAIL(RF_ERROR_INVALID_ARGUMENT,
                       "text %u has %u tokens, all of which truncation to %u tokens would take; shorten the other text",
                       which + 1, counts[which], t->max_length);
    counts[which] -= (uint32_t)(total - most);
    return RF_OK;
}

static uint32_t count_special(const rf_template *template)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < template->count; i++) count += template->items[i].num_ids;
    return count;
}

/* The tokens of up to two texts, in the places that the template gives them. */
static rf_result assemble_tokens(const rf_pipeline *p, const rf_token_list lists[2], bool pair, bool special,
                                 rf_array *out, rf_array *types)
{
    const rf_template *template = &p->templates[pair];
    uint32_t counts[2] = { lists[0].count, lists[1].count };
    if (p->truncation.set) RF_TRY(truncate_counts(&p->truncation, special ? count_special(template) : 0, pair, counts));
    const bool left = p->truncation.direction == RF_TRUNCATE_LEFT;
    uint64_t count = 0;
    for (uint32_t i = 0; i < template->count; i++) {
        const rf_template_item *item = &template->items[i];
        count += item->sequence < 0 ? (special ? item->num_ids : 0) : counts[item->sequence];
    }
    int32_t *ids = RF_NEW_ARRAY(int32_t, count), *kinds = types ? RF_NEW_ARRAY(int32_t, count) : NULL;
    if (!ids || (types && !kinds)) {
        rf_free(ids);
        rf_free(kinds);
        return RF_ERROR_OUT_OF_HOST_MEMORY;
    }
    uint64_t at = 0;
    for (uint32_t i = 0; i < template->count; i++) {
        const rf_template_item *item = &template->items[i];
        if (item->sequence < 0 && !special) continue;
        const uint32_t length = item->sequence < 0 ? item->num_ids : counts[item->sequence];
        const int32_t *from = item->ids;
        if (item->sequence >= 0) {
            const rf_token_list *list = &lists[item->sequence];
            from = list->items + (left && list->items ? list->count - length : 0);
        }
        if (length > 0) memcpy(ids + at, from, length * sizeof(*ids));
        for (uint32_t k = 0; k < length && kinds; k++) kinds[at + k] = item->type;
        at += length;
    }
    *out = (rf_array){ RF_I32, { 1, { (int64_t)count } }, ids };
    if (types) *types = (rf_array){ RF_I32, { 1, { (int64_t)count } }, kinds };
    return RF_OK;
}

rf_result rf_pipeline_encode(const rf_tokenizer *t, const char *text, size_t size,
                             const rf_tokenizer_encode_params *params, rf_array *out, rf_array *types)
{
    const rf_pipeline *p = t->pipeline;
    rf_flow f = { .split_special = params->split_special_tokens };
    rf_token_list lists[2] = { { 0 } };
    rf_result r = rf_flow_begin(&f, t, size + (params->pair ? params->pair_size : 0));
    if (r == RF_OK) r = encode_text(&f, text, size);
    lists[0] = f.tokens;
    if (r == RF_OK && params->pair) {
        f.tokens = (rf_token_list){ 0 };
        r = encode_text(&f, params->pair, params->pair_size);
        lists[1] = f.tokens;
    }
    if (r == RF_OK) r = assemble_tokens(p, lists, params->pair != NULL, !params->no_special_tokens, out, types);
    f.tokens = (rf_token_list){ 0 };
    rf_flow_free(&f);
    for (uint32_t i = 0; i < 2; i++) rf_free(lists[i].items);
    return r;
}

/* ---- decoding ---- */

static void parts_free(rf_parts *parts)
{
    rf_text_bytes_free(&parts->text);
    rf_free(parts->ends.items);
}

/* Without decoders, a space stands between tokens. */
static rf_result gather_texts(const rf_tokenizer *t, const int32_t *tokens, uint64_t count, rf_parts *parts)
{
    const bool spaces = t->pipeline->decoders.count == 0;
    for (uint64_t i = 0; i < count; i++) {
        const uint32_t id = (uint32_t)tokens[i];
        if (t->special[id]) continue;
        if (spaces && parts->ends.count > 0) RF_TRY(rf_text_bytes_append(&parts->text, " ", 1));
        RF_TRY(rf_text_bytes_append(&parts->text, rf_string_table_text(&t->tokens, id), t->tokens.items[id].size));
        RF_TRY(rf_parts_end(parts));
    }
    return RF_OK;
}

rf_result rf_pipeline_decode(const rf_tokenizer *t, const int32_t *tokens, uint64_t count, char **text, size_t *size)
{
    rf_parts parts[2] = { { { 0 }, { 0 } } };
    rf_matcher m = { 0 };
    uint32_t now = 0;
    rf_result r = gather_texts(t, tokens, count, &parts[0]);
    rf_matcher_begin(&m, parts[0].text.size);
    parts[0].text.limit = parts[1].text.limit = rf_flow_limit(parts[0].text.size);
    for (uint32_t i = 0; i < t->pipeline->decoders.count && r == RF_OK; i++, now = 1 - now) {
        const rf_step *s = &t->pipeline->decoders.items[i];
        parts[1 - now].text.size = parts[1 - now].ends.count = 0;
        r = s->type->decode(s, &parts[now], &parts[1 - now], &m);
    }
    const rf_text_bytes *made = &parts[now].text;
    char *copy = r == RF_OK ? rf_calloc(made->size + 1, 1) : NULL;
    if (r == RF_OK && !copy) r = RF_ERROR_OUT_OF_HOST_MEMORY;
    if (r == RF_OK) {
        if (made->size) memcpy(copy, made->bytes, made->size);
        *text = copy;
        if (size) *size = made->size;
    }
    rf_matcher_free(&m);
    parts_free(&parts[0]);
    parts_free(&parts[1]);
    return r;
}
