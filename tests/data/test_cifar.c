/* SPDX-License-Identifier: Apache-2.0 */
/* The binary versions of CIFAR-10 and CIFAR-100, whole and broken. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <ringfire/dataset.h>

#include "../support/expect.h"
#include "../support/folder.h"
#include "tests/room.h"

enum { PLANE = 1024, PIXELS = 3 * PLANE, MAX_RECORDS = 3 };

static char directory[SCRATCH_PATH];

/* Another value at each place of each image of each file. */
static uint8_t pixel_at(uint32_t file, uint32_t image, uint32_t channel, uint32_t place)
{
    return (uint8_t)(31 * file + 17 * image + 101 * channel + place * 7 + place / 32);
}

static void write_file(const char *folder, const char *name, uint32_t number, uint32_t num_records,
                       uint32_t label_bytes, uint8_t label, size_t cut)
{
    static uint8_t bytes[MAX_RECORDS * (2 + PIXELS)];
    char path[SCRATCH_PATH + 64];
    uint8_t *at = bytes;
    for (uint32_t i = 0; i < num_records; i++) {
        if (label_bytes == 2) *at++ = 3; /* the coarse one */
        *at++ = (uint8_t)(label + i);
        for (uint32_t c = 0; c < 3; c++)
            for (uint32_t p = 0; p < PLANE; p++) *at++ = pixel_at(number, i, c, p);
    }
    snprintf(path, sizeof(path), "%s/%s/%s", directory, folder, name);
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    const size_t size = (size_t)(at - bytes) - cut;
    assert_int_equal(fwrite(bytes, 1, size, f), size);
    assert_int_equal(fclose(f), 0);
}

static const char *make_folder(const char *name)
{
    static char path[SCRATCH_PATH + 64];
    snprintf(path, sizeof(path), "%s/%s", directory, name);
    assert_int_equal(mkdir(path, 0777), 0);
    return path;
}

/* Elements `first` and on are the images of one file. */
static void check_images(rf_dataset *d, uint32_t first, uint32_t file, uint32_t count, int32_t label)
{
    rf_iterator *it;
    const rf_element *e;
    OK(rf_iterator_create(d, 0, &it));
    for (uint32_t i = 0; i < first; i++) OK(rf_iterator_next(it, &e));
    for (uint32_t i = 0; i < count; i++) {
        OK(rf_iterator_next(it, &e));
        assert_int_equal(e->component[0].dtype, RF_U8);
        assert_true(rf_shape_equal(e->component[0].shape, RF_SHAPE(32, 32, 3)));
        assert_int_equal(*(const int32_t *)e->component[1].data, label + (int32_t)i);
        const uint8_t *image = e->component[0].data;
        for (uint32_t p = 0; p < PLANE; p++)
            for (uint32_t c = 0; c < 3; c++) assert_int_equal(image[p * 3 + c], pixel_at(file, i, c, p));
    }
    rf_iterator_destroy(&it);
}

TEST(test_ten_classes)
{
    rf_dataset *d;
    uint32_t classes = 0;
    char name[32];
    const char *folder = make_folder("ten");
    for (uint32_t i = 1; i <= 5; i++) {
        snprintf(name, sizeof(name), "data_batch_%u.bin", i);
        write_file("ten", name, i, i % 2 + 1, 1, 7, 0);
    }
    write_file("ten", "test_batch.bin", 6, 3, 1, 0, 0);
    OK(rf_dataset_from_cifar_directory(folder, RF_SPLIT_TRAIN, &classes, &d));
    assert_int_equal(classes, 10);
    assert_int_equal(rf_dataset_cardinality(d), 8);
    check_images(d, 0, 1, 2, 7);
    check_images(d, 2, 2, 1, 7);
    check_images(d, 6, 5, 2, 7);
    rf_dataset_destroy(&d);
    OK(rf_dataset_from_cifar_directory(folder, RF_SPLIT_TEST, NULL, &d));
    assert_int_equal(rf_dataset_cardinality(d), 3);
    check_images(d, 0, 6, 3, 0);
    rf_dataset_destroy(&d);
}

TEST(test_hundred_classes)
{
    rf_dataset *d;
    uint32_t classes = 0;
    const char *folder = make_folder("hundred");
    write_file("hundred", "train.bin", 1, 3, 2, 97, 0);
    write_file("hundred", "test.bin", 2, 1, 2, 50, 0);
    OK(rf_dataset_from_cifar_directory(folder, RF_SPLIT_TRAIN, &classes, &d));
    assert_int_equal(classes, 100);
    check_images(d, 0, 1, 3, 97);
    rf_dataset_destroy(&d);
}

TEST(test_broken)
{
    rf_dataset *d;
    const char *folder = make_folder("broken");
    FAILS(rf_dataset_from_cifar_directory(folder, RF_SPLIT_TEST, NULL, &d), RF_ERROR_NOT_FOUND,
          "broken: has neither test_batch.bin");
    write_file("broken", "test_batch.bin", 1, 2, 1, 0, 1);
    FAILS(rf_dataset_from_cifar_directory(folder, RF_SPLIT_TEST, NULL, &d), RF_ERROR_CORRUPT_DATA,
          "test_batch.bin: 6145 bytes are not a number of CIFAR-10 records");
    write_file("broken", "test_batch.bin", 1, 2, 1, 9, 0);
    FAILS(rf_dataset_from_cifar_directory(folder, RF_SPLIT_TEST, NULL, &d), RF_ERROR_CORRUPT_DATA,
          "image 1 has the label 10, but CIFAR-10 has classes 0 to 9");
    write_file("broken", "test_batch.bin", 1, 0, 1, 0, 0);
    FAILS(rf_dataset_from_cifar_directory(folder, RF_SPLIT_TEST, NULL, &d), RF_ERROR_CORRUPT_DATA, "0 bytes");
    /* One of the training files is missing. */
    write_file("broken", "data_batch_1.bin", 1, 2, 1, 0, 0);
    FAILS(rf_dataset_from_cifar_directory(folder, RF_SPLIT_TRAIN, NULL, &d), RF_ERROR_NOT_FOUND, "data_batch_2.bin");
    FAILS(rf_dataset_from_cifar_directory(NULL, RF_SPLIT_TRAIN, NULL, &d), RF_ERROR_INVALID_ARGUMENT,
          "directory is NULL");
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
    scratch_remove(directory);
    return 0;
}

TESTS(cifar, make_directory, remove_directory)
