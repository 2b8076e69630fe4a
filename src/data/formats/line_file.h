/* SPDX-License-Identifier: Apache-2.0 */
/* Files of lines, plain or gzipped, whichever their content is, read in order in the memory of one buffer. */
#ifndef RF_DATA_LINE_FILE_H
#define RF_DATA_LINE_FILE_H

#include <ringfire/common.h>

/* One open file. */
typedef struct rf_line_reader rf_line_reader;

/* `path` is borrowed. */
rf_result rf_line_reader_open(const char *path, rf_line_reader **out);
void rf_line_reader_close(rf_line_reader **reader);
/* The next line, without "\n" or "\r\n": *size bytes, at most `most`, for which `to` has room (NULL: nobody looks at
 * them). RF_END: there is none. Messages name the file and the line. After a failure the reader is of no use,
 * but for a line that is too long (RF_ERROR_INVALID_ARGUMENT), whose rest can be skipped. */
rf_result rf_line_read(rf_line_reader *reader, uint8_t *to, size_t most, size_t *size);
rf_result rf_line_skip_rest(rf_line_reader *reader);
/* Where the next line begins, and its number from 1. Plain files alone can be read from there again. */
typedef struct rf_line_mark {
    uint64_t offset, line;
} rf_line_mark;
rf_line_mark rf_line_tell(const rf_line_reader *reader);
rf_result rf_line_seek(rf_line_reader *reader, rf_line_mark mark);
uint64_t rf_line_file_size(const rf_line_reader *reader); /* in bytes, as it is stored */
bool rf_line_is_packed(const rf_line_reader *reader);

#endif
