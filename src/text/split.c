/* SPDX-License-Identifier: Apache-2.0 */
#include "text/split.h"

#include <string.h>

#include "base/memory.h"
#include "base/utf8.h"
#include "text/unicode.h"

/* ---- words ---- */

rf_result rf_split_words(const char *text, size_t size, bool keep_case, bool keep_punctuation, rf_word_fn fn,
                         void *user)
{
    char *word = rf_calloc(size, 1);
    if (!word) return RF_ERROR_OUT_OF_HOST_MEMORY;
    size_t length = 0;
    rf_result r = RF_OK;
    for (size_t i = 0; i <= size && r == RF_OK; i++) {
        const uint8_t byte = i < size ? (uint8_t)text[i] : ' ';
        if (rf_ascii_is_space(byte)) {
            if (length > 0) r = fn(user, word, length);
            length = 0;
        } else if (keep_punctuation || !rf_ascii_is_punctuation(byte)) {
            word[length++] = (char)(!keep_case && byte >= 'A' && byte <= 'Z' ? byte + 32 : byte);
        }
    }
    rf_free(word);
    return r;
}

/* ---- BERT's ---- */

enum {
    SIGMA = 0x3a3,
    FINAL_SIGMA = 0x3c2,
    MOST_GROWTH = 3, /* bytes that a decomposition has for each byte before: a Korean syllable becomes its letters */
    MOST_MARKS = 100 /* behind a letter that are put in order; what has more of them is no word of a vocabulary */
};

typedef struct basic_splitter {
    char *word;
    size_t length;
    size_t marks;     /* where those begin that are put in order */
    bool after_cased; /* a letter that has cases came last, of what counts for that */
    rf_word_fn fn;
    void *user;
} basic_splitter;

static rf_result end_word(basic_splitter *s)
{
    const size_t length = s->length;
    s->length = s->marks = 0;
    return length > 0 ? s->fn(s->user, s->word, length) : RF_OK;
}

/* At white space. */
static rf_result end_token(basic_splitter *s)
{
    s->after_cased = false;
    return end_word(s);
}

/* A mark that has an order stands behind those of the same or a lower one. */
static size_t find_place(const basic_splitter *s, uint32_t order)
{
    size_t at = s->length;
    for (int i = 0; order > 0 && at > s->marks && i < MOST_MARKS; i++) {
        size_t before = at - 1;
        uint32_t code;
        while (((uint8_t)s->word[before] & 0xc0) == 0x80) before--;
        rf_utf8_decode(s->word + before, at - before, &code);
        if (rf_unicode_order(code) <= order) break;
        at = before;
    }
    return at;
}

/* `order` 0: where the text has it. */
static rf_result put_character(basic_splitter *s, uint32_t code, uint32_t order)
{
    const bool alone = rf_unicode_is_punctuation(code);
    if (alone) RF_TRY(end_word(s));
    const size_t at = find_place(s, order);
    char bytes[4];
    const uint32_t size = rf_utf8_encode(code, bytes);
    memmove(s->word + at + size, s->word + at, s->length - at);
    memcpy(s->word + at, bytes, size);
    s->length += size;
    if (order == 0) s->marks = s->length;
    return alone ? end_word(s) : RF_OK;
}

/* Whether a letter that has cases follows in the same token. */
static bool cased_follows(const char *text, size_t size)
{
    for (size_t i = 0; i < size;) {
        uint32_t code;
        i += rf_utf8_decode(text + i, size - i, &code);
        if (code == RF_UTF8_INVALID || rf_unicode_is_control(code) || rf_unicode_is_case_ignorable(code)) continue;
        return rf_unicode_is_cased(code);
    }
    return false;
}

/* In lower case, decomposed, without accents. `rest` follows. */
static rf_result put_folded(basic_splitter *s, uint32_t code, const char *rest, size_t size)
{
    uint32_t parts[RF_UNICODE_PARTS];
    const bool final_sigma = code == SIGMA && s->after_cased && !cased_follows(rest, size);
    const uint32_t count = rf_unicode_decompose(final_sigma ? FINAL_SIGMA : rf_unicode_lower(code), parts);
    if (!rf_unicode_is_case_ignorable(code)) s->after_cased = rf_unicode_is_cased(code);
    for (uint32_t i = 0; i < count; i++) {
        const uint32_t order = rf_unicode_order(parts[i]);
        if (!rf_unicode_is_accent(parts[i]))
            RF_TRY(put_character(s, parts[i], order));
        else if (order == 0)
            s->marks = s->length;
    }
    return RF_OK;
}

static rf_result take_character(basic_splitter *s, uint32_t code, bool keep_case, const char *rest, size_t size)
{
    if (code == RF_UTF8_INVALID || rf_unicode_is_control(code)) return RF_OK;
    if (rf_unicode_is_space(code)) return end_token(s);
    const bool alone = rf_unicode_is_chinese(code);
    if (alone) RF_TRY(end_token(s));
    RF_TRY(keep_case ? put_character(s, code, 0) : put_folded(s, code, rest, size));
    return alone ? end_token(s) : RF_OK;
}

rf_result rf_split_basic(const char *text, size_t size, bool keep_case, rf_word_fn fn, void *user)
{
    size_t room;
    if (!rf_mul_size(size, MOST_GROWTH, &room)) return RF_ERROR_OUT_OF_HOST_MEMORY;
    basic_splitter s = { .word = rf_calloc(room, 1), .fn = fn, .user = user };
    if (!s.word) return RF_ERROR_OUT_OF_HOST_MEMORY;
    rf_result r = RF_OK;
    for (size_t i = 0; i < size && r == RF_OK;) {
        uint32_t code;
        i += rf_utf8_decode(text + i, size - i, &code);
        r = take_character(&s, code, keep_case, text + i, size - i);
    }
    if (r == RF_OK) r = end_word(&s);
    rf_free(s.word);
    return r;
}

/* ---- GPT-2's ---- */

typedef enum byte_class { CLASS_SPACE, CLASS_LETTER, CLASS_DIGIT, CLASS_OTHER } byte_class;

static byte_class class_of(char character)
{
    const uint8_t byte = (uint8_t)character;
    if (rf_ascii_is_space(byte)) return CLASS_SPACE;
    if (byte >= '0' && byte <= '9') return CLASS_DIGIT;
    if (byte >= 0x80 || (byte >= 'a' && byte <= 'z') || (byte >= 'A' && byte <= 'Z')) return CLASS_LETTER;
    return CLASS_OTHER;
}

/* The end of 's, 't, 're, 've, 'm, 'll or 'd; 0 where there is none. */
static size_t contraction_end(const char *text, size_t size, size_t begin)
{
    static const char *const endings[] = { "s", "t", "re", "ve", "m", "ll", "d" };
    if (text[begin] != '\'') return 0;
    for (size_t i = 0; i < sizeof(endings) / sizeof(endings[0]); i++) {
        const size_t length = strlen(endings[i]);
        if (size - begin - 1 >= length && memcmp(text + begin + 1, endings[i], length) == 0) return begin + 1 + length;
    }
    return 0;
}

static size_t run_end(const char *text, size_t size, size_t begin)
{
    const byte_class class = class_of(text[begin]);
    size_t end = begin + 1;
    while (end < size && class_of(text[end]) == class) end++;
    return end;
}

static size_t piece_end(const char *text, size_t size, size_t begin)
{
    const size_t contraction = contraction_end(text, size, begin);
    if (contraction) return contraction;
    if (class_of(text[begin]) != CLASS_SPACE) return run_end(text, size, begin);
    if (text[begin] == ' ' && begin + 1 < size && class_of(text[begin + 1]) != CLASS_SPACE)
        return run_end(text, size, begin + 1);
    /* The last of several spaces is left for the word that follows. */
    const size_t end = run_end(text, size, begin);
    return end < size && end - begin > 1 ? end - 1 : end;
}

rf_result rf_split_pieces(const char *text, size_t size, rf_word_fn fn, void *user)
{
    for (size_t begin = 0; begin < size;) {
        const size_t end = piece_end(text, size, begin);
        RF_TRY(fn(user, text + begin, end - begin));
        begin = end;
    }
    return RF_OK;
}

/* ---- characters ---- */

rf_result rf_split_characters(const char *text, size_t size, rf_word_fn fn, void *user)
{
    for (size_t begin = 0; begin < size;) {
        uint32_t code;
        const uint32_t length = rf_utf8_decode(text + begin, size - begin, &code);
        RF_TRY(fn(user, text + begin, length));
        begin += length;
    }
    return RF_OK;
}
