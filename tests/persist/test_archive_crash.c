/* SPDX-License-Identifier: Apache-2.0 */
/* A save that is interrupted, by a crash, a kill or a failing disk, leaves the old file or the new one. */
#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "../support/folder.h"
#include "base/platform.h"
#include "memory_files.h"
#include "sample.h"
#include "tests/room.h"
#include "wrapped.h"

static int num_kills = 20;

/* 'o'ld, 'n'ew, or what went wrong. */
static char what_is_there(memory_files *files, const sample *old, const sample *new)
{
    const rf_file_ops ops = memory_file_ops(files);
    rf_archive *a;
    if (rf_archive_open_with(&ops, "c", &a) < 0) return 'x';
    const char result = !sample_compare(new, a) ? 'n' : !sample_compare(old, a) ? 'o' : 'd';
    rf_archive_close(&a);
    return result;
}

/* Saves `new` over `old`, records it and tries crashes; counts what is there after them. */
static void crash_states(bool ignore_sync, uint32_t states, uint32_t counts[128], uint32_t *distinct)
{
    sample old, new;
    sample_make(&old, 1, 200);
    sample_make(&new, 2, 200);
    memory_files before = { 0 }, recorded;
    const rf_file_ops before_ops = memory_file_ops(&before);
    assert_int_equal(rf_archive_write_with(&before_ops, "c", &old.contents, NULL), RF_OK);
    memory_files compact;
    memory_files_copy(&before, &compact);
    memory_files_copy(&before, &recorded);
    recorded.record = true;
    recorded.max_transfer = 150;
    recorded.ignore_sync = ignore_sync;
    const rf_file_ops ops = memory_file_ops(&recorded);
    assert_int_equal(rf_archive_write_with(&ops, "c", &new.contents, NULL), RF_OK);

    uint64_t *seen = calloc(MEMORY_STATES, sizeof(*seen));
    assert_non_null(seen);
    rf_rng rng = { 2024, 0 };
    for (uint32_t k = 0; k <= recorded.num_changes; k++) {
        for (uint32_t i = 0; i <= states / recorded.num_changes; i++) {
            memory_files state;
            memory_files_crash(&compact, &recorded, k, &rng, &state);
            *distinct += memory_files_are_new(seen, &state);
            const char what = what_is_there(&state, &old, &new);
            counts[(int)what]++;
            /* After the last sync of the directory nothing may bring the old one back. */
            if (k == recorded.num_changes && !ignore_sync) assert_int_equal(what, 'n');
            memory_files_free(&state);
        }
    }
    free(seen);
    memory_files_free(&compact);
    memory_files_free(&recorded);
    memory_files_free(&before);
    sample_free(&old);
    sample_free(&new);
}

static void test_crashes(void **state)
{
    (void)state;
    uint32_t counts[128] = { 0 }, distinct = 0;
    crash_states(false, 22000, counts, &distinct);
    print_message("%u states old, %u new, %u neither; %u distinct\n", counts['o'], counts['n'],
                  counts['x'] + counts['d'], distinct);
    assert_int_equal(counts['x'] + counts['d'], 0);
    assert_true(counts['o'] > 100 && counts['n'] > 100);
    assert_true(distinct >= 10000);
}

/* The simulation would notice: a writer without fsync loses both. */
static void test_simulation_notices_missing_sync(void **state)
{
    (void)state;
    uint32_t counts[128] = { 0 }, distinct = 0;
    crash_states(true, 1000, counts, &distinct);
    assert_true(counts['x'] > 0);
}

/* Fails the n-th file operation for every n, once or from there on. */
static void test_every_operation_fails(void **state)
{
    (void)state;
    static const struct {
        int code;
        bool from_there;
    } faults[] = { { EIO, false }, { ENOSPC, true }, { EINTR, false }, { EDQUOT, false } };
    sample old, new;
    sample_make(&old, 1, 3000);
    sample_make(&new, 2, 3000);
    memory_files before = { 0 };
    const rf_file_ops before_ops = memory_file_ops(&before);
    assert_int_equal(rf_archive_write_with(&before_ops, "c", &old.contents, NULL), RF_OK);
    for (size_t f = 0; f < sizeof(faults) / sizeof(faults[0]); f++) {
        uint64_t n = 1, calls;
        do {
            memory_files files;
            memory_files_copy(&before, &files);
            files.max_transfer = 1000;
            files.fail_at = n;
            files.fail_code = faults[f].code;
            files.fail_from_there = faults[f].from_there;
            const rf_file_ops ops = memory_file_ops(&files);
            const rf_result r = rf_archive_write_with(&ops, "c", &new.contents, NULL);
            calls = files.calls;
            files.fail_at = 0;
            const bool renamed = strstr(rf_error_message(), "the new file is complete") != NULL;
            const char what = what_is_there(&files, &old, &new);
            assert_int_equal(files.num_names, 1);
            /* rename() is not restarted by signals; closing the directory is of no consequence. */
            if (r == RF_OK)
                assert_int_equal(what, 'n');
            else
                assert_int_equal(what, renamed ? 'n' : 'o');
            if (r < 0) assert_true(r == RF_ERROR_IO && rf_error_message()[0]);
            if (n > calls) assert_int_equal(r, RF_OK);
            for (int fd = 0; fd < MEMORY_OPEN; fd++) assert_int_equal(files.open[fd], 0);
            memory_files_free(&files);
        } while (n++ <= calls);
        assert_true(n > 20);
    }
    memory_files_free(&before);
    sample_free(&old);
    sample_free(&new);
}

static void test_reading_fails(void **state)
{
    (void)state;
    sample s;
    sample_make(&s, 1, 3000);
    memory_files files = { .max_transfer = 1000 };
    const rf_file_ops ops = memory_file_ops(&files);
    assert_int_equal(rf_archive_write_with(&ops, "c", &s.contents, NULL), RF_OK);
    static const int codes[] = { EIO, EINTR };
    for (int i = 0; i < 2; i++) {
        uint64_t calls = UINT64_MAX; /* of a reading that succeeds */
        for (uint64_t n = UINT64_MAX; n > 0; n = n > calls ? calls : n - 1) {
            files.calls = 0;
            files.fail_at = n;
            files.fail_code = codes[i];
            rf_archive *a = NULL;
            rf_result r = rf_archive_open_with(&ops, "c", &a);
            if (r == RF_OK) r = rf_archive_verify(a);
            rf_archive_close(&a);
            if (n == UINT64_MAX) calls = files.calls;
            /* Every call matters but the last, which closes; one that was interrupted is made again. */
            const bool harmless = n >= calls || codes[i] == EINTR;
            if (r != (harmless ? RF_OK : RF_ERROR_IO))
                fail_msg("call %llu of %llu: %s", (unsigned long long)n, (unsigned long long)calls, rf_result_name(r));
            if (!harmless && (strncmp(rf_error_message(), "c: cannot ", 10) != 0 ||
                              !strstr(rf_error_message(), "Input/output error")))
                fail_msg("'%s' names neither the file nor the reason", rf_error_message());
            for (int fd = 0; fd < MEMORY_OPEN; fd++) assert_int_equal(files.open[fd], 0);
        }
        assert_true(calls > 10);
    }
    files.fail_at = 0;
    memory_files_free(&files);
    sample_free(&s);
}

/* Every allocation fails once; whatever happens is complete, and nothing leaks. */
static void test_every_allocation_fails(void **state)
{
    (void)state;
    sample old, new;
    sample_make(&old, 1, 3000);
    sample_make(&new, 2, 3000);
    for (uint32_t threads = 1; threads <= 3; threads += 2) {
        const rf_save_params params = { .threads = threads };
        uint64_t failed = 0;
        for (uint64_t n = 1;; n++) {
            memory_files files = { 0 };
            const rf_file_ops ops = memory_file_ops(&files);
            const uint64_t live = wrapped_live();
            assert_int_equal(rf_archive_write_with(&ops, "c", &old.contents, NULL), RF_OK);
            wrapped_reset(n);
            const rf_result r = rf_archive_write_with(&ops, "c", &new.contents, &params);
            const bool reached = wrapped_calls() >= n;
            wrapped_reset(0);
            assert_true(r == RF_OK || r == RF_ERROR_OUT_OF_HOST_MEMORY);
            assert_int_equal(what_is_there(&files, &old, &new), r == RF_OK ? 'n' : 'o');
            assert_int_equal(files.num_names, 1);
            assert_true(wrapped_live() == live);
            failed += r < 0;
            memory_files_free(&files);
            if (!reached) break;
        }
        assert_true(failed > 10);
    }
    /* Reading. */
    memory_files files = { 0 };
    const rf_file_ops ops = memory_file_ops(&files);
    assert_int_equal(rf_archive_write_with(&ops, "c", &new.contents, NULL), RF_OK);
    uint64_t failed = 0;
    for (uint64_t n = 1;; n++) {
        const uint64_t live = wrapped_live();
        rf_archive *a = NULL;
        wrapped_reset(n);
        rf_result r = rf_archive_open_with(&ops, "c", &a);
        if (r == RF_OK) r = rf_archive_verify(a);
        const bool reached = wrapped_calls() >= n;
        wrapped_reset(0);
        rf_archive_close(&a);
        assert_true(r == RF_OK || r == RF_ERROR_OUT_OF_HOST_MEMORY);
        assert_true(wrapped_live() == live);
        failed += r < 0;
        if (!reached) break;
    }
    assert_true(failed > 5);
    memory_files_free(&files);
    sample_free(&old);
    sample_free(&new);
}

/* ---- kill -9 ---- */

static _Noreturn void save_for_ever(const char *path)
{
    for (uint64_t seed = 0;; seed++) {
        sample s;
        sample_make(&s, seed % 8, 20000);
        if (rf_archive_write(path, &s.contents, NULL) < 0) _exit(1);
        sample_free(&s);
    }
}

static void remove_temporaries(const char *directory)
{
    DIR *d = opendir(directory);
    assert_non_null(d);
    for (struct dirent *e; (e = readdir(d)) != NULL;) {
        char path[512];
        if (!strstr(e->d_name, RF_TEMPORARY_INFIX)) continue;
        snprintf(path, sizeof(path), "%s/%s", directory, e->d_name);
        unlink(path);
    }
    closedir(d);
}

static void test_kill(void **state)
{
    (void)state;
    char directory[SCRATCH_PATH], path[64];
    scratch(directory);
    snprintf(path, sizeof(path), "%s/c", directory);
    sample samples[8];
    for (uint64_t i = 0; i < 8; i++) sample_make(&samples[i], i, 20000);
    const uint64_t start = rf_now_ns();
    assert_int_equal(rf_archive_write(path, &samples[0].contents, NULL), RF_OK);
    uint64_t patience = 4 * (rf_now_ns() - start); /* in which a child saves some times */
    rf_rng rng = { (uint64_t)getpid(), 0 };
    bool saved = false;
    for (int i = 0; i < num_kills; i++) {
        const pid_t child = fork();
        assert_true(child >= 0);
        if (child == 0) save_for_ever(path);
        const uint64_t wait = rf_rng_below(&rng, patience);
        nanosleep(&(struct timespec){ (time_t)(wait / 1000000000), (long)(wait % 1000000000) }, NULL);
        kill(child, SIGKILL);
        int status;
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_true(WIFSIGNALED(status));
        rf_archive *a;
        if (rf_archive_open(path, &a) < 0) fail_msg("%s", rf_error_message());
        rf_archive_value v;
        assert_int_equal(rf_archive_value_get(a, "step", &v), RF_OK);
        assert_true(v.number < 8);
        assert_null(sample_compare(&samples[v.number], a));
        if (v.number == 0 && !saved) patience += patience / 4; /* not one was finished: a busy machine */
        saved |= v.number > 0;
        rf_archive_close(&a);
        remove_temporaries(directory);
    }
    assert_true(saved); /* something was saved */
    for (int i = 0; i < 8; i++) sample_free(&samples[i]);
    unlink(path);
    assert_int_equal(rmdir(directory), 0);
}

TEST_PROGRAM(archive_crash)
{
    if (argc > 1) num_kills = atoi(argv[1]);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_crashes),
        cmocka_unit_test(test_simulation_notices_missing_sync),
        cmocka_unit_test(test_every_operation_fails),
        cmocka_unit_test(test_reading_fails),
        cmocka_unit_test(test_every_allocation_fails),
        cmocka_unit_test(test_kill),
    };
    const struct CMUnitTest kills[] = { cmocka_unit_test(test_kill) };
    if (argc > 1) return cmocka_run_group_tests(kills, NULL, NULL);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
