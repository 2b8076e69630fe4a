/* SPDX-License-Identifier: Apache-2.0 */
/* Files of TFRecord frames (base/record.h), plain, gzipped or zlib-compressed, whichever their content is. Messages
 * name the file, the record and what to do. */
#ifndef RF_DATA_RECORD_FILE_H
#define RF_DATA_RECORD_FILE_H

#include <ringfire/common.h>

/* Where the records of a file are. */
typedef struct rf_record_index {
    uint64_t count; /* of records */
    bool packed;    /* compressed: read in order */
    /* Plain: where each record begins, and the end of the last one. */
    struct {
        uint64_t *items;
        uint32_t count, capacity;
    } starts;
} rf_record_index;

/* Walks over the lengths of all records and checks them: of a plain file reads little else, of a compressed one all.
 * The caller frees *out, also when this fails. */
rf_result rf_record_index_make(const char *path, rf_record_index *out);
void rf_record_index_free(rf_record_index *index);

/* One open file. */
typedef struct rf_record_reader rf_record_reader;

/* `path` and `index` are borrowed. */
rf_result rf_record_reader_open(const char *path, const rf_record_index *index, rf_record_reader **out);
void rf_record_reader_close(rf_record_reader **reader);
/* The bytes of record `number` < index->count, which are valid until the next call; their checksum is right. Numbers
 * ascend in a compressed file: going back begins again at the front. After a failure the same call tries again. */
rf_result rf_record_read(rf_record_reader *reader, uint64_t number, const uint8_t **bytes, size_t *size);

#endif
