/* SPDX-License-Identifier: Apache-2.0 */
/* A template cut into words. White space is as Hugging Face's library sets it: a tag takes the spaces before it in its
 * line and the line feed behind it ("trim_blocks", "lstrip_blocks"), "-" takes all white space, "+" none. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/numbers.h"
#include "base/utf8.h"
#include "text/jinja/jinja.h"

static bool is_space(char c)
{
    return c == ' ' || (c >= '\t' && c <= '\r');
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static bool is_name(char c)
{
    return c == '_' || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || is_digit(c);
}

static bool at_text(const rf_jinja_words *w, const char *text)
{
    const size_t size = strlen(text);
    return w->size - w->at >= size && memcmp(w->text + w->at, text, size) == 0;
}

static void advance_to(rf_jinja_words *w, size_t to)
{
    for (; w->at < to; w->at++) w->line += w->text[w->at] == '\n';
}

/* ---- text between tags ---- */

/* The place of the next "{{", "{%" or "{#"; the end where there is none. */
static size_t find_tag(const rf_jinja_words *w)
{
    for (size_t at = w->at; at + 1 < w->size; at++)
        if (w->text[at] == '{' && (w->text[at + 1] == '{' || w->text[at + 1] == '%' || w->text[at + 1] == '#'))
            return at;
    return w->size;
}

/* Where the text ends that the tag at `tag` leaves before it. */
static size_t strip_before(const rf_jinja_words *w, size_t begin, size_t tag)
{
    const char kind = tag < w->size ? w->text[tag + 1] : '{', sign = tag + 2 < w->size ? w->text[tag + 2] : 0;
    size_t end = tag;
    if (sign == '-') {
        while (end > begin && is_space(w->text[end - 1])) end--;
        return end;
    }
    if (sign == '+' || kind == '{') return end;
    while (end > begin && is_space(w->text[end - 1]) && w->text[end - 1] != '\n') end--;
    return (end > begin ? w->text[end - 1] == '\n' : w->fresh) ? end : tag;
}

/* Skips what the tag before takes of the text behind it. */
static void strip_behind(rf_jinja_words *w)
{
    size_t to = w->at;
    if (w->strip)
        while (to < w->size && is_space(w->text[to])) to++;
    else if (w->trim && to < w->size && w->text[to] == '\n')
        to++;
    if (to > w->at) w->fresh = w->text[to - 1] == '\n';
    advance_to(w, to);
    w->strip = w->trim = false;
}

static rf_result skip_comment(rf_jinja_words *w)
{
    const uint32_t line = w->line;
    size_t at = w->at + 2;
    while (at + 1 < w->size && (w->text[at] != '#' || w->text[at + 1] != '}')) at++;
    if (at + 1 >= w->size) return RF_FAIL(RF_ERROR_CORRUPT_DATA, "line %u: a comment has no end", line);
    w->strip = w->text[at - 1] == '-' && at > w->at + 2;
    w->trim = !(w->text[at - 1] == '+' && at > w->at + 2);
    advance_to(w, at + 2);
    w->fresh = false;
    return RF_OK;
}

/* Text, or what begins a tag; comments are nothing. */
static rf_result next_outside(rf_jinja_words *w, rf_jinja_word *out)
{
    for (;;) {
        strip_behind(w);
        const size_t begin = w->at, tag = find_tag(w), end = strip_before(w, begin, tag);
        *out = (rf_jinja_word){
            .type = RF_JINJA_WORD_TEXT, .line = w->line, .bytes = w->text + begin, .size = end - begin
        };
        if (tag > begin) w->fresh = w->text[tag - 1] == '\n';
        advance_to(w, tag);
        if (out->size > 0) return RF_OK;
        out->line = w->line;
        out->type = RF_JINJA_WORD_END;
        if (tag == w->size) return RF_OK;
        if (w->text[tag + 1] != '#') break;
        RF_TRY(skip_comment(w));
    }
    w->inside = (unsigned char)w->text[w->at + 1];
    w->nested = 0;
    out->type = w->inside == '%' ? RF_JINJA_WORD_TAG : RF_JINJA_WORD_PRINT;
    w->at += 2;
    if (w->at < w->size && (w->text[w->at] == '-' || w->text[w->at] == '+')) w->at++;
    return RF_OK;
}

/* ---- words within tags ---- */

/* The end of a tag; false where it is none. */
static bool take_close(rf_jinja_words *w, rf_jinja_word *out)
{
    const char *end = w->inside == '%' ? "%}" : "}}";
    const char first = w->text[w->at];
    const bool sign = first == '-' || (first == '+' && w->inside == '%');
    if (w->nested > 0 && first == '}') return false;
    w->at += sign;
    const bool closes = at_text(w, end);
    if (!closes) {
        w->at -= sign;
        return false;
    }
    w->at += 2;
    w->strip = sign && first == '-';
    w->trim = w->inside == '%' && !(sign && first == '+');
    w->inside = 0;
    w->fresh = false;
    out->type = RF_JINJA_WORD_CLOSE;
    return true;
}

static bool read_hex(const char *text, size_t digits, uint32_t *out)
{
    *out = 0;
    for (size_t i = 0; i < digits; i++) {
        const char c = text[i];
        const int digit = is_digit(c) ? c - '0' : (c | 32) >= 'a' && (c | 32) <= 'f' ? (c | 32) - 'a' + 10 : -1;
        if (digit < 0) return false;
        *out = *out * 16 + (uint32_t)digit;
    }
    return *out <= 0x10ffff && (*out < 0xd800 || *out > 0xdfff);
}

/* The escape at `text`, behind its backslash; returns how much of it was taken, 0: none that is known. */
static size_t read_escape(const char *text, size_t left, char *out, size_t *written)
{
    static const char letters[] = "n\nt\tr\rb\bf\fv\va\a\\\\''\"\"";
    uint32_t code;
    for (size_t i = 0; letters[i]; i += 2)
        if (letters[i] == text[0]) {
            *out = letters[i + 1];
            *written = 1;
            return 1;
        }
    const size_t digits = text[0] == 'x' ? 2 : text[0] == 'u' ? 4 : text[0] == 'U' ? 8 : 0;
    if (digits == 0 || left < digits + 1 || !read_hex(text + 1, digits, &code)) return 0;
    *written = rf_utf8_encode(code, out);
    return digits + 1;
}

static rf_result take_string(rf_jinja_words *w, rf_jinja_word *out)
{
    const char quote = w->text[w->at];
    size_t end = w->at + 1, size = 0;
    while (end < w->size && w->text[end] != quote) end += w->text[end] == '\\' ? 2 : 1;
    if (end >= w->size) return RF_FAIL(RF_ERROR_CORRUPT_DATA, "line %u: a text in quotes has no end", w->line);
    char *text = rf_arena_alloc(w->arena, end - w->at + 4);
    if (!text) return RF_ERROR_OUT_OF_HOST_MEMORY;
    for (size_t at = w->at + 1; at < end;) {
        size_t written = 1;
        const size_t taken =
            w->text[at] == '\\' ? read_escape(w->text + at + 1, end - at - 1, text + size, &written) : 0;
        if (!taken) text[size] = w->text[at];
        size += taken ? written : 1;
        at += taken + 1;
    }
    advance_to(w, end + 1);
    out->type = RF_JINJA_WORD_STRING;
    out->bytes = text;
    out->size = size;
    return RF_OK;
}

static rf_result take_number(rf_jinja_words *w, rf_jinja_word *out)
{
    char text[64];
    size_t size = 0, at = w->at;
    bool real = false;
    for (; at < w->size && size < sizeof(text) - 1; at++) {
        const char c = w->text[at], next = at + 1 < w->size ? w->text[at + 1] : 0;
        const bool exponent = (c == 'e' || c == 'E') && (is_digit(next) || next == '-' || next == '+');
        if (c == '.' && (real || !is_digit(next))) break;
        if (!is_digit(c) && c != '.' && c != '_' && !exponent) break;
        if (c != '_') text[size++] = c;
        real = real || c == '.' || exponent;
        if (exponent && !is_digit(next) && size < sizeof(text) - 1) text[size++] = w->text[++at];
    }
    text[size] = '\0';
    out->type = real ? RF_JINJA_WORD_FLOAT : RF_JINJA_WORD_INT;
    out->number = rf_number_parse(text, NULL);
    if (size >= 19 || !isfinite(out->number) || (at < w->size && is_name(w->text[at])))
        return RF_FAIL(RF_ERROR_UNSUPPORTED, "line %u: the number '%s' is not known", w->line, text);
    out->integer = strtoll(text, NULL, 10);
    w->at = at;
    return RF_OK;
}

static rf_result take_operator(rf_jinja_words *w, rf_jinja_word *out)
{
    static const struct {
        const char *text;
        int op;
    } pairs[] = { { "==", RF_JINJA_EQUAL },
                  { "!=", RF_JINJA_UNEQUAL },
                  { "<=", RF_JINJA_AT_MOST },
                  { ">=", RF_JINJA_AT_LEAST },
                  { "//", RF_JINJA_FLOOR } };
    const char c = w->text[w->at];
    out->type = RF_JINJA_WORD_OPERATOR;
    for (size_t i = 0; i < sizeof(pairs) / sizeof(pairs[0]); i++)
        if (at_text(w, pairs[i].text)) {
            out->op = pairs[i].op;
            w->at += 2;
            return RF_OK;
        }
    if (c == '\0' || !strchr("+-*/%~<>=.:|,()[]{}", c) || at_text(w, "**"))
        return RF_FAIL(RF_ERROR_UNSUPPORTED, "line %u: '%c' is not known here", w->line, c > 32 && c < 127 ? c : '?');
    out->op = (unsigned char)c;
    w->at++;
    if (strchr("([{", c)) w->nested++;
    if (strchr(")]}", c) && w->nested > 0) w->nested--;
    return RF_OK;
}

rf_result rf_jinja_next_word(rf_jinja_words *w, rf_jinja_word *out)
{
    if (!w->inside) return next_outside(w, out);
    while (w->at < w->size && is_space(w->text[w->at])) advance_to(w, w->at + 1);
    *out = (rf_jinja_word){ .line = w->line };
    if (w->at == w->size) return RF_FAIL(RF_ERROR_CORRUPT_DATA, "line %u: a tag has no end", w->line);
    if (take_close(w, out)) return RF_OK;
    const char c = w->text[w->at];
    if (c == '\'' || c == '"') return take_string(w, out);
    if (is_digit(c)) return take_number(w, out);
    if (!is_name(c)) return take_operator(w, out);
    out->type = RF_JINJA_WORD_NAME;
    out->bytes = w->text + w->at;
    while (w->at < w->size && is_name(w->text[w->at])) w->at++;
    out->size = (size_t)(w->text + w->at - out->bytes);
    return RF_OK;
}
