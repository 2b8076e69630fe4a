/* SPDX-License-Identifier: Apache-2.0 */
/* Checkpoints of runs: on any strategy, exact in the middle of an epoch, all or nothing. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "replica/strategy.h"
#include "run_state.h"
#include "tests/room.h"
#include "train/checkpoint/checkpoint.h"
#include "train/optimizer/optimizer.h"

static const char *file_in(char *buf, const char *folder, const char *name)
{
    snprintf(buf, 128, "%s/%s", folder, name);
    return buf;
}

static void assert_same(const float *a, const float *b, size_t count, const char *what)
{
    for (size_t i = 0; i < count; i++)
        if (memcmp(&a[i], &b[i], sizeof(float)) != 0)
            fail_msg("%s: number %zu is %.9g, not %.9g", what, i, (double)a[i], (double)b[i]);
}

/* ---- from any strategy to any other ---- */

static void move(const char *from, const char *to)
{
    char folder[64], path[128];
    run_state a, b;
    if (!run_create(&a, from, 3, NULL)) SKIP("not installed: %s", from);
    file_in(path, scratch(folder), "ckpt-1.rfck");
    run_batches(&a, 11, NULL);
    OK(rf_checkpoint_save(a.checkpoint, path, NULL));
    double accuracy, restored;
    OK(rf_metric_result(a.accuracy, &accuracy));
    float weights[RUN_WEIGHTS], same[RUN_WEIGHTS];
    run_weights(&a, weights);

    if (!run_create(&b, to, 99, NULL)) SKIP("not installed: %s", to);
    OK(rf_checkpoint_restore(b.checkpoint, path, NULL));
    run_weights(&b, same);
    assert_same(same, weights, RUN_WEIGHTS, "weights");
    OK(rf_metric_result(b.accuracy, &restored));
    assert_true(accuracy > 0);
    assert_true(accuracy == restored);
    assert_int_equal(b.epoch, 1);
    assert_int_equal(b.batch, 3);
    assert_int_equal(rf_optimizer_iterations(b.optimizer), 11);
    /* The same numbers on the same device, wherever they were before. */
    run_state c;
    assert_true(run_create(&c, "llvmpipe", 5, NULL));
    const rf_variable_list list = rf_model_variables(c.model);
    const float *at = weights;
    for (uint32_t i = 0; i < list.count; i++) {
        OK(rf_variable_assign(list.items[i], at));
        at += rf_shape_count(rf_variable_shape(list.items[i]));
    }
    const float assigned = run_loss(&c);
    OK(rf_checkpoint_restore(c.checkpoint, path, NULL));
    const float again = run_loss(&c);
    assert_same(&again, &assigned, 1, "loss on the same device");
    /* The optimizer's state came along: both go on alike. */
    float x[6], y[6];
    run_batches(&a, 6, x);
    run_batches(&b, 6, y);
    for (int i = 0; i < 6; i++) assert_near((double)y[i], (double)x[i], 1e-5, 1e-6, "loss after the restore");
    run_destroy(&a);
    run_destroy(&b);
    run_destroy(&c);
    scratch_remove(folder);
}

static room_test *full_tests;

TEST_OF(full_tests, two_drivers_to_one)
{
    move("llvmpipe,SwiftShader", "llvmpipe");
}

TEST_OF(full_tests, one_to_two_drivers)
{
    move("llvmpipe", "llvmpipe,SwiftShader");
}

/* ---- exact ---- */

static void resume_exactly(const char *devices, const rf_optimizer_params *optimizer, uint32_t stop, uint32_t total)
{
    char folder[64], path[128];
    run_state whole, before, after;
    float losses[64], resumed[64], weights[RUN_WEIGHTS], same[RUN_WEIGHTS];
    double accuracy, same_accuracy;
    if (!run_create(&whole, devices, 3, optimizer)) SKIP("not installed: %s", devices);
    file_in(path, scratch(folder), "x.rfck");
    run_batches(&whole, total, losses);
    run_weights(&whole, weights);
    OK(rf_metric_result(whole.accuracy, &accuracy));
    run_destroy(&whole);

    assert_true(run_create(&before, devices, 3, optimizer));
    run_batches(&before, stop, NULL);
    OK(rf_checkpoint_save(before.checkpoint, path, NULL));
    run_destroy(&before);

    assert_true(run_create(&after, devices, 77, optimizer)); /* other initial values, another seed */
    run_batches(&after, 3, NULL);                            /* and a past of its own */
    OK(rf_checkpoint_restore(after.checkpoint, path, NULL));
    run_batches(&after, total - stop, resumed);
    run_weights(&after, same);
    OK(rf_metric_result(after.accuracy, &same_accuracy));
    assert_same(resumed, losses + stop, total - stop, "losses");
    assert_same(same, weights, RUN_WEIGHTS, "weights");
    assert_true(accuracy == same_accuracy);
    run_destroy(&after);
    scratch_remove(folder);
}

TEST(exact_on_one)
{
    resume_exactly("llvmpipe", NULL, 11, 20);
}

TEST_OF(full_tests, exact_between_epochs)
{
    resume_exactly("llvmpipe", NULL, RUN_BATCHES, 2 * RUN_BATCHES + 1);
}

TEST_OF(full_tests, exact_on_two)
{
    resume_exactly("llvmpipe,SwiftShader", NULL, 11, 20);
}

/* In the middle of an update, too: sums of gradients are state. */
TEST_OF(full_tests, exact_while_accumulating)
{
    const rf_schedule schedule = {
        .kind = RF_SCHEDULE_EXPONENTIAL_DECAY, .initial = 0.1, .decay_rate = 0.9, .decay_steps = 2
    };
    const rf_optimizer_params sgd = {
        .kind = RF_OPTIMIZER_SGD, .schedule = &schedule, .momentum = 0.9, .clip_norm = 0.2, .accumulation_steps = 3
    };
    resume_exactly("llvmpipe", &sgd, 11, 20);
    resume_exactly("llvmpipe,llvmpipe", &sgd, 10, 20);
}

/* On other replicas the sums go on where they were, though not with the same rounding. */
TEST_OF(full_tests, accumulating_elsewhere)
{
    const rf_optimizer_params sgd = { .kind = RF_OPTIMIZER_SGD, .learning_rate = 0.1, .accumulation_steps = 4 };
    char folder[64], path[128];
    run_state a, b;
    if (!run_create(&a, "llvmpipe,llvmpipe", 3, &sgd)) SKIP("not installed: llvmpipe");
    file_in(path, scratch(folder), "x.rfck");
    run_batches(&a, 10, NULL);
    OK(rf_checkpoint_save(a.checkpoint, path, NULL));
    assert_true(run_create(&b, "llvmpipe", 4, &sgd));
    OK(rf_checkpoint_restore(b.checkpoint, path, NULL));
    float x[8], y[8];
    run_batches(&a, 8, x);
    run_batches(&b, 8, y);
    for (int i = 0; i < 8; i++) assert_near((double)y[i], (double)x[i], 1e-5, 1e-6, "loss");
    run_destroy(&a);
    run_destroy(&b);
    scratch_remove(folder);
}

TEST_OF(full_tests, rate_set_by_hand)
{
    char folder[64], path[128];
    run_state a, b;
    if (!run_create(&a, "llvmpipe", 3, NULL)) SKIP("not installed: llvmpipe");
    file_in(path, scratch(folder), "x.rfck");
    OK(rf_optimizer_set_learning_rate(a.optimizer, 0.1 / 3));
    OK(rf_checkpoint_save(a.checkpoint, path, NULL));
    assert_true(run_create(&b, "llvmpipe", 3, NULL));
    run_batches(&b, 2, NULL);
    OK(rf_checkpoint_restore(b.checkpoint, path, NULL));
    assert_true(rf_optimizer_learning_rate(b.optimizer) == 0.1 / 3);
    assert_int_equal(rf_optimizer_iterations(b.optimizer), 0);
    /* State that did not exist when it was saved is none again. */
    float x[4], y[4];
    run_batches(&a, 4, x);
    run_batches(&b, 4, y);
    assert_same(y, x, 4, "losses");
    run_destroy(&a);
    run_destroy(&b);
    scratch_remove(folder);
}

/* ---- strict and partial ---- */

TEST_OF(full_tests, all_or_nothing)
{
    char folder[64], path[128], *report;
    run_state a;
    if (!run_create(&a, "llvmpipe", 3, NULL)) SKIP("not installed: llvmpipe");
    file_in(path, scratch(folder), "x.rfck");
    run_batches(&a, 2, NULL);
    OK(rf_checkpoint_save(a.checkpoint, path, NULL));
    const float loss = run_loss(&a);

    /* Another width: other shapes; no optimizer: its entries are unexpected; another counter: missing. */
    rf_model *other = run_model(a.strategy, 12);
    rf_checkpoint *c;
    uint64_t counter = 5, epoch = 6;
    OK(rf_checkpoint_create(a.strategy, &c));
    OK(rf_checkpoint_add_model(c, "model", other));
    OK(rf_checkpoint_add_counter(c, "epoch", &epoch));
    OK(rf_checkpoint_add_counter(c, "days", &counter));
    float before[RUN_FEATURES * 12], after[RUN_FEATURES * 12], bias[RUN_CLASSES], saved[RUN_CLASSES];
    OK(rf_variable_read(rf_model_variables(other).items[0], before));
    FAILS(rf_checkpoint_restore(c, path, &(rf_restore_params){ .report = &report }), RF_ERROR_INVALID_ARGUMENT,
          "missing (days)");
    assert_non_null(strstr(rf_error_message(), "of another shape or kind (model/dense/kernel, ...)"));
    assert_non_null(
        strstr(report, "of another shape or kind: model/dense/kernel: f32 [8,16] in the file, f32 [8,12] here\n"));
    assert_non_null(strstr(report, "missing: days\n"));
    assert_non_null(strstr(report, "unexpected: optimizer/m/dense/kernel\n"));
    assert_non_null(strstr(report, "unexpected: iterator/position\n"));
    rf_string_free(report);
    OK(rf_variable_read(rf_model_variables(other).items[0], after));
    assert_same(after, before, RUN_FEATURES * 12, "a variable after a refused restore");
    assert_int_equal(epoch, 6);

    OK(rf_checkpoint_restore(c, path, &(rf_restore_params){ .partial = true, .report = &report }));
    assert_non_null(strstr(report, "missing: days\n"));
    rf_string_free(report);
    OK(rf_variable_read(rf_model_variables(other).items[0], after));
    assert_same(after, before, RUN_FEATURES * 12, "a variable of another shape");
    OK(rf_variable_read(rf_model_variables(other).items[3], bias));
    OK(rf_variable_read(rf_model_variables(a.model).items[3], saved));
    assert_same(bias, saved, RUN_CLASSES, "a variable that fits");
    assert_int_equal(epoch, 0);
    assert_int_equal(counter, 5);

    /* A damaged file changes nothing. */
    struct stat status;
    assert_int_equal(stat(path, &status), 0);
    const int fd = open(path, O_RDWR);
    unsigned char byte;
    assert_int_equal(pread(fd, &byte, 1, status.st_size / 2), 1);
    byte ^= 0x10;
    assert_int_equal(pwrite(fd, &byte, 1, status.st_size / 2), 1);
    close(fd);
    run_batches(&a, 3, NULL);
    const float trained = run_loss(&a);
    assert_true(trained != loss);
    FAILS(rf_checkpoint_restore(a.checkpoint, path, NULL), RF_ERROR_CORRUPT_DATA, path);
    const float still = run_loss(&a);
    assert_same(&still, &trained, 1, "loss after a damaged file");
    rf_checkpoint_destroy(&c);
    rf_model_destroy(&other);
    run_destroy(&a);
    scratch_remove(folder);
}

TEST_OF(full_tests, contracts)
{
    run_state a, b;
    if (!run_create(&a, "llvmpipe", 3, NULL)) SKIP("not installed: llvmpipe");
    assert_true(run_create(&b, "llvmpipe", 3, NULL));
    FAILS(rf_checkpoint_add_model(a.checkpoint, "model", a.model), RF_ERROR_INVALID_ARGUMENT, "a 'model' already");
    FAILS(rf_checkpoint_add_model(a.checkpoint, "a/b", a.model), RF_ERROR_INVALID_ARGUMENT, "'/'");
    FAILS(rf_checkpoint_add_model(a.checkpoint, "other", b.model), RF_ERROR_INVALID_ARGUMENT, "another strategy");
    FAILS(rf_checkpoint_add_counter(a.checkpoint, "strategy", &a.epoch), RF_ERROR_INVALID_ARGUMENT, "taken");
    FAILS(rf_checkpoint_add_counter(a.checkpoint, "x", NULL), RF_ERROR_INVALID_ARGUMENT, "'x' is NULL");
    FAILS(rf_checkpoint_restore(a.checkpoint, "/nonexistent/x.rfck", NULL), RF_ERROR_NOT_FOUND, "/nonexistent/x.rfck");
    /* Another pipeline is refused before anything changes. */
    char folder[64], path[128];
    file_in(path, scratch(folder), "x.rfck");
    run_batches(&a, 2, NULL);
    OK(rf_checkpoint_save(a.checkpoint, path, NULL));
    rf_dataset *other;
    OK(rf_dataset_take(b.data, 3, &other));
    rf_iterator *iterator = NULL;
    rf_checkpoint *c;
    OK(rf_checkpoint_create(b.strategy, &c));
    OK(rf_checkpoint_add_model(c, "model", b.model));
    OK(rf_checkpoint_add_iterator(c, "iterator", &iterator, other));
    run_batches(&b, 1, NULL);
    const float loss = run_loss(&b);
    FAILS(rf_checkpoint_restore(c, path, &(rf_restore_params){ .partial = true }), RF_ERROR_INVALID_ARGUMENT,
          "another pipeline");
    const float still = run_loss(&b);
    assert_same(&still, &loss, 1, "loss after a refused restore");
    assert_null(iterator);
    rf_checkpoint_destroy(&c);
    rf_dataset_destroy(&other);
    run_destroy(&a);
    run_destroy(&b);
    scratch_remove(folder);
}

/* ---- failing and asynchronous saves ---- */

static ssize_t full_disk(void *user, int fd, const void *data, size_t size, uint64_t offset)
{
    (void)user;
    if (offset + size > 700) {
        errno = ENOSPC;
        return -1;
    }
    return pwrite(fd, data, size, (off_t)offset);
}

TEST(a_full_disk)
{
    char folder[64], path[128];
    run_state a;
    if (!run_create(&a, "llvmpipe", 3, NULL)) SKIP("not installed: llvmpipe");
    file_in(path, scratch(folder), "x.rfck");
    run_batches(&a, 2, NULL);
    OK(rf_checkpoint_save(a.checkpoint, path, NULL));
    const float saved = run_loss(&a);
    run_batches(&a, 2, NULL);
    rf_file_ops ops = rf_system_file_ops;
    ops.pwrite = full_disk;
    a.checkpoint->ops = &ops;
    FAILS(rf_checkpoint_save(a.checkpoint, path, NULL), RF_ERROR_IO, "No space left");
    assert_int_equal(scratch_count(folder), 1); /* the older one, whole */
    /* In the background: the next call says it. */
    OK(rf_checkpoint_save(a.checkpoint, path, &(rf_save_params){ .async = true }));
    FAILS(rf_checkpoint_wait(a.checkpoint), RF_ERROR_IO, "in the background");
    OK(rf_checkpoint_wait(a.checkpoint));
    OK(rf_checkpoint_save(a.checkpoint, path, &(rf_save_params){ .async = true }));
    FAILS(rf_checkpoint_save(a.checkpoint, path, NULL), RF_ERROR_IO, "No space left");
    OK(rf_checkpoint_save(a.checkpoint, path, &(rf_save_params){ .async = true }));
    FAILS(rf_checkpoint_restore(a.checkpoint, path, NULL), RF_ERROR_IO, "No space left");
    OK(rf_checkpoint_restore(a.checkpoint, path, NULL));
    const float restored = run_loss(&a);
    assert_same(&restored, &saved, 1, "loss of the older file");
    run_destroy(&a);
    scratch_remove(folder);
}

/* A save in the background holds what was there at the call, whatever the training does meanwhile. */
TEST(in_the_background)
{
    char folder[64], path[128];
    run_state a;
    if (!run_create(&a, "llvmpipe", 3, NULL)) SKIP("not installed: llvmpipe");
    file_in(path, scratch(folder), "x.rfck");
    run_batches(&a, 5, NULL);
    float weights[RUN_WEIGHTS], same[RUN_WEIGHTS];
    run_weights(&a, weights);
    OK(rf_checkpoint_save(a.checkpoint, path, &(rf_save_params){ .async = true }));
    run_batches(&a, 9, NULL);
    OK(rf_checkpoint_restore(a.checkpoint, path, NULL));
    run_weights(&a, same);
    assert_same(same, weights, RUN_WEIGHTS, "weights");
    assert_int_equal(a.batch, 5);
    /* Destroying waits. */
    OK(rf_checkpoint_save(a.checkpoint, path, &(rf_save_params){ .async = true }));
    run_destroy(&a);
    assert_int_equal(scratch_count(folder), 1);
    scratch_remove(folder);
}

static void *copy_late(void *copy)
{
    usleep(300000);
    OK(rf_state_copy_run(copy));
    return NULL;
}

/* The copy is made long after the next step could have updated what is copied: that has to wait. */
static void late_copy(const char *devices, const rf_optimizer_params *optimizer)
{
    run_state a;
    rf_state_copy *copy;
    pthread_t thread;
    bool taken;
    if (!run_create(&a, devices, 3, optimizer)) SKIP("not installed: %s", devices);
    run_batches(&a, 3, NULL);
    rf_variable *kernel = rf_model_variables(a.model).items[0];
    const uint32_t count = (uint32_t)rf_shape_count(rf_variable_shape(kernel));
    rf_updater *updater = rf_optimizer_updater(a.optimizer);
    float value[RUN_WEIGHTS], slot[RUN_WEIGHTS], copied_value[RUN_WEIGHTS], copied_slot[RUN_WEIGHTS], now[RUN_WEIGHTS];
    OK(rf_variable_read(kernel, value));
    OK(rf_updater_read_slot(updater, 0, kernel, slot));
    for (int assigned = 0; assigned < 2; assigned++) {
        OK(rf_state_copy_create(a.strategy, &copy));
        OK(rf_state_copy_variable(copy, kernel, (rf_range){ 0, count }, copied_value, &taken));
        assert_true(taken);
        OK(rf_state_copy_slot(copy, updater, 0, kernel, (rf_range){ 0, count }, copied_slot, &taken));
        assert_true(taken);
        OK(rf_state_copy_begin(copy));
        assert_int_equal(pthread_create(&thread, NULL, copy_late, copy), 0);
        if (assigned) {
            for (uint32_t i = 0; i < count; i++) now[i] = 5;
            OK(rf_variable_assign(kernel, now));
        } else {
            run_batches(&a, 3, NULL); /* one of them updates where gradients are accumulated */
        }
        assert_int_equal(pthread_join(thread, NULL), 0);
        rf_state_copy_destroy(&copy);
        assert_same(copied_value, value, count, "copied variable");
        assert_same(copied_slot, slot, count, "copied slot");
        OK(rf_variable_read(kernel, now));
        assert_memory_not_equal(now, value, count * sizeof(float));
        memcpy(value, now, sizeof(value));
        OK(rf_updater_read_slot(updater, 0, kernel, slot));
    }
    run_destroy(&a);
}

TEST(late_copies)
{
    late_copy("llvmpipe", NULL);
}

TEST_OF(full_tests, late_copies_of_others)
{
    const rf_optimizer_params norms = { .kind = RF_OPTIMIZER_SGD, .momentum = 0.9, .clip_norm = 0.2 };
    const rf_optimizer_params sums = { .kind = RF_OPTIMIZER_SGD, .momentum = 0.9, .accumulation_steps = 3 };
    late_copy("llvmpipe", &norms);
    late_copy("llvmpipe", &sums);
    late_copy("llvmpipe,llvmpipe", NULL);
}

TEST_PROGRAM(checkpoint)
{
    /* SwiftShader compiles every time anew, seconds for each strategy: the tests with it are not quick. */
    (void)argv;
    return argc > 1 ? room_tests_run(full_tests, NULL, NULL) : room_tests_run(own_tests, NULL, NULL);
}
