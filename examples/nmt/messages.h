/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pairs for a translator that lie on many machines: what programs say, in English and in another language, out of
 * gettext's catalogues (LOCALES/LANGUAGE/LC_MESSAGES/ *.mo).
 */
#ifndef EXAMPLE_NMT_MESSAGES_H
#define EXAMPLE_NMT_MESSAGES_H

#include <stdbool.h>
#include <stdint.h>

#define MESSAGES_LOCALES "/usr/share/locale"

typedef struct message {
    char *source, *translation;
} message;
typedef struct messages {
    message *items; /* in an order that looks random, the same wherever the same catalogues are; no source twice */
    uint32_t count;
} messages;

/* Those of one line and at most `most_words` words on either side. Lists of names, such as ISO's of languages, are left
 * out, and so are catalogues that cannot be read, which are named unless `quiet`. A language without catalogues has no
 * messages. Says what is wrong and returns -1 where there is no memory. */
int messages_read(const char *locales, const char *language, uint32_t most_words, bool quiet, messages *out);
void messages_free(messages *m);

#endif
