/* SPDX-License-Identifier: Apache-2.0 */
/* Sizes of inputs that a model leaves open: shapes, any length in training and prediction, files, ONNX, mistakes. */
#include <ringfire/interchange.h>

#include "../support/strategies.h"
#include "test_folder.h"
#include "tests/room.h"

enum { WORDS = 9, WIDTH = 4, CLASSES = 3, ROWS = 4, MOST = 12 };

static rf_layer *make_recurrent(void)
{
    rf_layer *layer;
    OK(rf_layer_rnn(&(rf_rnn_layer_params){ .units = 5, .return_sequences = true }, &layer));
    return layer;
}

/* [t] -> a row for each step, and one for all steps. `padded`: 0 pads. */
static rf_result build(rf_strategy *s, bool padded, rf_model **model)
{
    static const char *const names[] = { "steps", "all" };
    rf_layer *table, *mask, *head, *pool;
    rf_model_builder *b;
    OK(rf_layer_embedding(&(rf_embedding_params){ .input_dim = WORDS, .output_dim = WIDTH }, &table));
    OK(rf_layer_dense(&(rf_dense_params){ .units = CLASSES }, &head));
    OK(rf_layer_global_avg_pool1d(&pool));
    OK(rf_model_builder_create(s, &b));
    const rf_symbol tokens = rf_model_builder_input(b, RF_I32, RF_SHAPE(-1), "tokens");
    rf_symbol seen = { 0, 0 }, x = rf_model_builder_call(b, table, tokens), y;
    if (padded) {
        OK(rf_layer_not_equal(0, &mask));
        seen = rf_model_builder_call(b, mask, tokens);
    }
    (void)rf_model_builder_apply(b, make_recurrent(), &x, 1, seen, &y, 1);
    y = rf_model_builder_call(b, head, y);
    const rf_symbol out[] = { y, rf_model_builder_call(b, pool, y) };
    return rf_model_builder_finish(&b, out, 2, names, model);
}

static rf_array tokens_of(int32_t length, int32_t *tokens)
{
    for (int i = 0; i < ROWS * length; i++) tokens[i] = i * 5 % WORDS;
    return array_i32(RF_SHAPE(ROWS, length), tokens);
}

static void predict(rf_model *model, int32_t length, rf_array *out)
{
    int32_t tokens[ROWS * MOST];
    const rf_array in = tokens_of(length, tokens);
    rf_dataset *rows, *data;
    OK(rf_dataset_from_arrays(&(rf_dataset_arrays_params){ .arrays = &in, .num_arrays = 1 }, &rows));
    OK(rf_dataset_batch(rows, ROWS, RF_REMAINDER_KEEP, &data));
    OK(rf_model_predict_many(model, data, out, 2));
    assert_true(rf_shape_equal(out[0].shape, RF_SHAPE(ROWS, length, CLASSES)));
    assert_true(rf_shape_equal(out[1].shape, RF_SHAPE(ROWS, CLASSES)));
    rf_dataset_destroy(&rows);
    rf_dataset_destroy(&data);
}

static void free_outputs(rf_array *out)
{
    for (int i = 0; i < 2; i++) rf_array_free(&out[i]);
}

static void assert_same(const rf_array *a, const rf_array *b)
{
    for (int i = 0; i < 2; i++) {
        assert_true(rf_shape_equal(a[i].shape, b[i].shape));
        assert_memory_equal(a[i].data, b[i].data, (size_t)rf_shape_count(a[i].shape) * sizeof(float));
    }
}

static rf_inference *load(rf_strategy *s, const char *name)
{
    rf_inference *net;
    rf_array signature;
    OK(rf_inference_load(in_folder(name), &(rf_inference_params){ .strategy = s }, &net));
    assert_non_null(rf_inference_input(net, 0, &signature));
    assert_true(rf_shape_equal(signature.shape, RF_SHAPE(-1, -1)));
    assert_non_null(rf_inference_output(net, 0, &signature));
    assert_true(rf_shape_equal(signature.shape, RF_SHAPE(-1, -1, CLASSES)));
    return net;
}

/* The model from a file, as an inference and exported gives the same for each length. */
static void any_length(rf_strategy *s)
{
    static const int32_t lengths[] = { 3, 8, MOST };
    rf_model *model, *loaded;
    OK(build(s, false, &model));
    assert_true(rf_shape_equal(rf_model_input_shape(model, 0), RF_SHAPE(-1)));
    assert_true(rf_shape_equal(rf_model_output_shape(model, 0), RF_SHAPE(-1, CLASSES)));
    assert_true(rf_shape_equal(rf_model_output_shape(model, 1), RF_SHAPE(CLASSES)));
    OK(rf_model_save(model, in_folder("open.rfck"), NULL));
    OK(rf_model_load(s, in_folder("open.rfck"), &loaded));
    assert_true(rf_shape_equal(rf_model_output_shape(loaded, 0), RF_SHAPE(-1, CLASSES)));
    OK(rf_model_export(model, in_folder("exported.rfck"), NULL));
    rf_inference *net = load(s, "open.rfck"), *exported = load(s, "exported.rfck");
    for (int i = 0; i < 3; i++) {
        int32_t tokens[ROWS * MOST];
        rf_array a[2], b[2], c[2], d[2];
        const rf_array in = tokens_of(lengths[i], tokens);
        predict(model, lengths[i], a);
        predict(loaded, lengths[i], b);
        OK(rf_inference_run_many(net, &in, 1, c, 2));
        OK(rf_inference_run_many(exported, &in, 1, d, 2));
        assert_same(a, b);
        assert_same(a, c);
        assert_same(a, d);
        free_outputs(a);
        free_outputs(b);
        free_outputs(c);
        free_outputs(d);
    }
    rf_inference_destroy(&net);
    rf_inference_destroy(&exported);
    rf_model_destroy(&loaded);
    rf_model_destroy(&model);
}
TEST_ON_ONE(any_length)
TEST_ON_TWO(any_length)

/* Rows and columns of images are halved more often than a short sequence could be. */
static void images_of_any_size(rf_strategy *s)
{
    enum { HIGH = 40, WIDE = 33, CHANNELS = 2 };
    static float pixels[HIGH * WIDE * CHANNELS];
    rf_layer *layers[6];
    rf_model *model;
    rf_inference *net;
    rf_array wanted, got;
    const rf_shape open = RF_SHAPE(-1, -1, CHANNELS);
    for (int i = 0; i < 4; i++)
        OK(rf_layer_conv2d(
            &(rf_conv2d_layer_params){ .filters = 3, .kernel_size = { 3 }, .conv = { .stride = { 2, 2 } } },
            &layers[i]));
    OK(rf_layer_global_avg_pool2d(&layers[4]));
    OK(rf_layer_dense(&(rf_dense_params){ .units = 2 }, &layers[5]));
    OK(rf_model_create_sequential(s, layers, 6, &open, &model));
    OK(rf_model_export(model, in_folder("images.rfck"), NULL));
    OK(rf_inference_load(in_folder("images.rfck"), &(rf_inference_params){ .device = "llvmpipe" }, &net));
    for (int i = 0; i < HIGH * WIDE * CHANNELS; i++) pixels[i] = (float)(i % 17) / 17;
    const rf_array in = { RF_F32, RF_SHAPE(1, HIGH, WIDE, CHANNELS), pixels };
    rf_dataset *raw, *data;
    OK(rf_dataset_from_arrays(&(rf_dataset_arrays_params){ .arrays = &in, .num_arrays = 1 }, &raw));
    OK(rf_dataset_batch(raw, 1, RF_REMAINDER_KEEP, &data));
    OK(rf_model_predict(model, data, &wanted));
    OK(rf_inference_run(net, &in, &got));
    assert_memory_equal(wanted.data, got.data, 2 * sizeof(float));
    rf_array_free(&wanted);
    rf_array_free(&got);
    rf_dataset_destroy(&data);
    rf_dataset_destroy(&raw);
    rf_inference_destroy(&net);
    rf_model_destroy(&model);
}
TEST_ON_ONE(images_of_any_size)

/* A file of bytes holds a text. */
static bool holds(const char *path, const char *text)
{
    char bytes[1 << 16];
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    const size_t size = fread(bytes, 1, sizeof(bytes), file), length = strlen(text);
    fclose(file);
    for (size_t i = 0; i + length <= size; i++)
        if (memcmp(bytes + i, text, length) == 0) return true;
    return false;
}

static void exports(rf_strategy *s)
{
    rf_model *model;
    OK(build(s, false, &model));
    OK(rf_model_export_onnx(model, in_folder("open.onnx")));
    assert_true(holds(in_folder("open.onnx"), "sequence"));
    rf_model_destroy(&model);
    OK(build(s, true, &model));
    FAILS(rf_model_export_onnx(model, in_folder("x")), RF_ERROR_UNSUPPORTED, "a number of steps that the inputs leave");
    rf_model_destroy(&model);
}
TEST_ON_ONE(exports)

/* Attention divides sequences among its heads: its reshapes have the length in them. */
static void exports_attention(rf_strategy *s)
{
    static const int64_t lengths[] = { 2, 8, MOST };
    float values[ROWS * MOST * WIDTH];
    rf_layer *layer;
    rf_model_builder *b;
    rf_model *model;
    rf_inference *saved, *exported;
    fill_noise(values, ROWS * MOST * WIDTH, 3);
    OK(rf_layer_multi_head_attention(&(rf_multi_head_attention_params){ .num_heads = 2, .key_dim = 4 }, &layer));
    OK(rf_model_builder_create(s, &b));
    rf_symbol x = rf_model_builder_input(b, RF_F32, RF_SHAPE(-1, WIDTH), NULL), y;
    (void)rf_model_builder_apply(b, layer, (const rf_symbol[]){ x, x }, 2, (rf_symbol){ 0, 0 }, &y, 1);
    OK(rf_model_builder_finish(&b, &y, 1, NULL, &model));
    OK(rf_model_save(model, in_folder("saved.rfck"), NULL));
    OK(rf_model_export(model, in_folder("exported.rfck"), NULL));
    OK(rf_inference_load(in_folder("saved.rfck"), &(rf_inference_params){ .strategy = s }, &saved));
    OK(rf_inference_load(in_folder("exported.rfck"), &(rf_inference_params){ .strategy = s }, &exported));
    for (int i = 0; i < 3; i++) {
        const rf_array in = array_f32(RF_SHAPE(ROWS, lengths[i], WIDTH), values);
        rf_array wanted, is;
        OK(rf_inference_run(saved, &in, &wanted));
        OK(rf_inference_run(exported, &in, &is));
        assert_true(rf_shape_equal(is.shape, in.shape) && rf_shape_equal(wanted.shape, in.shape));
        assert_memory_equal(is.data, wanted.data, (size_t)rf_shape_count(is.shape) * sizeof(float));
        rf_array_free(&wanted);
        rf_array_free(&is);
    }
    rf_inference_destroy(&saved);
    rf_inference_destroy(&exported);
    rf_model_destroy(&model);
}
TEST_ON_TWO(exports_attention)

static void refuses(rf_strategy *s)
{
    rf_layer *places;
    rf_model_builder *b;
    rf_model *model;
    OK(rf_model_builder_create(s, &b));
    const rf_symbol x = rf_model_builder_input(b, RF_F32, RF_SHAPE(-2, 4), NULL);
    FAILS(rf_model_builder_finish(&b, &x, 1, NULL, &model), RF_ERROR_INVALID_ARGUMENT, "[-2,4]");
    /* A table of places that is too short for what a model is built with. */
    OK(rf_layer_position_embedding(9, NULL, NULL, &places));
    OK(rf_model_builder_create(s, &b));
    rf_symbol y = rf_model_builder_call(b, places, rf_model_builder_input(b, RF_F32, RF_SHAPE(-1, 4), NULL));
    FAILS(rf_model_builder_finish(&b, &y, 1, NULL, &model), RF_ERROR_INVALID_ARGUMENT, "position_embedding");
}
TEST_ON_ONE(refuses)

TESTS(open_sizes, make_folder, remove_folder)
