/* SPDX-License-Identifier: Apache-2.0 */
/* Mixed precision: what is stored in 16 bits under a policy, types of results, and training that ends where training in
 * f32 does. */
#include "../support/strategies.h"

#include <ringfire/checkpoint.h>
#include <ringfire/interchange.h>

#include "../support/folder.h"
#include "exec/exec.h"
#include "step/function.h"
#include "tests/room.h"

enum { SIDE = 8, CLASSES = 4, IMAGES = 96, BATCH = 16, EPOCHS = 6 };

static const rf_dtype_policy half = { .compute = RF_F16 }, brain = { .compute = RF_BF16 };

/* ---- training ---- */

static rf_model *mixed_network(rf_strategy *strategy)
{
    rf_layer *layers[10];
    uint32_t count = 0;
    rf_model *model;
    const rf_shape image = RF_SHAPE(SIDE, SIDE, 1);
    OK(rf_layer_conv2d(&(rf_conv2d_layer_params){ .filters = 8, .kernel_size = { 3 } }, &layers[count++]));
    OK(rf_layer_batch_norm(NULL, &layers[count++]));
    OK(rf_layer_activation(RF_ACTIVATION_RELU, &layers[count++]));
    OK(rf_layer_max_pool2d(NULL, &layers[count++]));
    OK(rf_layer_flatten(&layers[count++]));
    OK(rf_layer_dense(&(rf_dense_params){ .units = 16, .activation = RF_ACTIVATION_GELU }, &layers[count++]));
    OK(rf_layer_layer_norm(NULL, &layers[count++]));
    OK(rf_layer_dropout(0.1f, 3, &layers[count++]));
    OK(rf_layer_dense(&(rf_dense_params){ .units = CLASSES }, &layers[count++]));
    OK(rf_model_create_sequential(strategy, layers, count, &image, &model));
    return model;
}

/* Noise with a bright row that tells the class. */
static rf_dataset *bright_rows(void)
{
    static float images[IMAGES * SIDE * SIDE];
    static int32_t labels[IMAGES];
    fill_noise(images, IMAGES * SIDE * SIDE, 8);
    for (int i = 0; i < IMAGES; i++) {
        labels[i] = i % CLASSES;
        for (int k = 0; k < SIDE; k++) images[(i * SIDE + 2 * labels[i]) * SIDE + k] += 1.0f;
    }
    const rf_array arrays[] = { array_f32(RF_SHAPE(IMAGES, SIDE, SIDE, 1), images),
                                array_i32(RF_SHAPE(IMAGES), labels) };
    rf_dataset *raw, *data;
    OK(rf_dataset_from_arrays(&(rf_dataset_arrays_params){ .arrays = arrays, .num_arrays = 2 }, &raw));
    OK(rf_dataset_batch(raw, BATCH, RF_REMAINDER_KEEP, &data));
    rf_dataset_destroy(&raw);
    return data;
}

static void assign_noise(rf_model *model)
{
    const rf_variable_list list = rf_model_variables(model);
    for (uint32_t i = 0; i < list.count; i++) {
        const rf_shape shape = rf_variable_shape(list.items[i]);
        float values[4096];
        assert_true(rf_shape_count(shape) <= 4096);
        fill_noise(values, 4096, 50 + i);
        for (int k = 0; k < 4096; k++) values[k] = shape.rank == 1 ? 1.0f : 0.3f * values[k];
        OK(rf_variable_assign(list.items[i], values));
    }
}

/* The loss of each epoch. */
static void train_with(rf_strategy *strategy, const rf_dtype_policy *policy, double *losses)
{
    rf_history history;
    const rf_loss_scale_params scale = { 0 };
    rf_dataset *data = bright_rows();
    rf_optimizer *optimizer;
    OK(rf_strategy_set_dtype_policy(strategy, policy));
    rf_strategy_set_seed(strategy, 5);
    rf_model *model = mixed_network(strategy);
    assign_noise(model);
    OK(rf_optimizer_create(strategy,
                           &(rf_optimizer_params){ .kind = RF_OPTIMIZER_ADAM,
                                                   .learning_rate = 0.005,
                                                   .loss_scale = policy && policy->compute == RF_F16 ? &scale : NULL },
                           &optimizer));
    OK(rf_model_compile(model, &(rf_compile_params){ .optimizer = optimizer,
                                                     .loss = { RF_LOSS_SPARSE_CATEGORICAL_CROSSENTROPY, true } }));
    OK(rf_model_fit(model, &(rf_fit_params){ .data = data, .epochs = EPOCHS }, &history));
    for (uint32_t e = 0; e < EPOCHS; e++) assert_true(rf_logs_get(&history.epochs[e], "loss", &losses[e]));
    rf_history_free(&history);
    rf_model_destroy(&model);
    rf_optimizer_destroy(&optimizer);
    rf_dataset_destroy(&data);
    OK(rf_strategy_set_dtype_policy(strategy, NULL));
}

static void training(rf_strategy *strategy)
{
    double plain[EPOCHS], f16[EPOCHS], bf16[EPOCHS];
    train_with(strategy, NULL, plain);
    train_with(strategy, &half, f16);
    train_with(strategy, &brain, bf16);
    for (uint32_t e = 0; e < EPOCHS; e++) {
        print_message("epoch %u: %.6f, f16 %.6f, bf16 %.6f\n", e, plain[e], f16[e], bf16[e]);
        assert_near(f16[e], plain[e], 0.02, 0.002, "f16");
        assert_near(bf16[e], plain[e], 0.1, 0.02, "bf16");
    }
    assert_true(f16[0] != plain[0] && bf16[0] != plain[0]); /* the policy does something */
    assert_true(plain[EPOCHS - 1] < 0.5 * plain[0]);
}

/* ---- memory ---- */

enum { WIDTH = 24, CHANNELS = 16, FEW = 8, DEPTH = 16 };

static rf_result convolve(rf_trace *t, const rf_tensor *in, rf_tensor *out, void *user)
{
    rf_model *const *parts = user; /* the model, the optimizer */
    rf_optimizer *optimizer = (rf_optimizer *)parts[1];
    const rf_tensor y = rf_model_call(t, parts[0], in[0], RF_TRAINING);
    out[0] = rf_compute_average_loss(t, rf_mean_squared_error(t, in[1], y), NULL);
    const rf_result r = rf_optimizer_minimize(t, optimizer, out[0], rf_model_variables(parts[0]));
    return r < 0 ? r : rf_trace_status(t);
}

/* Bytes that a step of convolutions keeps, on the first device. */
static uint64_t bytes_of_step(rf_strategy *strategy, const rf_dtype_policy *policy)
{
    static float images[FEW * WIDTH * WIDTH * CHANNELS];
    const rf_shape image = RF_SHAPE(WIDTH, WIDTH, CHANNELS), batch_shape = RF_SHAPE(FEW, WIDTH, WIDTH, CHANNELS);
    rf_layer *layers[DEPTH];
    rf_model *parts[2];
    rf_optimizer *optimizer;
    rf_function *function;
    for (int i = 0; i < DEPTH; i++)
        OK(rf_layer_conv2d(&(rf_conv2d_layer_params){ .filters = CHANNELS,
                                                      .kernel_size = { 3 },
                                                      .conv = { .padding = RF_PADDING_SAME },
                                                      .activation = RF_ACTIVATION_RELU },
                           &layers[i]));
    OK(rf_strategy_set_dtype_policy(strategy, policy));
    OK(rf_model_create_sequential(strategy, layers, DEPTH, &image, &parts[0]));
    OK(rf_optimizer_create(strategy, NULL, &optimizer));
    parts[1] = (rf_model *)optimizer;
    OK(rf_function_create(strategy,
                          &(rf_function_params){ .step = convolve, .user = parts, .num_outputs = 1, .training = true },
                          &function));
    const rf_element batch = { 2, { array_f32(batch_shape, images), array_f32(batch_shape, images) } };
    OK(rf_strategy_run(strategy, function, &batch, NULL));
    rf_program_stats stats;
    OK(rf_program_stats_get(function->signatures.items[0]->programs[0], FEW, &stats));
    rf_function_destroy(&function);
    rf_optimizer_destroy(&optimizer);
    rf_model_destroy(&parts[0]);
    OK(rf_strategy_set_dtype_policy(strategy, NULL));
    return stats.slab_size;
}

/* Memory that is kept for the way back takes half; beside it lies one operation's f32. */
static void memory(rf_strategy *strategy)
{
    const uint64_t plain = bytes_of_step(strategy, NULL), mixed = bytes_of_step(strategy, &brain);
    print_message("a step takes %.2f MB, in bf16 %.2f MB\n", 1e-6 * (double)plain, 1e-6 * (double)mixed);
    assert_true(mixed < plain * 7 / 10);
}

/* ---- types ---- */

static rf_result types_step(rf_trace *t, const rf_tensor *in, rf_tensor *out, void *user)
{
    (void)user;
    const rf_tensor x = rf_cast(t, in[0], RF_F16), b = rf_cast(t, in[0], RF_BF16);
    const rf_tensor vector = rf_reduce_mean(t, in[0], (const int32_t[]){ 0 }, 1, RF_DROP_DIMS);
    assert_int_equal(rf_tensor_dtype(t, rf_add(t, x, x)), RF_F16);
    assert_int_equal(rf_tensor_dtype(t, rf_add(t, b, rf_constant(t, 1))), RF_BF16);
    assert_int_equal(rf_tensor_dtype(t, rf_multiply(t, vector, x)), RF_F16);
    assert_int_equal(rf_tensor_dtype(t, rf_add(t, x, in[0])), RF_F32);
    assert_int_equal(rf_tensor_dtype(t, rf_matmul(t, x, x, RF_TRANSPOSE_A)), RF_F16);
    assert_int_equal(rf_tensor_dtype(t, rf_matmul(t, in[0], x, RF_TRANSPOSE_A)), RF_F32);
    assert_int_equal(rf_tensor_dtype(t, rf_softmax(t, b)), RF_BF16);
    assert_int_equal(rf_tensor_dtype(t, rf_reduce_sum(t, x, NULL, 0, RF_DROP_DIMS)), RF_F32);
    assert_int_equal(rf_tensor_dtype(t, rf_mean_squared_error(t, in[0], x)), RF_F32);
    /* The gradient comes through f16, and is f32 as what it is of. */
    const rf_tensor loss = rf_reduce_sum(t, rf_square(t, rf_tanh(t, x)), NULL, 0, RF_DROP_DIMS);
    rf_tensor gradient;
    const rf_result r = rf_gradients(t, loss, &in[0], 1, &gradient);
    if (r < 0) return r;
    assert_int_equal(rf_tensor_dtype(t, gradient), RF_F32);
    out[0] = rf_reduce_sum(t, gradient, NULL, 0, RF_DROP_DIMS);
    return rf_trace_status(t);
}

static rf_result two_types_step(rf_trace *t, const rf_tensor *in, rf_tensor *out, void *user)
{
    (void)out, (void)user;
    (void)rf_add(t, rf_cast(t, in[0], RF_F16), rf_cast(t, in[0], RF_BF16));
    return rf_trace_status(t);
}

static void types(rf_strategy *strategy)
{
    float x[12], sum, expected = 0;
    fill_noise(x, 12, 4);
    for (int i = 0; i < 12; i++) expected += 2 * tanhf(x[i]) * (1 - tanhf(x[i]) * tanhf(x[i]));
    const rf_element batch = { 1, { array_f32(RF_SHAPE(3, 4), x) } };
    rf_function *function;
    OK(rf_function_create(strategy, &(rf_function_params){ .step = types_step, .num_outputs = 1 }, &function));
    run_once(strategy, function, &batch, &sum, 1);
    assert_near(sum, expected, 0.005, 0.01, "gradient");
    rf_function_destroy(&function);
    OK(rf_function_create(strategy, &(rf_function_params){ .step = two_types_step }, &function));
    FAILS(rf_strategy_run(strategy, function, &batch, NULL), RF_ERROR_INVALID_ARGUMENT, "cast one of them");
    rf_function_destroy(&function);
}

/* ---- policies ---- */

static rf_result policy_step(rf_trace *t, const rf_tensor *in, rf_tensor *out, void *user)
{
    rf_layer **layers = user; /* three; the model that has them */
    rf_model *model = (rf_model *)layers[3];
    const rf_tensor wide = rf_layer_call(t, model, layers[0], in[0], RF_TRAINING);
    const rf_tensor narrow = rf_layer_call(t, model, layers[1], wide, RF_TRAINING);
    const rf_tensor steps = rf_layer_call(t, model, layers[2], rf_reshape(t, narrow, RF_SHAPE(-1, 2, 2)), RF_TRAINING);
    assert_int_equal(rf_tensor_dtype(t, wide), RF_F32);
    assert_int_equal(rf_tensor_dtype(t, narrow), RF_BF16);
    assert_int_equal(rf_tensor_dtype(t, steps), RF_F32); /* recurrent layers compute in f32 */
    out[0] = rf_reduce_sum(t, steps, NULL, 0, RF_DROP_DIMS);
    return rf_trace_status(t);
}

/* Its layers are called one by one. */
static rf_tensor not_called(rf_trace *t, rf_model *model, rf_tensor x, rf_mode mode, void *user)
{
    (void)model, (void)mode, (void)user;
    return rf_flatten(t, x);
}

static void policies(rf_strategy *strategy)
{
    rf_layer *layers[4] = { NULL };
    rf_model *model;
    rf_function *function;
    float x[12], sum;
    fill_noise(x, 12, 4);
    OK(rf_model_create_custom(strategy, not_called, NULL, &model));
    OK(rf_layer_dense(&(rf_dense_params){ .units = 4 }, &layers[0]));
    OK(rf_layer_dense(&(rf_dense_params){ .units = 4 }, &layers[1]));
    OK(rf_layer_rnn(&(rf_rnn_layer_params){ .units = 3 }, &layers[2]));
    for (int i = 0; i < 3; i++) OK(rf_model_add_layer(model, layers[i]));
    layers[3] = (rf_layer *)model;
    OK(rf_strategy_set_dtype_policy(strategy, &brain));
    OK(rf_layer_set_dtype_policy(layers[0], &(rf_dtype_policy){ .compute = RF_F32 }));
    OK(rf_function_create(strategy, &(rf_function_params){ .step = policy_step, .user = layers, .num_outputs = 1 },
                          &function));
    const rf_element batch = { 1, { array_f32(RF_SHAPE(3, 4), x) } };
    run_once(strategy, function, &batch, &sum, 1);
    assert_true(isfinite(sum));
    FAILS(rf_layer_set_dtype_policy(layers[1], &half), RF_ERROR_INVALID_ARGUMENT, "was called already");
    FAILS(rf_layer_set_dtype_policy(NULL, &half), RF_ERROR_INVALID_ARGUMENT, "layer is NULL");
    const rf_dtype_policy whole = { .compute = RF_I32 };
    FAILS(rf_strategy_set_dtype_policy(strategy, &whole), RF_ERROR_INVALID_ARGUMENT, "f16 or bf16, not i32");
    FAILS(rf_strategy_set_dtype_policy(NULL, &half), RF_ERROR_INVALID_ARGUMENT, "strategy is NULL");
    rf_function_destroy(&function);
    rf_model_destroy(&model);
    OK(rf_strategy_set_dtype_policy(strategy, NULL));
}

/* ---- files ---- */

static rf_tensor narrow_tanh(rf_trace *t, rf_model *model, rf_tensor x, rf_mode mode, void *user)
{
    (void)model, (void)mode, (void)user;
    return rf_tanh(t, rf_cast(t, x, RF_F16));
}

/* Types that the model's own function asks for stay; ONNX has no operation that stores them and computes in f32. */
static void refused(rf_strategy *strategy)
{
    char folder[64], path[128];
    rf_model *model;
    snprintf(path, sizeof(path), "%s/x.onnx", scratch(folder));
    OK(rf_model_create_custom(strategy, narrow_tanh, NULL, &model));
    OK(rf_model_build(model, RF_SHAPE(4)));
    FAILS(rf_model_export_onnx(model, path), RF_ERROR_UNSUPPORTED, "reads f16, but computes in f32");
    rf_model_destroy(&model);
    scratch_remove(folder);
}

/* An exported model computes in f32, with the weights of the model. */
static void exported(rf_strategy *strategy)
{
    char folder[64], path[128];
    static float x[IMAGES * SIDE * SIDE];
    const rf_array input = array_f32(RF_SHAPE(IMAGES, SIDE, SIDE, 1), x);
    rf_array mixed, plain;
    rf_inference *inference;
    rf_dataset *raw, *data;
    fill_noise(x, IMAGES * SIDE * SIDE, 9);
    snprintf(path, sizeof(path), "%s/x.rfck", scratch(folder));
    OK(rf_strategy_set_dtype_policy(strategy, &brain));
    rf_model *model = mixed_network(strategy);
    OK(rf_model_export(model, path, NULL));
    OK(rf_dataset_from_arrays(&(rf_dataset_arrays_params){ .arrays = &input, .num_arrays = 1 }, &raw));
    OK(rf_dataset_batch(raw, IMAGES, RF_REMAINDER_KEEP, &data));
    OK(rf_model_predict(model, data, &mixed));
    OK(rf_inference_load(path, NULL, &inference));
    OK(rf_inference_run(inference, &input, &plain));
    const float *a = mixed.data, *b = plain.data;
    bool differs = false;
    for (int i = 0; i < IMAGES * CLASSES; i++) {
        assert_near(a[i], b[i], 0.02, 0.02, "exported");
        differs = differs || a[i] != b[i];
    }
    assert_true(differs);
    rf_array_free(&mixed);
    rf_array_free(&plain);
    snprintf(path, sizeof(path), "%s/x.onnx", folder);
    OK(rf_model_export_onnx(model, path));
    rf_inference_destroy(&inference);
    rf_dataset_destroy(&data);
    rf_dataset_destroy(&raw);
    rf_model_destroy(&model);
    scratch_remove(folder);
    OK(rf_strategy_set_dtype_policy(strategy, NULL));
}

/* ---- sequences ---- */

enum { WORDS = 20, STEPS = 6, FEATURES = 16, TEXTS = 12, TURNS = 8 };

typedef struct reader {
    rf_layer *words, *places, *attention, *norm, *head;
    rf_model *model;
    rf_optimizer *optimizer;
} reader;

/* Texts of words, of which 0 is padding: a mask, and a place of each text that is looked at alone. */
static rf_result read_texts(rf_trace *t, rf_model *model, const rf_tensor *in, rf_tensor *out, rf_mode mode, void *user)
{
    const reader *r = user;
    const int32_t none = 0;
    const rf_tensor padding = rf_constant_array(t, &(rf_array){ RF_I32, RF_SHAPE(1), (void *)(uintptr_t)&none });
    const rf_tensor rows = rf_layer_call(t, model, r->words, in[0], mode);
    const rf_tensor x = rf_layer_call(t, model, r->places, rows, mode);
    const rf_layer_apply_params params = {
        .in = &x, .num_in = 1, .mask = rf_compare(t, RF_NOT_EQUAL, in[0], padding), .mode = mode
    };
    rf_tensor seen;
    (void)rf_layer_apply(t, model, r->attention, &params, &seen, 1);
    const rf_tensor y = rf_layer_call(t, model, r->norm, rf_add(t, x, seen), mode);
    out[0] = rf_layer_call(t, model, r->head, rf_gather_positions(t, y, in[1]), mode);
    return rf_trace_status(t);
}

static rf_result read_step(rf_trace *t, const rf_tensor *in, rf_tensor *out, void *user)
{
    const reader *r = user;
    rf_tensor logits;
    (void)rf_model_apply(t, r->model, in, 2, RF_TRAINING, &logits, 1);
    const rf_tensor losses = rf_sparse_categorical_crossentropy(t, in[2], logits, RF_LOGITS);
    out[0] = rf_compute_average_loss(t, rf_reduce_mean(t, losses, &(int32_t){ 1 }, 1, RF_DROP_DIMS), NULL);
    (void)rf_optimizer_minimize(t, r->optimizer, out[0], rf_model_variables(r->model));
    return rf_trace_status(t);
}

static void make_reader(rf_strategy *strategy, reader *r)
{
    OK(rf_layer_embedding(&(rf_embedding_params){ .input_dim = WORDS, .output_dim = FEATURES }, &r->words));
    OK(rf_layer_position_embedding(STEPS, NULL, NULL, &r->places));
    OK(rf_layer_multi_head_attention(&(rf_multi_head_attention_params){ .num_heads = 2, .key_dim = 8 }, &r->attention));
    OK(rf_layer_layer_norm(NULL, &r->norm));
    OK(rf_layer_dense(&(rf_dense_params){ .units = CLASSES }, &r->head));
    OK(rf_model_create(strategy, &(rf_model_params){ .apply = read_texts, .user = r, .num_inputs = 2 }, &r->model));
    rf_layer *const layers[] = { r->words, r->places, r->attention, r->norm, r->head };
    for (size_t i = 0; i < sizeof(layers) / sizeof(layers[0]); i++) OK(rf_model_add_layer(r->model, layers[i]));
    const rf_element_spec spec = { 2, { RF_I32, RF_I32 }, { RF_SHAPE(-1, STEPS), RF_SHAPE(-1, 1) } };
    OK(rf_model_build_inputs(r->model, &spec));
    assign_noise(r->model);
}

static void read_with(rf_strategy *strategy, const rf_dtype_policy *policy, double *losses)
{
    int32_t words[TEXTS * STEPS], places[TEXTS], classes[TEXTS];
    reader r;
    rf_function *step;
    for (int i = 0; i < TEXTS * STEPS; i++) /* the last text is padding alone */
        words[i] = i / STEPS == TEXTS - 1 || i % STEPS > 1 + i / STEPS % 5 ? 0 : 1 + i * 7 % (WORDS - 1);
    for (int i = 0; i < TEXTS; i++) places[i] = i % STEPS, classes[i] = i % CLASSES;
    OK(rf_strategy_set_dtype_policy(strategy, policy));
    make_reader(strategy, &r);
    OK(rf_optimizer_create(strategy, &(rf_optimizer_params){ .kind = RF_OPTIMIZER_ADAM, .learning_rate = 0.02 },
                           &r.optimizer));
    OK(rf_function_create(
        strategy, &(rf_function_params){ .step = read_step, .user = &r, .num_outputs = 1, .training = true }, &step));
    const rf_element batch = { 3,
                               { array_i32(RF_SHAPE(TEXTS, STEPS), words), array_i32(RF_SHAPE(TEXTS, 1), places),
                                 array_i32(RF_SHAPE(TEXTS, 1), classes) } };
    for (int i = 0; i < TURNS; i++) {
        float loss;
        run_once(strategy, step, &batch, &loss, 1);
        losses[i] = (double)loss;
    }
    rf_function_destroy(&step);
    rf_optimizer_destroy(&r.optimizer);
    rf_model_destroy(&r.model);
    OK(rf_strategy_set_dtype_policy(strategy, NULL));
}

static void sequences(rf_strategy *strategy)
{
    double plain[TURNS], f16[TURNS], bf16[TURNS];
    read_with(strategy, NULL, plain);
    read_with(strategy, &half, f16);
    read_with(strategy, &brain, bf16);
    for (int i = 0; i < TURNS; i++) {
        print_message("step %d: %.6f, f16 %.6f, bf16 %.6f\n", i, plain[i], f16[i], bf16[i]);
        assert_near(f16[i], plain[i], 0.01, 0.002, "f16");
        assert_near(bf16[i], plain[i], 0.05, 0.02, "bf16");
    }
    assert_true(f16[0] != plain[0] && bf16[0] != plain[0]);
    assert_true(plain[TURNS - 1] < 0.7 * plain[0]);
}

TEST_ON_ONE(training)
TEST_ON_TWO(training)
TEST_ON_ONE(memory)
TEST_ON_ONE(sequences)
TEST_ON_TWO(sequences)
TEST_ON_ONE(types)
TEST_ON_ONE(policies)
TEST_ON_ONE(exported)
TEST_ON_ONE(refused)

TESTS(mixed, NULL, NULL)
