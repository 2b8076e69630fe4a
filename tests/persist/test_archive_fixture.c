/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files of earlier versions stay readable. fixtures/<name>.rfck were written by
 *     test_archive_fixture write FILE [raw | parts]
 * of the version they are called after; their contents follow from the formulas below, which read_checkpoint.py
 * repeats.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/half.h"
#include "sample.h"
#include "tests/room.h"

enum { NUM_TENSORS = 9 };
static const char *fixtures;

static uint64_t element(rf_dtype dtype, int64_t i)
{
    const float value = (float)(i * 7919 % 2000 - 1000) / 8;
    uint64_t bits = 0;
    switch (dtype) {
    case RF_F32: memcpy(&bits, &value, sizeof(value)); return bits;
    case RF_F16: return rf_f32_to_f16(value);
    case RF_BF16: return rf_f32_to_bf16((float)(i % 100 - 50));
    case RF_I32: /* three bytes of noise, one of nothing */ return (uint64_t)i * 2654435761u & 0xffffff;
    case RF_U8: return (uint64_t)(i * i % 251);
    default: return (uint64_t)(i * (1ll << 33) - 7);
    }
}

static void make(sample *s)
{
    const rf_archive_tensor tensors[NUM_TENSORS] = {
        { "model/dense/kernel", RF_F32, RF_SHAPE(50, 40), NULL },
        { "model/half", RF_F16, RF_SHAPE(300), NULL },
        { "model/brain", RF_BF16, RF_SHAPE(300), NULL },
        { "model/ids", RF_I32, RF_SHAPE(10, 200), NULL },
        { "model/bytes", RF_U8, RF_SHAPE(1000), NULL },
        { "optimizer/longs", RF_I64, RF_SHAPE(129), NULL },
        { "scalar", RF_F32, RF_SCALAR_SHAPE, NULL },
        { "empty", RF_F32, RF_SHAPE(0, 3), NULL },
        { "model/tiny", RF_I32, RF_SHAPE(3, 1, 1), NULL },
    };
    memset(s, 0, sizeof(*s));
    for (int t = 0; t < NUM_TENSORS; t++) {
        s->tensors[t] = tensors[t];
        const int64_t count = rf_shape_count(tensors[t].shape);
        const size_t size = rf_dtype_size(tensors[t].dtype);
        uint8_t *data = malloc((size_t)count * size + 1);
        if (!data) abort();
        for (int64_t i = 0; i < count; i++) {
            const uint64_t bits = element(tensors[t].dtype, i);
            memcpy(data + (size_t)i * size, &bits, size);
        }
        s->tensors[t].data = data;
    }
    s->values[0] = (rf_archive_value){ .name = "train/step", .kind = RF_VALUE_UINT, .number = 1234567890123 };
    s->values[1] = (rf_archive_value){ .name = "train/rate", .kind = RF_VALUE_DOUBLE, .real = 0.001 };
    s->values[2] = (rf_archive_value){ .name = "note", .kind = RF_VALUE_STRING, .bytes = "gr\xc3\xbcn", .size = 5 };
    s->values[3] = (rf_archive_value){ .name = "state", .kind = RF_VALUE_BYTES, .bytes = "\0\1\2\3", .size = 4 };
    s->contents = (rf_archive_contents){ "checkpoint", s->tensors, NUM_TENSORS, s->values, 4 };
}

TEST(test_fixtures)
{
    static const char *const names[] = { "version1", "version1-raw", "version2" };
    sample s;
    make(&s);
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        char path[1024];
        snprintf(path, sizeof(path), "%s/%s.rfck", fixtures, names[i]);
        rf_archive *a;
        if (rf_archive_open(path, &a) < 0 || rf_archive_verify(a) < 0) fail_msg("%s", rf_error_message());
        const char *difference = sample_compare(&s, a);
        if (difference) fail_msg("%s: %s", path, difference);
        rf_archive_close(&a);
    }
    sample_free(&s);
}

static int write_file(const char *path, const char *how)
{
    sample s;
    make(&s);
    const rf_result r = strcmp(how, "parts") == 0
                            ? sample_write_parts(&rf_system_file_ops, path, &s.contents, 3, 170)
                            : rf_archive_write(path, &s.contents, &(rf_save_params){ .no_compression = *how });
    if (r < 0) fprintf(stderr, "%s\n", rf_error_message());
    sample_free(&s);
    return r < 0;
}

TEST_PROGRAM(archive_fixture)
{
    if (argc > 2 && strcmp(argv[1], "write") == 0) return write_file(argv[2], argc > 3 ? argv[3] : "");
    if (argc != 2) return 2;
    fixtures = argv[1];
    return room_tests_run(own_tests, NULL, NULL);
}
