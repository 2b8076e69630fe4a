/* SPDX-License-Identifier: Apache-2.0 */
/* Images that are written and read again, and what is refused. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "../support/expect.h"
#include "../support/folder.h"
#include "base/error.h"
#include <ringfire/readers.h>

enum { HEIGHT = 19, WIDTH = 23, MOST = HEIGHT * WIDTH * 4 };

static char folder[SCRATCH_PATH];
static uint8_t bytes[MOST];
static float values[MOST];

static const char *in(const char *name)
{
    static char path[SCRATCH_PATH + 64];
    snprintf(path, sizeof(path), "%s/%s", folder, name);
    return path;
}

/* Smooth, as a photograph. */
static rf_array picture(rf_dtype dtype, int channels)
{
    for (int i = 0; i < HEIGHT * WIDTH * channels; i++) {
        bytes[i] = (uint8_t)(i / channels / WIDTH * 5 + i / channels % WIDTH * 4 + i % channels * 20);
        values[i] = (float)bytes[i] / 255;
    }
    return (rf_array){ dtype, RF_SHAPE(HEIGHT, WIDTH, channels), dtype == RF_U8 ? (void *)bytes : values };
}

TEST(test_png)
{
    for (int channels = 1; channels <= 4; channels++)
        for (int f32 = 0; f32 < 2; f32++) {
            const rf_array image = picture(f32 ? RF_F32 : RF_U8, channels);
            rf_array again;
            OK(rf_image_write(in("a.PNG"), &image, NULL));
            OK(rf_image_read(in("a.PNG"), 0, &again));
            assert_true(rf_shape_equal(again.shape, image.shape));
            assert_memory_equal(again.data, bytes, (size_t)(HEIGHT * WIDTH * channels));
            rf_array_free(&again);
        }
    /* Noise, which is larger than its pixels, and more of it than a buffer that grows begins with. */
    enum { SIDE = 300 };
    uint8_t *noise = malloc(SIDE * SIDE);
    assert_non_null(noise);
    for (int i = 0; i < SIDE * SIDE; i++) noise[i] = (uint8_t)((unsigned)i * 2654435761u >> 13);
    const rf_array image = { RF_U8, RF_SHAPE(SIDE, SIDE), noise };
    rf_array again;
    OK(rf_image_write(in("noise.png"), &image, NULL));
    OK(rf_image_read(in("noise.png"), 0, &again));
    assert_true(rf_shape_equal(again.shape, RF_SHAPE(SIDE, SIDE, 1)));
    assert_memory_equal(again.data, noise, SIDE * SIDE);
    rf_array_free(&again);
    free(noise);
}

TEST(test_values_end_at_black_and_white)
{
    const float given[] = { -1, 0, 0.499f / 255, 0.501f / 255, 0.5f, 1, 2, INFINITY };
    static const uint8_t expected[] = { 0, 0, 0, 1, 128, 255, 255, 255 };
    const rf_array image = { RF_F32, RF_SHAPE(2, 4), (void *)(uintptr_t)given };
    rf_array again;
    OK(rf_image_write(in("b.png"), &image, NULL));
    OK(rf_image_read(in("b.png"), 0, &again));
    assert_memory_equal(again.data, expected, sizeof(expected));
    rf_array_free(&again);
}

#ifdef RF_HAVE_JPEG
static long size_of(const char *path)
{
    FILE *f = fopen(path, "rb");
    assert_non_null(f);
    assert_int_equal(fseek(f, 0, SEEK_END), 0);
    const long size = ftell(f);
    fclose(f);
    return size;
}

TEST(test_jpeg)
{
    for (int channels = 1; channels <= 3; channels += 2) {
        const rf_array image = picture(RF_U8, channels);
        rf_array again;
        OK(rf_image_write(in("a.jpg"), &image, NULL));
        OK(rf_image_read(in("a.jpg"), 0, &again));
        assert_true(rf_shape_equal(again.shape, image.shape));
        double squares = 0;
        for (int i = 0; i < HEIGHT * WIDTH * channels; i++)
            squares += pow((double)((const uint8_t *)again.data)[i] - bytes[i], 2);
        assert_true(sqrt(squares / (HEIGHT * WIDTH * channels)) < 4); /* pixels, but for some of their colour */
        rf_array_free(&again);
        const long usual = size_of(in("a.jpg"));
        OK(rf_image_write(in("a.JPEG"), &image, &(rf_image_write_params){ .quality = 10 }));
        assert_true(size_of(in("a.JPEG")) < usual);
    }
    const rf_array alpha = picture(RF_U8, 4);
    FAILS(rf_image_write(in("c.jpg"), &alpha, NULL), RF_ERROR_INVALID_ARGUMENT, "JPEG has no alpha");
    assert_int_equal(access(in("c.jpg"), F_OK), -1);
}
#else
TEST(test_jpeg)
{
    const rf_array image = picture(RF_U8, 3);
    FAILS(rf_image_write(in("a.jpg"), &image, NULL), RF_ERROR_UNSUPPORTED, "was built without libjpeg");
}
#endif

TEST(test_refusals)
{
    rf_array image = picture(RF_U8, 3);
    FAILS(rf_image_write(in("a.gif"), &image, NULL), RF_ERROR_INVALID_ARGUMENT, "ends with neither .png nor .jpg");
    FAILS(rf_image_write(".png", &image, NULL), RF_ERROR_INVALID_ARGUMENT, "'.png' ends with neither");
    FAILS(rf_image_write(in("none/a.png"), &image, NULL), RF_ERROR_IO, "none/a.png");
    FAILS(rf_image_write(in("a.jpg"), &image, &(rf_image_write_params){ .quality = 101 }), RF_ERROR_INVALID_ARGUMENT,
          "quality is 101; give 1 to 100");
    image.shape = RF_SHAPE(HEIGHT, WIDTH, 5);
    FAILS(rf_image_write(in("a.png"), &image, NULL), RF_ERROR_INVALID_ARGUMENT, "with 1 to 4 channels");
    image.shape = RF_SHAPE(2, HEIGHT, WIDTH, 3);
    FAILS(rf_image_write(in("a.png"), &image, NULL), RF_ERROR_INVALID_ARGUMENT, "give [height, width, channels]");
    image.shape = RF_SHAPE(0, WIDTH, 3);
    FAILS(rf_image_write(in("a.png"), &image, NULL), RF_ERROR_INVALID_ARGUMENT, "it has to have pixels");
    image.shape = RF_SHAPE(1, 65501, 1);
    FAILS(rf_image_write(in("a.jpg"), &image, NULL), RF_ERROR_INVALID_ARGUMENT, "at most 65500 in a row");
    image = (rf_array){ RF_I32, RF_SHAPE(1, 1), values };
    FAILS(rf_image_write(in("a.png"), &image, NULL), RF_ERROR_INVALID_ARGUMENT, "the image is i32, not u8 or f32");
    image.dtype = RF_F32;
    values[0] = NAN;
    FAILS(rf_image_write(in("a.png"), &image, NULL), RF_ERROR_INVALID_ARGUMENT, "value 0 of the image is no number");
    assert_int_equal(access(in("a.gif"), F_OK), -1);
}

static int open_folder(void **state)
{
    (void)state;
    scratch(folder);
    return 0;
}

static int close_folder(void **state)
{
    (void)state;
    scratch_remove(folder);
    return 0;
}

TESTS(image_write, open_folder, close_folder)
