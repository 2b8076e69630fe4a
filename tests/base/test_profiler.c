/* SPDX-License-Identifier: Apache-2.0 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../support/folder.h"
#include "base/crc32c.h"
#include "base/error.h"
#include "base/memory.h"
#include "base/profiler.h"
#include "tests/room.h"

static char folder[SCRATCH_PATH];

static char *read_text(const char *path)
{
    void *data;
    size_t size;
    assert_int_equal(rf_file_read(path, 0, &data, &size), RF_OK);
    char *text = calloc(1, size + 1);
    assert_non_null(text);
    memcpy(text, data, size);
    rf_free(data);
    return text;
}

static uint32_t occurrences(const char *text, const char *part)
{
    uint32_t n = 0;
    for (const char *at = text; (at = strstr(at, part)); at += strlen(part)) n++;
    return n;
}

/* RFC 3720, B.4, and the check value of the CRC catalogues. */
TEST(test_crc32c)
{
    unsigned char bytes[32] = { 0 };
    assert_int_equal(rf_crc32c(0, "", 0), 0);
    assert_int_equal(rf_crc32c(0, "123456789", 9), 0xe3069283u);
    assert_int_equal(rf_crc32c(0, bytes, 32), 0x8a9136aau);
    memset(bytes, 0xff, 32);
    assert_int_equal(rf_crc32c(0, bytes, 32), 0x62a8ab43u);
    for (int i = 0; i < 32; i++) bytes[i] = (unsigned char)i;
    assert_int_equal(rf_crc32c(0, bytes, 32), 0x46dd794eu);
    assert_int_equal(rf_crc32c(rf_crc32c(0, bytes, 7), bytes + 7, 25), 0x46dd794eu);
}

static void *spin(void *user)
{
    for (int i = 0; i < 3000; i++) {
        const uint64_t begin = rf_span_begin();
        rf_span_end_with(begin, "test", user, (rf_span_arg){ "i", i }, (rf_span_arg){ "bytes", -1 });
    }
    return NULL;
}

TEST(test_threads)
{
    char path[64];
    snprintf(path, sizeof(path), "%s/threads.json", folder);
    assert_int_equal(rf_profiler_start(&(rf_profiler_params){ .path = path, .rank = 3 }), RF_OK);
    assert_int_equal(rf_profiler_start(&(rf_profiler_params){ .path = path }), RF_ERROR_INVALID_ARGUMENT);
    pthread_t threads[3];
    static char first[] = "first \"quoted\" \\ name", second[] = "second",
                long_name[] = "a name that is longer than what a span has room for, by far";
    assert_int_equal(pthread_create(&threads[0], NULL, spin, first), 0);
    assert_int_equal(pthread_create(&threads[1], NULL, spin, second), 0);
    assert_int_equal(pthread_create(&threads[2], NULL, spin, long_name), 0);
    const uint32_t track = rf_profiler_track("a device");
    const uint64_t now = rf_now_ns();
    rf_profiler_event(&(rf_span_event){ "gpu", "kernel", now, now + 1500, track, { { NULL, 0 } } });
    for (int i = 0; i < 3; i++) pthread_join(threads[i], NULL);
    assert_int_equal(rf_profiler_stop(), RF_OK);
    char *text = read_text(path);
    assert_int_equal(occurrences(text, "\"name\":\"first \\\"quoted\\\" \\\\ name\""), 3000);
    assert_int_equal(occurrences(text, "\"name\":\"second\""), 3000);
    assert_int_equal(occurrences(text, "\"name\":\"a name that is longer"), 3000);
    assert_int_equal(occurrences(text, "{\"i\":2999,\"bytes\":-1}"), 3);
    assert_int_equal(occurrences(text, "{\"name\":\"a device\"}"), 1);
    assert_int_equal(occurrences(text, "\"dur\":1.500,\"cat\":\"gpu\""), 1);
    assert_int_equal(occurrences(text, "\"pid\":3"), occurrences(text, "\"ph\":"));
    assert_non_null(strstr(text, "\n]\n"));
    free(text);
}

TEST(test_off)
{
    assert_false(rf_profiler_on());
    assert_int_equal(rf_span_begin(), 0);
    rf_span_end(0, "test", "nothing");
    rf_profiler_end(rf_profiler_begin(), "nothing");
    assert_int_equal(rf_profiler_stop(), RF_OK);
    assert_int_equal(rf_profiler_start(NULL), RF_ERROR_INVALID_ARGUMENT);
    assert_int_equal(rf_profiler_start(&(rf_profiler_params){ .path = "/nonexistent/x" }), RF_ERROR_IO);
    assert_non_null(strstr(rf_error_message(), "/nonexistent/x"));
}

/* One trace after the other: nothing of the first is in the second. Too much is left out and counted. */
TEST(test_again)
{
    char path[64];
    snprintf(path, sizeof(path), "%s/again.json", folder);
    assert_int_equal(rf_profiler_start(&(rf_profiler_params){ .path = path }), RF_OK);
    rf_profiler_end(rf_profiler_begin(), "one");
    const uint64_t begin = rf_profiler_begin();
    assert_int_equal(rf_profiler_stop(), RF_OK);
    rf_profiler_end(begin, "after the end");
    assert_int_equal(rf_profiler_start(&(rf_profiler_params){ .path = path, .max_bytes = 1000 }), RF_OK);
    for (int i = 0; i < 1000; i++) rf_profiler_end(rf_profiler_begin(), "two");
    assert_int_equal(rf_profiler_stop(), RF_OK);
    char *text = read_text(path);
    assert_int_equal(occurrences(text, "\"one\""), 0);
    assert_int_equal(occurrences(text, "after the end"), 0);
    assert_in_range(occurrences(text, "\"two\""), 2, 20);
    char dropped[64];
    snprintf(dropped, sizeof(dropped), "{\"spans\":%u}", 1000 - occurrences(text, "\"two\""));
    assert_non_null(strstr(text, dropped));
    free(text);
}

static void note_cut(void *user, rf_log_level level, const char *message)
{
    assert_int_equal(level, RF_LOG_WARN);
    assert_non_null(strstr(message, "trace '/dev/full' is truncated: writing it failed (No space left"));
    rf_profiler_end(rf_profiler_begin(), "in the log"); /* the receiver of the message may record spans */
    ++*(int *)user;
}

TEST(test_full_disk)
{
    assert_int_equal(rf_profiler_start(&(rf_profiler_params){ .path = "/dev/full" }), RF_OK);
    rf_profiler_end(rf_profiler_begin(), "one");
    assert_int_equal(rf_profiler_stop(), RF_ERROR_IO);
    assert_non_null(strstr(rf_error_message(), "/dev/full"));
}

/* The log says so when it happens, once; a program may end long after it. */
TEST(test_full_disk_is_told)
{
    int told = 0;
    rf_log_set(note_cut, &told, RF_LOG_WARN);
    assert_int_equal(rf_profiler_start(&(rf_profiler_params){ .path = "/dev/full" }), RF_OK);
    for (int i = 0; i < 5000; i++) rf_profiler_end(rf_profiler_begin(), "span");
    assert_int_equal(told, 1);
    assert_int_equal(rf_profiler_stop(), RF_ERROR_IO);
    assert_int_equal(told, 1);
    rf_log_set(NULL, NULL, RF_LOG_WARN);
}

TEST(test_environment)
{
    char path[64], expected[80];
    snprintf(path, sizeof(path), "%s/of.env.json", folder);
    setenv("RINGFIRE_TRACE", path, 1);
    setenv("RINGFIRE_TRACE_OPS", "x", 1);
    assert_int_equal(rf_profiler_join(2, 4, 0), RF_ERROR_INVALID_ARGUMENT);
    setenv("RINGFIRE_TRACE_OPS", "10", 1);
    assert_int_equal(rf_profiler_join(2, 4, 0), RF_OK);
    assert_int_equal(rf_profiler_join(2, 4, 0), RF_OK);
    assert_true(rf_profiler_times_ops(5) && rf_profiler_times_ops(15));
    assert_false(rf_profiler_times_ops(0) || rf_profiler_times_ops(10));
    assert_int_equal(rf_profiler_stop(), RF_OK);
    snprintf(expected, sizeof(expected), "%s/of.env.rank2.json", folder);
    assert_int_equal(access(expected, R_OK), 0);
    setenv("RINGFIRE_TRACE_OPS", "0", 1);
    assert_int_equal(rf_profiler_join(0, 1, 0), RF_OK);
    assert_false(rf_profiler_times_ops(5));
    assert_int_equal(rf_profiler_stop(), RF_OK);
    assert_int_equal(access(path, R_OK), 0);
    /* A job that is started again leaves the files of the attempt before as they are. */
    static const char *const again[] = { "of.env.attempt3.rank1.json", "of.env.attempt3.json" };
    for (uint32_t size = 2; size > 0; size--) {
        assert_int_equal(rf_profiler_join(size - 1, size, 2), RF_OK);
        assert_int_equal(rf_profiler_stop(), RF_OK);
        snprintf(expected, sizeof(expected), "%s/%s", folder, again[2 - size]);
        assert_int_equal(access(expected, R_OK), 0);
    }
    unsetenv("RINGFIRE_TRACE");
    unsetenv("RINGFIRE_TRACE_OPS");
}

/* A forked process must not reach the file, whatever it does on its way out. */
TEST(test_fork)
{
    char path[64];
    snprintf(path, sizeof(path), "%s/fork.json", folder);
    assert_int_equal(rf_profiler_start(&(rf_profiler_params){ .path = path }), RF_OK);
    rf_profiler_end(rf_profiler_begin(), "parent");
    const pid_t child = fork();
    if (child == 0) {
        rf_profiler_end(rf_profiler_begin(), "child");
        (void)rf_profiler_stop();
        _exit(0);
    }
    assert_true(child > 0);
    assert_int_equal(waitpid(child, NULL, 0), child);
    assert_int_equal(rf_profiler_stop(), RF_OK);
    char *text = read_text(path);
    assert_int_equal(occurrences(text, "\"parent\""), 1);
    assert_int_equal(occurrences(text, "\"child\""), 0);
    free(text);
}

static int make_folder(void **unused)
{
    (void)unused;
    scratch(folder);
    return 0;
}

static int remove_folder(void **unused)
{
    (void)unused;
    scratch_remove(folder);
    return 0;
}

TESTS(profiler, make_folder, remove_folder)
