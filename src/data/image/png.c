/* SPDX-License-Identifier: Apache-2.0 */
/* PNG through libpng, which reports errors by longjmp: what must survive one is kept in a struct outside of the
 * function. */
#include <png.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/memory.h"
#include "data/image/image.h"

typedef struct png_input {
    const char *path;
    const uint8_t *at, *end;
    size_t size;
    int64_t max_pixels;
    rf_array *out;
    rf_result result; /* RF_OK: libpng's failure, of which `message` tells */
    char message[128];
} png_input;

static void on_png_error(png_structp png, png_const_charp message)
{
    png_input *in = png_get_error_ptr(png);
    snprintf(in->message, sizeof(in->message), "%s", message);
    rf_error_one_line(in->message);
    png_longjmp(png, 1);
}

static void on_png_warning(png_structp png, png_const_charp message)
{
    (void)png;
    (void)message;
}

static void read_bytes(png_structp png, png_bytep data, size_t size)
{
    png_input *in = png_get_io_ptr(png);
    if ((size_t)(in->end - in->at) < size) png_error(png, "the file is truncated");
    memcpy(data, in->at, size);
    in->at += size;
}

/* All kinds of pixels become bytes: grey, grey and alpha, RGB, or RGB and alpha. */
static void ask_for_bytes(png_structp png, png_infop info)
{
    const int type = png_get_color_type(png, info);
    if (type == PNG_COLOR_TYPE_PALETTE) png_set_palette_to_rgb(png);
    if (type == PNG_COLOR_TYPE_GRAY && png_get_bit_depth(png, info) < 8) png_set_expand_gray_1_2_4_to_8(png);
    if (png_get_valid(png, info, PNG_INFO_tRNS)) png_set_tRNS_to_alpha(png);
    if (png_get_bit_depth(png, info) == 16) png_set_scale_16(png);
}

/* Nothing of this function's own is used after the jump. */
static bool decode_png(png_structp png, png_infop info, png_input *in)
{
    if (setjmp(png_jmpbuf(png))) return false;
    png_set_user_limits(png, RF_IMAGE_MAX_PIXELS, RF_IMAGE_MAX_PIXELS);
    png_set_read_fn(png, in, read_bytes);
    png_read_info(png, info);
    const uint32_t width = png_get_image_width(png, info), height = png_get_image_height(png, info);
    /* Deflate cannot shrink data by more than about 1032: a header that claims more is a lie, found before allocating.
     */
    if ((uint64_t)png_get_rowbytes(png, info) * height / 1100 > in->size) png_error(png, "the file is truncated");
    ask_for_bytes(png, info);
    const int passes = png_set_interlace_handling(png);
    png_read_update_info(png, info);
    const uint32_t channels = png_get_channels(png, info);
    in->result = rf_image_allocate(in->path, height, width, channels, in->max_pixels, in->out);
    if (in->result < 0) return false;
    const size_t row = (size_t)width * channels;
    if (png_get_rowbytes(png, info) != row) png_error(png, "a row has another size than its pixels");
    for (int pass = 0; pass < passes; pass++)
        for (uint32_t y = 0; y < height; y++) png_read_row(png, (uint8_t *)in->out->data + y * row, NULL);
    png_read_end(png, NULL);
    return true;
}

rf_result rf_png_decode(const char *path, const void *bytes, size_t size, int64_t max_pixels, rf_array *out)
{
    const uint8_t *begin = bytes;
    png_input in = {
        .path = path, .at = begin, .end = begin + size, .size = size, .max_pixels = max_pixels, .out = out
    };
    png_structp png = png_create_read_struct(PNG_LIBPNG_VER_STRING, &in, on_png_error, on_png_warning);
    png_infop info = png ? png_create_info_struct(png) : NULL;
    rf_result r = RF_OK;
    if (!info)
        r = RF_FAIL(RF_ERROR_OUT_OF_HOST_MEMORY, "%s: libpng has no memory", path);
    else if (!decode_png(png, info, &in))
        r = in.result < 0 ? in.result : RF_FAIL(RF_ERROR_CORRUPT_DATA, "%s: %s; copy the file again", path, in.message);
    png_destroy_read_struct(&png, &info, NULL);
    return r;
}
