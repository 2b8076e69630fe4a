/* SPDX-License-Identifier: Apache-2.0 */
/* IDX files, whole and broken. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <zlib.h>

#include <ringfire/dataset.h>

#include "../support/expect.h"
#include "../support/folder.h"
#include "tests/room.h"

static char directory[SCRATCH_PATH];
static char path_buffer[4][256];

static const char *in_directory(const char *name)
{
    static int turn;
    char *path = path_buffer[turn++ % 4];
    snprintf(path, sizeof(path_buffer[0]), "%s/%s", directory, name);
    return path;
}

static const char *write_file(const char *name, const void *data, size_t size)
{
    const char *path = in_directory(name);
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(data, 1, size, f), size);
    assert_int_equal(fclose(f), 0);
    return path;
}

/* Images [3,2,2], pixel values 0 .. 11. */
static const uint8_t images[] = {
    0, 0, 8, 3, 0, 0, 0, 3, 0, 0, 0, 2, 0, 0, 0, 2, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11
};
static const uint8_t labels[] = { 0, 0, 8, 1, 0, 0, 0, 3, 5, 6, 7 };

static size_t gzip(const void *data, size_t size, uint8_t *out, size_t capacity)
{
    z_stream z = {
        .next_in = (Bytef *)(uintptr_t)data, .avail_in = (uInt)size, .next_out = out, .avail_out = (uInt)capacity
    };
    assert_int_equal(deflateInit2(&z, 9, Z_DEFLATED, 16 + MAX_WBITS, 9, Z_DEFAULT_STRATEGY), Z_OK);
    assert_int_equal(deflate(&z, Z_FINISH), Z_STREAM_END);
    deflateEnd(&z);
    return capacity - z.avail_out;
}

static void check_images(const char *path)
{
    rf_array a;
    OK(rf_idx_read(path, &a));
    assert_int_equal(a.dtype, RF_U8);
    assert_true(rf_shape_equal(a.shape, RF_SHAPE(3, 2, 2)));
    for (int i = 0; i < 12; i++) assert_int_equal(((uint8_t *)a.data)[i], i);
    rf_array_free(&a);
    assert_null(a.data);
}

TEST(test_plain_and_gzip)
{
    uint8_t packed[256];
    check_images(write_file("plain", images, sizeof(images)));
    size_t size = gzip(images, sizeof(images), packed, sizeof(packed));
    check_images(write_file("packed", packed, size));
    /* Two gzip members in a row are one file. */
    size = gzip(images, 10, packed, sizeof(packed));
    size += gzip(images + 10, sizeof(images) - 10, packed + size, sizeof(packed) - size);
    check_images(write_file("members", packed, size));
}

TEST(test_element_types)
{
    static const uint8_t i8[] = { 0, 0, 9, 1, 0, 0, 0, 1, 0xFE }, i16[] = { 0, 0, 11, 1, 0, 0, 0, 1, 0xFF, 0xFD },
                         i32[] = { 0, 0, 12, 1, 0, 0, 0, 1, 0xFF, 0xFF, 0xFF, 0xFC },
                         f32[] = { 0, 0, 13, 1, 0, 0, 0, 1, 0x40, 0x20, 0, 0 },
                         f64[] = { 0, 0, 14, 1, 0, 0, 0, 1, 0xC0, 0x04, 0, 0, 0, 0, 0, 0 };
    static const struct {
        const uint8_t *bytes;
        size_t size;
        rf_dtype dtype;
        double value;
    } files[] = {
        { i8, sizeof(i8), RF_I32, -2 },    { i16, sizeof(i16), RF_I32, -3 },   { i32, sizeof(i32), RF_I32, -4 },
        { f32, sizeof(f32), RF_F32, 2.5 }, { f64, sizeof(f64), RF_F32, -2.5 },
    };
    for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
        rf_array a;
        OK(rf_idx_read(write_file("typed", files[i].bytes, files[i].size), &a));
        assert_int_equal(a.dtype, files[i].dtype);
        assert_true((a.dtype == RF_F32 ? (double)*(float *)a.data : *(int32_t *)a.data) == files[i].value);
        rf_array_free(&a);
    }
}

static void expect_failure(const char *path, rf_result result, const char *text)
{
    rf_array a;
    assert_int_equal(rf_idx_read(path, &a), result);
    assert_null(a.data);
    if (!strstr(rf_error_message(), text)) fail_msg("message is '%s', should contain '%s'", rf_error_message(), text);
    assert_non_null(strstr(rf_error_message(), path)); /* the thing is named */
    assert_null(strchr(rf_error_message(), '\n'));
}

TEST(test_damaged_files)
{
    uint8_t packed[256], broken[300];
    for (size_t size = 0; size < sizeof(images); size++)
        expect_failure(write_file("cut", images, size), RF_ERROR_CORRUPT_DATA,
                       size < 4 ? "not an IDX file" : "truncated");
    const size_t packed_size = gzip(images, sizeof(images), packed, sizeof(packed));
    for (size_t size = 2; size < packed_size; size++)
        expect_failure(write_file("cut.gz", packed, size), RF_ERROR_CORRUPT_DATA, "truncated");
    /* No single bit flip after the header goes unnoticed, but for padding bits, which change nothing. */
    unsigned noticed = 0;
    for (size_t bit = 80; bit < packed_size * 8; bit++) {
        memcpy(broken, packed, packed_size);
        broken[bit / 8] ^= (uint8_t)(1u << bit % 8);
        rf_array a;
        const char *flipped = write_file("flip.gz", broken, packed_size);
        if (rf_idx_read(flipped, &a) == RF_ERROR_CORRUPT_DATA)
            noticed++;
        else
            check_images(flipped);
        rf_array_free(&a);
    }
    assert_true(noticed + 8 > packed_size * 8 - 80);
    memcpy(broken, images, sizeof(images));
    broken[sizeof(images)] = 1;
    expect_failure(write_file("long", broken, sizeof(images) + 1), RF_ERROR_CORRUPT_DATA, "announces");
    const size_t long_size = gzip(broken, sizeof(images) + 1, packed, sizeof(packed));
    expect_failure(write_file("long.gz", packed, long_size), RF_ERROR_CORRUPT_DATA, "announces");
    broken[2] = 7;
    expect_failure(write_file("type", broken, sizeof(images)), RF_ERROR_CORRUPT_DATA, "element type 0x07");
    broken[2] = 8;
    broken[3] = 7;
    expect_failure(write_file("rank", broken, sizeof(images)), RF_ERROR_CORRUPT_DATA, "7 dimensions");
    static const uint8_t huge[] = { 0, 0, 14, 3, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255 };
    expect_failure(write_file("huge", huge, sizeof(huge)), RF_ERROR_CORRUPT_DATA, "overflow");
    /* Claims of gigabytes in a small file are found before memory is taken. */
    static const uint8_t large[] = { 0, 0, 8, 1, 255, 255, 255, 255 };
    expect_failure(write_file("large", large, sizeof(large)), RF_ERROR_CORRUPT_DATA, "truncated");
    const size_t size = gzip(large, sizeof(large), packed, sizeof(packed));
    expect_failure(write_file("large.gz", packed, size), RF_ERROR_CORRUPT_DATA, "truncated");
    expect_failure(in_directory("absent"), RF_ERROR_NOT_FOUND, "cannot open");
    rf_array a;
    assert_int_equal(rf_idx_read(directory, &a), RF_ERROR_IO);
}

TEST(test_pairs)
{
    char image_path[256], label_path[256];
    strcpy(image_path, write_file("train-images-idx3-ubyte", images, sizeof(images)));
    strcpy(label_path, write_file("train-labels.idx1-ubyte", labels, sizeof(labels)));
    rf_dataset *d;
    OK(rf_dataset_from_mnist_directory(directory, RF_SPLIT_TRAIN, &d));
    rf_element_spec spec;
    rf_dataset_spec(d, &spec);
    assert_true(rf_shape_equal(spec.shape[0], RF_SHAPE(2, 2, 1)));
    assert_int_equal(spec.dtype[1], RF_I32);
    assert_int_equal(rf_dataset_cardinality(d), 3);
    rf_iterator *it;
    const rf_element *e;
    OK(rf_iterator_create(d, 0, &it));
    OK(rf_iterator_next(it, &e));
    assert_int_equal(*(int32_t *)e->component[1].data, 5);
    rf_iterator_destroy(&it);
    rf_dataset_destroy(&d);
    assert_int_equal(rf_dataset_from_mnist_directory(directory, RF_SPLIT_TEST, &d), RF_ERROR_NOT_FOUND);
    assert_non_null(strstr(rf_error_message(), "t10k-images-idx3-ubyte.gz"));
    assert_int_equal(rf_dataset_from_idx(label_path, image_path, &d), RF_ERROR_CORRUPT_DATA);
    assert_non_null(strstr(rf_error_message(), "is it the label file?"));
    assert_int_equal(rf_dataset_from_idx(image_path, image_path, &d), RF_ERROR_CORRUPT_DATA);
    assert_non_null(strstr(rf_error_message(), "is it the image file?"));
    uint8_t fewer[10];
    memcpy(fewer, labels, sizeof(fewer));
    fewer[7] = 2;
    assert_int_equal(rf_dataset_from_idx(image_path, write_file("fewer", fewer, sizeof(fewer)), &d),
                     RF_ERROR_CORRUPT_DATA);
    assert_non_null(strstr(rf_error_message(), "2 labels for the 3 images"));
    assert_null(d);
}

static int make_directory(void **state)
{
    (void)state;
    scratch(directory);
    return 0;
}

static int remove_directory(void **state)
{
    (void)state;
    static const char *const names[] = { "plain",
                                         "packed",
                                         "members",
                                         "typed",
                                         "cut",
                                         "cut.gz",
                                         "flip.gz",
                                         "long",
                                         "long.gz",
                                         "type",
                                         "rank",
                                         "huge",
                                         "large",
                                         "large.gz",
                                         "train-images-idx3-ubyte",
                                         "train-labels.idx1-ubyte",
                                         "fewer" };
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) unlink(in_directory(names[i]));
    return rmdir(directory);
}

TESTS(idx, make_directory, remove_directory)
