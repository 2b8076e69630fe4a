/* SPDX-License-Identifier: Apache-2.0 */
/*
 * .npy files. The first byte says what is read: 0 a whole file, 1 the text of a header (up to a line feed) with the
 * array's bytes behind it, to which magic, version and length are added. An array that is accepted is written and read
 * again, and must be the same then.
 */
#include <string.h>

#include "base/error.h"
#include "fuzz.h"
#include "one_file.h"
#include "persist/arrays/interchange_files.h"

static void read_file(const uint8_t *bytes, size_t size)
{
    one_file file = { .bytes = bytes, .size = size }, written = { 0 };
    const rf_file_ops ops = one_file_ops(&file), more = one_file_ops(&written);
    rf_array one, two;
    const rf_result r = rf_npy_read_with(&ops, "f", &one);
    if (r < 0) {
        PROMISE((r == RF_ERROR_CORRUPT_DATA || r == RF_ERROR_UNSUPPORTED) && rf_error_message()[0] && !one.data);
        return;
    }
    const size_t total = (size_t)rf_shape_count(one.shape) * rf_dtype_size(one.dtype);
    PROMISE(one.data && total < size);
    PROMISE(rf_npy_write_with(&more, "f", &one) == RF_OK);
    PROMISE(rf_npy_read_with(&more, "f", &two) == RF_OK);
    PROMISE(one.dtype == two.dtype && rf_shape_equal(one.shape, two.shape) && memcmp(one.data, two.data, total) == 0);
    rf_array_free(&one);
    rf_array_free(&two);
    free(written.own);
}

static void read_header(const uint8_t *data, size_t size)
{
    const uint8_t *end = memchr(data, '\n', size);
    const size_t length = end ? (size_t)(end - data) + 1 : size;
    uint8_t *file = malloc(12 + size);
    PROMISE(file);
    const uint8_t head[12] = {
        0x93, 'N', 'U', 'M', 'P', 'Y', 2, 0, (uint8_t)length, (uint8_t)(length >> 8), (uint8_t)(length >> 16)
    };
    memcpy(file, head, sizeof(head));
    if (size > 0) memcpy(file + sizeof(head), data, size);
    read_file(file, sizeof(head) + size);
    free(file);
}

FUZZ_TARGET(npy)
{
    if (size == 0) return 0;
    if (data[0] & 1)
        read_header(data + 1, size - 1);
    else
        read_file(data + 1, size - 1);
    return 0;
}
