/* SPDX-License-Identifier: Apache-2.0 */
/* No flipped bit and no cut goes unnoticed. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "memory_files.h"
#include "sample.h"
#include "tests/room.h"

static rf_result check(const rf_file_ops *ops)
{
    rf_archive *a;
    rf_result r = rf_archive_open_with(ops, "c", &a);
    if (r == RF_OK) r = rf_archive_verify(a);
    rf_archive_close(&a);
    return r;
}

/* Every bit of a small file, or `flips` bits of a larger one. */
static uint64_t flip_bits(memory_files *files, uint64_t flips)
{
    const rf_file_ops ops = memory_file_ops(files);
    uint8_t *bytes = files->file[0].bytes;
    const uint64_t bits = files->file[0].size * 8;
    rf_rng rng = { 5, 0 };
    assert_int_equal(check(&ops), RF_OK);
    if (flips > bits) flips = bits;
    for (uint64_t i = 0; i < flips; i++) {
        const uint64_t bit = flips == bits ? i : rf_rng_below(&rng, bits);
        bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
        const rf_result r = check(&ops);
        if (r != RF_ERROR_CORRUPT_DATA) fail_msg("bit %llu: %s", (unsigned long long)bit, rf_result_name(r));
        bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
    }
    assert_int_equal(check(&ops), RF_OK);
    return flips;
}

TEST(test_bit_flips)
{
    uint64_t total = 0;
    for (int kind = 0; kind < 6; kind++) {
        sample s;
        sample_make(&s, 3, kind < 3 ? 3 : kind == 3 ? 40 : 2000);
        memory_files files = { 0 };
        const rf_file_ops ops = memory_file_ops(&files);
        if (kind == 0) s.contents.num_tensors = s.contents.num_values = 0;
        if (kind == 1) s.contents.num_tensors = 3;
        if (kind == 2) s.contents.num_values = 0;
        const rf_save_params params = { .no_compression = kind == 5, .level = kind == 4 ? 9 : 0, .threads = 1 };
        assert_int_equal(rf_archive_write_with(&ops, "c", &s.contents, &params), RF_OK);
        total += flip_bits(&files, kind == 0 ? UINT64_MAX : 5000);
        memory_files_free(&files);
        sample_free(&s);
    }
    print_message("%llu bits\n", (unsigned long long)total);
    assert_true(total >= 10000);
}

TEST(test_cuts)
{
    sample s;
    sample_make(&s, 3, 20000);
    memory_files files = { 0 };
    const rf_file_ops ops = memory_file_ops(&files);
    assert_int_equal(rf_archive_write_with(&ops, "c", &s.contents, NULL), RF_OK);
    const uint64_t size = files.file[0].size;
    for (uint64_t cut = 0; cut < size; cut += cut < 4096 || size - cut <= 4096 ? 1 : 1024) {
        files.file[0].size = cut;
        rf_archive *a;
        files.bytes_read = 0;
        assert_int_equal(rf_archive_open_with(&ops, "c", &a), RF_ERROR_CORRUPT_DATA);
        assert_non_null(strstr(rf_error_message(), "truncated"));
        assert_true(files.bytes_read <= 56); /* at once: the preamble is enough */
    }
    files.file[0].size = size;
    assert_int_equal(check(&ops), RF_OK);
    /* And longer than it was. */
    uint8_t *longer = calloc(size + 1, 1);
    assert_non_null(longer);
    memcpy(longer, files.file[0].bytes, size);
    memory_files other = { 0 };
    const rf_file_ops other_ops = memory_file_ops(&other);
    memory_files_put(&other, "c", longer, size + 1);
    assert_int_equal(check(&other_ops), RF_ERROR_CORRUPT_DATA);
    free(longer);
    memory_files_free(&other);
    memory_files_free(&files);
    sample_free(&s);
}

/* The message says which tensor. */
TEST(test_damaged_tensor_is_named)
{
    sample s;
    sample_make(&s, 3, 2000);
    memory_files files = { 0 };
    const rf_file_ops ops = memory_file_ops(&files);
    assert_int_equal(rf_archive_write_with(&ops, "c", &s.contents, NULL), RF_OK);
    files.file[0].bytes[100] ^= 1;
    rf_archive *a;
    uint8_t data[16000];
    assert_int_equal(rf_archive_open_with(&ops, "c", &a), RF_OK);
    assert_int_equal(rf_archive_verify(a), RF_ERROR_CORRUPT_DATA);
    rf_archive_entry e;
    assert_int_equal(rf_archive_entry_at(a, 0, &e), RF_OK);
    assert_non_null(strstr(rf_error_message(), e.name));
    assert_int_equal(rf_archive_read(a, e.name, data, e.bytes), RF_ERROR_CORRUPT_DATA);
    /* The others can still be read. */
    assert_int_equal(rf_archive_entry_at(a, 1, &e), RF_OK);
    assert_int_equal(rf_archive_read(a, e.name, data, e.bytes), RF_OK);
    rf_archive_close(&a);
    memory_files_free(&files);
    sample_free(&s);
}

TESTS(archive_damage, NULL, NULL)
