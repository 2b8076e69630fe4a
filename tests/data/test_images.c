/* SPDX-License-Identifier: Apache-2.0 */
/* Images: every kind of PNG pixel, JPEG where it is built in, channels, sizes; directories of classes. */
#include <math.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include <png.h>

#include "../support/folder.h"
#include "base/error.h"
#include "combined.h"
#include "data/image/image.h"
#include "data/slice.h"
#include "tests/room.h"

#ifdef RF_HAVE_JPEG
#include <jpeglib.h>
#endif

static char folder[SCRATCH_PATH];

static const char *in(const char *name)
{
    static char path[4][SCRATCH_PATH + 64];
    static int next;
    char *p = path[next++ % 4];
    snprintf(p, sizeof(path[0]), "%s/%s", folder, name);
    return p;
}

/* ---- writing ---- */

typedef struct png_kind {
    int color_type, bit_depth;
    bool interlaced, transparent; /* transparent: with a tRNS chunk */
} png_kind;

static const png_color colors[] = { { 10, 20, 30 }, { 200, 100, 0 }, { 0, 255, 7 }, { 90, 80, 70 } };

/* A sample of the image as it stands in the file. */
static unsigned sample(const png_kind *k, int y, int x, int c)
{
    const unsigned most = (1u << k->bit_depth) - 1;
    if (k->color_type == PNG_COLOR_TYPE_PALETTE) return (unsigned)(x + y) % 4;
    return (unsigned)(y * 7919 + x * 977 + c * 271) % (most + 1);
}

static int samples_of(const png_kind *k)
{
    switch (k->color_type) {
    case PNG_COLOR_TYPE_GRAY_ALPHA: return 2;
    case PNG_COLOR_TYPE_RGB: return 3;
    case PNG_COLOR_TYPE_RGB_ALPHA: return 4;
    default: return 1;
    }
}

static void fill_png_row(const png_kind *k, int y, int width, png_byte *row)
{
    memset(row, 0, 512);
    for (int i = 0; i < width * samples_of(k); i++) {
        const unsigned value = sample(k, y, i / samples_of(k), i % samples_of(k));
        const int bit = i * k->bit_depth;
        if (k->bit_depth == 16) {
            row[2 * i] = (png_byte)(value >> 8);
            row[2 * i + 1] = (png_byte)value;
        } else {
            row[bit / 8] |= (png_byte)(value << (8 - k->bit_depth - bit % 8));
        }
    }
}

static const char *write_png(const char *name, int height, int width, const png_kind *k)
{
    const char *path = in(name);
    FILE *f = fopen(path, "wb");
    png_structp png = png_create_write_struct(PNG_LIBPNG_VER_STRING, NULL, NULL, NULL);
    png_infop info = png_create_info_struct(png);
    assert_true(f && png && info && width <= 60);
    png_init_io(png, f);
    png_set_IHDR(png, info, (png_uint_32)width, (png_uint_32)height, k->bit_depth, k->color_type,
                 k->interlaced ? PNG_INTERLACE_ADAM7 : PNG_INTERLACE_NONE, PNG_COMPRESSION_TYPE_DEFAULT,
                 PNG_FILTER_TYPE_DEFAULT);
    if (k->color_type == PNG_COLOR_TYPE_PALETTE) png_set_PLTE(png, info, colors, 4);
    const png_byte alphas[] = { 255, 128, 0, 9 };
    png_color_16 through = { .gray = (png_uint_16)sample(k, 0, 1, 0) };
    through.red = (png_uint_16)sample(k, 0, 1, 0);
    through.green = (png_uint_16)sample(k, 0, 1, 1);
    through.blue = (png_uint_16)sample(k, 0, 1, 2);
    if (k->transparent) png_set_tRNS(png, info, alphas, 4, &through);
    png_write_info(png, info);
    const int passes = png_set_interlace_handling(png);
    png_byte row[512];
    for (int pass = 0; pass < passes; pass++)
        for (int y = 0; y < height; y++) {
            fill_png_row(k, y, width, row);
            png_write_row(png, row);
        }
    png_write_end(png, info);
    png_destroy_write_struct(&png, &info);
    assert_int_equal(fclose(f), 0);
    return path;
}

/* The pixel that a reader should make of it. Returns the number of channels. */
static int expect_pixel(const png_kind *k, int y, int x, uint8_t *out)
{
    unsigned v[4], n = (unsigned)samples_of(k);
    for (unsigned c = 0; c < n; c++) v[c] = sample(k, y, x, (int)c);
    if (k->color_type == PNG_COLOR_TYPE_PALETTE) {
        static const uint8_t alphas[] = { 255, 128, 0, 9 };
        const png_color color = colors[v[0]];
        const uint8_t rgba[] = { color.red, color.green, color.blue, alphas[v[0]] };
        memcpy(out, rgba, 4);
        return k->transparent ? 4 : 3;
    }
    bool through = true;
    for (unsigned c = 0; c < n; c++) {
        through = through && v[c] == sample(k, 0, 1, (int)c);
        out[c] = (uint8_t)(((uint64_t)v[c] * 255 * 2 + (1u << k->bit_depth) - 1) / 2 / ((1u << k->bit_depth) - 1));
    }
    if (!k->transparent) return (int)n;
    out[n] = through ? 0 : 255;
    return (int)n + 1;
}

static void test_png_pixels(void **state)
{
    (void)state;
    static const int kinds[][2] = { { PNG_COLOR_TYPE_GRAY, 1 },        { PNG_COLOR_TYPE_GRAY, 2 },
                                    { PNG_COLOR_TYPE_GRAY, 4 },        { PNG_COLOR_TYPE_GRAY, 8 },
                                    { PNG_COLOR_TYPE_GRAY, 16 },       { PNG_COLOR_TYPE_GRAY_ALPHA, 8 },
                                    { PNG_COLOR_TYPE_GRAY_ALPHA, 16 }, { PNG_COLOR_TYPE_RGB, 8 },
                                    { PNG_COLOR_TYPE_RGB, 16 },        { PNG_COLOR_TYPE_RGB_ALPHA, 8 },
                                    { PNG_COLOR_TYPE_RGB_ALPHA, 16 },  { PNG_COLOR_TYPE_PALETTE, 2 },
                                    { PNG_COLOR_TYPE_PALETTE, 4 },     { PNG_COLOR_TYPE_PALETTE, 8 } };
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
        for (int how = 0; how < 4; how++) {
            const png_kind k = { kinds[i][0], kinds[i][1], how & 1, how & 2 };
            if (k.transparent && (k.color_type & PNG_COLOR_MASK_ALPHA)) continue;
            rf_array image;
            OK(rf_image_read(write_png("one.png", 11, 13, &k), 0, &image));
            uint8_t pixel[4];
            const int channels = expect_pixel(&k, 0, 0, pixel);
            assert_true(rf_shape_equal(image.shape, RF_SHAPE(11, 13, channels)) && image.dtype == RF_U8);
            for (int p = 0; p < 11 * 13; p++) {
                expect_pixel(&k, p / 13, p % 13, pixel);
                for (int c = 0; c < channels; c++) /* 16 bits: libpng's own rounding is off by one at most. */
                    assert_true(abs(((const uint8_t *)image.data)[p * channels + c] - pixel[c]) <= (k.bit_depth == 16));
            }
            rf_array_free(&image);
        }
}

static void test_channels(void **state)
{
    (void)state;
    static const int types[] = { PNG_COLOR_TYPE_GRAY, PNG_COLOR_TYPE_GRAY_ALPHA, PNG_COLOR_TYPE_RGB,
                                 PNG_COLOR_TYPE_RGB_ALPHA };
    for (int i = 0; i < 4; i++) {
        const png_kind k = { types[i], 8, false, false };
        const char *path = write_png("channels.png", 5, 6, &k);
        for (uint32_t want = 1; want <= 4; want++) {
            rf_array image;
            if (want == 2) {
                FAILS(rf_image_read(path, want, &image), RF_ERROR_INVALID_ARGUMENT, "2 channels; give 1, 3, 4");
                continue;
            }
            OK(rf_image_read(path, want, &image));
            assert_true(rf_shape_equal(image.shape, RF_SHAPE(5, 6, want)));
            for (int p = 0; p < 30; p++) {
                uint8_t v[4];
                const uint8_t *is = (const uint8_t *)image.data + p * want;
                const int have = expect_pixel(&k, p / 6, p % 6, v);
                const double grey = have < 3 ? v[0] : 0.299 * v[0] + 0.587 * v[1] + 0.114 * v[2];
                if (want == 1) assert_true(fabs(is[0] - grey) <= 0.5);
                for (int c = 0; want > 1 && c < 3; c++) assert_int_equal(is[c], have < 3 ? v[0] : v[c]);
                if (want == 4) assert_int_equal(is[3], have % 2 ? 255 : v[have - 1]);
            }
            rf_array_free(&image);
        }
    }
}

static void test_refusals(void **state)
{
    (void)state;
    const png_kind k = { PNG_COLOR_TYPE_RGB, 8, false, false };
    const char *path = write_png("cut.png", 20, 20, &k);
    static uint8_t bytes[4096];
    FILE *f = fopen(path, "rb");
    assert_non_null(f);
    const size_t size = fread(bytes, 1, sizeof(bytes), f);
    fclose(f);
    rf_array image;
    for (size_t cut = 8; cut < size; cut += 7) {
        const rf_result r = rf_image_decode("cut.png", bytes, cut, 0, RF_IMAGE_MAX_PIXELS, &image);
        assert_int_equal(r, RF_ERROR_CORRUPT_DATA);
        assert_non_null(strstr(rf_error_message(), "cut.png: the file is truncated; copy the file again"));
        assert_null(image.data);
    }
    OK(rf_image_decode("whole.png", bytes, size, 0, 400, &image));
    rf_array_free(&image);
    FAILS(rf_image_decode("large.png", bytes, size, 0, 399, &image), RF_ERROR_UNSUPPORTED,
          "large.png: 20 x 20 pixels; images of up to 399 pixels can be read");
    bytes[size / 2] ^= 1;
    FAILS(rf_image_decode("bad.png", bytes, size, 0, RF_IMAGE_MAX_PIXELS, &image), RF_ERROR_CORRUPT_DATA, "bad.png: ");
    FAILS(rf_image_decode("text.png", "hello, world", 12, 0, RF_IMAGE_MAX_PIXELS, &image), RF_ERROR_UNSUPPORTED,
          "text.png: is neither a PNG nor a JPEG file");
    FAILS(rf_image_decode("empty.png", "", 0, 0, RF_IMAGE_MAX_PIXELS, &image), RF_ERROR_CORRUPT_DATA, "is empty");
    path = write_png("huge.png", 4, 4, &k);
    assert_int_equal(truncate(path, (off_t)1 << 36), 0); /* 64 GiB, of which hardly any are on the disk */
    FAILS(rf_image_read(path, 0, &image), RF_ERROR_CORRUPT_DATA, "huge.png: larger than the limit of 1073741824 bytes");
    assert_int_equal(unlink(path), 0);
    FAILS(rf_image_read(in("missing.png"), 0, &image), RF_ERROR_NOT_FOUND, "missing.png");
#ifndef RF_HAVE_JPEG
    FAILS(rf_image_decode("photo.jpg", "\xff\xd8\xff\xe0", 4, 0, RF_IMAGE_MAX_PIXELS, &image), RF_ERROR_UNSUPPORTED,
          "install libjpeg-dev");
#endif
}

/* ---- JPEG ---- */

#ifdef RF_HAVE_JPEG
static int smooth(int y, int x, int c)
{
    return 40 + 4 * y + (c == 1 ? 2 * x : 0) + (c == 2 ? 30 : 0);
}

static const char *write_jpeg(const char *name, int height, int width, int channels, bool progressive)
{
    struct jpeg_compress_struct z;
    struct jpeg_error_mgr errors;
    const char *path = in(name);
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    z.err = jpeg_std_error(&errors);
    jpeg_create_compress(&z);
    jpeg_stdio_dest(&z, f);
    z.image_width = (JDIMENSION)width;
    z.image_height = (JDIMENSION)height;
    z.input_components = channels;
    z.in_color_space = channels == 1 ? JCS_GRAYSCALE : channels == 3 ? JCS_RGB : JCS_CMYK;
    jpeg_set_defaults(&z);
    jpeg_set_quality(&z, 100, TRUE);
    if (progressive) jpeg_simple_progression(&z);
    jpeg_start_compress(&z, TRUE);
    JSAMPLE row[256];
    JSAMPROW rows = row;
    for (int y = 0; y < height; y++) {
        for (int i = 0; i < width * channels; i++) row[i] = (JSAMPLE)smooth(y, i / channels, i % channels);
        jpeg_write_scanlines(&z, &rows, 1);
    }
    jpeg_finish_compress(&z);
    jpeg_destroy_compress(&z);
    assert_int_equal(fclose(f), 0);
    return path;
}

static void test_jpeg(void **state)
{
    (void)state;
    rf_array image;
    for (int how = 0; how < 4; how++) {
        const int channels = how & 1 ? 1 : 3;
        const char *path = write_jpeg("one.jpg", 18, 21, channels, how & 2);
        OK(rf_image_read(path, 0, &image));
        assert_true(rf_shape_equal(image.shape, RF_SHAPE(18, 21, channels)));
        for (int p = 0; p < 18 * 21; p++)
            for (int c = 0; c < channels; c++)
                assert_true(abs(((const uint8_t *)image.data)[p * channels + c] - smooth(p / 21, p % 21, c)) <= 3);
        rf_array_free(&image);
        static uint8_t bytes[8192];
        FILE *f = fopen(path, "rb");
        assert_non_null(f);
        const size_t size = fread(bytes, 1, sizeof(bytes), f);
        fclose(f);
        /* The end of image alone may be missing. */
        for (size_t cut = 3; cut + 2 < size; cut += 11)
            FAILS(rf_image_decode("cut.jpg", bytes, cut, 0, RF_IMAGE_MAX_PIXELS, &image), RF_ERROR_CORRUPT_DATA,
                  "cut.jpg: ");
        FAILS(rf_image_decode("large.jpg", bytes, size, 0, 377, &image), RF_ERROR_UNSUPPORTED, "18 x 21 pixels");
    }
}

/* Inks of 0 to 255, as they are or as light, as CMYK or YCCK; with the Adobe marker or without. */
static void write_cmyk(const char *path, bool ycck, bool adobe)
{
    struct jpeg_compress_struct z;
    struct jpeg_error_mgr errors;
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    z.err = jpeg_std_error(&errors);
    jpeg_create_compress(&z);
    jpeg_stdio_dest(&z, f);
    z.image_width = 16;
    z.image_height = 8;
    z.input_components = 4;
    z.in_color_space = JCS_CMYK;
    jpeg_set_defaults(&z);
    if (ycck) jpeg_set_colorspace(&z, JCS_YCCK);
    jpeg_set_quality(&z, 100, TRUE);
    z.write_Adobe_marker = adobe;
    jpeg_start_compress(&z, TRUE);
    for (int y = 0; y < 8; y++) {
        JSAMPLE row[64];
        JSAMPROW rows = row;
        for (int i = 0; i < 64; i++)
            row[i] = (JSAMPLE)(adobe ? 255 - smooth(y, i / 4, i % 4) : smooth(y, i / 4, i % 4));
        jpeg_write_scanlines(&z, &rows, 1);
    }
    jpeg_finish_compress(&z);
    jpeg_destroy_compress(&z);
    assert_int_equal(fclose(f), 0);
}

static void test_cmyk(void **state)
{
    (void)state;
    const char *path = in("ink.jpg");
    for (int how = 0; how < 3; how++) { /* YCCK without the marker would be taken for CMYK */
        rf_array image;
        write_cmyk(path, how == 2, how > 0);
        OK(rf_image_read(path, 0, &image));
        assert_true(rf_shape_equal(image.shape, RF_SHAPE(8, 16, 3)));
        for (int p = 0; p < 8 * 16; p++)
            for (int c = 0; c < 3; c++) {
                const int light = 255 - smooth(p / 16, p % 16, c), black = 255 - smooth(p / 16, p % 16, 3);
                assert_true(abs(((const uint8_t *)image.data)[p * 3 + c] - light * black / 255) <= 4);
            }
        rf_array_free(&image);
        for (uint32_t channels = 1; channels <= 4; channels += channels == 1 ? 2 : 1) {
            OK(rf_image_read(path, channels, &image));
            assert_int_equal(image.shape.dim[2], channels);
            rf_array_free(&image);
        }
        FAILS(rf_image_read(path, 2, &image), RF_ERROR_INVALID_ARGUMENT, "2 channels");
    }
}

/* The header of a frame says 12 bits, or that it is lossless: that the file be copied again does not help. */
static void test_other_jpeg(void **state)
{
    (void)state;
    static uint8_t bytes[8192];
    FILE *f = fopen(write_jpeg("other.jpg", 8, 8, 3, false), "rb");
    rf_array image;
    assert_non_null(f);
    const size_t size = fread(bytes, 1, sizeof(bytes), f);
    fclose(f);
    size_t frame = 0;
    while (bytes[frame] != 0xff || bytes[frame + 1] != 0xc0) frame++;
    bytes[frame + 4] = 12;
    FAILS(rf_image_decode("deep.jpg", bytes, size, 0, RF_IMAGE_MAX_PIXELS, &image), RF_ERROR_UNSUPPORTED,
          "deep.jpg: Unsupported JPEG data precision 12; save it as");
    bytes[frame + 4] = 8;
    bytes[frame + 1] = 0xc3;
    FAILS(rf_image_decode("lossless.jpg", bytes, size, 0, RF_IMAGE_MAX_PIXELS, &image), RF_ERROR_UNSUPPORTED,
          "lossless.jpg: Unsupported JPEG process: SOF type 0xc3; save it as");
}
#endif

/* ---- sizes ---- */

/* The results of torch.nn.functional.interpolate(mode="bilinear", align_corners=False), rounded (make_resized.py). */
static void test_resize(void **state)
{
    (void)state;
#include "resized.h"
    for (size_t i = 0; i < sizeof(resized_cases) / sizeof(resized_cases[0]); i++) {
        const uint32_t *s = resized_cases[i].sizes, channels = s[4];
        uint8_t pixels[4096], is[4096];
        uint32_t seed = 7;
        for (uint32_t p = 0; p < s[0] * s[1] * channels; p++) {
            seed = seed * 1664525u + 1013904223u;
            pixels[p] = (uint8_t)(seed >> 24);
        }
        const rf_array image = { RF_U8, RF_SHAPE(s[0], s[1], channels), pixels };
        OK(rf_image_resize(&image, s[2], s[3], is));
        const uint8_t *expected = resized_pixels + resized_cases[i].first;
        for (uint32_t p = 0; p < s[2] * s[3] * channels; p++)
            if (abs(is[p] - expected[p]) > 0) fail_msg("case %zu, value %u: %d, not %d", i, p, is[p], expected[p]);
    }
}

/* ---- directories ---- */

static void make_directory(const char *name)
{
    assert_int_equal(mkdir(in(name), 0700), 0);
}

static void write_text(const char *name)
{
    FILE *f = fopen(in(name), "wb");
    assert_non_null(f);
    fputs("no image", f);
    assert_int_equal(fclose(f), 0);
}

enum { CATS = 3, DOGS = 4, IMAGES = CATS + DOGS };

/* pets/cat with 3 images, pets/dog with 4, of which one in a directory, and things that are none. */
static const char *make_pets(void)
{
    const png_kind grey = { PNG_COLOR_TYPE_GRAY, 8, false, false }, rgb = { PNG_COLOR_TYPE_RGB, 8, false, false };
    make_directory("pets");
    make_directory("pets/dog");
    make_directory("pets/dog/old");
    make_directory("pets/cat");
    make_directory("pets/.cache");
    make_directory("pets/empty");
    write_png("pets/dog/b.PNG", 4, 5, &rgb);
    write_png("pets/dog/a.png", 4, 5, &grey);
    write_png("pets/dog/old/a.png", 4, 5, &rgb);
    write_png("pets/dog/z.png", 4, 5, &rgb);
    write_png("pets/cat/2.png", 4, 5, &rgb);
    write_png("pets/cat/10.png", 4, 5, &grey);
    write_png("pets/cat/1.png", 4, 5, &rgb);
    write_png("pets/.cache/1.png", 4, 5, &rgb);
    write_png("pets/cat/.hidden.png", 4, 5, &rgb);
    write_text("pets/readme.png");
    write_text("pets/cat/notes.txt");
    assert_int_equal(symlink(".", in("pets/dog/loop")), 0);
    return in("pets");
}

static void test_directory(void **state)
{
    (void)state;
    rf_dataset *d, *out;
    rf_image_directory_params p = { .directory = in("pets") };
    OK(rf_dataset_from_image_directory(&p, &d));
    assert_int_equal(rf_dataset_cardinality(d), IMAGES);
    rf_element_spec spec;
    rf_dataset_spec(d, &spec);
    assert_true(rf_shape_equal(spec.shape[0], RF_SHAPE(4, 5, 3)) && spec.shape[1].rank == 0);
    OK(rf_dataset_batch(d, 3, RF_REMAINDER_KEEP, &out));
    static const char *const names[] = { "cat", "dog", "empty" };
    for (uint32_t c = 0; c < 3; c++) assert_string_equal(rf_dataset_class_name(out, c), names[c]);
    assert_null(rf_dataset_class_name(out, 3));
    rf_dataset_destroy(&out);
    rf_iterator *it;
    const rf_element *e;
    OK(rf_iterator_create(d, 0, &it));
    static const bool is_grey[IMAGES] = { false, true, false, true, false, false, false };
    for (int i = 0; i < IMAGES; i++) {
        OK(rf_iterator_next(it, &e));
        const uint8_t *pixels = e->component[0].data;
        assert_int_equal(*(const int32_t *)e->component[1].data, i >= CATS);
        assert_int_equal(pixels[3] == pixels[4] && pixels[4] == pixels[5], is_grey[i]);
    }
    assert_int_equal(rf_iterator_next(it, &e), RF_END);
    rf_iterator_destroy(&it);
    rf_dataset_destroy(&d);
    assert_null(rf_dataset_class_name(NULL, 0));
    d = count_from(0, 3);
    assert_null(rf_dataset_class_name(d, 0));
    rf_dataset_destroy(&d);
    FAILS(rf_dataset_from_image_directory(&(rf_image_directory_params){ .directory = in("pets/dog/old") }, &d),
          RF_ERROR_NOT_FOUND, "pets/dog/old: no images; each class has to be a sub-directory");
    FAILS(rf_dataset_from_image_directory(&(rf_image_directory_params){ .directory = in("none") }, &d),
          RF_ERROR_NOT_FOUND, "none: ");
    p.height = 3;
    FAILS(rf_dataset_from_image_directory(&p, &d), RF_ERROR_INVALID_ARGUMENT, "a height of 3 and a width of 0");
    p.width = 3;
    p.channels = 2;
    FAILS(rf_dataset_from_image_directory(&p, &d), RF_ERROR_INVALID_ARGUMENT, "2 channels; give 1, 3 or 4");
    p.channels = 0;
    p.height = p.width = 1 << 14;
    FAILS(rf_dataset_from_image_directory(&p, &d), RF_ERROR_INVALID_ARGUMENT, "16384 x 16384 pixels are more than");
}

static void test_other_sizes(void **state)
{
    (void)state;
    const png_kind rgb = { PNG_COLOR_TYPE_RGB, 8, false, false };
    make_directory("sizes");
    make_directory("sizes/one");
    write_png("sizes/one/a.png", 4, 5, &rgb);
    write_png("sizes/one/b.png", 6, 5, &rgb);
    rf_image_directory_params p = { .directory = in("sizes") };
    rf_dataset *d;
    rf_iterator *it;
    const rf_element *e;
    OK(rf_dataset_from_image_directory(&p, &d));
    OK(rf_iterator_create(d, 0, &it));
    OK(rf_iterator_next(it, &e));
    for (int again = 0; again < 2; again++)
        FAILS(rf_iterator_next(it, &e), RF_ERROR_INVALID_ARGUMENT,
              "b.png: 6 x 5 pixels, but the first image has 4 x 5; give a height and a width");
    rf_iterator_destroy(&it);
    rf_dataset_destroy(&d);
    p.height = 8;
    p.width = 3;
    p.channels = 1;
    OK(rf_dataset_from_image_directory(&p, &d));
    OK(rf_iterator_create(d, 0, &it));
    for (int i = 0; i < 2; i++) {
        rf_array image;
        uint8_t expected[24];
        OK(rf_iterator_next(it, &e));
        assert_true(rf_shape_equal(e->component[0].shape, RF_SHAPE(8, 3, 1)));
        OK(rf_image_read(in(i ? "sizes/one/b.png" : "sizes/one/a.png"), 1, &image));
        OK(rf_image_resize(&image, 8, 3, expected));
        assert_memory_equal(e->component[0].data, expected, sizeof(expected));
        rf_array_free(&image);
    }
    rf_iterator_destroy(&it);
    /* An image that is gone when its turn comes is named, and the others can be read. */
    assert_int_equal(unlink(in("sizes/one/a.png")), 0);
    OK(rf_iterator_create(d, 0, &it));
    FAILS(rf_iterator_next(it, &e), RF_ERROR_NOT_FOUND, "sizes/one/a.png");
    rf_iterator_destroy(&it);
    APPLY(d, rf_dataset_skip(d, 1, &applied_));
    OK(rf_iterator_create(d, 0, &it));
    OK(rf_iterator_next(it, &e));
    rf_iterator_destroy(&it);
    rf_dataset_destroy(&d);
}

/* The labels as numbers, so that elements can be compared. */
static rf_result sum_pixels(void *user, const rf_element *in_element, rf_element *out)
{
    (void)user;
    const rf_array *a = &in_element->component[0];
    int32_t sum = *(const int32_t *)in_element->component[1].data * 1000000;
    for (int64_t i = 0; i < rf_shape_count(a->shape); i++) sum += ((const uint8_t *)a->data)[i] * (int32_t)(i + 1);
    *(int32_t *)out->component[0].data = sum;
    return RF_OK;
}

static rf_dataset *sums(uint32_t height)
{
    rf_dataset *d;
    const rf_element_spec spec = { .num_components = 1, .dtype = { RF_I32 } };
    OK(rf_dataset_from_image_directory(
        &(rf_image_directory_params){ .directory = in("pets"), .height = height, .width = height }, &d));
    APPLY(d, rf_dataset_map(d, sum_pixels, NULL, &spec, &applied_));
    APPLY(d, rf_dataset_shuffle(d, IMAGES, 3, RF_SHUFFLE_EACH_PASS, &applied_));
    return d;
}

static void test_positions_and_shares(void **state)
{
    (void)state;
    expect_resumes_everywhere(sums(0), sums(0));
    expect_other_pipeline(sums(3), sums(0));
    int32_t all[MOST_NUMBERS], part[MOST_NUMBERS];
    for (int by_file = 0; by_file < 2; by_file++) {
        rf_dataset *d = sums(0), *mine;
        int total = 0;
        int64_t sum = 0;
        assert_int_equal(read_pass(d, 0, all), 2 * IMAGES);
        for (int i = 0; i < IMAGES; i++) sum += all[2 * i + 1];
        APPLY(d, rf_dataset_batch(d, 2, RF_REMAINDER_KEEP, &applied_));
        for (uint32_t w = 0; w < 2; w++) {
            OK(rf_dataset_slice(
                d, &(rf_slice_params){ .worker = w, .num_workers = 2, .by_file = by_file, .split = halve }, &mine));
            const int n = read_pass(mine, 0, part);
            for (int i = 0; i < n; i += part[i] + 1)
                for (int row = 0; row < part[i]; row++, total++) sum -= part[i + 1 + row];
            rf_dataset_destroy(&mine);
        }
        assert_int_equal(total, IMAGES);
        assert_int_equal(sum, 0);
        rf_dataset_destroy(&d);
    }
}

/* A file that is no image but has the name of one is named when its turn comes, at once; a good link is an image. */
static void test_special_files(void **state)
{
    (void)state;
    const png_kind rgb = { PNG_COLOR_TYPE_RGB, 8, false, false };
    make_directory("special");
    make_directory("special/one");
    write_png("special/one/a.png", 4, 5, &rgb);
    assert_int_equal(mkfifo(in("special/one/b.png"), 0600), 0);
    assert_int_equal(symlink("nowhere", in("special/one/c.png")), 0);
    assert_int_equal(symlink("/dev/zero", in("special/one/d.png")), 0);
    assert_int_equal(symlink("a.png", in("special/one/e.png")), 0);
    rf_dataset *d;
    rf_iterator *it;
    const rf_element *e;
    OK(rf_dataset_from_image_directory(&(rf_image_directory_params){ .directory = in("special") }, &d));
    assert_int_equal(rf_dataset_cardinality(d), 5);
    OK(rf_iterator_create(d, 0, &it));
    OK(rf_iterator_next(it, &e));
    FAILS(rf_iterator_next(it, &e), RF_ERROR_IO, "b.png: is not a regular file");
    rf_iterator_destroy(&it);
    APPLY(d, rf_dataset_ignore_errors(d, RF_IGNORE_SILENTLY, &applied_));
    OK(rf_iterator_create(d, 0, &it));
    for (int i = 0; i < 2; i++) OK(rf_iterator_next(it, &e));
    assert_int_equal(rf_iterator_next(it, &e), RF_END);
    assert_int_equal(rf_dataset_ignored_errors(d), 3);
    rf_iterator_destroy(&it);
    rf_dataset_destroy(&d);
    rf_array image;
    FAILS(rf_image_read(in("special/one/b.png"), 0, &image), RF_ERROR_IO, "is not a regular file");
    FAILS(rf_image_read(in("special"), 0, &image), RF_ERROR_IO, "is not a regular file");
}

/* A damaged image stands in nobody's way. */
static void test_damaged_images(void **state)
{
    (void)state;
    const png_kind rgb = { PNG_COLOR_TYPE_RGB, 8, false, false };
    make_directory("damaged");
    make_directory("damaged/one");
    make_directory("damaged/two");
    write_text("damaged/one/a.png");
    write_png("damaged/one/b.png", 4, 5, &rgb);
    write_text("damaged/two/a.jpg");
    write_png("damaged/two/b.png", 7, 9, &rgb);
    assert_int_equal(truncate(in("damaged/two/b.png"), 60), 0);
    write_png("damaged/two/c.png", 4, 5, &rgb);
    rf_image_directory_params p = { .directory = in("damaged") };
    rf_dataset *d;
    OK(rf_dataset_from_image_directory(&p, &d)); /* with the size of the first one that can be read */
    rf_element_spec spec;
    rf_dataset_spec(d, &spec);
    assert_true(rf_shape_equal(spec.shape[0], RF_SHAPE(4, 5, 3)));
    rf_dataset_destroy(&d);
    p.height = p.width = 4;
    OK(rf_dataset_from_image_directory(&p, &d));
    APPLY(d, rf_dataset_shuffle(d, 100, 1, RF_SHUFFLE_EACH_PASS, &applied_)); /* a permutation of the files' numbers */
    APPLY(d, rf_dataset_ignore_errors(d, RF_IGNORE_SILENTLY, &applied_));
    APPLY(d, rf_dataset_batch(d, 2, RF_REMAINDER_DROP, &applied_));
    assert_int_equal(rf_dataset_cardinality(d), RF_CARDINALITY_UNKNOWN);
    for (uint64_t epoch = 0; epoch < 3; epoch++) {
        rf_iterator *it;
        const rf_element *e;
        int32_t labels = 0;
        OK(rf_iterator_create(d, epoch, &it));
        OK(rf_iterator_next(it, &e));
        for (int i = 0; i < 2; i++) labels += ((const int32_t *)e->component[1].data)[i];
        assert_int_equal(labels, 1); /* one of each class */
        assert_int_equal(rf_iterator_next(it, &e), RF_END);
        assert_int_equal(rf_dataset_ignored_errors(d), 3 * (epoch + 1));
        rf_iterator_destroy(&it);
    }
    rf_dataset_destroy(&d);
    make_directory("nothing");
    make_directory("nothing/one");
    write_text("nothing/one/a.png");
    write_text("nothing/one/b.png");
    FAILS(rf_dataset_from_image_directory(&(rf_image_directory_params){ .directory = in("nothing") }, &d),
          RF_ERROR_UNSUPPORTED, "no image can be read, of 2: ");
    assert_non_null(strstr(rf_error_message(), "nothing/one/a.png: is neither a PNG nor a JPEG file"));
}

static int open_images(void **state)
{
    (void)state;
    scratch(folder);
    make_pets();
    return 0;
}

static int close_images(void **state)
{
    (void)state;
    scratch_remove(folder);
    return 0;
}

TEST_PROGRAM(images)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_png_pixels),    cmocka_unit_test(test_channels),
        cmocka_unit_test(test_refusals),
#ifdef RF_HAVE_JPEG
        cmocka_unit_test(test_jpeg),          cmocka_unit_test(test_cmyk),
        cmocka_unit_test(test_other_jpeg),
#endif
        cmocka_unit_test(test_resize),        cmocka_unit_test(test_directory),
        cmocka_unit_test(test_other_sizes),   cmocka_unit_test(test_positions_and_shares),
        cmocka_unit_test(test_special_files), cmocka_unit_test(test_damaged_images),
    };
    return cmocka_run_group_tests(tests, open_images, close_images);
}
