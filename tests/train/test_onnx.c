/* SPDX-License-Identifier: Apache-2.0 */
/* Exported ONNX files, checked by independent programs: writes models and what they should give, then lets
 * check_onnx.py judge. Arguments: checker or runtime. Exits with 77 where that is not installed. */
#include <ringfire/interchange.h>

#include "onnx_manifest.h"
#include "onnx_models.h"
#include "ops/ops.h"
#include "run_state.h"
#include "tests/ops/cases/case_data.h"
#include "tests/room.h"
#include "train/files/onnx.h"

static onnx_manifest manifest;

/* ---- models ---- */

/* Exports it, and lists it with what it predicts for noise. */
static void list_predictions(rf_model *model, const char *name, rf_shape input, const char *nodes)
{
    static const char *const in_name = "input", *const out_name = "output";
    const size_t count = (size_t)rf_shape_count(input);
    float *values = calloc(count, sizeof(*values));
    assert_non_null(values);
    fill_noise(values, count, 8);
    const rf_array array = array_f32(input, values);
    rf_dataset *raw, *data;
    rf_array predictions;
    char path[200];
    OK(rf_dataset_from_arrays(&(rf_dataset_arrays_params){ .arrays = &array, .num_arrays = 1 }, &raw));
    OK(rf_dataset_batch(raw, (uint32_t)input.dim[0], RF_REMAINDER_KEEP, &data));
    OK(rf_model_predict(model, data, &predictions));
    snprintf(path, sizeof(path), "%s/%s", manifest.folder, name);
    OK(rf_model_export_onnx(model, path));
    list_model(&manifest, name, &array, &in_name, 1, &predictions, &out_name, 1, 1e-4, 1e-5, nodes);
    rf_array_free(&predictions);
    rf_dataset_destroy(&data);
    rf_dataset_destroy(&raw);
    free(values);
}

/* Outputs are what went in, or an image: names and layouts of outputs. */
static void single_layers(rf_strategy *strategy)
{
    rf_layer *layer;
    rf_model *model;
    const rf_shape image = RF_SHAPE(4, 4, 2);
    OK(rf_layer_dropout(0.5f, 0, &layer));
    OK(rf_model_create_sequential(strategy, &layer, 1, &image, &model));
    list_predictions(model, "nothing.onnx", RF_SHAPE(2, 4, 4, 2), "\"Identity\":1");
    rf_model_destroy(&model);
    float mean[] = { 3, -1 }, variance[] = { 4, 0.25f };
    const rf_array means = array_f32(RF_SHAPE(2), mean), variances = array_f32(RF_SHAPE(2), variance);
    OK(rf_layer_normalization(&(rf_normalization_params){ .mean = &means, .variance = &variances }, &layer));
    OK(rf_model_create_sequential(strategy, &layer, 1, &image, &model));
    list_predictions(model, "normalization.onnx", RF_SHAPE(2, 4, 4, 2), "\"Sub\":1,\"Div\":1");
    rf_model_destroy(&model);
    OK(rf_layer_conv2d(&(rf_conv2d_layer_params){ .filters = 3, .kernel_size = { 2 } }, &layer));
    OK(rf_model_create_sequential(strategy, &layer, 1, &image, &model));
    list_predictions(model, "image.onnx", RF_SHAPE(2, 4, 4, 2), "\"Transpose\":2,\"Conv\":1,\"Add\":0");
    rf_model_destroy(&model);
}

/* A sum and a product of two inputs. */
static rf_result sum_and_product(rf_trace *t, rf_model *model, const rf_tensor *in, rf_tensor *out, rf_mode mode,
                                 void *user)
{
    out[0] = rf_layer_call(t, model, user, rf_add(t, in[0], in[1]), mode);
    out[1] = rf_multiply(t, in[0], in[1]);
    return rf_trace_status(t);
}

static void several_inputs(rf_strategy *one)
{
    static const char *const in_names[] = { "left", "right" }, *const out_names[] = { "sum", "product" };
    enum { ROWS = 4, COLUMNS = 5 };
    float x[2][ROWS * COLUMNS];
    rf_layer *head;
    rf_model *model;
    rf_dataset *raw, *data;
    rf_array in[2], out[2];
    char path[200];
    OK(rf_layer_dense(&(rf_dense_params){ .units = 3 }, &head));
    OK(rf_model_create(one,
                       &(rf_model_params){ .apply = sum_and_product,
                                           .user = head,
                                           .num_inputs = 2,
                                           .num_outputs = 2,
                                           .input_names = in_names,
                                           .output_names = out_names },
                       &model));
    OK(rf_model_add_layer(model, head));
    for (uint32_t i = 0; i < 2; i++) {
        fill_noise(x[i], ROWS * COLUMNS, 8 + i);
        in[i] = array_f32(RF_SHAPE(ROWS, COLUMNS), x[i]);
    }
    OK(rf_dataset_from_arrays(&(rf_dataset_arrays_params){ .arrays = in, .num_arrays = 2 }, &raw));
    OK(rf_dataset_batch(raw, ROWS, RF_REMAINDER_KEEP, &data));
    OK(rf_model_predict_many(model, data, out, 2));
    snprintf(path, sizeof(path), "%s/several.onnx", manifest.folder);
    OK(rf_model_export_onnx(model, path));
    list_model(&manifest, "several.onnx", in, in_names, 2, out, out_names, 2, 1e-4, 1e-5,
               "\"Add\":2,\"Mul\":1,\"MatMul\":1");
    for (uint32_t i = 0; i < 2; i++) rf_array_free(&out[i]);
    rf_dataset_destroy(&raw);
    rf_dataset_destroy(&data);
    rf_model_destroy(&model);
}

/* One padded row, and one that is all padding. */
static void language_model(rf_strategy *one)
{
    static const char *const in_name = "tokens", *const out_name = "output";
    static int32_t tokens[3][6] = { { 1, 8, 3, 3, 7, 2 }, { 4, 5, 1, 0, 0, 0 }, { 0, 0, 0, 0, 0, 0 } };
    const rf_array in = { RF_I32, RF_SHAPE(3, 6), tokens };
    rf_array out;
    rf_model *model;
    rf_dataset *raw, *data;
    char path[200];
    OK(build_language(one, &model));
    OK(rf_dataset_from_arrays(&(rf_dataset_arrays_params){ .arrays = &in, .num_arrays = 1 }, &raw));
    OK(rf_dataset_batch(raw, 3, RF_REMAINDER_KEEP, &data));
    OK(rf_model_predict(model, data, &out));
    snprintf(path, sizeof(path), "%s/language.onnx", manifest.folder);
    OK(rf_model_export_onnx(model, path));
    list_model(&manifest, "language.onnx", &in, &in_name, 1, &out, &out_name, 1, 1e-4, 1e-5, "\"Softmax\":1");
    rf_array_free(&out);
    rf_dataset_destroy(&raw);
    rf_dataset_destroy(&data);
    rf_model_destroy(&model);
}

static void open_lengths(rf_strategy *one)
{
    static const char *const in_name = "tokens", *const out_names[] = { "output_0", "output_1" };
    static const int32_t lengths[] = { 5, 13 };
    rf_model *model;
    OK(build_open(one, &model));
    for (int i = 0; i < 2; i++) {
        int32_t tokens[3 * 13];
        char name[32], path[200];
        rf_array out[2];
        rf_dataset *raw, *data;
        for (int k = 0; k < 3 * lengths[i]; k++) tokens[k] = k * 5 % 9;
        const rf_array in = { RF_I32, RF_SHAPE(3, lengths[i]), tokens };
        OK(rf_dataset_from_arrays(&(rf_dataset_arrays_params){ .arrays = &in, .num_arrays = 1 }, &raw));
        OK(rf_dataset_batch(raw, 3, RF_REMAINDER_KEEP, &data));
        OK(rf_model_predict_many(model, data, out, 2));
        snprintf(name, sizeof(name), "open_%d.onnx", lengths[i]);
        snprintf(path, sizeof(path), "%s/%s", manifest.folder, name);
        OK(rf_model_export_onnx(model, path));
        list_model(&manifest, name, &in, &in_name, 1, out, out_names, 2, 1e-4, 1e-5, "\"GRU\":1,\"Softmax\":2");
        for (int k = 0; k < 2; k++) rf_array_free(&out[k]);
        rf_dataset_destroy(&raw);
        rf_dataset_destroy(&data);
    }
    rf_model_destroy(&model);
}

TEST(models)
{
    rf_strategy *one = open_devices("llvmpipe");
    if (!one) SKIP("not installed: llvmpipe");
    rf_model *model = image_model(one);
    list_predictions(model, "layers.onnx", RF_SHAPE(3, 11, 10, 2),
                     "\"Transpose\":2,\"Conv\":2,\"Add\":3,\"MatMul\":2,\"Reshape\":2");
    rf_model_destroy(&model);
    model = pooled_model(one);
    list_predictions(model, "pooled.onnx", RF_SHAPE(2, 8, 8, 3), "\"Transpose\":1,\"GlobalAveragePool\":1,\"Add\":1");
    rf_model_destroy(&model);
    model = recurrent_model(one);
    list_predictions(model, "recurrent.onnx", RF_SHAPE(3, 6, 4), "\"GRU\":2,\"LSTM\":1,\"Sigmoid\":18");
    rf_model_destroy(&model);
    for (int turned = 0; turned < 2; turned++) {
        model = normalized_model(one, turned);
        list_predictions(model, turned ? "normalized_rows.onnx" : "normalized.onnx", RF_SHAPE(3, 7, 6, 2),
                         turned ? "\"Conv\":2,\"Transpose\":3" : "\"Conv\":2,\"Transpose\":1");
        rf_model_destroy(&model);
    }
    model = windows_model(one);
    list_predictions(model, "windows.onnx", RF_SHAPE(3, 5, 4, 2), "\"Conv\":3,\"Resize\":2");
    rf_model_destroy(&model);
    model = sequence_model(one);
    list_predictions(model, "sequence.onnx", RF_SHAPE(3, 11, 3), "\"Conv\":2,\"MaxPool\":1");
    rf_model_destroy(&model);
    model = branches_of_images(one);
    list_predictions(model, "joined.onnx", RF_SHAPE(2, 3, 2, 2), "\"ConvTranspose\":1,\"Concat\":1,\"Max\":1");
    rf_model_destroy(&model);
    single_layers(one);
    several_inputs(one);
    language_model(one);
    open_lengths(one);
    branched_parts p;
    model = branched_model(one, &p);
    list_predictions(model, "branches.onnx", RF_SHAPE(5, 6, 5, 2), "\"Conv\":3,\"GlobalAveragePool\":1");
    rf_model_destroy(&model);
    rf_variable_destroy(&p.scale);
    rf_strategy_destroy(&one);
}

static rf_tensor sparse_loss(rf_trace *t, rf_tensor x, void *user)
{
    (void)user;
    return rf_sparse_categorical_crossentropy(t, rf_argmax(t, x), x, RF_LOGITS);
}

TEST(what_has_no_form_is_named)
{
    rf_strategy *one = open_devices("llvmpipe");
    if (!one) SKIP("not installed: llvmpipe");
    rf_layer *layer;
    rf_model *model;
    const rf_shape input = RF_SHAPE(3);
    OK(rf_layer_lambda(sparse_loss, NULL, &layer));
    OK(rf_model_create_sequential(one, &layer, 1, &input, &model));
    FAILS(rf_model_export_onnx(model, "/nonexistent/x"), RF_ERROR_UNSUPPORTED,
          "rf_model_export_onnx: operation 'sparse_crossentropy' cannot be expressed in ONNX");
    rf_model_destroy(&model);
    rf_strategy_destroy(&one);
}

/* ---- operations ---- */

static void one_case(const rf_op *op, const rf_op_case *c)
{
    static const char *const in_names[] = { "a", "b", "c", "d", "e", "f", "g", "h" }, *const out_name = "y";
    rf_case_data data;
    rf_inference_graph g = { .num_inputs = c->n_in, .num_outputs = 1, .output_names = { out_name } };
    rf_value out[RF_MAX_OUTPUTS];
    char name[120], path[250];
    OK(rf_case_data_make(op, c, 1, &data));
    OK(op->reference(&data.call, data.in, data.out));
    OK(rf_graph_create(rf_ops_core(), &g.graph));
    rf_array in[RF_MAX_INPUTS];
    for (uint32_t i = 0; i < c->n_in; i++) {
        OK(rf_graph_input(g.graph, i, data.call.in[i], &g.inputs[i]));
        g.input_names[i] = in_names[i];
        in[i] = (rf_array){ data.call.in[i].dtype, data.call.in[i].shape, data.in[i] };
    }
    OK(rf_graph_add(g.graph, op, data.attr, g.inputs, c->n_in, out));
    g.outputs[0] = out[0];
    OK(rf_inference_graph_finish(&g, false));
    snprintf(name, sizeof(name), "%s_%u.onnx", op->name, manifest.num_models);
    snprintf(path, sizeof(path), "%s/%s", manifest.folder, name);
    const rf_result r = rf_onnx_write(&g, &rf_system_file_ops, path);
    const bool has_form = !(op->flags & RF_OP_NO_ONNX);
    if (has_form && r < 0) fail_msg("%s/%s: %s", op->name, c->name, rf_error_message());
    if (!has_form) {
        if (r != RF_ERROR_UNSUPPORTED || !strstr(rf_error_message(), op->name)) fail_msg("%s is written", op->name);
    } else {
        const rf_array y = { data.call.out[0].dtype, data.call.out[0].shape, data.out[0] };
        list_model(&manifest, name, in, in_names, c->n_in, &y, &out_name, 1, c->rtol + 1e-5, c->atol + 1e-6, "");
    }
    rf_inference_graph_free(&g);
    rf_case_data_free(&data);
}

TEST(operations)
{
    uint32_t count;
    const rf_op *const *ops = rf_ops_all(&count);
    for (uint32_t i = 0; i < count; i++) {
        if (ops[i]->mutates) continue;
        uint32_t cases = 0;
        for (uint32_t k = 0; k < rf_op_cases(ops[i])->count; k++) {
            const rf_op_case *c = &rf_op_cases(ops[i])->items[k];
            double elements = 0;
            for (uint32_t j = 0; j < c->n_in; j++) elements += (double)rf_shape_count(c->in[j].desc.shape);
            if (c->large || c->benchmark || elements > 200000 || c->saturates) continue;
            one_case(ops[i], c);
            cases++;
        }
        if (cases == 0) fail_msg("%s has no case", ops[i]->name);
    }
}

TEST_PROGRAM(onnx)
{
    if (argc != 2) return 2;
    begin_manifest(&manifest);
    int failed = room_tests_run(own_tests, NULL, NULL);
    if (failed == 0) failed = judge_manifest(&manifest, argv[1]);
    scratch_remove(manifest.folder);
    return failed;
}
