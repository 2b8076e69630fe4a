/* SPDX-License-Identifier: Apache-2.0 */
/* Image files, whichever of the formats they have. */
#include <string.h>

#include "base/error.h"
#include "base/memory.h"
#include "base/platform.h"
#include "data/image/image.h"

rf_result rf_image_decode(const char *path, const void *bytes, size_t size, uint32_t channels, int64_t max_pixels,
                          rf_array *out)
{
    rf_result r;
    memset(out, 0, sizeof(*out));
    if (size >= 8 && memcmp(bytes, "\x89PNG\r\n\x1a\n", 8) == 0)
        r = rf_png_decode(path, bytes, size, max_pixels, out);
    else if (size >= 3 && memcmp(bytes, "\xff\xd8\xff", 3) == 0)
        r = rf_jpeg_decode(path, bytes, size, max_pixels, out);
    else if (size == 0)
        r = RF_FAIL(RF_ERROR_CORRUPT_DATA, "%s: is empty; copy the file again", path);
    else
        r = RF_FAIL(RF_ERROR_UNSUPPORTED, "%s: is neither a PNG nor a JPEG file", path);
    if (r == RF_OK) r = rf_image_convert(path, channels, out);
    if (r < 0) rf_array_free(out);
    return r;
}

rf_result rf_image_read(const char *path, uint32_t channels, rf_array *out)
{
    RF_REQUIRE(path && out, "rf_image_read: %s is NULL", path ? "out" : "path");
    memset(out, 0, sizeof(*out));
    RF_REQUIRE(channels <= 4 && channels != 2, "rf_image_read: %u channels; give 1, 3, 4, or 0 for those of the file",
               channels);
    void *bytes = NULL;
    size_t size = 0;
    RF_TRY(rf_file_read(path, RF_IMAGE_MAX_BYTES, &bytes, &size));
    const rf_result r = rf_image_decode(path, bytes, size, channels, RF_IMAGE_MAX_PIXELS, out);
    rf_free(bytes);
    return r;
}

rf_result rf_image_decode_to(const void *bytes, size_t size, rf_array *out)
{
    const int64_t *d = out->shape.dim;
    rf_array image;
    RF_TRY(rf_image_decode("the image", bytes, size, (uint32_t)d[2], RF_IMAGE_MAX_PIXELS, &image));
    const rf_result r = rf_image_resize(&image, (uint32_t)d[0], (uint32_t)d[1], out->data);
    rf_array_free(&image);
    return r;
}
