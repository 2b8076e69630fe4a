/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <ringfire/version.h>

#include "../support/folder.h"
#include "base/device_caps.h"
#include "base/error.h"
#include "base/half.h"
#include "base/memory.h"
#include "base/philox.h"
#include "base/platform.h"
#include "tests/room.h"

static rf_result inner(void)
{
    return RF_FAIL(RF_ERROR_CORRUPT_DATA, "%d of %d bytes", 3, 7);
}
static rf_result outer(void)
{
    return rf_error_context(inner(), "loading '%s'", "x");
}

TEST(test_error_chain)
{
    assert_int_equal(outer(), RF_ERROR_CORRUPT_DATA);
    assert_string_equal(rf_error_message(), "loading 'x': 3 of 7 bytes");
    rf_error_record saved;
    rf_error_save(&saved);
    errno = ENOENT;
    assert_int_equal(RF_FAIL_ERRNO(RF_ERROR_IO, "file"), RF_ERROR_IO);
    assert_string_equal(rf_error_message(), "file (No such file or directory)");
    rf_error_info info;
    rf_error_get(&info);
    assert_int_equal(info.native_code, ENOENT);
    assert_string_equal(info.native_domain, "errno");
    assert_int_equal(rf_error_restore(&saved), RF_ERROR_CORRUPT_DATA);
    assert_string_equal(rf_error_message(), "loading 'x': 3 of 7 bytes");
    /* A message may quote the one it replaces. */
    (void)RF_FAIL(RF_ERROR_IO, "again: %s", rf_error_message());
    assert_string_equal(rf_error_message(), "again: loading 'x': 3 of 7 bytes");
    /* Success adds no context. */
    assert_int_equal(rf_error_context(RF_OK, "nothing"), RF_OK);
    assert_string_equal(rf_error_message(), "again: loading 'x': 3 of 7 bytes");
}

TEST(test_error_long_messages_are_cut)
{
    char text[3000];
    memset(text, 'a', sizeof(text) - 1);
    text[sizeof(text) - 1] = '\0';
    (void)RF_FAIL(RF_ERROR_IO, "%s", text);
    assert_true(strlen(rf_error_message()) < 1024);
    (void)rf_error_context(RF_ERROR_IO, "%s", text);
    assert_true(strlen(rf_error_message()) < 1024);
}

static void *fail_elsewhere(void *unused)
{
    (void)unused;
    (void)RF_FAIL(RF_ERROR_TIMEOUT, "other thread");
    return NULL;
}

TEST(test_error_record_is_per_thread)
{
    (void)RF_FAIL(RF_ERROR_IO, "mine");
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, fail_elsewhere, NULL), 0);
    pthread_join(thread, NULL);
    assert_string_equal(rf_error_message(), "mine");
}

TEST(test_result_names)
{
    for (int r = RF_END; r >= RF_ERROR_LOWEST; r--) assert_memory_equal(rf_result_name((rf_result)r), "RF_", 3);
    assert_string_equal(rf_result_name((rf_result)-99), "unknown result");
}

TEST(test_shapes)
{
    char text[64], tiny[6];
    assert_string_equal(rf_shape_format(RF_SHAPE(64, 28, 28, 1), text, sizeof(text)), "[64,28,28,1]");
    assert_string_equal(rf_shape_format(RF_SCALAR_SHAPE, text, sizeof(text)), "[]");
    assert_int_equal(strlen(rf_shape_format(RF_SHAPE(123456, 7), tiny, sizeof(tiny))), 5);
    assert_int_equal(rf_shape_count(RF_SCALAR_SHAPE), 1);
    assert_int_equal(rf_shape_count(RF_SHAPE(2, 3, 4)), 24);
    assert_int_equal(rf_shape_count(RF_SHAPE(INT64_MAX, 2)), -1);
    assert_int_equal(rf_shape_count(RF_SHAPE(INT64_MAX, 2, 0)), 0);
    assert_int_equal(rf_shape_count(RF_SHAPE(2, -1)), -1);
    assert_int_equal(rf_shape_count((rf_shape){ 7, { 0 } }), -1);
    assert_true(rf_shape_equal(RF_SHAPE(2, 3), RF_SHAPE(2, 3)));
    assert_false(rf_shape_equal(RF_SHAPE(2, 3), RF_SHAPE(2, 3, 1)));
    assert_false(rf_shape_equal(RF_SHAPE(2, 3), RF_SHAPE(2, 4)));
    assert_int_equal(rf_dtype_size(RF_BF16), 2);
    assert_int_equal(rf_dtype_size(RF_I64), 8);
    assert_int_equal(rf_dtype_size((rf_dtype)99), 0);
    assert_string_equal(rf_dtype_name(RF_I32), "i32");
}

TEST(test_version)
{
    unsigned major, minor, patch;
    assert_int_equal(sscanf(rf_version_string(), "%u.%u.%u", &major, &minor, &patch), 3);
    assert_int_equal(rf_version_number(), major << 16 | minor << 8 | patch);
    assert_int_equal(rf_version_number(), RF_VERSION_NUMBER);
    assert_string_equal(rf_version_string(), RF_VERSION_STRING);
    assert_true(RF_VERSION_AT_LEAST(major, minor, patch));
    assert_true(RF_VERSION_AT_LEAST(0, 0, 255));
    assert_false(RF_VERSION_AT_LEAST(major, minor, patch + 1));
    assert_false(RF_VERSION_AT_LEAST(major, minor + 1, 0));
    assert_false(RF_VERSION_AT_LEAST(major + 1, 0, 0));
}

/* Published vectors of the generator's authors (Random123, kat_vectors). */
TEST(test_philox_vectors)
{
    static const struct {
        uint64_t key, low, high;
        uint32_t expected[4];
    } vectors[] = {
        { 0, 0, 0, { 0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8 } },
        { UINT64_MAX, UINT64_MAX, UINT64_MAX, { 0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd } },
        { 0x299f31d0a4093822ull,
          0x85a308d3243f6a88ull,
          0x0370734413198a2eull,
          { 0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1 } },
    };
    for (size_t i = 0; i < sizeof(vectors) / sizeof(vectors[0]); i++) {
        const rf_philox4 x = rf_philox(vectors[i].key, vectors[i].low, vectors[i].high);
        for (int j = 0; j < 4; j++) assert_int_equal(x.v[j], vectors[i].expected[j]);
    }
}

TEST(test_random_distributions)
{
    rf_rng rng = { 42, 0 };
    double sum = 0, squares = 0;
    enum { n = 100000 };
    for (int i = 0; i < n; i++) {
        const double x = rf_rng_normal(&rng);
        assert_true(isfinite(x));
        sum += x;
        squares += x * x;
    }
    assert_true(fabs(sum / n) < 0.015);
    assert_true(fabs(squares / n - 1) < 0.02);
    uint32_t histogram[7] = { 0 };
    for (int i = 0; i < 70000; i++) histogram[rf_rng_below(&rng, 7)]++;
    for (int i = 0; i < 7; i++) assert_in_range(histogram[i], 9600, 10400);
    for (int i = 0; i < 1000; i++) {
        const float u = rf_rng_uniform(&rng);
        assert_true(u >= 0 && u < 1);
    }
    assert_true(rf_hash64(1, 2) != rf_hash64(2, 1));
    assert_true(rf_hash_bytes("ab", 2, 0) != rf_hash_bytes("ba", 2, 0));
}

/* Every half value survives the way to f32 and back; and rounding is to the nearest, ties to even, judged in double. */
TEST(test_half_is_exact)
{
    for (uint32_t h = 0; h < 65536; h++) {
        const float f = rf_f16_to_f32((uint16_t)h), b = rf_bf16_to_f32((uint16_t)h);
        if (isnan(f))
            assert_true(isnan(rf_f16_to_f32(rf_f32_to_f16(f))));
        else
            assert_int_equal(rf_f32_to_f16(f), h);
        if (isnan(b))
            assert_true(isnan(rf_bf16_to_f32(rf_f32_to_bf16(b))));
        else
            assert_int_equal(rf_f32_to_bf16(b), h);
    }
    rf_rng rng = { 7, 0 };
    for (int i = 0; i < 100000; i++) {
        const float x = (float)ldexp(rf_rng_uniform(&rng) + 0.5, (int)rf_rng_below(&rng, 44) - 27);
        const uint16_t h = rf_f32_to_f16(x);
        const double here = fabs((double)rf_f16_to_f32(h) - x);
        if (h == 0x7C00) { /* infinity only from halfway to 65536 */
            assert_true(x >= 65520.0f);
            continue;
        }
        const double below = h > 0 ? fabs((double)rf_f16_to_f32((uint16_t)(h - 1)) - x) : INFINITY;
        const double above = fabs((double)rf_f16_to_f32((uint16_t)(h + 1)) - x);
        assert_true(here <= below && here <= above);
        if (here == below || here == above) assert_int_equal(h & 1, 0);
    }
    static float wide[65539];
    static uint16_t bits[65539], back[65539];
    for (uint32_t i = 0; i < 65539; i++) bits[i] = (uint16_t)(7 * i);
    for (int t = 0; t < 2; t++) { /* of many numbers as of one, the last ones too */
        const rf_dtype type = t ? RF_F16 : RF_BF16;
        rf_floats_widen(wide, bits, type, 65539);
        rf_floats_narrow(back, type, wide, 65539);
        for (uint32_t i = 0; i < 65539; i++) {
            const float one = t ? rf_f16_to_f32(bits[i]) : rf_bf16_to_f32(bits[i]);
            assert_true(isnan(one) ? isnan(wide[i]) : memcmp(&one, &wide[i], sizeof(one)) == 0);
            assert_int_equal(back[i], t ? rf_f32_to_f16(one) : rf_f32_to_bf16(one));
        }
    }
    assert_int_equal(rf_f32_to_f16(65519.0f), 0x7BFF);
    assert_int_equal(rf_f32_to_f16(65520.0f), 0x7C00);
    assert_int_equal(rf_f32_to_f16(-INFINITY), 0xFC00);
    assert_int_equal(rf_f32_to_bf16(3.4e38f), 0x7F80);
}

TEST(test_memory)
{
    assert_null(rf_calloc(SIZE_MAX, 2));
    assert_true(strstr(rf_error_message(), "host memory") != NULL);
    struct {
        int *items;
        uint32_t count, capacity;
    } v = { 0 };
    for (int i = 0; i < 1000; i++) {
        assert_int_equal(RF_VEC_GROW(&v), RF_OK);
        assert_int_equal(v.items[v.count], 0);
        v.items[v.count++] = i;
    }
    for (int i = 0; i < 1000; i++) assert_int_equal(v.items[i], i);
    rf_free(v.items);
    rf_arena arena = { 0 };
    for (size_t i = 1; i < 40000; i += 997) {
        char *p = rf_arena_alloc(&arena, i);
        assert_int_equal((uintptr_t)p % 16, 0);
        for (size_t j = 0; j < i; j++) assert_int_equal(p[j], 0);
        memset(p, 1, i);
    }
    assert_string_equal(rf_arena_strdup(&arena, "text"), "text");
    rf_arena_free(&arena);
    assert_null(arena.head);
    void *aligned = rf_aligned_calloc(100);
    assert_int_equal((uintptr_t)aligned % 64, 0);
    rf_free(aligned);
    char *text = rf_asprintf("%d-%s", 7, "x");
    assert_string_equal(text, "7-x");
    rf_free(text);
    assert_int_equal(rf_align_up(65, 64), 128);
    assert_int_equal(rf_align_up(9, 3), 9);
    assert_int_equal(rf_div_up(9, 4), 3);
}

/* Whatever part of whatever pages it is told of, the bytes there stay. */
TEST(test_large_pages)
{
    const size_t size = (size_t)5 << 20;
    unsigned char *memory = malloc(size);
    assert_non_null(memory);
    for (size_t i = 0; i < size; i++) memory[i] = (unsigned char)(i % 251);
    static const size_t parts[][2] = {
        { 0, 5 << 20 }, { 1, (5 << 20) - 1 }, { 4095, 2 }, { 17, 0 }, { 5000, 3 << 20 }
    };
    for (size_t k = 0; k < sizeof(parts) / sizeof(parts[0]); k++)
        rf_want_large_pages(memory + parts[k][0], parts[k][1]);
    for (size_t i = 0; i < size; i++) assert_int_equal(memory[i], i % 251);
    free(memory);
}

TEST(test_files)
{
    char directory[SCRATCH_PATH];
    scratch(directory);
    char nested[128], path[160];
    snprintf(nested, sizeof(nested), "%s/a/b", directory);
    snprintf(path, sizeof(path), "%s/file", nested);
    assert_int_equal(rf_make_directories(nested, 0700), RF_OK);
    assert_int_equal(rf_make_directories(nested, 0700), RF_OK);
    void *data;
    size_t size;
    assert_int_equal(rf_file_read(path, 0, &data, &size), RF_ERROR_NOT_FOUND);
    assert_true(strstr(rf_error_message(), path) != NULL);
    assert_int_equal(rf_file_write_atomic(path, "12345", 5), RF_OK);
    assert_int_equal(rf_file_write_atomic(path, "123456", 6), RF_OK);
    assert_int_equal(rf_file_read(path, 6, &data, &size), RF_OK);
    assert_int_equal(size, 6);
    assert_memory_equal(data, "123456", 6);
    rf_free(data);
    assert_int_equal(rf_file_read(path, 5, &data, &size), RF_ERROR_CORRUPT_DATA);
    assert_int_equal(rf_file_write_atomic("/proc/nothing/file", "1", 1), RF_ERROR_IO);
    assert_int_equal(rf_make_directories("/proc/nothing/here", 0700), RF_ERROR_IO);
    /* Files without a size are read to their end. */
    assert_int_equal(rf_file_read("/proc/self/status", 0, &data, &size), RF_OK);
    assert_true(size > 10);
    rf_free(data);
    unlink(path);
    rmdir(nested);
    snprintf(nested, sizeof(nested), "%s/a", directory);
    rmdir(nested);
    assert_int_equal(rmdir(directory), 0); /* and no temporary file was left behind */
}

TEST(test_environment)
{
    setenv("RINGFIRE_TUNE", "1", 1);
    assert_string_equal(rf_env("RINGFIRE_TUNE"), "1");
    setenv("RINGFIRE_TUNE", "", 1);
    assert_null(rf_env("RINGFIRE_TUNE"));
    assert_null(rf_env("PATH")); /* not in the table */
}

static void count_logs(void *user, rf_log_level level, const char *message)
{
    assert_int_equal(level, RF_LOG_WARN);
    assert_non_null(strstr(message, "RINGFIRE_CACHE"));
    ++*(int *)user;
}

static void expect_cache(const char *explicit_path, const char *wanted)
{
    rf_cache cache;
    assert_int_equal(rf_cache_open(explicit_path, true, &cache), RF_OK);
    assert_string_equal(cache.directory, wanted);
    assert_false(cache.read_only);
    struct stat st;
    assert_int_equal(stat(cache.directory, &st), 0);
    assert_int_equal(rmdir(cache.directory), 0);
    rf_free(cache.directory);
}

/* Who names a directory is told when it is no good; who names none trains without. */
TEST(test_cache_directory)
{
    char root[SCRATCH_PATH], named[64], file[64], below[96], fallback[96];
    scratch(root);
    snprintf(named, sizeof(named), "%s/named", root);
    snprintf(file, sizeof(file), "%s/file", root);
    snprintf(below, sizeof(below), "%s/below", file);
    snprintf(fallback, sizeof(fallback), "%s/.cache/ringfire", root);
    assert_int_equal(rf_file_write_atomic(file, "x", 1), RF_OK);
    unsetenv("XDG_CACHE_HOME");
    setenv("HOME", root, 1);
    setenv("RINGFIRE_CACHE", named, 1);
    expect_cache(NULL, named);
    setenv("RINGFIRE_CACHE", below, 1);
    expect_cache(named, named);
    rf_cache cache;
    assert_int_equal(rf_cache_open(NULL, false, &cache), RF_ERROR_IO);
    assert_null(cache.directory);
    assert_non_null(strstr(rf_error_message(), "RINGFIRE_CACHE"));
    assert_non_null(strstr(rf_error_message(), file));
    unsetenv("RINGFIRE_CACHE");
    assert_int_equal(rf_cache_open(below, false, &cache), RF_ERROR_IO);
    assert_non_null(strstr(rf_error_message(), "cache_directory"));
    expect_cache(NULL, fallback);

    int warnings = 0;
    rf_log_set(count_logs, &warnings, RF_LOG_WARN);
    for (int i = 1; i <= 2; i++) {
        if (i == 1)
            setenv("HOME", file, 1);
        else
            unsetenv("HOME");
        assert_int_equal(rf_cache_open(NULL, false, &cache), RF_OK);
        assert_null(cache.directory);
        assert_int_equal(warnings, i);
        assert_true(rf_cache_open(NULL, true, &cache) < 0);
        assert_null(cache.directory);
        assert_int_equal(warnings, i);
    }
    rf_log_set(NULL, NULL, RF_LOG_ERROR);
    unlink(file);
    snprintf(below, sizeof(below), "%s/.cache", root);
    rmdir(below);
    assert_int_equal(rmdir(root), 0);
}

/* One that cannot be written is used where there is something in it. */
TEST(test_read_only_cache)
{
    char root[SCRATCH_PATH], directory[64], file[96];
    scratch(root);
    snprintf(directory, sizeof(directory), "%s/ringfire", root);
    snprintf(file, sizeof(file), "%s/" RF_CACHE_TUNING "x.json", directory);
    setenv("XDG_CACHE_HOME", root, 1);
    unsetenv("RINGFIRE_CACHE");
    int warnings = 0;
    rf_log_set(count_logs, &warnings, RF_LOG_WARN);
    for (int filled = 0; filled < 2; filled++) {
        rf_cache named, unnamed, required;
        assert_int_equal(mkdir(directory, 0755), 0);
        if (filled) assert_int_equal(rf_file_write_atomic(file, "x", 1), RF_OK);
        assert_int_equal(chmod(directory, 0555), 0);
        assert_int_equal(chmod(root, 0755), 0);
        const bool root_user = geteuid() == 0;
        if (root_user) assert_int_equal(seteuid(65534), 0); /* root may write everywhere */
        const rf_result of_named = rf_cache_open(directory, false, &named);
        const rf_result of_required = rf_cache_open(directory, true, &required);
        const rf_result of_default = rf_cache_open(NULL, false, &unnamed);
        if (root_user) assert_int_equal(seteuid(0), 0);
        assert_int_equal(of_named, filled ? RF_OK : RF_ERROR_IO);
        assert_int_equal(of_required, RF_ERROR_IO);
        assert_int_equal(of_default, RF_OK);
        assert_int_equal(warnings, 1); /* of the default one, while it is empty */
        if (filled) {
            assert_true(named.read_only && unnamed.read_only);
            assert_string_equal(unnamed.directory, directory);
        } else {
            assert_null(unnamed.directory);
        }
        rf_free(named.directory);
        rf_free(unnamed.directory);
        scratch_remove(directory);
    }
    rf_log_set(NULL, NULL, RF_LOG_ERROR);
    /* A path that is no directory. */
    rf_cache cache;
    assert_int_equal(rf_file_write_atomic(directory, "x", 1), RF_OK);
    assert_int_equal(chmod(directory, 0755), 0);
    assert_int_equal(rf_cache_open(directory, false, &cache), RF_ERROR_IO);
    assert_non_null(strstr(rf_error_message(), "Not a directory"));
    unlink(directory);
    assert_int_equal(mkfifo(directory, 0755), 0);
    assert_int_equal(rf_cache_open(directory, false, &cache), RF_ERROR_IO);
    void *data;
    size_t size;
    assert_int_equal(rf_file_read(directory, 0, &data, &size), RF_ERROR_IO); /* at once, too */
    assert_int_equal(rf_file_read("/dev/zero", 0, &data, &size), RF_ERROR_IO);
    unsetenv("XDG_CACHE_HOME");
    scratch_remove(root);
}

static char logged[256];
static void keep_log(void *user, rf_log_level level, const char *message)
{
    snprintf(logged, sizeof(logged), "%s%d:%s", (const char *)user, (int)level, message);
}

TEST(test_log)
{
    rf_log_message(RF_LOG_ERROR, "nobody listens");
    static char prefix[] = "u";
    assert_false(rf_log_wants(RF_LOG_ERROR));
    rf_log_set(keep_log, prefix, RF_LOG_WARN);
    assert_true(rf_log_wants(RF_LOG_WARN));
    assert_false(rf_log_wants(RF_LOG_INFO));
    rf_log_message(RF_LOG_INFO, "too verbose");
    assert_string_equal(logged, "");
    rf_log_message(RF_LOG_WARN, "seen %d", 5);
    assert_string_equal(logged, "u1:seen 5");
    rf_log_set(NULL, NULL, RF_LOG_ERROR);
    rf_log_message(RF_LOG_ERROR, "gone");
    assert_string_equal(logged, "u1:seen 5");
    setenv("RINGFIRE_LOG", "debug", 1);
    rf_log_set(keep_log, prefix, RF_LOG_WARN);
    rf_log_message(RF_LOG_DEBUG, "more than the program wanted");
    assert_string_equal(logged, "u3:more than the program wanted");
    setenv("RINGFIRE_LOG", "error", 1);
    rf_log_set(keep_log, prefix, RF_LOG_WARN);
    rf_log_message(RF_LOG_WARN, "less");
    assert_string_equal(logged, "u3:more than the program wanted");
    setenv("RINGFIRE_LOG", "loud", 1);
    rf_log_set(keep_log, prefix, RF_LOG_WARN);
    assert_string_equal(logged, "u0:RINGFIRE_LOG is 'loud', not error, warn, info or debug");
    rf_log_message(RF_LOG_WARN, "as the program wanted");
    assert_string_equal(logged, "u1:as the program wanted");
    unsetenv("RINGFIRE_LOG");
    rf_log_set(NULL, NULL, RF_LOG_ERROR);
}

TEST(test_error_codes)
{
    for (int64_t code = RF_ERROR_LOWEST; code <= RF_ERROR_INVALID_ARGUMENT; code++)
        assert_int_equal(rf_error_code(code), code);
    static const int64_t others[] = { 0, 1, RF_ERROR_LOWEST - 1, INT32_MIN, INT64_MAX };
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
        assert_int_equal(rf_error_code(others[i]), RF_ERROR_INTERNAL);
    assert_string_equal(rf_result_name((rf_result)(RF_ERROR_LOWEST - 1)), "unknown result"); /* it is the lowest */
}

TEST(test_caps_clamp)
{
    rf_device_caps caps = { .max_workgroup_size = { 1024, 1024, 1024 },
                            .max_workgroup_invocations = 1024,
                            .max_grid = { 1u << 30, 1u << 30, 1u << 30 },
                            .max_shared_memory = 1u << 17,
                            .max_push_constants = 256,
                            .max_texel_elements = 1u << 30,
                            .max_storage_range = 1ull << 40,
                            .buffer_alignment = 64,
                            .int64 = true,
                            .full_subgroups = true,
                            .subgroup_size = 8 };
    rf_device_caps_clamp(&caps);
    assert_int_equal(caps.max_workgroup_invocations, 128);
    assert_int_equal(caps.max_shared_memory, 16384);
    assert_int_equal(caps.max_storage_range, 1u << 27);
    assert_int_equal(caps.buffer_alignment, 256);
    assert_false(caps.int64 || caps.full_subgroups);
    assert_int_equal(caps.subgroup_size, 8);
}

TESTS(base, NULL, NULL)
