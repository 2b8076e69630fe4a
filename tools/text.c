/* SPDX-License-Identifier: Apache-2.0 */
#include "text.h"

#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>

enum { FEWEST_COLUMNS = 40, USUAL_COLUMNS = 80 };

int text_columns(FILE *out)
{
    struct winsize size;
    const char *variable = getenv("COLUMNS");
    int columns = USUAL_COLUMNS;
    if (ioctl(fileno(out), TIOCGWINSZ, &size) == 0 && size.ws_col > 0)
        columns = size.ws_col;
    else if (variable && atoi(variable) > 0)
        columns = atoi(variable);
    return columns < FEWEST_COLUMNS ? FEWEST_COLUMNS : columns;
}

static int is_first_byte(char c)
{
    return ((unsigned char)c & 0xc0) != 0x80;
}

int text_width(const char *text)
{
    int width = 0;
    for (; *text; text++) width += is_first_byte(*text);
    return width;
}

/* Bytes of the first `width` characters. */
static size_t bytes_of(const char *text, int width)
{
    size_t n = 0;
    for (; text[n]; n++)
        if (is_first_byte(text[n]) && width-- == 0) break;
    return n;
}

void print_cut(FILE *out, const char *text, int width)
{
    if (text_width(text) <= width) {
        fputs(text, out);
        return;
    }
    const int shown = width > 3 ? width - 3 : 0;
    fwrite(text, 1, bytes_of(text, shown), out);
    fprintf(out, "%.*s", width - shown, "...");
}

void print_wrapped(FILE *out, const char *text, int indent, int columns)
{
    const int width = columns - indent > 10 ? columns - indent : 10;
    do {
        size_t length = bytes_of(text, width), next = length;
        const char *end = memchr(text, '\n', length);
        if (end) {
            length = (size_t)(end - text);
            next = length + 1;
        } else if (text[length] == '\n') {
            next = length + 1;
        } else if (text[length]) {
            size_t space = length;
            while (space > 0 && text[space] != ' ') space--;
            if (space > 0) length = next = space;
        }
        fprintf(out, "%*s%.*s\n", indent, "", (int)length, text);
        text += next;
        while (*text == ' ') text++;
    } while (*text);
}
