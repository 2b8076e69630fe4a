/* SPDX-License-Identifier: Apache-2.0 */
/* Encodes one block of a tensor as frames: transposed, with each byte plane compressed where that saves enough. */
#ifndef RF_PERSIST_ARCHIVE_BLOCK_WRITER_H
#define RF_PERSIST_ARCHIVE_BLOCK_WRITER_H

#include "persist/archive/format.h"

typedef struct rf_block_writer rf_block_writer; /* of one thread */
/* `compress` false: everything is stored as it is. */
rf_result rf_block_writer_create(bool compress, int level, rf_block_writer **out);
void rf_block_writer_destroy(rf_block_writer **writer);

typedef struct rf_encoded_block {
    rf_archive_block block;
    const void *bytes[RF_ARCHIVE_MAX_FRAMES]; /* of each frame: in the data, in `planes` or in `packed` */
} rf_encoded_block;
/* `planes` and `packed` have room for `size` bytes; size > 0 is a multiple of `element`. */
rf_result rf_block_encode(rf_block_writer *writer, const void *data, size_t size, size_t element, uint8_t *planes,
                          uint8_t *packed, rf_encoded_block *out);

#endif
