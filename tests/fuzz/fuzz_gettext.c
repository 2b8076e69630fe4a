/* SPDX-License-Identifier: Apache-2.0 */
/* gettext's catalogues: pairs of texts that lie within the file, in UTF-8. */
#include <string.h>

#include "base/memory.h"
#include "base/utf8.h"
#include "data/sources/gettext.h"
#include "fuzz.h"

enum { MOST = 64 };

static void check_text(const uint8_t *bytes, size_t size, const char *text, uint32_t length)
{
    const uintptr_t place = (uintptr_t)text - (uintptr_t)bytes;
    PROMISE(length > 0 && length <= MOST && place < size && length < size - place);
    PROMISE(text[length] == '\0' && strlen(text) == length && rf_utf8_valid(text, length));
}

FUZZ_TARGET(gettext)
{
    rf_gettext_pair *pairs;
    uint32_t count;
    const rf_result r = rf_gettext_parse(data, size, MOST, &pairs, &count);
    PROMISE(r == RF_OK || (rf_error_message()[0] && !pairs && count == 0));
    for (uint32_t i = 0; i < count; i++) {
        check_text(data, size, pairs[i].source, pairs[i].source_size);
        check_text(data, size, pairs[i].translation, pairs[i].translation_size);
    }
    rf_free(pairs);
    return 0;
}
