/* SPDX-License-Identifier: Apache-2.0 */
/* Pre-tokenizers: they cut a piece of text, and pass each part on to the next one. */
#include <stddef.h>
#include <string.h>

#include "base/utf8.h"
#include "text/pipeline/pipeline.h"
#include "text/unicode.h"

#define CUTTER(name) static rf_result name(rf_flow *f, const rf_step *s, uint32_t stage, rf_piece piece)

/* ---- behaviours ---- */

/* The parts of a piece come in order, matches and what lies between them; one waits for whether the next belongs to
 * it. */
typedef struct splitter {
    rf_flow *f;
    uint32_t stage; /* that gets the parts */
    rf_piece piece;
    rf_split_behavior behavior;
    bool invert, waits, match;
    size_t begin, end; /* of the part that waits */
} splitter;

static rf_result pass_on(splitter *s, size_t begin, size_t end)
{
    return rf_flow_piece(s->f, s->stage,
                         (rf_piece){ s->piece.bytes + begin, end - begin, s->piece.first && begin == 0 });
}

static rf_result split_finish(splitter *s)
{
    const bool waits = s->waits;
    s->waits = false;
    return waits ? pass_on(s, s->begin, s->end) : RF_OK;
}

/* Whether the part belongs to the one that waits. */
static bool split_joins(const splitter *s, bool match)
{
    if (!s->waits) return false;
    switch (s->behavior) {
    case RF_SPLIT_CONTIGUOUS: return s->match == match;
    case RF_SPLIT_MERGED_WITH_PREVIOUS: return match && !s->match;
    default: return !match && s->match;
    }
}

static rf_result split_part(splitter *s, size_t begin, size_t end, bool match)
{
    if (s->invert) match = !match;
    if (begin == end) return RF_OK;
    if (s->behavior == RF_SPLIT_ISOLATED) return pass_on(s, begin, end);
    if (s->behavior == RF_SPLIT_REMOVED) return match ? RF_OK : pass_on(s, begin, end);
    if (split_joins(s, match)) {
        s->end = end;
        s->match = match;
        return RF_OK;
    }
    RF_TRY(split_finish(s));
    s->waits = true;
    s->match = match;
    s->begin = begin;
    s->end = end;
    return RF_OK;
}

static rf_result split_at_pattern(splitter *s, const rf_pattern *pattern)
{
    const rf_piece *p = &s->piece;
    size_t done = 0, from = 0, begin, end;
    while (from < p->size) {
        const rf_result r = rf_pattern_find(pattern, &s->f->matcher, p->bytes, p->size, from, &begin, &end);
        if (r == RF_END) break;
        RF_TRY(r);
        for (from = end; end == begin && from < p->size;)
            if (++from == p->size || ((uint8_t)p->bytes[from] & 0xc0) != 0x80) break;
        if (end == begin) continue; /* it cuts nothing out */
        RF_TRY(split_part(s, done, begin, false));
        RF_TRY(split_part(s, begin, end, true));
        done = end;
    }
    RF_TRY(split_part(s, done, p->size, false));
    return split_finish(s);
}

static rf_result split_at_characters(splitter *s, bool (*is_match)(uint32_t code))
{
    const rf_piece *p = &s->piece;
    size_t done = 0;
    for (size_t i = 0; i < p->size;) {
        uint32_t code;
        const uint32_t length = rf_utf8_decode(p->bytes + i, p->size - i, &code);
        if (is_match(code)) {
            RF_TRY(split_part(s, done, i, false));
            RF_TRY(split_part(s, i, i + length, true));
            done = i + length;
        }
        i += length;
    }
    RF_TRY(split_part(s, done, p->size, false));
    return split_finish(s);
}

static splitter splitter_of(rf_flow *f, uint32_t stage, rf_piece piece, uint32_t behavior)
{
    return (splitter){ .f = f, .stage = stage + 1, .piece = piece, .behavior = (rf_split_behavior)behavior };
}

CUTTER(cut_split)
{
    splitter sp = splitter_of(f, stage, piece, s->behavior);
    sp.invert = s->invert;
    return split_at_pattern(&sp, &s->pattern);
}

CUTTER(cut_spaces)
{
    splitter sp = splitter_of(f, stage, piece, RF_SPLIT_REMOVED);
    (void)s;
    return split_at_characters(&sp, rf_unicode_is_white_space);
}

CUTTER(cut_punctuation)
{
    splitter sp = splitter_of(f, stage, piece, s->behavior);
    return split_at_characters(&sp, rf_unicode_is_punctuation);
}

CUTTER(cut_digits)
{
    splitter sp = splitter_of(f, stage, piece, s->individual ? RF_SPLIT_ISOLATED : RF_SPLIT_CONTIGUOUS);
    return split_at_characters(&sp, rf_unicode_is_number);
}

/* ---- bytes ---- */

/* A space in front, where there is none. */
CUTTER(cut_prefix_space)
{
    rf_text_bytes *made = &f->scratch[stage];
    (void)s;
    if (piece.bytes[0] == ' ') return rf_flow_piece(f, stage + 1, piece);
    made->size = 0;
    RF_TRY(rf_text_bytes_append(made, " ", 1));
    RF_TRY(rf_text_bytes_append(made, piece.bytes, piece.size));
    return rf_flow_piece(f, stage + 1, (rf_piece){ made->bytes, made->size, piece.first });
}

CUTTER(cut_bytes)
{
    rf_text_bytes *made = &f->scratch[stage];
    (void)s;
    made->size = 0;
    RF_TRY(rf_text_bytes_reserve(made, 2 * piece.size));
    for (size_t i = 0; i < piece.size; i++)
        made->size += rf_utf8_encode(rf_byte_character((uint8_t)piece.bytes[i]), made->bytes + made->size);
    return rf_flow_piece(f, stage + 1, (rf_piece){ made->bytes, made->size, piece.first });
}

static const rf_step_type prefix_space_type = { .name = "ByteLevel", .cut = cut_prefix_space };
static const rf_step_type bytes_type = { .name = "ByteLevel", .cut = cut_bytes };
static const rf_step_type split_type = { .name = "Split", .cut = cut_split };

static rf_result add_split(rf_steps *out, const char *pattern, rf_split_behavior behavior, bool invert)
{
    rf_step step = { .type = &split_type, .behavior = behavior, .invert = invert };
    RF_TRY(rf_regex_compile(pattern, strlen(pattern), &step.pattern.regex));
    const rf_result r = rf_steps_add(out, &step);
    if (r < 0) rf_regex_free(&step.pattern.regex);
    return r;
}

static rf_result expand_byte_level(rf_arena *arena, const json_t *object, const rf_step *from, rf_steps *out)
{
    static const char gpt2[] = "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+";
    (void)arena;
    (void)object;
    if (from->prefix_space) RF_TRY(rf_steps_add(out, &(rf_step){ .type = &prefix_space_type }));
    if (from->use_regex) RF_TRY(add_split(out, gpt2, RF_SPLIT_ISOLATED, false));
    return rf_steps_add(out, &(rf_step){ .type = &bytes_type });
}

/* ---- sentencepiece's spaces ---- */

CUTTER(cut_metaspace)
{
    rf_text_bytes *made = &f->scratch[stage];
    const rf_slice_text mark = s->text;
    made->size = 0;
    const bool marked =
        piece.bytes[0] == ' ' || (piece.size >= mark.size && memcmp(piece.bytes, mark.bytes, mark.size) == 0);
    if (!marked && (s->prepend_scheme == RF_PREPEND_ALWAYS || (s->prepend_scheme == RF_PREPEND_FIRST && piece.first)))
        RF_TRY(rf_text_bytes_append(made, mark.bytes, mark.size));
    for (size_t i = 0; i < piece.size; i++)
        RF_TRY(piece.bytes[i] == ' ' ? rf_text_bytes_append(made, mark.bytes, mark.size)
                                     : rf_text_bytes_append(made, piece.bytes + i, 1));
    const rf_piece marks = { made->bytes, made->size, piece.first };
    if (!s->split) return rf_flow_piece(f, stage + 1, marks);
    splitter sp = splitter_of(f, stage, marks, RF_SPLIT_MERGED_WITH_NEXT);
    return split_at_pattern(&sp, &(rf_pattern){ .text = mark });
}

/* ---- made of others ---- */

/* Rust's characters of words: numbers that are no digits, such as fractions, are none, joiners are. */
#define WORD                                                                                                           \
    "\\p{L}\\p{M}\\p{Nd}\\p{Nl}\\p{Pc}\\x{200c}\\x{200d}\\x{24b6}-\\x{24e9}\\x{1f130}-\\x{1f149}"                      \
    "\\x{1f150}-\\x{1f169}\\x{1f170}-\\x{1f189}"

static rf_result expand_whitespace(rf_arena *arena, const json_t *object, const rf_step *from, rf_steps *out)
{
    (void)arena;
    (void)object;
    (void)from;
    return add_split(out, "[" WORD "]+|[^\\s" WORD "]+", RF_SPLIT_REMOVED, true);
}

static const rf_step_type spaces_type = { .name = "WhitespaceSplit", .cut = cut_spaces };
static const rf_step_type punctuation_type = { .name = "Punctuation", .cut = cut_punctuation };

static rf_result expand_bert(rf_arena *arena, const json_t *object, const rf_step *from, rf_steps *out)
{
    (void)arena;
    (void)object;
    (void)from;
    RF_TRY(rf_steps_add(out, &(rf_step){ .type = &spaces_type }));
    return rf_steps_add(out, &(rf_step){ .type = &punctuation_type, .behavior = RF_SPLIT_ISOLATED });
}

/* ---- the table ---- */

static const char *const behaviors[] = { "Removed",        "Isolated",   "MergedWithPrevious",
                                         "MergedWithNext", "Contiguous", NULL };
#define FLAG(name, member)                                                                                             \
    {                                                                                                                  \
        name, RF_FIELD_FLAG, false, offsetof(rf_step, member), NULL                                                    \
    }
#define BEHAVIOR(needed)                                                                                               \
    {                                                                                                                  \
        "behavior", RF_FIELD_CHOICE, needed, offsetof(rf_step, behavior), behaviors                                    \
    }
static const rf_field byte_level_fields[] = {
    FLAG("add_prefix_space", prefix_space),
    FLAG("use_regex", use_regex),
    { .name = "trim_offsets", .kind = RF_FIELD_OTHER },
    { 0 },
};
static const rf_field split_fields[] = {
    { "pattern", RF_FIELD_PATTERN, true, offsetof(rf_step, pattern), NULL },
    BEHAVIOR(true),
    FLAG("invert", invert),
    { 0 },
};
static const rf_field metaspace_fields[] = {
    { "replacement", RF_FIELD_CHARACTER, true, offsetof(rf_step, text), NULL },
    { "prepend_scheme", RF_FIELD_CHOICE, false, offsetof(rf_step, prepend_scheme), rf_prepend_schemes },
    FLAG("add_prefix_space", prefix_space),
    FLAG("split", split),
    { .name = "str_rep", .kind = RF_FIELD_OTHER }, /* what "replacement" says, in old files */
    { 0 },
};
static const rf_field punctuation_fields[] = { BEHAVIOR(false), { 0 } };
static const rf_field digits_fields[] = { FLAG("individual_digits", individual), { 0 } };
static const rf_field delimiter_fields[] = {
    { "delimiter", RF_FIELD_CHARACTER, true, offsetof(rf_step, pattern.text), NULL },
    { 0 },
};

static const rf_step_type pre_tokenizers[] = {
    { .name = "ByteLevel",
      .fields = byte_level_fields,
      .expand = expand_byte_level,
      .defaults = { .prefix_space = true, .use_regex = true } },
    { .name = "Split", .fields = split_fields, .cut = cut_split },
    { .name = "Metaspace",
      .fields = metaspace_fields,
      .expand = rf_metaspace_expand,
      .cut = cut_metaspace,
      .defaults = { .prefix_space = true, .split = true } },
    { .name = "BertPreTokenizer", .expand = expand_bert },
    { .name = "Whitespace", .expand = expand_whitespace },
    { .name = "WhitespaceSplit", .cut = cut_spaces },
    { .name = "Punctuation",
      .fields = punctuation_fields,
      .cut = cut_punctuation,
      .defaults = { .behavior = RF_SPLIT_ISOLATED } },
    { .name = "Digits", .fields = digits_fields, .cut = cut_digits },
    { .name = "CharDelimiterSplit", .fields = delimiter_fields, .cut = cut_split },
    { 0 },
};
const rf_role rf_pre_tokenizer_role = { "pre_tokenizer", "pretokenizers", pre_tokenizers };
