/* SPDX-License-Identifier: Apache-2.0 */
/* Tensors that are written come back: types, shapes, sizes, values, in memory and on the disk. "large": 300 MB. */
#include <errno.h>
#include <fcntl.h>
#include <msgpack.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../skip.h"
#include "../support/folder.h"
#include "memory_files.h"
#include "persist/archive/format.h"
#include "persist/archive/transpose.h"
#include "persist/archive/xxh64.h"
#include "sample.h"
#include "tests/room.h"

static char directory[64], path[128];

static void assert_same(const sample *s, const rf_archive *a)
{
    const char *difference = sample_compare(s, a);
    if (!difference) difference = sample_compare_ranges(s, a);
    if (difference) fail_msg("%s", difference);
}

static void assert_ok(rf_result r)
{
    if (r != RF_OK) fail_msg("%s: %s", rf_result_name(r), rf_error_message());
}

/* Published vectors: doc/xxhash_spec.md's implementation over its own sanity buffer; zstd computes the same. */
TEST(test_xxh64)
{
    assert_true(rf_xxh64("", 0) == 0xEF46DB3751D8E999u);
    assert_true(rf_xxh64("a", 1) == 0xD24EC4F1A98C6E5Bu);
    assert_true(rf_xxh64("abc", 3) == 0x44BC2CF5AD770999u);
    assert_true(rf_xxh64("Nobody inspects the spammish repetition", 39) == 0xFBCEA83C8A378BF1u);
}

TEST(test_transpose)
{
    uint8_t in[8 * 200], out[8 * 200], back[8 * 200];
    for (size_t i = 0; i < sizeof(in); i++) in[i] = (uint8_t)(i * 7 + i / 256);
    for (size_t element = 1; element <= 8; element *= 2) {
        for (size_t n = 0; n <= 200; n++) {
            rf_bytes_transpose(in, out, n * element, element);
            for (size_t i = 0; i < n * element; i++) assert_int_equal(out[i % element * n + i / element], in[i]);
            rf_bytes_untranspose(out, back, n * element, element);
            assert_memory_equal(back, in, n * element);
        }
    }
}

TEST(test_round_trips)
{
    static const int64_t sizes[] = { 1, 15, 17, 1000, 100003, 700001 };
    static const rf_save_params params[] = { { .threads = 1 }, { .threads = 3 }, { .no_compression = true },
                                             { .level = 19 },  { .level = -3 },  { .threads = 64, .level = 5 } };
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        sample s;
        sample_make(&s, i, sizes[i]);
        for (size_t p = 0; p < sizeof(params) / sizeof(params[0]); p++) {
            if (sizes[i] > 1000 && p > 2) continue;
            memory_files files = { .max_transfer = p == 1 ? 999 : 0 };
            const rf_file_ops ops = memory_file_ops(&files);
            rf_archive *a;
            assert_ok(rf_archive_write_with(&ops, "x/c.rfck", &s.contents, &params[p]));
            assert_int_equal(files.num_names, 1);
            assert_ok(rf_archive_open_with(&ops, "x/c.rfck", &a));
            assert_same(&s, a);
            assert_ok(rf_archive_verify(a));
            rf_archive_close(&a);
            for (int fd = 0; fd < MEMORY_OPEN; fd++) assert_int_equal(files.open[fd], 0);
            memory_files_free(&files);
        }
        sample_free(&s);
    }
}

/* The same file whatever the number of threads. */
TEST(test_deterministic)
{
    sample s;
    sample_make(&s, 3, 400000);
    memory_files files = { 0 };
    const rf_file_ops ops = memory_file_ops(&files);
    assert_ok(rf_archive_write_with(&ops, "1", &s.contents, &(rf_save_params){ .threads = 1 }));
    assert_ok(rf_archive_write_with(&ops, "5", &s.contents, &(rf_save_params){ .threads = 5 }));
    const int one = memory_files_find(&files, "1"), five = memory_files_find(&files, "5");
    assert_true(files.file[one].size == files.file[five].size);
    assert_memory_equal(files.file[one].bytes, files.file[five].bytes, files.file[one].size);
    memory_files_free(&files);
    sample_free(&s);
}

TEST(test_single_tensor_touches_its_bytes_only)
{
    sample s;
    sample_make(&s, 5, 300000);
    memory_files files = { 0 };
    const rf_file_ops ops = memory_file_ops(&files);
    assert_ok(rf_archive_write_with(&ops, "c", &s.contents, NULL));
    rf_archive *a;
    assert_ok(rf_archive_open_with(&ops, "c", &a));
    uint64_t begin = RF_ARCHIVE_PREAMBLE; /* tensors lie in the order of their names */
    uint8_t *data = malloc(8 * 300000 + 64);
    assert_non_null(data);
    for (uint64_t i = 0; i < rf_archive_num_tensors(a); i++) {
        rf_archive_entry e;
        assert_ok(rf_archive_entry_at(a, i, &e));
        files.bytes_read = files.read_end = 0;
        files.read_begin = UINT64_MAX;
        assert_ok(rf_archive_read(a, e.name, data, e.bytes));
        assert_true(files.bytes_read == e.stored_bytes);
        assert_true(e.bytes == 0 || (files.read_begin == begin && files.read_end == begin + e.stored_bytes));
        begin += e.stored_bytes;
    }
    free(data);
    rf_archive_close(&a);
    memory_files_free(&files);
    sample_free(&s);
}

TEST(test_compresses)
{
    enum { N = 1 << 20 };
    float *data = malloc(N * sizeof(float));
    assert_non_null(data);
    for (int kind = 0; kind < 3; kind++) {
        sample_fill(data, RF_F32, N, 1, kind);
        memory_files files = { 0 };
        const rf_file_ops ops = memory_file_ops(&files);
        const rf_archive_tensor t = { "t", RF_F32, RF_SHAPE(N), data };
        assert_ok(rf_archive_write_with(&ops, "c", &(rf_archive_contents){ "t", &t, 1, NULL, 0 }, NULL));
        rf_archive *a;
        rf_archive_entry e;
        assert_ok(rf_archive_open_with(&ops, "c", &a));
        assert_ok(rf_archive_find(a, "t", &e));
        const double ratio = (double)e.bytes / (double)e.stored_bytes;
        if (kind == 0) assert_true(ratio > 1.17); /* normally distributed */
        if (kind == 1) assert_true(ratio > 1000); /* zeros */
        if (kind == 2) assert_true(ratio == 1.0); /* noise: not a byte more */
        rf_archive_close(&a);
        memory_files_free(&files);
    }
    free(data);
}

TEST(test_many_tiny_tensors)
{
    enum { N = 100000 };
    rf_archive_tensor *tensors = calloc(N, sizeof(*tensors));
    char(*names)[16] = calloc(N, sizeof(*names));
    float *data = calloc(N, 4 * sizeof(float));
    assert_true(tensors && names && data);
    for (int i = 0; i < N; i++) {
        snprintf(names[i], sizeof(names[i]), "t/%d", i);
        for (int k = 0; k < 4; k++) data[4 * i + k] = (float)(i + k);
        tensors[i] = (rf_archive_tensor){ names[i], RF_F32, RF_SHAPE(i % 5), data + 4 * i };
    }
    memory_files files = { 0 };
    const rf_file_ops ops = memory_file_ops(&files);
    assert_ok(rf_archive_write_with(&ops, "c", &(rf_archive_contents){ "t", tensors, N, NULL, 0 }, NULL));
    rf_archive *a;
    assert_ok(rf_archive_open_with(&ops, "c", &a));
    assert_true(rf_archive_num_tensors(a) == N);
    assert_ok(rf_archive_verify(a));
    for (int i = 0; i < N; i++) {
        float out[4];
        const uint64_t size = (uint64_t)(i % 5) * sizeof(float);
        assert_ok(rf_archive_read(a, names[i], out, size));
        assert_memory_equal(out, data + 4 * i, size);
    }
    rf_archive_close(&a);
    memory_files_free(&files);
    free(data);
    free(names);
    free(tensors);
}

/* The header is msgpack to others, too. */
TEST(test_header_is_msgpack)
{
    sample s;
    sample_make(&s, 9, 5000);
    memory_files files = { 0 };
    const rf_file_ops ops = memory_file_ops(&files);
    assert_ok(rf_archive_write_with(&ops, "c", &s.contents, NULL));
    const uint8_t *bytes = files.file[0].bytes;
    uint64_t offset, size;
    memcpy(&offset, bytes + 24, 8);
    memcpy(&size, bytes + 32, 8);
    msgpack_unpacked result;
    msgpack_unpacked_init(&result);
    size_t used = 0;
    assert_int_equal(msgpack_unpack_next(&result, (const char *)bytes + offset, size, &used), MSGPACK_UNPACK_SUCCESS);
    assert_true(used == size && result.data.type == MSGPACK_OBJECT_MAP && result.data.via.map.size == 3);
    const msgpack_object *tensors = &result.data.via.map.ptr[2].val;
    assert_true(tensors->type == MSGPACK_OBJECT_ARRAY && tensors->via.array.size == s.contents.num_tensors);
    msgpack_unpacked_destroy(&result);
    memory_files_free(&files);
    sample_free(&s);
}

TEST(test_texts)
{
    sample s;
    sample_make(&s, 4, 10);
    rf_archive *a;
    assert_ok(rf_archive_write(path, &s.contents, NULL));
    assert_ok(rf_archive_open(path, &a));
    static const char *const expected[][2] = { { "empty/bytes", "0 bytes:" },
                                               { "empty/text", "" },
                                               { "most", "18446744073709551615" },
                                               { "note", "gr\xc3\xbc\xc3\x9f" },
                                               { "rate", "4.0999999999999996" },
                                               { "state", "3 bytes: 00 ff 0a" },
                                               { "step", "4" } };
    for (uint64_t i = 0; i < 7; i++) {
        char text[64], cut[3];
        assert_string_equal(rf_archive_value_name(a, i), expected[i][0]);
        assert_ok(rf_archive_value_text(a, i, text, sizeof(text)));
        assert_string_equal(text, expected[i][1]);
        assert_ok(rf_archive_value_text(a, i, cut, sizeof(cut)));
        assert_true(strlen(cut) < sizeof(cut));
    }
    assert_null(rf_archive_value_name(a, 7));
    rf_archive_close(&a);
    sample_free(&s);
}

/* Long byte strings are shown in part, yet every byte tells. */
TEST(test_long_bytes)
{
    uint8_t bytes[40] = { 0 };
    const rf_archive_value value = { .name = "state", .kind = RF_VALUE_BYTES, .bytes = bytes, .size = sizeof(bytes) };
    const rf_archive_contents contents = { .type = "test", .values = &value, .num_values = 1 };
    char texts[2][256];
    for (int i = 0; i < 2; i++) {
        rf_archive *a;
        bytes[39] = (uint8_t)i;
        assert_ok(rf_archive_write(path, &contents, NULL));
        assert_ok(rf_archive_open(path, &a));
        assert_ok(rf_archive_value_text(a, 0, texts[i], sizeof(texts[i])));
        rf_archive_close(&a);
    }
    assert_memory_equal(texts[0], texts[1], strlen("40 bytes:") + 32 * 3);
    assert_string_not_equal(texts[0], texts[1]);
}

static void expect(rf_result expected, const char *part, rf_result r)
{
    if (r != expected || !strstr(rf_error_message(), part))
        fail_msg("%s '%s' instead of %s '%s'", rf_result_name(r), rf_error_message(), rf_result_name(expected), part);
}

TEST(test_wrong_use)
{
    const float data[2] = { 1, 2 };
    rf_archive_tensor t[2] = { { "a", RF_F32, RF_SHAPE(2), data }, { "a", RF_F32, RF_SHAPE(2), data } };
    expect(RF_ERROR_INVALID_ARGUMENT, "'a'", rf_archive_save(path, t, 2, NULL));
    static const char *const names[] = { "",  "/a",   "a/",   "a//b",     "..",          "a/../b",
                                         ".", "a\nb", "\x7f", "\xc0\x80", "\xed\xa0\x80" };
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        t[0].name = names[i];
        expect(RF_ERROR_INVALID_ARGUMENT, "name of tensor", rf_archive_save(path, t, 2, NULL));
    }
    t[0].name = "b";
    t[0].shape = RF_SHAPE(-1);
    expect(RF_ERROR_INVALID_ARGUMENT, "'b'", rf_archive_save(path, t, 2, NULL));
    t[0].shape = RF_SHAPE(INT64_MAX / 2);
    expect(RF_ERROR_INVALID_ARGUMENT, "'b'", rf_archive_save(path, t, 2, NULL));
    t[0].shape = RF_SHAPE(2);
    t[0].data = NULL;
    expect(RF_ERROR_INVALID_ARGUMENT, "'b'", rf_archive_save(path, t, 2, NULL));
    expect(RF_ERROR_INVALID_ARGUMENT, "level", rf_archive_save(path, t, 0, &(rf_save_params){ .level = 99 }));
    expect(RF_ERROR_INVALID_ARGUMENT, "path", rf_archive_save("", t, 0, NULL));
    expect(RF_ERROR_IO, "no/such/directory", rf_archive_save("/no/such/directory/x", t, 0, NULL));
    const rf_archive_value v = { .name = "v", .kind = RF_VALUE_STRING, .bytes = "\xff", .size = 1 };
    expect(RF_ERROR_INVALID_ARGUMENT, "UTF-8",
           rf_archive_write(path, &(rf_archive_contents){ "t", NULL, 0, &v, 1 }, NULL));
    rf_archive *a = NULL;
    expect(RF_ERROR_NOT_FOUND, "nothing", rf_archive_open("/tmp/nothing/here", &a));
    expect(RF_ERROR_CORRUPT_DATA, "not a regular file", rf_archive_open("/tmp", &a));
    expect(RF_ERROR_CORRUPT_DATA, "not a regular file", rf_archive_open("/dev/zero", &a));
    assert_null(a);
    assert_ok(rf_archive_save(path, t + 1, 1, NULL));
    assert_ok(rf_archive_open(path, &a));
    float out[2];
    rf_archive_entry e;
    expect(RF_ERROR_NOT_FOUND, "'x'", rf_archive_read(a, "x", out, sizeof(out)));
    expect(RF_ERROR_NOT_FOUND, "'x'", rf_archive_find(a, "x", &e));
    expect(RF_ERROR_INVALID_ARGUMENT, "8 bytes", rf_archive_read(a, "a", out, 4));
    expect(RF_ERROR_INVALID_ARGUMENT, "1 of 1", rf_archive_entry_at(a, 1, &e));
    rf_archive_close(&a);
    rf_archive_close(&a);
}

typedef struct read_job {
    const rf_archive *archive;
    const sample *sample;
    const char *difference;
} read_job;

static void *read_all(void *argument)
{
    read_job *job = argument;
    job->difference = sample_compare(job->sample, job->archive);
    return NULL;
}

TEST(test_reads_from_several_threads)
{
    sample s;
    sample_make(&s, 6, 2500000); /* f32 is 10 MB: such reads start threads of their own */
    rf_archive *a;
    assert_ok(rf_archive_write(path, &s.contents, NULL));
    assert_ok(rf_archive_open(path, &a));
    pthread_t threads[3];
    read_job jobs[3];
    for (int i = 0; i < 3; i++) {
        jobs[i] = (read_job){ a, &s, NULL };
        assert_int_equal(pthread_create(&threads[i], NULL, read_all, &jobs[i]), 0);
    }
    for (int i = 0; i < 3; i++) {
        pthread_join(threads[i], NULL);
        assert_null(jobs[i].difference);
    }
    rf_archive_close(&a);
    sample_free(&s);
}

/* A disk that is full, as far as one process can make one: files may have 100 kB. */
TEST(test_file_size_limit)
{
    sample small, big;
    sample_make(&small, 1, 100);
    sample_make(&big, 2, 100000);
    assert_ok(rf_archive_write(path, &small.contents, NULL));
    struct rlimit old, limit;
    getrlimit(RLIMIT_FSIZE, &old);
    limit = old;
    limit.rlim_cur = 100000;
    void (*handler)(int) = signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
    const rf_result r = rf_archive_write(path, &big.contents, NULL);
    setrlimit(RLIMIT_FSIZE, &old);
    signal(SIGXFSZ, handler);
    expect(RF_ERROR_IO, "cannot write", r);
    char left[256];
    snprintf(left, sizeof(left), "test $(ls -A %s | wc -l) = 1", directory);
    assert_int_equal(system(left), 0);
    rf_archive *a;
    assert_ok(rf_archive_open(path, &a));
    assert_same(&small, a);
    rf_archive_close(&a);
    sample_free(&small);
    sample_free(&big);
}

static room_test *large_tests;

TEST_OF(large_tests, test_large)
{
    const int64_t n = 75000000;
    float *data = malloc((size_t)n * sizeof(float)), *out = malloc((size_t)n * sizeof(float));
    assert_true(data && out);
    sample_fill(data, RF_F32, n, 8, 0);
    const rf_archive_tensor t = { "large", RF_F32, RF_SHAPE(3, n / 3), data };
    rf_archive *a;
    assert_ok(rf_archive_save(path, &t, 1, NULL));
    assert_ok(rf_archive_open(path, &a));
    assert_ok(rf_archive_read(a, "large", out, (uint64_t)n * sizeof(float)));
    assert_memory_equal(out, data, (size_t)n * sizeof(float));
    assert_ok(rf_archive_verify(a));
    rf_archive_close(&a);
    free(data);
    free(out);
}

static int make_directory(void **state)
{
    (void)state;
    scratch(directory);
    snprintf(path, sizeof(path), "%s/c.rfck", directory);
    return 0;
}

static int remove_directory(void **state)
{
    (void)state;
    unlink(path);
    return rmdir(directory);
}

/* Reads by this process so far, the system's own files included. */
static uint64_t count_reads(void)
{
    unsigned long long reads = 0;
    char line[128];
    FILE *f = fopen("/proc/self/io", "r");
    if (!f) SKIP("no /proc/self/io");
    while (fgets(line, sizeof(line), f))
        if (sscanf(line, "syscr: %llu", &reads) == 1) break;
    fclose(f);
    return reads;
}

/* Reading a small tensor is one read: the system is not asked how many cores there are. */
TEST(one_read_each)
{
    enum { COUNT = 2000 };
    static float values[COUNT];
    static char names[COUNT][16];
    static rf_archive_tensor tensors[COUNT];
    for (int i = 0; i < COUNT; i++) {
        values[i] = (float)i;
        snprintf(names[i], sizeof(names[i]), "t%d", i);
        tensors[i] = (rf_archive_tensor){ names[i], RF_F32, RF_SHAPE(1), &values[i] };
    }
    rf_archive *a;
    assert_int_equal(rf_archive_save(path, tensors, COUNT, NULL), RF_OK);
    assert_int_equal(rf_archive_open(path, &a), RF_OK);
    const uint64_t before = count_reads();
    for (int i = 0; i < COUNT; i++) {
        float value = -1;
        assert_int_equal(rf_archive_read(a, names[i], &value, sizeof(value)), RF_OK);
        assert_true(value == values[i]);
    }
    assert_in_range(count_reads() - before, COUNT, COUNT + 20);
    rf_archive_close(&a);
    unlink(path);
}

TEST_PROGRAM(archive)
{
    if (argc > 1 && strcmp(argv[1], "large") == 0) return room_tests_run(large_tests, make_directory, remove_directory);
    return room_tests_run(own_tests, make_directory, remove_directory);
}
