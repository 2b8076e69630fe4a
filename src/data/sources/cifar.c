/* SPDX-License-Identifier: Apache-2.0 */
/* The binary versions of CIFAR-10 and CIFAR-100 (Krizhevsky 2009; https://www.cs.toronto.edu/~kriz/cifar.html). */
#include <string.h>
#include <unistd.h>

#include "base/platform.h"
#include "data/pipeline.h"

/* A record is labels of a byte each, of which the last one is the class, and the planes of red, green and blue. */
enum { SIDE = 32, CHANNELS = 3, PLANE = SIDE * SIDE, PIXELS = PLANE * CHANNELS };

typedef struct cifar_form {
    uint32_t label_bytes, num_classes;
    const char *train[5], *test; /* names of its files */
} cifar_form;

static const cifar_form forms[] = {
    { 1,
      10,
      { "data_batch_1.bin", "data_batch_2.bin", "data_batch_3.bin", "data_batch_4.bin", "data_batch_5.bin" },
      "test_batch.bin" },
    { 2, 100, { "train.bin" }, "test.bin" },
};

static void decode_record(const uint8_t *record, uint32_t label_bytes, uint8_t *image, int32_t *label)
{
    *label = record[label_bytes - 1];
    for (uint32_t p = 0; p < PLANE; p++)
        for (uint32_t c = 0; c < CHANNELS; c++) image[p * CHANNELS + c] = record[label_bytes + c * PLANE + p];
}

static bool grow_array(rf_array *array, size_t used, size_t size)
{
    void *grown = rf_calloc(size, 1);
    if (!grown) return false;
    if (used) memcpy(grown, array->data, used);
    rf_free(array->data);
    array->data = grown;
    return true;
}

rf_result rf_cifar_decode(const char *path, const uint8_t *bytes, size_t size, uint32_t num_classes, rf_array *images,
                          rf_array *labels)
{
    const uint32_t label_bytes = num_classes == 100 ? 2 : 1;
    const size_t record = label_bytes + PIXELS, count = size / record,
                 before = labels->data ? (size_t)labels->shape.dim[0] : 0;
    if (size == 0 || size % record != 0)
        return RF_FAIL(RF_ERROR_CORRUPT_DATA,
                       "%s: %zu bytes are not a number of CIFAR-%u records of %zu bytes; the file is truncated or of "
                       "another version, copy it again",
                       path, size, num_classes, record);
    for (size_t i = 0; i < count; i++)
        if (bytes[i * record + label_bytes - 1] >= num_classes)
            return RF_FAIL(RF_ERROR_CORRUPT_DATA,
                           "%s: image %zu has the label %d, but CIFAR-%u has classes 0 to %u; the file is damaged, "
                           "copy it again",
                           path, i, bytes[i * record + label_bytes - 1], num_classes, num_classes - 1);
    if (!grow_array(images, before * PIXELS, (before + count) * PIXELS) ||
        !grow_array(labels, before * sizeof(int32_t), (before + count) * sizeof(int32_t)))
        return rf_error_context(RF_ERROR_OUT_OF_HOST_MEMORY, "%s", path);
    uint8_t *pixels = images->data;
    int32_t *numbers = labels->data;
    for (size_t i = 0; i < count; i++)
        decode_record(bytes + i * record, label_bytes, &pixels[(before + i) * PIXELS], &numbers[before + i]);
    *images = (rf_array){ RF_U8, RF_SHAPE((int64_t)(before + count), SIDE, SIDE, CHANNELS), pixels };
    *labels = (rf_array){ RF_I32, RF_SHAPE((int64_t)(before + count)), numbers };
    return RF_OK;
}

static rf_result append_file(const char *directory, const char *name, uint32_t num_classes, rf_array arrays[2])
{
    void *file = NULL;
    size_t size = 0;
    char *path = rf_asprintf("%s/%s", directory, name);
    if (!path) return RF_ERROR_OUT_OF_HOST_MEMORY;
    rf_result r = rf_file_read(path, 0, &file, &size);
    if (r == RF_OK) r = rf_cifar_decode(path, file, size, num_classes, &arrays[0], &arrays[1]);
    rf_free(file);
    rf_free(path);
    return r;
}

/* NULL: the directory has no test files of any. */
static const cifar_form *find_form(const char *directory)
{
    for (size_t i = 0; i < sizeof(forms) / sizeof(forms[0]); i++) {
        char *path = rf_asprintf("%s/%s", directory, forms[i].test);
        const bool found = path && access(path, F_OK) == 0;
        rf_free(path);
        if (found) return &forms[i];
    }
    return NULL;
}

rf_result rf_dataset_from_cifar_directory(const char *directory, rf_split split, uint32_t *num_classes,
                                          rf_dataset **out)
{
    RF_REQUIRE(directory && out, "rf_dataset_from_cifar_directory: %s is NULL", directory ? "out" : "directory");
    *out = NULL;
    const cifar_form *form = find_form(directory);
    if (!form)
        return RF_FAIL(
            RF_ERROR_NOT_FOUND,
            "%s: has neither test_batch.bin (CIFAR-10) nor test.bin (CIFAR-100); name the directory that the "
            "archive of the binary version holds",
            directory);
    const char *const *names = split == RF_SPLIT_TRAIN ? form->train : &form->test;
    const size_t count = split == RF_SPLIT_TRAIN ? sizeof(form->train) / sizeof(form->train[0]) : 1;
    rf_array arrays[2] = { { .dtype = RF_U8 }, { .dtype = RF_I32 } };
    rf_result r = RF_OK;
    for (size_t i = 0; i < count && names[i] && r == RF_OK; i++)
        r = append_file(directory, names[i], form->num_classes, arrays);
    if (r == RF_OK) r = rf_dataset_from_arrays(&(rf_dataset_arrays_params){ .arrays = arrays, .num_arrays = 2 }, out);
    rf_array_free(&arrays[0]);
    rf_array_free(&arrays[1]);
    if (r == RF_OK && num_classes) *num_classes = form->num_classes;
    return r;
}
