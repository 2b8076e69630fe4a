/* SPDX-License-Identifier: Apache-2.0 */
/* Sample weights in fit and evaluate: losses divided by the examples or by the weights, and weighted metrics, against
 * the same training written out in double precision, on one replica and on two; files, and mistakes. */
#include "../support/log_value.h"
#include "../support/strategies.h"
#include "test_folder.h"
#include "tests/room.h"

enum { N = 21, C = 3, BATCH = 8, EPOCHS = 4 };
#define RATE 0.1

typedef struct examples {
    float x[N * C], y[N], weight[N];
} examples;

/* The halves of a batch, which two replicas get, have very different weights. Those of the last batch are all 0. */
static void make_examples(examples *e)
{
    fill_noise(e->x, N * C, 3);
    fill_noise(e->y, N, 4);
    for (int i = 0; i < N; i++) e->weight[i] = i >= 2 * BATCH ? 0.0f : i % BATCH < BATCH / 2 ? 0.25f : 1.0f + (float)i;
}

static rf_dataset *make_dataset(examples *e, bool weights)
{
    const rf_array arrays[] = { array_f32(RF_SHAPE(N, C), e->x), array_f32(RF_SHAPE(N, 1), e->y),
                                array_f32(RF_SHAPE(N), e->weight) };
    rf_dataset *slices, *data;
    OK(rf_dataset_from_arrays(&(rf_dataset_arrays_params){ .arrays = arrays, .num_arrays = weights ? 3 : 2 }, &slices));
    OK(rf_dataset_batch(slices, BATCH, RF_REMAINDER_KEEP, &data));
    rf_dataset_destroy(&slices);
    return data;
}

/* ---- the same in double precision ---- */

typedef struct course {
    double w[C], losses[EPOCHS]; /* of epochs */
    double loss, error, weighted_error, share;
} course;

static double error_of(const examples *e, const double *w, int i)
{
    double error = -(double)e->y[i];
    for (int c = 0; c < C; c++) error += (double)e->x[i * C + c] * w[c];
    return error;
}

/* The loss of a batch, and its gradient. */
static double batch_loss(const examples *e, const double *w, int first, bool by_weight, bool weights, double *gradient)
{
    const int last = first + BATCH < N ? first + BATCH : N;
    double sum = 0, total = 0;
    for (int i = first; i < last; i++) total += (double)e->weight[i];
    const double divisor = by_weight && weights ? total : last - first;
    for (int c = 0; c < C; c++) gradient[c] = 0;
    for (int i = first; i < last && divisor > 0; i++) {
        const double error = error_of(e, w, i), weight = weights ? (double)e->weight[i] : 1;
        sum += weight * error * error / divisor;
        for (int c = 0; c < C; c++) gradient[c] += 2 * weight * error * (double)e->x[i * C + c] / divisor;
    }
    return sum;
}

static double pass(const examples *e, double *w, bool by_weight, bool weights, double rate)
{
    double loss = 0, gradient[C];
    for (int first = 0; first < N; first += BATCH) {
        const int count = first + BATCH < N ? BATCH : N - first;
        loss += batch_loss(e, w, first, by_weight, weights, gradient) * count / N;
        for (int c = 0; c < C; c++) w[c] -= rate * gradient[c];
    }
    return loss;
}

static void follow(const examples *e, bool by_weight, bool weights, course *out)
{
    double total = 0;
    for (int i = 0; i < EPOCHS; i++) out->losses[i] = pass(e, out->w, by_weight, weights, RATE);
    out->loss = pass(e, out->w, by_weight, weights, 0);
    for (int i = 0; i < N; i++) total += (double)e->weight[i];
    for (int i = 0; i < N; i++) {
        const double error = fabs(error_of(e, out->w, i)), weight = (double)e->weight[i];
        out->error += error / N;
        out->weighted_error += weights ? error * weight / total : error / N;
        out->share += (error < 0.5) * (weights ? weight / total : 1.0 / N);
    }
}

/* ---- with the library ---- */

/* A metric of the caller: whether the error is small. */
static rf_tensor is_close(rf_trace *t, rf_tensor labels, rf_tensor predictions, void *user)
{
    (void)user;
    const rf_tensor error = rf_abs(t, rf_subtract(t, predictions, labels));
    return rf_reshape(t, rf_compare(t, RF_LESS, error, rf_constant(t, 0.5f)), RF_SHAPE(-1));
}

static rf_model *make_model(rf_strategy *strategy, const double *w, bool by_weight, rf_optimizer **optimizer)
{
    static const rf_output_metric metrics[] = {
        { .metric = { .kind = RF_METRIC_MEAN_ABSOLUTE_ERROR } },
        { .metric = { .kind = RF_METRIC_MEAN_ABSOLUTE_ERROR, .name = "weighted" }, .weighted = true },
        { .metric = { .name = "close" }, .fn = is_close, .weighted = true },
    };
    const rf_optimizer_params sgd = { .kind = RF_OPTIMIZER_SGD, .learning_rate = RATE };
    rf_layer *layer;
    rf_model *model;
    float kernel[C];
    for (int c = 0; c < C; c++) kernel[c] = (float)w[c];
    OK(rf_layer_dense(&(rf_dense_params){ .units = 1, .no_bias = true }, &layer));
    OK(rf_model_create_sequential(strategy, &layer, 1, &RF_SHAPE(C), &model));
    OK(rf_variable_assign(rf_model_variables(model).items[0], kernel));
    OK(rf_optimizer_create(strategy, &sgd, optimizer));
    const rf_compile_params p = {
        .optimizer = *optimizer,
        .loss = { .kind = RF_LOSS_MEAN_SQUARED_ERROR,
                  .reduction = by_weight ? RF_REDUCTION_MEAN_WITH_SAMPLE_WEIGHT : RF_REDUCTION_AUTO },
        .output_metrics = metrics,
        .num_output_metrics = 3,
    };
    OK(rf_model_compile(model, &p));
    return model;
}

static void check_logs(const rf_logs *logs, const course *c)
{
    assert_near(log_value(logs, "loss"), c->loss, 1e-5, 1e-7, "loss");
    assert_near(log_value(logs, "mean_absolute_error"), c->error, 1e-5, 1e-7, "error");
    assert_near(log_value(logs, "weighted"), c->weighted_error, 1e-5, 1e-7, "weighted error");
    assert_near(log_value(logs, "close"), c->share, 1e-5, 1e-7, "share of small errors");
}

static void train(rf_strategy *strategy, bool by_weight, bool weights)
{
    examples e;
    course c = { .w = { 0.5, -0.25, 1 } };
    rf_optimizer *optimizer;
    rf_history history;
    rf_logs logs;
    float kernel[C];
    make_examples(&e);
    rf_model *model = make_model(strategy, c.w, by_weight, &optimizer);
    rf_dataset *data = make_dataset(&e, weights);
    follow(&e, by_weight, weights, &c);
    OK(rf_model_fit(model, &(rf_fit_params){ .data = data, .epochs = EPOCHS }, &history));
    assert_int_equal(history.num_epochs, EPOCHS);
    for (int i = 0; i < EPOCHS; i++)
        assert_near(log_value(&history.epochs[i], "loss"), c.losses[i], 1e-5, 1e-7, "loss of an epoch");
    OK(rf_variable_read(rf_model_variables(model).items[0], kernel));
    for (int i = 0; i < C; i++) assert_near(kernel[i], c.w[i], 1e-5, 1e-6, "kernel");
    OK(rf_model_evaluate(model, data, &logs));
    check_logs(&logs, &c);
    OK(rf_strategy_check_identical(strategy, NULL, NULL));
    rf_history_free(&history);
    rf_model_destroy(&model);
    rf_optimizer_destroy(&optimizer);
    rf_dataset_destroy(&data);
}

static void fits(rf_strategy *strategy)
{
    train(strategy, false, true);
    train(strategy, true, true);
    train(strategy, true, false); /* divides by the examples, then */
}
TEST_ON_ONE(fits)
TEST_ON_TWO(fits)

/* ---- weights of classes: those of samples, given by hand ---- */

static const double class_weights[] = { 0.25, 3 }; /* class 2 has none */

typedef struct class_case {
    rf_loss_kind loss;
    rf_dtype labels; /* f32: one-hot */
    int32_t rank;
    bool weighted; /* the samples, too */
} class_case;

static rf_dataset *classes_of(const class_case *k, bool by_hand)
{
    examples e;
    int32_t numbers[N];
    uint8_t bytes[N];
    float one_hot[N * C] = { 0 };
    make_examples(&e);
    for (int i = 0; i < N; i++) {
        const int class = (i * 5) % C;
        const float own = k->weighted ? e.weight[i] : 1;
        numbers[i] = class;
        bytes[i] = (uint8_t) class;
        one_hot[i * C + class] = 1;
        e.weight[i] = by_hand ? own * (class < 2 ? (float)class_weights[class] : 1) : own;
    }
    void *labels = k->labels == RF_F32 ? (void *)one_hot : k->labels == RF_U8 ? (void *)bytes : (void *)numbers;
    const rf_shape shape = k->rank == 1 ? RF_SHAPE(N) : RF_SHAPE(N, k->labels == RF_F32 ? C : 1);
    const rf_array arrays[] = { array_f32(RF_SHAPE(N, C), e.x),
                                { k->labels, shape, labels },
                                array_f32(RF_SHAPE(N), e.weight) };
    rf_dataset *slices, *batches, *data;
    OK(rf_dataset_from_arrays(
        &(rf_dataset_arrays_params){ .arrays = arrays, .num_arrays = by_hand || k->weighted ? 3 : 2 }, &slices));
    OK(rf_dataset_batch(slices, BATCH, RF_REMAINDER_KEEP, &batches));
    OK(rf_dataset_prefetch(batches, 1, &data));
    rf_dataset_destroy(&slices);
    rf_dataset_destroy(&batches);
    return data;
}

/* The kernel after it, then losses and weighted accuracies. */
enum { RESULTS = C * C + 2 * EPOCHS };
static void train_classes(rf_strategy *strategy, const class_case *k, bool by_hand, uint32_t num,
                          double results[RESULTS])
{
    const rf_output_metric metric = { .metric = { .kind = k->labels == RF_F32 ? RF_METRIC_CATEGORICAL_ACCURACY
                                                                              : RF_METRIC_SPARSE_CATEGORICAL_ACCURACY },
                                      .weighted = true };
    rf_layer *layer;
    rf_model *model;
    rf_optimizer *optimizer;
    rf_history history;
    float kernel[C * C];
    fill_noise(kernel, C * C, 7);
    OK(rf_layer_dense(&(rf_dense_params){ .units = C, .no_bias = true }, &layer));
    OK(rf_model_create_sequential(strategy, &layer, 1, &RF_SHAPE(C), &model));
    OK(rf_variable_assign(rf_model_variables(model).items[0], kernel));
    OK(rf_optimizer_create(strategy, &(rf_optimizer_params){ .kind = RF_OPTIMIZER_SGD, .learning_rate = RATE },
                           &optimizer));
    OK(rf_model_compile(model, &(rf_compile_params){ .optimizer = optimizer,
                                                     .loss = { .kind = k->loss, .from_logits = true },
                                                     .output_metrics = &metric,
                                                     .num_output_metrics = 1 }));
    rf_dataset *data = classes_of(k, by_hand);
    OK(rf_model_fit(
        model,
        &(rf_fit_params){
            .data = data, .epochs = EPOCHS, .class_weights = num ? class_weights : NULL, .num_class_weights = num },
        &history));
    OK(rf_variable_read(rf_model_variables(model).items[0], kernel));
    for (int i = 0; i < C * C; i++) results[i] = (double)kernel[i];
    for (int i = 0; i < EPOCHS; i++)
        for (int v = 0; v < 2; v++) results[C * C + 2 * i + v] = history.epochs[i].value[v];
    rf_history_free(&history);
    rf_model_destroy(&model);
    rf_optimizer_destroy(&optimizer);
    rf_dataset_destroy(&data);
}

static void classes_weigh(rf_strategy *strategy)
{
    static const class_case cases[] = {
        { RF_LOSS_SPARSE_CATEGORICAL_CROSSENTROPY, RF_I32, 1, false },
        { RF_LOSS_SPARSE_CATEGORICAL_CROSSENTROPY, RF_U8, 2, true },
        { RF_LOSS_CATEGORICAL_CROSSENTROPY, RF_F32, 2, false },
        { RF_LOSS_CATEGORICAL_CROSSENTROPY, RF_F32, 2, true },
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        double is[RESULTS], wanted[RESULTS], plain[RESULTS];
        train_classes(strategy, &cases[i], false, 2, is);
        train_classes(strategy, &cases[i], true, 0, wanted);
        train_classes(strategy, &cases[i], false, 0, plain);
        for (int v = 0; v < RESULTS; v++)
            if (is[v] != wanted[v]) fail_msg("case %zu: value %d is %.9g, not %.9g", i, v, is[v], wanted[v]);
        assert_true(memcmp(is, plain, sizeof(is)) != 0);
    }
}
TEST_ON_ONE(classes_weigh)
TEST_ON_TWO(classes_weigh)

static void refuses_class_weights(rf_strategy *strategy)
{
    const double w[C] = { 0.5, -0.25, 1 }, wrong[] = { 1, NAN };
    examples e;
    rf_optimizer *optimizer;
    make_examples(&e);
    rf_model *model = make_model(strategy, w, true, &optimizer);
    rf_dataset *data = make_dataset(&e, true);
    rf_fit_params params = { .data = data, .num_class_weights = 2 };
    FAILS(rf_model_fit(model, &params, NULL), RF_ERROR_INVALID_ARGUMENT, "class_weights is NULL");
    params.class_weights = wrong;
    FAILS(rf_model_fit(model, &params, NULL), RF_ERROR_INVALID_ARGUMENT, "class_weights[1] is not finite");
    params.device_cache = RF_DEVICE_CACHE_ON;
    params.class_weights = class_weights;
    FAILS(rf_model_fit(model, &params, NULL), RF_ERROR_INVALID_ARGUMENT, "device_cache cannot be ON");
    rf_model_destroy(&model);
    rf_optimizer_destroy(&optimizer);
    rf_dataset_destroy(&data);
}
TEST_ON_ONE(refuses_class_weights)

/* ---- files ---- */

static void lasts(rf_strategy *strategy)
{
    examples e;
    const double w[C] = { 0.5, -0.25, 1 };
    rf_optimizer *optimizer;
    rf_model *loaded;
    rf_logs was, is;
    make_examples(&e);
    rf_model *model = make_model(strategy, w, true, &optimizer);
    const rf_output_metric weighted[] = { { .metric = { .kind = RF_METRIC_MEAN_ABSOLUTE_ERROR }, .weighted = true } };
    const rf_compile_params p = {
        .optimizer = optimizer,
        .loss = { .kind = RF_LOSS_HUBER, .reduction = RF_REDUCTION_MEAN_WITH_SAMPLE_WEIGHT },
        .output_metrics = weighted,
        .num_output_metrics = 1,
    };
    OK(rf_model_compile(model, &p));
    rf_dataset *data = make_dataset(&e, true);
    OK(rf_model_evaluate(model, data, &was));
    OK(rf_model_save(model, in_folder("model"), NULL));
    OK(rf_model_load(strategy, in_folder("model"), &loaded));
    OK(rf_model_evaluate(loaded, data, &is));
    assert_int_equal(is.count, was.count);
    for (uint32_t i = 0; i < was.count; i++) {
        assert_string_equal(is.name[i], was.name[i]);
        assert_true(is.value[i] == was.value[i]);
    }
    rf_model_destroy(&loaded);
    rf_model_destroy(&model);
    rf_optimizer_destroy(&optimizer);
    rf_dataset_destroy(&data);
}
TEST_ON_TWO(lasts)

/* ---- mistakes ---- */

static rf_result custom_step(rf_trace *t, const rf_tensor *in, rf_tensor *out, void *user)
{
    (void)user;
    const rf_loss loss = { .kind = RF_LOSS_MEAN_SQUARED_ERROR, .reduction = RF_REDUCTION_MEAN_WITH_SAMPLE_WEIGHT };
    out[0] = rf_loss_call(t, &loss, in[0], in[0]);
    return rf_trace_status(t);
}

static void refuses(rf_strategy *strategy)
{
    float x[2 * C] = { 0 };
    rf_function *f;
    OK(rf_function_create(strategy, &(rf_function_params){ .step = custom_step, .num_outputs = 1 }, &f));
    const rf_element batch = { .num_components = 1, .component = { array_f32(RF_SHAPE(2, C), x) } };
    FAILS(rf_strategy_run(strategy, f, &batch, NULL), RF_ERROR_INVALID_ARGUMENT,
          "MEAN_WITH_SAMPLE_WEIGHT is refused in a custom step");
    rf_function_destroy(&f);
}
TEST_ON_ONE(refuses)

TESTS(weighted_fit, make_folder, remove_folder)
