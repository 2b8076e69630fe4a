/* SPDX-License-Identifier: Apache-2.0 */
/* Losses and their scaling to the global batch, regularisation, metrics; cumulative sums and products, and casts in a
 * step. */
#include "../support/strategies.h"
#include "tests/room.h"

enum { N = 5, C = 4 };

typedef struct app {
    rf_strategy *strategy;
    rf_loss loss;
    bool weighted;
    rf_metric *metrics[4];
    rf_model *model;
} app;

static const int32_t labels_data[N] = { 0, 3, 1, 2, 3 };
static const float weights_data[N] = { 1.0f, 0.5f, 0.0f, 2.0f, 3.0f };

typedef struct inputs {
    float logits[N * C], one_hot[N * C], weights[N];
    int32_t labels[N];
    rf_element batch; /* labels, one-hot labels, logits, weights */
} inputs;

static void fill_inputs(inputs *in)
{
    memset(in, 0, sizeof(*in));
    fill_noise(in->logits, N * C, 3);
    memcpy(in->labels, labels_data, sizeof(labels_data));
    memcpy(in->weights, weights_data, sizeof(weights_data));
    for (int i = 0; i < N; i++) in->one_hot[i * C + in->labels[i]] = 1.0f;
    in->batch = (rf_element){ 4,
                              { array_i32(RF_SHAPE(N), in->labels), array_f32(RF_SHAPE(N, C), in->one_hot),
                                array_f32(RF_SHAPE(N, C), in->logits), array_f32(RF_SHAPE(N), in->weights) } };
}

/* Crossentropy of example i. */
static double crossentropy(const inputs *in, int i)
{
    double sum = 0.0;
    for (int c = 0; c < C; c++) sum += exp((double)in->logits[i * C + c]);
    return log(sum) - (double)in->logits[i * C + in->labels[i]];
}

static double squared_error(const inputs *in, int i)
{
    double sum = 0.0;
    for (int c = 0; c < C; c++) {
        const double d = (double)in->one_hot[i * C + c] - (double)in->logits[i * C + c];
        sum += d * d / C;
    }
    return sum;
}

static void run_step(app *a, rf_step_fn step, uint32_t num_outputs, float *sums)
{
    inputs in;
    fill_inputs(&in);
    rf_function *function;
    OK(rf_function_create(a->strategy, &(rf_function_params){ .step = step, .user = a, .num_outputs = num_outputs },
                          &function));
    run_once(a->strategy, function, &in.batch, sums, num_outputs);
    rf_function_destroy(&function);
}

static void refuse_step(app *a, rf_step_fn step, const char *part)
{
    inputs in;
    fill_inputs(&in);
    rf_function *function;
    OK(rf_function_create(a->strategy, &(rf_function_params){ .step = step, .user = a, .num_outputs = 1 }, &function));
    FAILS(rf_strategy_run(a->strategy, function, &in.batch, NULL), RF_ERROR_INVALID_ARGUMENT, part);
    rf_function_destroy(&function);
}

/* ---- losses ---- */

static rf_tensor labels_for(const app *a, const rf_tensor *in)
{
    return a->loss.kind == RF_LOSS_SPARSE_CATEGORICAL_CROSSENTROPY ? in[0] : in[1];
}

static rf_tensor predictions_for(rf_trace *t, const app *a, const rf_tensor *in)
{
    const bool probabilities = a->loss.kind != RF_LOSS_MEAN_SQUARED_ERROR && !a->loss.from_logits;
    return probabilities ? rf_softmax(t, in[2]) : in[2];
}

enum { FIXED_BATCH = 8 };

/* Averages plain, weighted, over a fixed batch, both; the sum. */
static rf_result loss_step(rf_trace *t, const rf_tensor *in, rf_tensor *out, void *user)
{
    const app *a = user;
    rf_loss loss = a->loss;
    const rf_tensor labels = labels_for(a, in), predictions = predictions_for(t, a, in), none = { 0 };
    const rf_tensor losses = rf_loss_call(t, &loss, labels, predictions);
    for (int i = 0; i < 4; i++) {
        const rf_average_loss_params average = { .sample_weight = i & 1 ? in[3] : none,
                                                 .global_batch_size = i & 2 ? FIXED_BATCH : 0 };
        out[i] = rf_compute_average_loss(t, losses, &average);
    }
    loss.reduction = RF_REDUCTION_SUM;
    out[4] = rf_loss_call(t, &loss, labels, predictions);
    return rf_trace_status(t);
}

static void loss_values(rf_strategy *strategy)
{
    inputs in;
    fill_inputs(&in);
    for (int variant = 0; variant < 5; variant++) {
        app a = { .strategy = strategy };
        a.loss = (rf_loss){ .kind = (rf_loss_kind)(variant / 2),
                            .from_logits = variant & 1,
                            .reduction = RF_REDUCTION_NONE };
        double plain = 0.0, weighted = 0.0;
        for (int i = 0; i < N; i++) {
            const double loss =
                a.loss.kind == RF_LOSS_MEAN_SQUARED_ERROR ? squared_error(&in, i) : crossentropy(&in, i);
            plain += loss;
            weighted += loss * (double)weights_data[i];
        }
        const double expected[] = { plain / N, weighted / N, plain / FIXED_BATCH, weighted / FIXED_BATCH, plain };
        float is[5];
        run_step(&a, loss_step, 5, is);
        for (int i = 0; i < 5; i++) assert_near(is[i], expected[i], 1e-5, 0.0, "loss");
    }
}

/* Labels as datasets deliver them: [n, 1], and of other types. */
static rf_result label_forms_step(rf_trace *t, const rf_tensor *in, rf_tensor *out, void *user)
{
    (void)user;
    const rf_loss sparse = { .from_logits = true, .reduction = RF_REDUCTION_SUM };
    const rf_loss squared = { .kind = RF_LOSS_MEAN_SQUARED_ERROR, .reduction = RF_REDUCTION_SUM };
    const rf_tensor column = rf_reshape(t, in[0], RF_SHAPE(-1, 1));
    out[0] = rf_loss_call(t, &sparse, in[0], in[2]);
    out[1] = rf_loss_call(t, &sparse, column, in[2]);
    out[2] = rf_loss_call(t, &sparse, rf_cast(t, column, RF_F32), in[2]);
    out[3] = rf_loss_call(t, &squared, in[3], rf_cast(t, column, RF_F32));
    return rf_trace_status(t);
}

static void label_forms(rf_strategy *strategy)
{
    app a = { .strategy = strategy };
    float is[4];
    double squares = 0.0;
    for (int i = 0; i < N; i++) squares += pow((double)weights_data[i] - labels_data[i], 2.0);
    run_step(&a, label_forms_step, 4, is);
    assert_near(is[1], (double)is[0], 1e-6, 0.0, "[n, 1] labels");
    assert_near(is[2], (double)is[0], 1e-6, 0.0, "f32 labels");
    assert_near(is[3], squares, 1e-6, 0.0, "[n] targets for [n, 1] predictions");
}

static rf_result one_loss_step(rf_trace *t, const rf_tensor *in, rf_tensor *out, void *user)
{
    const app *a = user;
    out[0] = rf_loss_call(t, &a->loss, labels_for(a, in), predictions_for(t, a, in));
    return rf_trace_status(t);
}

static void refused_reductions(rf_strategy *strategy)
{
    app a = { .strategy = strategy, .loss = { .from_logits = true } };
    refuse_step(&a, one_loss_step, "AUTO is refused");
    assert_non_null(strstr(rf_error_message(), "rf_compute_average_loss()"));
    a.loss.reduction = RF_REDUCTION_SUM_OVER_BATCH_SIZE;
    refuse_step(&a, one_loss_step, "global batch");
    a.loss.reduction = (rf_reduction)17;
    refuse_step(&a, one_loss_step, "loss.reduction 17");
    a.loss = (rf_loss){ .kind = (rf_loss_kind)9, .reduction = RF_REDUCTION_NONE };
    refuse_step(&a, one_loss_step, "loss.kind 9");
    a.loss = (rf_loss){ .kind = RF_LOSS_MEAN_SQUARED_ERROR, .from_logits = true, .reduction = RF_REDUCTION_NONE };
    refuse_step(&a, one_loss_step, "loss.from_logits");
}

/* Losses of any rank: all elements are added up, weights of examples reach all elements of theirs. */
static rf_result rank_two_step(rf_trace *t, const rf_tensor *in, rf_tensor *out, void *user)
{
    (void)user;
    const rf_tensor losses = rf_square(t, in[2]);
    out[0] = rf_compute_average_loss(t, losses, NULL);
    out[1] = rf_compute_average_loss(t, losses, &(rf_average_loss_params){ .sample_weight = in[3] });
    out[2] = rf_compute_average_loss(t, rf_reduce_sum(t, losses, NULL, 0, RF_DROP_DIMS), NULL);
    return rf_trace_status(t);
}

static void losses_of_any_rank(rf_strategy *strategy)
{
    inputs in;
    fill_inputs(&in);
    app a = { .strategy = strategy };
    double plain = 0.0, weighted = 0.0;
    for (int i = 0; i < N * C; i++) {
        const double square = (double)in.logits[i] * (double)in.logits[i];
        plain += square / N;
        weighted += square * (double)weights_data[i / C] / N;
    }
    float is[3];
    run_step(&a, rank_two_step, 3, is);
    assert_near(is[0], plain, 1e-5, 0.0, "rank two");
    assert_near(is[1], weighted, 1e-5, 0.0, "rank two, weighted");
    assert_near(is[2], plain, 1e-5, 0.0, "scalar");
}

static rf_result bad_weight_step(rf_trace *t, const rf_tensor *in, rf_tensor *out, void *user)
{
    (void)user;
    const rf_tensor losses = rf_reduce_sum(t, in[2], (const int32_t[]){ 1 }, 1, RF_DROP_DIMS);
    out[0] = rf_compute_average_loss(t, losses, &(rf_average_loss_params){ .sample_weight = in[2] });
    return rf_trace_status(t);
}

static rf_result null_loss_step(rf_trace *t, const rf_tensor *in, rf_tensor *out, void *user)
{
    (void)user;
    out[0] = rf_loss_call(t, NULL, in[0], in[2]);
    return rf_trace_status(t);
}

static rf_result vector_scale_step(rf_trace *t, const rf_tensor *in, rf_tensor *out, void *user)
{
    (void)user;
    out[0] = rf_scale_regularization_loss(t, in[3]);
    return rf_trace_status(t);
}

static rf_result unset_step(rf_trace *t, const rf_tensor *in, rf_tensor *out, void *user)
{
    (void)user;
    (void)in;
    out[0] = rf_relu(t, rf_add(t, (rf_tensor){ 0 }, (rf_tensor){ 0 }));
    return rf_trace_status(t);
}

static void bad_arguments(rf_strategy *strategy)
{
    app a = { .strategy = strategy };
    refuse_step(&a, bad_weight_step, "sample_weight");
    refuse_step(&a, null_loss_step, "loss is NULL");
    refuse_step(&a, vector_scale_step, "rf_scale_regularization_loss: loss");
    refuse_step(&a, unset_step, "rf_add: a");
    FAILS(rf_metric_create(NULL, &(rf_metric_params){ .kind = RF_METRIC_MEAN }, &a.metrics[0]),
          RF_ERROR_INVALID_ARGUMENT, "strategy");
    FAILS(rf_metric_create(strategy, &(rf_metric_params){ .kind = (rf_metric_kind)(RF_METRIC_CONFUSION_MATRIX + 1) },
                           &a.metrics[0]),
          RF_ERROR_INVALID_ARGUMENT, "kind 18");
    double value;
    FAILS(rf_metric_result(NULL, &value), RF_ERROR_INVALID_ARGUMENT, "metric");
    FAILS(rf_metric_reset(NULL), RF_ERROR_INVALID_ARGUMENT, "metric");
    assert_int_equal(rf_add(NULL, (rf_tensor){ 0 }, (rf_tensor){ 0 }).id, 0);
    assert_non_null(strstr(rf_error_message(), "rf_add: a"));
    rf_metric_destroy(NULL);
}

/* ---- metrics ---- */

static rf_result metric_step(rf_trace *t, const rf_tensor *in, rf_tensor *out, void *user)
{
    const app *a = user;
    (void)out;
    const rf_tensor none = { 0 }, weight = a->weighted ? in[3] : none;
    (void)rf_metric_update(t, a->metrics[0], in[0], in[2], weight);
    (void)rf_metric_update(t, a->metrics[1], in[1], in[2], weight);
    (void)rf_metric_update(t, a->metrics[2], none, in[2], weight);
    (void)rf_metric_update(t, a->metrics[3], none, in[2], weight);
    return rf_trace_status(t);
}

static rf_result labelled_mean_step(rf_trace *t, const rf_tensor *in, rf_tensor *out, void *user)
{
    const app *a = user;
    (void)out;
    return rf_metric_update(t, a->metrics[2], in[0], in[2], (rf_tensor){ 0 });
}

static void check_metrics(const app *a, const inputs *in, double runs)
{
    double hits = 0.0, weight = 0.0, total = 0.0;
    for (int i = 0; i < N; i++) {
        const double w = a->weighted ? (double)weights_data[i] : 1.0;
        int best = 0;
        for (int c = 1; c < C; c++) best = in->logits[i * C + c] > in->logits[i * C + best] ? c : best;
        hits += best == in->labels[i] ? w : 0.0;
        weight += w;
        for (int c = 0; c < C; c++) total += w * (double)in->logits[i * C + c];
    }
    double value;
    for (int m = 0; m < 2; m++) {
        OK(rf_metric_result(a->metrics[m], &value));
        assert_near(value, hits / weight, 1e-6, 0.0, rf_metric_name(a->metrics[m]));
    }
    OK(rf_metric_result(a->metrics[2], &value));
    assert_near(value, total / (weight * C), 1e-5, 0.0, "mean");
    OK(rf_metric_result(a->metrics[3], &value));
    assert_near(value, total * runs, 1e-5, 0.0, "sum");
}

static void metrics(rf_strategy *strategy)
{
    static const rf_metric_kind kinds[] = { RF_METRIC_SPARSE_CATEGORICAL_ACCURACY, RF_METRIC_CATEGORICAL_ACCURACY,
                                            RF_METRIC_MEAN, RF_METRIC_SUM };
    inputs in;
    fill_inputs(&in);
    for (int weighted = 0; weighted < 2; weighted++) {
        app a = { .strategy = strategy, .weighted = weighted };
        for (int i = 0; i < 4; i++)
            OK(rf_metric_create(strategy, &(rf_metric_params){ .kind = kinds[i], .name = i == 3 ? "named" : NULL },
                                &a.metrics[i]));
        assert_string_equal(rf_metric_name(a.metrics[0]), "sparse_categorical_accuracy");
        assert_string_equal(rf_metric_name(a.metrics[3]), "named");
        double value = 1.0;
        OK(rf_metric_result(a.metrics[2], &value));
        assert_near(value, 0.0, 0.0, 0.0, "nothing accumulated");
        run_step(&a, metric_step, 0, NULL);
        check_metrics(&a, &in, 1.0);
        run_step(&a, metric_step, 0, NULL);
        check_metrics(&a, &in, 2.0);
        OK(rf_metric_reset(a.metrics[3]));
        OK(rf_metric_result(a.metrics[3], &value));
        assert_near(value, 0.0, 0.0, 0.0, "reset");
        refuse_step(&a, labelled_mean_step, "mean");
        for (int i = 0; i < 4; i++) rf_metric_destroy(&a.metrics[i]);
    }
}

/* ---- regularisation ---- */

static rf_result regularized_step(rf_trace *t, const rf_tensor *in, rf_tensor *out, void *user)
{
    app *a = user;
    (void)rf_model_call(t, a->model, in[2], RF_TRAINING);
    const rf_tensor penalty = rf_model_regularization_loss(t, a->model);
    out[0] = rf_scale_regularization_loss(t, penalty);
    const rf_variable_list variables = rf_model_variables(a->model);
    rf_tensor gradient;
    const rf_tensor kernel = rf_variable_tensor(t, variables.items[0]);
    const rf_result r = rf_gradients(t, out[0], &kernel, 1, &gradient);
    if (r < 0) return r;
    /* A number that depends on every element of the gradient. */
    out[1] = rf_reduce_sum(t, rf_multiply(t, gradient, kernel), NULL, 0, RF_DROP_DIMS);
    return rf_trace_status(t);
}

static void regularization(rf_strategy *strategy)
{
    enum { UNITS = 3 };
    const float l1 = 0.01f, l2 = 0.1f;
    rf_layer *layers[2];
    OK(rf_layer_dense(&(rf_dense_params){ .units = UNITS, .kernel_regularizer = { l1, l2 } }, &layers[0]));
    OK(rf_layer_dense(&(rf_dense_params){ .units = UNITS }, &layers[1]));
    app a = { .strategy = strategy };
    OK(rf_model_create_sequential(strategy, layers, 2, &RF_SHAPE(C), &a.model));
    float kernel[C * UNITS], is[2];
    OK(rf_variable_read(rf_model_variables(a.model).items[0], kernel));
    double penalty = 0.0, product = 0.0;
    for (int i = 0; i < C * UNITS; i++) {
        const double w = (double)kernel[i];
        penalty += (double)l1 * fabs(w) + (double)l2 * w * w;
        product += (double)l1 * fabs(w) + 2.0 * (double)l2 * w * w;
    }
    /* Parts of the replicas add up to the whole, once. */
    run_step(&a, regularized_step, 2, is);
    assert_near(is[0], penalty, 1e-5, 0.0, "penalty");
    assert_near(is[1], product, 1e-5, 0.0, "gradient of the penalty");
    rf_model_destroy(&a.model);
}

/* ---- cumulative sums: linear, so <gradient, x> is the loss again ---- */

static rf_result cumsum_step(rf_trace *t, const rf_tensor *in, rf_tensor *out, void *user)
{
    (void)user;
    for (int i = 0; i < 4; i++) {
        const rf_tensor sums = rf_cumsum(t, in[2], (rf_scan_form)i);
        out[i] = rf_reduce_sum(t, rf_multiply(t, sums, in[1]), NULL, 0, RF_DROP_DIMS);
        rf_tensor gradient;
        const rf_result r = rf_gradients(t, out[i], &in[2], 1, &gradient);
        if (r < 0) return r;
        out[4 + i] = rf_reduce_sum(t, rf_multiply(t, gradient, in[2]), NULL, 0, RF_DROP_DIMS);
    }
    return rf_trace_status(t);
}

static rf_result scalar_cumsum_step(rf_trace *t, const rf_tensor *in, rf_tensor *out, void *user)
{
    (void)user;
    (void)in;
    out[0] = rf_cumsum(t, rf_constant(t, 1.0f), RF_SCAN_INCLUSIVE);
    return rf_trace_status(t);
}

static void cumulative_sums(rf_strategy *strategy)
{
    inputs in;
    fill_inputs(&in);
    app a = { .strategy = strategy };
    float is[8];
    run_step(&a, cumsum_step, 8, is);
    for (int form = 0; form < 4; form++) {
        const bool exclusive = form & 1, reverse = form & 2;
        double expected = 0.0;
        for (int i = 0; i < N; i++) {
            for (int c = 0; c < C; c++) {
                const int at = in.labels[i]; /* the one sum that counts */
                const bool added = (reverse ? c >= at : c <= at) && !(exclusive && c == at);
                if (added) expected += (double)in.logits[i * C + c];
            }
        }
        assert_near(is[form], expected, 1e-5, 1e-5, "cumulative sum");
        assert_near(is[4 + form], expected, 1e-5, 1e-5, "gradient of a cumulative sum");
    }
    refuse_step(&a, scalar_cumsum_step, "cumsum: input 0 is a scalar");
}

/* ---- cumulative products, each row with a zero: its gradient is the product of the others ---- */

static rf_result cumprod_step(rf_trace *t, const rf_tensor *in, rf_tensor *out, void *user)
{
    (void)user;
    const rf_tensor x = rf_multiply(t, in[2], rf_subtract(t, rf_constant(t, 1.0f), in[1]));
    for (int i = 0; i < 4; i++) {
        out[i] = rf_reduce_sum(t, rf_cumprod(t, x, (rf_scan_form)i), NULL, 0, RF_DROP_DIMS);
        rf_tensor gradient;
        const rf_result r = rf_gradients(t, out[i], &x, 1, &gradient);
        if (r < 0) return r;
        out[4 + i] = rf_reduce_sum(t, rf_multiply(t, gradient, in[2]), NULL, 0, RF_DROP_DIMS);
    }
    return rf_trace_status(t);
}

/* Column `c` of the products of a row in the order of the scan, without the factor `left_out`. */
static double product_of(const inputs *in, int row, int c, bool exclusive, bool reverse, int left_out)
{
    double product = 1.0;
    for (int i = 0; i < C; i++) {
        const bool counts = (reverse ? i >= c : i <= c) && !(exclusive && i == c);
        if (counts && i != left_out) product *= i == in->labels[row] ? 0.0 : (double)in->logits[row * C + i];
    }
    return product;
}

static void cumulative_products(rf_strategy *strategy)
{
    inputs in;
    fill_inputs(&in);
    app a = { .strategy = strategy };
    float is[8];
    run_step(&a, cumprod_step, 8, is);
    for (int form = 0; form < 4; form++) {
        const bool exclusive = form & 1, reverse = form & 2;
        double products = 0.0, gradient = 0.0;
        for (int row = 0; row < N; row++)
            for (int c = 0; c < C; c++) {
                products += product_of(&in, row, c, exclusive, reverse, -1);
                for (int k = 0; k < C; k++) {
                    const bool is_factor = (reverse ? k >= c : k <= c) && !(exclusive && k == c);
                    if (is_factor)
                        gradient += (double)in.logits[row * C + k] * product_of(&in, row, c, exclusive, reverse, k);
                }
            }
        assert_near(is[form], products, 1e-5, 1e-5, "cumulative product");
        assert_near(is[4 + form], gradient, 1e-5, 1e-5, "gradient of a cumulative product");
    }
}

/* ---- slices: linear as well; every replica cuts its own examples ---- */

static rf_result slice_step(rf_trace *t, const rf_tensor *in, rf_tensor *out, void *user)
{
    (void)user;
    static const int64_t begin[] = { 0, -2 }, end[] = { INT64_MAX, INT64_MIN }, step[] = { 1, -2 };
    const rf_tensor y = rf_slice(t, in[2], begin, end, step, 2); /* x[:, -2::-2] */
    out[0] = rf_reduce_sum(t, rf_square(t, y), NULL, 0, RF_DROP_DIMS);
    rf_tensor gradient;
    const rf_result r = rf_gradients(t, out[0], &in[2], 1, &gradient);
    if (r < 0) return r;
    out[1] = rf_reduce_sum(t, rf_multiply(t, gradient, in[2]), NULL, 0, RF_DROP_DIMS);
    out[2] = rf_reduce_sum(t, rf_slice(t, in[2], NULL, NULL, NULL, 0), NULL, 0, RF_DROP_DIMS);
    return rf_trace_status(t);
}

static rf_result empty_slice_step(rf_trace *t, const rf_tensor *in, rf_tensor *out, void *user)
{
    (void)user;
    static const int64_t begin[] = { 0, 5 }, end[] = { 1, 5 };
    out[0] = rf_slice(t, in[2], begin, end, NULL, 2);
    return rf_trace_status(t);
}

static rf_result still_slice_step(rf_trace *t, const rf_tensor *in, rf_tensor *out, void *user)
{
    (void)user;
    static const int64_t zero = 0, one = 1;
    out[0] = rf_slice(t, in[2], &zero, &one, &zero, 1);
    return rf_trace_status(t);
}

static rf_result unnamed_slice_step(rf_trace *t, const rf_tensor *in, rf_tensor *out, void *user)
{
    (void)user;
    static const int64_t zero = 0;
    out[0] = rf_slice(t, in[2], &zero, NULL, NULL, 1);
    return rf_trace_status(t);
}

static void slices(rf_strategy *strategy)
{
    inputs in;
    fill_inputs(&in);
    app a = { .strategy = strategy };
    float is[3];
    run_step(&a, slice_step, 3, is);
    double squares = 0, all = 0;
    for (int i = 0; i < N; i++) {
        for (int c = 0; c < C; c++) {
            const double x = (double)in.logits[i * C + c];
            all += x;
            if (c <= C - 2 && (C - 2 - c) % 2 == 0) squares += x * x;
        }
    }
    assert_near(is[0], squares, 1e-5, 1e-5, "squares of a slice");
    assert_near(is[1], 2 * squares, 1e-5, 1e-5, "gradient of a slice");
    assert_near(is[2], all, 1e-5, 1e-4, "slice of no axis");
    refuse_step(&a, empty_slice_step, "slice: the range from 5 to 5 by 1 is empty along axis 1");
    refuse_step(&a, still_slice_step, "slice: the step of axis 0 is 0");
    refuse_step(&a, unnamed_slice_step, "rf_slice: end is NULL but num_axes is 1");
}

/* ---- gathers: rows of a variable by the labels; every replica adds up those of its own examples ---- */

typedef struct gathering {
    rf_strategy *strategy;
    rf_variable *table; /* [C, C] */
    int32_t axis;
} gathering;

/* sum(table[labels] * logits), its gradient times the table, and logits[i, labels[i]]. */
static rf_result gather_step(rf_trace *t, const rf_tensor *in, rf_tensor *out, void *user)
{
    const gathering *g = user;
    const rf_tensor table = rf_variable_tensor(t, g->table), rows = rf_gather(t, table, in[0], 0);
    out[0] = rf_reduce_sum(t, rf_multiply(t, rows, in[2]), NULL, 0, RF_DROP_DIMS);
    rf_tensor gradient;
    const rf_result r = rf_gradients(t, out[0], &table, 1, &gradient);
    if (r < 0) return r;
    out[1] = rf_reduce_sum(t, rf_multiply(t, gradient, rf_square(t, table)), NULL, 0, RF_DROP_DIMS);
    const rf_tensor positions = rf_reshape(t, in[0], RF_SHAPE(-1, 1));
    const rf_tensor own = rf_gather_positions(t, in[2], positions);
    out[2] = rf_reduce_sum(t, own, NULL, 0, RF_DROP_DIMS);
    return rf_trace_status(t);
}

static rf_result missing_row_step(rf_trace *t, const rf_tensor *in, rf_tensor *out, void *user)
{
    const gathering *g = user;
    const rf_tensor two = rf_slice(t, rf_variable_tensor(t, g->table), (int64_t[]){ 0 }, (int64_t[]){ 2 }, NULL, 1);
    /* Some labels are larger. Numbers that are computed are not known before the step runs. */
    const rf_tensor rows = rf_cast(t, rf_multiply(t, rf_cast(t, in[0], RF_F32), rf_constant(t, 1)), RF_I32);
    out[0] = rf_reduce_sum(t, rf_gather(t, two, rows, 0), NULL, 0, RF_DROP_DIMS);
    return rf_trace_status(t);
}

static rf_result missing_axis_step(rf_trace *t, const rf_tensor *in, rf_tensor *out, void *user)
{
    const gathering *g = user;
    out[0] = rf_gather(t, in[2], in[0], g->axis);
    return rf_trace_status(t);
}

static rf_result float_indices_step(rf_trace *t, const rf_tensor *in, rf_tensor *out, void *user)
{
    (void)user;
    out[0] = rf_gather_positions(t, in[2], in[1]);
    return rf_trace_status(t);
}

static void run_gather(const gathering *g, rf_step_fn step, uint32_t num_outputs, float *sums)
{
    inputs in;
    fill_inputs(&in);
    rf_function *function;
    OK(rf_function_create(
        g->strategy, &(rf_function_params){ .step = step, .user = (void *)g, .num_outputs = num_outputs }, &function));
    if (sums) {
        run_once(g->strategy, function, &in.batch, sums, num_outputs);
    } else {
        const char *part = step == missing_axis_step ? "gather: axis 2 of x of shape" : ": indices are f32 [";
        FAILS(rf_strategy_run(g->strategy, function, &in.batch, NULL), RF_ERROR_INVALID_ARGUMENT, part);
    }
    rf_function_destroy(&function);
}

static void gathers(rf_strategy *strategy)
{
    inputs in;
    fill_inputs(&in);
    float table[C * C], is[3], again[3];
    fill_noise(table, C * C, 8);
    gathering g = { .strategy = strategy, .axis = 2 };
    OK(rf_variable_create(strategy, &(rf_variable_params){ .name = "table", .shape = RF_SHAPE(C, C) }, &g.table));
    OK(rf_variable_assign(g.table, table));
    run_gather(&g, gather_step, 3, is);
    run_gather(&g, gather_step, 3, again);
    assert_memory_equal(is, again, 3 * sizeof(float));
    double sum = 0, gradient = 0, own = 0;
    for (int i = 0; i < N; i++) {
        for (int c = 0; c < C; c++) {
            const double x = (double)in.logits[i * C + c], row = (double)table[in.labels[i] * C + c];
            sum += row * x;
            gradient += row * row * x;
        }
        own += (double)in.logits[i * C + in.labels[i]];
    }
    assert_near(is[0], sum, 1e-5, 1e-5, "rows of a table");
    assert_near(is[1], gradient, 1e-5, 1e-5, "gradient of a table");
    assert_near(is[2], own, 1e-5, 1e-5, "positions of each example");
    run_gather(&g, missing_row_step, 1, is);
    assert_true(isnan(is[0]));
    run_gather(&g, missing_axis_step, 1, NULL);
    run_gather(&g, float_indices_step, 1, NULL);
    rf_variable_destroy(&g.table);
}

/* ---- casts: a narrow type rounds, on the way back too; integers let no gradient through ---- */

static rf_result cast_step(rf_trace *t, const rf_tensor *in, rf_tensor *out, void *user)
{
    (void)user;
    const rf_tensor x = rf_multiply(t, in[2], rf_constant(t, 8.0f)); /* whole parts too */
    static const rf_dtype through[] = { RF_F16, RF_BF16, RF_I32 };
    for (int i = 0; i < 3; i++) {
        const rf_tensor y = rf_cast(t, rf_cast(t, x, through[i]), RF_F32);
        const rf_tensor loss = rf_reduce_sum(t, rf_multiply(t, y, y), NULL, 0, RF_DROP_DIMS); /* its gradient: 2 y */
        rf_tensor gradient;
        const rf_result r = rf_gradients(t, loss, &x, 1, &gradient);
        if (r < 0) return r;
        out[2 * i] = rf_reduce_sum(t, rf_multiply(t, gradient, x), NULL, 0, RF_DROP_DIMS);
        out[2 * i + 1] = rf_reduce_sum(t, rf_multiply(t, y, x), NULL, 0, RF_DROP_DIMS);
    }
    return rf_trace_status(t);
}

static void casts(rf_strategy *strategy)
{
    inputs in;
    fill_inputs(&in);
    app a = { .strategy = strategy };
    float is[6];
    run_step(&a, cast_step, 6, is);
    double squares = 0.0;
    for (int i = 0; i < N * C; i++) squares += (double)in.logits[i] * (double)in.logits[i];
    assert_near(is[1], 64 * squares, 0x1p-11, 0.0, "through f16");
    assert_near(is[3], 64 * squares, 0x1p-8, 0.0, "through bf16");
    assert_near(is[0], 2 * (double)is[1], 1e-6, 1e-6, "gradient through f16");
    assert_near(is[2], 2 * (double)is[3], 1e-6, 1e-6, "gradient through bf16");
    assert_true(is[5] != 0.0f);
    assert_near(is[4], 0.0, 0.0, 0.0, "gradient through integers");
}

TEST_ON_ONE(loss_values)
TEST_ON_TWO(loss_values)
TEST_ON_ONE(label_forms)
TEST_ON_ONE(refused_reductions)
TEST_ON_TWO(refused_reductions)
TEST_ON_TWO(losses_of_any_rank)
TEST_ON_ONE(bad_arguments)
TEST_ON_ALL(metrics)
TEST_ON_TWO(regularization)
TEST_ON_TWO(cumulative_sums)
TEST_ON_TWO(cumulative_products)
TEST_ON_TWO(slices)
TEST_ON_TWO(gathers)
TEST_ON_TWO(casts)

TESTS(losses, NULL, NULL)
