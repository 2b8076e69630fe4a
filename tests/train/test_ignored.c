/* SPDX-License-Identifier: Apache-2.0 */
/* Labels that a loss ignores: losses, weights, accuracies, top-k, perplexity and a confusion matrix of a training as
 * PyTorch has them (make_ignored.py prints its numbers), on one replica, on two, and in a job of two workers. */
#include "../replica/job.h"
#include "../support/log_value.h"
#include "../support/strategies.h"
#include "test_folder.h"
#include "tests/room.h"

/* 2 of 12 labels count in the first half of the batch, and 11 of 12 in the second one. */
enum { EXAMPLES = 8, STEPS = 3, FEATURES = 2, CLASSES = 4, LABELS = EXAMPLES * STEPS, EPOCHS = 3, COUNTED = 13 };
static const int32_t ignored = -100;

static const double torch_losses[EPOCHS] = { 1.38019993, 1.36511941, 1.35073688 };
static const double torch_kernel[FEATURES * CLASSES] = { -0.806349408, 0.379550066, 0.0804511309, -0.403651789,
                                                         0.649559352,  0.384409438, -0.226143721, -0.807825069 };
static const double torch_loss = 1.3370245; /* after that */
enum { TORCH_RIGHT = 4, TORCH_AMONG_TWO = 9 };
static const double torch_matrix[CLASSES * CLASSES] = { 3, 0, 0, 2, 3, 0, 0, 0, 1, 2, 0, 0, 0, 1, 0, 1 };

static void fill_labels(int32_t *labels)
{
    for (int i = 0; i < LABELS; i++)
        labels[i] = (i < LABELS / 2 && i % 4 != 0) || i % 9 == 8 ? ignored : i * 3 % CLASSES;
}

static rf_dataset *make_batches(bool columns, uint32_t size)
{
    float x[LABELS * FEATURES];
    int32_t labels[LABELS];
    for (int i = 0; i < LABELS * FEATURES; i++) x[i] = (float)(i * 7 % 11 - 5) / 8;
    fill_labels(labels);
    const rf_array arrays[] = {
        { RF_F32, RF_SHAPE(EXAMPLES, STEPS, FEATURES), x },
        { RF_I32, columns ? RF_SHAPE(EXAMPLES, STEPS, 1) : RF_SHAPE(EXAMPLES, STEPS), labels },
    };
    rf_dataset *slices, *data;
    OK(rf_dataset_from_arrays(&(rf_dataset_arrays_params){ .arrays = arrays, .num_arrays = 2 }, &slices));
    OK(rf_dataset_batch(slices, size, RF_REMAINDER_KEEP, &data));
    rf_dataset_destroy(&slices);
    return data;
}

static rf_dataset *make_data(bool columns)
{
    return make_batches(columns, EXAMPLES);
}

/* The metrics leave out what the loss does, of whose number nothing is left when this returns. */
static rf_model *make_model(rf_strategy *strategy, uint32_t accumulation, rf_optimizer **optimizer)
{
    static const rf_output_metric metrics[] = {
        { .metric = { .kind = RF_METRIC_SPARSE_CATEGORICAL_ACCURACY } },
        { .metric = { .kind = RF_METRIC_SPARSE_TOP_K_CATEGORICAL_ACCURACY, .k = 2, .name = "among_two" } },
        { .metric = { .kind = RF_METRIC_PERPLEXITY } },
        { .metric = { .kind = RF_METRIC_CONFUSION_MATRIX, .num_classes = CLASSES } },
    };
    const int32_t number = ignored;
    float kernel[FEATURES * CLASSES];
    rf_layer *layer;
    rf_model *model;
    for (int i = 0; i < FEATURES * CLASSES; i++) kernel[i] = (float)(i * 5 % 7 - 3) / 4;
    OK(rf_layer_dense(&(rf_dense_params){ .units = CLASSES, .no_bias = true }, &layer));
    OK(rf_model_create_sequential(strategy, &layer, 1, &RF_SHAPE(STEPS, FEATURES), &model));
    OK(rf_variable_assign(rf_model_variables(model).items[0], kernel));
    const rf_optimizer_params sgd = { .kind = RF_OPTIMIZER_SGD,
                                      .learning_rate = 0.5,
                                      .accumulation_steps = accumulation };
    OK(rf_optimizer_create(strategy, &sgd, optimizer));
    OK(rf_model_compile(model, &(rf_compile_params){ .optimizer = *optimizer,
                                                     .loss = { .from_logits = true, .ignore_class = &number },
                                                     .output_metrics = metrics,
                                                     .num_output_metrics = 4 }));
    return model;
}

static void check_evaluation(rf_model *model, const rf_dataset *data)
{
    double matrix[CLASSES * CLASSES];
    rf_logs logs;
    OK(rf_model_evaluate(model, data, &logs));
    assert_near(log_value(&logs, "loss"), torch_loss, 1e-6, 0, "loss");
    assert_near(log_value(&logs, "accuracy"), (double)TORCH_RIGHT / COUNTED, 1e-7, 0, "accuracy");
    assert_near(log_value(&logs, "among_two"), (double)TORCH_AMONG_TWO / COUNTED, 1e-7, 0, "top 2");
    assert_near(log_value(&logs, "perplexity"), exp(torch_loss), 1e-5, 0, "perplexity");
    assert_near(log_value(&logs, "confusion_matrix"), (double)TORCH_RIGHT / COUNTED, 1e-7, 0, "diagonal");
    OK(rf_metric_results(rf_model_metric(model, "val_confusion_matrix"), matrix, CLASSES * CLASSES, NULL));
    assert_memory_equal(matrix, torch_matrix, sizeof(matrix));
}

static void train(rf_strategy *strategy, bool columns)
{
    rf_optimizer *optimizer;
    rf_history history;
    float kernel[FEATURES * CLASSES];
    rf_model *model = make_model(strategy, 1, &optimizer);
    rf_dataset *data = make_data(columns);
    OK(rf_model_fit(model, &(rf_fit_params){ .data = data, .epochs = EPOCHS }, &history));
    for (int i = 0; i < EPOCHS; i++)
        assert_near(log_value(&history.epochs[i], "loss"), torch_losses[i], 1e-6, 0, "loss of an epoch");
    OK(rf_variable_read(rf_model_variables(model).items[0], kernel));
    for (int i = 0; i < FEATURES * CLASSES; i++) assert_near(kernel[i], torch_kernel[i], 1e-5, 1e-6, "kernel");
    check_evaluation(model, data);
    OK(rf_strategy_check_identical(strategy, NULL, NULL));
    rf_history_free(&history);
    rf_model_destroy(&model);
    rf_optimizer_destroy(&optimizer);
    rf_dataset_destroy(&data);
}

/* Steps of which one has two labels that count and the other eleven add up to one of all. */
static void accumulates(rf_strategy *strategy)
{
    float wanted[FEATURES * CLASSES], kernel[FEATURES * CLASSES];
    for (uint32_t steps = 1; steps <= 2; steps++) {
        rf_optimizer *optimizer;
        rf_model *model = make_model(strategy, steps, &optimizer);
        rf_dataset *data = make_batches(false, EXAMPLES / steps);
        OK(rf_model_fit(model, &(rf_fit_params){ .data = data, .epochs = 1 }, NULL));
        OK(rf_variable_read(rf_model_variables(model).items[0], steps == 1 ? wanted : kernel));
        rf_model_destroy(&model);
        rf_optimizer_destroy(&optimizer);
        rf_dataset_destroy(&data);
    }
    for (int i = 0; i < FEATURES * CLASSES; i++) assert_near(kernel[i], wanted[i], 1e-6, 1e-7, "kernel");
}

/* ---- two workers, first of all: the process that forks has touched no driver ---- */

static rf_result train_in_job(worker *w)
{
    train(w->strategy, false);
    return RF_OK;
}

TEST(in_a_job)
{
    static report reports[MAX_WORKERS];
    const job_params job = { .num_workers = 2, .devices = { "llvmpipe", "llvmpipe" } };
    run_job(&job, train_in_job, reports);
    check_job(reports, 2);
}

static void trains(rf_strategy *strategy)
{
    train(strategy, false);
    train(strategy, true);
}
TEST_ON_ONE(trains)
TEST_ON_TWO(trains)
TEST_ON_ONE(accumulates)
TEST_ON_TWO(accumulates)

/* ---- a step of the caller's ---- */

typedef struct app {
    rf_variable *rows; /* the logits of each example */
    rf_optimizer *optimizer;
} app;

/* The mean over the labels that count, and the sum. */
static rf_result step(rf_trace *t, const rf_tensor *in, rf_tensor *out, void *user)
{
    const app *a = user;
    const rf_array number = { RF_I32, RF_SCALAR_SHAPE, (void *)&ignored };
    rf_loss loss = { .from_logits = true, .reduction = RF_REDUCTION_NONE, .ignore_class = &ignored };
    const rf_tensor logits = rf_gather(t, rf_variable_tensor(t, a->rows), in[1], 0);
    const rf_tensor counts = rf_compare(t, RF_NOT_EQUAL, in[0], rf_constant_array(t, &number));
    out[0] = rf_compute_weighted_loss(t, rf_loss_call(t, &loss, in[0], logits), counts);
    loss.reduction = RF_REDUCTION_SUM;
    out[1] = rf_loss_call(t, &loss, in[0], logits);
    return rf_optimizer_minimize(t, a->optimizer, out[0],
                                 (rf_variable_list){ .items = (rf_variable **)&a->rows, .count = 1 });
}

/* Rows of ignored labels have no gradient, exactly: SGD leaves their bits. The others move. */
static void leaves_rows_alone(rf_strategy *strategy)
{
    int32_t labels[LABELS], places[LABELS];
    float before[LABELS * CLASSES], after[LABELS * CLASSES], results[2];
    rf_function *function;
    app a;
    fill_labels(labels);
    fill_noise(before, LABELS * CLASSES, 9);
    for (int i = 0; i < LABELS; i++) places[i] = i;
    OK(rf_variable_create(strategy,
                          &(rf_variable_params){ .name = "rows", .shape = RF_SHAPE(LABELS, CLASSES), .value = before },
                          &a.rows));
    OK(rf_optimizer_create(strategy, &(rf_optimizer_params){ .kind = RF_OPTIMIZER_SGD, .learning_rate = 1 },
                           &a.optimizer));
    OK(rf_function_create(
        strategy, &(rf_function_params){ .step = step, .user = &a, .num_outputs = 2, .training = true }, &function));
    const rf_element batch = { 2, { array_i32(RF_SHAPE(LABELS), labels), array_i32(RF_SHAPE(LABELS), places) } };
    run_once(strategy, function, &batch, results, 2);
    OK(rf_variable_read(a.rows, after));
    double sum = 0;
    for (int i = 0; i < LABELS; i++) {
        const bool same = memcmp(before + i * CLASSES, after + i * CLASSES, CLASSES * sizeof(float)) == 0;
        assert_true(same == (labels[i] == ignored));
        double total = 0;
        for (int c = 0; c < CLASSES; c++) total += exp((double)before[i * CLASSES + c]);
        if (!same) sum += log(total) - (double)before[i * CLASSES + labels[i]];
    }
    assert_near(results[0], sum / COUNTED, 1e-6, 0, "mean");
    assert_near(results[1], sum, 1e-6, 0, "sum");
    rf_function_destroy(&function);
    rf_optimizer_destroy(&a.optimizer);
    rf_variable_destroy(&a.rows);
}
TEST_ON_ONE(leaves_rows_alone)
TEST_ON_TWO(leaves_rows_alone)

/* ---- weights, files, mistakes ---- */

/* With weights of samples a mean is divided by the number of labels that count, or by their weights. */
static void weighs(rf_strategy *strategy)
{
    enum { ROWS = 4 };
    float logits[ROWS * CLASSES], weights[ROWS] = { 0.5f, 2, 3, 1 }, kernel[CLASSES * CLASSES] = { 0 };
    const int32_t labels[ROWS] = { 1, ignored, 0, ignored };
    fill_noise(logits, ROWS * CLASSES, 2);
    double sum = 0;
    for (int i = 0; i < ROWS; i += 2) {
        double total = 0;
        for (int c = 0; c < CLASSES; c++) total += exp((double)logits[i * CLASSES + c]);
        sum += (double)weights[i] * (log(total) - (double)logits[i * CLASSES + labels[i]]);
    }
    for (int c = 0; c < CLASSES; c++) kernel[c * CLASSES + c] = 1;
    const rf_array arrays[] = { array_f32(RF_SHAPE(ROWS, CLASSES), logits),
                                array_i32(RF_SHAPE(ROWS), (int32_t *)labels), array_f32(RF_SHAPE(ROWS), weights) };
    const rf_reduction reductions[] = { RF_REDUCTION_AUTO, RF_REDUCTION_MEAN_WITH_SAMPLE_WEIGHT, RF_REDUCTION_SUM };
    const double divisors[] = { 2, 3.5, 1 };
    rf_dataset *slices, *data;
    rf_layer *layer;
    rf_model *model;
    rf_optimizer *optimizer;
    rf_logs logs;
    OK(rf_dataset_from_arrays(&(rf_dataset_arrays_params){ .arrays = arrays, .num_arrays = 3 }, &slices));
    OK(rf_dataset_batch(slices, ROWS, RF_REMAINDER_KEEP, &data));
    OK(rf_layer_dense(&(rf_dense_params){ .units = CLASSES, .no_bias = true }, &layer));
    OK(rf_model_create_sequential(strategy, &layer, 1, &RF_SHAPE(CLASSES), &model));
    OK(rf_variable_assign(rf_model_variables(model).items[0], kernel));
    OK(rf_optimizer_create(strategy, &(rf_optimizer_params){ .learning_rate = 1 }, &optimizer));
    for (int i = 0; i < 3; i++) {
        const rf_loss loss = { .from_logits = true, .reduction = reductions[i], .ignore_class = &ignored };
        OK(rf_model_compile(model, &(rf_compile_params){ .optimizer = optimizer, .loss = loss }));
        OK(rf_model_evaluate(model, data, &logs));
        assert_near(log_value(&logs, "loss"), sum / divisors[i], 1e-6, 0, "weighted loss");
    }
    rf_dataset_destroy(&slices);
    rf_dataset_destroy(&data);
    rf_model_destroy(&model);
    rf_optimizer_destroy(&optimizer);
}
TEST_ON_ONE(weighs)
TEST_ON_TWO(weighs)

static void lasts(rf_strategy *strategy)
{
    rf_optimizer *optimizer;
    rf_model *loaded, *model = make_model(strategy, 1, &optimizer);
    rf_dataset *data = make_data(false);
    OK(rf_model_fit(model, &(rf_fit_params){ .data = data, .epochs = EPOCHS }, NULL));
    OK(rf_model_save(model, in_folder("model"), NULL));
    OK(rf_model_load(strategy, in_folder("model"), &loaded));
    check_evaluation(loaded, data);
    rf_model_destroy(&loaded);
    rf_model_destroy(&model);
    rf_optimizer_destroy(&optimizer);
    rf_dataset_destroy(&data);
}
TEST_ON_ONE(lasts)

static void refuses(rf_strategy *strategy)
{
    rf_optimizer *optimizer;
    rf_metric *metric;
    rf_model *model = make_model(strategy, 1, &optimizer);
    const rf_loss loss = { .kind = RF_LOSS_CATEGORICAL_CROSSENTROPY, .ignore_class = &ignored };
    FAILS(rf_model_compile(model, &(rf_compile_params){ .optimizer = optimizer, .loss = loss }),
          RF_ERROR_INVALID_ARGUMENT, "loss.ignore_class is for the sparse crossentropy");
    const rf_metric_params recall = { .kind = RF_METRIC_RECALL, .ignore_class = &ignored };
    FAILS(rf_metric_create(strategy, &recall, &metric), RF_ERROR_INVALID_ARGUMENT, "ignore_class is for accuracy");
    rf_model_destroy(&model);
    rf_optimizer_destroy(&optimizer);
}
TEST_ON_ONE(refuses)

TESTS(ignored, make_folder, remove_folder)
