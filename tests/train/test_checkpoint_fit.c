/* SPDX-License-Identifier: Apache-2.0 */
/* Fits that are interrupted and go on, directories of checkpoints, whole models in files. */
#include <dirent.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#include <utime.h>

#include "persist/file_ops.h"
#include "run_state.h"
#include "tests/room.h"

/* ---- a compiled model ---- */

typedef struct trainer {
    rf_strategy *strategy;
    rf_model *model;
    rf_optimizer *optimizer;
    rf_dataset *data, *validation;
} trainer;

static bool trainer_create(trainer *t, const char *devices, uint64_t seed, uint32_t batch)
{
    *t = (trainer){ .strategy = open_devices(devices) };
    if (!t->strategy) return false;
    rf_strategy_set_seed(t->strategy, seed);
    t->model = run_model(t->strategy, 16);
    OK(rf_optimizer_create(t->strategy, &(rf_optimizer_params){ .kind = RF_OPTIMIZER_ADAM, .learning_rate = 0.01 },
                           &t->optimizer));
    const rf_metric_kind metrics[] = { RF_METRIC_SPARSE_CATEGORICAL_ACCURACY };
    OK(rf_model_compile(
        t->model, &(rf_compile_params){ .optimizer = t->optimizer,
                                        .loss = { RF_LOSS_SPARSE_CATEGORICAL_CROSSENTROPY, true, RF_REDUCTION_AUTO },
                                        .metrics = metrics,
                                        .num_metrics = 1 }));
    t->data = run_dataset(batch);
    t->validation = run_dataset(RUN_EXAMPLES);
    return true;
}

static void trainer_destroy(trainer *t)
{
    rf_model_destroy(&t->model);
    rf_optimizer_destroy(&t->optimizer);
    rf_dataset_destroy(&t->data);
    rf_dataset_destroy(&t->validation);
    rf_strategy_destroy(&t->strategy);
}

static void trainer_weights(const trainer *t, float weights[RUN_WEIGHTS])
{
    run_weights(&(run_state){ .model = t->model }, weights);
}

static void assert_same(const float *a, const float *b, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (memcmp(&a[i], &b[i], sizeof(float)) != 0)
            fail_msg("number %zu is %.9g, not %.9g", i, (double)a[i], (double)b[i]);
}

/* Asks for a stop after a batch, as a handler of SIGTERM would; notes what it sees. */
typedef struct watcher {
    rf_strategy *strategy;
    uint64_t stop_after; /* batches in all; 0: never */
    uint64_t batches, examples;
    rf_logs epochs[8];
    uint32_t num_epochs, first_epoch;
} watcher;

static rf_result watch_batch(void *user, rf_fit_state *state, const rf_logs *logs)
{
    watcher *w = user;
    (void)logs;
    w->examples += state->batch_examples;
    if (++w->batches == w->stop_after) rf_strategy_request_stop(w->strategy);
    return RF_OK;
}

static rf_result watch_epoch(void *user, rf_fit_state *state, const rf_logs *logs)
{
    watcher *w = user;
    if (w->num_epochs == 0) w->first_epoch = state->epoch;
    w->epochs[w->num_epochs++] = *logs;
    return RF_OK;
}

static double halve_later(void *user, uint32_t epoch, double rate)
{
    (void)user;
    return epoch > 0 ? rate * 0.5 : rate;
}

typedef struct fit_options {
    const char *directory; /* of the backup; NULL: none */
    uint64_t every, steps_per_epoch;
    uint32_t epochs;
    bool async;
} fit_options;

/* Early stopping and a scheduler keep state or change it, too. */
static void fit(trainer *t, const fit_options *o, watcher *w)
{
    rf_callback *callbacks[4];
    OK(rf_callback_learning_rate_scheduler(halve_later, NULL, &callbacks[0]));
    OK(rf_callback_early_stopping(&(rf_early_stopping_params){ .patience = 2, .restore_best_weights = true },
                                  &callbacks[1]));
    OK(rf_callback_create(&(rf_callback_fns){ .on_batch_end = watch_batch, .on_epoch_end = watch_epoch }, w,
                          &callbacks[2]));
    if (o->directory)
        OK(rf_callback_backup_and_restore(&(rf_backup_params){ .directory = o->directory,
                                                               .save_every_batches = o->every,
                                                               .save = { .async = o->async } },
                                          &callbacks[3]));
    OK(rf_model_fit(t->model,
                    &(rf_fit_params){ .data = t->data,
                                      .validation_data = t->validation,
                                      .epochs = o->epochs,
                                      .steps_per_epoch = o->steps_per_epoch,
                                      .callbacks = callbacks,
                                      .num_callbacks = o->directory ? 4 : 3 },
                    NULL));
    for (uint32_t i = 0; i < (o->directory ? 4u : 3u); i++) rf_callback_destroy(&callbacks[i]);
}

/* Stopped after `stops[i]` batches, each time by a program that starts anew: the last one ends with the weights and the
 * logs of the fit that was never interrupted. */
static void interrupted(const char *devices, fit_options o, const uint64_t *stops, uint32_t num_stops)
{
    char folder[64];
    float weights[RUN_WEIGHTS], same[RUN_WEIGHTS];
    watcher whole = { 0 }, last = { 0 };
    trainer t;
    if (!trainer_create(&t, devices, 3, RUN_BATCH)) SKIP("not installed: %s", devices);
    fit_options plain = o;
    plain.directory = NULL;
    fit(&t, &plain, &whole);
    trainer_weights(&t, weights);
    trainer_destroy(&t);

    o.directory = scratch(folder);
    uint64_t batches = 0;
    for (uint32_t i = 0; i <= num_stops; i++) {
        assert_true(trainer_create(&t, devices, 3 + i, RUN_BATCH)); /* other initial values would show */
        last = (watcher){ .strategy = t.strategy, .stop_after = i < num_stops ? stops[i] : 0 };
        fit(&t, &o, &last);
        batches += last.batches;
        if (i < num_stops) {
            assert_true(rf_strategy_stop_agreed(t.strategy));
            assert_true(scratch_count(folder) >= 1);
            trainer_destroy(&t);
        }
    }
    trainer_weights(&t, same);
    trainer_destroy(&t);
    assert_same(same, weights, RUN_WEIGHTS);
    assert_int_equal(batches, whole.batches);
    assert_int_equal(last.first_epoch + last.num_epochs, whole.num_epochs);
    for (uint32_t i = 0; i < last.num_epochs; i++) {
        const rf_logs *a = &last.epochs[i], *b = &whole.epochs[last.first_epoch + i];
        for (uint32_t k = 0; k < a->count; k++)
            if (a->value[k] != b->value[k])
                fail_msg("epoch %u: %s is %.17g, not %.17g", last.first_epoch + i, a->name[k], a->value[k],
                         b->value[k]);
    }
    assert_int_equal(scratch_count(folder), 0); /* done: the next fit starts anew */
    scratch_remove(folder);
}

TEST(interrupted_once)
{
    interrupted("llvmpipe", (fit_options){ .epochs = 2 }, (const uint64_t[]){ 3 }, 1);
}

static room_test *full_tests;

TEST_OF(full_tests, interrupted_within_epochs)
{
    /* In epoch 0; at its last batch; in the validation's epoch; right after a start. */
    interrupted("llvmpipe", (fit_options){ .epochs = 4 }, (const uint64_t[]){ 3, 5, 11, 1 }, 4);
}

TEST_OF(full_tests, interrupted_on_two)
{
    interrupted("llvmpipe,llvmpipe", (fit_options){ .epochs = 3, .every = 2, .async = true },
                (const uint64_t[]){ 5, 9 }, 2);
}

/* Epochs that are not passes. */
TEST_OF(full_tests, interrupted_with_steps)
{
    interrupted("llvmpipe", (fit_options){ .epochs = 4, .steps_per_epoch = 5 }, (const uint64_t[]){ 3, 8 }, 2);
}

/* On another number of replicas, with drivers of their own, and with a batch size that follows their number: the epoch
 * sees the examples that are left. */
TEST_OF(full_tests, resumed_elsewhere)
{
    char folder[64];
    trainer t;
    watcher w = { 0 };
    if (!trainer_create(&t, "llvmpipe,SwiftShader", 3, 12)) SKIP("not installed: llvmpipe,SwiftShader");
    fit_options o = { .directory = scratch(folder), .epochs = 2 };
    w = (watcher){ .strategy = t.strategy, .stop_after = 1 };
    fit(&t, &o, &w);
    assert_int_equal(w.examples, 24);
    trainer_destroy(&t);
    assert_true(trainer_create(&t, "llvmpipe", 3, 6));
    w = (watcher){ .strategy = t.strategy, .stop_after = 1 };
    fit(&t, &o, &w);
    assert_int_equal(w.examples, 12);
    trainer_destroy(&t);
    assert_true(trainer_create(&t, "llvmpipe,llvmpipe", 3, 12));
    w = (watcher){ 0 };
    fit(&t, &o, &w);
    assert_int_equal(w.examples, RUN_EXAMPLES - 24 - 12 + RUN_EXAMPLES);
    /* The epoch's means are over all of its examples, those before the interruptions too. */
    assert_true(w.epochs[0].value[1] * RUN_EXAMPLES == (double)(int)(w.epochs[0].value[1] * RUN_EXAMPLES + 0.5));
    trainer_destroy(&t);
    scratch_remove(folder);
}

static rf_result fail_at_batch(void *user, rf_fit_state *state, const rf_logs *logs)
{
    (void)user;
    (void)logs;
    return state->epoch == 1 && state->batch == 4 ? RF_ERROR_CANCELLED : RF_OK;
}

/* A program that dies goes on from the latest backup. */
TEST_OF(full_tests, killed)
{
    char folder[64];
    float weights[RUN_WEIGHTS], same[RUN_WEIGHTS];
    watcher w = { 0 };
    trainer t;
    if (!trainer_create(&t, "llvmpipe", 3, RUN_BATCH)) SKIP("not installed: llvmpipe");
    fit(&t, &(fit_options){ .epochs = 3 }, &w);
    trainer_weights(&t, weights);
    trainer_destroy(&t);
    scratch(folder);
    for (uint64_t every = 0; every <= 3; every += 3) {
        rf_callback *callbacks[4];
        assert_true(trainer_create(&t, "llvmpipe", 3, RUN_BATCH));
        OK(rf_callback_learning_rate_scheduler(halve_later, NULL, &callbacks[0]));
        OK(rf_callback_early_stopping(&(rf_early_stopping_params){ .patience = 2, .restore_best_weights = true },
                                      &callbacks[1]));
        OK(rf_callback_create(&(rf_callback_fns){ .on_batch_end = fail_at_batch }, NULL, &callbacks[2]));
        OK(rf_callback_backup_and_restore(&(rf_backup_params){ .directory = folder, .save_every_batches = every },
                                          &callbacks[3]));
        FAILS(rf_model_fit(t.model,
                           &(rf_fit_params){ .data = t.data,
                                             .validation_data = t.validation,
                                             .epochs = 3,
                                             .callbacks = callbacks,
                                             .num_callbacks = 4 },
                           NULL),
              RF_ERROR_CANCELLED, "callbacks[2]");
        for (int i = 0; i < 4; i++) rf_callback_destroy(&callbacks[i]);
        trainer_destroy(&t);
        assert_true(trainer_create(&t, "llvmpipe", 9, RUN_BATCH));
        w = (watcher){ 0 };
        fit(&t, &(fit_options){ .epochs = 3, .directory = folder, .every = every }, &w);
        /* Epoch 1 once more, or from batch 12 - 8 = 4 of it on. */
        assert_int_equal(w.batches, every == 0 ? 2 * RUN_BATCHES : 2 * RUN_BATCHES - 4);
        trainer_weights(&t, same);
        trainer_destroy(&t);
        assert_same(same, weights, RUN_WEIGHTS);
    }
    scratch_remove(folder);
}

static rf_result fail_at_epoch(void *user, rf_fit_state *state, const rf_logs *logs)
{
    (void)user;
    (void)logs;
    return state->epoch == 1 ? RF_ERROR_CANCELLED : RF_OK;
}

static rf_result fit_with_csv(const char *folder, bool append, bool fails)
{
    char path[96];
    trainer t;
    rf_callback *callbacks[3];
    assert_true(trainer_create(&t, "llvmpipe", 3, RUN_BATCH));
    snprintf(path, sizeof(path), "%s/log.csv", folder);
    OK(rf_callback_csv_log(path, append ? RF_CSV_LOG_APPEND : RF_CSV_LOG_REPLACE, &callbacks[0]));
    OK(rf_callback_create(&(rf_callback_fns){ .on_epoch_end = fails ? fail_at_epoch : NULL }, NULL, &callbacks[1]));
    OK(rf_callback_backup_and_restore(&(rf_backup_params){ .directory = folder }, &callbacks[2]));
    const rf_fit_params params = { .data = t.data, .epochs = 3, .callbacks = callbacks, .num_callbacks = 3 };
    const rf_result r = rf_model_fit(t.model, &params, NULL);
    for (int i = 0; i < 3; i++) rf_callback_destroy(&callbacks[i]);
    trainer_destroy(&t);
    return r;
}

static void read_csv(const char *folder, char text[1024])
{
    char path[96];
    snprintf(path, sizeof(path), "%s/log.csv", folder);
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    text[fread(text, 1, 1023, file)] = '\0';
    fclose(file);
}

/* A program that dies when the line of an epoch is in the log and the backup is not made. */
TEST_OF(full_tests, csv_log_of_a_killed_fit)
{
    char folder[64], whole[1024], text[1024];
    rf_strategy *strategy = open_devices("llvmpipe");
    if (!strategy) SKIP("no device");
    rf_strategy_destroy(&strategy);
    scratch(folder);
    OK(fit_with_csv(folder, false, false));
    read_csv(folder, whole);
    for (int append = 0; append < 2; append++) {
        assert_int_equal(fit_with_csv(folder, append, true), RF_ERROR_CANCELLED);
        read_csv(folder, text);
        assert_non_null(strstr(text, "\n1,"));
        OK(fit_with_csv(folder, append, false));
        read_csv(folder, text);
        if (append) { /* below the three lines of the fit before */
            assert_memory_equal(text, whole, strlen(whole));
            assert_string_equal(text + strlen(whole), strchr(whole, '\n') + 1);
        } else {
            assert_string_equal(text, whole);
        }
    }
    scratch_remove(folder);
}

/* A backup that is there but cannot be read is no first start: training anew would write over it. */
TEST_OF(full_tests, damaged_backup)
{
    char folder[64], path[96];
    trainer t;
    if (!trainer_create(&t, "llvmpipe", 3, RUN_BATCH)) SKIP("not installed: llvmpipe");
    watcher w = { .strategy = t.strategy, .stop_after = 3 };
    fit(&t, &(fit_options){ .directory = scratch(folder), .epochs = 2 }, &w);
    trainer_destroy(&t);
    snprintf(path, sizeof(path), "%s/backup-1.rfck", folder);
    assert_int_equal(truncate(path, 1000), 0);
    assert_true(trainer_create(&t, "llvmpipe", 3, RUN_BATCH));
    rf_callback *callback;
    OK(rf_callback_backup_and_restore(&(rf_backup_params){ .directory = folder }, &callback));
    const rf_fit_params params = { .data = t.data, .epochs = 2, .callbacks = &callback, .num_callbacks = 1 };
    FAILS(rf_model_fit(t.model, &params, NULL), RF_ERROR_CORRUPT_DATA, "backup-1.rfck: ");
    rf_callback_destroy(&callback);
    trainer_destroy(&t);
    assert_int_equal(scratch_count(folder), 1);
    scratch_remove(folder);
}

/* ---- managers ---- */

static void touch(const char *folder, const char *name, long age)
{
    char path[256];
    snprintf(path, sizeof(path), "%s/%s", folder, name);
    const time_t when = time(NULL) - age;
    assert_int_equal(utime(path, &(struct utimbuf){ when, when }), 0);
}

static bool exists(const char *folder, const char *name)
{
    char path[256];
    snprintf(path, sizeof(path), "%s/%s", folder, name);
    return access(path, F_OK) == 0;
}

static void write_text(const char *folder, const char *name, const char *text)
{
    char path[256];
    snprintf(path, sizeof(path), "%s/%s", folder, name);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
}

TEST(managers)
{
    char folder[64], inner[96], *path;
    run_state a;
    rf_checkpoint_manager *m;
    uint64_t number;
    if (!run_create(&a, "llvmpipe", 3, NULL)) SKIP("not installed: llvmpipe");
    snprintf(inner, sizeof(inner), "%s/a/b", scratch(folder));
    FAILS(rf_checkpoint_manager_create(a.checkpoint,
                                       &(rf_checkpoint_manager_params){ .directory = inner, .prefix = "x/y" }, &m),
          RF_ERROR_INVALID_ARGUMENT, "not a file name");
    FAILS(rf_checkpoint_manager_create(a.checkpoint,
                                       &(rf_checkpoint_manager_params){ .directory = inner, .prefix = "{loss}" }, &m),
          RF_ERROR_INVALID_ARGUMENT, "only {epoch}");
    OK(rf_checkpoint_manager_create(a.checkpoint,
                                    &(rf_checkpoint_manager_params){ .directory = inner, .max_to_keep = 3 }, &m));
    FAILS(rf_checkpoint_manager_restore(m, NULL, &number), RF_ERROR_NOT_FOUND, "no complete checkpoint");
    FAILS(rf_checkpoint_latest(inner, NULL, &path), RF_ERROR_NOT_FOUND, "ckpt-<number>.rfck");
    for (uint64_t i = 1; i <= 12; i++) {
        a.epoch = i;
        OK(rf_checkpoint_manager_save(m, i));
    }
    assert_int_equal(scratch_count(inner), 3);
    /* By number, not by name or time; others' files are left alone; what is no archive is passed over. */
    touch(inner, "ckpt-12.rfck", 100);
    write_text(inner, "ckpt-13.rfck", "not an archive");
    write_text(inner, "ckpt-99.txt", "");
    write_text(inner, "other-99.rfck", "");
    OK(rf_checkpoint_latest(inner, NULL, &path));
    assert_non_null(strstr(path, "/ckpt-12.rfck"));
    rf_string_free(path);
    a.epoch = 0;
    OK(rf_checkpoint_manager_restore(m, NULL, &number));
    assert_int_equal(number, 12);
    assert_int_equal(a.epoch, 12);
    /* One whose data is damaged, too. */
    char last[128];
    snprintf(last, sizeof(last), "%s/ckpt-12.rfck", inner);
    struct stat status;
    assert_int_equal(stat(last, &status), 0);
    FILE *file = fopen(last, "r+");
    assert_non_null(file);
    fseek(file, status.st_size / 2, SEEK_SET);
    const int byte = fgetc(file);
    fseek(file, status.st_size / 2, SEEK_SET);
    fputc(byte ^ 1, file);
    fclose(file);
    OK(rf_checkpoint_manager_restore(m, NULL, &number));
    assert_int_equal(number, 11);
    rf_checkpoint_manager_destroy(&m);

    /* Leftovers of a process that is gone; one that lives keeps its own. */
    char mine[64], gone[64];
    snprintf(mine, sizeof(mine), "ckpt-14.rfck.tmp-%08x-%d-0", rf_file_host(), (int)getpid());
    snprintf(gone, sizeof(gone), "ckpt-14.rfck.tmp-%08x-4194999-0", rf_file_host());
    write_text(inner, gone, "");
    write_text(inner, mine, "");
    /* Another host's process numbers say nothing; its file may be large and slow, but not for days. */
    write_text(inner, "ckpt-14.rfck.tmp-00000000-4194999-0", "");
    write_text(inner, "ckpt-15.rfck.tmp-00000000-4194999-0", "");
    touch(inner, "ckpt-15.rfck.tmp-00000000-4194999-0", 25 * 3600);
    OK(rf_checkpoint_manager_create(a.checkpoint, &(rf_checkpoint_manager_params){ .directory = inner }, &m));
    assert_false(exists(inner, gone));
    assert_true(exists(inner, "ckpt-14.rfck.tmp-00000000-4194999-0"));
    assert_false(exists(inner, "ckpt-15.rfck.tmp-00000000-4194999-0"));
    assert_true(exists(inner, mine));
    rf_checkpoint_manager_destroy(&m);
    run_destroy(&a);
    scratch_remove(folder);
}

TEST(manager_keeps)
{
    char folder[64], name[64];
    run_state a;
    rf_checkpoint_manager *m;
    if (!run_create(&a, "llvmpipe", 3, NULL)) SKIP("not installed: llvmpipe");
    const rf_checkpoint_manager_params params = {
        .directory = scratch(folder), .prefix = "ckpt_{epoch:03d}", .max_to_keep = 1, .keep_every_hours = 2
    };
    OK(rf_checkpoint_manager_create(a.checkpoint, &params, &m));
    /* An hour apart; two are kept at least, so that there is always a complete one. */
    for (int i = 0; i < 8; i++) {
        OK(rf_checkpoint_manager_save(m, (uint64_t)i));
        snprintf(name, sizeof(name), "ckpt_%03d.rfck", i);
        touch(folder, name, (10 - i) * 3600);
        if (i == 1) assert_int_equal(scratch_count(folder), 2);
    }
    const bool kept[] = { true, false, true, false, true, false, true, true };
    for (int i = 0; i < 8; i++) {
        snprintf(name, sizeof(name), "ckpt_%03d.rfck", i);
        if (exists(folder, name) != kept[i]) fail_msg("%s: %d", name, !kept[i]);
    }
    rf_checkpoint_manager_destroy(&m);
    /* In the background: the file is there after the next call. */
    const rf_checkpoint_manager_params async = {
        .directory = folder, .prefix = "b", .max_to_keep = 2, .save.async = true
    };
    OK(rf_checkpoint_manager_create(a.checkpoint, &async, &m));
    for (uint64_t i = 0; i < 6; i++) OK(rf_checkpoint_manager_save(m, i));
    OK(rf_checkpoint_wait(a.checkpoint));
    assert_true(exists(folder, "b-5.rfck") && exists(folder, "b-4.rfck") && !exists(folder, "b-2.rfck"));
    rf_checkpoint_manager_destroy(&m);
    run_destroy(&a);
    scratch_remove(folder);
}

/* ---- model checkpoints ---- */

TEST(model_checkpoints)
{
    char folder[64], pattern[128], *path;
    trainer t, u;
    watcher w = { 0 };
    if (!trainer_create(&t, "llvmpipe", 3, RUN_BATCH)) SKIP("not installed: llvmpipe");
    rf_callback *callbacks[3];
    snprintf(pattern, sizeof(pattern), "%s/new/ckpt_{epoch}", scratch(folder));
    OK(rf_callback_model_checkpoint(&(rf_model_checkpoint_params){ .path = pattern, .save_weights_only = true },
                                    &callbacks[0]));
    snprintf(pattern, sizeof(pattern), "%s/best/{epoch:02d}-{val_loss:.2f}.rfck", folder);
    OK(rf_callback_model_checkpoint(&(rf_model_checkpoint_params){ .path = pattern, .save_best_only = true },
                                    &callbacks[1]));
    OK(rf_callback_create(&(rf_callback_fns){ .on_epoch_end = watch_epoch }, &w, &callbacks[2]));
    OK(rf_model_fit(
        t.model,
        &(rf_fit_params){
            .data = t.data, .validation_data = t.validation, .epochs = 3, .callbacks = callbacks, .num_callbacks = 3 },
        NULL));
    for (int i = 0; i < 3; i++) rf_callback_destroy(&callbacks[i]);
    rf_logs logs, loaded;
    OK(rf_model_evaluate(t.model, t.validation, &logs));
    char directory[96], name[64];
    snprintf(directory, sizeof(directory), "%s/new", folder);
    assert_int_equal(scratch_count(directory), 3);
    OK(rf_checkpoint_latest(directory, "ckpt_{epoch}", &path));
    assert_non_null(strstr(path, "ckpt_3.rfck"));
    assert_true(trainer_create(&u, "llvmpipe", 4, RUN_BATCH));
    OK(rf_model_load_weights(u.model, path));
    OK(rf_model_evaluate(u.model, u.validation, &loaded));
    assert_true(logs.value[0] == loaded.value[0] && logs.value[1] == loaded.value[1]);
    rf_string_free(path);
    snprintf(directory, sizeof(directory), "%s/best", folder);
    double best = INFINITY, value = 0;
    uint32_t better = 0;
    for (uint32_t i = 0; i < w.num_epochs; i++) {
        assert_true(rf_logs_get(&w.epochs[i], "val_loss", &value));
        if (!(value < best)) continue;
        best = value;
        better++;
        snprintf(name, sizeof(name), "%02u-%.2f.rfck", i + 1, value);
        assert_true(exists(directory, name));
    }
    assert_int_equal(scratch_count(directory), better);
    trainer_destroy(&t);
    trainer_destroy(&u);
    scratch_remove(folder);
}

/* ---- whole models ---- */

static rf_model *image_model(rf_strategy *strategy)
{
    rf_layer *layers[10];
    rf_model *model;
    const rf_shape input = RF_SHAPE(8, 8, 2);
    uint32_t n = 0;
    OK(rf_layer_conv2d(&(rf_conv2d_layer_params){ .filters = 4,
                                                  .kernel_size = { 3, 2 },
                                                  .conv = { .padding = RF_PADDING_SAME, .stride = { 1, 1 } },
                                                  .activation = RF_ACTIVATION_LEAKY_RELU,
                                                  .name = "first" },
                       &layers[n++]));
    OK(rf_layer_max_pool2d(NULL, &layers[n++]));
    OK(rf_layer_conv2d(
        &(rf_conv2d_layer_params){
            .filters = 6,
            .kernel_size = { 3 },
            .conv = { .groups = 2, .padding = RF_PADDING_EXPLICIT, .explicit_padding = { 1, 0, 1, 0 } },
            .no_bias = true,
            .kernel_regularizer = { .l2 = 0.01f } },
        &layers[n++]));
    OK(rf_layer_activation(RF_ACTIVATION_TANH, &layers[n++]));
    OK(rf_layer_avg_pool2d(&(rf_pool2d_params){ .window = { 2, 2 }, .stride = { 1, 1 } }, &layers[n++]));
    OK(rf_layer_dropout(0.25f, 12345678901234567ull, &layers[n++]));
    OK(rf_layer_reshape(RF_SHAPE(-1, 3), &layers[n++]));
    OK(rf_layer_flatten(&layers[n++]));
    OK(rf_layer_dense(&(rf_dense_params){ .units = 4, .kernel_initializer = { .kind = RF_INIT_HE_NORMAL, .seed = 7 } },
                      &layers[n++]));
    OK(rf_layer_activation(RF_ACTIVATION_SOFTMAX, &layers[n++]));
    OK(rf_model_create_sequential(strategy, layers, n, &input, &model));
    return model;
}

static rf_dataset *image_data(void)
{
    static float images[24 * 128];
    static int32_t labels[24];
    fill_noise(images, 24 * 128, 8);
    for (int i = 0; i < 24; i++) labels[i] = i % 4;
    const rf_array arrays[] = { array_f32(RF_SHAPE(24, 8, 8, 2), images), array_i32(RF_SHAPE(24), labels) };
    rf_dataset *raw, *out;
    OK(rf_dataset_from_arrays(&(rf_dataset_arrays_params){ .arrays = arrays, .num_arrays = 2 }, &raw));
    OK(rf_dataset_batch(raw, 8, RF_REMAINDER_KEEP, &out));
    rf_dataset_destroy(&raw);
    return out;
}

static void compile_image_model(rf_strategy *strategy, rf_model *model, rf_optimizer **optimizer)
{
    const rf_schedule schedule = {
        .kind = RF_SCHEDULE_PIECEWISE_CONSTANT, .num_boundaries = 1, .boundaries = { 4 }, .values = { 0.1, 0.01 }
    };
    const rf_optimizer_params params = { .kind = RF_OPTIMIZER_RMSPROP, .schedule = &schedule, .momentum = 0.5 };
    OK(rf_optimizer_create(strategy, &params, optimizer));
    const rf_metric_kind metrics[] = { RF_METRIC_SPARSE_CATEGORICAL_ACCURACY };
    OK(rf_model_compile(model, &(rf_compile_params){ .optimizer = *optimizer,
                                                     .loss = { RF_LOSS_SPARSE_CATEGORICAL_CROSSENTROPY, false, 0 },
                                                     .metrics = metrics,
                                                     .num_metrics = 1 }));
}

TEST_OF(full_tests, whole_models)
{
    char folder[64], path[128];
    rf_strategy *two = open_devices("llvmpipe,SwiftShader"), *one = open_devices("llvmpipe");
    if (!two || !one) SKIP("not installed: llvmpipe or SwiftShader");
    rf_dataset *data = image_data();
    rf_model *model = image_model(one), *loaded, *again;
    rf_optimizer *optimizer;
    compile_image_model(one, model, &optimizer);
    OK(rf_model_fit(model, &(rf_fit_params){ .data = data, .epochs = 1 }, NULL));
    snprintf(path, sizeof(path), "%s/model.rfck", scratch(folder));
    OK(rf_model_save(model, path, NULL));
    rf_logs a, b;
    OK(rf_model_evaluate(model, data, &a));
    OK(rf_model_load(one, path, &loaded));
    OK(rf_model_evaluate(loaded, data, &b));
    assert_int_equal(a.count, b.count);
    for (uint32_t i = 0; i < a.count; i++) assert_true(a.value[i] == b.value[i]);
    assert_int_equal(rf_optimizer_iterations(rf_model_optimizer(loaded)), 3);
    char *x, *y;
    OK(rf_model_summary(model, &x));
    OK(rf_model_summary(loaded, &y));
    assert_string_equal(x, y);
    rf_string_free(x);
    rf_string_free(y);
    /* With a strategy: the same within rounding; and from there back. */
    OK(rf_model_load(two, path, &again));
    OK(rf_model_evaluate(again, data, &b));
    for (uint32_t i = 0; i < a.count; i++) assert_near(b.value[i], a.value[i], 1e-5, 1e-6, a.name[i]);
    OK(rf_model_save(again, path, NULL));
    rf_model_destroy(&again);
    OK(rf_model_load(one, path, &again));
    OK(rf_model_evaluate(again, data, &b));
    for (uint32_t i = 0; i < a.count; i++) assert_true(a.value[i] == b.value[i]);
    /* Training goes on alike. */
    rf_history h, g;
    OK(rf_model_fit(model, &(rf_fit_params){ .data = data, .epochs = 2 }, &h));
    OK(rf_model_fit(again, &(rf_fit_params){ .data = data, .epochs = 2 }, &g));
    for (int e = 0; e < 2; e++)
        for (uint32_t i = 0; i < h.epochs[e].count; i++) assert_true(h.epochs[e].value[i] == g.epochs[e].value[i]);
    rf_history_free(&h);
    rf_history_free(&g);
    rf_model_destroy(&again);
    rf_model_destroy(&loaded);
    rf_model_destroy(&model);
    rf_optimizer_destroy(&optimizer);
    rf_dataset_destroy(&data);
    rf_strategy_destroy(&one);
    rf_strategy_destroy(&two);
    scratch_remove(folder);
}

TEST_OF(full_tests, inference)
{
    char folder[64], path[128];
    rf_strategy *one = open_devices("llvmpipe");
    if (!one) SKIP("not installed: llvmpipe");
    rf_dataset *data = image_data();
    rf_model *model = image_model(one);
    rf_array predictions, input, output, out;
    OK(rf_model_predict(model, data, &predictions));
    snprintf(path, sizeof(path), "%s/model.rfck", scratch(folder));
    OK(rf_model_export(model, path, NULL));
    rf_model_destroy(&model);
    rf_strategy_destroy(&one);

    rf_inference *i;
    OK(rf_inference_load(path, &(rf_inference_params){ .device = "llvmpipe" }, &i));
    rf_inference_signature(i, &input, &output);
    assert_int_equal(input.dtype, RF_F32);
    assert_true(rf_shape_equal(input.shape, (rf_shape){ 4, { -1, 8, 8, 2 } }));
    assert_true(output.shape.rank == 2 && output.shape.dim[0] == -1 && output.shape.dim[1] == 4);
    float images[24 * 128];
    fill_noise(images, 24 * 128, 8);
    OK(rf_inference_run(i, &(rf_array){ RF_F32, RF_SHAPE(24, 8, 8, 2), images }, &out));
    assert_true(rf_shape_equal(out.shape, RF_SHAPE(24, 4)));
    for (int k = 0; k < 96; k++)
        assert_near((double)((float *)out.data)[k], (double)((float *)predictions.data)[k], 1e-6, 1e-7, "prediction");
    rf_array_free(&out);
    OK(rf_inference_run(i, &(rf_array){ RF_F32, RF_SHAPE(1, 8, 8, 2), images }, &out));
    rf_array_free(&out);
    FAILS(rf_inference_run(i, &(rf_array){ RF_F32, RF_SHAPE(1, 8, 8, 3), images }, &out), RF_ERROR_INVALID_ARGUMENT,
          "[1,8,8,3], not f32 [-1,8,8,2]");
    rf_inference_destroy(&i);
    FAILS(rf_inference_load("/nonexistent", NULL, &i), RF_ERROR_NOT_FOUND, "/nonexistent");
    rf_array_free(&predictions);
    rf_dataset_destroy(&data);
    scratch_remove(folder);
}

static rf_tensor twice(rf_trace *t, rf_tensor x, void *user)
{
    (void)user;
    return rf_add(t, x, x);
}

TEST(code_is_not_saved)
{
    rf_strategy *one = open_devices("llvmpipe");
    if (!one) SKIP("not installed: llvmpipe");
    char folder[64], path[128];
    snprintf(path, sizeof(path), "%s/model.rfck", scratch(folder));
    rf_layer *layers[2];
    rf_model *model, *loaded;
    const rf_shape input = RF_SHAPE(3);
    OK(rf_layer_lambda(twice, NULL, &layers[0]));
    OK(rf_layer_dense(&(rf_dense_params){ .units = 2 }, &layers[1]));
    OK(rf_model_create_sequential(one, layers, 2, &input, &model));
    FAILS(rf_model_save(model, path, NULL), RF_ERROR_UNSUPPORTED, "layer 'lambda' (Lambda) is code");
    OK(rf_model_export(model, path, NULL)); /* what it computes can be */
    OK(rf_model_save_weights(model, path, NULL));
    FAILS(rf_model_load(one, path, &loaded), RF_ERROR_INVALID_ARGUMENT, "without its architecture");
    OK(rf_model_load_weights(model, path));
    rf_model_destroy(&model);
    rf_strategy_destroy(&one);
    scratch_remove(folder);
}

TEST_PROGRAM(checkpoint_fit)
{
    (void)argv;
    return argc > 1 ? room_tests_run(full_tests, NULL, NULL) : room_tests_run(own_tests, NULL, NULL);
}
