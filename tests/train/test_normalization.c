/* SPDX-License-Identifier: Apache-2.0 */
/* Normalization by numbers that were learned from data: values, training beside it, files, mistakes. */
#include <math.h>

#include <ringfire/interchange.h>

#include "../support/apply.h"
#include "../support/strategies.h"
#include "test_folder.h"
#include "tests/room.h"

enum { N = 24, HEIGHT = 3, CHANNELS = 4, SIZE = HEIGHT * CHANNELS, COUNT = N * SIZE };

static float x[COUNT], y[N];

/* Channels of very different means and deviations, of which the last one is always 7. */
static rf_dataset *examples(void)
{
    fill_noise(x, COUNT, 5);
    fill_noise(y, N, 6);
    for (int i = 0; i < COUNT; i++) {
        const int c = i % CHANNELS;
        x[i] = c == 3 ? 7 : (float)(100 * c) + x[i] * (float)(1 + 10 * c);
    }
    const rf_array arrays[] = { array_f32(RF_SHAPE(N, HEIGHT, CHANNELS), x), array_f32(RF_SHAPE(N, 1), y) };
    rf_dataset *d;
    OK(rf_dataset_from_arrays(&(rf_dataset_arrays_params){ .arrays = arrays, .num_arrays = 2 }, &d));
    APPLY(d, rf_dataset_batch(d, 8, RF_REMAINDER_KEEP, &applied_));
    return d;
}

/* The layer, by what it learned of the examples. */
static rf_layer *learned(rf_normalization_params p)
{
    rf_dataset *d = examples();
    rf_array mean, variance;
    rf_layer *layer;
    OK(rf_dataset_moments(d, &(rf_moments_params){ .axis = p.axis, .whole = p.whole }, &mean, &variance));
    p.mean = &mean;
    p.variance = &variance;
    OK(rf_layer_normalization(&p, &layer));
    rf_array_free(&mean);
    rf_array_free(&variance);
    rf_dataset_destroy(&d);
    return layer;
}

static void predict(rf_model *model, float *out, int count)
{
    rf_dataset *d = examples();
    rf_array is;
    OK(rf_model_predict(model, d, &is));
    assert_int_equal(rf_shape_count(is.shape), count);
    memcpy(out, is.data, (size_t)count * sizeof(*out));
    rf_array_free(&is);
    rf_dataset_destroy(&d);
}

/* ---- values ---- */

/* Keras' arithmetic, in double precision, with a mean for each value of `place`. */
static void check_values(rf_strategy *strategy, rf_normalization_params p, int (*place)(int))
{
    rf_layer *layer = learned(p);
    rf_model *model;
    float is[COUNT];
    OK(rf_model_create_sequential(strategy, &layer, 1, &RF_SHAPE(HEIGHT, CHANNELS), &model));
    predict(model, is, COUNT);
    for (int i = 0; i < COUNT; i++) {
        double sum = 0, squares = 0;
        int count = 0;
        for (int k = 0; k < COUNT; k++)
            if (place(k) == place(i)) {
                sum += (double)x[k];
                count++;
            }
        for (int k = 0; k < COUNT; k++)
            if (place(k) == place(i)) squares += pow((double)x[k] - sum / count, 2);
        const double deviation = fmax(sqrt(squares / count), 1e-7);
        const double expected =
            p.invert ? (double)x[i] * deviation + sum / count : ((double)x[i] - sum / count) / deviation;
        assert_near(is[i], (float)expected, 1e-4, 1e-4, "normalized");
    }
    rf_model_destroy(&model);
}

static int place_of_channel(int i)
{
    return i % CHANNELS;
}
static int place_of_row(int i)
{
    return i / CHANNELS % HEIGHT;
}
static int place_of_all(int i)
{
    (void)i;
    return 0;
}

static void values(rf_strategy *strategy)
{
    check_values(strategy, (rf_normalization_params){ 0 }, place_of_channel);
    check_values(strategy, (rf_normalization_params){ .axis = 1 }, place_of_row);
    check_values(strategy, (rf_normalization_params){ .axis = -2, .invert = true }, place_of_row);
    check_values(strategy, (rf_normalization_params){ .whole = true }, place_of_all);
}
TEST_ON_ONE(values)

/* ---- training and files ---- */

static rf_model *network(rf_strategy *strategy)
{
    rf_layer *layers[3] = { learned((rf_normalization_params){ .name = "inputs" }) };
    rf_model *model;
    OK(rf_layer_flatten(&layers[1]));
    OK(rf_layer_dense(&(rf_dense_params){ .units = 1 }, &layers[2]));
    OK(rf_model_create_sequential(strategy, layers, 3, &RF_SHAPE(HEIGHT, CHANNELS), &model));
    return model;
}

static void read_moments(rf_model *model, float moments[2 * CHANNELS])
{
    const rf_variable_list state = rf_model_state_variables(model);
    assert_int_equal(state.count, 2);
    assert_string_equal(rf_variable_name(state.items[0]), "inputs/mean");
    assert_string_equal(rf_variable_name(state.items[1]), "inputs/variance");
    for (int i = 0; i < 2; i++) OK(rf_variable_read(state.items[i], moments + i * CHANNELS));
}

/* Training changes the layers behind it alone; files have its numbers, wherever they came from. */
static void lasts(rf_strategy *strategy)
{
    float before[2 * CHANNELS], after[2 * CHANNELS], expected[N], got[N];
    rf_model *model = network(strategy), *loaded;
    rf_dataset *d = examples();
    rf_array image = array_f32(RF_SHAPE(N, HEIGHT, CHANNELS), x), out = { 0 };
    rf_inference *inference;
    rf_optimizer *optimizer;
    rf_history history;
    read_moments(model, before);
    assert_true(before[3] == 7 && before[CHANNELS + 3] == 0);
    OK(rf_optimizer_create(strategy, NULL, &optimizer));
    OK(rf_model_compile(model,
                        &(rf_compile_params){ .optimizer = optimizer, .loss.kind = RF_LOSS_MEAN_SQUARED_ERROR }));
    OK(rf_model_fit(model, &(rf_fit_params){ .data = d, .epochs = 2 }, &history));
    read_moments(model, after);
    assert_memory_equal(before, after, sizeof(before));
    predict(model, expected, N);
    for (int i = 0; i < N; i++) assert_true(isfinite(expected[i]));
    OK(rf_model_save(model, in_folder("model"), NULL));
    OK(rf_model_load(strategy, in_folder("model"), &loaded));
    predict(loaded, got, N);
    assert_memory_equal(got, expected, sizeof(got));
    rf_model_destroy(&loaded);
    OK(rf_model_export(model, in_folder("inference"), NULL));
    OK(rf_inference_load(in_folder("inference"), &(rf_inference_params){ .strategy = strategy }, &inference));
    OK(rf_inference_run(inference, &image, &out));
    for (int i = 0; i < N; i++) assert_near(((const float *)out.data)[i], expected[i], 1e-5, 1e-5, "inference");
    rf_array_free(&out);
    rf_inference_destroy(&inference);
    rf_history_free(&history);
    rf_model_destroy(&model);
    rf_optimizer_destroy(&optimizer);
    rf_dataset_destroy(&d);
}
TEST_ON_TWO(lasts)

/* Without numbers it changes nothing until its variables are assigned. */
static void later(rf_strategy *strategy)
{
    float is[COUNT];
    const float mean[] = { 1 }, variance[] = { 4 };
    rf_layer *layer;
    rf_model *model;
    OK(rf_layer_normalization(&(rf_normalization_params){ .whole = true }, &layer));
    OK(rf_model_create_sequential(strategy, &layer, 1, &RF_SHAPE(HEIGHT, CHANNELS), &model));
    predict(model, is, COUNT);
    assert_memory_equal(is, x, sizeof(is));
    const rf_variable_list state = rf_model_state_variables(model);
    OK(rf_variable_assign(state.items[0], mean));
    OK(rf_variable_assign(state.items[1], variance));
    predict(model, is, COUNT);
    for (int i = 0; i < COUNT; i++) assert_near(is[i], (x[i] - 1) / 2, 1e-6, 1e-6, "assigned");
    rf_model_destroy(&model);
}
TEST_ON_ONE(later)

/* ---- mistakes ---- */

static void refused(rf_normalization_params p, const char *part)
{
    rf_layer *layer;
    FAILS(rf_layer_normalization(&p, &layer), RF_ERROR_INVALID_ARGUMENT, part);
    assert_null(layer);
}

static void refuses(rf_strategy *strategy)
{
    float numbers[] = { 1, 2, -3 };
    int32_t integers[] = { 1, 2 };
    const rf_array two = array_f32(RF_SHAPE(2), numbers), three = array_f32(RF_SHAPE(3), numbers);
    const rf_array i32 = array_i32(RF_SHAPE(2), integers), square = array_f32(RF_SHAPE(1, 2), numbers);
    refused((rf_normalization_params){ .mean = &two }, "variance is NULL; give both, or neither");
    refused((rf_normalization_params){ .mean = &two, .variance = &three }, "variance 2 is -3");
    refused((rf_normalization_params){ .mean = &three, .variance = &two }, "3 means and 2 variances");
    refused((rf_normalization_params){ .mean = &i32, .variance = &two }, "mean is i32, not f32");
    refused((rf_normalization_params){ .mean = &square, .variance = &two }, "mean has the shape [1,2]");
    refused((rf_normalization_params){ .mean = &two, .variance = &two, .whole = true }, "give one number");
    refused((rf_normalization_params){ .axis = 1, .whole = true }, "axis is 1");
    refused((rf_normalization_params){ .axis = RF_MAX_RANK }, "tensors have at most");
    const rf_normalization_params of_two = { .mean = &two, .variance = &two };
    rf_layer *layer;
    rf_model *model;
    OK(rf_layer_normalization(&of_two, &layer));
    OK(rf_model_create_sequential(strategy, &layer, 1, NULL, &model));
    FAILS(rf_model_build_for(model, RF_F32, RF_SHAPE(3)), RF_ERROR_INVALID_ARGUMENT,
          "layer 'normalization' has 2 means, and its input");
    FAILS(rf_model_build_for(model, RF_I32, RF_SHAPE(2)), RF_ERROR_INVALID_ARGUMENT, "takes f32, got i32");
    rf_model_destroy(&model);
    OK(rf_layer_normalization(&(rf_normalization_params){ .axis = 2 }, &layer));
    OK(rf_model_create_sequential(strategy, &layer, 1, NULL, &model));
    FAILS(rf_model_build_for(model, RF_F32, RF_SHAPE(3)), RF_ERROR_INVALID_ARGUMENT,
          "layer 'normalization' normalizes axis 2, which an input");
    rf_model_destroy(&model);
}
TEST_ON_ONE(refuses)

TESTS(normalization, make_folder, remove_folder)
