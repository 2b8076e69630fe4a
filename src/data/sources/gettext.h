/* SPDX-License-Identifier: Apache-2.0 */
/* Catalogues of gettext (.mo): what programs say, and what it is in another language. */
#ifndef RF_DATA_GETTEXT_H
#define RF_DATA_GETTEXT_H

#include "base/error.h"

typedef struct rf_gettext_pair {
    const char *source, *translation; /* UTF-8, neither is empty */
    uint32_t source_size, translation_size;
} rf_gettext_pair;

/* The pairs of a catalogue whose texts have `most` bytes at most; they point into `bytes`. The caller frees `*pairs`
 * with rf_free(). It takes the first of plural forms, without their contexts. The entry that describes the file is left
 * out, and so are pairs that are not UTF-8 or lack a translation. */
rf_result rf_gettext_parse(const void *bytes, size_t size, uint32_t most, rf_gettext_pair **pairs, uint32_t *count);

#endif
