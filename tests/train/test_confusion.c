/* SPDX-License-Identifier: Apache-2.0 */
/* Confusion matrices: counts, weights, the ways to normalise them, tables, replicas and workers. */
#include <glob.h>

#include <ringfire/events.h>

#include "../replica/job.h"
#include "../support/strategies.h"
#include "test_folder.h"
#include "tests/room.h"
#include "train/metrics/confusion.h"

TEST(tables)
{
    static const double counts[] = { 12, 0, 3, 4 }, shares[] = { 0.25, 0.125, 0, 0.625 };
    static const char *const names[] = { "cat", "a dog" };
    char *text;
    OK(rf_confusion_format(counts, 2, NULL, &text));
    assert_string_equal(text, "    0   1\n0  12   0\n1   3   4\n");
    rf_string_free(text);
    OK(rf_confusion_format(shares, 2, names, &text));
    assert_string_equal(text, "         cat  a dog\n"
                              "cat    0.250  0.125\n"
                              "a dog  0.000  0.625\n");
    rf_string_free(text);
}

TEST(normalized)
{
    static const double counts[] = { 1, 3, 0, 0, 0, 0, 1, 1, 2 };
    static const double wanted[][9] = {
        { 1, 3, 0, 0, 0, 0, 1, 1, 2 },
        { 0.25, 0.75, 0, 0, 0, 0, 0.25, 0.25, 0.5 },
        { 0.5, 0.75, 0, 0, 0, 0, 0.5, 0.25, 1 },
        { 0.125, 0.375, 0, 0, 0, 0, 0.125, 0.125, 0.25 },
    };
    for (int how = RF_METRIC_NORMALIZE_NONE; how <= RF_METRIC_NORMALIZE_ALL; how++) {
        double matrix[9];
        memcpy(matrix, counts, sizeof(matrix));
        rf_confusion_normalize(matrix, 3, (rf_metric_normalize)how);
        assert_memory_equal(matrix, wanted[how], sizeof(matrix));
    }
    assert_true(rf_confusion_accuracy(counts, 3) == 3.0 / 8);
    assert_true(rf_confusion_accuracy((const double[4]){ 0 }, 2) == 0);
}

/* ---- on devices ---- */

enum { N = 11, C = 3, BATCHES = 2 };

typedef struct examples {
    float scores[N * C], weights[N];
    int32_t labels[N];
} examples;

/* One label names no class, and does not count. */
static void fill_examples(examples *e, uint32_t seed)
{
    fill_noise(e->scores, N * C, seed);
    for (int i = 0; i < N; i++) {
        e->labels[i] = i == 4 ? -1 : (int32_t)((uint32_t)i * (seed + 2) % C);
        e->weights[i] = (float)(i % 4) / 2;
    }
}

static void count_examples(const examples *e, bool weighted, double *matrix)
{
    for (int i = 0; i < N; i++) {
        int best = 0;
        for (int c = 1; c < C; c++)
            if (e->scores[i * C + c] > e->scores[i * C + best]) best = c;
        if (e->labels[i] >= 0) matrix[e->labels[i] * C + best] += weighted ? (double)e->weights[i] : 1;
    }
}

typedef struct meters {
    rf_metric *plain, *weighted, *shares;
} meters;

static rf_result measure(rf_trace *t, const rf_tensor *in, rf_tensor *out, void *user)
{
    const meters *m = user;
    const rf_tensor none = { 0 };
    (void)out;
    (void)rf_metric_update(t, m->plain, in[1], in[0], none);
    (void)rf_metric_update(t, m->weighted, rf_reshape(t, in[1], RF_SHAPE(-1, 1)), in[0], in[2]);
    return rf_metric_update(t, m->shares, in[1], in[0], none);
}

static void check_matrix(rf_metric *metric, const double *wanted)
{
    double is[C * C], diagonal = 0, all = 0, value;
    uint32_t count;
    OK(rf_metric_results(metric, is, C * C, &count));
    assert_int_equal(count, C * C);
    for (int i = 0; i < C * C; i++) assert_near(is[i], wanted[i], 1e-6, 0, "place of the matrix");
    for (int i = 0; i < C * C; i++) all += wanted[i];
    for (int i = 0; i < C; i++) diagonal += wanted[i * C + i];
    OK(rf_metric_result(metric, &value));
    assert_near(value, diagonal / all, 1e-6, 0, "accuracy");
}

static void measure_all(rf_strategy *strategy)
{
    meters m;
    rf_function *function;
    double plain[C * C] = { 0 }, weighted[C * C] = { 0 }, shares[C * C], is[C * C];
    char *text;
    rf_metric_params p = { .kind = RF_METRIC_CONFUSION_MATRIX, .num_classes = C };
    OK(rf_metric_create(strategy, &p, &m.plain));
    OK(rf_metric_create(strategy, &p, &m.weighted));
    p.normalize = RF_METRIC_NORMALIZE_LABELS;
    OK(rf_metric_create(strategy, &p, &m.shares));
    OK(rf_function_create(strategy, &(rf_function_params){ .step = measure, .user = &m }, &function));
    for (uint32_t seed = 0; seed < BATCHES; seed++) {
        examples e;
        fill_examples(&e, seed);
        const rf_element batch = { 3,
                                   { array_f32(RF_SHAPE(N, C), e.scores), array_i32(RF_SHAPE(N), e.labels),
                                     array_f32(RF_SHAPE(N), e.weights) } };
        OK(rf_strategy_run(strategy, function, &batch, NULL));
        count_examples(&e, false, plain);
        count_examples(&e, true, weighted);
    }
    check_matrix(m.plain, plain);
    check_matrix(m.weighted, weighted);
    memcpy(shares, plain, sizeof(plain));
    rf_confusion_normalize(shares, C, RF_METRIC_NORMALIZE_LABELS);
    OK(rf_metric_results(m.shares, is, C * C, NULL));
    for (int i = 0; i < C * C; i++) assert_near(is[i], shares[i], 1e-6, 0, "share");
    OK(rf_metric_table(m.plain, NULL, &text));
    assert_true(strncmp(text, "   ", 3) == 0 && strstr(text, "\n2  "));
    rf_string_free(text);
    OK(rf_metric_reset(m.plain));
    OK(rf_metric_result(m.plain, &is[0]));
    assert_true(is[0] == 0);
    rf_function_destroy(&function);
    rf_metric_destroy(&m.plain);
    rf_metric_destroy(&m.weighted);
    rf_metric_destroy(&m.shares);
}

/* First of the tests with devices: the process that forks has touched no driver. */
static rf_result measure_in_job(worker *w)
{
    measure_all(w->strategy);
    return RF_OK;
}

TEST(in_a_job)
{
    static report reports[MAX_WORKERS];
    const job_params job = { .num_workers = 2, .devices = { "llvmpipe", "llvmpipe" } };
    run_job(&job, measure_in_job, reports);
    check_job(reports, 2);
}

TEST_ON_ONE(measure_all)
TEST_ON_TWO(measure_all)

/* The texts in the event file of a training, all of one name. */
static int count_tables(const char *name, const char *last)
{
    glob_t found;
    rf_event_reader *reader;
    rf_event event;
    int count = 0;
    assert_int_equal(glob(in_folder("train/*"), 0, NULL, &found), 0);
    OK(rf_event_reader_open(found.gl_pathv[0], &reader));
    while (rf_event_reader_next(reader, &event) == RF_OK) {
        if (event.kind != RF_EVENT_TEXT || !strstr(event.tag, "confusion")) continue;
        assert_string_equal(event.tag, name);
        if (++count == 2) assert_string_equal(event.text, last);
    }
    rf_event_reader_close(&reader);
    globfree(&found);
    return count;
}

/* fit writes that of the validation into event files, after each epoch. */
static void writes(rf_strategy *strategy)
{
    examples e;
    rf_dataset *rows, *data;
    rf_layer *layer;
    rf_model *model;
    rf_optimizer *sgd;
    rf_callback *board;
    char *table, text[256];
    const rf_output_metric metric = { .metric = { .kind = RF_METRIC_CONFUSION_MATRIX, .num_classes = C } };
    fill_examples(&e, 1);
    e.labels[4] = 0;
    const rf_array arrays[] = { array_f32(RF_SHAPE(N, C), e.scores), array_i32(RF_SHAPE(N), e.labels) };
    OK(rf_dataset_from_arrays(&(rf_dataset_arrays_params){ .arrays = arrays, .num_arrays = 2 }, &rows));
    OK(rf_dataset_batch(rows, N, RF_REMAINDER_KEEP, &data));
    OK(rf_layer_dense(&(rf_dense_params){ .units = C }, &layer));
    OK(rf_model_create_sequential(strategy, &layer, 1, NULL, &model));
    OK(rf_optimizer_create(strategy, &(rf_optimizer_params){ .kind = RF_OPTIMIZER_SGD, .learning_rate = 1 }, &sgd));
    OK(rf_model_compile(
        model, &(rf_compile_params){ .optimizer = sgd,
                                     .loss = { .kind = RF_LOSS_SPARSE_CATEGORICAL_CROSSENTROPY, .from_logits = true },
                                     .output_metrics = &metric,
                                     .num_output_metrics = 1 }));
    OK(rf_callback_tensorboard(&(rf_tensorboard_params){ .directory = folder }, &board));
    OK(rf_model_fit(
        model,
        &(rf_fit_params){ .data = data, .validation_data = data, .epochs = 2, .callbacks = &board, .num_callbacks = 1 },
        NULL));
    OK(rf_metric_table(rf_model_metric(model, "val_confusion_matrix"), NULL, &table));
    snprintf(text, sizeof(text), "```\n%s```\n", table);
    assert_int_equal(count_tables("ringfire/confusion/val_confusion_matrix", text), 2);
    rf_string_free(table);
    rf_callback_destroy(&board);
    rf_model_destroy(&model);
    rf_optimizer_destroy(&sgd);
    rf_dataset_destroy(&data);
    rf_dataset_destroy(&rows);
}
TEST_ON_TWO(writes)

static void refuses(rf_strategy *strategy)
{
    rf_metric *metric;
    char *text;
    static const struct {
        rf_metric_params params;
        const char *part;
    } cases[] = {
        { { .kind = RF_METRIC_CONFUSION_MATRIX }, "num_classes 0 is not in 2 .. 255" },
        { { .kind = RF_METRIC_CONFUSION_MATRIX, .num_classes = 256 }, "num_classes 256 is not in 2 .. 255" },
        { { .kind = RF_METRIC_CONFUSION_MATRIX, .num_classes = 2, .normalize = (rf_metric_normalize)4 },
          "normalize 4 does not exist" },
        { { .kind = RF_METRIC_RECALL, .normalize = RF_METRIC_NORMALIZE_ALL }, "normalize is for confusion matrices" },
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        FAILS(rf_metric_create(strategy, &cases[i].params, &metric), RF_ERROR_INVALID_ARGUMENT, cases[i].part);
    OK(rf_metric_create(strategy, &(rf_metric_params){ .kind = RF_METRIC_MEAN }, &metric));
    FAILS(rf_metric_table(metric, NULL, &text), RF_ERROR_INVALID_ARGUMENT, "'mean' is no confusion matrix");
    rf_metric_destroy(&metric);
}
TEST_ON_ONE(refuses)

TESTS(confusion, make_folder, remove_folder)
