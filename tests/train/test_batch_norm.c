/* SPDX-License-Identifier: Apache-2.0 */
/* Batch normalization: twenty steps of a small CNN against PyTorch in double precision (make_batch_norm.py; argument:
 * trajectory), axes and calls against the definition, replicas, files, and mistakes. */
#include "../support/strategies.h"

#include <ringfire/checkpoint.h>
#include <ringfire/interchange.h>

#include "../support/folder.h"
#include "../support/gzip.h"
#include "tests/room.h"

enum { VARIABLES = 10, BATCHES = 20, BATCH = 24, SIDE = 14, PIXELS = SIDE * SIDE, STATES = 6 };

typedef struct trajectory {
    int64_t count[VARIABLES];
    float *initial[VARIABLES], *gradient[VARIABLES];
    uint8_t images[BATCHES * BATCH * PIXELS], labels[BATCHES * BATCH];
    double losses[BATCHES];
    uint32_t num_averages[STATES];
    float averages[STATES][32];
    double last; /* loss of the first batch with the moving averages */
} trajectory;

static trajectory reference;

/* ---- the fixture ---- */

static void read_values(gzFile file, float **values, int64_t count)
{
    *values = test_malloc((size_t)count * sizeof(float));
    read_exactly(file, *values, (size_t)count * sizeof(float));
}

static int load_reference(void **state)
{
    (void)state;
    gzFile file = gzopen(FIXTURES "/batch_norm.bin", "rb");
    if (!file) return -1;
    char magic[8];
    uint32_t header[6];
    read_exactly(file, magic, sizeof(magic));
    assert_memory_equal(magic, "RFBNTR01", sizeof(magic));
    read_exactly(file, header, sizeof(header));
    const uint32_t expected[6] = { VARIABLES, BATCHES, BATCH, SIDE, SIDE, STATES };
    assert_memory_equal(header, expected, sizeof(header));
    for (int i = 0; i < VARIABLES; i++) {
        uint32_t rank, dim[4];
        read_exactly(file, &rank, sizeof(rank));
        assert_true(rank >= 1 && rank <= 4);
        read_exactly(file, dim, rank * sizeof(dim[0]));
        reference.count[i] = 1;
        for (uint32_t k = 0; k < rank; k++) reference.count[i] *= dim[k];
        read_values(file, &reference.initial[i], reference.count[i]);
    }
    read_exactly(file, reference.images, sizeof(reference.images));
    read_exactly(file, reference.labels, sizeof(reference.labels));
    read_exactly(file, reference.losses, sizeof(reference.losses));
    for (int i = 0; i < VARIABLES; i++) read_values(file, &reference.gradient[i], reference.count[i]);
    for (int i = 0; i < STATES; i++) {
        read_exactly(file, &reference.num_averages[i], sizeof(uint32_t));
        assert_true(reference.num_averages[i] <= 32);
        read_exactly(file, reference.averages[i], reference.num_averages[i] * sizeof(float));
    }
    read_exactly(file, &reference.last, sizeof(reference.last));
    gzclose(file);
    return 0;
}

static int free_reference(void **state)
{
    (void)state;
    for (int i = 0; i < VARIABLES; i++) {
        test_free(reference.initial[i]);
        test_free(reference.gradient[i]);
    }
    return 0;
}

/* ---- the same training with the library ---- */

typedef struct training {
    rf_strategy *strategy;
    rf_model *model;
    rf_optimizer *optimizer;
    rf_function *train, *evaluate;
} training;

static rf_tensor loss_of(rf_trace *t, const training *tr, const rf_tensor *in, rf_mode mode)
{
    const rf_tensor logits = rf_model_call(t, tr->model, in[0], mode);
    return rf_compute_average_loss(t, rf_sparse_categorical_crossentropy(t, in[1], logits, RF_LOGITS), NULL);
}

static rf_result learn(rf_trace *t, const rf_tensor *in, rf_tensor *out, void *user)
{
    const training *tr = user;
    out[0] = loss_of(t, tr, in, RF_TRAINING);
    return rf_optimizer_minimize(t, tr->optimizer, out[0], rf_model_variables(tr->model));
}

static rf_result judge(rf_trace *t, const rf_tensor *in, rf_tensor *out, void *user)
{
    out[0] = loss_of(t, user, in, RF_INFERENCE);
    return rf_trace_status(t);
}

static rf_model *create_model(rf_strategy *strategy, bool synchronized)
{
    rf_layer *l[12];
    rf_model *model;
    rf_conv2d_layer_params conv = { .filters = 8, .kernel_size = { 3 }, .no_bias = true };
    OK(rf_layer_conv2d(&conv, &l[0]));
    OK(rf_layer_batch_norm(&(rf_batch_norm_params){ .synchronized = synchronized }, &l[1]));
    OK(rf_layer_activation(RF_ACTIVATION_RELU, &l[2]));
    OK(rf_layer_max_pool2d(NULL, &l[3]));
    conv.filters = 16;
    OK(rf_layer_conv2d(&conv, &l[4]));
    OK(rf_layer_batch_norm(&(rf_batch_norm_params){ .no_scale = true, .synchronized = synchronized }, &l[5]));
    OK(rf_layer_activation(RF_ACTIVATION_RELU, &l[6]));
    OK(rf_layer_flatten(&l[7]));
    OK(rf_layer_dense(&(rf_dense_params){ .units = 32, .no_bias = true }, &l[8]));
    const rf_batch_norm_params last = {
        .momentum = 0.9, .epsilon = 1e-5, .name = "last", .synchronized = synchronized
    };
    OK(rf_layer_batch_norm(&last, &l[9]));
    OK(rf_layer_activation(RF_ACTIVATION_RELU, &l[10]));
    OK(rf_layer_dense(&(rf_dense_params){ .units = 10 }, &l[11]));
    OK(rf_model_create_sequential(strategy, l, 12, &RF_SHAPE(SIDE, SIDE, 1), &model));
    return model;
}

static void open_any_training(rf_strategy *strategy, bool synchronized, training *tr)
{
    *tr = (training){ .strategy = strategy, .model = create_model(strategy, synchronized) };
    const rf_optimizer_params sgd = { .kind = RF_OPTIMIZER_SGD, .learning_rate = 0.05, .momentum = 0.9 };
    OK(rf_optimizer_create(strategy, &sgd, &tr->optimizer));
    OK(rf_function_create(
        strategy, &(rf_function_params){ .step = learn, .user = tr, .num_outputs = 1, .training = true }, &tr->train));
    OK(rf_function_create(strategy, &(rf_function_params){ .step = judge, .user = tr, .num_outputs = 1 },
                          &tr->evaluate));
    const rf_variable_list variables = rf_model_variables(tr->model);
    assert_int_equal(variables.count, VARIABLES);
    assert_int_equal(rf_model_state_variables(tr->model).count, STATES);
    for (int i = 0; i < VARIABLES; i++) {
        assert_int_equal(rf_shape_count(rf_variable_shape(variables.items[i])), reference.count[i]);
        OK(rf_variable_assign(variables.items[i], reference.initial[i]));
    }
}

static void open_training(rf_strategy *strategy, training *tr)
{
    open_any_training(strategy, false, tr);
}

static void close_training(training *tr)
{
    rf_function_destroy(&tr->train);
    rf_function_destroy(&tr->evaluate);
    rf_optimizer_destroy(&tr->optimizer);
    rf_model_destroy(&tr->model);
}

/* `times` copies of the batch, one after the other. */
static float run_batch(training *tr, rf_function *function, int number, int times)
{
    static float images[2 * BATCH * PIXELS];
    static int32_t labels[2 * BATCH];
    for (int k = 0; k < times; k++) {
        for (int i = 0; i < BATCH * PIXELS; i++)
            images[k * BATCH * PIXELS + i] = (float)reference.images[number * BATCH * PIXELS + i] / 255.0f;
        for (int i = 0; i < BATCH; i++) labels[k * BATCH + i] = reference.labels[number * BATCH + i];
    }
    const rf_element batch = { 2,
                               { array_f32(RF_SHAPE((int64_t)times * BATCH, SIDE, SIDE, 1), images),
                                 array_i32(RF_SHAPE((int64_t)times * BATCH), labels) } };
    float loss;
    run_once(tr->strategy, function, &batch, &loss, 1);
    return loss;
}

/* Against the norm; single elements against a floor of a thousandth of the largest one. */
static void check_values(const float *is, const float *expected, int64_t count, const char *name)
{
    double difference = 0.0, norm = 0.0, largest = 0.0;
    for (int64_t k = 0; k < count; k++) {
        const double d = (double)is[k] - (double)expected[k];
        difference += d * d;
        norm += (double)expected[k] * (double)expected[k];
        largest = fmax(largest, fabs((double)expected[k]));
    }
    assert_near(sqrt(difference / norm), 0.0, 0.0, 1e-4, name);
    for (int64_t k = 0; k < count; k++) assert_near(is[k], expected[k], 1e-4, 1e-4 * largest, name);
}

static void follow_any(rf_strategy *strategy, bool synchronized, int times)
{
    training tr;
    float values[4096];
    open_any_training(strategy, synchronized, &tr);
    double worst = 0.0;
    for (int i = 0; i < BATCHES; i++) {
        const double loss = run_batch(&tr, tr.train, i, times);
        assert_near(loss, reference.losses[i], 1e-4, 0.0, "loss");
        worst = fmax(worst, fabs(loss / reference.losses[i] - 1.0));
        for (int v = 0; i == 0 && v < VARIABLES; v++) {
            rf_variable *variable = rf_model_variables(tr.model).items[v];
            float *gradient = test_malloc((size_t)reference.count[v] * sizeof(float));
            OK(rf_variable_read_gradient(variable, gradient));
            check_values(gradient, reference.gradient[v], reference.count[v], rf_variable_name(variable));
            test_free(gradient);
        }
        OK(rf_strategy_check_identical(strategy, NULL, NULL));
    }
    for (int i = 0; i < STATES; i++) {
        rf_variable *average = rf_model_state_variables(tr.model).items[i];
        assert_false(rf_variable_trainable(average));
        OK(rf_variable_read(average, values));
        check_values(values, reference.averages[i], reference.num_averages[i], rf_variable_name(average));
    }
    assert_near(run_batch(&tr, tr.evaluate, 0, times), reference.last, 1e-4, 0.0, "loss with moving averages");
    print_message("  losses: worst relative error %.2g\n", worst);
    close_training(&tr);
}

/* On n replicas, each of which gets the whole batch: what one replica computes. */
static void follow(rf_strategy *strategy)
{
    follow_any(strategy, false, (int)rf_strategy_num_replicas_in_sync(strategy));
}
ON_LISTS(follow, _on_one, 0, 2, 1)
ON_TWO(follow)

/* On n replicas, each of which gets a part of the batch. */
static void follow_synchronized(rf_strategy *strategy)
{
    follow_any(strategy, true, 1);
}
ON_LISTS(follow_synchronized, _on_one, 0, 2, 1)
ON_TWO(follow_synchronized)

/* ---- the definition ---- */

typedef struct probe {
    rf_model *model;
    rf_mode mode;
    uint32_t calls;
} probe;

static rf_result probe_step(rf_trace *t, const rf_tensor *in, rf_tensor *out, void *user)
{
    const probe *p = user;
    for (uint32_t i = 0; i < p->calls; i++) out[0] = rf_model_call(t, p->model, in[i], p->mode);
    return rf_trace_status(t);
}

static rf_model *model_of(rf_strategy *strategy, const rf_batch_norm_params *params, rf_shape example)
{
    rf_layer *layer;
    rf_model *model;
    OK(rf_layer_batch_norm(params, &layer));
    OK(rf_model_create_sequential(strategy, &layer, 1, &example, &model));
    return model;
}

/* Mean and variance of channel c of x [n, channels, after]. */
static void moments(const float *x, int n, int channels, int after, int c, double *mean, double *variance)
{
    *mean = *variance = 0;
    for (int pass = 0; pass < 2; pass++)
        for (int i = 0; i < n; i++)
            for (int k = 0; k < after; k++) {
                const double v = x[(i * channels + c) * after + k];
                if (pass == 0) *mean += v / (n * after);
                if (pass == 1) *variance += (v - *mean) * (v - *mean) / (n * after);
            }
}

static void check_axis(rf_strategy *strategy, int32_t axis, int n, int channels, int after, rf_shape example,
                       bool unbiased)
{
    const rf_batch_norm_params params = { .axis = axis, .no_center = after > 1, .unbiased_variance = unbiased };
    float x[256], gamma[8], beta[8] = { 0 }, averages[8];
    const int count = n * channels * after;
    fill_noise(x, (size_t)count, 5);
    for (int i = 0; i < count; i++) x[i] += 1000; /* a mean that squares would drown the variance in */
    fill_noise(gamma, 8, 6);
    if (after == 1) fill_noise(beta, 8, 7);
    probe p = { model_of(strategy, &params, example), RF_TRAINING, 1 };
    OK(rf_variable_assign(rf_model_variables(p.model).items[0], gamma));
    if (after == 1) OK(rf_variable_assign(rf_model_variables(p.model).items[1], beta));
    rf_function *f;
    rf_per_replica *result;
    rf_array y;
    OK(rf_function_create(
        strategy, &(rf_function_params){ .step = probe_step, .user = &p, .num_outputs = 1, .training = true }, &f));
    rf_shape shape = { .rank = example.rank + 1, .dim = { n } };
    for (int32_t i = 0; i < example.rank; i++) shape.dim[i + 1] = example.dim[i];
    OK(rf_strategy_run(strategy, f, &(rf_element){ 1, { array_f32(shape, x) } }, &result));
    OK(rf_per_replica_local(result, 0, &y));
    for (int c = 0; c < channels; c++) {
        double mean, variance;
        moments(x, n, channels, after, c, &mean, &variance);
        for (int i = 0; i < n; i++)
            for (int k = 0; k < after; k++) {
                const int at = (i * channels + c) * after + k;
                assert_near(((float *)y.data)[at],
                            ((double)x[at] - mean) / sqrt(variance + 1e-3) * (double)gamma[c] + (double)beta[c], 2e-3,
                            2e-3, "y");
            }
        OK(rf_variable_read(rf_model_state_variables(p.model).items[0], averages));
        assert_near(averages[c], 0.01 * mean, 1e-5, 0, "moving mean");
        OK(rf_variable_read(rf_model_state_variables(p.model).items[1], averages));
        if (unbiased) variance *= (double)(n * after) / (n * after - 1);
        assert_near(averages[c], 0.99 + 0.01 * variance, 1e-5, 0, "moving variance");
    }
    rf_function_destroy(&f);
    rf_model_destroy(&p.model);
}

static void axes(rf_strategy *strategy)
{
    for (int unbiased = 0; unbiased < 2; unbiased++) {
        check_axis(strategy, 0, 6, 5, 1, RF_SHAPE(5), unbiased);
        check_axis(strategy, 1, 6, 5, 1, RF_SHAPE(5), unbiased);
        check_axis(strategy, 1, 4, 3, 8, RF_SHAPE(3, 2, 4), unbiased);
        check_axis(strategy, -2, 4, 3, 8, RF_SHAPE(3, 8), unbiased);
    }
}
ON_ONE(axes)

/* Two calls in a step move the averages twice, as they do in Keras. */
static void called_twice(rf_strategy *strategy)
{
    float a[8], b[8], moving[2];
    for (int i = 0; i < 8; i++) {
        a[i] = i % 2 ? 3.0f : 1.0f;
        b[i] = i % 2 ? -5.0f : 7.0f;
    }
    probe p = { model_of(strategy, &(rf_batch_norm_params){ .momentum = 0.5 }, RF_SHAPE(2)), RF_TRAINING, 2 };
    rf_function *f;
    OK(rf_function_create(
        strategy, &(rf_function_params){ .step = probe_step, .user = &p, .num_outputs = 1, .training = true }, &f));
    const rf_element batch = { 2, { array_f32(RF_SHAPE(4, 2), a), array_f32(RF_SHAPE(4, 2), b) } };
    OK(rf_strategy_run(strategy, f, &batch, NULL));
    OK(rf_variable_read(rf_model_state_variables(p.model).items[0], moving));
    assert_true(moving[0] == 0.25f * 1 + 0.5f * 7 && moving[1] == 0.25f * 3 - 0.5f * 5);
    OK(rf_variable_read(rf_model_state_variables(p.model).items[1], moving));
    assert_true(moving[0] == 0.25f && moving[1] == 0.25f);
    rf_function_destroy(&f);
    rf_model_destroy(&p.model);
}
ON_ONE(called_twice)

/* The averages of an uneven batch are those of its examples: weighted, and the same on all replicas. */
static void uneven_batch(rf_strategy *strategy)
{
    float x[10], moving[2];
    fill_noise(x, 10, 3);
    probe p = { model_of(strategy, NULL, RF_SHAPE(2)), RF_TRAINING, 1 };
    rf_function *f;
    OK(rf_function_create(
        strategy, &(rf_function_params){ .step = probe_step, .user = &p, .num_outputs = 1, .training = true }, &f));
    OK(rf_strategy_run(strategy, f, &(rf_element){ 1, { array_f32(RF_SHAPE(5, 2), x) } }, NULL));
    OK(rf_variable_read(rf_model_state_variables(p.model).items[0], moving));
    for (int c = 0; c < 2; c++) {
        double mean, variance;
        moments(x, 5, 2, 1, c, &mean, &variance);
        assert_near(moving[c], 0.01 * mean, 1e-5, 1e-9, "moving mean");
    }
    OK(rf_strategy_check_identical(strategy, NULL, NULL));
    rf_function_destroy(&f);
    rf_model_destroy(&p.model);
}
ON_TWO(uneven_batch)

/* ---- files, summaries, regularisation ---- */

static void predict(const training *tr, rf_model *model, const rf_array *x, float *out)
{
    rf_function *f;
    probe p = { model, RF_INFERENCE, 1 };
    rf_per_replica *result;
    rf_array y;
    OK(rf_function_create(
        tr->strategy, &(rf_function_params){ .step = probe_step, .user = &p, .num_outputs = 1, .training = true }, &f));
    OK(rf_strategy_run(tr->strategy, f, &(rf_element){ 1, { *x } }, &result));
    OK(rf_per_replica_local(result, 0, &y));
    memcpy(out, y.data, (size_t)rf_shape_count(y.shape) * sizeof(float));
    rf_function_destroy(&f);
}

static void files(rf_strategy *strategy)
{
    char folder[SCRATCH_PATH], path[80];
    float images[4 * PIXELS], is[32], was[32];
    fill_noise(images, 4 * PIXELS, 9);
    training tr;
    rf_model *loaded;
    rf_inference *inference;
    scratch(folder);
    open_training(strategy, &tr);
    for (int i = 0; i < 3; i++) run_batch(&tr, tr.train, i, 1);
    float predicted[40], again[40];
    rf_array inferred;
    const rf_array x = array_f32(RF_SHAPE(4, SIDE, SIDE, 1), images);
    predict(&tr, tr.model, &x, predicted);
    snprintf(path, sizeof(path), "%s/model.rfck", folder);
    OK(rf_model_save(tr.model, path, NULL));
    OK(rf_model_load(strategy, path, &loaded));
    assert_int_equal(rf_model_state_variables(loaded).count, STATES);
    for (uint32_t i = 0; i < STATES; i++) {
        OK(rf_variable_read(rf_model_state_variables(tr.model).items[i], was));
        OK(rf_variable_read(rf_model_state_variables(loaded).items[i], is));
        assert_memory_equal(is, was, reference.num_averages[i] * sizeof(float));
    }
    predict(&tr, loaded, &x, again);
    assert_memory_equal(predicted, again, sizeof(again));
    snprintf(path, sizeof(path), "%s/export.rfck", folder);
    OK(rf_model_export(tr.model, path, NULL));
    OK(rf_inference_load(path, NULL, &inference));
    OK(rf_inference_run(inference, &x, &inferred));
    for (int i = 0; i < 40; i++) assert_near(((float *)inferred.data)[i], predicted[i], 1e-6, 1e-7, "prediction");
    rf_array_free(&inferred);
    rf_inference_destroy(&inference);
    rf_model_destroy(&loaded);
    close_training(&tr);
    scratch_remove(folder);
}
ON_ONE(files)

static const float *values_in(const rf_array_set *set, const char *name)
{
    for (uint32_t i = 0; i < set->count; i++)
        if (strcmp(set->items[i].name, name) == 0) return set->items[i].array.data;
    fail_msg("the file has no %s", name);
    return NULL;
}

/* Moving averages go to other programs and back with the weights. */
static void safetensors(rf_strategy *strategy)
{
    char folder[SCRATCH_PATH], path[80];
    float is[32], was[32];
    rf_array_set set;
    scratch(folder);
    snprintf(path, sizeof(path), "%s/net.safetensors", folder);
    training tr;
    open_training(strategy, &tr);
    for (int i = 0; i < 2; i++) run_batch(&tr, tr.train, i, 1);
    rf_model *other = create_model(strategy, false);
    OK(rf_model_export_safetensors(tr.model, path));
    OK(rf_model_import_safetensors(other, path));
    OK(rf_safetensors_read(path, &set));
    assert_int_equal(set.count, VARIABLES + STATES);
    for (uint32_t i = 0; i < STATES; i++) {
        rf_variable *v = rf_model_state_variables(tr.model).items[i];
        const size_t size = reference.num_averages[i] * sizeof(float);
        OK(rf_variable_read(v, was));
        assert_memory_equal(values_in(&set, rf_variable_name(v)), was, size);
        OK(rf_variable_read(rf_model_state_variables(other).items[i], is));
        assert_memory_equal(is, was, size);
    }
    rf_array_set_free(&set);
    rf_model_destroy(&other);
    close_training(&tr);
    scratch_remove(folder);
}
ON_ONE(safetensors)

static rf_checkpoint *checkpoint_of(const training *tr)
{
    rf_checkpoint *checkpoint;
    OK(rf_checkpoint_create(tr->strategy, &checkpoint));
    OK(rf_checkpoint_add_model(checkpoint, "model", tr->model));
    OK(rf_checkpoint_add_optimizer(checkpoint, "optimizer", tr->optimizer));
    return checkpoint;
}

static void compare_variables(rf_variable_list a, rf_variable_list b)
{
    assert_int_equal(a.count, b.count);
    for (uint32_t i = 0; i < a.count; i++) {
        const size_t size = (size_t)rf_shape_count(rf_variable_shape(a.items[i])) * sizeof(float);
        float *is = test_malloc(size), *expected = test_malloc(size);
        OK(rf_variable_read(a.items[i], is));
        OK(rf_variable_read(b.items[i], expected));
        if (memcmp(is, expected, size) != 0) fail_msg("%s differs", rf_variable_name(a.items[i]));
        test_free(is);
        test_free(expected);
    }
}

/* Restored from a checkpoint, a training goes on with the same bits as if it had never stopped. */
static void resume(rf_strategy *strategy)
{
    char folder[SCRATCH_PATH], path[80];
    scratch(folder);
    snprintf(path, sizeof(path), "%s/checkpoint.rfck", folder);
    training whole, resumed;
    open_training(strategy, &whole);
    for (int i = 0; i < 3; i++) run_batch(&whole, whole.train, i, 1);
    rf_checkpoint *checkpoint = checkpoint_of(&whole);
    OK(rf_checkpoint_save(checkpoint, path, NULL));
    for (int i = 3; i < 6; i++) run_batch(&whole, whole.train, i, 1);
    rf_checkpoint_destroy(&checkpoint);

    open_training(strategy, &resumed);
    run_batch(&resumed, resumed.train, 9, 1); /* moves what is restored */
    checkpoint = checkpoint_of(&resumed);
    OK(rf_checkpoint_restore(checkpoint, path, NULL));
    for (int i = 3; i < 6; i++) run_batch(&resumed, resumed.train, i, 1);
    compare_variables(rf_model_variables(resumed.model), rf_model_variables(whole.model));
    compare_variables(rf_model_state_variables(resumed.model), rf_model_state_variables(whole.model));
    rf_checkpoint_destroy(&checkpoint);
    close_training(&resumed);
    close_training(&whole);
    scratch_remove(folder);
}
ON_ONE(resume)
ON_LISTS(resume, _on_one_twice, 3, 1, 1)

static void summary(rf_strategy *strategy)
{
    rf_model *model = create_model(strategy, false);
    char *text;
    assert_string_equal(rf_variable_name(rf_model_variables(model).items[1]), "batch_normalization/gamma");
    assert_string_equal(rf_variable_name(rf_model_variables(model).items[2]), "batch_normalization/beta");
    assert_string_equal(rf_variable_name(rf_model_variables(model).items[4]), "batch_normalization_1/beta");
    assert_string_equal(rf_variable_name(rf_model_state_variables(model).items[0]), "batch_normalization/moving_mean");
    assert_string_equal(rf_variable_name(rf_model_state_variables(model).items[5]), "last/moving_variance");
    OK(rf_model_summary(model, &text));
    assert_non_null(strstr(text, "BatchNormalization"));
    assert_non_null(strstr(text, "total parameters: 9954\n"));
    assert_non_null(strstr(text, "not trainable: 112\n"));
    assert_int_equal(rf_model_num_params(model), 9954);
    rf_string_free(text);
    rf_model_destroy(&model);
}
ON_ONE(summary)

static rf_result penalty_step(rf_trace *t, const rf_tensor *in, rf_tensor *out, void *user)
{
    (void)rf_model_call(t, user, in[0], RF_INFERENCE);
    out[0] = rf_model_regularization_loss(t, user);
    return rf_trace_status(t);
}

/* Each variable has its own; moving averages none. */
static void regularizers(rf_strategy *strategy)
{
    const rf_batch_norm_params params = { .beta_regularizer = { .l1 = 0.5f }, .gamma_regularizer = { .l2 = 0.25f } };
    rf_model *model = model_of(strategy, &params, RF_SHAPE(2));
    OK(rf_variable_assign(rf_model_variables(model).items[0], (float[]){ 2, -4 }));
    OK(rf_variable_assign(rf_model_variables(model).items[1], (float[]){ -3, 1 }));
    rf_function *f;
    float x[4] = { 0 }, penalty;
    OK(rf_function_create(strategy, &(rf_function_params){ .step = penalty_step, .user = model, .num_outputs = 1 },
                          &f));
    run_once(strategy, f, &(rf_element){ 1, { array_f32(RF_SHAPE(2, 2), x) } }, &penalty, 1);
    assert_near(penalty, 0.25 * 20 + 0.5 * 4, 1e-6, 0, "penalty");
    rf_function_destroy(&f);
    rf_model_destroy(&model);
}
ON_ONE(regularizers)

/* ---- mistakes, and what it costs ---- */

static void mistakes(void **state)
{
    (void)state;
    rf_layer *layer;
    const rf_initializer ones = { .kind = RF_INIT_ONES }, none = { .kind = (rf_initializer_kind)99 };
    const struct {
        rf_batch_norm_params params;
        const char *message;
    } wrong[] = {
        { { .momentum = 1 }, "momentum" },
        { { .momentum = -0.1 }, "momentum" },
        { { .epsilon = -1e-3 }, "epsilon" },
        { { .epsilon = INFINITY }, "epsilon" },
        { { .epsilon = 1e39 }, "epsilon" },
        { { .axis = 9 }, "axis 9" },
        { { .no_scale = true, .gamma_initializer = &ones }, "no_scale" },
        { { .no_center = true, .beta_initializer = &ones }, "no_center" },
        { { .gamma_initializer = &none }, "gamma_initializer" },
        { { .beta_regularizer = { .l2 = -1 } }, "beta_regularizer" },
        { { .virtual_batch_size = 4, .unbiased_variance = true }, "unbiased_variance" },
    };
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        assert_int_equal(rf_layer_batch_norm(&wrong[i].params, &layer), RF_ERROR_INVALID_ARGUMENT);
        if (!strstr(rf_error_message(), wrong[i].message)) fail_msg("%s", rf_error_message());
        assert_null(layer);
    }
}

static void wrong_inputs(rf_strategy *strategy)
{
    rf_layer *layer;
    rf_model *model;
    OK(rf_layer_batch_norm(&(rf_batch_norm_params){ .axis = 3, .name = "norm" }, &layer));
    assert_int_equal(rf_model_create_sequential(strategy, &layer, 1, &RF_SHAPE(4, 5), &model),
                     RF_ERROR_INVALID_ARGUMENT);
    assert_non_null(strstr(rf_error_message(), "'norm' normalizes axis 3"));
    probe p = { model_of(strategy, NULL, RF_SHAPE(3)), RF_INFERENCE, 1 };
    rf_function *f;
    float x[8] = { 0 };
    OK(rf_function_create(
        strategy, &(rf_function_params){ .step = probe_step, .user = &p, .num_outputs = 1, .training = true }, &f));
    assert_int_equal(rf_strategy_run(strategy, f, &(rf_element){ 1, { array_f32(RF_SHAPE(2, 4), x) } }, NULL),
                     RF_ERROR_INVALID_ARGUMENT);
    assert_non_null(strstr(rf_error_message(), "built for 3 channels, got 4"));
    rf_function_destroy(&f);
    rf_model_destroy(&p.model);
}
ON_ONE(wrong_inputs)

static uint32_t warnings;

static void count_warnings(void *user, rf_log_level level, const char *message)
{
    (void)user;
    warnings += level == RF_LOG_WARN && strstr(message, "RF_BALANCE_AUTO") != NULL;
}

static void says_what_balancing_costs(void **state)
{
    (void)state;
    for (int automatic = 0; automatic < 2; automatic++) {
        rf_strategy *s = NULL;
        const rf_mirrored_params params = { .devices = "llvmpipe,llvmpipe",
                                            .balance = automatic ? RF_BALANCE_AUTO : RF_BALANCE_OFF };
        const rf_result r = rf_strategy_create_mirrored(&params, &s);
        if (r == RF_ERROR_NOT_FOUND) SKIP("%s", rf_error_message());
        OK(r);
        warnings = 0;
        rf_log_set(count_warnings, NULL, RF_LOG_WARN);
        training tr;
        open_training(s, &tr);
        run_batch(&tr, tr.train, 0, 1);
        run_batch(&tr, tr.evaluate, 0, 1);
        rf_log_set(NULL, NULL, RF_LOG_WARN);
        assert_int_equal(warnings, automatic);
        close_training(&tr);
        rf_strategy_destroy(&s);
    }
}

TEST_PROGRAM(batch_norm)
{
    const struct CMUnitTest trajectory_tests[] = { cmocka_unit_test(follow_on_one), cmocka_unit_test(follow_on_two),
                                                   cmocka_unit_test(follow_synchronized_on_one),
                                                   cmocka_unit_test(follow_synchronized_on_two) };
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(axes_on_one),         cmocka_unit_test(called_twice_on_one),
        cmocka_unit_test(uneven_batch_on_two), cmocka_unit_test(files_on_one),
        cmocka_unit_test(safetensors_on_one),  cmocka_unit_test(resume_on_one),
        cmocka_unit_test(resume_on_one_twice), cmocka_unit_test(summary_on_one),
        cmocka_unit_test(regularizers_on_one), cmocka_unit_test(mistakes),
        cmocka_unit_test(wrong_inputs_on_one), cmocka_unit_test(says_what_balancing_costs),
    };
    if (argc > 1 && strcmp(argv[1], "trajectory") == 0)
        return cmocka_run_group_tests(trajectory_tests, load_reference, free_reference);
    return cmocka_run_group_tests(tests, load_reference, free_reference);
}
