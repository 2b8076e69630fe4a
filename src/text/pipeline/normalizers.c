/* SPDX-License-Identifier: Apache-2.0 */
/* Normalizers: functions of a text. Those of BERT lower characters one by one, without Greek's final sigma. */
#include <stddef.h>
#include <string.h>

#include "base/utf8.h"
#include "text/pipeline/charsmap.h"
#include "text/pipeline/pipeline.h"
#include "text/unicode.h"

#define NORMALIZER(name)                                                                                               \
    static rf_result name(rf_flow *f, const rf_step *s, const char *text, size_t size, rf_text_bytes *out)
#define UNUSED_FLOW (void)f
#define UNUSED_STEP (void)s

static rf_result append_code(rf_text_bytes *out, uint32_t code)
{
    return rf_text_bytes_append_code(out, code);
}

NORMALIZER(normalize_form)
{
    UNUSED_FLOW;
    return rf_unicode_normalize(text, size, (rf_unicode_form)s->start, out);
}

static rf_result append_lower(rf_text_bytes *out, uint32_t code)
{
    enum { DOTTED_I = 0x130, DOT_ABOVE = 0x307 }; /* the one letter that two characters are the lower case of */
    if (code != DOTTED_I) return append_code(out, rf_unicode_lower(code));
    RF_TRY(append_code(out, 'i'));
    return append_code(out, DOT_ABOVE);
}

static rf_result append_all_lower(const char *text, size_t size, rf_text_bytes *out)
{
    RF_TRY(rf_text_bytes_reserve(out, size));
    for (size_t i = 0; i < size;) {
        uint32_t code;
        i += rf_utf8_decode(text + i, size - i, &code);
        RF_TRY(append_lower(out, code));
    }
    return RF_OK;
}

NORMALIZER(normalize_lower)
{
    UNUSED_FLOW;
    UNUSED_STEP;
    return append_all_lower(text, size, out);
}

/* Where the text goes on behind white space at its beginning, or ends before that at its end. */
static size_t strip_begin(const char *text, size_t size)
{
    for (size_t i = 0; i < size;) {
        uint32_t code;
        const uint32_t length = rf_utf8_decode(text + i, size - i, &code);
        if (!rf_unicode_is_white_space(code)) return i;
        i += length;
    }
    return size;
}

static size_t strip_end(const char *text, size_t size)
{
    while (size > 0) {
        size_t before = size - 1;
        uint32_t code;
        while (before > 0 && ((uint8_t)text[before] & 0xc0) == 0x80) before--;
        rf_utf8_decode(text + before, size - before, &code);
        if (!rf_unicode_is_white_space(code)) break;
        size = before;
    }
    return size;
}

NORMALIZER(normalize_strip)
{
    UNUSED_FLOW;
    const size_t begin = s->left ? strip_begin(text, size) : 0;
    const size_t end = s->right ? strip_end(text, size) : size;
    return begin < end ? rf_text_bytes_append(out, text + begin, end - begin) : RF_OK;
}

static rf_result append_without(const char *text, size_t size, bool (*without)(uint32_t code), rf_text_bytes *out)
{
    for (size_t i = 0; i < size;) {
        uint32_t code;
        const uint32_t length = rf_utf8_decode(text + i, size - i, &code);
        if (!without(code)) RF_TRY(rf_text_bytes_append(out, text + i, length));
        i += length;
    }
    return RF_OK;
}

NORMALIZER(normalize_strip_accents)
{
    UNUSED_FLOW;
    UNUSED_STEP;
    return append_without(text, size, rf_unicode_is_mark, out);
}

NORMALIZER(normalize_replace)
{
    return rf_pattern_replace(s, &f->matcher, text, size, out);
}

NORMALIZER(normalize_prepend)
{
    UNUSED_FLOW;
    if (size > 0) RF_TRY(rf_text_bytes_append(out, s->text.bytes, s->text.size));
    return rf_text_bytes_append(out, text, size);
}

NORMALIZER(normalize_bytes)
{
    UNUSED_FLOW;
    UNUSED_STEP;
    for (size_t i = 0; i < size; i++) RF_TRY(append_code(out, rf_byte_character((uint8_t)text[i])));
    return RF_OK;
}

/* ---- BERT ---- */

static rf_result append_clean(const rf_step *s, uint32_t code, rf_text_bytes *out)
{
    /* The library that files are written for keeps what is not assigned. */
    if (s->clean_text && rf_unicode_is_control(code) && rf_unicode_is_assigned(code)) return RF_OK;
    if (s->clean_text && rf_unicode_is_white_space(code)) code = ' ';
    const bool alone = s->chinese && rf_unicode_is_chinese(code);
    if (alone) RF_TRY(append_code(out, ' '));
    RF_TRY(append_code(out, code));
    return alone ? append_code(out, ' ') : RF_OK;
}

NORMALIZER(normalize_bert)
{
    rf_text_bytes one = { 0 }, two = { 0 };
    rf_result r = RF_OK;
    (void)f;
    for (size_t i = 0; i < size && r == RF_OK;) {
        uint32_t code;
        i += rf_utf8_decode(text + i, size - i, &code);
        r = append_clean(s, code, &one);
    }
    if (r == RF_OK && s->accents) {
        r = rf_unicode_normalize(one.bytes, one.size, RF_UNICODE_NFD, &two);
        one.size = 0;
        if (r == RF_OK) r = append_without(two.bytes, two.size, rf_unicode_is_accent, &one);
    }
    if (r == RF_OK)
        r = s->lower ? append_all_lower(one.bytes, one.size, out) : rf_text_bytes_append(out, one.bytes, one.size);
    rf_text_bytes_free(&one);
    rf_text_bytes_free(&two);
    return r;
}

/* Accents go where case goes, unless the file says otherwise. */
static rf_result expand_bert(rf_arena *arena, const json_t *object, const rf_step *from, rf_steps *out)
{
    rf_step step = *from;
    const json_t *accents = json_object_get(object, "strip_accents");
    (void)arena;
    if (!accents || json_is_null(accents)) step.accents = step.lower;
    return rf_steps_add(out, &step);
}

/* ---- Nmt ---- */

static bool is_left_out_by_nmt(uint32_t code)
{
    return (code >= 1 && code <= 8) || code == 0xb || (code >= 0xe && code <= 0x1f) || code == 0x7f || code == 0x8f ||
           code == 0x9f;
}

static bool is_space_for_nmt(uint32_t code)
{
    static const uint32_t spaces[] = { '\t', '\n', '\f', '\r', 0x1680, 0x2028, 0x2029, 0x2581, 0xfeff, 0xfffd };
    for (size_t i = 0; i < sizeof(spaces) / sizeof(spaces[0]); i++)
        if (spaces[i] == code) return true;
    return code >= 0x200b && code <= 0x200f;
}

NORMALIZER(normalize_nmt)
{
    UNUSED_FLOW;
    UNUSED_STEP;
    for (size_t i = 0; i < size;) {
        uint32_t code;
        i += rf_utf8_decode(text + i, size - i, &code);
        if (!is_left_out_by_nmt(code)) RF_TRY(append_code(out, is_space_for_nmt(code) ? ' ' : code));
    }
    return RF_OK;
}

/* ---- sentencepiece's map ---- */

static rf_result expand_precompiled(rf_arena *arena, const json_t *object, const rf_step *from, rf_steps *out)
{
    const json_t *text = json_object_get(object, "precompiled_charsmap");
    rf_step step = *from;
    if (!text || json_is_null(text)) return RF_OK;
    if (!json_is_string(text)) return RF_FAIL(RF_ERROR_CORRUPT_DATA, "precompiled_charsmap is not a text");
    RF_TRY(rf_error_context(rf_charsmap_read(arena, json_string_value(text), json_string_length(text), &step.charsmap),
                            "precompiled_charsmap"));
    return rf_steps_add(out, &step);
}

NORMALIZER(normalize_precompiled)
{
    UNUSED_FLOW;
    return rf_charsmap_apply(s->charsmap, text, size, out);
}

/* ---- the table ---- */

#define FLAG(name, member)                                                                                             \
    {                                                                                                                  \
        name, RF_FIELD_FLAG, true, offsetof(rf_step, member), NULL                                                     \
    }
static const rf_field strip_fields[] = { FLAG("strip_left", left), FLAG("strip_right", right), { 0 } };
static const rf_field replace_fields[] = {
    { "pattern", RF_FIELD_PATTERN, true, offsetof(rf_step, pattern), NULL },
    { "content", RF_FIELD_TEXT, true, offsetof(rf_step, text), NULL },
    { 0 },
};
static const rf_field prepend_fields[] = { { "prepend", RF_FIELD_TEXT, true, offsetof(rf_step, text), NULL }, { 0 } };
static const rf_field bert_fields[] = {
    FLAG("clean_text", clean_text),
    FLAG("handle_chinese_chars", chinese),
    { "strip_accents", RF_FIELD_FLAG, false, offsetof(rf_step, accents), NULL },
    FLAG("lowercase", lower),
    { 0 },
};
static const rf_field precompiled_fields[] = { { .name = "precompiled_charsmap", .kind = RF_FIELD_OTHER }, { 0 } };

#define FORM(n)                                                                                                        \
    {                                                                                                                  \
        .name = #n, .normalize = normalize_form, .defaults = {.start = RF_UNICODE_##n }                                \
    }
static const rf_step_type normalizers[] = {
    FORM(NFC),
    FORM(NFD),
    FORM(NFKC),
    FORM(NFKD),
    { .name = "Lowercase", .normalize = normalize_lower },
    { .name = "Strip", .fields = strip_fields, .normalize = normalize_strip },
    { .name = "StripAccents", .normalize = normalize_strip_accents },
    { .name = "Replace", .fields = replace_fields, .normalize = normalize_replace },
    { .name = "Prepend", .fields = prepend_fields, .normalize = normalize_prepend },
    { .name = "BertNormalizer", .fields = bert_fields, .expand = expand_bert, .normalize = normalize_bert },
    { .name = "Nmt", .normalize = normalize_nmt },
    { .name = "ByteLevel", .normalize = normalize_bytes },
    { .name = "Precompiled",
      .fields = precompiled_fields,
      .expand = expand_precompiled,
      .normalize = normalize_precompiled },
    { 0 },
};
const rf_role rf_normalizer_role = { "normalizer", "normalizers", normalizers };
