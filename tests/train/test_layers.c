/* SPDX-License-Identifier: Apache-2.0 */
/* Layers over sequences, depthwise convolutions, padding, larger images, slopes: steps against PyTorch
 * (make_layers_trajectory.py), replicas, files. Layers of noise by what they must do. Mistakes. */
#include <ringfire/interchange.h>

#include "test_folder.h"
#include "tests/room.h"
#include "trajectory.h"

static trajectory sequences;

static int open_both(void **state)
{
    trajectory_load(FIXTURES "/layers_sequences.traj", &sequences);
    return trajectory_open(state);
}

static int close_both(void **state)
{
    trajectory_free(&sequences);
    return trajectory_close(state);
}

static rf_model *image_model(rf_strategy *strategy)
{
    enum { LAYERS = 10 };
    static const int32_t zeros[] = { 1, 0, 2, 1 }, factor[] = { 3, 2 }, shared[] = { 1, -2 };
    rf_layer *l[LAYERS];
    rf_model *model;
    OK(rf_layer_zero_padding2d(zeros, &l[0]));
    OK(rf_layer_depthwise_conv2d(
        &(rf_depthwise_conv2d_params){
            .kernel_size = { 3 }, .depth_multiplier = 2, .conv.stride = { 2, 2 }, .activation = RF_ACTIVATION_SILU },
        &l[1]));
    OK(rf_layer_prelu(&(rf_prelu_params){ .shared_axes = shared, .num_shared_axes = 2 }, &l[2]));
    OK(rf_layer_upsample2d(factor, RF_INTERPOLATION_BILINEAR, &l[3]));
    OK(rf_layer_separable_conv2d(&(rf_separable_conv2d_params){ .filters = 6,
                                                                .kernel_size = { 3, 2 },
                                                                .depth_multiplier = 2,
                                                                .conv.padding = RF_PADDING_SAME,
                                                                .activation = RF_ACTIVATION_GELU_TANH },
                                 &l[4]));
    OK(rf_layer_leaky_relu(0, &l[5]));
    OK(rf_layer_upsample2d(NULL, RF_INTERPOLATION_NEAREST, &l[6]));
    OK(rf_layer_depthwise_conv2d(
        &(rf_depthwise_conv2d_params){ .kernel_size = { 2 },
                                       .conv = { .padding = RF_PADDING_SAME, .dilation = { 2, 2 } },
                                       .activation = RF_ACTIVATION_SOFTPLUS,
                                       .no_bias = true },
        &l[7]));
    OK(rf_layer_global_max_pool2d(&l[8]));
    OK(rf_layer_dense(&(rf_dense_params){ .units = 4 }, &l[9]));
    OK(rf_model_create_sequential(strategy, l, LAYERS, &RF_SHAPE(7, 6, 4), &model));
    return model;
}

static rf_model *sequence_model(rf_strategy *strategy)
{
    enum { LAYERS = 11 };
    static const int32_t zeros[] = { 1, 2 };
    rf_layer *l[LAYERS];
    rf_model *model;
    OK(rf_layer_zero_padding1d(zeros, &l[0]));
    OK(rf_layer_conv1d(
        &(rf_conv1d_layer_params){
            .filters = 8, .kernel_size = 3, .causal = true, .dilation = 2, .activation = RF_ACTIVATION_ELU },
        &l[1]));
    OK(rf_layer_max_pool1d(NULL, &l[2]));
    OK(rf_layer_conv1d(
        &(rf_conv1d_layer_params){
            .filters = 8, .kernel_size = 4, .padding = RF_PADDING_SAME, .groups = 2, .activation = RF_ACTIVATION_SELU },
        &l[3]));
    OK(rf_layer_prelu(NULL, &l[4]));
    OK(rf_layer_avg_pool1d(&(rf_pool1d_params){ .window = 3, .stride = 2, .padding = RF_PADDING_SAME }, &l[5]));
    OK(rf_layer_conv1d(&(rf_conv1d_layer_params){ .filters = 12, .kernel_size = 2, .stride = 2, .no_bias = true },
                       &l[6]));
    OK(rf_layer_global_avg_pool1d(&l[7]));
    OK(rf_layer_reshape(RF_SHAPE(3, 4), &l[8]));
    OK(rf_layer_global_max_pool1d(&l[9]));
    OK(rf_layer_dense(&(rf_dense_params){ .units = 4 }, &l[10]));
    OK(rf_model_create_sequential(strategy, l, LAYERS, &RF_SHAPE(17, 6), &model));
    return model;
}

/* ---- steps ---- */

static void follow(rf_strategy *strategy, rf_model *model, const trajectory *reference)
{
    trajectory_follow_classifier(reference, strategy, model, &(rf_optimizer_params){ .kind = RF_OPTIMIZER_ADAM });
    rf_model_destroy(&model);
}

static void images_follow(rf_strategy *strategy)
{
    follow(strategy, image_model(strategy), &trajectory_reference);
}
ON_ONE(images_follow)
ON_TWO(images_follow)

static void sequences_follow(rf_strategy *strategy)
{
    follow(strategy, sequence_model(strategy), &sequences);
}
ON_ONE(sequences_follow)
ON_TWO(sequences_follow)

/* ---- files and summaries ---- */

enum { RESULTS = 8 * 4 };

static void predict(rf_model *model, const rf_array *x, float *y)
{
    rf_dataset *slices, *data;
    rf_array is;
    OK(rf_dataset_from_arrays(&(rf_dataset_arrays_params){ .arrays = x, .num_arrays = 1 }, &slices));
    OK(rf_dataset_batch(slices, 8, RF_REMAINDER_KEEP, &data));
    OK(rf_model_predict(model, data, &is));
    assert_int_equal(rf_shape_count(is.shape), RESULTS);
    memcpy(y, is.data, RESULTS * sizeof(*y));
    rf_array_free(&is);
    rf_dataset_destroy(&data);
    rf_dataset_destroy(&slices);
}

/* Saved and loaded it gives the same bits; exported, the same numbers. */
static void check_files(rf_strategy *strategy, rf_model *model, const trajectory *reference)
{
    const rf_array *x = &reference->batches[0].component[0];
    float expected[RESULTS], got[RESULTS];
    rf_model *loaded;
    rf_inference *inference;
    rf_array y = { 0 };
    trajectory_assign(reference, model);
    predict(model, x, expected);
    OK(rf_model_save(model, in_folder("model"), NULL));
    OK(rf_model_load(strategy, in_folder("model"), &loaded));
    predict(loaded, x, got);
    assert_memory_equal(got, expected, sizeof(got));
    rf_model_destroy(&loaded);
    OK(rf_model_export(model, in_folder("inference"), NULL));
    OK(rf_inference_load(in_folder("inference"), &(rf_inference_params){ .strategy = strategy }, &inference));
    OK(rf_inference_run(inference, x, &y));
    for (int i = 0; i < RESULTS; i++) assert_near(((const float *)y.data)[i], expected[i], 1e-5, 1e-5, "inference");
    rf_array_free(&y);
    rf_inference_destroy(&inference);
    OK(rf_model_export_onnx(model, in_folder("model.onnx")));
}

static void check_summary(rf_model *model, const char *const *rows, size_t count, uint64_t parameters)
{
    char *summary;
    OK(rf_model_summary(model, &summary));
    for (size_t i = 0; i < count; i++)
        if (!strstr(summary, rows[i])) fail_msg("'%s' is not in:\n%s", rows[i], summary);
    rf_string_free(summary);
    assert_int_equal(trajectory_count_trainable(model), parameters);
}

static void lasts(rf_strategy *strategy)
{
    static const char *const image_rows[] = {
        "zero_padding2d (ZeroPadding2D)",
        "depthwise_conv2d (DepthwiseConv2D)",
        "p_re_lu (PReLU)",
        "up_sampling2d (UpSampling2D)",
        "separable_conv2d (SeparableConv2D)",
        "leaky_re_lu (LeakyReLU)",
        "[n,18,16,6]",
        "global_max_pooling2d (GlobalMaxPooling2D)",
    };
    static const char *const sequence_rows[] = {
        "zero_padding1d (ZeroPadding1D)",
        "conv1d (Conv1D)",
        "max_pooling1d (MaxPooling1D)",
        "average_pooling1d (AveragePooling1D)",
        "[n,2,12]",
        "global_average_pooling1d (GlobalAveragePooling1D)",
        "global_max_pooling1d (GlobalMaxPooling1D)",
    };
    rf_model *images = image_model(strategy), *steps = sequence_model(strategy);
    check_summary(images, image_rows, sizeof(image_rows) / sizeof(image_rows[0]), 338);
    check_summary(steps, sequence_rows, sizeof(sequence_rows) / sizeof(sequence_rows[0]), 580);
    check_files(strategy, images, &trajectory_reference);
    check_files(strategy, steps, &sequences);
    rf_model_destroy(&images);
    rf_model_destroy(&steps);
}
ON_TWO(lasts)

/* ---- noise ---- */

enum { N = 8, STEPS = 40, C = 25, COUNT = N * STEPS * C };

static rf_result noise_step(rf_trace *t, const rf_tensor *in, rf_tensor *out, void *user)
{
    rf_model *model = user;
    out[0] = rf_model_call(t, model, in[0], RF_TRAINING);
    out[1] = rf_model_call(t, model, in[0], RF_INFERENCE);
    return rf_trace_status(t);
}

/* Makes of ones what a layer does in training; in inference, and once read from a file, it leaves them alone. */
static void disturb(rf_strategy *strategy, rf_layer *layer, rf_shape shape, float *y)
{
    static float ones[COUNT];
    rf_model *made, *model;
    rf_function *function;
    rf_per_replica *results[2];
    rf_array is[2];
    rf_shape example = { .rank = shape.rank - 1 };
    for (int i = 0; i < COUNT; i++) ones[i] = 1;
    for (int32_t i = 1; i < shape.rank; i++) example.dim[i - 1] = shape.dim[i];
    OK(rf_model_create_sequential(strategy, &layer, 1, &example, &made));
    OK(rf_model_save(made, in_folder("model"), NULL));
    OK(rf_model_load(strategy, in_folder("model"), &model));
    rf_model_destroy(&made);
    OK(rf_function_create(
        strategy, &(rf_function_params){ .step = noise_step, .user = model, .num_outputs = 2, .training = true },
        &function));
    const rf_element batch = { .num_components = 1, .component = { array_f32(shape, ones) } };
    OK(rf_strategy_run(strategy, function, &batch, results));
    for (int k = 0; k < 2; k++) OK(rf_strategy_gather(strategy, results[k], &is[k]));
    memcpy(y, is[0].data, sizeof(ones));
    assert_memory_equal(is[1].data, ones, sizeof(ones));
    for (int k = 0; k < 2; k++) rf_array_free(&is[k]);
    rf_function_destroy(&function);
    rf_model_destroy(&model);
}

/* Mean, deviation, what is further than two of these from the mean, and what neighbours have in common: within five of
 * their own deviations. */
static void check_normal(const float *y, double mean, double deviation)
{
    double sum = 0, squares = 0, products = 0;
    int far = 0;
    for (int i = 0; i < COUNT; i++) {
        const double d = ((double)y[i] - mean) / deviation;
        far += fabs(d) > 2;
        if (i > 0) products += d * ((double)y[i - 1] - mean) / deviation;
    }
    assert_near(far, 0.0455 * COUNT, 0, 5 * sqrt(0.0455 * 0.9545 * COUNT), "far from the mean");
    assert_near(products / COUNT, 0, 0, 5 / sqrt(COUNT), "neighbours");
    for (int i = 0; i < COUNT; i++) sum += (double)y[i];
    for (int i = 0; i < COUNT; i++) squares += ((double)y[i] - sum / COUNT) * ((double)y[i] - sum / COUNT);
    assert_near(sum / COUNT, mean, 0, 5 * deviation / sqrt(COUNT), "mean");
    assert_near(sqrt(squares / COUNT), deviation, 0, 5 * deviation / sqrt(2.0 * COUNT), "deviation");
}

/* Channels of an example are 0 or 1 / (1 - rate) throughout, about half of each. */
static void check_channels(const float *y, int32_t places)
{
    int kept = 0;
    for (int n = 0; n < COUNT / places / C; n++)
        for (int c = 0; c < C; c++) {
            const float first = y[n * places * C + c];
            assert_true(first == 0.0f || first == 2.0f);
            kept += first == 2.0f;
            for (int p = 0; p < places; p++) assert_true(y[(n * places + p) * C + c] == first);
        }
    assert_in_range(kept, N * C / 3, N * C * 2 / 3);
}

static void disturbs(rf_strategy *strategy)
{
    static float y[COUNT], again[COUNT];
    const rf_shape sequence = RF_SHAPE(N, STEPS, C), image = RF_SHAPE(N, STEPS / 8, 8, C);
    rf_layer *layer;
    OK(rf_layer_gaussian_noise(0.5f, 7, &layer));
    disturb(strategy, layer, sequence, y);
    check_normal(y, 1, 0.5);
    OK(rf_layer_gaussian_noise(0.5f, 8, &layer));
    disturb(strategy, layer, sequence, again);
    assert_memory_not_equal(y, again, sizeof(y)); /* another seed */
    OK(rf_layer_gaussian_dropout(0.2f, 7, &layer));
    disturb(strategy, layer, image, y);
    check_normal(y, 1, 0.5); /* sqrt(0.2 / 0.8) */
    OK(rf_layer_spatial_dropout1d(0.5f, 7, &layer));
    disturb(strategy, layer, sequence, y);
    check_channels(y, STEPS);
    OK(rf_layer_spatial_dropout2d(0.5f, 7, &layer));
    disturb(strategy, layer, image, y);
    check_channels(y, STEPS);
}
ON_TWO(disturbs)

/* Computes what a layer makes of x, and its gradient. */
static rf_result slope_step(rf_trace *t, const rf_tensor *in, rf_tensor *out, void *user)
{
    out[0] = rf_model_call(t, user, in[0], RF_TRAINING);
    return rf_gradients(t, rf_reduce_sum(t, out[0], NULL, 0, RF_DROP_DIMS), in, 1, &out[1]);
}

static void disturb_twice(rf_strategy *strategy, rf_layer *layer, float *x, float y[2][COUNT], float *slope)
{
    const rf_shape image = RF_SHAPE(N, STEPS / 8, 8, C);
    const rf_element batch = { .num_components = 1, .component = { array_f32(image, x) } };
    rf_model *model;
    rf_function *function;
    rf_per_replica *results[2];
    rf_array is[2];
    OK(rf_model_create_sequential(strategy, &layer, 1, &RF_SHAPE(STEPS / 8, 8, C), &model));
    OK(rf_function_create(
        strategy, &(rf_function_params){ .step = slope_step, .user = model, .num_outputs = 2, .training = true },
        &function));
    for (int run = 0; run < 2; run++) {
        OK(rf_strategy_run(strategy, function, &batch, results));
        for (int k = 0; k < 2; k++) OK(rf_strategy_gather(strategy, results[k], &is[k]));
        memcpy(y[run], is[0].data, sizeof(y[0]));
        memcpy(slope, is[1].data, sizeof(y[0])); /* of the last run */
        for (int k = 0; k < 2; k++) rf_array_free(&is[k]);
    }
    assert_memory_not_equal(y[0], y[1], sizeof(y[0])); /* other noise in each step */
    rf_function_destroy(&function);
    rf_model_destroy(&model);
}

/* Noise is added whatever the numbers are, or multiplies them; and what it multiplied, its gradient multiplies too. */
static void passes_gradients(rf_strategy *strategy)
{
    static float x[COUNT], y[2][COUNT], slope[COUNT], difference[COUNT];
    static const float values[] = { 2, 0, -1, 0.5f };
    rf_layer *layer;
    double common = 0, squares = 0;
    for (int i = 0; i < COUNT; i++) x[i] = values[i % 4];
    OK(rf_layer_gaussian_noise(0.5f, 3, &layer));
    disturb_twice(strategy, layer, x, y, slope);
    for (int i = 0; i < COUNT; i++) {
        difference[i] = y[1][i] - x[i];
        common += (double)difference[i] * (double)x[i];
        squares += (double)x[i] * (double)x[i];
        assert_true(slope[i] == 1.0f);
    }
    check_normal(difference, 0, 0.5);
    assert_near(common, 0, 0, 5 * 0.5 * sqrt(squares), "noise and numbers");
    OK(rf_layer_gaussian_dropout(0.2f, 3, &layer));
    disturb_twice(strategy, layer, x, y, slope);
    check_normal(slope, 1, 0.5);
    for (int i = 0; i < COUNT; i++) assert_near((double)y[1][i], (double)slope[i] * (double)x[i], 1e-6, 0, "y");
    OK(rf_layer_spatial_dropout2d(0.5f, 3, &layer));
    disturb_twice(strategy, layer, x, y, slope);
    check_channels(slope, STEPS);
    for (int i = 0; i < COUNT; i++) assert_true(y[1][i] == slope[i] * x[i]);
}
ON_TWO(passes_gradients)

/* ---- mistakes ---- */

static void refuse_input(rf_strategy *strategy, rf_layer *layer, rf_dtype dtype, rf_shape example, const char *part)
{
    rf_model *model;
    OK(rf_model_create_sequential(strategy, &layer, 1, NULL, &model));
    FAILS(rf_model_build_for(model, dtype, example), RF_ERROR_INVALID_ARGUMENT, part);
    assert_null(strchr(rf_error_message(), '\n'));
    rf_model_destroy(&model);
}

/* Built for one shape, it does not take another. */
static void refuse_other(rf_strategy *strategy, rf_layer *layer, rf_shape example, rf_shape other, const char *part)
{
    static float zeros[COUNT];
    rf_model *model;
    rf_function *function;
    OK(rf_model_create_sequential(strategy, &layer, 1, &example, &model));
    OK(rf_function_create(strategy, &(rf_function_params){ .step = noise_step, .user = model, .num_outputs = 2 },
                          &function));
    const rf_element batch = { .num_components = 1, .component = { array_f32(other, zeros) } };
    FAILS(rf_strategy_run(strategy, function, &batch, NULL), RF_ERROR_INVALID_ARGUMENT, part);
    rf_function_destroy(&function);
    rf_model_destroy(&model);
}

static void refuses_inputs(rf_strategy *strategy)
{
    const int32_t third = 3;
    rf_layer *l;
    rf_conv1d_layer_params conv = { .filters = 4, .kernel_size = 3, .dilation = 2, .groups = 2, .name = "mine" };
    OK(rf_layer_conv1d(&conv, &l));
    refuse_input(strategy, l, RF_F32, RF_SHAPE(5), "layer 'mine' needs sequences [n, steps, channels], got [");
    OK(rf_layer_conv1d(&conv, &l));
    refuse_input(strategy, l, RF_I32, RF_SHAPE(9, 2), "layer 'mine' takes f32, got i32");
    OK(rf_layer_conv1d(&conv, &l));
    refuse_input(strategy, l, RF_F32, RF_SHAPE(4, 2),
                 "layer 'mine' has a kernel that spans 5 steps, more than its input");
    OK(rf_layer_conv1d(&conv, &l));
    refuse_input(strategy, l, RF_F32, RF_SHAPE(9, 3), "cannot be divided into 2 groups");
    OK(rf_layer_max_pool1d(&(rf_pool1d_params){ .window = 4 }, &l));
    refuse_input(strategy, l, RF_F32, RF_SHAPE(3, 2), "layer 'max_pooling1d' has windows of 4 steps, more than");
    OK(rf_layer_depthwise_conv2d(&(rf_depthwise_conv2d_params){ .kernel_size = { 2, 5 }, .name = "deep" }, &l));
    refuse_input(strategy, l, RF_F32, RF_SHAPE(4, 4, 1), "layer 'deep' has a kernel that spans 5 columns, more than");
    OK(rf_layer_separable_conv2d(&(rf_separable_conv2d_params){ .filters = 1, .kernel_size = { 5, 1 } }, &l));
    refuse_input(strategy, l, RF_F32, RF_SHAPE(4, 4, 1), "layer 'separable_conv2d' has a kernel that spans 5 rows");
    OK(rf_layer_global_max_pool2d(&l));
    refuse_input(strategy, l, RF_F32, RF_SHAPE(4, 4), "needs images [n, height, width, channels], got [");
    OK(rf_layer_zero_padding2d((const int32_t[]){ INT32_MAX, INT32_MAX, INT32_MAX, INT32_MAX }, &l));
    refuse_input(strategy, l, RF_F32, RF_SHAPE(4, 4, 1), "layer 'zero_padding2d' cannot add so many zeros");
    OK(rf_layer_upsample2d(NULL, RF_INTERPOLATION_NEAREST, &l));
    refuse_input(strategy, l, RF_F32, RF_SHAPE(4, 4), "layer 'up_sampling2d' needs images");
    OK(rf_layer_prelu(&(rf_prelu_params){ .shared_axes = &third, .num_shared_axes = 1 }, &l));
    refuse_input(strategy, l, RF_F32, RF_SHAPE(4, 4), "layer 'p_re_lu' shares alpha along axis 3, which its input");
    OK(rf_layer_spatial_dropout2d(0.5f, 0, &l));
    refuse_input(strategy, l, RF_F32, RF_SHAPE(4, 4), "layer 'spatial_dropout2d' needs images");
    OK(rf_layer_conv1d(&(rf_conv1d_layer_params){ .filters = 4, .kernel_size = 3, .name = "mine" }, &l));
    refuse_other(strategy, l, RF_SHAPE(9, 2), RF_SHAPE(2, 9, 4), "layer 'mine' was built for 2 channels, got [");
    OK(rf_layer_depthwise_conv2d(&(rf_depthwise_conv2d_params){ .kernel_size = { 2 } }, &l));
    refuse_other(strategy, l, RF_SHAPE(4, 4, 2), RF_SHAPE(2, 4, 4, 3),
                 "layer 'depthwise_conv2d' was built for 2 channels, got [");
    OK(rf_layer_prelu(NULL, &l));
    refuse_other(strategy, l, RF_SHAPE(4, 2), RF_SHAPE(2, 3, 2),
                 "layer 'p_re_lu' was built with slopes [4,2], which do");
    OK(rf_layer_gaussian_noise(1, 0, &l));
    refuse_input(strategy, l, RF_I32, RF_SHAPE(4), "layer 'gaussian_noise' takes f32, got i32");
    OK(rf_layer_token_positions(1, &l));
    refuse_input(strategy, l, RF_F32, RF_SHAPE(4), "layer 'token_positions' needs tokens i32 [n, steps], got f32 [");
    OK(rf_layer_class_token(NULL, NULL, &l));
    refuse_input(strategy, l, RF_F32, RF_SHAPE(4), "layer 'class_token' needs sequences");
    OK(rf_layer_class_token(NULL, "first", &l));
    refuse_other(strategy, l, RF_SHAPE(4, 2), RF_SHAPE(2, 4, 3), "layer 'first' was built for 2 features, got [");
}
ON_ONE(refuses_inputs)

/* ---- the operation ---- */

static rf_result enlarge_step(rf_trace *t, const rf_tensor *in, rf_tensor *out, void *user)
{
    const int32_t *factor_and_interpolation = user;
    out[0] = rf_upsample2d(t, in[0], factor_and_interpolation, (rf_interpolation)factor_and_interpolation[2]);
    return rf_trace_status(t);
}

static void refuse_enlarging(rf_strategy *strategy, int32_t *numbers, rf_shape shape, const char *part)
{
    float x[24] = { 0 };
    rf_function *function;
    OK(rf_function_create(strategy, &(rf_function_params){ .step = enlarge_step, .user = numbers, .num_outputs = 1 },
                          &function));
    const rf_element batch = { .num_components = 1, .component = { array_f32(shape, x) } };
    FAILS(rf_strategy_run(strategy, function, &batch, NULL), RF_ERROR_INVALID_ARGUMENT, part);
    rf_function_destroy(&function);
}

static void enlarges(rf_strategy *strategy)
{
    enum { ROWS = 3, COLUMNS = 2, HIGH = 6, WIDE = 6 };
    int32_t numbers[3] = { 2, 3, RF_INTERPOLATION_NEAREST };
    float x[4 * ROWS * COLUMNS];
    rf_function *function;
    rf_per_replica *result;
    rf_array y;
    for (int i = 0; i < 4 * ROWS * COLUMNS; i++) x[i] = (float)i;
    OK(rf_function_create(strategy, &(rf_function_params){ .step = enlarge_step, .user = numbers, .num_outputs = 1 },
                          &function));
    const rf_element batch = { .num_components = 1, .component = { array_f32(RF_SHAPE(4, ROWS, COLUMNS, 1), x) } };
    OK(rf_strategy_run(strategy, function, &batch, &result));
    OK(rf_strategy_gather(strategy, result, &y));
    assert_true(rf_shape_equal(y.shape, RF_SHAPE(4, HIGH, WIDE, 1)));
    for (int i = 0; i < 4 * HIGH * WIDE; i++) {
        const int n = i / (HIGH * WIDE), row = i / WIDE % HIGH, column = i % WIDE;
        assert_true(((const float *)y.data)[i] == x[(n * ROWS + row / 2) * COLUMNS + column / 3]);
    }
    rf_array_free(&y);
    rf_function_destroy(&function);
    refuse_enlarging(strategy, numbers, RF_SHAPE(4, 3, 2), "upsample2d: needs f32 images [n, h, w, c], got f32 [");
    refuse_enlarging(strategy, (int32_t[]){ 2, 5000, 0 }, RF_SHAPE(4, 3, 2, 1), "upsample2d: factors are 2 and 5000");
    refuse_enlarging(strategy, (int32_t[]){ 2, 2, 3 }, RF_SHAPE(4, 3, 2, 1),
                     "upsample2d: interpolation 3 does not exist");
}
ON_TWO(enlarges)

/* ---- mistakes in parameters ---- */

#define REFUSES(call, part) FAILS(call, RF_ERROR_INVALID_ARGUMENT, part)

static void refuses_params(void **state)
{
    (void)state;
    const int32_t batch_axis = 0, negative[4] = { 0, 0, 0, -1 }, nothing[2] = { 2, 0 };
    rf_layer *l;
    REFUSES(rf_layer_conv1d(NULL, &l), "rf_layer_conv1d: params is NULL; filters and kernel_size have no default");
    REFUSES(rf_layer_conv1d(&(rf_conv1d_layer_params){ .filters = 3 }, &l), "kernel_size is 0, must be positive");
    REFUSES(rf_layer_conv1d(&(rf_conv1d_layer_params){ .filters = 3, .kernel_size = 1, .groups = 2 }, &l),
            "filters 3 is not a multiple of groups 2");
    REFUSES(rf_layer_conv1d(
                &(rf_conv1d_layer_params){ .filters = 3, .kernel_size = 1, .causal = true, .padding = RF_PADDING_SAME },
                &l),
            "causal has a padding of its own");
    REFUSES(rf_layer_conv1d(&(rf_conv1d_layer_params){ .filters = 3, .kernel_size = 1, .padding = RF_PADDING_EXPLICIT },
                            &l),
            "use rf_layer_zero_padding1d() for others");
    REFUSES(rf_layer_avg_pool1d(&(rf_pool1d_params){ .window = -1 }, &l), "rf_layer_avg_pool1d: window -1");
    REFUSES(rf_layer_depthwise_conv2d(&(rf_depthwise_conv2d_params){ .kernel_size = { 3 }, .conv.groups = 2 }, &l),
            "rf_layer_depthwise_conv2d: conv.groups is 2; leave it 0");
    REFUSES(rf_layer_separable_conv2d(&(rf_separable_conv2d_params){ .kernel_size = { 3 } }, &l),
            "rf_layer_separable_conv2d: filters is 0, must be positive");
    REFUSES(rf_layer_zero_padding2d(negative, &l), "rf_layer_zero_padding2d: padding[3] is -1");
    REFUSES(rf_layer_upsample2d(nothing, RF_INTERPOLATION_NEAREST, &l), "factor[1] is 0, must be 1 to 512");
    REFUSES(rf_layer_upsample2d(NULL, (rf_interpolation)2, &l), "interpolation 2 does not exist");
    REFUSES(rf_layer_leaky_relu(-1, &l), "rf_layer_leaky_relu: negative_slope -1");
    REFUSES(rf_layer_prelu(&(rf_prelu_params){ .shared_axes = &batch_axis, .num_shared_axes = 1 }, &l),
            "rf_layer_prelu: shared_axes[0] is 0; axes are 1 to 5, or negative");
    REFUSES(rf_layer_prelu(&(rf_prelu_params){ .num_shared_axes = 1 }, &l), "shared_axes is NULL");
    REFUSES(rf_layer_token_positions(-1, &l), "rf_layer_token_positions: padding is -1, must not be negative");
    REFUSES(rf_layer_class_token(&(rf_initializer){ .kind = (rf_initializer_kind)99 }, NULL, &l),
            "rf_layer_class_token: initializer");
    REFUSES(rf_layer_gaussian_noise(-1, 0, &l), "rf_layer_gaussian_noise: stddev -1");
    REFUSES(rf_layer_gaussian_dropout(1, 0, &l), "rf_layer_gaussian_dropout: rate 1 is not in [0, 1)");
    REFUSES(rf_layer_spatial_dropout1d(-1, 0, &l), "rf_layer_spatial_dropout1d: rate -1 is not in [0, 1)");
}

TEST_PROGRAM(layers)
{
    trajectory_file = FIXTURES "/layers_images.traj";
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(images_follow_on_one),
        cmocka_unit_test(images_follow_on_two),
        cmocka_unit_test(sequences_follow_on_one),
        cmocka_unit_test(sequences_follow_on_two),
        cmocka_unit_test_setup_teardown(lasts_on_two, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(disturbs_on_two, make_folder, remove_folder),
        cmocka_unit_test(passes_gradients_on_two),
        cmocka_unit_test(enlarges_on_two),
        cmocka_unit_test(refuses_inputs_on_one),
        cmocka_unit_test(refuses_params),
    };
    return cmocka_run_group_tests(tests, open_both, close_both);
}
