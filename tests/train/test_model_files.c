/* SPDX-License-Identifier: Apache-2.0 */
/* The code of docs/guides/saving.md and of parts of other guides, word for word (tests/project/check_pages.py), does
 * what the text says. Models in files keep how they are trained. */
#include <unistd.h>

#include <ringfire/interchange.h>

#include "../support/try.h"
#include "run_state.h"
#include "tests/room.h"
#include "train/optimizer/optimizer.h"

static rf_result save(rf_model *model)
{
    TRY(rf_model_save(model, "net.rfck", NULL));             /* layers, weights, and how it is trained */
    TRY(rf_model_save_weights(model, "weights.rfck", NULL)); /* only the numbers */
    TRY(rf_model_export(model, "inference.rfck", NULL));     /* what predicts, to be used */
    return RF_OK;
}

static rf_result go_on(rf_strategy *strategy, rf_dataset *data)
{
    rf_model *model;
    TRY(rf_model_load(strategy, "net.rfck", &model));
    const rf_result r = rf_model_fit(model, &(rf_fit_params){ .data = data, .epochs = 1 }, NULL);
    rf_model_destroy(&model);
    return r;
}

static rf_result predict(const float *features, float *best)
{
    rf_inference *net;
    rf_array output;
    TRY(rf_inference_load("inference.rfck", &(rf_inference_params){ .device = "llvmpipe" }, &net));
    const rf_array input = { RF_F32, RF_SHAPE(2, 8), (void *)features };
    const rf_result r = rf_inference_run(net, &input, &output);
    if (r >= 0) {
        *best = ((float *)output.data)[0]; /* [2, 4]: as many rows as were given */
        rf_array_free(&output);
    }
    rf_inference_destroy(&net);
    return r;
}

static rf_result exchange(rf_model *model)
{
    TRY(rf_model_export_safetensors(model, "net.safetensors"));
    TRY(rf_model_import_safetensors(model, "net.safetensors"));
    TRY(rf_model_export_onnx(model, "net.onnx"));
    return RF_OK;
}

static rf_result adapt(rf_strategy *strategy, rf_dataset *data, rf_optimizer *optimizer)
{
    rf_model *imported, *model;
    rf_layer *layers[2];
    TRY(rf_model_import_onnx(strategy, "net.onnx", NULL, &imported));
    TRY(rf_layer_from_model(&(rf_model_layer_params){ .model = imported, .last_layer = "dense" }, &layers[0]));
    rf_layer_set_trainable(rf_model_find_layer(imported, "dense"), false);
    TRY(rf_layer_dense(&(rf_dense_params){ .units = 4, .name = "head" }, &layers[1]));
    TRY(rf_model_create_sequential(strategy, layers, 2, &RF_SHAPE(8), &model));
    TRY(rf_model_compile(
        model, &(rf_compile_params){ .optimizer = optimizer,
                                     .loss = { RF_LOSS_SPARSE_CATEGORICAL_CROSSENTROPY, true, RF_REDUCTION_AUTO } }));
    TRY(rf_model_fit(model, &(rf_fit_params){ .data = data, .epochs = 1 }, NULL));
    assert_int_equal(rf_model_variables(model).count, 2);
    rf_model_destroy(&model);
    rf_model_destroy(&imported);
    return RF_OK;
}

static rf_result copy_array(void)
{
    float numbers[6] = { 1, 2, 3, 4, 5, 6 };
    rf_array array = { RF_F32, RF_SHAPE(2, 3), numbers }, read;
    TRY(rf_npy_write("numbers.npy", &array));
    TRY(rf_npy_read("numbers.npy", &read));
    rf_array_free(&read);
    return RF_OK;
}

static rf_result load_foreign(rf_model *model, const char *path)
{
    static const int32_t swap[] = { 1, 0 };
    static const rf_weight_rule rules[] = {
        { .pattern = "encoder.*.weight", .name = "dense_*/kernel", .perm = swap, .num_perm = 2 },
        { .pattern = "encoder.*.bias", .name = "dense_*/bias" },
        { .pattern = "decoder.**" }, /* not wanted */
    };
    rf_weight_report report;
    TRY(rf_model_load_weights_with(
        model, path,
        &(rf_load_weights_params){ .rules = rules, .num_rules = 3, .skip_mismatch = true, .report = &report }));
    fputs(report.summary, stdout);
    rf_weight_report_free(&report);
    return RF_OK;
}

/* In the folder of the files; the first dense layer gets [out, in] turned; what the second would get does not fit, and
 * the decoder is left out. */
static void take_foreign_weights(rf_strategy *strategy)
{
    rf_layer *layers[2];
    rf_model *model;
    float turned[6] = { 0, 1, 2, 3, 4, 5 }, kernel[6], bias[2] = { 7, 8 }, got[2];
    const rf_named_array arrays[] = { { "encoder.1.weight", { RF_F32, RF_SHAPE(2, 3), turned } },
                                      { "encoder.1.bias", { RF_F32, RF_SHAPE(2), bias } },
                                      { "encoder.2.weight", { RF_F32, RF_SHAPE(2), bias } },
                                      { "encoder.2.bias", { RF_F32, RF_SHAPE(2), bias } },
                                      { "decoder.1.bias", { RF_F32, RF_SHAPE(2), bias } } };
    OK(rf_safetensors_write("foreign.safetensors", arrays, 5));
    OK(rf_layer_dense(&(rf_dense_params){ .units = 2, .name = "dense_1" }, &layers[0]));
    OK(rf_layer_dense(&(rf_dense_params){ .units = 2, .name = "dense_2" }, &layers[1]));
    OK(rf_model_create_sequential(strategy, layers, 2, &RF_SHAPE(3), &model));
    OK(load_foreign(model, "foreign.safetensors"));
    OK(rf_variable_read(rf_layer_variable(layers[0], "kernel"), kernel));
    for (int i = 0; i < 6; i++) assert_true(kernel[i] == turned[i % 2 * 3 + i / 2]);
    OK(rf_variable_read(rf_layer_variable(layers[1], "bias"), got));
    assert_memory_equal(got, bias, sizeof(bias));
    rf_model_destroy(&model);
}

static rf_result build_classifier(rf_strategy *strategy, rf_layer *embedding, rf_layer *recurrent, rf_layer *dense,
                                  rf_model **model)
{
    rf_layer *padding;
    rf_model_builder *b;
    TRY(rf_layer_not_equal(0, &padding)); /* 0 pads */
    TRY(rf_model_builder_create(strategy, &b));
    const rf_symbol tokens = rf_model_builder_input(b, RF_I32, RF_SHAPE(100), "tokens");
    const rf_symbol mask = rf_model_builder_call(b, padding, tokens);
    const rf_symbol x = rf_model_builder_call(b, embedding, tokens);
    rf_symbol y;
    (void)rf_model_builder_apply(b, recurrent, &x, 1, mask, &y, 1);
    y = rf_model_builder_call(b, dense, y);
    return rf_model_builder_finish(&b, &y, 1, NULL, model); /* the first failure, if there was one */
}

static void make_and_keep_a_graph(rf_strategy *strategy)
{
    rf_layer *embedding, *recurrent, *dense;
    rf_model *model, *loaded;
    OK(rf_layer_embedding(&(rf_embedding_params){ .input_dim = 20, .output_dim = 4 }, &embedding));
    OK(rf_layer_rnn(&(rf_rnn_layer_params){ .units = 3 }, &recurrent));
    OK(rf_layer_dense(&(rf_dense_params){ .units = 1 }, &dense));
    OK(build_classifier(strategy, embedding, recurrent, dense, &model));
    assert_int_equal(rf_model_num_params(model), 20 * 4 + (4 + 3 + 2) * 9 + 4);
    OK(rf_model_save(model, "graph.rfck", NULL));
    OK(rf_model_load(strategy, "graph.rfck", &loaded));
    assert_int_equal(rf_model_num_params(loaded), rf_model_num_params(model));
    rf_model_destroy(&loaded);
    rf_model_destroy(&model);
}

static rf_result bounded_momentum(rf_trace *t, const rf_update_inputs *in, rf_tensor *weight, rf_tensor *slots,
                                  void *user)
{
    (void)user;
    const rf_tensor beta = in->hyperparameters[0];
    const rf_tensor change = rf_subtract(t, in->gradient, in->slots[0]);
    slots[0] = rf_add(t, in->slots[0], rf_multiply(t, beta, change));
    *weight = rf_subtract(t, in->weight, rf_multiply(t, in->learning_rate, rf_tanh(t, slots[0])));
    return rf_trace_status(t);
}

static rf_result make_an_optimizer(rf_strategy *strategy, rf_optimizer **out)
{
    const rf_optimizer_slot slot = { .name = "m" };
    const rf_hyperparameter beta = { .name = "beta", .value = 0.1 };
    const rf_custom_optimizer custom = { .name = "bounded_momentum",
                                         .update = bounded_momentum,
                                         .slots = &slot,
                                         .num_slots = 1,
                                         .hyperparameters = &beta,
                                         .num_hyperparameters = 1 };
    rf_optimizer *own;
    TRY(rf_optimizer_create(
        strategy,
        &(rf_optimizer_params){
            .kind = RF_OPTIMIZER_CUSTOM, .custom = &custom, .learning_rate = 0.01, .clip_norm = 1, .use_ema = true },
        &own));
    *out = own;
    return RF_OK;
}

/* It trains; files of weights take the model, those of whole models do not. */
static void train_with_own_optimizer(rf_strategy *strategy, rf_dataset *data)
{
    rf_optimizer *own;
    rf_history history;
    rf_model *model = run_model(strategy, 16);
    double first = 0, last = 0;
    OK(make_an_optimizer(strategy, &own));
    OK(rf_model_compile(
        model, &(rf_compile_params){ .optimizer = own,
                                     .loss = { RF_LOSS_SPARSE_CATEGORICAL_CROSSENTROPY, true, RF_REDUCTION_AUTO } }));
    OK(rf_model_fit(model, &(rf_fit_params){ .data = data, .epochs = 8 }, &history));
    assert_true(rf_logs_get(&history.epochs[0], "loss", &first) && rf_logs_get(&history.epochs[7], "loss", &last));
    assert_true(last < first);
    rf_history_free(&history);
    FAILS(rf_model_save(model, "own.rfck", NULL), RF_ERROR_UNSUPPORTED, "the optimizer 'bounded_momentum' is code");
    OK(rf_model_save_weights(model, "own.rfck", NULL));
    rf_model_destroy(&model);
    rf_optimizer_destroy(&own);
}

TEST(the_documentation)
{
    static const char *const files[] = { "net.rfck",        "weights.rfck", "inference.rfck",
                                         "net.safetensors", "net.onnx",     "numbers.npy" };
    char folder[64];
    float features[16], best = 0;
    rf_optimizer *optimizer;
    rf_strategy *strategy = open_devices("llvmpipe");
    if (!strategy) SKIP("not installed: llvmpipe");
    assert_int_equal(chdir(scratch(folder)), 0);
    rf_model *model = run_model(strategy, 16);
    rf_dataset *data = run_dataset(RUN_BATCH);
    OK(rf_optimizer_create(strategy, &(rf_optimizer_params){ .kind = RF_OPTIMIZER_ADAM }, &optimizer));
    OK(rf_model_compile(
        model, &(rf_compile_params){ .optimizer = optimizer,
                                     .loss = { RF_LOSS_SPARSE_CATEGORICAL_CROSSENTROPY, true, RF_REDUCTION_AUTO } }));
    OK(save(model));
    OK(go_on(strategy, data));
    fill_noise(features, 16, 3);
    OK(predict(features, &best));
    assert_true(best != 0);
    OK(exchange(model));
    OK(adapt(strategy, data, optimizer));
    OK(copy_array());
    take_foreign_weights(strategy);
    make_and_keep_a_graph(strategy);
    train_with_own_optimizer(strategy, data);
    for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) assert_int_equal(access(files[i], R_OK), 0);
    rf_dataset_destroy(&data);
    rf_model_destroy(&model);
    rf_optimizer_destroy(&optimizer);
    rf_strategy_destroy(&strategy);
    assert_int_equal(chdir("/"), 0);
    scratch_remove(folder);
}

/* ---- what a model was compiled with ---- */

static const rf_muon_params muon_rows[] = { { .row_dimensions = 3, .scale = RF_MUON_SCALE_SHAPE, .steps = 4 },
                                            { .plain_momentum = true, .rms_rate = 0.5 } };
static const rf_parameter_group muon_groups[] = { { .names = "dense/kernel", .muon = &muon_rows[0] },
                                                  { .names = "dense*kernel", .muon = &muon_rows[1] } };
/* Each field other than its default for one kind at least. */
static const rf_optimizer_params optimizers[] = {
    { .kind = RF_OPTIMIZER_ADAM, .epsilon = 0.25, .epsilon_form = RF_EPSILON_UNCORRECTED },
    { .kind = RF_OPTIMIZER_ADAM, .epsilon = 0.25, .epsilon_form = RF_EPSILON_CORRECTED },
    { .kind = RF_OPTIMIZER_ADAM, .learning_rate = 0.5, .beta_1 = 0.75, .beta_2 = 0.625, .clip_norm = 2 },
    { .kind = RF_OPTIMIZER_ADAMW, .epsilon_form = RF_EPSILON_UNCORRECTED, .weight_decay = 0.125, .clip_value = 3 },
    { .kind = RF_OPTIMIZER_ADAMW, .epsilon = 0.5, .global_clip_norm = 4 },
    { .kind = RF_OPTIMIZER_SGD, .momentum = 0.5, .nesterov = true, .accumulation_steps = 3 },
    { .kind = RF_OPTIMIZER_RMSPROP, .momentum = 0.25, .rho = 0.75, .epsilon = 0.125 },
    { .kind = RF_OPTIMIZER_LAMB, .beta_1 = 0.75, .epsilon = 0.125, .weight_decay = 0.25 },
    { .kind = RF_OPTIMIZER_MUON, .momentum = 0.5, .weight_decay = 0.25, .groups = muon_groups, .num_groups = 2 },
    { .kind = RF_OPTIMIZER_LION, .use_ema = true, .ema_momentum = 0.5, .ema_overwrite_frequency = 3 },
    { .kind = RF_OPTIMIZER_ADAM, .loss_scale = &(const rf_loss_scale_params){ .initial = 64, .growth_steps = 5 } },
};

static void assert_same_optimizer(const rf_optimizer *optimizer, const rf_optimizer *expected)
{
    const rf_optimizer_params *a = &rf_optimizer_configuration(optimizer)->params;
    const rf_optimizer_params *b = &rf_optimizer_configuration(expected)->params;
    assert_int_equal(a->kind, b->kind);
    assert_int_equal(a->epsilon_form, b->epsilon_form);
    assert_int_equal(a->nesterov, b->nesterov);
    assert_int_equal(a->accumulation_steps, b->accumulation_steps);
#define SAME(field) assert_true(a->field == b->field)
    SAME(momentum);
    SAME(beta_1);
    SAME(beta_2);
    SAME(epsilon);
    SAME(rho);
    SAME(weight_decay);
    SAME(clip_value);
    SAME(clip_norm);
    SAME(global_clip_norm);
    SAME(use_ema);
    SAME(ema_momentum);
    SAME(ema_overwrite_frequency);
    SAME(num_groups);
#undef SAME
    for (uint32_t i = 0; i < a->num_groups; i++) {
        assert_string_equal(a->groups[i].names, b->groups[i].names);
        assert_memory_equal(a->groups[i].muon, b->groups[i].muon, sizeof(rf_muon_params));
    }
    assert_int_equal(a->loss_scale != NULL, b->loss_scale != NULL);
    if (a->loss_scale) assert_memory_equal(a->loss_scale, b->loss_scale, sizeof(*a->loss_scale));
    assert_true(rf_optimizer_learning_rate(optimizer) == rf_optimizer_learning_rate(expected));
}

/* Weights after an epoch with the same masks of dropout. */
static void train(rf_strategy *strategy, rf_model *model, float weights[RUN_WEIGHTS])
{
    rf_dataset *data = run_dataset(RUN_BATCH);
    float *at = weights;
    rf_strategy_set_seed(strategy, 7);
    OK(rf_model_fit(model, &(rf_fit_params){ .data = data, .epochs = 1 }, NULL));
    const rf_variable_list list = rf_model_variables(model);
    for (uint32_t i = 0; i < list.count; i++) {
        OK(rf_variable_read(list.items[i], at));
        at += rf_shape_count(rf_variable_shape(list.items[i]));
    }
    rf_dataset_destroy(&data);
}

TEST(optimizers_of_models)
{
    char folder[64], path[128];
    float expected[RUN_WEIGHTS], weights[RUN_WEIGHTS];
    rf_strategy *strategy = open_devices("llvmpipe");
    if (!strategy) SKIP("not installed: llvmpipe");
    snprintf(path, sizeof(path), "%s/net.rfck", scratch(folder));
    for (size_t i = 0; i < sizeof(optimizers) / sizeof(optimizers[0]); i++) {
        rf_optimizer *optimizer;
        rf_model *loaded, *model = run_model(strategy, 16);
        OK(rf_optimizer_create(strategy, &optimizers[i], &optimizer));
        OK(rf_model_compile(model, &(rf_compile_params){
                                       .optimizer = optimizer,
                                       .loss = { RF_LOSS_SPARSE_CATEGORICAL_CROSSENTROPY, true, RF_REDUCTION_AUTO } }));
        OK(rf_model_save(model, path, NULL));
        OK(rf_model_load(strategy, path, &loaded));
        assert_same_optimizer(rf_model_optimizer(loaded), optimizer);
        train(strategy, model, expected);
        train(strategy, loaded, weights);
        assert_memory_equal(weights, expected, sizeof(expected));
        rf_model_destroy(&loaded);
        rf_model_destroy(&model);
        rf_optimizer_destroy(&optimizer);
    }
    rf_strategy_destroy(&strategy);
    scratch_remove(folder);
}

TESTS(model_files, NULL, NULL)
