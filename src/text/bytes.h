/* SPDX-License-Identifier: Apache-2.0 */
/* A text that grows. */
#ifndef RF_TEXT_BYTES_H
#define RF_TEXT_BYTES_H

#include "base/error.h"

/* Zeroed: empty. */
typedef struct rf_text_bytes {
    char *bytes;
    size_t size, room;
    size_t limit; /* that the text of a hostile file may not pass; 0: none */
} rf_text_bytes;

/* Room for `size` bytes more. */
rf_result rf_text_bytes_reserve(rf_text_bytes *b, size_t size);
/* `bytes` must not be the text's own. */
rf_result rf_text_bytes_append(rf_text_bytes *b, const char *bytes, size_t size);
rf_result rf_text_bytes_append_code(rf_text_bytes *b, uint32_t code);
void rf_text_bytes_free(rf_text_bytes *b);

#endif
