/* SPDX-License-Identifier: Apache-2.0 */
/* TFRecord files of examples: whatever stands in one, it is read or refused in one line. The first byte chooses what
 * the rest is: 0  a file as it is 1  the contents of one record 2  a file whose checksums are put right 3  such a file,
 * which is compressed as well: it gives the same With 4 added, features may be missing and of another length. */
#include <string.h>

#include <ringfire/readers.h>
#include <zlib.h>

#include "fuzz.h"
#include "records.h"

enum { COMPONENTS = 3, MOST = 1 << 16 };

/* The outcome of reading a file. */
typedef struct outcome {
    rf_result made, ended;
    uint64_t elements, bytes; /* how many; a sum over them */
} outcome;

static rf_result open_file(const char *path, bool lenient, rf_dataset **out)
{
    static float floats[2] = { 1, 2 };
    static const rf_array few = { RF_F32, { 1, { 2 } }, floats }, none = { RF_I32, { 1, { 0 } }, NULL };
    const rf_tfrecord_feature features[COMPONENTS] = {
        { .name = "f", .dtype = RF_F32, .shape = RF_SHAPE(2), .default_value = lenient ? &few : NULL },
        { .name = "i",
          .dtype = RF_I32,
          .shape = RF_SHAPE(3),
          .variable = true,
          .default_value = lenient ? &none : NULL },
        { .name = "b", .dtype = RF_U8, .shape = RF_SHAPE(2, 2), .variable = lenient },
    };
    return rf_dataset_from_tfrecord(
        &(rf_tfrecord_params){ .paths = &path, .num_paths = 1, .features = features, .num_features = COMPONENTS }, out);
}

static void read_element(const rf_element *e, outcome *out)
{
    static const int64_t most[COMPONENTS] = { 2, 3, 2 };
    PROMISE(e->num_components == COMPONENTS);
    out->elements++;
    for (uint32_t c = 0; c < COMPONENTS; c++) {
        const rf_array *a = &e->component[c];
        PROMISE(a->shape.dim[0] >= 0 && a->shape.dim[0] <= most[c]);
        const size_t size = (size_t)rf_shape_count(a->shape) * rf_dtype_size(a->dtype);
        for (size_t i = 0; i < size; i++) out->bytes = 31 * out->bytes + ((const uint8_t *)a->data)[i];
    }
}

static outcome read_file(const uint8_t *bytes, size_t size, bool lenient)
{
    rf_dataset *d;
    rf_iterator *it;
    const rf_element *e;
    outcome out = { .made = open_file(file_in_memory(bytes, size), lenient, &d) };
    if (out.made < 0) {
        PROMISE(out.made == RF_ERROR_CORRUPT_DATA && !d);
        promise_message();
        return out;
    }
    PROMISE((uint64_t)rf_dataset_cardinality(d) <= 1100 * size);
    PROMISE(rf_iterator_create(d, 0, &it) == RF_OK);
    while ((out.ended = rf_iterator_next(it, &e)) == RF_OK) read_element(e, &out);
    PROMISE(out.ended == RF_END || out.ended == RF_ERROR_CORRUPT_DATA);
    if (out.ended == RF_END)
        PROMISE(out.elements == (uint64_t)rf_dataset_cardinality(d));
    else
        promise_message();
    rf_iterator_destroy(&it);
    rf_dataset_destroy(&d);
    return out;
}

static void compare_compressed(const uint8_t *bytes, size_t size, bool lenient)
{
    static uint8_t packed[2 * MOST];
    uLongf packed_size = sizeof(packed);
    const outcome plain = read_file(bytes, size, lenient);
    PROMISE(compress2(packed, &packed_size, bytes, size, 1) == Z_OK);
    const outcome same = read_file(packed, packed_size, lenient);
    PROMISE(plain.made == same.made && plain.ended == same.ended);
    PROMISE(plain.elements == same.elements && plain.bytes == same.bytes);
}

FUZZ_TARGET(tfrecord)
{
    static uint8_t file[MOST];
    if (size == 0 || size + RECORD_FRAME > MOST) return 0;
    const bool lenient = data[0] & 4;
    size_t n = size - 1;
    if (data[0] % 4 == 1) {
        n = put_record(file, data + 1, n);
    } else if (n > 0) {
        memcpy(file, data + 1, n);
        if (data[0] % 4 >= 2) put_records_right(file, n);
    }
    if (data[0] % 4 == 3 && n >= RECORD_FRAME) /* shorter ones may be taken for compressed data themselves */
        compare_compressed(file, n, lenient);
    else
        (void)read_file(file, n, lenient);
    return 0;
}
