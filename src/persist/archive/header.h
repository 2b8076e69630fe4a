/* SPDX-License-Identifier: Apache-2.0 */
/* The msgpack header of an archive, checked once and then read in place: the memory it takes is its own bytes and four
 * more per entry, whatever it claims. */
#ifndef RF_PERSIST_ARCHIVE_HEADER_H
#define RF_PERSIST_ARCHIVE_HEADER_H

#include "persist/archive/format.h"
#include "persist/archive/unpack.h"
#include "persist/archive/writer.h"

typedef struct rf_archive_header {
    uint8_t *bytes; /* owned; names are terminated in place */
    uint64_t size;
    bool sharded; /* of a main file; set before the check */
    const char *type;
    uint32_t num_tensors, num_values, num_parts;
    uint32_t *tensors, *values, *parts; /* where their names begin, in order of the names */
} rf_archive_header;

/* Checks `header->bytes`: everything has the right type, names are in order and valid, every tensor's blocks add up to
 * its size, and frames follow each other from the preamble to `data_end` without gap or overlap. In a main file there
 * is no data, parts are names of files without a directory, and every tensor's extents lie in parts of the list and add
 * up to its elements. On failure the caller still calls rf_archive_header_free. */
rf_result rf_archive_header_check(rf_archive_header *header, const char *path, uint64_t data_end);
void rf_archive_header_free(rf_archive_header *header);

/* One tensor of a checked header. */
typedef struct rf_archive_record {
    const char *name;
    rf_dtype dtype;
    rf_shape shape;
    uint64_t bytes, offset; /* uncompressed size; place of the first frame */
    uint32_t num_blocks;    /* of a main file: extents */
    rf_unpack blocks;       /* for rf_archive_next_block or rf_archive_next_extent, num_blocks times */
} rf_archive_record;
void rf_archive_header_tensor(const rf_archive_header *header, uint32_t index, rf_archive_record *out);
void rf_archive_next_block(rf_unpack *blocks, rf_archive_block *out);
void rf_archive_next_extent(rf_unpack *extents, rf_archive_extent *out);
void rf_archive_header_part(const rf_archive_header *header, uint32_t index, rf_archive_part *out);
void rf_archive_header_value(const rf_archive_header *header, uint32_t index, rf_archive_value *out);

#endif
