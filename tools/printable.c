/* SPDX-License-Identifier: Apache-2.0 */
#include "printable.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* The length of the character that the text begins with, 1 where it is no UTF-8 (RFC 3629). */
static size_t character_length(const unsigned char *text, bool *good)
{
    static const uint32_t least[] = { 0, 0, 0x80, 0x800, 0x10000 };
    const size_t length = text[0] < 0x80 ? 1 : text[0] < 0xe0 ? 2 : text[0] < 0xf0 ? 3 : 4;
    uint32_t code = length == 1 ? text[0] : text[0] & (0x7fu >> length);
    *good = text[0] < 0x80 || (text[0] >= 0xc2 && text[0] <= 0xf4);
    for (size_t i = 1; *good && i < length; i++) {
        *good = (text[i] & 0xc0) == 0x80; /* false at the end of the text, too */
        code = code << 6 | (text[i] & 0x3fu);
    }
    if (!*good || code < least[length] || code > 0x10ffff || (code >= 0xd800 && code < 0xe000)) {
        *good = false;
        return 1;
    }
    *good = code >= 0x20 && (code < 0x7f || code >= 0xa0) && code != 0xfffe && code != 0xffff;
    return length;
}

char *printable(const char *text)
{
    char *result = malloc(4 * strlen(text) + 1), *to = result;
    if (!result) return NULL;
    for (const unsigned char *at = (const unsigned char *)text; *at;) {
        bool good;
        const size_t length = character_length(at, &good);
        for (size_t i = 0; i < length; i++, at++) {
            if (good)
                *to++ = (char)*at;
            else
                to += snprintf(to, 5, "\\x%02x", *at);
        }
    }
    *to = '\0';
    return result;
}

void print_printable(FILE *out, const char *text, int width)
{
    char *shown = printable(text);
    fprintf(out, "%-*s", width, shown ? shown : "(out of memory)");
    free(shown);
}
