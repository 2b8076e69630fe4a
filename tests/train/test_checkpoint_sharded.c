/* SPDX-License-Identifier: Apache-2.0 */
/* Checkpoints that every worker of a job writes its part of: the same as those that the chief writes alone, whoever
 * saves and whoever restores, and complete or not there when something goes wrong. */
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../replica/mw_model.h"
#include "../support/folder.h"
#include "persist/archive/writer.h"
#include "tests/room.h"
#include "train/checkpoint/checkpoint.h"

enum { BATCH = 24, STOP = 5, TOTAL = 8 };

static const job_params two = { .num_workers = 2, .devices = { "llvmpipe", "llvmpipe" } };
static const job_params two_drivers = { .num_workers = 2, .devices = { "llvmpipe", "SwiftShader" } };
static const job_params two_again = { .num_workers = 2,
                                      .devices = { "llvmpipe", "llvmpipe" },
                                      .mirrored = { .bucket_bytes = 2000 } };
static const job_params three = { .num_workers = 3, .devices = { "llvmpipe", "llvmpipe,llvmpipe", "llvmpipe" } };
static const job_params staged = { .num_workers = 2, .devices = { "llvmpipe", "llvmpipe" }, .staged = true };
static const job_params one = { .num_workers = 1, .devices = { "llvmpipe" } };

static char folder[64];

static int make_folder(void **state)
{
    (void)state;
    scratch(folder);
    return 0;
}

static void empty(const char *path)
{
    DIR *dir = opendir(path);
    const struct dirent *entry;
    while (dir && (entry = readdir(dir))) {
        char file[512];
        snprintf(file, sizeof(file), "%s/%s", path, entry->d_name);
        if (entry->d_name[0] != '.' && unlink(file) != 0) {
            empty(file);
            rmdir(file);
        }
    }
    if (dir) closedir(dir);
}

static int remove_folder(void **state)
{
    (void)state;
    empty(folder);
    return rmdir(folder);
}

/* Files of a directory whose names contain `text`; the last one's name. */
static uint32_t count_files(const char *path, const char *text, char *name)
{
    uint32_t count = 0;
    DIR *dir = opendir(path);
    const struct dirent *entry;
    while (dir && (entry = readdir(dir))) {
        if (entry->d_name[0] == '.' || entry->d_type == DT_DIR || !strstr(entry->d_name, text)) continue;
        count++;
        if (name) snprintf(name, 256, "%s", entry->d_name);
    }
    if (dir) closedir(dir);
    return count;
}

/* ---- a program ---- */

typedef struct program {
    net n;
    rf_checkpoint *c;
} program;

static rf_result open_program(worker *w, program *p)
{
    const training t = { .batch = BATCH, .optimizer = { .kind = RF_OPTIMIZER_ADAM, .accumulation_steps = 2 } };
    GO(net_create(w, &t, &p->n));
    GO(rf_checkpoint_create(w->strategy, &p->c));
    GO(rf_checkpoint_add_model(p->c, "model", p->n.model));
    GO(rf_checkpoint_add_optimizer(p->c, "optimizer", p->n.optimizer));
    GO(rf_checkpoint_add_metric(p->c, "accuracy", p->n.accuracy));
    return rf_checkpoint_add_function(p->c, "step", p->n.step);
}

static rf_result train(worker *w, program *p, uint32_t from, uint32_t to)
{
    float loss;
    for (uint32_t i = from; i < to; i++) GO(net_step(w, &p->n, i, BATCH, &loss));
    return RF_OK;
}

static char *in_folder(const char *name, char path[160])
{
    snprintf(path, 160, "%s/%s", folder, name);
    return path;
}

static const rf_save_params sharded = { .sharded = true }, sharded_async = { .sharded = true, .async = true };

/* ---- the same as one file ---- */

static void compare_entries(const char *first, const char *second)
{
    rf_archive *a, *b;
    assert_int_equal(rf_archive_open(first, &a), RF_OK);
    assert_int_equal(rf_archive_open(second, &b), RF_OK);
    assert_string_equal(rf_archive_type(a), rf_archive_type(b));
    assert_int_equal(rf_archive_verify(b), RF_OK);
    assert_int_equal(rf_archive_num_tensors(a), rf_archive_num_tensors(b));
    for (uint64_t i = 0; i < rf_archive_num_tensors(a); i++) {
        rf_archive_entry x, y;
        assert_int_equal(rf_archive_entry_at(a, i, &x), RF_OK);
        assert_int_equal(rf_archive_find(b, x.name, &y), RF_OK);
        assert_true(x.dtype == y.dtype && rf_shape_equal(x.shape, y.shape) && x.bytes == y.bytes);
        assert_true(x.bytes == 0 || y.stored_bytes > 0);
        void *p = malloc(x.bytes + 1), *q = malloc(x.bytes + 1);
        assert_int_equal(rf_archive_read(a, x.name, p, x.bytes), RF_OK);
        assert_int_equal(rf_archive_read(b, x.name, q, x.bytes), RF_OK);
        if (memcmp(p, q, x.bytes) != 0) fail_msg("%s differs", x.name);
        free(p);
        free(q);
    }
    assert_int_equal(rf_archive_num_values(a), rf_archive_num_values(b));
    for (uint64_t i = 0; i < rf_archive_num_values(a); i++) {
        char s[4096], t[4096];
        assert_string_equal(rf_archive_value_name(a, i), rf_archive_value_name(b, i));
        assert_int_equal(rf_archive_value_text(a, i, s, sizeof(s)), RF_OK);
        assert_int_equal(rf_archive_value_text(b, i, t, sizeof(t)), RF_OK);
        assert_string_equal(s, t);
    }
    rf_archive_close(&a);
    rf_archive_close(&b);
}

/* Every worker wrote elements, and none of them all. */
static void check_shares(const char *path, uint32_t workers)
{
    rf_archive *a;
    assert_int_equal(rf_archive_open(path, &a), RF_OK);
    assert_int_equal(rf_archive_num_parts(a), workers);
    for (uint64_t i = 0; i < workers; i++) {
        char file[512];
        struct stat status;
        rf_archive *part;
        snprintf(file, sizeof(file), "%s/%s", folder, rf_archive_part_name(a, i));
        assert_int_equal(stat(file, &status), 0);
        assert_int_equal(rf_archive_open(file, &part), RF_OK);
        assert_true(rf_archive_num_tensors(part) > 0);
        uint64_t bytes = 0, all = 0;
        for (uint64_t k = 0; k < rf_archive_num_tensors(part); k++) {
            rf_archive_entry entry;
            assert_int_equal(rf_archive_entry_at(part, k, &entry), RF_OK);
            bytes += entry.bytes;
        }
        for (uint64_t k = 0; k < rf_archive_num_tensors(a); k++) {
            rf_archive_entry entry;
            assert_int_equal(rf_archive_entry_at(a, k, &entry), RF_OK);
            all += entry.bytes;
        }
        if (bytes < all / (2 * workers) || bytes > 2 * all / workers + 4096)
            fail_msg("part %llu has %llu of %llu bytes", (unsigned long long)i, (unsigned long long)bytes,
                     (unsigned long long)all);
        rf_archive_close(&part);
    }
    rf_archive_close(&a);
}

/* The same state in one file, in parts, in parts from a thread; on the way, a save over another. */
static rf_result save_all(worker *w)
{
    program p;
    char path[160];
    GO(open_program(w, &p));
    GO(train(w, &p, 0, 2));
    GO(rf_checkpoint_save(p.c, in_folder("parts.rfck", path), &sharded));
    GO(rf_checkpoint_save(p.c, in_folder("replaced.rfck", path), &sharded));
    GO(train(w, &p, 2, STOP)); /* in the middle of an accumulation */
    GO(rf_checkpoint_save(p.c, in_folder("async.rfck", path), &sharded_async));
    GO(train(w, &p, STOP, STOP)); /* nothing: the state stays */
    GO(rf_checkpoint_save(p.c, in_folder("whole.rfck", path), NULL));
    GO(rf_checkpoint_save(p.c, in_folder("parts.rfck", path), &sharded));
    GO(rf_checkpoint_save(p.c, in_folder("replaced.rfck", path), NULL));
    GO(rf_checkpoint_save(p.c, in_folder("moving.rfck", path), &sharded_async));
    GO(train(w, &p, STOP, TOTAL));
    rf_checkpoint_destroy(&p.c); /* completes it */
    return net_hash(&p.n, &w->report->hash);
}

static rf_result restore_and_train(worker *w)
{
    program p;
    GO(open_program(w, &p));
    GO(rf_checkpoint_restore(p.c, w->user, NULL));
    GO(train(w, &p, STOP, TOTAL));
    GO(rf_strategy_check_identical(w->strategy, NULL, NULL));
    rf_checkpoint_destroy(&p.c);
    return net_hash(&p.n, &w->report->hash);
}

static uint64_t run(job_params job, worker_fn body, const char *path)
{
    static report reports[MAX_WORKERS];
    memset(reports, 0, sizeof(reports));
    job.user = path;
    run_job(&job, body, reports);
    check_job(reports, job.num_workers);
    return reports[0].hash;
}

static void save_and_compare(const job_params *job, bool elsewhere)
{
    char whole[160], parts[160], async[160], moving[160];
    make_folder(NULL);
    const uint64_t hash = run(*job, save_all, NULL);
    in_folder("whole.rfck", whole);
    in_folder("parts.rfck", parts);
    compare_entries(whole, parts);
    compare_entries(whole, in_folder("async.rfck", async));
    compare_entries(whole, in_folder("moving.rfck", moving));
    check_shares(parts, job->num_workers);
    assert_int_equal(count_files(folder, "parts.rfck", NULL), 1 + job->num_workers);
    assert_int_equal(count_files(folder, "replaced.rfck", NULL), 1);
    assert_int_equal(count_files(folder, "", NULL), 5 + 3 * job->num_workers);
    assert_true(run(*job, restore_and_train, parts) == hash);
    if (elsewhere) {
        assert_true(run(one, restore_and_train, parts) == run(one, restore_and_train, whole));
        const job_params *other = job->num_workers == 3 ? &two : &three;
        assert_true(run(*other, restore_and_train, parts) == run(*other, restore_and_train, whole));
    }
    remove_folder(NULL);
}

static void by_two_drivers(void **state)
{
    (void)state;
    save_and_compare(&two_drivers, false);
}

static void by_two(void **state)
{
    (void)state;
    save_and_compare(&two, false);
}

static void by_two_in_many_buckets(void **state)
{
    (void)state;
    save_and_compare(&two_again, false);
}

static void by_three(void **state)
{
    (void)state;
    save_and_compare(&three, true);
}

static void by_devices_that_are_not_mapped(void **state)
{
    (void)state;
    save_and_compare(&staged, false);
}

/* ---- parts that are not what they should be ---- */

static rf_result save_two(worker *w)
{
    program p;
    char path[160];
    GO(open_program(w, &p));
    GO(train(w, &p, 0, 1));
    GO(rf_checkpoint_save(p.c, in_folder("a.rfck", path), &sharded));
    GO(train(w, &p, 1, 2));
    GO(rf_checkpoint_save(p.c, in_folder("b.rfck", path), &sharded));
    rf_checkpoint_destroy(&p.c);
    return RF_OK;
}

static void refuse(const char *path, const char *what, const char *part)
{
    rf_archive *a;
    assert_int_equal(rf_archive_open(path, &a), RF_ERROR_CORRUPT_DATA);
    if (!strstr(rf_error_message(), what) || !strstr(rf_error_message(), part))
        fail_msg("%s: not '%s' and '%s'", rf_error_message(), what, part);
    assert_null(a);
}

static void wrong_parts(void **state)
{
    (void)state;
    char path[160], a[256], b[256], from[512], to[512], aside[512];
    run(two, save_two, NULL);
    assert_int_equal(count_files(folder, "a.rfck.part-00001", a), 1);
    assert_int_equal(count_files(folder, "b.rfck.part-00001", b), 1);
    in_folder("a.rfck", path);
    snprintf(from, sizeof(from), "%s/%s", folder, a);
    snprintf(to, sizeof(to), "%s/%s", folder, b);
    snprintf(aside, sizeof(aside), "%s/aside", folder);
    assert_int_equal(rename(from, aside), 0);
    refuse(path, "missing", a);
    assert_int_equal(rename(to, from), 0); /* of another save */
    refuse(path, "another save", a);
    assert_int_equal(rename(aside, from), 0);
    compare_entries(path, path);
    struct stat status;
    assert_int_equal(stat(from, &status), 0);
    assert_int_equal(truncate(from, status.st_size - 1), 0);
    refuse(path, "truncated", a);
    /* A byte of the data: the file is opened, and the tensor that has it is refused. */
    assert_int_equal(truncate(from, status.st_size), 0);
    FILE *file = fopen(from, "r+b");
    assert_non_null(file);
    char trailer[24];
    assert_int_equal(fseek(file, 0, SEEK_SET), 0);
    assert_int_equal(fread(trailer, 1, 24, file), 24); /* size, in the middle; its hash at 48; the magic at 0 */
    char preamble[56];
    assert_int_equal(fseek(file, 0, SEEK_SET), 0);
    assert_int_equal(fread(preamble, 1, 56, file), 56);
    memcpy(trailer, preamble + 16, 8);
    memcpy(trailer + 8, preamble + 48, 8);
    memcpy(trailer + 16, preamble, 8);
    assert_int_equal(fseek(file, -24, SEEK_END), 0);
    assert_int_equal(fwrite(trailer, 1, 24, file), 24);
    fseek(file, 60, SEEK_SET);
    const int byte = fgetc(file);
    fseek(file, 60, SEEK_SET);
    fputc(byte ^ 1, file);
    fclose(file);
    rf_archive *archive;
    assert_int_equal(rf_archive_open(path, &archive), RF_OK);
    assert_int_equal(rf_archive_verify(archive), RF_ERROR_CORRUPT_DATA);
    rf_archive_close(&archive);
}

/* ---- saves that fail ---- */

/* File operations of this worker; see `scene`. */
static struct {
    volatile uint32_t *shared;
    uint32_t rank, world_size, failing;    /* rank + 1 */
    const char *fail_create, *fail_rename; /* names that contain this */
    bool stop_there;                       /* instead of failing, waits to be killed */
    bool renamed;
} scene;
enum { KILL_ME, BAD_ORDER, MAINS, PART_SYNCED };

static bool strikes(const char *path, const char *text)
{
    if (scene.failing != scene.rank + 1 || !text || !strstr(path, text)) return false;
    while (scene.stop_there) {
        scene.shared[KILL_ME] = 1;
        usleep(1000);
    }
    errno = ENOSPC;
    return true;
}

static int scene_create(void *user, const char *path)
{
    return strikes(path, scene.fail_create) ? -1 : rf_system_file_ops.create(user, path);
}

static bool is_main(const char *path)
{
    const size_t length = strlen(path);
    return length > 5 && strcmp(path + length - 5, ".rfck") == 0;
}

static int scene_rename(void *user, const char *from, const char *to)
{
    if (strikes(to, scene.fail_rename)) return -1;
    if (is_main(to)) {
        scene.shared[MAINS]++;
        for (uint32_t i = 0; i < scene.world_size; i++)
            if (!scene.shared[PART_SYNCED + i]) scene.shared[BAD_ORDER] = 1;
    }
    scene.renamed = strstr(to, ".part-") != NULL;
    return rf_system_file_ops.rename(user, from, to);
}

/* The first sync after a rename is that of the directory. */
static int scene_fsync(void *user, int fd)
{
    const int code = rf_system_file_ops.fsync(user, fd);
    if (scene.renamed) scene.shared[PART_SYNCED + scene.rank] = 1;
    scene.renamed = false;
    return code;
}

static rf_file_ops set_scene(const worker *w)
{
    memset(&scene, 0, sizeof(scene));
    scene.shared = w->shared;
    scene.rank = w->rank;
    scene.world_size = w->world_size;
    rf_file_ops ops = rf_system_file_ops;
    ops.create = scene_create;
    ops.rename = scene_rename;
    ops.fsync = scene_fsync;
    return ops;
}

static rf_result forget_syncs(worker *w)
{
    GO(rf_comm_barrier(rf_strategy_comm(w->strategy)));
    w->shared[PART_SYNCED + w->rank] = 0;
    return rf_comm_barrier(rf_strategy_comm(w->strategy));
}

static rf_result fail_and_check(worker *w, program *p, bool async, uint32_t failing, const char *create,
                                const char *renaming)
{
    char path[160], text[24];
    snprintf(text, sizeof(text), "rank %u: ", failing);
    scene.failing = failing + 1;
    scene.fail_create = create;
    scene.fail_rename = renaming;
    in_folder("x.rfck", path);
    if (async) {
        GO(rf_checkpoint_save(p->c, path, &sharded_async));
        EXPECT_FAILS(rf_checkpoint_wait(p->c), RF_ERROR_IO, "x.rfck", w->rank == failing ? "" : text);
    } else {
        EXPECT_FAILS(rf_checkpoint_save(p->c, path, &sharded), RF_ERROR_IO, "x.rfck", w->rank == failing ? "" : text);
    }
    scene.failing = 0;
    GO(rf_comm_barrier(rf_strategy_comm(w->strategy)));
    EXPECT(count_files(folder, "", NULL) == 1 + w->world_size); /* the old one */
    return rf_comm_barrier(rf_strategy_comm(w->strategy));
}

static rf_result fail_in_turn(worker *w)
{
    program p;
    uint64_t before, after;
    char path[160];
    const rf_file_ops ops = set_scene(w);
    GO(open_program(w, &p));
    p.c->ops = &ops;
    GO(train(w, &p, 0, STOP));
    GO(net_hash(&p.n, &before));
    GO(rf_checkpoint_save(p.c, in_folder("x.rfck", path), &sharded));
    EXPECT(w->shared[MAINS] == 1 && !w->shared[BAD_ORDER]);
    GO(train(w, &p, STOP, TOTAL));
    for (int async = 0; async < 2; async++) {
        for (uint32_t failing = 0; failing < w->world_size; failing++) {
            GO(fail_and_check(w, &p, async, failing, ".part-", NULL));
            GO(fail_and_check(w, &p, async, failing, NULL, ".part-"));
        }
        GO(fail_and_check(w, &p, async, 0, ".rfck.tmp-", NULL));
    }
    GO(rf_checkpoint_restore(p.c, in_folder("x.rfck", path), NULL));
    GO(net_hash(&p.n, &after));
    EXPECT(before == after);
    GO(forget_syncs(w));
    GO(rf_checkpoint_save(p.c, in_folder("x.rfck", path), &sharded_async));
    GO(rf_checkpoint_wait(p.c));
    EXPECT(w->shared[MAINS] >= 2 && !w->shared[BAD_ORDER]);
    rf_checkpoint_destroy(&p.c);
    return RF_OK;
}

static void a_worker_cannot_write(void **state)
{
    (void)state;
    run(two, fail_in_turn, NULL);
    assert_int_equal(count_files(folder, "", NULL), 1 + 2);
}

static rf_result save_apart(worker *w)
{
    program p;
    char path[160];
    GO(open_program(w, &p));
    GO(train(w, &p, 0, 1));
    in_folder(w->rank == 0 ? "x.rfck" : "mine/x.rfck", path);
    for (int async = 0; async < 2; async++) {
        rf_result r = rf_checkpoint_save(p.c, path, async ? &sharded_async : &sharded);
        if (async) GO(r);
        if (async) r = rf_checkpoint_wait(p.c);
        EXPECT(r == RF_ERROR_INVALID_ARGUMENT);
        EXPECT(strstr(rf_error_message(), "directory that all of them share"));
        EXPECT(strstr(rf_error_message(), "which rank 1 has written"));
    }
    rf_checkpoint_destroy(&p.c);
    return RF_OK;
}

static void directories_that_are_not_shared(void **state)
{
    (void)state;
    char other[160];
    assert_int_equal(mkdir(in_folder("mine", other), 0777), 0);
    run(two, save_apart, NULL);
    assert_int_equal(count_files(folder, "", NULL), 0);
    assert_int_equal(count_files(other, "", NULL), 0);
}

/* ---- managers ---- */

static rf_result open_manager(program *p, bool async, rf_checkpoint_manager **m)
{
    const rf_checkpoint_manager_params params = { .directory = folder,
                                                  .max_to_keep = 2,
                                                  .save = async ? sharded_async : sharded };
    return rf_checkpoint_manager_create(p->c, &params, m);
}

/* The third save ends with the death of rank `user`[0], before it has its part or, of the chief, the main file. */
static rf_result die_in_a_save(worker *w)
{
    program p;
    rf_checkpoint_manager *m;
    const uint32_t victim = *(const uint32_t *)w->user;
    const rf_file_ops ops = set_scene(w);
    GO(open_program(w, &p));
    p.c->ops = &ops;
    GO(open_manager(&p, false, &m));
    for (uint32_t i = 0; i < 2; i++) {
        GO(train(w, &p, i, i + 1));
        GO(rf_checkpoint_manager_save(m, i + 1));
        if (i == 1) GO(net_hash(&p.n, &w->report->hash));
    }
    GO(train(w, &p, 2, 3));
    scene.failing = victim + 1;
    scene.stop_there = true;
    if (victim == 0)
        scene.fail_create = ".rfck.tmp-"; /* the parts are there */
    else
        scene.fail_rename = ".part-"; /* its part is there under its temporary name */
    const rf_result r = rf_checkpoint_manager_save(m, 3);
    EXPECT(r < 0);
    w->report->numbers[0] = count_files(folder, "ckpt-3.rfck", NULL);
    rf_checkpoint_manager_destroy(&m);
    rf_checkpoint_destroy(&p.c);
    return RF_OK;
}

static rf_result restore_newest(worker *w)
{
    program p;
    rf_checkpoint_manager *m;
    uint64_t number;
    GO(open_program(w, &p));
    GO(open_manager(&p, false, &m));
    EXPECT(count_files(folder, "ckpt-3.rfck", NULL) == 0); /* its parts will never be written */
    GO(rf_checkpoint_manager_restore(m, NULL, &number));
    EXPECT(number == 2);
    rf_checkpoint_manager_destroy(&m);
    rf_checkpoint_destroy(&p.c);
    return net_hash(&p.n, &w->report->hash);
}

static void killed(uint32_t victim)
{
    static report reports[MAX_WORKERS];
    job_params job = two;
    make_folder(NULL);
    memset(reports, 0, sizeof(reports));
    job.user = &victim;
    job.kill_rank = victim + 1;
    job.peer_timeout = 3;
    run_job(&job, die_in_a_save, reports);
    const report *left = &reports[1 - victim];
    if (left->result != RF_OK) fail_msg("%s", left->message);
    assert_true(left->numbers[0] >= 1); /* a part or the beginning of one, or the test shows nothing */
    assert_int_equal(reports[victim].result, RF_ERROR_CANCELLED);
    assert_int_equal(count_files(folder, "", NULL), 6 + left->numbers[0]);
    assert_true(run(one, restore_newest, NULL) == left->hash);
    assert_int_equal(count_files(folder, "", NULL), 6);
    assert_true(run(two, restore_newest, NULL) == left->hash);
    remove_folder(NULL);
}

static void killed_worker(void **state)
{
    (void)state;
    killed(1);
}

static void killed_chief(void **state)
{
    (void)state;
    killed(0);
}

static rf_result keep_two(worker *w)
{
    program p;
    rf_checkpoint_manager *m;
    const bool async = *(const bool *)w->user;
    GO(open_program(w, &p));
    GO(open_manager(&p, async, &m));
    for (uint32_t i = 0; i < 4; i++) {
        GO(train(w, &p, i, i + 1));
        GO(rf_checkpoint_manager_save(m, i + 1));
    }
    GO(rf_checkpoint_wait(p.c));
    GO(rf_comm_barrier(rf_strategy_comm(w->strategy))); /* the chief prunes when the others have gone on */
    EXPECT(count_files(folder, "ckpt-3.rfck", NULL) == 1 + w->world_size);
    EXPECT(count_files(folder, "ckpt-4.rfck", NULL) == 1 + w->world_size);
    EXPECT(count_files(folder, "", NULL) == 2 + 2 * w->world_size);
    GO(rf_comm_barrier(rf_strategy_comm(w->strategy)));
    GO(rf_checkpoint_manager_clear(m));
    EXPECT(count_files(folder, "", NULL) == 0);
    rf_checkpoint_manager_destroy(&m);
    rf_checkpoint_destroy(&p.c);
    return RF_OK;
}

static void managed(void **state)
{
    (void)state;
    for (int async = 0; async < 2; async++) {
        static report reports[MAX_WORKERS];
        const bool value = async;
        job_params job = two;
        job.user = &value;
        memset(reports, 0, sizeof(reports));
        run_job(&job, keep_two, reports);
        check_job(reports, 2);
    }
}

TEST_PROGRAM(checkpoint_sharded)
{
    const struct CMUnitTest drivers[] = { cmocka_unit_test(by_two_drivers) };
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(by_two),
        cmocka_unit_test(by_two_in_many_buckets),
        cmocka_unit_test(by_three),
        cmocka_unit_test(by_devices_that_are_not_mapped),
        cmocka_unit_test_setup_teardown(wrong_parts, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(a_worker_cannot_write, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(directories_that_are_not_shared, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(managed, make_folder, remove_folder),
        cmocka_unit_test(killed_worker),
        cmocka_unit_test(killed_chief),
    };
    if (argc > 1 && strcmp(argv[1], "drivers") == 0) return cmocka_run_group_tests(drivers, NULL, NULL);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
