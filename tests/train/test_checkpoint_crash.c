/* SPDX-License-Identifier: Apache-2.0 */
/* Crashes and failing disks under a directory of checkpoints: what was reported as saved is found again. */
#include <errno.h>

#include "../persist/memory_files.h"
#include "base/philox.h"
#include "run_state.h"
#include "tests/room.h"
#include "train/checkpoint/checkpoint.h"

/* A checkpoint of a number and of bytes that follow from it, so that a mixture of two would show. */
enum { SIZE = 9000, FIRST = 4, LAST = 7 };
typedef struct program {
    char folder[64]; /* in memory; an empty one of that name is on the disk */
    rf_strategy *strategy;
    rf_checkpoint *checkpoint;
    uint64_t value;
    bool same; /* restored bytes are those of `value` */
} program;

static uint8_t byte_of(uint64_t value, size_t i)
{
    return (uint8_t)(rf_hash64(value, i / 8) >> i % 8 * 8);
}

static rf_result save_bytes(void *user, void **data, size_t *size)
{
    const program *p = user;
    uint8_t *bytes = rf_calloc(SIZE, 1);
    for (size_t i = 0; bytes && i < SIZE; i++) bytes[i] = byte_of(p->value, i);
    *data = bytes;
    *size = SIZE;
    return bytes ? RF_OK : RF_ERROR_OUT_OF_HOST_MEMORY;
}

/* Comes after the number: blobs were added later. */
static rf_result restore_bytes(void *user, const void *data, size_t size)
{
    program *p = user;
    const uint8_t *bytes = data;
    p->same = size == SIZE;
    for (size_t i = 0; p->same && i < SIZE; i++) p->same = bytes[i] == byte_of(p->value, i);
    return RF_OK;
}

static void program_begin(program *p)
{
    *p = (program){ .strategy = open_devices("llvmpipe") };
    if (!p->strategy) SKIP("not installed: llvmpipe");
    OK(rf_checkpoint_create(p->strategy, &p->checkpoint));
    OK(rf_checkpoint_add_counter(p->checkpoint, "value", &p->value));
    OK(rf_checkpoint_add_blob(p->checkpoint, "bytes", &(rf_blob_fns){ save_bytes, restore_bytes }, p));
    scratch(p->folder);
}

static void program_end(program *p)
{
    rf_checkpoint_destroy(&p->checkpoint);
    rf_strategy_destroy(&p->strategy);
    scratch_remove(p->folder);
}

static rf_result open_manager(const program *p, bool async, rf_checkpoint_manager **m)
{
    const rf_checkpoint_manager_params params = { .directory = p->folder,
                                                  .max_to_keep = 2,
                                                  .save = { .async = async, .threads = 1 } };
    return rf_checkpoint_manager_create(p->checkpoint, &params, m);
}

static rf_result save(program *p, rf_checkpoint_manager *m, uint64_t number, bool async)
{
    p->value = number;
    RF_TRY(rf_checkpoint_manager_save(m, number));
    return async ? rf_checkpoint_wait(p->checkpoint) : RF_OK;
}

/* Finds what a program that starts now takes up; 0: nothing is whole. Fails the test for a mixture. */
static uint64_t find(program *p, memory_files *files)
{
    const rf_file_ops ops = memory_file_ops(files);
    rf_checkpoint_manager *m;
    uint64_t number = 0;
    p->checkpoint->ops = &ops;
    p->value = 0;
    p->same = false;
    OK(open_manager(p, false, &m));
    const rf_result r = rf_checkpoint_manager_restore(m, NULL, &number);
    rf_checkpoint_manager_destroy(&m);
    p->checkpoint->ops = NULL;
    if (r == RF_ERROR_NOT_FOUND || r == RF_ERROR_CORRUPT_DATA) return 0;
    OK(r);
    assert_true(p->same);
    assert_true(p->value == number);
    return number;
}

/* Files 1 to FIRST - 1 of a manager that keeps two. */
static void earlier_files(program *p, memory_files *files)
{
    memory_files all = { 0 };
    const rf_file_ops ops = memory_file_ops(&all);
    rf_checkpoint_manager *m;
    p->checkpoint->ops = &ops;
    OK(open_manager(p, false, &m));
    for (uint64_t i = 1; i < FIRST; i++) OK(save(p, m, i, false));
    rf_checkpoint_manager_destroy(&m);
    p->checkpoint->ops = NULL;
    memory_files_copy(&all, files);
    memory_files_free(&all);
    assert_int_equal(files->num_names, 2);
}

/* ---- crashes ---- */

static uint32_t one_in = 4; /* crashes that are looked at */

typedef struct outcome {
    uint32_t states, distinct, lost; /* lost: an older one than was reported, or none */
    uint32_t found[LAST + 1];
} outcome;

/* Saves FIRST to LAST, then looks at what crashes at any point of that leave. */
static void crash(bool async, bool ignore_sync, uint32_t per_point, outcome *out)
{
    program p;
    program_begin(&p);
    memory_files before, recorded;
    earlier_files(&p, &before);
    memory_files_copy(&before, &recorded);
    recorded.record = true;
    recorded.max_transfer = 200;
    recorded.ignore_sync = ignore_sync;
    const rf_file_ops ops = memory_file_ops(&recorded);
    rf_checkpoint_manager *m;
    uint32_t reported[LAST + 1] = { 0 }; /* changes until then */
    p.checkpoint->ops = &ops;
    OK(open_manager(&p, async, &m));
    for (uint64_t i = FIRST; i <= LAST; i++) {
        OK(save(&p, m, i, async));
        reported[i] = recorded.num_changes;
    }
    rf_checkpoint_manager_destroy(&m);

    *out = (outcome){ 0 };
    uint64_t *seen = calloc(MEMORY_STATES, sizeof(*seen));
    assert_non_null(seen);
    rf_rng rng = { 7, 0 };
    for (uint32_t k = 0; k <= recorded.num_changes; k++) {
        uint64_t newest = FIRST - 1;
        while (newest < LAST && reported[newest + 1] <= k) newest++;
        for (uint32_t i = 0; i < per_point; i++) {
            memory_files state;
            memory_files_crash(&before, &recorded, k, &rng, &state);
            out->states++;
            if (memory_files_are_new(seen, &state)) {
                out->distinct++;
                const uint64_t number = find(&p, &state);
                assert_true(number <= LAST);
                out->found[number]++;
                out->lost += number < newest;
            }
            memory_files_free(&state);
        }
    }
    free(seen);
    memory_files_free(&before);
    memory_files_free(&recorded);
    program_end(&p);
}

static void crashes(bool async, uint32_t per_point, uint32_t distinct)
{
    outcome o;
    crash(async, false, per_point, &o);
    print_message("%u states, %u distinct; found:", o.states, o.distinct);
    for (uint64_t i = 0; i <= LAST; i++) print_message(" %u", o.found[i]);
    print_message("\n");
    assert_true(o.distinct >= distinct);
    assert_int_equal(o.lost, 0);
    for (uint64_t i = 0; i < FIRST - 1; i++) assert_int_equal(o.found[i], 0);
    for (uint64_t i = FIRST - 1; i <= LAST; i++) assert_true(o.found[i] > 0);
}

TEST(crashes_at_once)
{
    crashes(false, 110 / one_in, 10000 / one_in);
}

TEST(crashes_in_the_background)
{
    crashes(true, 25 / one_in, 2500 / one_in);
}

/* The simulation would notice: where nothing is synced, removing older files loses all. */
TEST(simulation_notices_missing_sync)
{
    outcome o;
    crash(false, true, 10, &o);
    assert_true(o.lost > 0);
}

/* ---- failing disks ---- */

static bool has_temporary(const memory_files *files)
{
    for (int i = 0; i < files->num_names; i++)
        if (strstr(files->name[i].name, RF_TEMPORARY_INFIX)) return true;
    return false;
}

typedef struct fault {
    int code;
    bool from_there;
} fault;

/* One save, through a manager or by itself over the newest file, whose n-th operation fails. Returns false when there
 * are fewer. */
static bool save_with_fault(program *p, const memory_files *before, fault f, uint64_t n, bool managed, bool async)
{
    memory_files files;
    memory_files_copy(before, &files);
    const rf_file_ops ops = memory_file_ops(&files);
    char path[128];
    snprintf(path, sizeof(path), "%s/ckpt-%d.rfck", p->folder, FIRST - 1);
    rf_checkpoint_manager *m;
    p->checkpoint->ops = &ops;
    OK(open_manager(p, async, &m));
    files.calls = 0;
    files.max_transfer = 900; /* short counts, too */
    files.fail_at = n;
    files.fail_code = f.code;
    files.fail_from_there = f.from_there;
    const uint64_t next = managed ? FIRST : FIRST - 1;
    p->value = FIRST;
    rf_result r = managed ? rf_checkpoint_manager_save(m, next)
                          : rf_checkpoint_save(p->checkpoint, path, &(rf_save_params){ .async = async, .threads = 1 });
    if (r >= 0 && async) r = rf_checkpoint_wait(p->checkpoint);
    const bool there = r >= 0 || strstr(rf_error_message(), "the new file is complete");
    const bool reached = files.calls >= n;
    if (r < 0) {
        assert_int_equal(r, RF_ERROR_IO);
        assert_true(rf_error_message()[0] && !strchr(rf_error_message(), '\n'));
    }
    if (!reached) assert_int_equal(r, RF_OK);
    files.fail_at = 0;
    rf_checkpoint_manager_destroy(&m);
    assert_false(has_temporary(&files));
    for (int fd = 0; fd < MEMORY_OPEN; fd++) assert_int_equal(files.open[fd], 0);
    /* The new one, or the old one unharmed; at least one more besides. */
    p->checkpoint->ops = &ops;
    p->value = 0;
    OK(open_manager(p, false, &m));
    uint64_t number;
    OK(rf_checkpoint_manager_restore(m, NULL, &number));
    assert_true(p->same);
    assert_int_equal(p->value, there ? FIRST : FIRST - 1);
    assert_int_equal(number, there ? next : FIRST - 1);
    OK(save(p, m, FIRST + 1, false)); /* goes on as if nothing had been */
    assert_int_equal(files.num_names, 2);
    rf_checkpoint_manager_destroy(&m);
    p->checkpoint->ops = NULL;
    memory_files_free(&files);
    return reached;
}

TEST(every_operation_fails)
{
    static const fault faults[] = { { EIO, false }, { ENOSPC, true }, { EINTR, false }, { EDQUOT, true } };
    program p;
    program_begin(&p);
    memory_files before;
    earlier_files(&p, &before);
    for (size_t i = 0; i < sizeof(faults) / sizeof(faults[0]); i++) {
        for (int kind = 0; kind < 4; kind++) {
            uint64_t n = 1;
            while (save_with_fault(&p, &before, faults[i], n, kind & 1, kind & 2)) n++;
            assert_true(n > 10);
        }
    }
    memory_files_free(&before);
    program_end(&p);
}

/* Restoring reads; nothing that fails there makes it take an older file, or none. */
TEST(every_reading_fails)
{
    program p;
    program_begin(&p);
    memory_files files;
    earlier_files(&p, &files);
    const rf_file_ops ops = memory_file_ops(&files);
    rf_checkpoint_manager *m;
    p.checkpoint->ops = &ops;
    OK(open_manager(&p, false, &m));
    bool reached = true;
    uint64_t failed = 0;
    for (uint64_t n = 1; reached; n++) {
        uint64_t number;
        files.calls = 0;
        files.fail_at = n;
        files.fail_code = EIO;
        p.value = 77;
        const rf_result r = rf_checkpoint_manager_restore(m, NULL, &number);
        reached = files.calls >= n;
        if (r < 0) {
            assert_int_equal(r, RF_ERROR_IO);
            assert_int_equal(p.value, 77);
            failed++;
        } else {
            assert_int_equal(number, FIRST - 1); /* closing failed, which means nothing */
        }
    }
    assert_true(failed > 5);
    files.fail_at = 0;
    rf_checkpoint_manager_destroy(&m);
    p.checkpoint->ops = NULL;
    memory_files_free(&files);
    program_end(&p);
}

/* test_checkpoint_crash [whole]: all crashes instead of a quarter of them */
TEST_PROGRAM(checkpoint_crash)
{
    if (argc > 1 && strcmp(argv[1], "whole") == 0) one_in = 1;
    return room_tests_run(own_tests, NULL, NULL);
}
