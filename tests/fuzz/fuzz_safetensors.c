/* SPDX-License-Identifier: Apache-2.0 */
/*
 * safetensors files. The first byte says what is read: 0 a whole file, 1 a header that ends where its text does (the
 * rest, from the first line feed on, is the tensors' bytes). A file that is accepted is written and read again, and
 * must be the same then.
 */
#include <string.h>

#include "base/error.h"
#include "fuzz.h"
#include "one_file.h"
#include "persist/arrays/interchange_files.h"

static size_t bytes_of(const rf_array *a)
{
    return (size_t)rf_shape_count(a->shape) * rf_dtype_size(a->dtype);
}

static const rf_array *find(const rf_array_set *set, const char *name)
{
    for (uint32_t i = 0; i < set->count; i++)
        if (strcmp(set->items[i].name, name) == 0) return &set->items[i].array;
    return NULL;
}

static void check_same(const rf_array_set *one, const rf_array_set *two)
{
    PROMISE(one->count == two->count);
    for (uint32_t i = 0; i < one->count; i++) {
        const rf_array *a = &one->items[i].array, *b = find(two, one->items[i].name);
        PROMISE(b && a->dtype == b->dtype && rf_shape_equal(a->shape, b->shape));
        PROMISE(memcmp(a->data, b->data, bytes_of(a)) == 0);
    }
}

static void read_file(const uint8_t *bytes, size_t size)
{
    one_file file = { .bytes = bytes, .size = size }, written = { 0 };
    const rf_file_ops ops = one_file_ops(&file), more = one_file_ops(&written);
    rf_array_set one, two;
    const rf_result r = rf_safetensors_read_with(&ops, "f", &one);
    if (r < 0) {
        PROMISE((r == RF_ERROR_CORRUPT_DATA || r == RF_ERROR_UNSUPPORTED) && rf_error_message()[0]);
        PROMISE(one.count == 0 && !one.items);
        return;
    }
    size_t total = 0;
    for (uint32_t i = 0; i < one.count; i++) total += bytes_of(&one.items[i].array);
    PROMISE(total < size);
    PROMISE(rf_safetensors_write_with(&more, "f", one.items, one.count) == RF_OK);
    PROMISE(rf_safetensors_read_with(&more, "f", &two) == RF_OK);
    check_same(&one, &two);
    rf_array_set_free(&two);
    rf_array_set_free(&one);
    free(written.own);
}

static void read_header(const uint8_t *data, size_t size)
{
    const uint8_t *end = memchr(data, '\n', size);
    const size_t length = end ? (size_t)(end - data) : size, rest = end ? size - length - 1 : 0;
    uint8_t *file = malloc(8 + length + rest);
    PROMISE(file);
    for (int i = 0; i < 8; i++) file[i] = (uint8_t)((uint64_t)length >> 8 * i);
    if (length > 0) memcpy(file + 8, data, length);
    if (rest > 0) memcpy(file + 8 + length, end + 1, rest);
    read_file(file, 8 + length + rest);
    free(file);
}

FUZZ_TARGET(safetensors)
{
    if (size == 0) return 0;
    if (data[0] & 1)
        read_header(data + 1, size - 1);
    else
        read_file(data + 1, size - 1);
    return 0;
}
