/* SPDX-License-Identifier: Apache-2.0 */
/* Datasets that are spread over the workers of a job: the losses of one process, every example once, positions that
 * continue on other numbers of workers, batches that do not fit together. */
#include <math.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../support/folder.h"
#include "base/memory.h"
#include "data/slice.h"
#include "mw_model.h"
#include "replica/strategy.h"
#include "tests/room.h"

#define LVP "llvmpipe"
#define SWS "SwiftShader"

enum {
    PIXELS = 36,
    BATCH = 16,
    EXAMPLES = 97,
    MOST_EXAMPLES = 128,
    SEEN = 700
}; /* SEEN: where losses[] counts examples */

static const rf_optimizer_params adam = { .kind = RF_OPTIMIZER_ADAM, .learning_rate = 0.01 };

/* ---- data ---- */

/* The first pixel tells the example's number. */
static void fill_image(float *image, uint32_t number)
{
    uint32_t state = number * 2654435761u + 1;
    for (int k = 0; k < PIXELS; k++) {
        state = state * 1664525u + 1013904223u;
        image[k] = (float)(state >> 24) / 256;
    }
    image[0] = (float)number / MOST_EXAMPLES;
}

static rf_result examples(rf_dataset **out)
{
    static float images[EXAMPLES * PIXELS];
    static int32_t labels[EXAMPLES];
    for (uint32_t i = 0; i < EXAMPLES; i++) {
        fill_image(images + i * PIXELS, i);
        labels[i] = (int32_t)(i * 7 % 10);
    }
    const rf_array arrays[] = { { RF_F32, RF_SHAPE(EXAMPLES, 6, 6, 1), images },
                                { RF_I32, RF_SHAPE(EXAMPLES), labels } };
    return rf_dataset_from_arrays(&(rf_dataset_arrays_params){ .arrays = arrays, .num_arrays = 2 }, out);
}

/* Cached, shuffled, batched, prefetched. */
static rf_result prepare(rf_dataset *d, rf_dataset **out)
{
    rf_dataset *cached = NULL, *shuffled = NULL, *batched = NULL;
    rf_result r = rf_dataset_cache(d, &cached);
    if (r >= 0) r = rf_dataset_shuffle(cached, MOST_EXAMPLES, 3, RF_SHUFFLE_EACH_PASS, &shuffled);
    if (r >= 0) r = rf_dataset_batch(shuffled, BATCH, RF_REMAINDER_KEEP, &batched);
    if (r >= 0) r = rf_dataset_prefetch(batched, 2, out);
    rf_dataset_destroy(&d);
    rf_dataset_destroy(&cached);
    rf_dataset_destroy(&shuffled);
    rf_dataset_destroy(&batched);
    return r;
}

/* ---- training on it ---- */

static void count_examples(worker *w, const rf_element *batch)
{
    const float *images = batch->component[0].data;
    for (int64_t i = 0; i < batch->component[0].shape.dim[0]; i++)
        w->report->losses[SEEN + lroundf(images[i * PIXELS] * MOST_EXAMPLES)]++;
    w->report->numbers[1] += (double)batch->component[0].shape.dim[0];
    w->report->numbers[2] += batch->component[0].shape.dim[0] == 0;
}

static rf_result train_batch(worker *w, const net *n, const rf_element *batch)
{
    rf_per_replica *results[2];
    float loss;
    GO(rf_strategy_run(w->strategy, n->step, batch, results));
    GO(rf_strategy_reduce(w->strategy, RF_REDUCE_SUM, results[0], &loss));
    w->report->losses[w->report->steps++] = loss;
    uint32_t rows = 0;
    for (uint32_t r = 0; r < rf_strategy_num_replicas_in_sync(w->strategy); r++)
        rows += rf_per_replica_num_examples(results[0], r);
    EXPECT(rows == rf_element_global_rows(batch));
    return RF_OK;
}

static rf_result train_epochs(worker *w, const net *n, const rf_dataset *data, uint32_t epochs)
{
    for (uint32_t epoch = 0; epoch < epochs; epoch++) {
        rf_iterator *it;
        const rf_element *batch;
        rf_result r;
        GO(rf_iterator_create(data, epoch, &it));
        while ((r = rf_iterator_next(it, &batch)) == RF_OK) {
            count_examples(w, batch);
            GO(train_batch(w, n, batch));
        }
        EXPECT(r == RF_END);
        rf_iterator_destroy(&it);
    }
    return RF_OK;
}

static rf_result finish(worker *w, const net *n)
{
    GO(rf_strategy_check_identical(w->strategy, NULL, NULL));
    GO(rf_metric_result(n->accuracy, &w->report->numbers[0]));
    return net_hash(n, &w->report->hash);
}

/* Every example `times` times, over all workers. */
static void check_seen(const report *reports, uint32_t workers, uint32_t count, double times)
{
    for (uint32_t i = 0; i < count; i++) {
        double seen = 0;
        for (uint32_t w = 0; w < workers; w++) seen += reports[w].losses[SEEN + i];
        if (seen != times) fail_msg("example %u came %g times, not %g", i, seen, times);
    }
}

/* ---- by example ---- */

typedef struct plan {
    rf_distribute_policy policy;
} plan;

static rf_result train_by_example(worker *w)
{
    const plan *p = w->user;
    const training t = { .optimizer = adam };
    net n;
    rf_dataset *whole, *own, *again;
    GO(net_create(w, &t, &n));
    GO(examples(&whole));
    GO(prepare(whole, &whole));
    GO(rf_strategy_distribute_dataset(w->strategy, whole, &(rf_distribute_params){ p->policy }, &own));
    EXPECT((own == whole) == (w->world_size == 1 || p->policy == RF_DISTRIBUTE_OFF));
    GO(rf_strategy_distribute_dataset(w->strategy, own, NULL, &again));
    if (p->policy != RF_DISTRIBUTE_OFF) EXPECT(again == own);
    EXPECT(rf_dataset_cardinality(own) == 7 && rf_dataset_batch_size(own) == BATCH);
    rf_dataset_destroy(&again);
    GO(train_epochs(w, &n, own, 2));
    rf_dataset_destroy(&own);
    rf_dataset_destroy(&whole);
    return finish(w, &n);
}

static void check_by_example(job_params job, const report *want)
{
    static report got[MAX_WORKERS];
    const plan p = { RF_DISTRIBUTE_AUTO };
    job.user = &p;
    run_job(&job, train_by_example, got);
    check_job(got, job.num_workers);
    compare_jobs(got, job.num_workers, want, 1e-5);
    check_seen(got, job.num_workers, EXAMPLES, 2);
    /* The last batch of an epoch has one row. */
    if (job.num_workers > 1) assert_true(got[1].numbers[2] >= 2 && got[1].numbers[1] < 2 * EXAMPLES);
}

static room_test *full_tests;

TEST_OF(full_tests, by_example)
{
    static report want[MAX_WORKERS], off[MAX_WORKERS];
    static const double none[] = { 0 }, most[] = { 3, 1 };
    const plan p = { RF_DISTRIBUTE_OFF };
    run_job(&(job_params){ .num_workers = 1, .devices = { LVP }, .user = &p }, train_by_example, want);
    check_job(want, 1);
    assert_int_equal(want[0].steps, 14);
    check_by_example((job_params){ .num_workers = 1, .devices = { LVP "," LVP } }, want);
    check_by_example((job_params){ .num_workers = 2, .devices = { LVP, SWS } }, want);
    check_by_example((job_params){ .num_workers = 3, .devices = { LVP, LVP "," LVP, LVP } }, want);
    /* One worker never gets a row. */
    check_by_example((job_params){ .num_workers = 3, .devices = { LVP "," LVP, LVP, SWS }, .shares = { most, none } },
                     want);
    /* Whole batches on every worker. */
    run_job(&(job_params){ .num_workers = 2, .devices = { LVP, LVP }, .user = &p }, train_by_example, off);
    check_job(off, 2);
    compare_jobs(off, 2, want, 1e-5);
    check_seen(off, 1, EXAMPLES, 2);
}

/* ---- by file ---- */

enum { FILES = 5, IN_FILES = 107 };
static const uint32_t file_sizes[FILES] = { 30, 7, 19, 40, 11 };

typedef struct files {
    char directory[SCRATCH_PATH], images[FILES][96], labels[FILES][96];
    uint32_t num_workers, replicas[MAX_WORKERS]; /* of the job that is compared with */
} files;

static void put_be32(FILE *f, uint32_t v)
{
    for (int shift = 24; shift >= 0; shift -= 8) fputc((int)(v >> shift & 255), f);
}

static void write_files(files *f)
{
    scratch(f->directory);
    uint32_t number = 0;
    for (uint32_t i = 0; i < FILES; i++) {
        snprintf(f->images[i], sizeof(f->images[i]), "%s/images-%u", f->directory, i);
        snprintf(f->labels[i], sizeof(f->labels[i]), "%s/labels-%u", f->directory, i);
        FILE *images = fopen(f->images[i], "wb"), *labels = fopen(f->labels[i], "wb");
        assert_true(images && labels);
        const uint32_t head[] = { 0x00000803, file_sizes[i], 6, 6 };
        for (int k = 0; k < 4; k++) put_be32(images, head[k]);
        put_be32(labels, 0x00000801);
        put_be32(labels, file_sizes[i]);
        for (uint32_t e = 0; e < file_sizes[i]; e++, number++) {
            float image[PIXELS];
            fill_image(image, number);
            for (int k = 0; k < PIXELS; k++) fputc(k == 0 ? (int)number : (int)(image[k] * 255), images);
            fputc((int)(number * 7 % 10), labels);
        }
        assert_true(fclose(images) == 0 && fclose(labels) == 0);
    }
}

static void remove_files(const files *f)
{
    for (int i = 0; i < FILES; i++) {
        unlink(f->images[i]);
        unlink(f->labels[i]);
    }
    rmdir(f->directory);
}

/* Pixels are numbers out of 255: to what count_examples() reads. */
static rf_result scale(void *user, const rf_element *in, rf_element *out)
{
    (void)user;
    for (int k = 0; k < PIXELS; k++)
        ((float *)out->component[0].data)[k] = (float)((const uint8_t *)in->component[0].data)[k] / MOST_EXAMPLES;
    memcpy(out->component[1].data, in->component[1].data, sizeof(int32_t));
    return RF_OK;
}

static rf_result open_files(const files *f, rf_dataset **out)
{
    const char *images[FILES], *labels[FILES];
    for (int i = 0; i < FILES; i++) {
        images[i] = f->images[i];
        labels[i] = f->labels[i];
    }
    rf_dataset *raw, *scaled;
    GO(rf_dataset_from_idx_files(images, labels, FILES, &raw));
    const rf_element_spec spec = { 2, { RF_F32, RF_I32 }, { RF_SHAPE(6, 6, 1), { 0 } } };
    GO(rf_dataset_map(raw, scale, NULL, &spec, &scaled));
    rf_dataset_destroy(&raw);
    return prepare(scaled, out);
}

static rf_result train_by_file(worker *w)
{
    const training t = { .optimizer = adam };
    net n;
    rf_dataset *whole, *own;
    GO(net_create(w, &t, &n));
    GO(open_files(w->user, &whole));
    GO(rf_strategy_distribute_dataset(w->strategy, whole, &(rf_distribute_params){ RF_DISTRIBUTE_BY_FILE }, &own));
    GO(train_epochs(w, &n, own, 2));
    rf_dataset_destroy(&own);
    rf_dataset_destroy(&whole);
    return finish(w, &n);
}

static void split_as_job(const void *user, uint32_t rows, uint32_t *counts)
{
    const files *f = user;
    uint32_t of_replicas[16], replicas = 0, r = 0;
    for (uint32_t w = 0; w < f->num_workers; w++) replicas += f->replicas[w];
    rf_split_batch(rows, NULL, replicas, of_replicas);
    for (uint32_t w = 0; w < f->num_workers; w++) {
        counts[w] = 0;
        for (uint32_t k = 0; k < f->replicas[w]; k++) counts[w] += of_replicas[r++];
    }
}

/* One process reads what all workers of the job read, and puts their rows together. */
static rf_result train_as_job(worker *w)
{
    const files *f = w->user;
    const training t = { .optimizer = adam };
    net n;
    rf_dataset *whole, *parts[MAX_WORKERS];
    GO(net_create(w, &t, &n));
    GO(open_files(f, &whole));
    for (uint32_t k = 0; k < f->num_workers; k++) {
        files *copy = RF_NEW(files);
        EXPECT(copy);
        *copy = *f;
        const rf_slice_params p = {
            .worker = k, .num_workers = f->num_workers, .by_file = true, .split = split_as_job, .user = copy
        };
        GO(rf_dataset_slice(whole, &p, &parts[k]));
    }
    for (uint32_t epoch = 0; epoch < 2; epoch++) {
        rf_iterator *its[MAX_WORKERS];
        for (uint32_t k = 0; k < f->num_workers; k++) GO(rf_iterator_create(parts[k], epoch, &its[k]));
        for (;;) {
            float images[BATCH * PIXELS];
            int32_t labels[BATCH];
            int64_t rows = 0;
            rf_result r = RF_OK;
            for (uint32_t k = 0; k < f->num_workers && r == RF_OK; k++) {
                const rf_element *part;
                r = rf_iterator_next(its[k], &part);
                if (r != RF_OK) break;
                const size_t more = (size_t)part->component[0].shape.dim[0];
                memcpy(images + rows * PIXELS, part->component[0].data, more * PIXELS * sizeof(float));
                memcpy(labels + rows, part->component[1].data, more * sizeof(int32_t));
                rows += (int64_t)more;
            }
            if (r == RF_END) break;
            GO(r);
            const rf_element batch = {
                2, { { RF_F32, RF_SHAPE(rows, 6, 6, 1), images }, { RF_I32, RF_SHAPE(rows), labels } }
            };
            GO(train_batch(w, &n, &batch));
        }
        for (uint32_t k = 0; k < f->num_workers; k++) rf_iterator_destroy(&its[k]);
    }
    for (uint32_t k = 0; k < f->num_workers; k++) rf_dataset_destroy(&parts[k]);
    rf_dataset_destroy(&whole);
    return finish(w, &n);
}

static void check_by_file(files *f, job_params job)
{
    static report got[MAX_WORKERS], want[MAX_WORKERS];
    f->num_workers = job.num_workers;
    for (uint32_t w = 0; w < job.num_workers; w++) f->replicas[w] = num_devices(job.devices[w]);
    job.user = f;
    run_job(&job, train_by_file, got);
    check_job(got, job.num_workers);
    run_job(&(job_params){ .num_workers = 1, .devices = { LVP }, .user = f }, train_as_job, want);
    check_job(want, 1);
    compare_jobs(got, job.num_workers, want, 1e-5);
    check_seen(got, job.num_workers, IN_FILES, 2);
    assert_true(got[1].numbers[2] > 0); /* it ran out of files before the others did */
}

TEST_OF(full_tests, by_file)
{
    files f = { 0 };
    write_files(&f);
    check_by_file(&f, (job_params){ .num_workers = 2, .devices = { LVP, SWS } });
    check_by_file(&f, (job_params){ .num_workers = 2, .devices = { LVP "," LVP, LVP "," LVP "," LVP } });
    check_by_file(&f, (job_params){ .num_workers = 3, .devices = { LVP, LVP "," LVP, LVP } });
    remove_files(&f);
}

/* ---- fit, evaluate, predict; interrupted and continued ---- */

typedef struct fitting {
    const char *directory; /* of the backup; NULL: none */
    uint32_t stop_after;   /* batches; 0: never */
} fitting;

typedef struct stopper {
    worker *w;
    uint32_t batches, stop_after;
} stopper;

static rf_result count_and_stop(void *user, rf_fit_state *state, const rf_logs *logs)
{
    stopper *s = user;
    (void)logs;
    s->w->report->numbers[3] += state->batch_examples;
    if (++s->batches == s->stop_after) rf_strategy_request_stop(s->w->strategy);
    return RF_OK;
}

static rf_result fit(worker *w)
{
    const fitting *f = w->user;
    const training t = { .optimizer = adam };
    const rf_metric_kind metrics[] = { RF_METRIC_SPARSE_CATEGORICAL_ACCURACY };
    net n;
    rf_dataset *data;
    GO(net_create(w, &t, &n));
    GO(rf_model_compile(
        n.model, &(rf_compile_params){ .optimizer = n.optimizer,
                                       .loss = { RF_LOSS_SPARSE_CATEGORICAL_CROSSENTROPY, true, RF_REDUCTION_AUTO },
                                       .metrics = metrics,
                                       .num_metrics = 1 }));
    GO(examples(&data));
    GO(prepare(data, &data));
    rf_callback *callbacks[2];
    stopper s = { .w = w, .stop_after = f->stop_after };
    GO(rf_callback_create(&(rf_callback_fns){ .on_batch_end = count_and_stop }, &s, &callbacks[0]));
    if (f->directory)
        GO(rf_callback_backup_and_restore(&(rf_backup_params){ .directory = f->directory }, &callbacks[1]));
    rf_history history;
    GO(rf_model_fit(n.model,
                    &(rf_fit_params){ .data = data,
                                      .validation_data = data,
                                      .epochs = 3,
                                      .callbacks = callbacks,
                                      .num_callbacks = f->directory ? 2 : 1 },
                    &history));
    rf_callback_destroy(&callbacks[0]);
    if (f->directory) rf_callback_destroy(&callbacks[1]);
    rf_history_free(&history);
    if (f->stop_after) return RF_OK;
    rf_logs logs;
    GO(rf_model_evaluate(n.model, data, &logs));
    EXPECT(rf_logs_get(&logs, "loss", &w->report->losses[0]));
    EXPECT(rf_logs_get(&logs, "accuracy", &w->report->numbers[0]));
    rf_array predictions;
    GO(rf_model_predict(n.model, data, &predictions));
    EXPECT(predictions.shape.dim[0] == EXAMPLES && predictions.shape.dim[1] == 10);
    for (uint32_t i = 0; i < EXAMPLES; i++) w->report->losses[1 + i] = ((float *)predictions.data)[i * 10];
    w->report->steps = 1 + EXAMPLES;
    rf_array_free(&predictions);
    rf_dataset_destroy(&data);
    return net_hash(&n, &w->report->hash);
}

/* Predictions are near 0 here and there: differences count, not relations. */
static void compare_fits(const report *got, uint32_t workers, const report *want)
{
    double worst = 0;
    check_job(got, workers);
    for (uint32_t w = 0; w < workers; w++) {
        assert_int_equal(got[w].steps, want->steps);
        for (uint32_t i = 0; i < want->steps; i++) worst = fmax(worst, fabs(got[w].losses[i] - want->losses[i]));
        assert_true(got[w].hash == got[0].hash);
    }
    print_message("%u workers: loss and predictions within %.2g\n", workers, worst);
    assert_true(worst < 1e-5);
}

static void check_fit(uint32_t workers, const char *second)
{
    static report got[MAX_WORKERS], want[MAX_WORKERS];
    const fitting f = { 0 };
    run_job(&(job_params){ .num_workers = 1, .devices = { LVP }, .user = &f }, fit, want);
    check_job(want, 1);
    assert_true(want[0].numbers[3] == 3 * EXAMPLES);
    run_job(&(job_params){ .num_workers = workers, .devices = { LVP, second, LVP }, .user = &f }, fit, got);
    compare_fits(got, workers, want);
    assert_true(got[1].numbers[3] == 3 * EXAMPLES); /* of the global batches */
}

TEST(fit_on_two)
{
    check_fit(2, LVP);
}

TEST_OF(full_tests, fit_on_three)
{
    check_fit(3, SWS);
}

/* ---- virtual batches: whole ones on each worker ---- */

enum { TOGETHER = 4 };

static rf_result model_with_virtual_batches(worker *w, rf_model **model)
{
    const rf_batch_norm_params norm = { .virtual_batch_size = TOGETHER, .name = "norm" };
    rf_layer *layers[4];
    GO(rf_layer_flatten(&layers[0]));
    GO(rf_layer_dense(&(rf_dense_params){ .units = 7, .no_bias = true }, &layers[1]));
    GO(rf_layer_batch_norm(&norm, &layers[2]));
    GO(rf_layer_dense(&(rf_dense_params){ .units = 10 }, &layers[3]));
    return rf_model_create_sequential(w->strategy, layers, 4, &RF_SHAPE(6, 6, 1), model);
}

static rf_result call_model(rf_trace *t, const rf_tensor *in, rf_tensor *out, void *user)
{
    (void)rf_model_call(t, user, in[0], RF_TRAINING);
    (void)out;
    return rf_trace_status(t);
}

/* Without being asked to, a dataset is divided anywhere. */
static rf_result expect_refusal(worker *w, rf_model *model, const rf_dataset *whole)
{
    rf_dataset *own;
    rf_iterator *it;
    rf_function *f;
    const rf_element *batch;
    GO(rf_function_create(w->strategy, &(rf_function_params){ .step = call_model, .user = model, .training = true },
                          &f));
    GO(rf_strategy_distribute_dataset(w->strategy, whole, NULL, &own));
    GO(rf_iterator_create(own, 0, &it));
    GO(rf_iterator_next(it, &batch));
    EXPECT_FAILS(rf_strategy_run(w->strategy, f, batch, NULL), RF_ERROR_INVALID_ARGUMENT,
                 "layer 'norm' keeps 4 examples together, but this worker has rows ",
                 "set rf_distribute_params::keep_together to 4");
    rf_iterator_destroy(&it);
    rf_function_destroy(&f);
    rf_dataset_destroy(&own);
    return RF_OK;
}

static rf_result fit_virtual_batches(worker *w)
{
    rf_model *model;
    rf_optimizer *optimizer;
    rf_dataset *data;
    rf_history history;
    GO(model_with_virtual_batches(w, &model));
    GO(rf_optimizer_create(w->strategy, &adam, &optimizer));
    GO(rf_model_compile(
        model, &(rf_compile_params){ .optimizer = optimizer,
                                     .loss = { RF_LOSS_SPARSE_CATEGORICAL_CROSSENTROPY, true, RF_REDUCTION_AUTO } }));
    GO(examples(&data));
    GO(prepare(data, &data));
    GO(rf_model_fit(model, &(rf_fit_params){ .data = data, .epochs = 3 }, &history));
    for (uint32_t i = 0; i < history.num_epochs; i++)
        EXPECT(rf_logs_get(&history.epochs[i], "loss", &w->report->losses[i]));
    w->report->steps = history.num_epochs;
    rf_history_free(&history);
    GO(rf_strategy_check_identical(w->strategy, NULL, NULL));
    if (w->world_size == 3) GO(expect_refusal(w, model, data));
    const net n = { .model = model };
    GO(net_hash(&n, &w->report->hash));
    rf_dataset_destroy(&data);
    rf_model_destroy(&model);
    rf_optimizer_destroy(&optimizer);
    return RF_OK;
}

TEST_OF(full_tests, virtual_batches)
{
    static report got[MAX_WORKERS], want[MAX_WORKERS];
    run_job(&(job_params){ .num_workers = 1, .devices = { LVP } }, fit_virtual_batches, want);
    check_job(want, 1);
    assert_int_equal(want[0].steps, 3);
    run_job(&(job_params){ .num_workers = 2, .devices = { LVP "," LVP, LVP } }, fit_virtual_batches, got);
    check_job(got, 2);
    compare_jobs(got, 2, want, 1e-5);
    run_job(&(job_params){ .num_workers = 3, .devices = { LVP, LVP, LVP } }, fit_virtual_batches, got);
    check_job(got, 3);
    compare_jobs(got, 3, want, 1e-5);
}

TEST_OF(full_tests, continue_on_others)
{
    static report got[MAX_WORKERS], want[MAX_WORKERS];
    char directory[SCRATCH_PATH];
    scratch(directory);
    const fitting straight = { 0 }, stopped = { directory, 10 }, resumed = { directory, 0 };
    run_job(&(job_params){ .num_workers = 1, .devices = { LVP }, .user = &straight }, fit, want);
    check_job(want, 1);
    for (uint32_t workers = 1; workers <= 3; workers += 2) {
        run_job(&(job_params){ .num_workers = 2, .devices = { LVP, LVP }, .user = &stopped }, fit, got);
        check_job(got, 2);
        run_job(&(job_params){ .num_workers = workers, .devices = { LVP, LVP, LVP }, .user = &resumed }, fit, got);
        compare_fits(got, workers, want);
        /* 3 epochs of 7 batches; 11 were done, as the stop is agreed in the batch after it is asked for. */
        assert_true(got[0].numbers[3] == 3 * EXAMPLES - (10 * BATCH + 1));
    }
    rmdir(directory);
}

/* ---- batches that do not fit together ---- */

static rf_result wrong_slices(worker *w)
{
    const training t = { .optimizer = adam };
    net n;
    GO(net_create(w, &t, &n));
    rf_element part = { 2, { { RF_F32, RF_SHAPE(8, 6, 6, 1), n.images }, { RF_I32, RF_SHAPE(8), n.labels } } };
    part.global_rows = 16;
    part.first_row = w->rank ? 9 : 0;
    if (w->rank) part.component[0].shape.dim[0] = part.component[1].shape.dim[0] = 7;
    EXPECT_FAILS(rf_strategy_run(w->strategy, n.step, &part, NULL), RF_ERROR_INVALID_ARGUMENT, "rank 1 holds 7 rows",
                 "end at row 8");
    part.first_row = w->rank ? 8 : 0;
    EXPECT_FAILS(rf_strategy_run(w->strategy, n.step, &part, NULL), RF_ERROR_INVALID_ARGUMENT, "15 rows", "of 16");
    part.first_row = 12;
    EXPECT_FAILS(rf_strategy_run(w->strategy, n.step, &part, NULL), RF_ERROR_INVALID_ARGUMENT, "global batch of 16",
                 "12");
    /* A slice on one worker and the whole batch on the other fit. */
    part.component[0].shape.dim[0] = part.component[1].shape.dim[0] = w->rank ? 8 : 16;
    part.first_row = w->rank ? 8 : 0;
    part.global_rows = w->rank ? 16 : 0;
    return rf_strategy_run(w->strategy, n.step, &part, NULL);
}

static rf_result lonely_slice(worker *w)
{
    const training t = { .optimizer = adam };
    net n;
    GO(net_create(w, &t, &n));
    rf_element part = { 2, { { RF_F32, RF_SHAPE(8, 6, 6, 1), n.images }, { RF_I32, RF_SHAPE(8), n.labels } } };
    part.global_rows = 16;
    EXPECT_FAILS(rf_strategy_run(w->strategy, n.step, &part, NULL), RF_ERROR_INVALID_ARGUMENT, "8 rows of 16",
                 "no other workers");
    part.global_rows = 8;
    return rf_strategy_run(w->strategy, n.step, &part, NULL);
}

TEST(parts_must_fit)
{
    static report reports[MAX_WORKERS];
    run_job(&(job_params){ .num_workers = 2, .devices = { LVP, LVP } }, wrong_slices, reports);
    check_job(reports, 2);
    run_job(&(job_params){ .num_workers = 1, .devices = { LVP } }, lonely_slice, reports);
    check_job(reports, 1);
}

TEST_PROGRAM(multi_worker_input)
{
    const char *part = argc > 1 ? argv[1] : "quick";
    if (argc > 2) cmocka_set_test_filter(argv[2]);
    if (strcmp(part, "full") == 0) return room_tests_run(full_tests, NULL, NULL);
    return room_tests_run(own_tests, NULL, NULL);
}
