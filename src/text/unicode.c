/* SPDX-License-Identifier: Apache-2.0 */
#include "text/unicode.h"

#include <stddef.h>
#include <utf8proc.h>

/* ---- classes ---- */

bool rf_ascii_is_space(uint8_t byte)
{
    return byte == ' ' || (byte >= '\t' && byte <= '\r');
}

bool rf_ascii_is_punctuation(uint8_t byte)
{
    return (byte >= '!' && byte <= '/') || (byte >= ':' && byte <= '@') || (byte >= '[' && byte <= '`') ||
           (byte >= '{' && byte <= '~');
}

typedef struct code_range {
    uint32_t first, last;
} code_range;

static bool is_within(const code_range *ranges, size_t count, uint32_t code)
{
    for (size_t i = 0; i < count; i++)
        if (code >= ranges[i].first && code <= ranges[i].last) return true;
    return false;
}
#define IS_WITHIN(ranges, code) is_within(ranges, sizeof(ranges) / sizeof((ranges)[0]), code)

static utf8proc_category_t category_of(uint32_t code)
{
    return utf8proc_category((utf8proc_int32_t)code);
}

bool rf_unicode_is_space(uint32_t code)
{
    if (code < 0x80) return code == ' ' || code == '\t' || code == '\n' || code == '\r';
    const utf8proc_category_t c = category_of(code);
    return c == UTF8PROC_CATEGORY_ZS || c == UTF8PROC_CATEGORY_ZL || c == UTF8PROC_CATEGORY_ZP;
}

bool rf_unicode_is_control(uint32_t code)
{
    enum { REPLACEMENT = 0xfffd };
    if (code < 0x80) return (code < ' ' && !rf_unicode_is_space(code)) || code == 0x7f;
    const utf8proc_category_t c = category_of(code);
    return c == UTF8PROC_CATEGORY_CN || (c >= UTF8PROC_CATEGORY_CC && c <= UTF8PROC_CATEGORY_CO) || code == REPLACEMENT;
}

bool rf_unicode_is_punctuation(uint32_t code)
{
    if (code < 0x80) return rf_ascii_is_punctuation((uint8_t)code);
    const utf8proc_category_t c = category_of(code);
    return c >= UTF8PROC_CATEGORY_PC && c <= UTF8PROC_CATEGORY_PO;
}

bool rf_unicode_is_chinese(uint32_t code)
{
    static const code_range ideographs[] = {
        { 0x3400, 0x4dbf },   { 0x4e00, 0x9fff },   { 0xf900, 0xfaff },   { 0x20000, 0x2a6df },
        { 0x2a700, 0x2b73f }, { 0x2b740, 0x2b81f }, { 0x2b820, 0x2ceaf }, { 0x2f800, 0x2fa1f },
    };
    return code >= 0x3400 && IS_WITHIN(ideographs, code);
}

bool rf_unicode_is_accent(uint32_t code)
{
    return code >= 0x80 && category_of(code) == UTF8PROC_CATEGORY_MN;
}

bool rf_unicode_is_assigned(uint32_t code)
{
    return category_of(code) != UTF8PROC_CATEGORY_CN;
}

bool rf_unicode_is_white_space(uint32_t code)
{
    enum { NEXT_LINE = 0x85 };
    if (code < 0x80) return rf_ascii_is_space((uint8_t)code);
    return code == NEXT_LINE || rf_unicode_is_space(code);
}

bool rf_unicode_is_mark(uint32_t code)
{
    if (code < 0x80) return false;
    const utf8proc_category_t c = category_of(code);
    return c >= UTF8PROC_CATEGORY_MN && c <= UTF8PROC_CATEGORY_ME;
}

bool rf_unicode_is_number(uint32_t code)
{
    if (code < 0x80) return code >= '0' && code <= '9';
    const utf8proc_category_t c = category_of(code);
    return c >= UTF8PROC_CATEGORY_ND && c <= UTF8PROC_CATEGORY_NO;
}

bool rf_unicode_is_word(uint32_t code)
{
    /* Letters in circles, and the two joiners. */
    static const code_range others[] = {
        { 0x200c, 0x200d }, { 0x24b6, 0x24e9 }, { 0x1f130, 0x1f149 }, { 0x1f150, 0x1f169 }, { 0x1f170, 0x1f189 },
    };
    const utf8proc_category_t c = category_of(code);
    return (c >= UTF8PROC_CATEGORY_LU && c <= UTF8PROC_CATEGORY_NL) || c == UTF8PROC_CATEGORY_PC ||
           IS_WITHIN(others, code);
}

/* ---- case ---- */

bool rf_unicode_is_cased(uint32_t code)
{
    /* Other_Lowercase and Other_Uppercase, but for those that change or are left out of account. */
    static const code_range others[] = {
        { 0xaa, 0xaa }, { 0xba, 0xba }, { 0x1f130, 0x1f149 }, { 0x1f150, 0x1f169 }, { 0x1f170, 0x1f189 },
    };
    const utf8proc_category_t c = category_of(code);
    if (c == UTF8PROC_CATEGORY_LU || c == UTF8PROC_CATEGORY_LL || c == UTF8PROC_CATEGORY_LT) return true;
    const utf8proc_int32_t self = (utf8proc_int32_t)code;
    return utf8proc_tolower(self) != self || utf8proc_toupper(self) != self || IS_WITHIN(others, code);
}

bool rf_unicode_is_case_ignorable(uint32_t code)
{
    /* These may stand within words (Word_Break: MidLetter, MidNumLet, Single_Quote). */
    static const code_range within_words[] = {
        { '\'', '\'' },     { '.', '.' },       { ':', ':' },       { 0xb7, 0xb7 },
        { 0x387, 0x387 },   { 0x55f, 0x55f },   { 0x5f4, 0x5f4 },   { 0x2018, 0x2019 },
        { 0x2024, 0x2024 }, { 0x2027, 0x2027 }, { 0xfe13, 0xfe13 }, { 0xfe52, 0xfe52 },
        { 0xfe55, 0xfe55 }, { 0xff07, 0xff07 }, { 0xff0e, 0xff0e }, { 0xff1a, 0xff1a },
    };
    const utf8proc_category_t c = category_of(code);
    return c == UTF8PROC_CATEGORY_MN || c == UTF8PROC_CATEGORY_ME || c == UTF8PROC_CATEGORY_CF ||
           c == UTF8PROC_CATEGORY_LM || c == UTF8PROC_CATEGORY_SK || IS_WITHIN(within_words, code);
}

uint32_t rf_unicode_lower(uint32_t code)
{
    if (code < 0x80) return code >= 'A' && code <= 'Z' ? code + 0x20 : code;
    return (uint32_t)utf8proc_tolower((utf8proc_int32_t)code);
}

/* ---- decomposition ---- */

uint32_t rf_unicode_order(uint32_t code)
{
    return code < 0x80 ? 0 : (uint32_t)utf8proc_get_property((utf8proc_int32_t)code)->combining_class;
}

uint32_t rf_unicode_decompose(uint32_t code, uint32_t parts[RF_UNICODE_PARTS])
{
    utf8proc_int32_t to[RF_UNICODE_PARTS];
    int boundary = 0;
    parts[0] = code;
    if (code < 0x80) return 1;
    const utf8proc_ssize_t count =
        utf8proc_decompose_char((utf8proc_int32_t)code, to, RF_UNICODE_PARTS, UTF8PROC_DECOMPOSE, &boundary);
    if (count < 1 || count > RF_UNICODE_PARTS) return 1; /* no character decomposes into more */
    for (utf8proc_ssize_t i = 0; i < count; i++) parts[i] = (uint32_t)to[i];
    return (uint32_t)count;
}
