/* SPDX-License-Identifier: Apache-2.0 */
/* A compressed file as a stream of bytes, or as a whole. Messages name the file, and what stands where it is damaged.
 */
#ifndef RF_DATA_INFLATE_H
#define RF_DATA_INFLATE_H

#include <zlib.h>

#include <ringfire/common.h>

typedef struct rf_inflate_stream {
    const char *path; /* borrowed, as `fd` is */
    const char *unit; /* what the file consists of, e.g. "record" */
    int fd;
    uint64_t offset;      /* of the file, to be read next */
    bool begun, finished; /* zlib's part exists; it has come to the end of all data */
    z_stream z;
    uint8_t input[1 << 16];
} rf_inflate_stream;

/* At the front of the file, also again. gzip or zlib, which the first bytes say. */
rf_result rf_inflate_begin(rf_inflate_stream *s);
void rf_inflate_end(rf_inflate_stream *s);
/* Inflates up to `size` bytes (at most 1 GiB); *got is less where the data ends, after the last member of several. A
 * file that stops before its data does is truncated: `number` is that of the unit which it ends within. */
rf_result rf_inflate_read(rf_inflate_stream *s, uint64_t number, uint8_t *to, size_t size, size_t *got);
/* The content of a file, unpacked where it is gzipped. *data is freed with rf_free(). RF_ERROR_NOT_FOUND / IO /
 * CORRUPT_DATA with the path. */
rf_result rf_inflate_file(const char *path, void **data, size_t *size);
/* A text does not begin as gzip does, as it may with the bytes of zlib's format. */
bool rf_inflate_is_gzip(const uint8_t *head, size_t size);
/* Fails: the file ends within a unit. */
rf_result rf_inflate_fail_truncated(const char *path, const char *unit, uint64_t number);

#endif
