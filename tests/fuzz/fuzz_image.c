/* SPDX-License-Identifier: Apache-2.0 */
/* PNG and JPEG files: whatever they hold, they are read or refused in one line. Two bits of the first byte are the
 * channels that are asked for, and the next says that the checksums of PNG chunks are put right first, so that what
 * they guard is reached. */
#include <string.h>

#include <zlib.h>

#include "base/error.h"
#include "data/image/image.h"
#include "fuzz.h"

enum { MAX_BYTES = 1 << 14, MOST_PIXELS = 1 << 14, SIGNATURE = 8, CHUNK = 12 };

static uint32_t read_size(const uint8_t *p)
{
    return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

/* Chunks: size of the data, name, data, checksum of name and data. */
static void repair_checksums(uint8_t *file, size_t size)
{
    for (size_t at = SIGNATURE; size >= at + CHUNK;) {
        const uint32_t data = read_size(file + at);
        if (data > size - at - CHUNK) return;
        const uint32_t sum = (uint32_t)crc32(0, file + at + 4, data + 4);
        for (int i = 0; i < 4; i++) file[at + 8 + data + (size_t)i] = (uint8_t)(sum >> (24 - 8 * i));
        at += CHUNK + data;
    }
}

FUZZ_TARGET(image)
{
    static const uint32_t channels[] = { 0, 1, 3, 4 };
    static uint8_t file[MAX_BYTES];
    if (size == 0 || size - 1 > MAX_BYTES) return 0;
    memcpy(file, data + 1, size - 1);
    if (data[0] & 4) repair_checksums(file, size - 1);
    rf_array image;
    const uint32_t wanted = channels[data[0] & 3];
    const rf_result r = rf_image_decode("image", file, size - 1, wanted, MOST_PIXELS, &image);
    if (r < 0) {
        PROMISE((r == RF_ERROR_CORRUPT_DATA || r == RF_ERROR_UNSUPPORTED) && !image.data);
        PROMISE(strncmp(rf_error_message(), "image: ", 7) == 0);
        promise_message();
        return 0;
    }
    const rf_shape s = image.shape;
    PROMISE(image.dtype == RF_U8 && s.rank == 3 && s.dim[0] * s.dim[1] <= MOST_PIXELS);
    PROMISE(wanted ? s.dim[2] == wanted : s.dim[2] >= 1 && s.dim[2] <= 4);
    /* A smaller and a larger one are made of its pixels. */
    static uint8_t resized[9 * 11 * 4];
    uint8_t least = 255, most = 0;
    const int64_t count = rf_shape_count(s);
    for (int64_t i = 0; i < count; i++) {
        const uint8_t value = ((const uint8_t *)image.data)[i];
        if (value < least) least = value;
        if (value > most) most = value;
    }
    PROMISE(rf_image_resize(&image, 9, 11, resized) == RF_OK);
    for (int64_t i = 0; i < 9 * 11 * s.dim[2]; i++) PROMISE(resized[i] >= least && resized[i] <= most);
    rf_array_free(&image);
    return 0;
}
