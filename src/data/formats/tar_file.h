/* SPDX-License-Identifier: Apache-2.0 */
/* Tar archives in which the files of an example follow each other and share the name before its first point, as
 * WebDataset has them; plain, gzipped or compressed with zstd, whichever their content is. */
#ifndef RF_DATA_TAR_FILE_H
#define RF_DATA_TAR_FILE_H

#include <ringfire/common.h>

/* Where the examples of an archive are. */
typedef struct rf_tar_index {
    uint64_t count; /* of examples */
    bool packed;    /* compressed: read in order */
    /* Plain: where each example's first header begins. */
    struct {
        uint64_t *items;
        uint32_t count, capacity;
    } starts;
} rf_tar_index;

/* Walks over all headers: of a plain archive reads little else, of a compressed one all. The caller frees *out, also
 * when this fails. RF_ERROR_UNSUPPORTED: the library was built without libarchive. */
rf_result rf_tar_index_make(const char *path, rf_tar_index *out);
void rf_tar_index_free(rf_tar_index *index);

/* One file that is wanted of each example. */
typedef struct rf_tar_part {
    const char
        *endings;   /* "jpg;jpeg;png": what may follow the first point of its name; the first that is there counts */
    uint8_t *bytes; /* the reader's */
    size_t size, room;
    uint32_t rank; /* of the ending that was found, from 1; 0: none was */
} rf_tar_part;

/* One open archive. */
typedef struct rf_tar_reader rf_tar_reader;

/* `path` and `index` are borrowed. */
rf_result rf_tar_reader_open(const char *path, const rf_tar_index *index, rf_tar_reader **out);
void rf_tar_reader_close(rf_tar_reader **reader);
/* Fills in the parts of example `number` < index->count. Their bytes are kept for the next call, and freed with
 * rf_free(). A file of more than `most` bytes is an error. Numbers ascend in a compressed archive: going back begins
 * again at the front. After a failure the same call tries again. */
rf_result rf_tar_read(rf_tar_reader *reader, uint64_t number, rf_tar_part *parts, uint32_t num_parts, size_t most);

#endif
