/* SPDX-License-Identifier: Apache-2.0 */
/* Splits texts as BERT does, for check_words.py. To stdout first the version of Unicode; then from stdin texts, each
 * after its size (4 bytes, little endian) and whether case is kept (1 byte); to stdout their words, each with a zero
 * byte behind it, and a line feed behind each text. */
#include <stdio.h>
#include <stdlib.h>
#include <utf8proc.h>

#include "base/error.h"
#include "text/split.h"

static rf_result print_word(void *user, const char *word, size_t size)
{
    (void)user;
    fwrite(word, 1, size, stdout);
    putchar(0);
    return RF_OK;
}

int main(void)
{
    unsigned char head[5];
    printf("%s\n", utf8proc_unicode_version());
    while (fread(head, 1, sizeof(head), stdin) == sizeof(head)) {
        const size_t size = head[0] | (size_t)head[1] << 8 | (size_t)head[2] << 16 | (size_t)head[3] << 24;
        char *text = malloc(size + 1);
        if (!text || fread(text, 1, size, stdin) != size) return 1;
        if (rf_split_basic(text, size, head[4], print_word, NULL) < 0) return 1;
        putchar('\n');
        free(text);
    }
    return 0;
}
