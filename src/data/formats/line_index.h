/* SPDX-License-Identifier: Apache-2.0 */
/* The lines of a file by number, those that are empty left out. The index of a plain file has one byte a line. */
#ifndef RF_DATA_LINE_INDEX_H
#define RF_DATA_LINE_INDEX_H

#include "data/formats/line_file.h"

enum { RF_LINES_OF_MARK = 16 };

typedef struct rf_line_index {
    uint64_t count, file_size; /* of lines, of bytes */
    bool packed;               /* compressed: read in order */
    /* Plain: where each RF_LINES_OF_MARK-th line begins. */
    struct {
        rf_line_mark *items;
        uint32_t count, capacity;
    } marks;
} rf_line_index;

/* Reads the file once. The caller frees *out, also when this fails. */
rf_result rf_line_index_make(const char *path, rf_line_index *out);
void rf_line_index_free(rf_line_index *index);

/* Where reading of one file is; zeroed to begin with, closed by whoever has it. */
typedef struct rf_line_cursor {
    rf_line_reader *reader; /* NULL: to be opened, again after a failure */
    uint64_t next;          /* the line that it comes to */
} rf_line_cursor;
/* The bytes of line `number` < index->count, at most `most`, for which `to` has room; *line is its number in the file,
 * from 1. Numbers ascend in a compressed file: going back begins again at the front. After a failure the same call
 * tries again. */
rf_result rf_line_index_read(const rf_line_index *index, const char *path, rf_line_cursor *cursor, uint64_t number,
                             uint8_t *to, size_t most, size_t *size, uint64_t *line);

#endif
