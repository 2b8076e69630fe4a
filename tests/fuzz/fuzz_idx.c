/* SPDX-License-Identifier: Apache-2.0 */
/* IDX and gzip reader: whatever the file holds, it is read or refused, without more memory than its size allows. The
 * first byte says what it is: 0 as it is, 1 compressed first, so that what stands in a gzip file is reached. */
#include <string.h>

#include <zlib.h>

#include "base/error.h"
#include "data/pipeline.h"
#include "fuzz.h"

static rf_result decode(const uint8_t *bytes, size_t size, rf_array *out)
{
    const rf_result r = rf_idx_decode("idx", bytes, size, out);
    if (r < 0) {
        PROMISE((r == RF_ERROR_CORRUPT_DATA || r == RF_ERROR_UNSUPPORTED) && rf_error_message()[0] && !out->data);
        return r;
    }
    const int64_t count = rf_shape_count(out->shape);
    PROMISE(count >= 0 && (count == 0 || out->data));
    /* Touch both ends. */
    volatile unsigned char sum = 0;
    const unsigned char *data = out->data;
    if (count > 0) sum = (unsigned char)(data[0] + data[(size_t)count * rf_dtype_size(out->dtype) - 1]);
    (void)sum;
    return r;
}

/* Compressed or not, the same comes out. */
static void decode_both(const uint8_t *bytes, size_t size)
{
    static uint8_t packed[1 << 17];
    static z_stream z;
    if (!z.state && deflateInit2(&z, 1, Z_DEFLATED, 16 + 9, 1, Z_DEFAULT_STRATEGY) != Z_OK) abort();
    PROMISE(deflateReset(&z) == Z_OK);
    z.next_in = (Bytef *)(uintptr_t)bytes;
    z.avail_in = (uInt)size;
    z.next_out = packed;
    z.avail_out = sizeof(packed);
    if (deflate(&z, Z_FINISH) != Z_STREAM_END) return;
    rf_array one = { 0 }, two = { 0 };
    const bool gzip = size >= 2 && bytes[0] == 0x1f && bytes[1] == 0x8b; /* packed twice: unpacked once */
    const rf_result r = decode(bytes, size, &one), s = decode(packed, sizeof(packed) - z.avail_out, &two);
    PROMISE(gzip || (r == RF_OK) == (s == RF_OK));
    if (r == RF_OK && s == RF_OK) {
        PROMISE(one.dtype == two.dtype && rf_shape_equal(one.shape, two.shape));
        const size_t total = (size_t)rf_shape_count(one.shape) * rf_dtype_size(one.dtype);
        PROMISE(total == 0 || memcmp(one.data, two.data, total) == 0);
    }
    rf_array_free(&one);
    rf_array_free(&two);
}

FUZZ_TARGET(idx)
{
    if (size == 0) return 0;
    rf_array array;
    if (data[0] & 1) {
        decode_both(data + 1, size - 1);
    } else if (decode(data + 1, size - 1, &array) == RF_OK) {
        rf_array_free(&array);
    }
    return 0;
}
