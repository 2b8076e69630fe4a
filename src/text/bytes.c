/* SPDX-License-Identifier: Apache-2.0 */
#include "text/bytes.h"

#include <string.h>

#include "base/memory.h"
#include "base/utf8.h"

rf_result rf_text_bytes_reserve(rf_text_bytes *b, size_t size)
{
    if (size <= b->room - b->size) return RF_OK;
    if (b->limit && size > b->limit - b->size)
        return RF_FAIL(RF_ERROR_UNSUPPORTED, "the text becomes too large: more than %zu bytes", b->limit);
    if (size > SIZE_MAX / 4 || b->size > SIZE_MAX / 4)
        return RF_FAIL(RF_ERROR_OUT_OF_HOST_MEMORY, "no memory for a text of %zu bytes more", size);
    size_t room = b->room ? b->room * 2 : 256;
    if (room - b->size < size) room = b->size + size;
    if (b->limit && room > b->limit) room = b->limit; /* so that it is not passed unseen */
    char *grown = rf_calloc(room, 1);
    if (!grown) return RF_ERROR_OUT_OF_HOST_MEMORY;
    if (b->size) memcpy(grown, b->bytes, b->size);
    rf_free(b->bytes);
    b->bytes = grown;
    b->room = room;
    return RF_OK;
}

rf_result rf_text_bytes_append(rf_text_bytes *b, const char *bytes, size_t size)
{
    RF_TRY(rf_text_bytes_reserve(b, size));
    if (size) memcpy(b->bytes + b->size, bytes, size);
    b->size += size;
    return RF_OK;
}

rf_result rf_text_bytes_append_code(rf_text_bytes *b, uint32_t code)
{
    RF_TRY(rf_text_bytes_reserve(b, 4));
    b->size += rf_utf8_encode(code, b->bytes + b->size);
    return RF_OK;
}

void rf_text_bytes_free(rf_text_bytes *b)
{
    rf_free(b->bytes);
    *b = (rf_text_bytes){ 0 };
}
