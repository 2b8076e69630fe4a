/* SPDX-License-Identifier: Apache-2.0 */
/* Event files: whatever stands in one, it is read or refused. The first byte chooses: the rest is a file as it is, or
 * the contents of one record with the right checksums, which no fuzzer finds by itself. */
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include <ringfire/events.h>

#include "persist/record.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void put(int fd, const void *data, size_t size)
{
    if (write(fd, data, size) != (ssize_t)size) abort();
}

static void put_record(int fd, const uint8_t *data, size_t size)
{
    unsigned char head[RF_RECORD_HEAD], tail[RF_RECORD_TAIL];
    rf_record_put(head, size, 8);
    rf_record_put(head + 8, rf_record_checksum(head, 8), 4);
    rf_record_put(tail, rf_record_checksum(data, size), 4);
    put(fd, head, sizeof(head));
    put(fd, data, size);
    put(fd, tail, sizeof(tail));
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

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0) return 0;
    char path[64];
    const int fd = memfd_create("events", 0);
    if (fd < 0) abort();
    if (data[0] & 1)
        put_record(fd, data + 1, size - 1);
    else
        put(fd, data + 1, size - 1);
    snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    rf_event_reader *reader;
    if (rf_event_reader_open(path, &reader) != RF_OK) abort();
    volatile unsigned sum = 0;
    rf_event e;
    rf_result r;
    while ((r = rf_event_reader_next(reader, &e)) == RF_OK) sum += touch(&e);
    if (r != RF_END && r != RF_ERROR_CORRUPT_DATA) abort();
    rf_event_reader_close(&reader);
    (void)sum;
    close(fd);
    return 0;
}
