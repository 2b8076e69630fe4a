/* SPDX-License-Identifier: Apache-2.0 */
/* Requests to stop that come while a model is evaluated: at the end of an epoch of fit, in a callback, alone. All
 * workers end after the same batch, and a fit that is resumed has the logs and weights of one that was never stopped.
 */
#include <stdio.h>

#include "../replica/mw_model.h"
#include "../support/folder.h"
#include "tests/room.h"

enum { ROWS = 40, SIDE = 6, BATCH = 4, BATCHES = ROWS / BATCH, EPOCHS = 3, CLASSES = 10, NEVER = 0 };

typedef struct stopping {
    const char *directory; /* of backups */
    uint32_t stop_batch;   /* of the validation in the second epoch, counted from 1; the last rank asks */
    bool in_callback;      /* of the evaluation by a callback instead */
} stopping;

/* Asks for a stop when a row is read. */
typedef struct tripwire {
    rf_strategy *strategy;
    uint64_t rows, stop_row;
} tripwire;

static rf_result count_row(void *user, const rf_element *in, rf_element *out)
{
    tripwire *t = user;
    for (uint32_t i = 0; i < in->num_components; i++)
        memcpy(out->component[i].data, in->component[i].data,
               (size_t)rf_shape_count(in->component[i].shape) * sizeof(float));
    if (++t->rows == t->stop_row) rf_strategy_request_stop(t->strategy);
    return RF_OK;
}

/* The row of a worker with which a batch of the second pass begins; they share the rows of each batch. */
static uint64_t second_pass(const worker *w, uint32_t batch)
{
    if (batch == NEVER || w->rank + 1 < w->world_size) return NEVER;
    return (ROWS + (batch - 1) * BATCH) / w->world_size + 1;
}

/* With a wire in their order, else shuffled. */
static rf_result make_data(tripwire *wire, rf_dataset **out)
{
    static float images[ROWS * SIDE * SIDE];
    static int32_t labels[ROWS];
    uint32_t state = 7;
    for (uint32_t i = 0; i < ROWS * SIDE * SIDE; i++)
        images[i] = (float)((state = state * 1664525u + 1013904223u) >> 8) / 16777216.0f;
    for (int i = 0; i < ROWS; i++) labels[i] = i % CLASSES;
    const rf_array arrays[] = { { RF_F32, RF_SHAPE(ROWS, SIDE, SIDE, 1), images }, { RF_I32, RF_SHAPE(ROWS), labels } };
    const rf_element_spec spec = { 2, { RF_F32, RF_I32 }, { RF_SHAPE(SIDE, SIDE, 1), { 0 } }, { 0 } };
    rf_dataset *raw, *rows;
    GO(rf_dataset_from_arrays(&(rf_dataset_arrays_params){ .arrays = arrays, .num_arrays = 2 }, &raw));
    GO(wire ? rf_dataset_map(raw, count_row, wire, &spec, &rows)
            : rf_dataset_shuffle(raw, ROWS, 3, RF_SHUFFLE_EACH_PASS, &rows));
    GO(rf_dataset_batch(rows, BATCH, RF_REMAINDER_KEEP, out));
    rf_dataset_destroy(&raw);
    rf_dataset_destroy(&rows);
    return RF_OK;
}

/* ---- fit ---- */

typedef struct watcher {
    worker *w;
    const rf_dataset *data; /* to evaluate at the end of epochs; NULL: none */
    uint32_t num_values, num_epochs;
} watcher;

static rf_result watch_epoch(void *user, rf_fit_state *state, const rf_logs *logs)
{
    watcher *u = user;
    rf_logs own = { 0 };
    if (u->data) GO(rf_model_evaluate(state->model, u->data, &own));
    if (u->num_epochs++ == 0) u->w->report->numbers[0] = state->epoch;
    for (uint32_t i = 0; i < logs->count; i++) u->w->report->losses[u->num_values++] = logs->value[i];
    for (uint32_t i = 0; i < own.count; i++) u->w->report->losses[u->num_values++] = own.value[i];
    return RF_OK;
}

static rf_result create_model(worker *w, net *n)
{
    static const rf_metric_kind metrics[] = { RF_METRIC_SPARSE_CATEGORICAL_ACCURACY };
    const training t = { .optimizer = { .kind = RF_OPTIMIZER_ADAM, .learning_rate = 0.01 } };
    GO(net_create(w, &t, n));
    return rf_model_compile(
        n->model, &(rf_compile_params){ .optimizer = n->optimizer,
                                        .loss = { RF_LOSS_SPARSE_CATEGORICAL_CROSSENTROPY, true, RF_REDUCTION_AUTO },
                                        .metrics = metrics,
                                        .num_metrics = 1 });
}

static rf_result create_callbacks(const stopping *p, watcher *u, rf_callback *callbacks[3], uint32_t *count)
{
    GO(rf_callback_create(&(rf_callback_fns){ .on_epoch_end = watch_epoch }, u, &callbacks[0]));
    GO(rf_callback_early_stopping(&(rf_early_stopping_params){ .monitor = "loss", .patience = 2, .min_delta = 100 },
                                  &callbacks[1])); /* stops after the third epoch, or earlier if one counts twice */
    *count = 2;
    if (p->directory)
        GO(rf_callback_backup_and_restore(&(rf_backup_params){ .directory = p->directory }, &callbacks[(*count)++]));
    return RF_OK;
}

static rf_result fit(worker *w)
{
    const stopping *p = w->user;
    tripwire wire = { .strategy = w->strategy, .stop_row = second_pass(w, p->stop_batch) };
    rf_dataset *data, *validation;
    rf_callback *callbacks[3];
    uint32_t count;
    net n;
    GO(create_model(w, &n));
    GO(make_data(NULL, &data));
    GO(make_data(&wire, &validation));
    watcher u = { .w = w, .data = p->in_callback ? validation : NULL };
    rf_history history;
    GO(create_callbacks(p, &u, callbacks, &count));
    GO(rf_model_fit(n.model,
                    &(rf_fit_params){ .data = data,
                                      .validation_data = p->in_callback ? NULL : validation,
                                      .epochs = EPOCHS + 2,
                                      .callbacks = callbacks,
                                      .num_callbacks = count },
                    &history));
    EXPECT(rf_strategy_stop_agreed(w->strategy) == (p->stop_batch != NEVER));
    EXPECT(history.num_epochs == u.num_epochs);
    w->report->numbers[1] = u.num_epochs;
    w->report->numbers[2] = (double)wire.rows;
    w->report->steps = u.num_values;
    for (uint32_t i = 0; i < count; i++) rf_callback_destroy(&callbacks[i]);
    rf_history_free(&history);
    rf_dataset_destroy(&data);
    rf_dataset_destroy(&validation);
    return net_hash(&n, &w->report->hash);
}

static void run_fit(const job_params *job, const stopping *p, report reports[MAX_WORKERS])
{
    job_params own = *job;
    own.user = p;
    memset(reports, 0, MAX_WORKERS * sizeof(*reports));
    run_job(&own, fit, reports);
    check_job(reports, own.num_workers);
}

/* Stopped in the end of the second epoch, which the resumed one repeats. */
static void stop_and_resume(const job_params *job, bool in_callback, uint32_t stop_batch)
{
    static report whole[MAX_WORKERS], stopped[MAX_WORKERS], resumed[MAX_WORKERS];
    char folder[SCRATCH_PATH];
    stopping p = { .in_callback = in_callback };
    run_fit(job, &p, whole);
    p.directory = scratch(folder);
    p.stop_batch = stop_batch;
    run_fit(job, &p, stopped);
    p.stop_batch = NEVER;
    run_fit(job, &p, resumed);
    assert_int_equal(scratch_count(folder), 0); /* done: the next fit starts anew */
    scratch_remove(folder);
    const uint32_t values = whole[0].steps / EPOCHS;
    for (uint32_t r = 0; r < job->num_workers; r++) {
        assert_int_equal((int)whole[r].numbers[1], EPOCHS);
        assert_int_equal((int)stopped[r].numbers[1], 1);
        assert_int_equal((int)resumed[r].numbers[0], 1);
        assert_int_equal((int)resumed[r].numbers[1], EPOCHS - 1);
        /* Some batches may be read ahead. */
        if (stop_batch < BATCHES / 2) assert_true(stopped[r].numbers[2] < 2 * ROWS / job->num_workers);
        assert_memory_equal(stopped[r].losses, whole[r].losses, values * sizeof(double));
        assert_memory_equal(resumed[r].losses, whole[r].losses + values, 2 * values * sizeof(double));
        assert_true(resumed[r].hash == whole[r].hash);
    }
}

static const job_params one = { .num_workers = 1, .devices = { "llvmpipe" } };
static const job_params replicas = { .num_workers = 1, .devices = { "llvmpipe,llvmpipe" } };
static const job_params workers = { .num_workers = 2, .devices = { "llvmpipe", "llvmpipe" } };
static const job_params *const jobs[] = { &one, &replicas, &workers };
enum { NUM_JOBS = sizeof(jobs) / sizeof(jobs[0]) };

/* At its beginning, within it, and with its last batch. */
TEST(validation)
{
    for (uint32_t i = 0; i < NUM_JOBS; i++) stop_and_resume(jobs[i], false, 4);
    stop_and_resume(&one, false, 1);
    stop_and_resume(&workers, false, BATCHES);
}

TEST(callback)
{
    stop_and_resume(&one, true, 2);
    stop_and_resume(&workers, true, 2);
}

/* ---- without fit ---- */

static rf_result evaluate(worker *w)
{
    tripwire wire = { .strategy = w->strategy, .stop_row = second_pass(w, 2) };
    rf_dataset *data;
    rf_logs whole, logs;
    rf_array predictions;
    net n;
    GO(create_model(w, &n));
    GO(make_data(&wire, &data));
    GO(rf_model_evaluate(n.model, data, &whole));
    const bool predicts = *(const bool *)w->user;
    if (predicts)
        EXPECT_FAILS(rf_model_predict(n.model, data, &predictions), RF_ERROR_CANCELLED, "rf_model_predict",
                     "stopped on request");
    else
        EXPECT_FAILS(rf_model_evaluate(n.model, data, &logs), RF_ERROR_CANCELLED, "rf_model_evaluate",
                     "stopped on request");
    EXPECT(rf_strategy_stop_agreed(w->strategy));
    EXPECT(!predicts || !predictions.data);
    /* A call that is made afterwards is what the program wants in spite of it. */
    GO(rf_model_evaluate(n.model, data, &logs));
    EXPECT(memcmp(logs.value, whole.value, logs.count * sizeof(logs.value[0])) == 0);
    GO(rf_model_predict(n.model, data, &predictions));
    EXPECT(predictions.shape.dim[0] == ROWS);
    rf_array_free(&predictions);
    rf_dataset_destroy(&data);
    return RF_OK;
}

TEST(alone)
{
    static report reports[MAX_WORKERS];
    (void)state;
    for (uint32_t i = 0; i < 2 * NUM_JOBS; i++) {
        const bool predicts = i % 2;
        job_params job = *jobs[i / 2];
        job.user = &predicts;
        run_job(&job, evaluate, reports);
        check_job(reports, job.num_workers);
    }
}

TESTS(stop, NULL, NULL)
