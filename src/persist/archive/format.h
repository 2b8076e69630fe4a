/* SPDX-License-Identifier: Apache-2.0 */
/* Writer and reader share the format: docs/reference/checkpoint-format.md. */
#ifndef RF_PERSIST_ARCHIVE_FORMAT_H
#define RF_PERSIST_ARCHIVE_FORMAT_H

#include <ringfire/common.h>

#define RF_ARCHIVE_VERSION 1u
#define RF_ARCHIVE_VERSION_PARTS 2u /* a main file: its tensors lie in parts */
enum {
    RF_ARCHIVE_PREAMBLE = 56,
    RF_ARCHIVE_TRAILER = 24,
    RF_ARCHIVE_MAX_HEADER = 16 << 20,
    RF_ARCHIVE_MAX_BLOCK = 4 << 20, /* uncompressed */
    RF_ARCHIVE_MAX_FRAMES = 8,      /* of a block: one for each byte of the largest element */
    RF_ARCHIVE_MAX_NAME = 1024,
    RF_ARCHIVE_MAX_PARTS = 65536,
};

/* Preamble and trailer. */
typedef struct rf_archive_layout {
    uint64_t file_size, header_offset, header_size, header_hash;
} rf_archive_layout;
void rf_archive_layout_encode(const rf_archive_layout *layout, uint64_t version, uint8_t preamble[RF_ARCHIVE_PREAMBLE],
                              uint8_t trailer[RF_ARCHIVE_TRAILER]);
enum { RF_ARCHIVE_MAGIC = 8 };
bool rf_archive_magic_fits(const uint8_t start[RF_ARCHIVE_MAGIC]);
/* The preamble's own fields: of one that was encoded or has been decoded. */
uint64_t rf_archive_preamble_version(const uint8_t preamble[RF_ARCHIVE_PREAMBLE]);
uint64_t rf_archive_preamble_hash(const uint8_t preamble[RF_ARCHIVE_PREAMBLE]);
/* `actual_size` is the file's; `path` is for messages. */
rf_result rf_archive_layout_decode(const char *path, const uint8_t preamble[RF_ARCHIVE_PREAMBLE], uint64_t actual_size,
                                   rf_archive_layout *out);
rf_result rf_archive_trailer_check(const char *path, const uint8_t preamble[RF_ARCHIVE_PREAMBLE],
                                   const uint8_t trailer[RF_ARCHIVE_TRAILER]);

/* A run of a block's bytes as it lies in the file. */
typedef struct rf_archive_frame {
    uint64_t stored, raw;
    bool compressed;
    uint64_t hash; /* of the stored bytes */
} rf_archive_frame;
typedef struct rf_archive_block {
    bool transposed;
    uint32_t num_frames;
    uint64_t raw;
    rf_archive_frame frame[RF_ARCHIVE_MAX_FRAMES];
} rf_archive_block;

/* NULL, or what is wrong with a name: not empty, UTF-8, no control characters, components between '/' that are neither
 * empty nor "." nor "..", at most RF_ARCHIVE_MAX_NAME bytes. */
const char *rf_archive_name_problem(const char *name, uint64_t size);
/* Bytes of a dense array, -1 on overflow or an invalid type or shape. */
int64_t rf_array_bytes(rf_dtype dtype, rf_shape shape);

#endif
