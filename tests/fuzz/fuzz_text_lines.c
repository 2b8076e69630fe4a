/* SPDX-License-Identifier: Apache-2.0 */
/* Files of lines that are read in order: they give the lines that reading them at once gives, plain and gzipped, or
 * are refused in one line. The first byte chooses: 1  a file that is gzipped here, too 2  without empty lines. The
 * second one is the most that a line may have, times 8. */
#include <string.h>

#include <ringfire/readers.h>
#include <zlib.h>

#include "fuzz.h"
#include "records.h"
#include "text/lines.h"

enum { MOST = 1 << 16 };

/* Reads a text, whose lines should be `expected`; NULL: it is compressed, so that nothing is known, or UTF-16. */
static void read_file(const char *path, const rf_text_lines *expected, bool skip_empty, uint32_t most)
{
    rf_dataset *d;
    rf_iterator *it;
    const rf_element *e;
    const uint64_t count = rf_text_lines_count(expected);
    const rf_result made = rf_dataset_from_text_lines(
        &(rf_text_lines_params){ .paths = &path, .num_paths = 1, .max_bytes = most, .skip_empty = skip_empty }, &d);
    if (made < 0) {
        PROMISE((made == RF_ERROR_CORRUPT_DATA || made == RF_ERROR_UNSUPPORTED) && !expected && !d);
        promise_message();
        return;
    }
    PROMISE(rf_iterator_create(d, 0, &it) == RF_OK);
    uint64_t i = 0;
    rf_result r;
    while ((r = rf_iterator_next(it, &e)) == RF_OK) {
        const rf_array *a = &e->component[0];
        PROMISE(a->shape.dim[0] >= skip_empty && a->shape.dim[0] <= most);
        PROMISE(!memchr(a->data, '\n', (size_t)a->shape.dim[0]));
        if (!expected) continue;
        while (skip_empty && i < count && rf_text_lines_sizes(expected)[i] == 0) i++;
        PROMISE(i < count && rf_text_lines_sizes(expected)[i] == (size_t)a->shape.dim[0]);
        PROMISE(memcmp(a->data, rf_text_lines_texts(expected)[i++], (size_t)a->shape.dim[0]) == 0);
    }
    while (expected && skip_empty && i < count && rf_text_lines_sizes(expected)[i] == 0) i++;
    PROMISE(r == RF_END || r == RF_ERROR_INVALID_ARGUMENT || (!expected && r == RF_ERROR_CORRUPT_DATA));
    if (expected) PROMISE(r == RF_END ? i == count : rf_text_lines_sizes(expected)[i] > most);
    if (r < 0) promise_message();
    rf_iterator_destroy(&it);
    rf_dataset_destroy(&d);
}

static size_t compress_bytes(const uint8_t *bytes, size_t size, uint8_t *to, size_t room)
{
    z_stream z = {
        .next_in = (uint8_t *)(uintptr_t)bytes, .avail_in = (uInt)size, .next_out = to, .avail_out = (uInt)room
    };
    PROMISE(deflateInit2(&z, 1, Z_DEFLATED, 16 + MAX_WBITS, 8, Z_DEFAULT_STRATEGY) == Z_OK);
    PROMISE(deflate(&z, Z_FINISH) == Z_STREAM_END);
    PROMISE(deflateEnd(&z) == Z_OK);
    return room - z.avail_out;
}

FUZZ_TARGET(text_lines)
{
    static uint8_t packed[2 * MOST];
    rf_text_lines *expected = NULL;
    if (size < 2 || size > MOST) return 0;
    const bool gzipped = data[0] & 1, skip_empty = data[0] & 2;
    const uint32_t most = 8 * (uint32_t)data[1] + 1;
    const uint8_t *text = data + 2;
    size -= 2;
    if (!(size >= 2 && text[0] == 0x1f && text[1] == 0x8b)) {
        PROMISE(rf_text_lines_new(&expected) == RF_OK);
        const rf_result r = rf_text_lines_append(expected, (const char *)text, size);
        if (r < 0) {
            PROMISE(r == RF_ERROR_UNSUPPORTED);
            rf_text_lines_destroy(&expected);
        }
    }
    read_file(file_in_memory(text, size), expected, skip_empty, most);
    if (gzipped && expected)
        read_file(file_in_memory(packed, compress_bytes(text, size, packed, sizeof(packed))), expected, skip_empty,
                  most);
    rf_text_lines_destroy(&expected);
    return 0;
}
