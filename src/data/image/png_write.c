/* SPDX-License-Identifier: Apache-2.0 */
/* PNG through libpng, which reports errors by longjmp: what must survive one is kept in a struct outside of the
 * function. */
#include <png.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "data/image/image.h"

typedef struct encoder {
    const void *pixels;
    rf_dtype dtype;
    uint32_t width, height, channels;
    unsigned char *row;
    unsigned char *out;
    size_t size, capacity;
    bool no_memory;
    char message[128];
} encoder;

static void on_error(png_structp png, png_const_charp message)
{
    encoder *e = png_get_error_ptr(png);
    if (!e->no_memory) snprintf(e->message, sizeof(e->message), "%s", message);
    png_longjmp(png, 1);
}

static void on_warning(png_structp png, png_const_charp message)
{
    (void)png;
    (void)message;
}

static void on_write(png_structp png, png_bytep data, size_t size)
{
    encoder *e = png_get_io_ptr(png);
    if (e->size + size > e->capacity) {
        const size_t capacity = 2 * (e->size + size);
        unsigned char *grown = realloc(e->out, capacity);
        if (!grown) {
            e->no_memory = true;
            png_error(png, "no memory");
        }
        e->out = grown;
        e->capacity = capacity;
    }
    memcpy(e->out + e->size, data, size);
    e->size += size;
}

static void on_flush(png_structp png)
{
    (void)png;
}

/* Nothing of this function's own is used after the jump. */
static bool png_encode(png_structp png, png_infop info, encoder *e)
{
    static const int types[] = { PNG_COLOR_TYPE_GRAY, PNG_COLOR_TYPE_GRAY_ALPHA, PNG_COLOR_TYPE_RGB,
                                 PNG_COLOR_TYPE_RGB_ALPHA };
    if (setjmp(png_jmpbuf(png))) return false;
    png_set_user_limits(png, RF_IMAGE_MAX_PIXELS, RF_IMAGE_MAX_PIXELS);
    png_set_write_fn(png, e, on_write, on_flush);
    png_set_IHDR(png, info, e->width, e->height, 8, types[e->channels - 1], PNG_INTERLACE_NONE,
                 PNG_COMPRESSION_TYPE_DEFAULT, PNG_FILTER_TYPE_DEFAULT);
    png_write_info(png, info);
    for (uint32_t y = 0; y < e->height; y++) {
        const size_t n = (size_t)e->width * e->channels;
        rf_image_to_bytes(e->pixels, e->dtype, y * n, n, e->row);
        png_write_row(png, e->row);
    }
    png_write_end(png, info);
    return true;
}

rf_result rf_png_encode(const void *pixels, rf_dtype dtype, uint32_t width, uint32_t height, uint32_t channels,
                        unsigned char **out, size_t *size)
{
    encoder e = { .pixels = pixels, .dtype = dtype, .width = width, .height = height, .channels = channels };
    *out = NULL;
    e.row = malloc((size_t)width * channels);
    png_structp png = e.row ? png_create_write_struct(PNG_LIBPNG_VER_STRING, &e, on_error, on_warning) : NULL;
    png_infop info = png ? png_create_info_struct(png) : NULL;
    const bool made = info != NULL, ok = made && png_encode(png, info, &e);
    png_destroy_write_struct(png ? &png : NULL, info ? &info : NULL);
    free(e.row);
    if (ok) {
        *out = e.out;
        *size = e.size;
        return RF_OK;
    }
    free(e.out);
    if (!made || e.no_memory) return RF_FAIL(RF_ERROR_OUT_OF_HOST_MEMORY, "PNG of %u x %u: no memory", width, height);
    return RF_FAIL(RF_ERROR_INTERNAL, "PNG of %u x %u: %s", width, height, e.message);
}
