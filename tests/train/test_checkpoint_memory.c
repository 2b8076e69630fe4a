/* SPDX-License-Identifier: Apache-2.0 */
/* Every allocation of saving and restoring fails once: the call says so or succeeds, and no file or model suffers. */
#include "../persist/wrapped.h"
#include "base/error.h"
#include "base/memory.h"
#include "base/philox.h"
#include "base/platform.h"
#include "run_state.h"
#include "tests/room.h"

typedef struct memory_test {
    run_state run;
    char folder[64], path[128]; /* the directory, and one file in it */
    rf_model *model;
    char model_path[128];
    rf_checkpoint_manager *manager;
    uint64_t saves;
} memory_test;

typedef rf_result (*attempt_fn)(memory_test *t);

static rf_result save(memory_test *t)
{
    return rf_checkpoint_save(t->run.checkpoint, t->path, NULL);
}

static rf_result save_in_background(memory_test *t)
{
    RF_TRY(rf_checkpoint_save(t->run.checkpoint, t->path, &(rf_save_params){ .async = true }));
    return rf_checkpoint_wait(t->run.checkpoint);
}

static rf_result restore(memory_test *t)
{
    return rf_checkpoint_restore(t->run.checkpoint, t->path, NULL);
}

static rf_result restore_with_report(memory_test *t)
{
    char *report;
    const rf_result r =
        rf_checkpoint_restore(t->run.checkpoint, t->path, &(rf_restore_params){ .partial = true, .report = &report });
    if (r >= 0) assert_non_null(report);
    rf_string_free(report);
    return r;
}

static rf_result manage_and_save(memory_test *t)
{
    rf_checkpoint_manager *m;
    const rf_checkpoint_manager_params params = { .directory = t->folder, .max_to_keep = 2 };
    RF_TRY(rf_checkpoint_manager_create(t->run.checkpoint, &params, &m));
    const rf_result r = rf_checkpoint_manager_save(m, 1000 + t->saves);
    rf_checkpoint_manager_destroy(&m);
    return r;
}

static rf_result manage_and_restore(memory_test *t)
{
    rf_checkpoint_manager *m;
    uint64_t number;
    RF_TRY(
        rf_checkpoint_manager_create(t->run.checkpoint, &(rf_checkpoint_manager_params){ .directory = t->folder }, &m));
    const rf_result r = rf_checkpoint_manager_restore(m, NULL, &number);
    rf_checkpoint_manager_destroy(&m);
    return r;
}

static rf_result latest(memory_test *t)
{
    char *path;
    const rf_result r = rf_checkpoint_latest(t->folder, NULL, &path);
    assert_int_equal(r == RF_OK, path != NULL);
    rf_string_free(path);
    return r;
}

static rf_result save_model(memory_test *t)
{
    return rf_model_save(t->model, t->model_path, NULL);
}

static rf_result load_model(memory_test *t)
{
    rf_model *loaded;
    const rf_result r = rf_model_load(t->run.strategy, t->model_path, &loaded);
    assert_int_equal(r == RF_OK, loaded != NULL);
    rf_model_destroy(&loaded);
    return r;
}

static void file_hash(const char *path, uint64_t *hash)
{
    void *data;
    size_t size;
    OK(rf_file_read(path, 0, &data, &size));
    *hash = rf_hash_bytes(data, size, 0);
    rf_free(data);
}

/* `path`: the file that is written, which is the old one when that fails; NULL: none is. */
static void fail_each(memory_test *t, const char *name, attempt_fn attempt, const char *path, bool managed)
{
    float saved[RUN_WEIGHTS];
    const bool restores = attempt == restore || attempt == restore_with_report || attempt == manage_and_restore;
    OK(attempt(t)); /* caches fill */
    run_weights(&t->run, saved);
    uint64_t failed = 0;
    for (uint64_t n = 1;; n++) {
        uint64_t before = 0, after = 0;
        float weights[RUN_WEIGHTS], same[RUN_WEIGHTS];
        if (restores) run_batches(&t->run, 1, NULL);
        run_weights(&t->run, weights);
        if (path) file_hash(path, &before);
        t->run.batch = n; /* so that a new file differs */
        t->saves += managed;
        wrapped_reset(n);
        const rf_result r = attempt(t);
        const bool reached = wrapped_calls() >= n;
        wrapped_reset(0);
        if (r != RF_OK && r != RF_ERROR_OUT_OF_HOST_MEMORY)
            fail_msg("%s: allocation %llu: %s: %s", name, (unsigned long long)n, rf_result_name(r), rf_error_message());
        if (r < 0) assert_true(rf_error_message()[0]);
        failed += r < 0;
        run_weights(&t->run, same);
        if (memcmp(same, restores && r >= 0 ? saved : weights, sizeof(same)) != 0)
            fail_msg("%s: allocation %llu: %s: weights differ", name, (unsigned long long)n, rf_result_name(r));
        if (path) {
            file_hash(path, &after);
            if (r < 0) assert_true(before == after);
        }
        char *newest;
        if (managed) {
            char wanted[32];
            OK(rf_checkpoint_latest(t->folder, NULL, &newest));
            if (r < 0) t->saves--;
            snprintf(wanted, sizeof(wanted), "ckpt-%llu.rfck", 1000 + (unsigned long long)t->saves);
            assert_non_null(strstr(newest, wanted));
            rf_string_free(newest);
        }
        if (!reached) {
            assert_int_equal(r, RF_OK);
            break;
        }
    }
    print_message("%s: %llu allocations failed\n", name, (unsigned long long)failed);
    assert_true(failed > 0);
    OK(attempt(t));
    rf_archive *archive;
    if (!path) return;
    OK(rf_archive_open(path, &archive));
    OK(rf_archive_verify(archive));
    rf_archive_close(&archive);
}

static void setup(memory_test *t)
{
    *t = (memory_test){ 0 };
    if (!run_create(&t->run, "llvmpipe", 3, NULL)) SKIP("not installed: llvmpipe");
    snprintf(t->path, sizeof(t->path), "%s/x.rfck", scratch(t->folder));
    snprintf(t->model_path, sizeof(t->model_path), "%s/model.rfck", t->folder);
    run_batches(&t->run, 2, NULL);
}

static void finish(memory_test *t)
{
    rf_model_destroy(&t->model);
    run_destroy(&t->run);
    scratch_remove(t->folder);
}

TEST(saving)
{
    memory_test t;
    setup(&t);
    fail_each(&t, "save", save, t.path, false);
    fail_each(&t, "save in the background", save_in_background, t.path, false);
    fail_each(&t, "managed save", manage_and_save, NULL, true);
    finish(&t);
}

TEST(restoring)
{
    memory_test t;
    setup(&t);
    OK(save(&t));
    OK(manage_and_save(&t));
    fail_each(&t, "restore", restore, NULL, false);
    fail_each(&t, "restore with a report", restore_with_report, NULL, false);
    fail_each(&t, "managed restore", manage_and_restore, NULL, false);
    fail_each(&t, "latest", latest, NULL, false);
    finish(&t);
}

TEST(models)
{
    memory_test t;
    setup(&t);
    t.model = run_model(t.run.strategy, 8);
    rf_optimizer *optimizer;
    OK(rf_optimizer_create(t.run.strategy, NULL, &optimizer));
    OK(rf_model_compile(t.model, &(rf_compile_params){ .optimizer = optimizer,
                                                       .loss = { RF_LOSS_SPARSE_CATEGORICAL_CROSSENTROPY, true, 0 } }));
    fail_each(&t, "model save", save_model, t.model_path, false);
    fail_each(&t, "model load", load_model, NULL, false);
    rf_model_destroy(&t.model);
    rf_optimizer_destroy(&optimizer);
    finish(&t);
}

TESTS(checkpoint_memory, NULL, NULL)
