/* SPDX-License-Identifier: Apache-2.0 */
/* Directories of image files for tests: JPEG where the library reads it, else PNG. */
#ifndef RF_TESTS_DATA_PICTURES_H
#define RF_TESTS_DATA_PICTURES_H

#include <stdio.h>
#include <sys/stat.h>

#include <png.h>

#include "tests/room.h"

#ifdef RF_HAVE_JPEG
#include <jpeglib.h>
#define PICTURE_FORMAT "jpg"
#else
#define PICTURE_FORMAT "png"
#endif

enum { PICTURE_MOST = 512 };

/* Smooth, with a different slope in each picture. */
static inline uint8_t picture_value(int picture, int y, int x, int c)
{
    return (uint8_t)((y * (picture % 5 + 1) + x * (picture % 3 + 1) + c * 40 + picture * 7) / 2);
}

static inline void write_picture(const char *path, int picture, int height, int width)
{
    static uint8_t pixels[PICTURE_MOST * PICTURE_MOST * 3];
    assert_true(height <= PICTURE_MOST && width <= PICTURE_MOST);
    for (int i = 0; i < height * width * 3; i++)
        pixels[i] = picture_value(picture, i / 3 / width, i / 3 % width, i % 3);
#ifdef RF_HAVE_JPEG
    struct jpeg_compress_struct z;
    struct jpeg_error_mgr errors;
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    z.err = jpeg_std_error(&errors);
    jpeg_create_compress(&z);
    jpeg_stdio_dest(&z, f);
    z.image_width = (JDIMENSION)width;
    z.image_height = (JDIMENSION)height;
    z.input_components = 3;
    z.in_color_space = JCS_RGB;
    jpeg_set_defaults(&z);
    jpeg_start_compress(&z, TRUE);
    for (int y = 0; y < height; y++) {
        JSAMPROW row = pixels + y * width * 3;
        jpeg_write_scanlines(&z, &row, 1);
    }
    jpeg_finish_compress(&z);
    jpeg_destroy_compress(&z);
    assert_int_equal(fclose(f), 0);
#else
    png_image image = { .version = PNG_IMAGE_VERSION,
                        .width = (png_uint_32)width,
                        .height = (png_uint_32)height,
                        .format = PNG_FORMAT_RGB };
    assert_true(png_image_write_to_file(&image, path, 0, pixels, 0, NULL));
#endif
}

/* Makes two classes in a directory that exists, and writes the pictures to them in turn. */
static inline void write_pictures(const char *directory, int count, int height, int width)
{
    char path[256];
    for (int i = -2; i < count; i++) {
        const int class_number = (i + 2) % 2;
        if (i < 0) {
            snprintf(path, sizeof(path), "%s/%d", directory, class_number);
            assert_int_equal(mkdir(path, 0700), 0);
        } else {
            snprintf(path, sizeof(path), "%s/%d/%04d." PICTURE_FORMAT, directory, class_number, i);
            write_picture(path, i, height, width);
        }
    }
}

#endif
