/* SPDX-License-Identifier: Apache-2.0 */
/* Files that the library wrote come back as models that give the same bits. */
#include <bert/model.h>
#include <densenet/model.h>
#include <gpt/model.h>
#include <lstm/model.h>
#include <ncf/model.h>
#include <nmt/model.h>
#include <resnet/model.h>
#include <ringfire/interchange.h>

#include "onnx_models.h"
#include "run_state.h"
#include "tests/ops/cases/case_data.h"
#include "tests/room.h"

static rf_strategy *one;
static char folder[64], path[200], again[200];

static int begin(void **state)
{
    (void)state;
    one = open_devices("llvmpipe");
    scratch(folder);
    snprintf(path, sizeof(path), "%s/model.onnx", folder);
    snprintf(again, sizeof(again), "%s/again.onnx", folder);
    return 0;
}

static int end(void **state)
{
    (void)state;
    rf_strategy_destroy(&one);
    scratch_remove(folder);
    return 0;
}

#define NEEDS_LAVAPIPE                                                                                                 \
    if (!one) SKIP("not installed: llvmpipe")

static void predict(rf_model *model, const rf_array *in, rf_array *out)
{
    rf_dataset *raw, *data;
    OK(rf_dataset_from_arrays(&(rf_dataset_arrays_params){ .arrays = in, .num_arrays = rf_model_num_inputs(model) },
                              &raw));
    OK(rf_dataset_batch(raw, (uint32_t)in->shape.dim[0], RF_REMAINDER_KEEP, &data));
    OK(rf_model_predict_many(model, data, out, rf_model_num_outputs(model)));
    rf_dataset_destroy(&data);
    rf_dataset_destroy(&raw);
}

/* Bits, or within a tolerance where steps of a recurrent layer stand one after the other in the file. */
static void compare(const char *what, const rf_array *a, const rf_array *b, double tolerance)
{
    const int64_t count = rf_shape_count(a->shape);
    if (!rf_shape_equal(a->shape, b->shape) || a->dtype != b->dtype) fail_msg("%s: another shape", what);
    if (tolerance == 0 && a->dtype != RF_F32) {
        assert_memory_equal(a->data, b->data, (size_t)count * rf_dtype_size(a->dtype));
        return;
    }
    const float *x = a->data, *y = b->data;
    for (int64_t i = 0; i < count; i++) {
        if (x[i] != x[i] && y[i] != y[i]) continue;
        if (!(x[i] - y[i] <= tolerance && y[i] - x[i] <= tolerance))
            fail_msg("%s: [%lld] is %.9g, not %.9g", what, (long long)i, y[i], x[i]);
    }
}

/* Out, in, and both once more. */
static void round_trip(const char *what, rf_model *model, const rf_array *in, double tolerance)
{
    rf_array first[RF_MAX_COMPONENTS], second[RF_MAX_COMPONENTS], third[RF_MAX_COMPONENTS];
    const uint32_t count = rf_model_num_outputs(model);
    rf_model *back, *twice;
    predict(model, in, first);
    OK(rf_model_export_onnx(model, path));
    if (rf_model_import_onnx(one, path, NULL, &back) < 0) fail_msg("%s: %s", what, rf_error_message());
    assert_int_equal(rf_model_num_outputs(back), count);
    predict(back, in, second);
    for (uint32_t i = 0; i < count; i++) compare(what, &first[i], &second[i], tolerance);
    if (rf_model_export_onnx(back, again) < 0) fail_msg("%s, out again: %s", what, rf_error_message());
    if (rf_model_import_onnx(one, again, NULL, &twice) < 0) fail_msg("%s, in again: %s", what, rf_error_message());
    predict(twice, in, third);
    for (uint32_t i = 0; i < count; i++) compare(what, &second[i], &third[i], tolerance);
    for (uint32_t i = 0; i < count; i++) {
        rf_array_free(&first[i]);
        rf_array_free(&second[i]);
        rf_array_free(&third[i]);
    }
    rf_model_destroy(&twice);
    rf_model_destroy(&back);
}

static void noise_trip(const char *what, rf_model *model, rf_shape shape, double tolerance)
{
    const size_t count = (size_t)rf_shape_count(shape);
    float *values = calloc(count, sizeof(*values));
    assert_non_null(values);
    fill_noise(values, count, 8);
    const rf_array in = array_f32(shape, values);
    round_trip(what, model, &in, tolerance);
    free(values);
}

TEST(images_come_back)
{
    NEEDS_LAVAPIPE;
    rf_model *model = image_model(one);
    noise_trip("image", model, RF_SHAPE(3, 11, 10, 2), 0);
    rf_model_destroy(&model);
    model = pooled_model(one);
    noise_trip("pooled", model, RF_SHAPE(2, 8, 8, 3), 0);
    rf_model_destroy(&model);
    for (int turned = 0; turned < 2; turned++) {
        model = normalized_model(one, turned);
        noise_trip("normalized", model, RF_SHAPE(3, 7, 6, 2), 0);
        rf_model_destroy(&model);
    }
    model = windows_model(one);
    noise_trip("windows", model, RF_SHAPE(3, 5, 4, 2), 0);
    rf_model_destroy(&model);
    model = branches_of_images(one);
    noise_trip("joined", model, RF_SHAPE(2, 3, 2, 2), 0);
    rf_model_destroy(&model);
}

TEST(sequences_come_back)
{
    NEEDS_LAVAPIPE;
    rf_model *model = sequence_model(one);
    noise_trip("sequence", model, RF_SHAPE(3, 11, 3), 0);
    rf_model_destroy(&model);
    model = recurrent_model(one);
    noise_trip("recurrent", model, RF_SHAPE(3, 6, 4), 1e-6);
    rf_model_destroy(&model);
}

TEST(language_comes_back)
{
    NEEDS_LAVAPIPE;
    static int32_t tokens[3][6] = { { 1, 8, 3, 3, 7, 2 }, { 4, 5, 1, 0, 0, 0 }, { 0, 0, 0, 0, 0, 0 } };
    const rf_array in = { RF_I32, RF_SHAPE(3, 6), tokens };
    rf_model *model;
    OK(build_language(one, &model));
    round_trip("language", model, &in, 0);
    rf_model_destroy(&model);
}

TEST(open_lengths_come_back)
{
    NEEDS_LAVAPIPE;
    static int32_t tokens[3][5] = { { 1, 8, 3, 3, 7 }, { 4, 5, 1, 0, 0 }, { 0, 0, 0, 0, 0 } };
    const rf_array in = { RF_I32, RF_SHAPE(3, 5), tokens };
    rf_model *model;
    OK(build_open(one, &model));
    round_trip("open", model, &in, 0);
    rf_model_destroy(&model);
}

TEST(branches_come_back)
{
    NEEDS_LAVAPIPE;
    branched_parts p;
    rf_model *model = branched_model(one, &p);
    noise_trip("branches", model, RF_SHAPE(5, 6, 5, 2), 0);
    rf_model_destroy(&model);
    rf_variable_destroy(&p.scale);
}

/* ---- networks of the examples, but the one that draws its noise itself ---- */

enum { ROWS = 3, NUMBERS = 2 }; /* whole numbers of inputs are below the latter */

/* Noise, or numbers of tokens, for each input. */
static void example_trip(const char *what, rf_model *model, double tolerance)
{
    rf_array in[RF_MAX_COMPONENTS];
    const uint32_t count = rf_model_num_inputs(model);
    for (uint32_t i = 0; i < count; i++) {
        const rf_shape example = rf_model_input_shape(model, i);
        rf_shape shape = { .rank = example.rank + 1, .dim = { ROWS } };
        for (int32_t d = 0; d < example.rank; d++) shape.dim[d + 1] = example.dim[d];
        const size_t numbers = (size_t)rf_shape_count(shape);
        void *data = calloc(numbers, 4);
        assert_non_null(data);
        in[i] = (rf_array){ rf_model_input_dtype(model, i), shape, data };
        if (in[i].dtype == RF_F32) fill_noise(data, numbers, 8 + i);
        for (size_t k = 0; in[i].dtype == RF_I32 && k < numbers; k++) ((int32_t *)data)[k] = (int32_t)(k * 7 % NUMBERS);
    }
    round_trip(what, model, in, tolerance);
    for (uint32_t i = 0; i < count; i++) free(in[i].data);
}

TEST(examples_of_images_come_back)
{
    NEEDS_LAVAPIPE;
    const resnet_config projected = {
        .blocks = { 1, 1 }, .width = 8, .bottleneck = true, .projection = true, .large_images = true, .classes = 3
    };
    const resnet_config *const nets[] = { &resnet_8, &projected };
    for (int i = 0; i < 2; i++) {
        resnet *r;
        OK(resnet_create(one, nets[i], RF_SHAPE(16, 16, 3), &r));
        example_trip(i ? "resnet with projections" : "resnet", resnet_model(r), 0);
        resnet_destroy(&r);
    }
    densenet *d;
    OK(densenet_create(one, &densenet_bc_16_8, RF_SHAPE(16, 16, 3), &d));
    example_trip("densenet", densenet_model(d), 0);
    densenet_destroy(&d);
}

TEST(examples_of_texts_come_back)
{
    NEEDS_LAVAPIPE;
    const bert_config pretraining = { .layers = 1,
                                      .heads = 2,
                                      .width = 32,
                                      .inner_width = 48,
                                      .vocabulary = 31,
                                      .length = 12,
                                      .max_length = 14,
                                      .predictions = 4 };
    bert_config classes = pretraining;
    classes.predictions = 0;
    classes.classes = 3;
    for (int i = 0; i < 2; i++) {
        bert *b;
        OK(bert_create(one, i ? &classes : &pretraining, &b));
        example_trip("bert", bert_model(b), 0);
        bert_destroy(&b);
    }
    for (int bias = 0; bias < 2; bias++) {
        gpt *g;
        OK(gpt_create(
            one, &(gpt_config){ .layers = 2, .heads = 2, .width = 16, .block = 12, .vocabulary = 29, .bias = bias },
            &g));
        OK(rf_model_build_for(gpt_model(g), RF_I32, RF_SHAPE(12)));
        example_trip("gpt", gpt_model(g), 0);
        gpt_destroy(&g);
    }
    rf_model *model;
    OK(ncf_create(
        one, &(ncf_config){ .num_users = 11, .num_items = 14, .factors = 3, .num_layers = 3, .layers = { 8, 6, 4 } },
        &model));
    example_trip("ncf", model, 0);
    rf_model_destroy(&model);
}

TEST(examples_of_sequences_come_back)
{
    NEEDS_LAVAPIPE;
    rf_model *model;
    OK(lstm_create(
        one,
        &(lstm_config){
            .vocabulary = 13, .length = 7, .width = 6, .num_layers = 2, .units = { 5, 4 }, .dense_units = 6 },
        &model));
    example_trip("lstm", model, 0);
    rf_model_destroy(&model);
    const nmt_config transformer = { .layers = 1,
                                     .heads = 2,
                                     .width = 16,
                                     .key_width = 12,
                                     .inner_width = 24,
                                     .source_vocabulary = 13,
                                     .target_vocabulary = 11,
                                     .source_length = 9,
                                     .target_length = 7 };
    nmt_config recurrent = transformer;
    recurrent.layers = 0;
    recurrent.units = 8;
    for (int i = 0; i < 2; i++) {
        nmt *m;
        OK(nmt_create(one, i ? &recurrent : &transformer, &m));
        example_trip(i ? "recurrent translation" : "translation", nmt_model(m), 0);
        nmt_destroy(&m);
    }
}

/* ---- hostile files ---- */

/* A seed of the fuzzer, whose first byte says how many at its end are no part of the file. `from` becomes `to`, which
 * is as long. */
static void write_seed(const char *seed, const char *from, const char *to)
{
    static char bytes[1 << 14];
    char name[300];
    snprintf(name, sizeof(name), "%s/../../fuzz/corpus/fuzz_onnx/%s", FIXTURES, seed);
    FILE *file = fopen(name, "rb");
    assert_non_null(file);
    const size_t size = fread(bytes, 1, sizeof(bytes), file);
    fclose(file);
    bool found = !from;
    for (char *at = bytes; from && (at = memmem(at, size - (size_t)(at - bytes), from, strlen(from)));) {
        memcpy(at, to, strlen(from));
        found = true;
    }
    assert_true(size > 1 && found);
    const size_t length = size - 1 - (uint8_t)bytes[0];
    file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes + 1, 1, length, file), length);
    assert_int_equal(fclose(file), 0);
}

/* Sizes in attributes, and operands that broadcast from an axis on. */
TEST(older_operations_are_known)
{
    NEEDS_LAVAPIPE;
    static float pixels[] = { 1, 2, 3, 4 };
    static const struct {
        const char *seed;
        float wanted[8];
    } files[] = { { "enlarged", { 1, 1, 2, 2, 3, 3, 4, 4 } }, { "broadcast", { 80.75f, 71.25f, 3.5f, 4.5f } } };
    const rf_array in = array_f32(RF_SHAPE(1, 2, 2, 1), pixels);
    for (int i = 0; i < 2; i++) {
        rf_model *model;
        rf_array out;
        write_seed(files[i].seed, NULL, NULL);
        OK(rf_model_import_onnx(one, path, NULL, &model));
        predict(model, &in, &out);
        const rf_array wanted = { RF_F32, RF_SHAPE(1, 2, i ? 2 : 4, 1), (float *)(uintptr_t)files[i].wanted };
        compare(files[i].seed, &wanted, &out, 0);
        rf_array_free(&out);
        rf_model_destroy(&model);
    }
}

TEST(hostile_files_are_errors)
{
    NEEDS_LAVAPIPE;
    static const struct {
        const char *seed, *from, *to, *message;
        rf_result result;
    } files[] = {
        { "huge", NULL, NULL, "node 'a ConstantOfShape' (ConstantOfShape): its numbers become too many",
          RF_ERROR_UNSUPPORTED },
        { "doubled", NULL, NULL, "node 'a Concat' (Concat): its numbers become too many", RF_ERROR_UNSUPPORTED },
        { "cycle", NULL, NULL, "node 'a Add' (Add): its operand 'b' is made by no node before it",
          RF_ERROR_CORRUPT_DATA },
        { "itself", NULL, NULL, "node 'a Add' (Add): its operand 'a' is made by no node before it",
          RF_ERROR_CORRUPT_DATA },
        { "endless", NULL, NULL, "node 'a Loop' (Loop): this operation is not there", RF_ERROR_UNSUPPORTED },
        { "overflow", NULL, NULL, "a tensor has a shape that is none", RF_ERROR_CORRUPT_DATA },
        { "deep", NULL, NULL, "graphs lie within each other", RF_ERROR_UNSUPPORTED },
        { "image", "HardSigmoid", "HardSqueeze", "node 'a HardSqueeze' (HardSqueeze): this operation is not there",
          RF_ERROR_UNSUPPORTED },
        { "recurrent", NULL, NULL, "weights.bin", RF_ERROR_NOT_FOUND },
        { "recurrent", "weights.bin", "../etc/pass", "outside of the file's directory", RF_ERROR_CORRUPT_DATA },
        { "recurrent", "weights.bin", "/etc/passwd", "outside of the file's directory", RF_ERROR_CORRUPT_DATA },
    };
    for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
        rf_model *model;
        write_seed(files[i].seed, files[i].from, files[i].to);
        FAILS(rf_model_import_onnx(one, path, NULL, &model), files[i].result, files[i].message);
        assert_null(model);
    }
}

TESTS(import_onnx, begin, end)
