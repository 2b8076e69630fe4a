/* SPDX-License-Identifier: Apache-2.0 */
/* Models as layers of other models: names and shared weights, training, files, exported models; models without their
 * head; layers by name; mistakes. */
#include <ringfire/interchange.h>

#include "../support/strategies.h"
#include "../support/try.h"
#include "test_folder.h"
#include "tests/room.h"

enum { IN = 6, CODE = 4, CLASSES = 3, N = 8 };

static rf_layer *make_dense(int32_t units, const char *name)
{
    rf_layer *layer;
    OK(rf_layer_dense(&(rf_dense_params){ .units = units, .activation = RF_ACTIVATION_TANH, .name = name }, &layer));
    return layer;
}

static rf_layer *make_model_layer(rf_model *model, const char *last, const char *name)
{
    rf_layer *layer;
    OK(rf_layer_from_model(&(rf_model_layer_params){ .model = model, .last_layer = last, .name = name }, &layer));
    return layer;
}

/* [6] -> dense -> code [4] */
static rf_model *make_encoder(rf_strategy *s)
{
    rf_layer *layers[2] = { make_dense(5, NULL), make_dense(CODE, "code") };
    rf_model *model;
    OK(rf_model_create_sequential(s, layers, 2, &RF_SHAPE(IN), &model));
    return model;
}

/* One encoder encodes two inputs: their difference and a head. */
static rf_model *make_twins(rf_strategy *s, rf_model *encoder)
{
    rf_model_builder *b;
    rf_model *model;
    rf_layer *layer = make_model_layer(encoder, NULL, "encoder"), *subtract;
    OK(rf_layer_subtract(&subtract));
    OK(rf_model_builder_create(s, &b));
    rf_symbol x[2] = { rf_model_builder_input(b, RF_F32, RF_SHAPE(IN), "left"),
                       rf_model_builder_input(b, RF_F32, RF_SHAPE(IN), "right") };
    for (int i = 0; i < 2; i++) x[i] = rf_model_builder_call(b, layer, x[i]);
    rf_symbol y = rf_model_builder_call_many(b, subtract, x, 2);
    y = rf_model_builder_call(b, make_dense(CLASSES, "head"), y);
    OK(rf_model_builder_finish(&b, &y, 1, NULL, &model));
    return model;
}

static rf_dataset *make_data(uint32_t inputs)
{
    float x[2][N * IN];
    int32_t labels[N];
    rf_array arrays[3];
    rf_dataset *slices, *data;
    for (uint32_t i = 0; i < inputs; i++) {
        fill_noise(x[i], N * IN, 3 + i);
        arrays[i] = array_f32(RF_SHAPE(N, IN), x[i]);
    }
    for (int i = 0; i < N; i++) labels[i] = i % CLASSES;
    arrays[inputs] = array_i32(RF_SHAPE(N), labels);
    OK(rf_dataset_from_arrays(&(rf_dataset_arrays_params){ .arrays = arrays, .num_arrays = inputs + 1 }, &slices));
    OK(rf_dataset_batch(slices, N, RF_REMAINDER_KEEP, &data));
    rf_dataset_destroy(&slices);
    return data;
}

static void predict(rf_model *model, uint32_t inputs, float *out)
{
    rf_dataset *data = make_data(inputs);
    rf_array y;
    OK(rf_model_predict(model, data, &y));
    assert_int_equal(rf_shape_count(y.shape), N * CLASSES);
    memcpy(out, y.data, N * CLASSES * sizeof(float));
    rf_array_free(&y);
    rf_dataset_destroy(&data);
}

static void compile_model(rf_strategy *s, rf_model *model, rf_optimizer **optimizer)
{
    OK(rf_optimizer_create(s, &(rf_optimizer_params){ .kind = RF_OPTIMIZER_SGD, .learning_rate = 0.5 }, optimizer));
    OK(rf_model_compile(model, &(rf_compile_params){ .optimizer = *optimizer, .loss = { .from_logits = true } }));
}

static void fit(rf_model *model, uint32_t inputs)
{
    rf_dataset *data = make_data(inputs);
    OK(rf_model_fit(model, &(rf_fit_params){ .data = data, .epochs = 3 }, NULL));
    rf_dataset_destroy(&data);
}

/* The names that its weights have in files, one after the other. */
static void names_in_file(rf_model *model, char *text, size_t size)
{
    rf_safetensors *file;
    rf_archive_entry entry;
    size_t used = 0;
    OK(rf_model_export_safetensors(model, in_folder("names.safetensors")));
    OK(rf_safetensors_open(in_folder("names.safetensors"), &file));
    for (uint64_t i = 0; i < rf_safetensors_num_tensors(file); i++) {
        OK(rf_safetensors_entry_at(file, i, &entry));
        used += (size_t)snprintf(text + used, size - used, "%s%s", i ? " " : "", entry.name);
    }
    rf_safetensors_close(&file);
}

static void assert_same_predictions(const float *a, const float *b)
{
    for (int i = 0; i < N * CLASSES; i++) assert_near(a[i], b[i], 1e-6, 1e-7, "prediction");
}

static void check_summary(const rf_model *model, const char *part)
{
    char *text;
    OK(rf_model_summary(model, &text));
    if (!strstr(text, part)) fail_msg("'%s' is not in\n%s", part, text);
    rf_string_free(text);
}

/* ---- shared weights ---- */

static void twins(rf_strategy *s)
{
    char names[400];
    float before[N * CLASSES], after[N * CLASSES], kernel[IN * 5], other[IN * 5];
    rf_optimizer *optimizer;
    rf_inference *net;
    rf_model *loaded, *encoder = make_encoder(s), *model = make_twins(s, encoder);
    names_in_file(model, names, sizeof(names));
    assert_string_equal(names, "encoder/code/bias encoder/code/kernel encoder/dense/bias encoder/dense/kernel "
                               "head/bias head/kernel");
    assert_int_equal(rf_model_num_params(model), IN * 5 + 5 + 5 * CODE + CODE + CODE * CLASSES + CLASSES);
    assert_int_equal(rf_model_num_layers(model), 3);
    assert_true(rf_shape_equal(rf_model_input_shape(model, 1), RF_SHAPE(IN)));
    assert_true(rf_shape_equal(rf_model_output_shape(model, 0), RF_SHAPE(CLASSES)));
    assert_int_equal(rf_model_input_dtype(model, 0), RF_F32);
    assert_int_equal(rf_model_output_dtype(model, 1), RF_DTYPE_INVALID);
    assert_int_equal(rf_model_input_shape(model, 2).rank, 0);
    check_summary(model, "encoder (Model)");
    check_summary(model, "total parameters: 74");
    compile_model(s, model, &optimizer);
    fit(model, 2);
    predict(model, 2, before);
    /* The encoder is the program's: trained with the other one, and gone without it. */
    rf_layer *dense = rf_model_find_layer(model, "encoder/dense");
    assert_ptr_equal(dense, rf_model_find_layer(encoder, "dense"));
    OK(rf_variable_read(rf_layer_variable(dense, "kernel"), kernel));
    OK(rf_variable_read(rf_layer_variable(rf_model_find_layer(model, "encoder"), "dense/kernel"), other));
    assert_memory_equal(kernel, other, sizeof(kernel));
    rf_model_destroy(&encoder);
    OK(rf_model_save(model, in_folder("twins.rfck"), NULL));
    OK(rf_model_export(model, in_folder("twins.inference"), NULL));
    OK(rf_model_load(s, in_folder("twins.rfck"), &loaded));
    predict(loaded, 2, after);
    assert_memory_equal(before, after, sizeof(before));
    fit(loaded, 2);
    fit(model, 2);
    predict(model, 2, before);
    predict(loaded, 2, after);
    assert_same_predictions(before, after);
    OK(rf_inference_load(in_folder("twins.inference"), &(rf_inference_params){ .strategy = s }, &net));
    assert_int_equal(rf_inference_num_inputs(net), 2);
    rf_inference_destroy(&net);
    /* The model within the loaded one is complete: it is saved by itself. */
    OK(rf_model_save(rf_layer_model(rf_model_find_layer(loaded, "encoder")), in_folder("encoder.rfck"), NULL));
    rf_model_destroy(&loaded);
    OK(rf_model_load(s, in_folder("encoder.rfck"), &loaded));
    assert_int_equal(rf_model_num_layers(loaded), 2);
    rf_model_destroy(&loaded);
    rf_model_destroy(&model);
    rf_optimizer_destroy(&optimizer);
}
TEST_ON_ONE(twins)
TEST_ON_TWO(twins)

/* One model in two others, on two levels. */
static void two_models(rf_strategy *s)
{
    char names[400];
    float first[N * CLASSES], second[N * CLASSES], third[N * CLASSES];
    rf_optimizer *optimizer;
    rf_model *encoder = make_encoder(s), *inner, *outer, *loaded;
    rf_layer *a[2] = { make_model_layer(encoder, NULL, "encoder"), make_dense(CLASSES, "head") };
    OK(rf_model_create_sequential(s, a, 2, &RF_SHAPE(IN), &inner));
    rf_layer *b[1] = { make_model_layer(inner, NULL, NULL) };
    OK(rf_model_create_sequential(s, b, 1, NULL, &outer));
    OK(rf_model_build(outer, RF_SHAPE(IN)));
    names_in_file(outer, names, sizeof(names));
    assert_non_null(strstr(names, "model/encoder/dense/kernel"));
    assert_non_null(rf_model_find_layer(outer, "model/encoder/code"));
    predict(inner, 1, first);
    predict(outer, 1, second);
    assert_same_predictions(first, second);
    compile_model(s, outer, &optimizer);
    fit(outer, 1);
    predict(inner, 1, third);
    predict(outer, 1, second);
    assert_same_predictions(third, second);
    assert_true(memcmp(first, third, sizeof(first)) != 0);
    OK(rf_model_save(outer, in_folder("outer.rfck"), NULL));
    OK(rf_model_load(s, in_folder("outer.rfck"), &loaded));
    predict(loaded, 1, third);
    assert_memory_equal(third, second, sizeof(third));
    rf_model_destroy(&loaded);
    rf_model_destroy(&inner);
    rf_model_destroy(&outer);
    rf_model_destroy(&encoder);
    rf_optimizer_destroy(&optimizer);
}
TEST_ON_ONE(two_models)

/* Two layers of one model, of which the second ends early: one set of weights, in files, too. */
static void two_layers(rf_strategy *s)
{
    float before[N * CLASSES], after[N * CLASSES];
    rf_model_builder *b;
    rf_model *encoder = make_encoder(s), *model, *loaded;
    rf_layer *whole = make_model_layer(encoder, NULL, "whole"), *part = make_model_layer(encoder, "dense", "part"),
             *join;
    OK(rf_layer_concatenate(-1, &join));
    OK(rf_model_builder_create(s, &b));
    const rf_symbol x = rf_model_builder_input(b, RF_F32, RF_SHAPE(IN), NULL);
    const rf_symbol both[2] = { rf_model_builder_call(b, whole, x), rf_model_builder_call(b, part, x) };
    rf_symbol y = rf_model_builder_call_many(b, join, both, 2);
    y = rf_model_builder_call(b, make_dense(CLASSES, "head"), y);
    OK(rf_model_builder_finish(&b, &y, 1, NULL, &model));
    assert_int_equal(rf_model_num_params(model), 35 + 24 + (CODE + 5) * CLASSES + CLASSES);
    predict(model, 1, before);
    OK(rf_model_save(model, in_folder("two.rfck"), NULL));
    OK(rf_model_load(s, in_folder("two.rfck"), &loaded));
    assert_int_equal(rf_model_num_params(loaded), rf_model_num_params(model));
    assert_ptr_equal(rf_layer_model(rf_model_find_layer(loaded, "whole")),
                     rf_layer_model(rf_model_find_layer(loaded, "part")));
    predict(loaded, 1, after);
    assert_memory_equal(before, after, sizeof(before));
    rf_model_destroy(&loaded);
    rf_model_destroy(&model);
    rf_model_destroy(&encoder);
}
TEST_ON_ONE(two_layers)

/* A second model of layers that the first one has: one set of weights, under the same names; a file has the layers. */
static void shared_layers(rf_strategy *s)
{
    char names[400];
    float before[N * CLASSES], after[N * CLASSES];
    rf_optimizer *optimizer;
    rf_layer *layers[2], *again;
    rf_dense_params decayed = { .units = 5, .kernel_regularizer = { .l2 = 0.5f }, .name = "decayed" };
    rf_model *first = make_encoder(s), *second, *loaded;
    FAILS(rf_layer_set_name(rf_model_layer_at(first, 0), "x"), RF_ERROR_INVALID_ARGUMENT, "belongs to a model already");
    OK(rf_layer_dense(&decayed, &again));
    FAILS(rf_layer_share(again, &layers[0]), RF_ERROR_INVALID_ARGUMENT, "no model has the layer");
    FAILS(rf_layer_set_name(again, ""), RF_ERROR_INVALID_ARGUMENT, "name is empty");
    rf_layer_destroy(&again);
    OK(rf_layer_share(rf_model_find_layer(first, "dense"), &layers[0]));
    OK(rf_layer_dropout(0.5f, 3, &layers[1]));
    OK(rf_layer_set_name(layers[1], "drop"));
    rf_layer *head[3] = { layers[0], layers[1], make_dense(CLASSES, "head") };
    OK(rf_model_create_sequential(s, head, 3, &RF_SHAPE(IN), &second));
    assert_string_equal(rf_layer_name(rf_model_layer_at(second, 1)), "drop");
    names_in_file(second, names, sizeof(names));
    assert_string_equal(names, "dense/bias dense/kernel head/bias head/kernel");
    check_summary(second, "total parameters: 53");
    compile_model(s, second, &optimizer);
    fit(second, 1);
    float kernel[IN * 5], other[IN * 5];
    OK(rf_variable_read(rf_layer_variable(rf_model_find_layer(second, "dense"), "kernel"), kernel));
    OK(rf_variable_read(rf_layer_variable(rf_model_find_layer(first, "dense"), "kernel"), other));
    assert_memory_equal(kernel, other, sizeof(kernel));
    rf_layer_set_trainable(rf_model_find_layer(second, "dense"), false);
    assert_int_equal(rf_model_variables(first).count, 2);
    rf_layer_set_trainable(rf_model_find_layer(second, "dense"), true);
    OK(rf_model_save(second, in_folder("second.rfck"), NULL));
    predict(second, 1, before);
    rf_model_destroy(&first); /* its weights stay */
    predict(second, 1, after);
    assert_memory_equal(before, after, sizeof(before));
    OK(rf_model_load(s, in_folder("second.rfck"), &loaded));
    predict(loaded, 1, after);
    assert_memory_equal(before, after, sizeof(before));
    rf_model_destroy(&loaded);
    rf_model_destroy(&second);
    rf_optimizer_destroy(&optimizer);
}
TEST_ON_ONE(shared_layers)
TEST_ON_TWO(shared_layers)

/* ---- another head ---- */

static void read_kernel(rf_model *model, const char *layer, float *out)
{
    OK(rf_variable_read(rf_layer_variable(rf_model_find_layer(model, layer), "kernel"), out));
}

/* The code of docs/guides/models.md, word for word. */
static rf_result replace_head(rf_strategy *strategy, rf_model *loaded, rf_model **model)
{
    const rf_model_layer_params base = { .model = loaded, .last_layer = "dense", .name = "base" };
    rf_layer *layers[2];
    TRY(rf_layer_from_model(&base, &layers[0]));
    rf_layer_set_trainable(layers[0], false);
    TRY(rf_layer_dense(&(rf_dense_params){ .units = 3, .name = "head" }, &layers[1]));
    return rf_model_create_sequential(strategy, layers, 2, &RF_SHAPE(6), model);
}

/* A loaded model without its head, frozen, gets another one, which alone is trained. */
static void another_head(rf_strategy *s)
{
    float code[5 * CODE], trained[5 * CODE], head[5 * CLASSES], after[5 * CLASSES];
    rf_optimizer *optimizer;
    rf_model *encoder = make_encoder(s), *loaded, *model, *again;
    OK(rf_model_save(encoder, in_folder("base.rfck"), NULL));
    OK(rf_model_load(s, in_folder("base.rfck"), &loaded));
    assert_string_equal(rf_layer_name(rf_model_layer_at(loaded, 1)), "code");
    OK(replace_head(s, loaded, &model));
    assert_int_equal(rf_model_variables(model).count, 2);
    assert_int_equal(rf_model_state_variables(model).count, 2); /* no "base/code" */
    compile_model(s, model, &optimizer);
    float kernel[IN * 5], kept[IN * 5];
    read_kernel(model, "base/dense", kernel);
    read_kernel(loaded, "code", code);
    read_kernel(model, "head", head);
    fit(model, 1);
    read_kernel(model, "base/dense", kept);
    read_kernel(loaded, "code", trained);
    read_kernel(model, "head", after);
    assert_memory_equal(kernel, kept, sizeof(kernel));
    assert_memory_equal(code, trained, sizeof(code));
    assert_true(memcmp(head, after, sizeof(head)) != 0);
    OK(rf_model_save(model, in_folder("headed.rfck"), NULL));
    OK(rf_model_load(s, in_folder("headed.rfck"), &again));
    assert_false(rf_layer_trainable(rf_model_find_layer(again, "base")));
    assert_int_equal(rf_model_variables(again).count, 2);
    rf_layer_set_trainable(rf_model_find_layer(again, "base"), true);
    assert_int_equal(rf_model_variables(again).count, 4);
    rf_model_destroy(&again);
    rf_model_destroy(&model);
    rf_model_destroy(&loaded);
    rf_model_destroy(&encoder);
    rf_optimizer_destroy(&optimizer);
}
TEST_ON_ONE(another_head)

/* ---- mistakes ---- */

static rf_tensor call_first(rf_trace *t, rf_model *model, rf_tensor x, rf_mode mode, void *user)
{
    (void)user;
    return rf_layer_call(t, model, rf_model_layer_at(model, 0), x, mode);
}

static void refuses(rf_strategy *s)
{
    rf_layer *layer;
    rf_model_builder *b;
    rf_model *encoder = make_encoder(s), *twins_model = make_twins(s, encoder), *model, *custom;
    rf_model_layer_params p = { .model = encoder, .last_layer = "none" };
    FAILS(rf_layer_from_model(&p, &layer), RF_ERROR_INVALID_ARGUMENT, "the model has no layer 'none'");
    FAILS(rf_layer_from_model(NULL, &layer), RF_ERROR_INVALID_ARGUMENT, "model is NULL");
    OK(rf_model_create_custom(s, call_first, NULL, &custom));
    p = (rf_model_layer_params){ .model = custom, .last_layer = "dense" };
    FAILS(rf_layer_from_model(&p, &layer), RF_ERROR_INVALID_ARGUMENT, "this one is code");
    FAILS(rf_model_add_layer(custom, make_model_layer(custom, NULL, NULL)), RF_ERROR_INVALID_ARGUMENT,
          "has this one as a layer");
    FAILS(rf_layer_time_distributed(make_model_layer(encoder, NULL, NULL), NULL, &layer), RF_ERROR_INVALID_ARGUMENT,
          "layer is a model");
    OK(rf_model_builder_create(s, &b));
    const rf_symbol x = rf_model_builder_input(b, RF_F32, RF_SHAPE(IN), NULL);
    rf_symbol y = rf_model_builder_call(b, make_model_layer(twins_model, NULL, "twins"), x);
    FAILS(rf_model_builder_finish(&b, &y, 1, NULL, &model), RF_ERROR_INVALID_ARGUMENT,
          "layer 'twins' (Model) takes 2 inputs, got 1");
    /* A file would have the encoder twice. */
    OK(rf_model_builder_create(s, &b));
    const rf_symbol z = rf_model_builder_input(b, RF_F32, RF_SHAPE(IN), NULL);
    const rf_symbol pair[2] = { z, z };
    const rf_symbol ends[2] = { rf_model_builder_call_many(b, make_model_layer(twins_model, NULL, "twins"), pair, 2),
                                rf_model_builder_call(b, make_model_layer(encoder, NULL, "alone"), z) };
    OK(rf_model_builder_finish(&b, ends, 2, NULL, &model));
    FAILS(rf_model_save(model, in_folder("x"), NULL), RF_ERROR_UNSUPPORTED,
          "the models of layers 'twins' and 'alone' have a model in common");
    OK(rf_model_save_weights(model, in_folder("x"), NULL));
    assert_null(rf_model_find_layer(model, "twins/none"));
    assert_null(rf_model_find_layer(model, "twin"));
    assert_null(rf_model_layer_at(model, 2));
    rf_model_destroy(&model);
    rf_model_destroy(&custom);
    rf_model_destroy(&twins_model);
    rf_model_destroy(&encoder);
}
TEST_ON_ONE(refuses)

TESTS(model_layers, make_folder, remove_folder)
