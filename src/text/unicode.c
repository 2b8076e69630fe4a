/* SPDX-License-Identifier: Apache-2.0 */
#include "text/unicode.h"

#include <stddef.h>

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

bool rf_unicode_is_space(uint32_t code)
{
    static const code_range spaces[] = {
        { 0x00a0, 0x00a0 }, { 0x1680, 0x1680 }, { 0x2000, 0x200a }, { 0x2028, 0x2029 },
        { 0x202f, 0x202f }, { 0x205f, 0x205f }, { 0x3000, 0x3000 },
    };
    if (code < 0x80) return code == ' ' || code == '\t' || code == '\n' || code == '\r';
    return IS_WITHIN(spaces, code);
}

bool rf_unicode_is_control(uint32_t code)
{
    static const code_range controls[] = {
        { 0x007f, 0x009f }, { 0x00ad, 0x00ad }, { 0x200b, 0x200f }, { 0x202a, 0x202e },    { 0x2060, 0x206f },
        { 0xe000, 0xf8ff }, { 0xfeff, 0xfeff }, { 0xfff0, 0xffff }, { 0xe0000, 0x10ffff },
    };
    if (code < 0x80) return (code < ' ' && !rf_unicode_is_space(code)) || code == 0x7f;
    return IS_WITHIN(controls, code);
}

bool rf_unicode_is_punctuation(uint32_t code)
{
    static const code_range marks[] = {
        { 0x00a1, 0x00a1 }, { 0x00a7, 0x00a7 }, { 0x00ab, 0x00ab }, { 0x00b6, 0x00b7 }, { 0x00bb, 0x00bb },
        { 0x00bf, 0x00bf }, { 0x037e, 0x037e }, { 0x0387, 0x0387 }, { 0x2010, 0x2027 }, { 0x2030, 0x2043 },
        { 0x2045, 0x2051 }, { 0x2053, 0x205e }, { 0x3001, 0x3003 }, { 0x3008, 0x3011 }, { 0x3014, 0x301f },
        { 0x30fb, 0x30fb }, { 0xff01, 0xff03 }, { 0xff05, 0xff0a }, { 0xff0c, 0xff0f }, { 0xff1a, 0xff1b },
        { 0xff1f, 0xff20 }, { 0xff3b, 0xff3d }, { 0xff3f, 0xff3f }, { 0xff5b, 0xff5b }, { 0xff5d, 0xff5d },
        { 0xff5f, 0xff65 },
    };
    return code < 0x80 ? rf_ascii_is_punctuation((uint8_t)code) : IS_WITHIN(marks, code);
}

bool rf_unicode_is_chinese(uint32_t code)
{
    static const code_range ideographs[] = {
        { 0x3400, 0x4dbf },   { 0x4e00, 0x9fff },   { 0xf900, 0xfaff },   { 0x20000, 0x2a6df },
        { 0x2a700, 0x2b73f }, { 0x2b740, 0x2b81f }, { 0x2b820, 0x2ceaf }, { 0x2f800, 0x2fa1f },
    };
    return code >= 0x3400 && IS_WITHIN(ideographs, code);
}

/* ---- folding ---- */

/* U+00C0 to U+017F: the letter below the accent; '.' where there is none. */
static const char latin_letters[] = "aaaaaa.ceeeeiiii.nooooo..uuuuy..aaaaaa.ceeeeiiii.nooooo..uuuuy.y"
                                    "aaaaaaccccccccdd..eeeeeeeeeegggggggghh..iiiiiiiii...jjkk.llllll."
                                    "...nnnnnn...oooooo..rrrrrrsssssssstttt..uuuuuuuuuuuuwwyyyzzzzzz.";

static uint32_t fold_latin(uint32_t code)
{
    const char letter = latin_letters[code - 0xc0];
    if (letter != '.') return (uint8_t)letter;
    if (code < 0xe0) return code == 0xd7 || code == 0xdf ? code : code + 0x20;
    if (code < 0x100) return code;
    const bool upper_is_odd = code >= 0x139 && code <= 0x148;
    if (code == 0x138 || code == 0x149 || code == 0x17f) return code;
    return code + (upper_is_odd ? code % 2 : 1 - code % 2);
}

typedef struct accented {
    uint16_t code, letter;
} accented;

static uint32_t find_letter(const accented *table, size_t count, uint32_t code)
{
    for (size_t i = 0; i < count; i++)
        if (table[i].code == code) return table[i].letter;
    return code;
}

static uint32_t fold_greek(uint32_t code)
{
    static const accented vowels[] = {
        { 0x386, 0x3b1 }, { 0x388, 0x3b5 }, { 0x389, 0x3b7 }, { 0x38a, 0x3b9 }, { 0x38c, 0x3bf },
        { 0x38e, 0x3c5 }, { 0x38f, 0x3c9 }, { 0x390, 0x3b9 }, { 0x3aa, 0x3b9 }, { 0x3ab, 0x3c5 },
        { 0x3ac, 0x3b1 }, { 0x3ad, 0x3b5 }, { 0x3ae, 0x3b7 }, { 0x3af, 0x3b9 }, { 0x3b0, 0x3c5 },
        { 0x3ca, 0x3b9 }, { 0x3cb, 0x3c5 }, { 0x3cc, 0x3bf }, { 0x3cd, 0x3c5 }, { 0x3ce, 0x3c9 },
    };
    if (code >= 0x391 && code <= 0x3a9 && code != 0x3a2) return code + 0x20;
    return find_letter(vowels, sizeof(vowels) / sizeof(vowels[0]), code);
}

static uint32_t fold_cyrillic(uint32_t code)
{
    static const accented letters[] = {
        { 0x439, 0x438 }, { 0x450, 0x435 }, { 0x451, 0x435 }, { 0x453, 0x433 },
        { 0x457, 0x456 }, { 0x45c, 0x43a }, { 0x45d, 0x438 }, { 0x45e, 0x443 },
    };
    const uint32_t lower = code < 0x410 ? code + 0x50 : code < 0x430 ? code + 0x20 : code;
    return find_letter(letters, sizeof(letters) / sizeof(letters[0]), lower);
}

uint32_t rf_unicode_fold(uint32_t code)
{
    if (code < 0x80) return code >= 'A' && code <= 'Z' ? code + 0x20 : code;
    if (code >= 0xc0 && code <= 0x17f) return fold_latin(code);
    if (code >= 0x300 && code <= 0x36f) return 0;
    if (code >= 0x386 && code <= 0x3ce) return fold_greek(code);
    if (code >= 0x400 && code <= 0x45f) return fold_cyrillic(code);
    return code;
}
