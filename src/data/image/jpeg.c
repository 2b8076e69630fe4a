/* SPDX-License-Identifier: Apache-2.0 */
/* JPEG through libjpeg, which is optional and reports errors by a function that must not return. */
#include <stdio.h>

#include "base/error.h"
#include "base/memory.h"
#include "data/image/image.h"

#ifdef RF_HAVE_JPEG

#include <jerror.h>
#include <jpeglib.h>
#include <setjmp.h>
#include <stdlib.h>

/* More than an honest progressive image has; each of them costs a walk over all of it. */
enum { MAX_SCANS = 500 };

typedef struct jpeg_input {
    struct jpeg_decompress_struct z;
    struct jpeg_error_mgr errors;
    struct jpeg_progress_mgr progress;
    jmp_buf jump;
    const char *path;
    const uint8_t *bytes;
    size_t size;
    int64_t max_pixels;
    rf_array *out;
    uint8_t *ink;     /* a row of CMYK */
    rf_result result; /* RF_OK: libjpeg's failure, of which `message` tells */
    int code;         /* of it */
    char message[JMSG_LENGTH_MAX];
} jpeg_input;

static void on_jpeg_error(j_common_ptr z)
{
    jpeg_input *in = z->client_data;
    z->err->format_message(z, in->message);
    rf_error_one_line(in->message);
    in->code = z->err->msg_code;
    longjmp(in->jump, 1);
}

/* Where data is missing or damaged libjpeg makes pixels up and goes on: that is a failure here, but for remarks that do
 * not concern the pixels. */
static void on_jpeg_message(j_common_ptr z, int level)
{
    if (level >= 0) return;
    const int code = z->err->msg_code;
    if (code != JWRN_EXTRANEOUS_DATA && code != JWRN_ADOBE_XFORM) on_jpeg_error(z);
}

static void on_jpeg_progress(j_common_ptr z)
{
    jpeg_input *in = z->client_data;
    if (in->z.input_scan_number <= MAX_SCANS) return;
    snprintf(in->message, sizeof(in->message), "more than %d scans", MAX_SCANS);
    longjmp(in->jump, 1);
}

/* Whether this is one of JPEG's forms that no reader of photographs knows. */
static bool is_other_form(int code)
{
    return code == JERR_BAD_PRECISION || code == JERR_SOF_UNSUPPORTED || code == JERR_ARITH_NOTIMPL ||
           code == JERR_NOT_COMPILED || code == JERR_NOTIMPL || code == JERR_CCIR601_NOTIMPL ||
           code == JERR_FRACT_SAMPLE_NOTIMPL || code == JERR_CONVERSION_NOTIMPL || code == JERR_COMPONENT_COUNT;
}

/* CMYK as RGB. Programs that write the Adobe marker store how much light each ink lets through, others how much ink
 * there is. */
static void ink_to_light(const uint8_t *ink, bool inverted, uint32_t width, uint8_t *rgb)
{
    for (uint32_t x = 0; x < width; x++, ink += 4, rgb += 3)
        for (int c = 0; c < 3; c++) {
            const uint32_t light = inverted ? ink[c] : 255u - ink[c], black = inverted ? ink[3] : 255u - ink[3];
            rgb[c] = (uint8_t)((light * black + 127) / 255);
        }
}

/* Allocates what is written, for a file whose header was read. */
static rf_result prepare_output(jpeg_input *in)
{
    struct jpeg_decompress_struct *z = &in->z;
    const bool cmyk = z->num_components == 4;
    if (z->num_components != 1 && z->num_components != 3 && !cmyk)
        return RF_FAIL(RF_ERROR_UNSUPPORTED, "%s: a JPEG image of %d channels; convert it to RGB", in->path,
                       z->num_components);
    z->out_color_space = cmyk ? JCS_CMYK : z->num_components == 1 ? JCS_GRAYSCALE : JCS_RGB;
    RF_TRY(rf_image_allocate(in->path, z->image_height, z->image_width, z->num_components == 1 ? 1 : 3, in->max_pixels,
                             in->out));
    if (!cmyk) return RF_OK;
    in->ink = rf_calloc(z->image_width, 4);
    return in->ink ? RF_OK : rf_error_context(RF_ERROR_OUT_OF_HOST_MEMORY, "%s", in->path);
}

/* Nothing of this function's own is used after the jump. */
static bool decode_jpeg(jpeg_input *in)
{
    struct jpeg_decompress_struct *z = &in->z;
    if (setjmp(in->jump)) return false;
    jpeg_create_decompress(z);
    z->client_data = in;
    z->progress = &in->progress;
    jpeg_mem_src(z, in->bytes, (unsigned long)in->size);
    jpeg_read_header(z, TRUE);
    in->result = prepare_output(in);
    if (in->result < 0) return false;
    jpeg_start_decompress(z);
    while (z->output_scanline < z->output_height) {
        uint8_t *to =
            (uint8_t *)in->out->data + (size_t)z->output_scanline * z->output_width * (size_t)in->out->shape.dim[2];
        JSAMPROW row = in->ink ? in->ink : to;
        jpeg_read_scanlines(z, &row, 1);
        if (in->ink) ink_to_light(in->ink, z->saw_Adobe_marker, z->output_width, to);
    }
    jpeg_finish_decompress(z);
    return true;
}

rf_result rf_jpeg_decode(const char *path, const void *bytes, size_t size, int64_t max_pixels, rf_array *out)
{
    jpeg_input in = { .path = path, .bytes = bytes, .size = size, .max_pixels = max_pixels, .out = out };
    in.z.err = jpeg_std_error(&in.errors);
    in.z.client_data = &in;
    in.errors.error_exit = on_jpeg_error;
    in.errors.emit_message = on_jpeg_message;
    in.progress.progress_monitor = on_jpeg_progress;
    rf_result r = RF_OK;
    if (!decode_jpeg(&in))
        r = in.result < 0 ? in.result
            : is_other_form(in.code)
                ? RF_FAIL(RF_ERROR_UNSUPPORTED, "%s: %s; save it as a JPEG of 8 bits, or as PNG", path, in.message)
                : RF_FAIL(RF_ERROR_CORRUPT_DATA, "%s: %s; copy the file again", path, in.message);
    jpeg_destroy_decompress(&in.z);
    rf_free(in.ink);
    return r;
}

/* ---- writing ---- */

typedef struct jpeg_output {
    struct jpeg_compress_struct z;
    struct jpeg_error_mgr errors;
    jmp_buf jump;
    const void *pixels;
    rf_dtype dtype;
    uint8_t *row;
    unsigned char *bytes; /* of malloc() */
    unsigned long size;
    char message[JMSG_LENGTH_MAX];
} jpeg_output;

static void on_jpeg_write_error(j_common_ptr z)
{
    jpeg_output *to = z->client_data;
    z->err->format_message(z, to->message);
    longjmp(to->jump, 1);
}

static void on_jpeg_write_message(j_common_ptr z, int level)
{
    (void)z;
    (void)level;
}

/* Nothing of this function's own is used after the jump. */
static bool encode_jpeg(jpeg_output *to, uint32_t width, uint32_t height, uint32_t channels, int quality)
{
    struct jpeg_compress_struct *z = &to->z;
    if (setjmp(to->jump)) return false;
    jpeg_create_compress(z);
    z->client_data = to;
    jpeg_mem_dest(z, &to->bytes, &to->size);
    z->image_height = height;
    z->image_width = width;
    z->input_components = (int)channels;
    z->in_color_space = channels == 1 ? JCS_GRAYSCALE : JCS_RGB;
    jpeg_set_defaults(z);
    jpeg_set_quality(z, quality, TRUE);
    jpeg_start_compress(z, TRUE);
    while (z->next_scanline < z->image_height) {
        const size_t n = (size_t)width * channels;
        rf_image_to_bytes(to->pixels, to->dtype, z->next_scanline * n, n, to->row);
        jpeg_write_scanlines(z, &to->row, 1);
    }
    jpeg_finish_compress(z);
    return true;
}

rf_result rf_jpeg_encode(const void *pixels, rf_dtype dtype, uint32_t width, uint32_t height, uint32_t channels,
                         int quality, unsigned char **out, size_t *size)
{
    jpeg_output to = { .pixels = pixels, .dtype = dtype, .row = rf_calloc(width, channels) };
    *out = NULL;
    if (!to.row) return rf_error_context(RF_ERROR_OUT_OF_HOST_MEMORY, "JPEG of %u x %u", width, height);
    to.z.err = jpeg_std_error(&to.errors);
    to.z.client_data = &to;
    to.errors.error_exit = on_jpeg_write_error;
    to.errors.emit_message = on_jpeg_write_message;
    const bool ok = encode_jpeg(&to, width, height, channels, quality);
    jpeg_destroy_compress(&to.z);
    rf_free(to.row);
    if (ok) {
        *out = to.bytes;
        *size = to.size;
        return RF_OK;
    }
    free(to.bytes);
    return RF_FAIL(RF_ERROR_INTERNAL, "JPEG of %u x %u: %s", width, height, to.message);
}

#else

rf_result rf_jpeg_decode(const char *path, const void *bytes, size_t size, int64_t max_pixels, rf_array *out)
{
    (void)bytes;
    (void)size;
    (void)max_pixels;
    (void)out;
    return RF_FAIL(RF_ERROR_UNSUPPORTED,
                   "%s: this library was built without libjpeg and reads no JPEG files; install libjpeg-dev (Debian's "
                   "name) and build it again, or convert the file to PNG",
                   path);
}

rf_result rf_jpeg_encode(const void *pixels, rf_dtype dtype, uint32_t width, uint32_t height, uint32_t channels,
                         int quality, unsigned char **out, size_t *size)
{
    (void)pixels;
    (void)dtype;
    (void)width;
    (void)height;
    (void)channels;
    (void)quality;
    (void)out;
    (void)size;
    return RF_FAIL(RF_ERROR_UNSUPPORTED,
                   "this library was built without libjpeg and writes no JPEG files; write a PNG file, or install "
                   "libjpeg-dev (Debian's name) and build it again");
}

#endif
