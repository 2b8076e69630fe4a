/* SPDX-License-Identifier: Apache-2.0 */
/* The pipeline cache on disk: written, reused, and harmless whatever has happened to the file. */
#include "../support/folder.h"
#include "gpu_test.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "gpu/internal.h"
#include "tests/room.h"

static rf_gpu *shared_gpu;
#define MAX_DEVICES 16
static rf_device_info infos[MAX_DEVICES];
static uint32_t device_index, num_devices;
static bool is_cpu;

typedef struct fixture {
    char directory[SCRATCH_PATH];
    char file[512]; /* the cache in it, once written */
} fixture;

static uint32_t num_warnings;
static char last_warning[512];

static void on_log(void *user, rf_log_level level, const char *message)
{
    (void)user;
    if (level > RF_LOG_WARN) return;
    num_warnings++;
    snprintf(last_warning, sizeof(last_warning), "%s", message);
}

static int setup(void **state)
{
    fixture *f = calloc(1, sizeof(*f));
    assert_non_null(f);
    scratch(f->directory);
    num_warnings = 0;
    last_warning[0] = '\0';
    *state = f;
    return 0;
}

static uint32_t remove_files(const char *directory)
{
    DIR *d = opendir(directory);
    if (!d) return 0;
    uint32_t count = 0;
    for (struct dirent *e; (e = readdir(d));) {
        if (e->d_name[0] == '.') continue;
        char path[512];
        snprintf(path, sizeof(path), "%s/%s", directory, e->d_name);
        unlink(path);
        count++;
    }
    closedir(d);
    return count;
}

static int teardown(void **state)
{
    fixture *f = *state;
    chmod(f->directory, 0700);
    remove_files(f->directory);
    rmdir(f->directory);
    free(f);
    return 0;
}

/* Opens a device on `directory`, uses a pipeline, runs it, closes. */
static void use_with(const char *directory, bool read_only)
{
    rf_gpu_device *device;
    const rf_gpu_device_params params = { .index = device_index,
                                          .cache_directory = directory,
                                          .cache_read_only = read_only };
    CHECK(rf_gpu_device_open(shared_gpu, &params, &device));
    is_cpu = rf_gpu_caps(device)->is_cpu;
    rf_gpu_buffer *x, *y;
    rf_gpu_pipeline *pipeline;
    rf_gpu_recording *rec;
    CHECK(rf_gpu_buffer_create(device, RF_GPU_MEMORY_DEVICE, 256, "x", &x));
    CHECK(rf_gpu_buffer_create(device, RF_GPU_MEMORY_DEVICE, 256, "y", &y));
    const uint32_t bias = 9;
    CHECK(rf_gpu_pipeline_get(device,
                              &(rf_gpu_pipeline_params){ .shader = &rf_shader_test_axpy,
                                                         .spec = &bias,
                                                         .num_spec = 1,
                                                         .num_bindings = 2,
                                                         .push_size = sizeof(rf_push_axpy) },
                              &pipeline));
    CHECK(rf_gpu_recording_begin(device, "use", &rec));
    CHECK(rf_gpu_record_dispatch(rec, pipeline, (rf_gpu_binding[]){ { x, 0, 256, 0 }, { y, 0, 256, 0 } },
                                 &(rf_push_axpy){ 64, 1.0f, 0 }, (uint32_t[]){ 1, 1, 1 }, NULL));
    CHECK(rf_gpu_recording_end(rec));
    uint64_t ticket;
    CHECK(rf_gpu_submit(device, &rec, 1, &ticket));
    float result = 0;
    CHECK(rf_gpu_buffer_read(y, 252, &result, 4));
    assert_true(result == 9.0f);
    rf_gpu_recording_destroy(&rec);
    rf_gpu_buffer_destroy(&x);
    rf_gpu_buffer_destroy(&y);
    rf_gpu_device_close(&device);
}

static void use(const char *directory)
{
    use_with(directory, false);
}

static void find_file(fixture *f)
{
    DIR *d = opendir(f->directory);
    assert_non_null(d);
    uint32_t count = 0;
    for (struct dirent *e; (e = readdir(d));) {
        if (e->d_name[0] == '.') continue;
        snprintf(f->file, sizeof(f->file), "%s/%s", f->directory, e->d_name);
        count++;
    }
    closedir(d);
    assert_int_equal(count, 1); /* no temporary file is left either */
}

static void test_written_and_reused(void **state)
{
    fixture *f = *state;
    use(f->directory);
    find_file(f);
    assert_non_null(strstr(f->file, "/vulkan-"));
    struct stat before, after;
    assert_int_equal(stat(f->file, &before), 0);
    assert_true(before.st_size > 32);
    use(f->directory);
    find_file(f);
    assert_int_equal(stat(f->file, &after), 0);
    assert_int_equal(before.st_size, after.st_size);
    /* The CPU drivers' caches are empty: what was read is what would be written, so the file is left alone. */
    if (is_cpu) assert_int_equal(before.st_ino, after.st_ino);
    assert_int_equal(num_warnings, 0);
}

static void test_directory_is_made(void **state)
{
    fixture *f = *state;
    char nested[128];
    snprintf(nested, sizeof(nested), "%s/a", f->directory);
    use(nested);
    assert_int_equal(num_warnings, 0);
    assert_int_equal(remove_files(nested), 1);
    assert_int_equal(rmdir(nested), 0);
}

static void write_bytes(const char *path, const void *data, size_t size)
{
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(data, 1, size, file), size);
    fclose(file);
}

/* Every damaged file must be reported, ignored and replaced by a good one. */
static void test_damaged_files(void **state)
{
    fixture *f = *state;
    use(f->directory);
    find_file(f);
    void *good;
    size_t size;
    CHECK(rf_file_read(f->file, 0, &good, &size));
    uint8_t *bad = malloc(size + 1);
    assert_non_null(bad);
    const size_t flips[] = { 0, 9, 17, 24, 28, 32, 40, size / 2, size - 1 };
    for (size_t i = 0; i < sizeof(flips) / sizeof(flips[0]); i++) {
        memcpy(bad, good, size);
        bad[flips[i]] ^= 0x10;
        write_bytes(f->file, bad, size);
        num_warnings = 0;
        use(f->directory);
        if (num_warnings != 1) fail_msg("flip at %zu of %zu: %u warnings", flips[i], size, num_warnings);
        assert_non_null(strstr(last_warning, "ignored"));
    }
    num_warnings = 0;
    use(f->directory); /* the last of them has been replaced */
    assert_int_equal(num_warnings, 0);
    const size_t lengths[] = { 0, 1, 23, 24, 25, 55, size - 1, size + 1 };
    for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
        if (lengths[i] == size) continue;
        memcpy(bad, good, size);
        bad[size] = 0;
        write_bytes(f->file, bad, lengths[i]);
        num_warnings = 0;
        use(f->directory);
        if (num_warnings != 1) fail_msg("length %zu of %zu: %u warnings", lengths[i], size, num_warnings);
    }
    free(bad);
    rf_free(good);
}

static void test_other_drivers_file(void **state)
{
    fixture *f = *state;
    const uint32_t here = device_index, there = (here + 1) % num_devices;
    if (!infos[there].usable || strcmp(infos[here].driver_name, infos[there].driver_name) == 0) SKIP("one driver only");
    use(f->directory);
    find_file(f);
    char own[512], other[512];
    snprintf(own, sizeof(own), "%s", f->file);
    snprintf(other, sizeof(other), "%s/set-aside", f->directory);
    assert_int_equal(rename(own, other), 0);
    device_index = there;
    char second[SCRATCH_PATH];
    scratch(second);
    use(second);
    fixture g = { 0 };
    memcpy(g.directory, second, sizeof(second));
    find_file(&g);
    device_index = here;
    assert_int_equal(rename(g.file, own), 0);
    rmdir(second);
    use(f->directory);
    assert_int_equal(num_warnings, 1);
    assert_non_null(strstr(last_warning, "another driver"));
}

static void test_unwritable_directory(void **state)
{
    fixture *f = *state;
    char path[128];
    /* Nothing can be made under a file, not even by root. */
    snprintf(path, sizeof(path), "%s/file", f->directory);
    write_bytes(path, "x", 1);
    snprintf(path, sizeof(path), "%s/file/cache", f->directory);
    use(path);
    assert_true(num_warnings >= 1);
    assert_non_null(strstr(last_warning, "not saved"));
    if (geteuid() != 0) {
        chmod(f->directory, 0500);
        num_warnings = 0;
        use(f->directory);
        assert_int_equal(num_warnings, 1);
    }
}

static void test_directory_in_the_files_place(void **state)
{
    fixture *f = *state;
    use(f->directory);
    find_file(f);
    assert_int_equal(unlink(f->file), 0);
    assert_int_equal(mkdir(f->file, 0700), 0);
    use(f->directory);
    assert_true(num_warnings >= 1);
    assert_int_equal(rmdir(f->file), 0);
}

/* Nothing that has the file's name is waited for, nor read without an end; a file takes its place. */
static void test_special_files(void **state)
{
    fixture *f = *state;
    use(f->directory);
    find_file(f);
    alarm(60);
    for (int kind = 0; kind < 3; kind++) {
        struct stat st;
        assert_int_equal(unlink(f->file), 0);
        assert_int_equal(kind == 0 ? mkfifo(f->file, 0600) : symlink(kind == 1 ? "/dev/zero" : f->file, f->file), 0);
        num_warnings = 0;
        use(f->directory);
        assert_int_equal(num_warnings, 1);
        assert_non_null(strstr(last_warning, "ignored"));
        assert_int_equal(lstat(f->file, &st), 0);
        assert_true(S_ISREG(st.st_mode));
    }
    alarm(0);
}

static void test_read_only(void **state)
{
    fixture *f = *state;
    use_with(f->directory, true);
    assert_int_equal(rmdir(f->directory), 0); /* nothing was written */
    assert_int_equal(mkdir(f->directory, 0700), 0);
    use(f->directory);
    find_file(f);
    write_bytes(f->file, "damaged", 7);
    use_with(f->directory, true);
    assert_int_equal(num_warnings, 1);
    assert_non_null(strstr(last_warning, "ignored"));
    struct stat st;
    assert_int_equal(stat(f->file, &st), 0);
    assert_int_equal(st.st_size, 7);
}

TEST_PROGRAM(cache)
{
    const rf_result created = rf_gpu_create(NULL, &shared_gpu);
    if (created == RF_ERROR_UNSUPPORTED || created == RF_ERROR_NOT_FOUND) {
        fprintf(stderr, "skipped: %s\n", rf_error_message());
        return 77;
    }
    CHECK(created);
    rf_log_set(on_log, NULL, RF_LOG_WARN);
    num_devices = MAX_DEVICES;
    CHECK(rf_gpu_list(shared_gpu, infos, &num_devices));
    if (num_devices > MAX_DEVICES) num_devices = MAX_DEVICES;
#define CACHE_TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        CACHE_TEST(test_written_and_reused),   CACHE_TEST(test_directory_is_made),
        CACHE_TEST(test_damaged_files),        CACHE_TEST(test_other_drivers_file),
        CACHE_TEST(test_unwritable_directory), CACHE_TEST(test_directory_in_the_files_place),
        CACHE_TEST(test_special_files),        CACHE_TEST(test_read_only),
    };
    int failed = 0;
    for (device_index = 0; device_index < num_devices; device_index++)
        if (infos[device_index].usable) failed += cmocka_run_group_tests(tests, NULL, NULL);
    rf_gpu_destroy(&shared_gpu);
    return failed;
}
