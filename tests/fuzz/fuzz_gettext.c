/* SPDX-License-Identifier: Apache-2.0 */
/* The examples' reader of gettext's catalogues: pairs of texts that lie within the file, in UTF-8. */
#include <stdbool.h>
#include <string.h>

#include "base/utf8.h"
#include "common/gettext.h"
#include "fuzz.h"

static void check_text(const mo_catalogue *c, const char *text, size_t size)
{
    PROMISE(text >= c->bytes && text < c->bytes + size);
    const char *end = memchr(text, '\0', (size_t)(c->bytes + size - text));
    PROMISE(end && end > text && rf_utf8_valid(text, (size_t)(end - text)));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    mo_catalogue c;
    char *bytes = malloc(size ? size : 1);
    PROMISE(bytes);
    if (size) memcpy(bytes, data, size);
    const char *problem = mo_parse(bytes, size, &c);
    PROMISE(!problem || (problem[0] && !c.bytes && !c.pairs && c.count == 0));
    for (uint32_t i = 0; i < c.count; i++) {
        check_text(&c, c.pairs[i].source, size);
        check_text(&c, c.pairs[i].translation, size);
    }
    mo_free(&c);
    return 0;
}
