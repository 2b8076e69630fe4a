/* SPDX-License-Identifier: Apache-2.0 */
/* Decoders: they change the texts of tokens, and how these become one text. */
#include <stddef.h>
#include <string.h>

#include "base/utf8.h"
#include "text/pipeline/pipeline.h"

#define DECODER(name) static rf_result name(const rf_step *s, const rf_parts *in, rf_parts *out, rf_matcher *m)

rf_result rf_parts_end(rf_parts *parts)
{
    RF_TRY(RF_VEC_GROW(&parts->ends));
    parts->ends.items[parts->ends.count++] = parts->text.size;
    return RF_OK;
}

static rf_slice_text part_of(const rf_parts *parts, uint32_t i)
{
    const size_t begin = i > 0 ? parts->ends.items[i - 1] : 0;
    return (rf_slice_text){ parts->text.bytes ? parts->text.bytes + begin : "", parts->ends.items[i] - begin };
}

static rf_result put_text(rf_parts *out, const char *bytes, size_t size)
{
    return rf_text_bytes_append(&out->text, bytes, size);
}

static bool begins_with(rf_slice_text text, rf_slice_text with)
{
    return with.size > 0 && text.size >= with.size && memcmp(text.bytes, with.bytes, with.size) == 0;
}

/* Appends a text with `to` for every `from`. */
static rf_result put_replaced(rf_parts *out, rf_slice_text text, rf_slice_text from, rf_slice_text to)
{
    const rf_step replace = { .pattern.text = from, .text = to };
    return from.size > 0 ? rf_pattern_replace(&replace, NULL, text.bytes, text.size, &out->text)
                         : put_text(out, text.bytes, text.size);
}

/* ---- bytes ---- */

/* A token that has other characters than those of bytes, such as an added one, is its own text. */
static rf_result put_bytes(rf_parts *out, rf_slice_text text)
{
    const size_t before = out->text.size;
    RF_TRY(rf_text_bytes_reserve(&out->text, text.size));
    for (size_t i = 0; i < text.size;) {
        uint32_t code;
        i += rf_utf8_decode(text.bytes + i, text.size - i, &code);
        const int byte = rf_character_byte(code);
        if (byte < 0) {
            out->text.size = before;
            return put_text(out, text.bytes, text.size);
        }
        out->text.bytes[out->text.size++] = (char)byte;
    }
    return RF_OK;
}

DECODER(decode_byte_level)
{
    (void)s;
    (void)m;
    for (uint32_t i = 0; i < in->ends.count; i++) RF_TRY(put_bytes(out, part_of(in, i)));
    return rf_parts_end(out);
}

static int hex_of(char c)
{
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'A' && c <= 'F') return c - 'A' + 10;
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* "<0x0A>"; -1: it is none. */
static int byte_of_token(rf_slice_text text)
{
    if (text.size != 6 || memcmp(text.bytes, "<0x", 3) != 0 || text.bytes[5] != '>') return -1;
    const int high = hex_of(text.bytes[3]), low = hex_of(text.bytes[4]);
    return high < 0 || low < 0 ? -1 : high * 16 + low;
}

/* Bytes that follow each other are a text, or a replacement character each where they are not UTF-8. */
static rf_result put_fallback(rf_parts *out, size_t begin)
{
    const size_t count = out->text.size - begin;
    if (count == 0) return RF_OK;
    if (!rf_utf8_valid(out->text.bytes + begin, count)) {
        out->text.size = begin;
        for (size_t i = 0; i < count; i++) RF_TRY(rf_text_bytes_append_code(&out->text, 0xfffd));
    }
    return rf_parts_end(out);
}

DECODER(decode_byte_fallback)
{
    size_t begin = 0;
    (void)s;
    (void)m;
    for (uint32_t i = 0; i < in->ends.count; i++) {
        const rf_slice_text text = part_of(in, i);
        const int byte = byte_of_token(text);
        const char value = (char)byte;
        if (byte >= 0) {
            RF_TRY(put_text(out, &value, 1));
            continue;
        }
        RF_TRY(put_fallback(out, begin));
        RF_TRY(put_text(out, text.bytes, text.size));
        RF_TRY(rf_parts_end(out));
        begin = out->text.size;
    }
    return put_fallback(out, begin);
}

DECODER(decode_fuse)
{
    (void)s;
    (void)m;
    RF_TRY(put_text(out, in->text.bytes, in->text.size));
    return rf_parts_end(out);
}

/* ---- spaces ---- */

/* The first token has none where encoding put one in front. */
DECODER(decode_metaspace)
{
    const rf_slice_text space = { " ", 1 }, nothing = { "", 0 };
    (void)m;
    for (uint32_t i = 0; i < in->ends.count; i++) {
        const bool dropped = i == 0 && s->prepend_scheme != RF_PREPEND_NEVER;
        RF_TRY(put_replaced(out, part_of(in, i), s->text, dropped ? nothing : space));
        RF_TRY(rf_parts_end(out));
    }
    return RF_OK;
}

DECODER(decode_bpe)
{
    const rf_slice_text space = { " ", 1 }, nothing = { "", 0 };
    (void)m;
    for (uint32_t i = 0; i < in->ends.count; i++) {
        RF_TRY(put_replaced(out, part_of(in, i), s->text, i + 1 < in->ends.count ? space : nothing));
        RF_TRY(rf_parts_end(out));
    }
    return RF_OK;
}

/* ---- WordPiece ---- */

/* English, as Hugging Face's library cleans it up. */
static rf_result clean_up(rf_text_bytes *text)
{
    static const char *const pairs[][2] = {
        { " .", "." },   { " ?", "?" },     { " !", "!" },     { " ,", "," },
        { " ' ", "'" },  { " n't", "n't" }, { " 'm", "'m" },   { " do not", " don't" },
        { " 's", "'s" }, { " 've", "'ve" }, { " 're", "'re" },
    };
    rf_text_bytes other = { 0 };
    rf_result r = RF_OK;
    for (size_t i = 0; i < sizeof(pairs) / sizeof(pairs[0]) && r == RF_OK; i++) {
        const rf_step replace = { .pattern.text = { pairs[i][0], strlen(pairs[i][0]) },
                                  .text = { pairs[i][1], strlen(pairs[i][1]) } };
        other.size = 0;
        r = rf_pattern_replace(&replace, NULL, text->bytes, text->size, &other);
        const rf_text_bytes kept = *text;
        if (r == RF_OK) {
            *text = other;
            other = kept;
        }
    }
    rf_text_bytes_free(&other);
    return r;
}

DECODER(decode_word_piece)
{
    rf_text_bytes word = { 0 };
    rf_result r = RF_OK;
    (void)m;
    for (uint32_t i = 0; i < in->ends.count && r == RF_OK; i++) {
        const rf_slice_text text = part_of(in, i);
        const size_t mark = i > 0 && begins_with(text, s->text) ? s->text.size : 0;
        word.size = 0;
        if (i > 0 && !mark) r = rf_text_bytes_append(&word, " ", 1);
        if (r == RF_OK) r = rf_text_bytes_append(&word, text.bytes + mark, text.size - mark);
        if (r == RF_OK && s->cleanup) r = clean_up(&word);
        if (r == RF_OK) r = put_text(out, word.bytes, word.size);
        if (r == RF_OK) r = rf_parts_end(out);
    }
    rf_text_bytes_free(&word);
    return r;
}

/* ---- replacing ---- */

DECODER(decode_replace)
{
    for (uint32_t i = 0; i < in->ends.count; i++) {
        const rf_slice_text text = part_of(in, i);
        RF_TRY(rf_pattern_replace(s, m, text.bytes, text.size, &out->text));
        RF_TRY(rf_parts_end(out));
    }
    return RF_OK;
}

DECODER(decode_strip)
{
    (void)m;
    for (uint32_t i = 0; i < in->ends.count; i++) {
        rf_slice_text text = part_of(in, i);
        for (uint32_t k = 0; k < s->start && begins_with(text, s->text); k++)
            text = (rf_slice_text){ text.bytes + s->text.size, text.size - s->text.size };
        for (uint32_t k = 0; k < s->stop && text.size >= s->text.size; k++) {
            const size_t rest = text.size - s->text.size;
            if (memcmp(text.bytes + rest, s->text.bytes, s->text.size) != 0) break;
            text.size = rest;
        }
        RF_TRY(put_text(out, text.bytes, text.size));
        RF_TRY(rf_parts_end(out));
    }
    return RF_OK;
}

/* ---- the table ---- */

#define TEXT(name, kind)                                                                                               \
    {                                                                                                                  \
        name, kind, true, offsetof(rf_step, text), NULL                                                                \
    }
static const rf_field byte_level_fields[] = {
    /* These belong to the pre-tokenizer, which shares its form with the decoder. */
    { .name = "add_prefix_space", .kind = RF_FIELD_OTHER },
    { .name = "trim_offsets", .kind = RF_FIELD_OTHER },
    { .name = "use_regex", .kind = RF_FIELD_OTHER },
    { 0 },
};
static const rf_field metaspace_fields[] = {
    TEXT("replacement", RF_FIELD_CHARACTER),
    { "prepend_scheme", RF_FIELD_CHOICE, false, offsetof(rf_step, prepend_scheme), rf_prepend_schemes },
    { "add_prefix_space", RF_FIELD_FLAG, false, offsetof(rf_step, prefix_space), NULL },
    { .name = "split", .kind = RF_FIELD_OTHER }, /* the pre-tokenizer's */
    { .name = "str_rep", .kind = RF_FIELD_OTHER },
    { 0 },
};
static const rf_field word_piece_fields[] = {
    TEXT("prefix", RF_FIELD_TEXT),
    { "cleanup", RF_FIELD_FLAG, true, offsetof(rf_step, cleanup), NULL },
    { 0 },
};
static const rf_field bpe_fields[] = { TEXT("suffix", RF_FIELD_TEXT), { 0 } };
static const rf_field replace_fields[] = {
    { "pattern", RF_FIELD_PATTERN, true, offsetof(rf_step, pattern), NULL },
    TEXT("content", RF_FIELD_TEXT),
    { 0 },
};
static const rf_field strip_fields[] = {
    TEXT("content", RF_FIELD_CHARACTER),
    { "start", RF_FIELD_COUNT, true, offsetof(rf_step, start), NULL },
    { "stop", RF_FIELD_COUNT, true, offsetof(rf_step, stop), NULL },
    { 0 },
};

static const rf_step_type decoders[] = {
    { .name = "ByteLevel", .fields = byte_level_fields, .decode = decode_byte_level },
    { .name = "ByteFallback", .decode = decode_byte_fallback },
    { .name = "Fuse", .decode = decode_fuse },
    { .name = "Metaspace",
      .fields = metaspace_fields,
      .expand = rf_metaspace_expand,
      .decode = decode_metaspace,
      .defaults = { .prefix_space = true } },
    { .name = "WordPiece", .fields = word_piece_fields, .decode = decode_word_piece },
    { .name = "BPEDecoder", .fields = bpe_fields, .decode = decode_bpe },
    { .name = "Replace", .fields = replace_fields, .decode = decode_replace },
    { .name = "Strip", .fields = strip_fields, .decode = decode_strip },
    { 0 },
};
const rf_role rf_decoder_role = { "decoder", "decoders", decoders };
