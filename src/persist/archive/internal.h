/* SPDX-License-Identifier: Apache-2.0 */
/* Archives that are read: one file (file.c), part files above it (parts.c), and all that may be read (reader.c). */
#ifndef RF_PERSIST_ARCHIVE_INTERNAL_H
#define RF_PERSIST_ARCHIVE_INTERNAL_H

#include <stdatomic.h>
#include <zstd.h>

#include "persist/archive/header.h"
#include "persist/archive/reader.h"

struct rf_archive {
    const rf_file_ops *ops;
    int fd;
    char *path;
    rf_archive_identity is;
    rf_archive_header header;
    _Atomic(ZSTD_DCtx *) *spare; /* one kept for the next read: making one costs more than a small tensor */
    rf_archive **parts;          /* [header.num_parts], of a main file; they stay open */
};

/* ---- one file (file.c) ---- */

/* The place of a name in a sorted list of places; `count` when it is not there. */
uint32_t rf_archive_search(const rf_archive_header *header, const uint32_t *places, uint32_t count, const char *name);
/* The tensor of that name; header.num_tensors when there is none. */
uint32_t rf_archive_index(const rf_archive *archive, const char *name);
/* Bytes of a tensor's blocks in the file. */
uint64_t rf_archive_stored_bytes(const rf_archive_record *record);
/* Reads tensors first..end of one file, together `bytes`, one after another; NULL data: only checks them. */
rf_result rf_archive_read_tensors(const rf_archive *archive, uint32_t first, uint32_t end, uint8_t *data,
                                  uint64_t bytes);

/* Bytes begin..end of one tensor of one file, in memory of a block or two. */
rf_result rf_archive_read_blocks(const rf_archive *archive, uint32_t index, uint64_t begin, uint64_t end,
                                 uint8_t *data);

/* ---- the parts of a main file (parts.c) ---- */

/* Opens the parts: they are those of this save and hold what the main file says, neither more nor less. */
rf_result rf_archive_open_parts(rf_archive *archive);
/* Bytes of the tensor in all parts. */
uint64_t rf_archive_stored_in_parts(const rf_archive *archive, const char *name);
rf_result rf_archive_read_from_parts(const rf_archive *archive, const rf_archive_record *record, uint8_t *data);
rf_result rf_archive_read_range_from_parts(const rf_archive *archive, const rf_archive_record *record, uint64_t begin,
                                           uint64_t end, uint8_t *data);
rf_result rf_archive_verify_parts(const rf_archive *archive);

#endif
