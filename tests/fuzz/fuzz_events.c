/* SPDX-License-Identifier: Apache-2.0 */
/* Event files: whatever stands in one, it is read or refused. The first byte chooses what the rest is:
 *   0  a file as it is
 *   1  the contents of one record
 *   2  a file whose checksums are put right, which no fuzzer finds by itself; so are lengths beyond its end */
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <ringfire/events.h>

#include "fuzz.h"
#include "persist/events/record.h"

static size_t put_record(uint8_t *to, const uint8_t *data, size_t size)
{
    rf_record_put(to, size, 8);
    rf_record_put(to + 8, rf_record_checksum(to, 8), 4);
    if (size > 0) memmove(to + RF_RECORD_HEAD, data, size);
    rf_record_put(to + RF_RECORD_HEAD + size, rf_record_checksum(to + RF_RECORD_HEAD, size), 4);
    return RF_RECORD_HEAD + size + RF_RECORD_TAIL;
}

static void put_right(uint8_t *file, size_t size)
{
    for (size_t at = 0; size - at >= RF_RECORD_HEAD + RF_RECORD_TAIL;) {
        const uint64_t most = size - at - RF_RECORD_HEAD - RF_RECORD_TAIL, length = rf_record_get(file + at, 8);
        at += put_record(file + at, file + at + RF_RECORD_HEAD, (size_t)(length < most ? length : most));
    }
}

static unsigned touch(const rf_event *e)
{
    unsigned sum = 0;
    for (const char *c = e->tag; *c; c++) sum += (unsigned char)*c;
    for (const char *c = e->text; c && *c; c++) sum += (unsigned char)*c;
    for (uint64_t i = 0; i < e->size; i++) sum += ((const unsigned char *)e->bytes)[i];
    for (uint32_t i = 0; i < 3 * e->num_buckets; i++) sum += e->buckets[i] > 0;
    return sum;
}

static void read_file(const uint8_t *file, size_t size)
{
    static int fd = -1;
    static char path[64];
    if (fd < 0) {
        fd = memfd_create("events", 0);
        snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    }
    PROMISE(fd >= 0 && ftruncate(fd, 0) == 0 && pwrite(fd, file, size, 0) == (ssize_t)size);
    rf_event_reader *reader;
    PROMISE(rf_event_reader_open(path, &reader) == RF_OK);
    volatile unsigned sum = 0;
    rf_event e;
    rf_result r;
    while ((r = rf_event_reader_next(reader, &e)) == RF_OK) sum += touch(&e);
    PROMISE(r == RF_END || r == RF_ERROR_CORRUPT_DATA);
    rf_event_reader_close(&reader);
    (void)sum;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0) return 0;
    uint8_t *file = malloc(size + RF_RECORD_HEAD + RF_RECORD_TAIL);
    PROMISE(file);
    size_t n = size - 1;
    if (data[0] % 3 == 1) {
        n = put_record(file, data + 1, size - 1);
    } else if (n > 0) {
        memcpy(file, data + 1, n);
        if (data[0] % 3 == 2) put_right(file, n);
    }
    read_file(file, n);
    free(file);
    return 0;
}
