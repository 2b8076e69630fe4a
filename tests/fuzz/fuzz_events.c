/* SPDX-License-Identifier: Apache-2.0 */
/* Event files: whatever stands in one, it is read or refused. The first byte chooses what the rest is:
 *   0  a file as it is
 *   1  the contents of one record
 *   2  a file whose checksums are put right, which no fuzzer finds by itself; so are lengths beyond its end */
#include <string.h>

#include <ringfire/events.h>

#include "fuzz.h"
#include "records.h"

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
    rf_event_reader *reader;
    PROMISE(rf_event_reader_open(file_in_memory(file, size), &reader) == RF_OK);
    volatile unsigned sum = 0;
    rf_event e;
    rf_result r;
    while ((r = rf_event_reader_next(reader, &e)) == RF_OK) sum += touch(&e);
    PROMISE(r == RF_END || r == RF_ERROR_CORRUPT_DATA);
    rf_event_reader_close(&reader);
    (void)sum;
}

FUZZ_TARGET(events)
{
    if (size == 0) return 0;
    uint8_t *file = malloc(size + RECORD_FRAME);
    PROMISE(file);
    size_t n = size - 1;
    if (data[0] % 3 == 1) {
        n = put_record(file, data + 1, size - 1);
    } else if (n > 0) {
        memcpy(file, data + 1, n);
        if (data[0] % 3 == 2) put_records_right(file, n);
    }
    read_file(file, n);
    free(file);
    return 0;
}
