/* SPDX-License-Identifier: Apache-2.0 */
#include "data/image/image.h"

#include <math.h>
#include <string.h>

#include "base/error.h"
#include "base/memory.h"

rf_result rf_image_allocate(const char *path, uint64_t height, uint64_t width, uint32_t channels, int64_t max_pixels,
                            rf_array *out)
{
    if (height == 0 || width == 0 || height > UINT32_MAX || width > UINT32_MAX)
        return RF_FAIL(RF_ERROR_CORRUPT_DATA, "%s: an image of %llu x %llu pixels", path, (unsigned long long)height,
                       (unsigned long long)width);
    if (height * width > (uint64_t)max_pixels)
        return RF_FAIL(RF_ERROR_UNSUPPORTED, "%s: %llu x %llu pixels; images of up to %lld pixels can be read", path,
                       (unsigned long long)height, (unsigned long long)width, (long long)max_pixels);
    *out = (rf_array){ RF_U8, RF_SHAPE((int64_t)height, (int64_t)width, channels),
                       rf_calloc((size_t)(height * width), channels) };
    return out->data ? RF_OK : rf_error_context(RF_ERROR_OUT_OF_HOST_MEMORY, "%s", path);
}

void rf_image_to_bytes(const void *pixels, rf_dtype dtype, size_t first, size_t count, uint8_t *out)
{
    if (dtype == RF_U8) {
        memcpy(out, (const uint8_t *)pixels + first, count);
        return;
    }
    const float *from = (const float *)pixels + first;
    for (size_t i = 0; i < count; i++) {
        const float v = from[i] > 0 ? (from[i] < 1 ? from[i] : 1) : 0; /* NaN: 0 */
        out[i] = (uint8_t)(v * 255 + 0.5f);
    }
}

/* ---- channels ---- */

static void convert_pixel(const uint8_t *from, uint32_t have, uint8_t *to, uint32_t want)
{
    const bool grey = have <= 2;
    const uint8_t r = from[0], g = grey ? r : from[1], b = grey ? r : from[2];
    if (want == 1) {
        *to = grey ? r : (uint8_t)((299 * r + 587 * g + 114 * b + 500) / 1000);
        return;
    }
    to[0] = r;
    to[1] = g;
    to[2] = b;
    if (want == 4) to[3] = have % 2 == 0 ? from[have - 1] : 255;
}

rf_result rf_image_convert(const char *path, uint32_t want, rf_array *image)
{
    const uint32_t have = (uint32_t)image->shape.dim[2];
    if (want == 0 || want == have) return RF_OK;
    const size_t pixels = (size_t)image->shape.dim[0] * (size_t)image->shape.dim[1];
    uint8_t *to = rf_calloc(pixels, want);
    if (!to) return rf_error_context(RF_ERROR_OUT_OF_HOST_MEMORY, "%s", path);
    const uint8_t *from = image->data;
    for (size_t i = 0; i < pixels; i++) convert_pixel(from + i * have, have, to + i * want, want);
    rf_free(image->data);
    image->data = to;
    image->shape.dim[2] = want;
    return RF_OK;
}

/* ---- sizes ---- */

/* The parts of a row or column of the result: (1 - part) of `low` and `part` of `high`. */
typedef struct resize_tap {
    uint32_t low, high;
    float part;
} resize_tap;

static resize_tap find_tap(uint32_t place, uint32_t from, uint32_t to)
{
    const double at = ((double)place + 0.5) * (double)from / (double)to - 0.5, inside = at > 0 ? at : 0;
    const uint32_t low = (uint32_t)inside;
    return (resize_tap){ low, low + 1 < from ? low + 1 : low, (float)(inside - (double)low) };
}

rf_result rf_image_resize(const rf_array *in, uint32_t height, uint32_t width, uint8_t *out)
{
    const uint32_t h = (uint32_t)in->shape.dim[0], w = (uint32_t)in->shape.dim[1], c = (uint32_t)in->shape.dim[2];
    const uint8_t *pixels = in->data;
    if (h == height && w == width) {
        memcpy(out, pixels, (size_t)h * w * c);
        return RF_OK;
    }
    resize_tap *columns = RF_NEW_ARRAY(resize_tap, width);
    if (!columns) return RF_ERROR_OUT_OF_HOST_MEMORY;
    for (uint32_t x = 0; x < width; x++) columns[x] = find_tap(x, w, width);
    for (uint32_t y = 0; y < height; y++) {
        const resize_tap row = find_tap(y, h, height);
        const uint8_t *upper = pixels + (size_t)row.low * w * c, *lower = pixels + (size_t)row.high * w * c;
        for (uint32_t x = 0; x < width; x++)
            for (uint32_t k = 0; k < c; k++) {
                const size_t left = (size_t)columns[x].low * c + k, right = (size_t)columns[x].high * c + k;
                const float part = columns[x].part;
                const float above = (float)upper[left] + part * ((float)upper[right] - (float)upper[left]);
                const float below = (float)lower[left] + part * ((float)lower[right] - (float)lower[left]);
                *out++ = (uint8_t)floorf(above + row.part * (below - above) + 0.5f);
            }
    }
    rf_free(columns);
    return RF_OK;
}

rf_result rf_image_check_component(const char *what, const char *name, rf_dtype dtype, rf_shape shape, bool variable)
{
    const int64_t *d = shape.dim;
    char text[128];
    RF_REQUIRE(dtype == RF_U8 && shape.rank == 3 && d[0] > 0 && d[1] > 0 && (d[2] == 1 || d[2] == 3 || d[2] == 4),
               "%s '%s' is %s %s; an image is u8 [height,width,channels] of 1, 3 or 4 channels", what, name,
               rf_dtype_name(dtype), rf_shape_format(shape, text, sizeof(text)));
    RF_REQUIRE(d[0] <= RF_IMAGE_MAX_PIXELS && d[1] <= RF_IMAGE_MAX_PIXELS / d[0],
               "%s '%s': %lld x %lld pixels are more than %d", what, name, (long long)d[0], (long long)d[1],
               RF_IMAGE_MAX_PIXELS);
    RF_REQUIRE(!variable, "%s '%s' is an image, whose size cannot vary", what, name);
    return RF_OK;
}
