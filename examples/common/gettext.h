/* SPDX-License-Identifier: Apache-2.0 */
/* Catalogues of gettext (.mo): what programs say, and what it is in another language. */
#ifndef EXAMPLE_GETTEXT_H
#define EXAMPLE_GETTEXT_H

#include <stddef.h>
#include <stdint.h>

typedef struct mo_pair {
    const char *source, *translation; /* UTF-8, neither is empty */
} mo_pair;
typedef struct mo_catalogue {
    char *bytes; /* of the file; the pairs point into it */
    mo_pair *pairs;
    uint32_t count;
} mo_catalogue;

/* Reads a catalogue. Of plural forms it takes the first one, without their contexts. The entry that describes the file
 * is left out, and so are pairs that are not UTF-8 or lack a translation. Returns what is wrong where the file cannot
 * be read, is damaged, or is in another encoding than UTF-8; NULL: nothing. */
const char *mo_read(const char *path, mo_catalogue *out);
void mo_free(mo_catalogue *catalogue);

/* The same for bytes in memory, which the catalogue takes over from malloc() in any case. */
const char *mo_parse(char *bytes, size_t size, mo_catalogue *out);

#endif
