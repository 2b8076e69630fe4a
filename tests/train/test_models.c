/* SPDX-License-Identifier: Apache-2.0 */
/* Layers and models: names, shapes, building, custom models, dropout, contract. */
#include "../support/folder.h"
#include "../support/strategies.h"
#include "tests/room.h"

/* ---- names, shapes, initial values ---- */

static void seed_cnn(rf_strategy *strategy, const rf_shape *input, rf_model **model)
{
    rf_layer *l[8];
    OK(rf_layer_conv2d(
        &(rf_conv2d_layer_params){ .filters = 32, .kernel_size = { 3 }, .activation = RF_ACTIVATION_RELU }, &l[0]));
    OK(rf_layer_max_pool2d(NULL, &l[1]));
    OK(rf_layer_conv2d(
        &(rf_conv2d_layer_params){ .filters = 64, .kernel_size = { 3, 2 }, .no_bias = true, .name = "second" }, &l[2]));
    OK(rf_layer_avg_pool2d(&(rf_pool2d_params){ .window = { 3, 2 } }, &l[3]));
    OK(rf_layer_flatten(&l[4]));
    OK(rf_layer_dropout(0.25f, 0, &l[5]));
    OK(rf_layer_dense(
        &(rf_dense_params){ .units = 16, .bias_initializer = &(rf_initializer){ RF_INIT_CONSTANT, 0.5f, 0, 0 } },
        &l[6]));
    OK(rf_layer_dense(&(rf_dense_params){ .units = 10 }, &l[7]));
    OK(rf_model_create_sequential(strategy, l, 8, input, model));
}

static void names_and_shapes(rf_strategy *strategy)
{
    rf_model *model;
    seed_cnn(strategy, &RF_SHAPE(28, 28, 1), &model);
    const rf_variable_list list = rf_model_variables(model);
    /* 13 x 13 after the first pooling, 11 x 12 after the second convolution, 3 x 6 after the second pooling. */
    static const char *const names[] = { "conv2d/kernel", "conv2d/bias",    "second/kernel", "dense/kernel",
                                         "dense/bias",    "dense_1/kernel", "dense_1/bias" };
    const rf_shape shapes[] = {
        RF_SHAPE(3, 3, 1, 32), RF_SHAPE(32), RF_SHAPE(3, 2, 32, 64), RF_SHAPE(3 * 6 * 64, 16), RF_SHAPE(16),
        RF_SHAPE(16, 10),      RF_SHAPE(10)
    };
    assert_int_equal(list.count, 7);
    uint64_t total = 0;
    for (int i = 0; i < 7; i++) {
        assert_string_equal(rf_variable_name(list.items[i]), names[i]);
        assert_true(rf_shape_equal(rf_variable_shape(list.items[i]), shapes[i]));
        total += (uint64_t)rf_shape_count(shapes[i]);
    }
    assert_int_equal(rf_model_num_params(model), total);
    /* Glorot uniform: l = sqrt(6 / (9 * 1 + 9 * 32)); zero bias; the bias that was asked for. */
    float kernel[3 * 3 * 32], bias[32];
    OK(rf_variable_read(list.items[0], kernel));
    const double limit = sqrt(6.0 / (9.0 + 288.0));
    double largest = 0.0;
    for (int i = 0; i < 288; i++) {
        const double size = fabs((double)kernel[i]);
        if (size > largest) largest = size; /* gcc 12 for aarch64 breaks down over fmax() here */
    }
    assert_true(largest <= limit && largest > 0.9 * limit);
    OK(rf_variable_read(list.items[1], bias));
    for (int i = 0; i < 32; i++) assert_true(bias[i] == 0.0f);
    OK(rf_variable_read(list.items[4], bias));
    for (int i = 0; i < 16; i++) assert_true(bias[i] == 0.5f);

    char *text;
    OK(rf_model_summary(model, &text));
    static const char *const parts[] = { "conv2d (Conv2D)",
                                         "[n,26,26,32]",
                                         "max_pooling2d (MaxPooling2D)",
                                         "[n,13,13,32]",
                                         "second (Conv2D)",
                                         "[n,11,12,64]",
                                         "average_pooling2d (AveragePooling2D)",
                                         "[n,3,6,64]",
                                         "flatten (Flatten)",
                                         "[n,1152]",
                                         "dropout (Dropout)",
                                         "dense_1 (Dense)",
                                         "[n,10]",
                                         "total parameters: 31226\n" };
    for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
        if (!strstr(text, parts[i])) fail_msg("'%s' is not in\n%s", parts[i], text);
    }
    rf_string_free(text);
    OK(rf_model_build(model, RF_SHAPE(28, 28, 1)));
    FAILS(rf_model_build(model, RF_SHAPE(28, 28, 3)), RF_ERROR_INVALID_ARGUMENT, "[28,28,1]");
    rf_model_destroy(&model);
    rf_model_destroy(&model);
}

typedef struct caller {
    rf_model *model;
    rf_mode mode;
} caller;

static rf_result call_step(rf_trace *t, const rf_tensor *in, rf_tensor *out, void *user)
{
    const caller *c = user;
    out[0] = rf_model_call(t, c->model, in[0], c->mode);
    return rf_trace_status(t);
}

/* The model's output for a batch, gathered. */
static rf_array call_model(rf_strategy *strategy, rf_model *model, rf_mode mode, bool training, rf_array x)
{
    caller c = { model, mode };
    rf_function *function;
    const rf_function_params params = { .step = call_step, .user = &c, .num_outputs = 1, .training = training };
    OK(rf_function_create(strategy, &params, &function));
    rf_per_replica *result;
    rf_array out;
    OK(rf_strategy_run(strategy, function, &(rf_element){ 1, { x } }, &result));
    OK(rf_strategy_gather(strategy, result, &out));
    rf_function_destroy(&function);
    return out;
}

static void refuse_call(rf_strategy *strategy, rf_model *model, rf_array x, const char *part)
{
    caller c = { model, RF_INFERENCE };
    rf_function *function;
    OK(rf_function_create(strategy, &(rf_function_params){ .step = call_step, .user = &c, .num_outputs = 1 },
                          &function));
    FAILS(rf_strategy_run(strategy, function, &(rf_element){ 1, { x } }, NULL), RF_ERROR_INVALID_ARGUMENT, part);
    rf_function_destroy(&function);
}

/* Sizes as Keras has them; what is saved computes the same when it is loaded; a graph of it has a form in ONNX. */
static void transposed_convolutions(rf_strategy *strategy)
{
    rf_layer *l[3];
    rf_model *model, *loaded;
    char folder[SCRATCH_PATH], path[80];
    float images[2 * 3 * 4 * 2];
    OK(rf_layer_conv2d_transpose(
        &(rf_conv2d_layer_params){
            .filters = 4, .kernel_size = { 3 }, .conv = { .stride = { 2, 2 } }, .activation = RF_ACTIVATION_RELU },
        &l[0]));
    OK(rf_layer_conv2d_transpose(&(rf_conv2d_layer_params){ .filters = 3,
                                                            .kernel_size = { 5, 2 },
                                                            .conv = { .padding = RF_PADDING_SAME, .stride = { 3, 2 } },
                                                            .no_bias = true,
                                                            .name = "same" },
                                 &l[1]));
    OK(rf_layer_conv2d_transpose(
        &(rf_conv2d_layer_params){
            .filters = 2,
            .kernel_size = { 4 },
            .conv = { .padding = RF_PADDING_EXPLICIT, .explicit_padding = { 1, 1, 2, 0 }, .stride = { 2, 1 } } },
        &l[2]));
    OK(rf_model_create_sequential(strategy, l, 3, &RF_SHAPE(3, 4, 2), &model));
    assert_true(rf_shape_equal(rf_variable_shape(rf_model_variables(model).items[0]), RF_SHAPE(3, 3, 4, 2)));
    assert_true(rf_shape_equal(rf_variable_shape(rf_model_variables(model).items[2]), RF_SHAPE(5, 2, 3, 4)));
    for (uint32_t i = 0; i < sizeof(images) / sizeof(images[0]); i++) images[i] = (float)(i % 7) - 3;
    const rf_array x = { RF_F32, RF_SHAPE(2, 3, 4, 2), images };
    rf_array before = call_model(strategy, model, RF_INFERENCE, false, x);
    /* 7 x 9, then 21 x 18, then 42 x 19. */
    assert_true(rf_shape_equal(before.shape, RF_SHAPE(2, 42, 19, 2)));
    refuse_call(strategy, model, (rf_array){ RF_F32, RF_SHAPE(1, 3, 4, 4), images }, "built for 2 channels");
    scratch(folder);
    snprintf(path, sizeof(path), "%s/model.rfck", folder);
    OK(rf_model_save(model, path, NULL));
    OK(rf_model_load(strategy, path, &loaded));
    rf_array after = call_model(strategy, loaded, RF_INFERENCE, false, x);
    assert_memory_equal(before.data, after.data, (size_t)rf_shape_count(before.shape) * sizeof(float));
    snprintf(path, sizeof(path), "%s/model.onnx", folder);
    OK(rf_model_export_onnx(model, path));
    rf_array_free(&before);
    rf_array_free(&after);
    rf_model_destroy(&loaded);
    rf_model_destroy(&model);
    scratch_remove(folder);
}
TEST_ON_ONE(transposed_convolutions)

/* A shape that fits the first layer but not the second leaves nothing behind. */
static void built_after_a_failure(rf_strategy *strategy)
{
    rf_layer *l[2];
    OK(rf_layer_conv2d(&(rf_conv2d_layer_params){ .filters = 2, .kernel_size = { 1 } }, &l[0]));
    OK(rf_layer_conv2d(&(rf_conv2d_layer_params){ .filters = 2, .kernel_size = { 5 } }, &l[1]));
    rf_model *model;
    OK(rf_model_create_sequential(strategy, l, 2, NULL, &model));
    FAILS(rf_model_build(model, RF_SHAPE(4, 4, 3)), RF_ERROR_INVALID_ARGUMENT, "conv2d");
    assert_int_equal(rf_model_variables(model).count, 0);
    assert_int_equal(rf_model_num_params(model), 0);
    OK(rf_model_build(model, RF_SHAPE(6, 6, 1)));
    assert_int_equal(rf_model_variables(model).count, 4);
    rf_model_destroy(&model);
}

static void built_by_the_first_call(rf_strategy *strategy)
{
    rf_layer *l[2];
    OK(rf_layer_dense(&(rf_dense_params){ .units = 3 }, &l[0]));
    OK(rf_layer_dense(&(rf_dense_params){ .units = 2 }, &l[1]));
    rf_model *model;
    OK(rf_model_create_sequential(strategy, l, 2, NULL, &model));
    assert_int_equal(rf_model_variables(model).count, 0);
    assert_int_equal(rf_model_num_params(model), 0);
    char *text;
    OK(rf_model_summary(model, &text));
    assert_non_null(strstr(text, "?"));
    rf_string_free(text);
    float x[4 * 5];
    fill_noise(x, 20, 1);
    rf_array y = call_model(strategy, model, RF_INFERENCE, false, array_f32(RF_SHAPE(4, 5), x));
    assert_true(rf_shape_equal(y.shape, RF_SHAPE(4, 2)));
    assert_int_equal(rf_model_variables(model).count, 4);
    /* The same layers, now for other features: named, with both numbers. */
    refuse_call(strategy, model, array_f32(RF_SHAPE(5, 4), x), "'dense' was built for 5 features, got [");
    int32_t numbers[4 * 5] = { 0 };
    refuse_call(strategy, model, array_i32(RF_SHAPE(4, 5), numbers), "takes f32, got i32");
    rf_array_free(&y);
    rf_model_destroy(&model);
}

/* ---- custom models and small layers ---- */

typedef struct residual {
    rf_layer *inner, *last;
} residual;

static rf_tensor residual_call(rf_trace *t, rf_model *model, rf_tensor x, rf_mode mode, void *user)
{
    const residual *r = user;
    const rf_tensor h = rf_layer_call(t, model, r->inner, x, mode);
    return rf_layer_call(t, model, r->last, rf_add(t, x, rf_layer_call(t, model, r->inner, h, mode)), mode);
}

static rf_tensor doubled(rf_trace *t, rf_tensor x, void *user)
{
    return rf_multiply(t, x, rf_constant(t, *(const float *)user));
}

static void custom_model(rf_strategy *strategy)
{
    enum { N = 4, F = 3 };
    residual r;
    rf_model *model;
    OK(rf_model_create_custom(strategy, residual_call, &r, &model));
    OK(rf_layer_dense(&(rf_dense_params){ .units = F, .activation = RF_ACTIVATION_TANH }, &r.inner));
    OK(rf_model_add_layer(model, r.inner));
    float factor = 2.0f;
    OK(rf_layer_lambda(doubled, &factor, &r.last));
    OK(rf_model_add_layer(model, r.last));
    OK(rf_model_build(model, RF_SHAPE(F)));
    assert_int_equal(rf_model_variables(model).count, 2); /* the shared layer has one set of weights */
    float x[N * F], w[F * F];
    fill_noise(x, N * F, 9);
    OK(rf_variable_read(rf_model_variables(model).items[0], w));
    rf_array y = call_model(strategy, model, RF_INFERENCE, false, array_f32(RF_SHAPE(N, F), x));
    for (int n = 0; n < N; n++) {
        double h[F], g[F];
        for (int j = 0; j < F; j++) {
            h[j] = 0.0;
            for (int i = 0; i < F; i++) h[j] += (double)x[n * F + i] * (double)w[i * F + j];
            h[j] = tanh(h[j]);
        }
        for (int j = 0; j < F; j++) {
            g[j] = 0.0;
            for (int i = 0; i < F; i++) g[j] += h[i] * (double)w[i * F + j];
            assert_near(((float *)y.data)[n * F + j], 2.0 * ((double)x[n * F + j] + tanh(g[j])), 1e-5, 1e-6,
                        "residual");
        }
    }
    rf_array_free(&y);

    rf_layer *stranger;
    OK(rf_layer_flatten(&stranger));
    r.last = stranger;
    refuse_call(strategy, model, array_f32(RF_SHAPE(N, F), x), "rf_layer_call: layer");
    rf_layer_destroy(&stranger);
    rf_model_destroy(&model);
}

static void small_layers(rf_strategy *strategy)
{
    rf_layer *l[4];
    OK(rf_layer_reshape(RF_SHAPE(2, 2, -1), &l[0]));
    OK(rf_layer_activation(RF_ACTIVATION_RELU, &l[1]));
    OK(rf_layer_global_avg_pool2d(&l[2]));
    OK(rf_layer_activation(RF_ACTIVATION_SOFTMAX, &l[3]));
    rf_model *model;
    OK(rf_model_create_sequential(strategy, l, 4, &RF_SHAPE(12), &model));
    enum { N = 3 };
    float x[N * 12];
    fill_noise(x, N * 12, 4);
    rf_array y = call_model(strategy, model, RF_INFERENCE, false, array_f32(RF_SHAPE(N, 12), x));
    assert_true(rf_shape_equal(y.shape, RF_SHAPE(N, 3)));
    for (int n = 0; n < N; n++) {
        double mean[3] = { 0 }, sum = 0.0;
        for (int i = 0; i < 12; i++) mean[i % 3] += fmax(0.0, (double)x[n * 12 + i]) / 4.0;
        for (int c = 0; c < 3; c++) sum += exp(mean[c]);
        for (int c = 0; c < 3; c++) assert_near(((float *)y.data)[n * 3 + c], exp(mean[c]) / sum, 1e-5, 0.0, "softmax");
    }
    rf_array_free(&y);
    refuse_call(strategy, model, array_f32(RF_SHAPE(3, 10), x), "layer 'reshape' cannot reshape an example");
    rf_model_destroy(&model);
}

/* ---- dropout ---- */

enum { DROP_N = 64, DROP_F = 48 };

static rf_model *dropout_model(rf_strategy *strategy)
{
    rf_layer *l;
    OK(rf_layer_dropout(0.25f, 0, &l));
    rf_model *model;
    OK(rf_model_create_sequential(strategy, &l, 1, NULL, &model));
    return model;
}

static void dropout(rf_strategy *strategy)
{
    static float ones[DROP_N * DROP_F], mask_of_first[DROP_N * DROP_F];
    static bool have_first;
    for (int i = 0; i < DROP_N * DROP_F; i++) ones[i] = 1.0f;
    const rf_array x = array_f32(RF_SHAPE(DROP_N, DROP_F), ones);
    rf_model *model = dropout_model(strategy);
    for (int i = 0; i < 3; i++) {
        /* Inactive: inference mode in a training function, training mode outside of one, and both. */
        rf_array y = call_model(strategy, model, i == 1 ? RF_TRAINING : RF_INFERENCE, i == 0, x);
        assert_memory_equal(y.data, ones, sizeof(ones));
        rf_array_free(&y);
    }
    rf_array y = call_model(strategy, model, RF_TRAINING, true, x);
    int dropped = 0;
    const float *values = y.data;
    for (int i = 0; i < DROP_N * DROP_F; i++) {
        dropped += values[i] == 0.0f;
        assert_true(values[i] == 0.0f || fabs((double)values[i] - 4.0 / 3.0) < 1e-6);
    }
    assert_near(dropped / (double)(DROP_N * DROP_F), 0.25, 0.0, 0.03, "share of dropped elements");
    /* The same elements on every device and for every split. */
    for (int i = 0; i < DROP_N * DROP_F; i++) {
        if (have_first) assert_true((values[i] == 0.0f) == (mask_of_first[i] == 0.0f));
        mask_of_first[i] = values[i];
    }
    have_first = true;
    rf_array_free(&y);

    /* Another step, another mask. */
    caller c = { model, RF_TRAINING };
    rf_function *function;
    OK(rf_function_create(strategy,
                          &(rf_function_params){ .step = call_step, .user = &c, .num_outputs = 1, .training = true },
                          &function));
    for (int step = 0; step < 2; step++) {
        rf_per_replica *result;
        OK(rf_strategy_run(strategy, function, &(rf_element){ 1, { x } }, &result));
        OK(rf_strategy_gather(strategy, result, &y));
        int same = 0;
        for (int i = 0; i < DROP_N * DROP_F; i++) same += (((float *)y.data)[i] == 0.0f) == (mask_of_first[i] == 0.0f);
        assert_true(step == 0 ? same == DROP_N * DROP_F : same < DROP_N * DROP_F * 3 / 4);
        rf_array_free(&y);
    }
    rf_function_destroy(&function);
    rf_model_destroy(&model);
}

/* ---- contract ---- */

TEST(bad_layers)
{
    rf_layer *l;
    FAILS(rf_layer_dense(NULL, &l), RF_ERROR_INVALID_ARGUMENT, "params");
    FAILS(rf_layer_dense(&(rf_dense_params){ .units = 0 }, &l), RF_ERROR_INVALID_ARGUMENT, "units");
    FAILS(rf_layer_dense(&(rf_dense_params){ .units = 1, .activation = (rf_activation)77 }, &l),
          RF_ERROR_INVALID_ARGUMENT, "activation 77");
    FAILS(rf_layer_dense(&(rf_dense_params){ .units = 1, .kernel_regularizer = { -1.0f, 0.0f } }, &l),
          RF_ERROR_INVALID_ARGUMENT, "kernel_regularizer");
    FAILS(rf_layer_dense(&(rf_dense_params){ .units = 1, .no_bias = true, .bias_initializer = &(rf_initializer){ 0 } },
                         &l),
          RF_ERROR_INVALID_ARGUMENT, "bias_initializer");
    FAILS(
        rf_layer_dense(&(rf_dense_params){ .units = 1, .kernel_initializer = { .kind = (rf_initializer_kind)50 } }, &l),
        RF_ERROR_INVALID_ARGUMENT, "kernel_initializer");
    FAILS(rf_layer_dense(&(rf_dense_params){ .units = 1 }, NULL), RF_ERROR_INVALID_ARGUMENT, "out");
    FAILS(rf_layer_conv2d(&(rf_conv2d_layer_params){ .filters = 1 }, &l), RF_ERROR_INVALID_ARGUMENT, "kernel_size");
    FAILS(rf_layer_conv2d(&(rf_conv2d_layer_params){ .kernel_size = { 3 } }, &l), RF_ERROR_INVALID_ARGUMENT, "filters");
    FAILS(rf_layer_conv2d(&(rf_conv2d_layer_params){ .filters = 3, .kernel_size = { 3 }, .conv = { .groups = 2 } }, &l),
          RF_ERROR_INVALID_ARGUMENT, "groups");
    FAILS(rf_layer_conv2d(&(rf_conv2d_layer_params){ .filters = 3, .kernel_size = { 3 }, .conv = { .stride = { -1 } } },
                          &l),
          RF_ERROR_INVALID_ARGUMENT, "stride");
    FAILS(
        rf_layer_conv2d(
            &(rf_conv2d_layer_params){ .filters = 3, .kernel_size = { 3 }, .conv = { .explicit_padding = { 1 } } }, &l),
        RF_ERROR_INVALID_ARGUMENT, "explicit_padding");
    FAILS(
        rf_layer_conv2d(&(rf_conv2d_layer_params){ .filters = 3, .kernel_size = { 3 }, .conv = { .padding = 9 } }, &l),
        RF_ERROR_INVALID_ARGUMENT, "padding 9 does not exist");
    FAILS(rf_layer_max_pool2d(&(rf_pool2d_params){ .padding = 9 }, &l), RF_ERROR_INVALID_ARGUMENT,
          "padding 9 does not exist");
    FAILS(rf_layer_max_pool2d(&(rf_pool2d_params){ .window = { -2, 2 } }, &l), RF_ERROR_INVALID_ARGUMENT, "window");
    FAILS(rf_layer_reshape(RF_SHAPE(-1, -1), &l), RF_ERROR_INVALID_ARGUMENT, "shape");
    FAILS(rf_layer_reshape(RF_SHAPE(0), &l), RF_ERROR_INVALID_ARGUMENT, "shape");
    FAILS(rf_layer_dropout(1.0f, 0, &l), RF_ERROR_INVALID_ARGUMENT, "rate");
    FAILS(rf_layer_dropout(NAN, 0, &l), RF_ERROR_INVALID_ARGUMENT, "rate");
    FAILS(rf_layer_activation((rf_activation)-1, &l), RF_ERROR_INVALID_ARGUMENT, "activation");
    FAILS(rf_layer_lambda(NULL, NULL, &l), RF_ERROR_INVALID_ARGUMENT, "fn");
    assert_null(l);
    rf_layer_destroy(&l);
    rf_layer_destroy(NULL);
}

static rf_layer *dense_named(const char *name)
{
    rf_layer *l;
    OK(rf_layer_dense(&(rf_dense_params){ .units = 2, .name = name }, &l));
    return l;
}

static void bad_models(rf_strategy *strategy)
{
    rf_model *model;
    rf_layer *l[3] = { dense_named("a"), dense_named("a"), NULL };
    l[2] = l[1]; /* freed once, whatever is wrong */
    FAILS(rf_model_create_sequential(strategy, l, 3, NULL, &model), RF_ERROR_INVALID_ARGUMENT, "'a'");
    assert_null(model);
    l[0] = l[1] = dense_named("b");
    FAILS(rf_model_create_sequential(strategy, l, 2, NULL, &model), RF_ERROR_INVALID_ARGUMENT, "belongs to this model");
    FAILS(rf_model_create_sequential(strategy, (rf_layer *[]){ NULL }, 1, NULL, &model), RF_ERROR_INVALID_ARGUMENT,
          "layer 0");
    FAILS(rf_model_create_sequential(strategy, NULL, 0, NULL, &model), RF_ERROR_INVALID_ARGUMENT, "layers");
    l[0] = dense_named(NULL);
    FAILS(rf_model_create_sequential(NULL, l, 1, NULL, &model), RF_ERROR_INVALID_ARGUMENT, "strategy");
    l[0] = dense_named(NULL);
    FAILS(rf_model_create_sequential(strategy, l, 1, &RF_SHAPE(0), &model), RF_ERROR_INVALID_ARGUMENT, "input_shape");
    OK(rf_layer_conv2d(&(rf_conv2d_layer_params){ .filters = 2, .kernel_size = { 3 } }, &l[0]));
    FAILS(rf_model_create_sequential(strategy, l, 1, &RF_SHAPE(7), &model), RF_ERROR_INVALID_ARGUMENT,
          "'conv2d' needs images");
    FAILS(rf_model_create_custom(strategy, NULL, NULL, &model), RF_ERROR_INVALID_ARGUMENT, "call");
    l[0] = dense_named(NULL);
    FAILS(rf_model_add_layer(NULL, l[0]), RF_ERROR_INVALID_ARGUMENT, "model");
    /* A number that was taken by hand is left out. */
    l[0] = dense_named("dense_1");
    l[1] = dense_named(NULL);
    l[2] = dense_named(NULL);
    OK(rf_model_create_sequential(strategy, l, 3, &RF_SHAPE(2), &model));
    assert_string_equal(rf_variable_name(rf_model_variables(model).items[2]), "dense/kernel");
    assert_string_equal(rf_variable_name(rf_model_variables(model).items[4]), "dense_2/kernel");
    rf_layer *mine = l[1];
    rf_layer_destroy(&mine); /* the model's: stays */
    assert_null(mine);
    FAILS(rf_model_add_layer(model, l[1]), RF_ERROR_INVALID_ARGUMENT, "sequential");
    rf_strategy *other = NULL;
    OK(rf_strategy_create_one_device(NULL, &other));
    float x[4] = { 0 };
    refuse_call(other, model, array_f32(RF_SHAPE(2, 2), x), "another strategy");
    rf_strategy_destroy(&other);
    rf_model_destroy(&model);
    assert_int_equal(rf_model_variables(NULL).count, 0);
}

TEST_ON_ONE(names_and_shapes)
TEST_ON_ONE(built_after_a_failure)
TEST_ON_ONE(built_by_the_first_call)
TEST_ON_TWO(custom_model)
TEST_ON_ONE(small_layers)
TEST_ON_ALL(dropout)

/* ---- random numbers ---- */

enum { RANDOM_N = 64, RANDOM_F = 47, RANDOM_ALL = RANDOM_N * RANDOM_F };

static rf_result draw_step(rf_trace *t, const rf_tensor *in, rf_tensor *out, void *user)
{
    (void)user;
    out[0] = rf_random_uniform(t, in[0], -2, 3, 0);
    out[1] = rf_random_normal(t, in[0], 0);
    out[2] = rf_random_normal(t, in[0], 5);
    out[3] = rf_random_normal(t, in[0], 5);
    return rf_trace_status(t);
}

static void draw(rf_strategy *strategy, rf_function *function, float (*values)[RANDOM_ALL])
{
    static float zeros[RANDOM_ALL];
    rf_per_replica *results[4];
    OK(rf_strategy_run(strategy, function, &(rf_element){ 1, { array_f32(RF_SHAPE(RANDOM_N, RANDOM_F), zeros) } },
                       results));
    for (int i = 0; i < 4; i++) {
        rf_array y;
        OK(rf_strategy_gather(strategy, results[i], &y));
        memcpy(values[i], y.data, sizeof(values[i]));
        rf_array_free(&y);
    }
}

static double moment(const float *values, int power)
{
    double sum = 0;
    for (int i = 0; i < RANDOM_ALL; i++) sum += pow((double)values[i], power);
    return sum / RANDOM_ALL;
}

/* The moments of the distributions; the same on every device and for every split, but not in another step. */
static void random_numbers(rf_strategy *strategy)
{
    static float first[4][RANDOM_ALL], values[4][RANDOM_ALL], later[4][RANDOM_ALL];
    static bool have_first;
    rf_function *function;
    OK(rf_function_create(strategy, &(rf_function_params){ .step = draw_step, .num_outputs = 4, .training = true },
                          &function));
    draw(strategy, function, values);
    draw(strategy, function, later);
    for (int i = 0; i < RANDOM_ALL; i++) assert_true(values[0][i] > -2 && values[0][i] < 3);
    assert_near(moment(values[0], 1), 0.5, 0, 0.1, "mean of uniform numbers");
    assert_near(moment(values[0], 2), 25.0 / 12 + 0.25, 0, 0.15, "their squares");
    for (int k = 1; k < 3; k++) {
        assert_near(moment(values[k], 1), 0, 0, 0.07, "mean of normal numbers");
        assert_near(moment(values[k], 2), 1, 0, 0.1, "their squares");
        assert_near(moment(values[k], 3), 0, 0, 0.3, "their cubes");
        assert_near(moment(values[k], 4), 3, 0, 0.5, "their fourth powers");
    }
    assert_memory_equal(values[2], values[3], sizeof(values[2])); /* of one seed */
    for (int k = 0; k < 4; k++) {
        int same = 0;
        for (int i = 0; i < RANDOM_ALL; i++) {
            if (have_first) assert_near((double)values[k][i], (double)first[k][i], 0, 4e-6, "a number elsewhere");
            same += values[k][i] == later[k][i] || (k > 0 && k < 3 && values[k][i] == values[k - 1][i]);
        }
        assert_true(same < RANDOM_ALL / 100);
    }
    if (!have_first) memcpy(first, values, sizeof(values));
    have_first = true;
    rf_function_destroy(&function);
    /* Without training every run is step 0. */
    OK(rf_function_create(strategy, &(rf_function_params){ .step = draw_step, .num_outputs = 4 }, &function));
    for (int i = 0; i < 2; i++) {
        draw(strategy, function, later);
        assert_memory_equal(later, values, sizeof(values));
    }
    rf_function_destroy(&function);
}
TEST_ON_ALL(random_numbers)
TEST_ON_ONE(bad_models)

TESTS(models, NULL, NULL)
