/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An expression is rewritten before PCRE2 compiles it: classes like \s become the characters that Unicode says, and
 * whatever the two libraries read differently is refused. Only a part of the syntax passes, which has no recursion, no
 * back references and no verbs.
 *
 * A search may not hang. One attempt to match takes a bounded number of steps; attempts are made for a bounded number
 * of places at once, and between them this thread's processor time is looked at.
 */
#define PCRE2_CODE_UNIT_WIDTH 8
#include "text/pipeline/regex.h"

#include <string.h>

#include <pcre2.h>

#include "base/memory.h"
#include "base/platform.h"
#include "text/bytes.h"

enum {
    MOST_PATTERN_BYTES = 16384,
    MOST_STEPS = 10000000, /* of an attempt: a run of as many spaces is still a match of every tokenizer's expression */
    MOST_HEAP_KIB = 65536,
    FEW_PLACES = 16, /* at which a match is looked for at once, and at most: as many as take little time */
    MOST_PLACES = 65536,
    CALLS_UNSEEN = 16 /* between two looks at the clock */
};
#define FIRST_NS UINT64_C(1000000000)
#define LITTLE_NS UINT64_C(10000000)
#define NS_PER_BYTE UINT64_C(2000)

struct rf_regex {
    pcre2_code *code;
};

/* ---- rewriting ---- */

/* White_Space. It ends with a range, so that a hyphen behind it stands for itself. */
#define SPACE "\\t-\\r \\x{85}\\x{a0}\\x{1680}\\x{2028}\\x{2029}\\x{202f}\\x{205f}\\x{3000}\\x{2000}-\\x{200a}"
#define NO_SPACE                                                                                                       \
    "\\x{0}-\\x{8}\\x{e}-\\x{1f}\\x{21}-\\x{84}\\x{86}-\\x{9f}\\x{a1}-\\x{167f}\\x{1681}-\\x{1fff}"                    \
    "\\x{200b}-\\x{2027}\\x{202a}-\\x{202e}\\x{2030}-\\x{205e}\\x{2060}-\\x{2fff}\\x{3001}-\\x{10ffff}"
/* Alphabetic, marks, decimal digits and connectors; and, for Oniguruma, Latin-1's other numbers. */
#define WORD                                                                                                           \
    "\\p{L}\\p{M}\\p{Nd}\\p{Nl}\\p{Pc}\\x{b2}\\x{b3}\\x{b9}\\x{bc}-\\x{be}\\x{24b6}-\\x{24e9}\\x{1f130}-\\x{1f149}"    \
    "\\x{1f150}-\\x{1f169}\\x{1f170}-\\x{1f189}"

/* A class that Unicode defines; `inside` of brackets. NULL: not there. */
typedef struct class_escape {
    char letter;
    const char *outside, *inside;
} class_escape;
static const class_escape class_escapes[] = {
    { 's', "[" SPACE "]", SPACE }, { 'S', "[^" SPACE "]", NO_SPACE }, { 'd', "\\p{Nd}", "\\p{Nd}" },
    { 'D', "\\P{Nd}", "\\P{Nd}" }, { 'w', "[" WORD "]", WORD },       { 'W', "[^" WORD "]", NULL },
    { 'v', "\\x{b}", "\\x{b}" },
};
/* Both libraries mean the same by these; the second ones stand outside of brackets only. */
static const char same_escapes[] = "nrtfea", same_anchors[] = "AzZ";
/* How a group may begin, behind "(?". */
static const char *const groups[] = { ":", "=", "!", ">", "<=", "<!", "i:", "i)", "-i:", "-i)" };

typedef struct rewriter {
    const char *in;
    size_t size, at;
    bool inside; /* of brackets */
    rf_text_bytes out;
} rewriter;

static rf_result refuse_syntax(const rewriter *w, size_t length, const char *why)
{
    char shown[16] = "";
    if (length > w->size - w->at) length = w->size - w->at;
    memcpy(shown, w->in + w->at, length < sizeof(shown) ? length : sizeof(shown) - 1);
    rf_error_one_line(shown);
    return RF_FAIL(RF_ERROR_UNSUPPORTED, "the regular expression has \"%s\" at byte %zu: %s", shown, w->at, why);
}

static rf_result copy_bytes(rewriter *w, size_t length)
{
    RF_TRY(rf_text_bytes_append(&w->out, w->in + w->at, length));
    w->at += length;
    return RF_OK;
}

static bool pattern_follows(const rewriter *w, size_t skip, const char *text)
{
    const size_t length = strlen(text);
    return w->size - w->at >= skip + length && memcmp(w->in + w->at + skip, text, length) == 0;
}

static bool is_letter_or_digit(char c)
{
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

static bool is_hex(char c)
{
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
}

/* \uHHHH */
static rf_result rewrite_code(rewriter *w)
{
    for (size_t i = 2; i < 6; i++)
        if (w->at + i >= w->size || !is_hex(w->in[w->at + i]))
            return refuse_syntax(w, 6, "four hexadecimal digits follow \\u");
    RF_TRY(rf_text_bytes_append(&w->out, "\\x{", 3));
    w->at += 2;
    RF_TRY(copy_bytes(w, 4));
    return rf_text_bytes_append(&w->out, "}", 1);
}

static rf_result rewrite_escape(rewriter *w)
{
    if (w->size - w->at < 2) return refuse_syntax(w, 1, "a backslash ends it");
    const char letter = w->in[w->at + 1];
    for (size_t i = 0; i < sizeof(class_escapes) / sizeof(class_escapes[0]); i++) {
        const char *text = w->inside ? class_escapes[i].inside : class_escapes[i].outside;
        if (class_escapes[i].letter != letter || !text) continue;
        w->at += 2;
        return rf_text_bytes_append(&w->out, text, strlen(text));
    }
    if (letter == 'u') return rewrite_code(w);
    if (strchr("pPx", letter) && pattern_follows(w, 2, "{")) {
        const char *end = memchr(w->in + w->at, '}', w->size - w->at);
        return end ? copy_bytes(w, (size_t)(end - w->in) + 1 - w->at) : refuse_syntax(w, 3, "a brace is missing");
    }
    if (strchr(same_escapes, letter) || (!w->inside && strchr(same_anchors, letter)) || !is_letter_or_digit(letter))
        return copy_bytes(w, 2);
    return refuse_syntax(w, 2, "such escapes are not supported");
}

static rf_result rewrite_group(rewriter *w)
{
    if (pattern_follows(w, 1, "*")) return refuse_syntax(w, 2, "verbs are not supported");
    if (!pattern_follows(w, 1, "?")) return copy_bytes(w, 1);
    for (size_t i = 0; i < sizeof(groups) / sizeof(groups[0]); i++)
        if (pattern_follows(w, 2, groups[i])) return copy_bytes(w, 2 + strlen(groups[i]));
    return refuse_syntax(w, 4, "such groups are not supported");
}

static rf_result rewrite_inside(rewriter *w)
{
    if (pattern_follows(w, 0, "&&")) return refuse_syntax(w, 2, "intersections of classes are not supported");
    if (pattern_follows(w, 0, "[:")) {
        const char *end = memchr(w->in + w->at, ']', w->size - w->at);
        return end ? copy_bytes(w, (size_t)(end - w->in) + 1 - w->at) : refuse_syntax(w, 2, "a bracket is missing");
    }
    if (pattern_follows(w, 0, "[")) return refuse_syntax(w, 4, "classes in classes are not supported");
    if (pattern_follows(w, 0, "]")) w->inside = false;
    return copy_bytes(w, 1);
}

static rf_result rewrite_outside(rewriter *w)
{
    if (pattern_follows(w, 0, "(")) return rewrite_group(w);
    if (pattern_follows(w, 0, "}+")) return refuse_syntax(w, 2, "possessive counts are not supported");
    if (!pattern_follows(w, 0, "[")) return copy_bytes(w, 1);
    w->inside = true;
    RF_TRY(copy_bytes(w, pattern_follows(w, 1, "^") ? 2 : 1));
    return pattern_follows(w, 0, "]") ? copy_bytes(w, 1) : RF_OK; /* that stands for itself */
}

static rf_result rewrite_pattern(rewriter *w)
{
    while (w->at < w->size) {
        if (w->in[w->at] == '\\')
            RF_TRY(rewrite_escape(w));
        else
            RF_TRY(w->inside ? rewrite_inside(w) : rewrite_outside(w));
    }
    return RF_OK;
}

/* ---- compiling ---- */

static rf_result compile_code(const char *pattern, size_t size, pcre2_code **out)
{
    int code = 0;
    PCRE2_SIZE place = 0;
    /* "^" and "$" stand for the ends of lines, as Ruby has it. */
    const uint32_t options = PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE | PCRE2_NEVER_BACKSLASH_C | PCRE2_USE_OFFSET_LIMIT;
    *out = pcre2_compile((PCRE2_SPTR)pattern, size, options, &code, &place, NULL);
    if (!*out) {
        PCRE2_UCHAR text[160] = "";
        pcre2_get_error_message(code, text, sizeof(text));
        if (code == PCRE2_ERROR_HEAP_FAILED) return RF_FAIL(RF_ERROR_OUT_OF_HOST_MEMORY, "%s", (const char *)text);
        return RF_FAIL(RF_ERROR_UNSUPPORTED, "PCRE2 does not compile the regular expression: %s", (const char *)text);
    }
    /* Where there is no compiler for this processor, or no memory for programs, PCRE2 interprets the expression. */
    (void)pcre2_jit_compile(*out, PCRE2_JIT_COMPLETE);
    return RF_OK;
}

rf_result rf_regex_compile(const char *pattern, size_t size, rf_regex **out)
{
    *out = NULL;
    if (size > MOST_PATTERN_BYTES)
        return RF_FAIL(RF_ERROR_UNSUPPORTED, "a regular expression of %zu bytes; the most are %d", size,
                       MOST_PATTERN_BYTES);
    rewriter w = { .in = pattern, .size = size };
    rf_regex *regex = RF_NEW(rf_regex);
    rf_result r = regex ? rewrite_pattern(&w) : RF_ERROR_OUT_OF_HOST_MEMORY;
    if (r == RF_OK) r = compile_code(w.out.bytes ? w.out.bytes : "", w.out.size, &regex->code);
    rf_text_bytes_free(&w.out);
    if (r < 0)
        rf_free(regex);
    else
        *out = regex;
    return r;
}

void rf_regex_free(rf_regex **regex)
{
    if (!*regex) return;
    pcre2_code_free((*regex)->code);
    rf_free(*regex);
    *regex = NULL;
}

/* ---- searching ---- */

void rf_matcher_begin(rf_matcher *m, size_t size)
{
    m->start_ns = rf_thread_ns();
    m->budget_ns = FIRST_NS + NS_PER_BYTE * (uint64_t)size;
}

void rf_matcher_free(rf_matcher *m)
{
    if (m->data) pcre2_match_data_free(m->data);
    if (m->context) pcre2_match_context_free(m->context);
    *m = (rf_matcher){ 0 };
}

static rf_result matcher_ready(rf_matcher *m)
{
    if (m->context) return RF_OK;
    m->data = pcre2_match_data_create(1, NULL);
    pcre2_match_context *context = m->data ? pcre2_match_context_create(NULL) : NULL;
    if (!context) return RF_FAIL(RF_ERROR_OUT_OF_HOST_MEMORY, "no memory for a regular expression's search");
    pcre2_set_match_limit(context, MOST_STEPS);
    pcre2_set_heap_limit(context, MOST_HEAP_KIB);
    m->context = context;
    return RF_OK;
}

static rf_result too_slow(void)
{
    return RF_FAIL(RF_ERROR_UNSUPPORTED, "a regular expression of the tokenizer takes too long for this text");
}

static rf_result look_at_clock(rf_matcher *m)
{
    m->seen_ns = rf_thread_ns();
    return m->seen_ns - m->start_ns > m->budget_ns ? too_slow() : RF_OK;
}

static int match_once(const rf_regex *regex, rf_matcher *m, const char *text, size_t size, size_t from)
{
    const PCRE2_SPTR subject = (PCRE2_SPTR)text;
    const int r = pcre2_match(regex->code, subject, size, from, PCRE2_NO_UTF_CHECK, m->data, m->context);
    if (r != PCRE2_ERROR_JIT_STACKLIMIT) return r;
    /* The interpreter has its memory on the heap. */
    return pcre2_match(regex->code, subject, size, from, PCRE2_NO_UTF_CHECK | PCRE2_NO_JIT, m->data, m->context);
}

rf_result rf_regex_find(const rf_regex *regex, rf_matcher *m, const char *text, size_t size, size_t from, size_t *begin,
                        size_t *end)
{
    RF_TRY(matcher_ready(m));
    if (++m->calls % CALLS_UNSEEN == 0) RF_TRY(look_at_clock(m));
    for (size_t places = FEW_PLACES;;) {
        const size_t limit = size - from > places ? from + places : size;
        pcre2_set_offset_limit(m->context, limit);
        const int r = match_once(regex, m, text, size, from);
        if (r >= 0) {
            const PCRE2_SIZE *found = pcre2_get_ovector_pointer(m->data);
            *begin = found[0];
            *end = found[1];
            return RF_OK;
        }
        if (r == PCRE2_ERROR_NOMEMORY) return RF_FAIL(RF_ERROR_OUT_OF_HOST_MEMORY, "no memory for a search");
        if (r != PCRE2_ERROR_NOMATCH) return too_slow();
        if (limit == size) return RF_END;
        const uint64_t before = m->seen_ns;
        RF_TRY(look_at_clock(m));
        if (m->seen_ns - before < LITTLE_NS && places < MOST_PLACES) places *= 2;
        for (from = limit + 1; from < size && ((uint8_t)text[from] & 0xc0) == 0x80;) from++;
    }
}
