/* SPDX-License-Identifier: Apache-2.0 */
/* Losses that are composed of other operations, with their gradients, and metrics, against double precision; mistakes;
 * a classifier of two classes through fit and a file. */
#include "../support/strategies.h"
#include "test_folder.h"
#include "tests/room.h"

enum { N = 6, C = 3, ELEMENTS = N * C };

typedef struct inputs {
    float labels[ELEMENTS], logits[ELEMENTS], weights[N];
    int32_t classes[N];
    rf_element batch;
} inputs;

/* A logit of 0, where the branches of the formulas meet, one that is large, and labels between 0 and 1. */
static void fill_inputs(inputs *in)
{
    fill_noise(in->logits, ELEMENTS, 21);
    for (int i = 0; i < ELEMENTS; i++) {
        in->logits[i] *= 3;
        in->labels[i] = (float)(i * 7 % 3) / 2;
    }
    in->logits[4] = 0;
    in->logits[8] = -40;
    for (int i = 0; i < N; i++) {
        in->weights[i] = (float)(i % 4) / 2;
        in->classes[i] = i % C;
    }
    in->batch = (rf_element){ 4,
                              { array_f32(RF_SHAPE(N, C), in->labels), array_f32(RF_SHAPE(N, C), in->logits),
                                array_f32(RF_SHAPE(N), in->weights), array_i32(RF_SHAPE(N), in->classes) } };
}

/* ---- losses ---- */

static double limit(double x, double low, double high)
{
    return x < low ? low : x > high ? high : x;
}

static double sigmoid(double x)
{
    return 1 / (1 + exp(-x));
}

/* The numbers that the loss reads of the logits z: themselves, which stand behind probabilities of a crossentropy, or
 * these. */
static double predict(const rf_loss *loss, double z)
{
    return loss->kind == RF_LOSS_KL_DIVERGENCE ? sigmoid(z) : z;
}

static double row_loss(const rf_loss *loss, const float *labels, const double *z)
{
    double sum = 0, total = 0;
    for (int c = 0; c < C; c++) total += exp(z[c]);
    for (int c = 0; c < C; c++) {
        const double s = (double)loss->label_smoothing, p = predict(loss, z[c]), e = fabs(p - (double)labels[c]);
        double y = (double)labels[c];
        const double delta = loss->delta > 0 ? (double)loss->delta : 1;
        switch (loss->kind) {
        case RF_LOSS_BINARY_CROSSENTROPY:
            y = y * (1 - s) + s / 2;
            sum += (fmax(p, 0) - p * y + log1p(exp(-fabs(p)))) / C;
            break;
        case RF_LOSS_CATEGORICAL_CROSSENTROPY: sum += (y * (1 - s) + s / C) * (log(total) - z[c]); break;
        case RF_LOSS_MEAN_ABSOLUTE_ERROR: sum += e / C; break;
        case RF_LOSS_HUBER: sum += (e <= delta ? e * e / 2 : delta * e - delta * delta / 2) / C; break;
        case RF_LOSS_KL_DIVERGENCE:
            y = limit(y, 1e-7, 1);
            sum += y * log(y / limit(p, 1e-7, 1));
            break;
        default: fail();
        }
    }
    return sum;
}

static const rf_loss losses[] = {
    { .kind = RF_LOSS_BINARY_CROSSENTROPY, .from_logits = true },
    { .kind = RF_LOSS_BINARY_CROSSENTROPY, .from_logits = true, .label_smoothing = 0.2f },
    { .kind = RF_LOSS_BINARY_CROSSENTROPY },
    { .kind = RF_LOSS_CATEGORICAL_CROSSENTROPY, .from_logits = true, .label_smoothing = 0.1f },
    { .kind = RF_LOSS_MEAN_ABSOLUTE_ERROR },
    { .kind = RF_LOSS_HUBER },
    { .kind = RF_LOSS_HUBER, .delta = 0.25f },
    { .kind = RF_LOSS_KL_DIVERGENCE },
};
enum { NUM_LOSSES = sizeof(losses) / sizeof(losses[0]) };

/* The weighted average, and its gradient by the logits times (1, 2, ... by column). */
static rf_result loss_step(rf_trace *t, const rf_tensor *in, rf_tensor *out, void *user)
{
    rf_loss loss = *(const rf_loss *)user;
    static float by_column[C] = { 1, 2, 3 };
    const rf_tensor columns = rf_constant_array(t, &(rf_array){ RF_F32, RF_SHAPE(C), by_column });
    const bool raw = loss.from_logits || loss.kind == RF_LOSS_MEAN_ABSOLUTE_ERROR || loss.kind == RF_LOSS_HUBER;
    loss.reduction = RF_REDUCTION_NONE;
    const rf_tensor of_examples = rf_loss_call(t, &loss, in[0], raw ? in[1] : rf_sigmoid(t, in[1]));
    out[0] = rf_compute_average_loss(t, of_examples, &(rf_average_loss_params){ .sample_weight = in[2] });
    rf_tensor gradient;
    const rf_result r = rf_gradients(t, out[0], &in[1], 1, &gradient);
    if (r < 0) return r;
    out[1] = rf_reduce_sum(t, rf_multiply(t, gradient, columns), NULL, 0, RF_DROP_DIMS);
    return rf_trace_status(t);
}

static double average(const inputs *in, const rf_loss *loss, double step)
{
    double sum = 0;
    for (int i = 0; i < N; i++) {
        double z[C];
        for (int c = 0; c < C; c++) z[c] = (double)in->logits[i * C + c] + step * (c + 1);
        sum += (double)in->weights[i] * row_loss(loss, &in->labels[i * C], z) / N;
    }
    return sum;
}

static void loss_values(rf_strategy *strategy)
{
    inputs in;
    fill_inputs(&in);
    for (int i = 0; i < NUM_LOSSES; i++) {
        float is[2];
        char what[32];
        rf_function *function;
        snprintf(what, sizeof(what), "losses[%d]", i);
        OK(rf_function_create(strategy,
                              &(rf_function_params){ .step = loss_step, .user = (void *)&losses[i], .num_outputs = 2 },
                              &function));
        run_once(strategy, function, &in.batch, is, 2);
        assert_near(is[0], average(&in, &losses[i], 0), 2e-5, 1e-6, what);
        const double h = 1e-6, slope = (average(&in, &losses[i], h) - average(&in, &losses[i], -h)) / (2 * h);
        assert_near(is[1], slope, 1e-4, 1e-5, what);
        rf_function_destroy(&function);
    }
}

/* ---- losses divided by the sum of their weights ---- */

enum { T = 2 };

/* Squared errors [n, T] of the first columns, with weights of examples; the gradient by the first column. */
static rf_result masked_step(rf_trace *t, const rf_tensor *in, rf_tensor *out, void *user)
{
    (void)user;
    rf_tensor gradient;
    const rf_tensor all = rf_square(t, rf_subtract(t, in[0], in[1]));
    const rf_tensor errors = rf_slice(t, all, (int64_t[]){ 0, 0 }, (int64_t[]){ INT64_MAX, T }, NULL, 2);
    out[0] = rf_compute_weighted_loss(t, errors, in[2]);
    const rf_result r = rf_gradients(t, out[0], &in[1], 1, &gradient);
    if (r < 0) return r;
    out[1] = rf_reduce_sum(t, gradient, NULL, 0, RF_DROP_DIMS);
    return rf_trace_status(t);
}

static void masked_values(rf_strategy *strategy)
{
    inputs in;
    rf_function *function;
    fill_inputs(&in);
    OK(rf_function_create(strategy, &(rf_function_params){ .step = masked_step, .num_outputs = 2 }, &function));
    for (int empty = 0; empty < 2; empty++) {
        double loss = 0, slope = 0, weight = 0;
        float is[2];
        for (int i = 0; i < N; i++) {
            if (empty) in.weights[i] = 0;
            for (int c = 0; c < T; c++) {
                const double e = (double)in.logits[i * C + c] - (double)in.labels[i * C + c], w = (double)in.weights[i];
                loss += w * e * e;
                slope += w * 2 * e;
                weight += w;
            }
        }
        run_once(strategy, function, &in.batch, is, 2);
        assert_near(is[0], empty ? 0 : loss / weight, 1e-5, 0, "loss");
        assert_near(is[1], empty ? 0 : slope / weight, 1e-5, 1e-6, "gradient");
    }
    rf_function_destroy(&function);
}

static rf_result bad_step(rf_trace *t, const rf_tensor *in, rf_tensor *out, void *user)
{
    rf_loss loss = *(const rf_loss *)user;
    if (loss.reduction == RF_REDUCTION_AUTO) loss.reduction = RF_REDUCTION_NONE;
    out[0] = rf_loss_call(t, &loss, loss.reduction == RF_REDUCTION_SUM ? in[2] : in[0], in[1]);
    return rf_trace_status(t);
}

static void refused_losses(rf_strategy *strategy)
{
    static const struct {
        rf_loss loss;
        const char *part;
    } cases[] = {
        { { .kind = RF_LOSS_HUBER, .from_logits = true }, "from_logits has a meaning for crossentropies only" },
        { { .kind = RF_LOSS_HUBER, .delta = -1 }, "loss.delta -1 must be finite and not negative" },
        { { .kind = RF_LOSS_MEAN_ABSOLUTE_ERROR, .delta = 1 }, "loss.delta is for Huber's loss" },
        { { .kind = RF_LOSS_BINARY_CROSSENTROPY, .label_smoothing = 1 }, "loss.label_smoothing 1 is not in [0, 1)" },
        { { .label_smoothing = 0.1f }, "loss.label_smoothing is for the categorical and the binary" },
        { { .kind = RF_LOSS_MEAN_ABSOLUTE_ERROR, .reduction = RF_REDUCTION_SUM },
          "rf_loss_call: labels [6] and predictions [6,3] must have one shape" },
        { { .kind = RF_LOSS_KL_DIVERGENCE, .reduction = RF_REDUCTION_SUM }, "rf_loss_call: labels [6]" },
    };
    inputs in;
    fill_inputs(&in);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        rf_function *function;
        OK(rf_function_create(
            strategy, &(rf_function_params){ .step = bad_step, .user = (void *)&cases[i].loss, .num_outputs = 1 },
            &function));
        FAILS(rf_strategy_run(strategy, function, &in.batch, NULL), RF_ERROR_INVALID_ARGUMENT, cases[i].part);
        rf_function_destroy(&function);
    }
}

/* ---- metrics ---- */

static const rf_metric_params metrics[] = {
    { .kind = RF_METRIC_BINARY_ACCURACY, .from_logits = true },
    { .kind = RF_METRIC_PRECISION, .threshold = 0.25f },
    { .kind = RF_METRIC_RECALL, .from_logits = true, .threshold = 0.75f },
    { .kind = RF_METRIC_SPARSE_TOP_K_CATEGORICAL_ACCURACY, .k = 2 },
    { .kind = RF_METRIC_TOP_K_CATEGORICAL_ACCURACY, .k = 1, .name = "first" },
    { .kind = RF_METRIC_MEAN_SQUARED_ERROR },
    { .kind = RF_METRIC_MEAN_ABSOLUTE_ERROR },
    { .kind = RF_METRIC_SPARSE_TOP_K_CATEGORICAL_ACCURACY }, /* 5 of 3 */
};
enum { NUM_METRICS = sizeof(metrics) / sizeof(metrics[0]) };

typedef struct meters {
    rf_metric *items[NUM_METRICS];
    bool weighted;
} meters;

static bool of_classes(rf_metric_kind kind)
{
    return kind == RF_METRIC_SPARSE_TOP_K_CATEGORICAL_ACCURACY;
}

/* Labels of 0 and 1 for those that want them. */
static rf_result metric_step(rf_trace *t, const rf_tensor *in, rf_tensor *out, void *user)
{
    const meters *m = user;
    (void)out;
    const rf_tensor none = { 0 }, ones = rf_compare(t, RF_GREATER, in[0], rf_constant(t, 0.25f));
    for (int i = 0; i < NUM_METRICS; i++)
        (void)rf_metric_update(t, m->items[i], of_classes(metrics[i].kind) ? in[3] : ones, in[1],
                               m->weighted ? in[2] : none);
    return rf_trace_status(t);
}

static int largest(const float *x)
{
    int best = 0;
    for (int c = 1; c < C; c++) best = x[c] > x[best] ? c : best;
    return best;
}

/* Total and weight of one example. */
static void measure(const inputs *in, const rf_metric_params *p, int i, double w, double *total, double *weight)
{
    const float *z = &in->logits[i * C];
    float y[C];
    for (int c = 0; c < C; c++) y[c] = in->labels[i * C + c] > 0.25f;
    const double threshold = p->threshold > 0 ? (double)p->threshold : 0.5;
    const double border = p->from_logits ? log(threshold / (1 - threshold)) : threshold;
    if (of_classes(p->kind) || p->kind == RF_METRIC_TOP_K_CATEGORICAL_ACCURACY) {
        const int label = of_classes(p->kind) ? in->classes[i] : largest(y);
        int above = 0;
        for (int c = 0; c < C; c++) above += z[c] > z[label];
        *total += w * (above < (p->k ? (int)p->k : 5));
        *weight += w;
        return;
    }
    for (int c = 0; c < C; c++) {
        const double d = (double)z[c] - (double)y[c];
        const bool positive = (double)z[c] > border, is = y[c] > 0;
        switch (p->kind) {
        case RF_METRIC_BINARY_ACCURACY: *total += w * (positive == is); break;
        case RF_METRIC_PRECISION:
        case RF_METRIC_RECALL: *total += w * (positive && is); break;
        case RF_METRIC_MEAN_SQUARED_ERROR: *total += w * d * d; break;
        default: *total += w * fabs(d); break;
        }
        *weight += p->kind == RF_METRIC_PRECISION ? w * positive : p->kind == RF_METRIC_RECALL ? w * is : w;
    }
}

static void metric_values(rf_strategy *strategy)
{
    inputs in;
    fill_inputs(&in);
    for (int weighted = 0; weighted < 2; weighted++) {
        meters m = { .weighted = weighted };
        rf_function *function;
        for (int i = 0; i < NUM_METRICS; i++) OK(rf_metric_create(strategy, &metrics[i], &m.items[i]));
        assert_string_equal(rf_metric_name(m.items[1]), "precision");
        assert_string_equal(rf_metric_name(m.items[4]), "first");
        OK(rf_function_create(strategy, &(rf_function_params){ .step = metric_step, .user = &m }, &function));
        for (int run = 0; run < 2; run++) run_once(strategy, function, &in.batch, NULL, 0);
        for (int i = 0; i < NUM_METRICS; i++) {
            double value, total = 0, weight = 0;
            for (int n = 0; n < N; n++)
                measure(&in, &metrics[i], n, weighted ? (double)in.weights[n] : 1, &total, &weight);
            OK(rf_metric_result(m.items[i], &value));
            assert_near(value, total / weight, 1e-5, 0, rf_metric_name(m.items[i]));
        }
        rf_function_destroy(&function);
        for (int i = 0; i < NUM_METRICS; i++) rf_metric_destroy(&m.items[i]);
    }
}

static void refused_metrics(rf_strategy *strategy)
{
    static const struct {
        rf_metric_params params;
        const char *part;
    } cases[] = {
        { { .kind = (rf_metric_kind)-1 }, "rf_metric_create: kind -1 does not exist" },
        { { .kind = RF_METRIC_RECALL, .threshold = 1 }, "threshold 1 is not in [0, 1)" },
        { { .kind = RF_METRIC_MEAN, .threshold = 0.5f }, "threshold is for binary accuracy" },
        { { .kind = RF_METRIC_MEAN_SQUARED_ERROR, .from_logits = true },
          "from_logits is for metrics of probabilities, not for mean_squared_error" },
        { { .kind = RF_METRIC_PRECISION, .k = 3 }, "k is for top-k accuracies" },
    };
    rf_metric *metric;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        FAILS(rf_metric_create(strategy, &cases[i].params, &metric), RF_ERROR_INVALID_ARGUMENT, cases[i].part);
    FAILS(rf_metric_create(strategy, NULL, &metric), RF_ERROR_INVALID_ARGUMENT, "params is NULL");
}

/* ---- fit and files ---- */

enum { POINTS = 40 };

static void two_classes(rf_strategy *strategy)
{
    static const rf_metric_kind kinds[] = { RF_METRIC_BINARY_ACCURACY, RF_METRIC_PRECISION,
                                            RF_METRIC_RECALL,          RF_METRIC_F1,
                                            RF_METRIC_AUC_ROC,         RF_METRIC_AUC_PR };
    float x[POINTS * 2];
    int32_t y[POINTS];
    rf_layer *layer;
    rf_model *model, *loaded;
    rf_optimizer *optimizer;
    rf_dataset *slices, *data;
    fill_noise(x, POINTS * 2, 9);
    for (int i = 0; i < POINTS; i++) y[i] = x[2 * i] > x[2 * i + 1];
    const rf_array arrays[2] = { array_f32(RF_SHAPE(POINTS, 2), x), array_i32(RF_SHAPE(POINTS), y) };
    OK(rf_dataset_from_arrays(&(rf_dataset_arrays_params){ .arrays = arrays, .num_arrays = 2 }, &slices));
    OK(rf_dataset_batch(slices, 8, RF_REMAINDER_KEEP, &data));
    OK(rf_layer_dense(&(rf_dense_params){ .units = 1, .activation = RF_ACTIVATION_SIGMOID }, &layer));
    OK(rf_model_create_sequential(strategy, &layer, 1, &RF_SHAPE(2), &model));
    const rf_parameter_group group = { .names = "*kernel", .rate_factor = 2 };
    OK(rf_optimizer_create(
        strategy,
        &(rf_optimizer_params){ .kind = RF_OPTIMIZER_NADAM, .learning_rate = 0.05, .groups = &group, .num_groups = 1 },
        &optimizer));
    const rf_compile_params params = { .optimizer = optimizer,
                                       .loss = { .kind = RF_LOSS_BINARY_CROSSENTROPY, .label_smoothing = 0.125f },
                                       .metrics = kinds,
                                       .num_metrics = 6 };
    OK(rf_model_compile(model, &params));
    OK(rf_model_fit(model, &(rf_fit_params){ .data = data, .epochs = 30 }, NULL));
    OK(rf_model_save(model, in_folder("model"), NULL));
    OK(rf_model_load(strategy, in_folder("model"), &loaded));
    rf_logs before = { 0 }, after = { 0 };
    OK(rf_model_evaluate(model, data, &before));
    OK(rf_model_evaluate(loaded, data, &after));
    static const char *const names[] = { "loss", "accuracy", "precision", "recall", "f1_score", "auc", "auc_pr" };
    for (int i = 0; i < 7; i++) {
        double a = NAN, b = NAN;
        assert_true(rf_logs_get(&before, names[i], &a) && rf_logs_get(&after, names[i], &b));
        assert_near(b, a, 1e-6, 1e-6, names[i]);
        if (i >= 1 && a < 0.85) fail_msg("%s is %g", names[i], a);
    }
    /* Smoothing and groups have come along: further training is the same. */
    OK(rf_model_fit(model, &(rf_fit_params){ .data = data, .epochs = 1 }, NULL));
    OK(rf_model_fit(loaded, &(rf_fit_params){ .data = data, .epochs = 1 }, NULL));
    float w[2], v[2];
    OK(rf_variable_read(rf_model_variables(model).items[0], w));
    OK(rf_variable_read(rf_model_variables(loaded).items[0], v));
    for (int i = 0; i < 2; i++) assert_near(v[i], w[i], 1e-6, 1e-6, "weights");
    rf_model_destroy(&loaded);
    rf_model_destroy(&model);
    rf_optimizer_destroy(&optimizer);
    rf_dataset_destroy(&data);
    rf_dataset_destroy(&slices);
}

TEST_ON_TWO(loss_values)
TEST_ON_ONE(refused_losses)
TEST_ON_TWO(masked_values)
TEST_ON_TWO(metric_values)
TEST_ON_ONE(refused_metrics)
TEST_ON_ONE(two_classes)

TESTS(measures, make_folder, remove_folder)
