/* SPDX-License-Identifier: Apache-2.0 */
/* Files of TFRecord frames, whose checksums no fuzzer finds by itself. */
#ifndef TEST_FUZZ_RECORDS_H
#define TEST_FUZZ_RECORDS_H

#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/record.h"
#include "fuzz.h"

/* How much longer a record is than its bytes. */
enum { RECORD_FRAME = RF_RECORD_HEAD + RF_RECORD_TAIL };

/* Makes a record of `data`, which may be where it belongs in `to` already; returns its size. */
static inline size_t put_record(uint8_t *to, const uint8_t *data, size_t size)
{
    rf_record_put(to, size, 8);
    rf_record_put(to + 8, rf_record_checksum(to, 8), 4);
    if (size > 0) memmove(to + RF_RECORD_HEAD, data, size);
    rf_record_put(to + RF_RECORD_HEAD + size, rf_record_checksum(to + RF_RECORD_HEAD, size), 4);
    return RECORD_FRAME + size;
}

/* Puts checksums right, and lengths beyond the end of the file. */
static inline void put_records_right(uint8_t *file, size_t size)
{
    for (size_t at = 0; size - at >= RECORD_FRAME;) {
        const uint64_t most = size - at - RECORD_FRAME, length = rf_record_get(file + at, 8);
        at += put_record(file + at, file + at + RF_RECORD_HEAD, (size_t)(length < most ? length : most));
    }
}

/* The path of a file in memory that has these bytes, until the next call. */
static inline const char *file_in_memory(const uint8_t *bytes, size_t size)
{
    static int fd = -1;
    static char path[64];
    if (fd < 0) {
        fd = memfd_create("records", 0);
        snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    }
    PROMISE(fd >= 0 && ftruncate(fd, 0) == 0 && pwrite(fd, bytes, size, 0) == (ssize_t)size);
    return path;
}

#endif
