/* SPDX-License-Identifier: Apache-2.0 */
/* Exported ONNX files, checked by independent programs: writes models and what they should give, then lets
 * check_onnx.py judge. Arguments: checker or runtime. Exits with 77 where that is not installed. */
#include <sys/wait.h>

#include <ringfire/interchange.h>

#include "ops/ops.h"
#include "run_state.h"
#include "tests/ops/cases/case_data.h"
#include "tests/room.h"
#include "train/files/onnx.h"

static char folder[64];
static FILE *manifest;
static uint32_t num_models;

/* ---- the manifest ---- */

static void write_bytes(const char *name, const void *data, size_t size)
{
    char path[300];
    snprintf(path, sizeof(path), "%s/%s", folder, name);
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(data, 1, size, file), size);
    fclose(file);
}

static const char *type_name(rf_dtype dtype)
{
    static const char *const names[RF_DTYPE_COUNT] = { [RF_F32] = "float32", [RF_I32] = "int32", [RF_U8] = "uint8" };
    return names[dtype] ? names[dtype] : rf_dtype_name(dtype);
}

static void list_tensor(const char *model, const char *name, const rf_array *array, double rtol, double atol)
{
    char file[160];
    snprintf(file, sizeof(file), "%s.%s", model, name);
    write_bytes(file, array->data, (size_t)rf_shape_count(array->shape) * rf_dtype_size(array->dtype));
    fprintf(manifest, "{\"name\":\"%s\",\"file\":\"%s\",\"type\":\"%s\",\"rtol\":%g,\"atol\":%g,\"shape\":[", name,
            file, type_name(array->dtype), rtol, atol);
    for (int32_t i = 0; i < array->shape.rank; i++)
        fprintf(manifest, "%s%lld", i ? "," : "", (long long)array->shape.dim[i]);
    fprintf(manifest, "]}");
}

/* `nodes`: how many of some operations there are, as members of a JSON object. */
static void list_model(const char *model, const rf_array *in, const char *const *in_names, uint32_t num_in,
                       const rf_array *out, const char *const *out_names, uint32_t num_out, double rtol, double atol,
                       const char *nodes)
{
    fprintf(manifest, "%s{\"model\":\"%s\",\"nodes\":{%s},\"inputs\":[", num_models++ ? ",\n" : "", model, nodes);
    for (uint32_t i = 0; i < num_in; i++) {
        if (i) fprintf(manifest, ",");
        list_tensor(model, in_names[i], &in[i], 0, 0);
    }
    fprintf(manifest, "],\"outputs\":[");
    for (uint32_t i = 0; i < num_out; i++) {
        if (i) fprintf(manifest, ",");
        list_tensor(model, out_names[i], &out[i], rtol, atol);
    }
    fprintf(manifest, "]}");
}

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
    snprintf(path, sizeof(path), "%s/%s", folder, name);
    OK(rf_model_export_onnx(model, path));
    list_model(name, &array, &in_name, 1, &predictions, &out_name, 1, 1e-4, 1e-5, nodes);
    rf_array_free(&predictions);
    rf_dataset_destroy(&data);
    rf_dataset_destroy(&raw);
    free(values);
}

/* Odd sizes, so that SAME pads unevenly; layers and activations. */
static rf_model *image_model(rf_strategy *strategy)
{
    rf_layer *layers[12];
    rf_model *model;
    const rf_shape input = RF_SHAPE(11, 10, 2);
    uint32_t n = 0;
    OK(rf_layer_conv2d(&(rf_conv2d_layer_params){ .filters = 4,
                                                  .kernel_size = { 3, 2 },
                                                  .conv = { .padding = RF_PADDING_SAME, .stride = { 2, 1 } },
                                                  .activation = RF_ACTIVATION_LEAKY_RELU },
                       &layers[n++]));
    OK(rf_layer_max_pool2d(&(rf_pool2d_params){ .window = { 3, 2 }, .stride = { 1, 2 }, .padding = RF_PADDING_SAME },
                           &layers[n++]));
    OK(rf_layer_conv2d(&(rf_conv2d_layer_params){ .filters = 6,
                                                  .kernel_size = { 2 },
                                                  .conv = { .groups = 2,
                                                            .dilation = { 2, 1 },
                                                            .padding = RF_PADDING_EXPLICIT,
                                                            .explicit_padding = { 1, 0, 2, 1 } },
                                                  .activation = RF_ACTIVATION_GELU,
                                                  .no_bias = true },
                       &layers[n++]));
    OK(rf_layer_activation(RF_ACTIVATION_TANH, &layers[n++]));
    OK(rf_layer_avg_pool2d(&(rf_pool2d_params){ .window = { 2, 2 }, .stride = { 1, 1 }, .padding = RF_PADDING_SAME },
                           &layers[n++]));
    OK(rf_layer_dropout(0.25f, 0, &layers[n++]));
    OK(rf_layer_reshape(RF_SHAPE(-1, 3), &layers[n++]));
    OK(rf_layer_dense(&(rf_dense_params){ .units = 5, .activation = RF_ACTIVATION_SIGMOID }, &layers[n++]));
    OK(rf_layer_flatten(&layers[n++]));
    OK(rf_layer_dense(&(rf_dense_params){ .units = 4, .activation = RF_ACTIVATION_RELU }, &layers[n++]));
    OK(rf_layer_activation(RF_ACTIVATION_SOFTMAX, &layers[n++]));
    OK(rf_model_create_sequential(strategy, layers, n, &input, &model));
    return model;
}

/* All of it with channels first: one transposition in, none out. */
static rf_model *pooled_model(rf_strategy *strategy)
{
    rf_layer *layers[5];
    rf_model *model;
    const rf_shape input = RF_SHAPE(8, 8, 3);
    uint32_t n = 0;
    OK(rf_layer_conv2d(
        &(rf_conv2d_layer_params){ .filters = 5, .kernel_size = { 3 }, .activation = RF_ACTIVATION_RELU },
        &layers[n++]));
    OK(rf_layer_activation(RF_ACTIVATION_SOFTMAX, &layers[n++]));
    OK(rf_layer_global_avg_pool2d(&layers[n++]));
    OK(rf_layer_dense(&(rf_dense_params){ .units = 3, .activation = RF_ACTIVATION_TANH }, &layers[n++]));
    OK(rf_model_create_sequential(strategy, layers, n, &input, &model));
    return model;
}

/* A block with a residual connection, two branches that meet, and what ONNX has of the rest, on images of either
 * layout. */
typedef struct parts {
    rf_layer *stem, *left, *right, *head;
    rf_variable *scale;
} parts;

static rf_tensor call_branches(rf_trace *t, rf_model *model, rf_tensor x, rf_mode mode, void *user)
{
    static const int32_t channels[] = { 3 }, places[] = { 1, -2 }, rows[] = { 1 }, back[] = { 0, 2, 1, 3 };
    static float offsets[] = { 0.5f, -0.25f, 0.125f, 1 };
    const parts *p = user;
    const rf_tensor raw = x;
    x = rf_layer_call(t, model, p->stem, x, mode);
    rf_tensor left = rf_layer_call(t, model, p->left, x, mode), right = rf_layer_call(t, model, p->right, x, mode);
    left = rf_gelu(t, left, RF_GELU_TANH);
    right = rf_multiply(t, right, rf_variable_tensor(t, p->scale)); /* [4] on channels */
    right = rf_add(t, right, rf_constant_array(t, &(rf_array){ RF_F32, RF_SHAPE(4), offsets }));
    x = rf_add(t, x, rf_maximum(t, left, rf_minimum(t, right, rf_constant(t, 0.75f))));
    /* over channels, over places with and without them, over rows alone */
    const rf_tensor peak = rf_reduce_max(t, x, channels, 1, RF_KEEP_DIMS),
                    mean = rf_reduce_mean(t, x, places, 2, RF_KEEP_DIMS);
    x = rf_divide(t, rf_subtract(t, x, mean), rf_add(t, rf_exp(t, rf_negative(t, peak)), rf_constant(t, 1)));
    const rf_tensor columns = rf_reduce_sum(t, x, rows, 1, RF_DROP_DIMS); /* [n, w, c] */
    const rf_tensor turned = rf_transpose(t, x, back);                    /* [n, w, h, c] */
    const rf_tensor sums =
        rf_cumsum(t, rf_reduce_sum(t, turned, channels, 1, RF_DROP_DIMS), RF_SCAN_EXCLUSIVE_REVERSE); /* [n, w, h] */
    const rf_tensor mixed = rf_matmul(t, sums, columns, RF_TRANSPOSE_A);                              /* [n, h, c] */
    const rf_tensor best = rf_one_hot(t, rf_argmax(t, rf_log_softmax(t, mixed)), 4);
    const rf_tensor batch = rf_sqrt(t, rf_global_batch_size(t));
    rf_tensor y = rf_add(t, rf_flatten(t, rf_multiply(t, mixed, best)), batch);
    y = rf_layer_call(t, model, p->head, y, mode);
    const rf_tensor skip = rf_reduce_mean(t, rf_square(t, raw), NULL, 0, RF_DROP_DIMS);
    return rf_add(t, y, rf_stop_gradient(t, rf_abs(t, skip)));
}

static rf_model *branched_model(rf_strategy *strategy, parts *p)
{
    rf_model *model;
    const rf_conv2d_params same = { .padding = RF_PADDING_SAME };
    OK(rf_layer_conv2d(&(rf_conv2d_layer_params){ .name = "stem", .filters = 4, .kernel_size = { 3 }, .conv = same },
                       &p->stem));
    OK(rf_layer_conv2d(&(rf_conv2d_layer_params){ .name = "left", .filters = 4, .kernel_size = { 3 }, .conv = same },
                       &p->left));
    OK(rf_layer_conv2d(&(rf_conv2d_layer_params){ .name = "right", .filters = 4, .kernel_size = { 1 }, .conv = same },
                       &p->right));
    OK(rf_layer_dense(&(rf_dense_params){ .name = "head", .units = 3 }, &p->head));
    const rf_variable_params scale = { .name = "stem/kernel",
                                       .shape = RF_SHAPE(4),
                                       .initializer = { RF_INIT_RANDOM_NORMAL, 0, 1, 3 } };
    OK(rf_variable_create(strategy, &scale, &p->scale)); /* of a layer's name, on purpose */
    OK(rf_model_create_custom(strategy, call_branches, p, &model));
    OK(rf_model_add_layer(model, p->stem));
    OK(rf_model_add_layer(model, p->left));
    OK(rf_model_add_layer(model, p->right));
    OK(rf_model_add_layer(model, p->head));
    OK(rf_model_build(model, RF_SHAPE(6, 5, 2)));
    return model;
}

/* Normalized images with channels first or last and vectors, by averages and factors that training has moved. Along the
 * last axis nothing is turned but the input. */
static rf_model *normalized_model(rf_strategy *strategy, bool turned)
{
    rf_layer *layers[8];
    rf_model *model;
    const rf_shape input = RF_SHAPE(7, 6, 2);
    uint32_t n = 0;
    OK(rf_layer_conv2d(&(rf_conv2d_layer_params){ .filters = 5, .kernel_size = { 3 }, .no_bias = true }, &layers[n++]));
    OK(rf_layer_batch_norm(&(rf_batch_norm_params){ .axis = turned ? 1 : -1 }, &layers[n++]));
    OK(rf_layer_activation(RF_ACTIVATION_RELU, &layers[n++]));
    OK(rf_layer_conv2d(&(rf_conv2d_layer_params){ .filters = 4, .kernel_size = { 2 } }, &layers[n++]));
    OK(rf_layer_batch_norm(&(rf_batch_norm_params){ .no_scale = true, .no_center = true }, &layers[n++]));
    OK(rf_layer_global_avg_pool2d(&layers[n++]));
    OK(rf_layer_dense(&(rf_dense_params){ .units = 3 }, &layers[n++]));
    OK(rf_layer_batch_norm(&(rf_batch_norm_params){ .epsilon = 0.5 }, &layers[n++]));
    OK(rf_model_create_sequential(strategy, layers, n, &input, &model));
    const rf_variable_list lists[] = { rf_model_variables(model), rf_model_state_variables(model) };
    for (uint32_t k = 0; k < 2; k++)
        for (uint32_t i = 0; i < lists[k].count; i++) {
            float values[8];
            rf_variable *v = lists[k].items[i];
            if (rf_variable_shape(v).rank != 1) continue;
            fill_noise(values, 8, 10 * k + i);
            const bool positive = strstr(rf_variable_name(v), "variance") != NULL;
            for (int c = 0; c < 8; c++) values[c] = positive ? 1.25f + values[c] : values[c];
            OK(rf_variable_assign(v, values));
        }
    return model;
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

/* Depthwise, enlarged, with slopes; and sequences, whose kernels are reshaped. */
static rf_model *windows_model(rf_strategy *strategy)
{
    rf_layer *l[8];
    rf_model *model;
    uint32_t n = 0;
    OK(rf_layer_zero_padding2d(NULL, &l[n++]));
    OK(rf_layer_depthwise_conv2d(&(rf_depthwise_conv2d_params){ .kernel_size = { 3 }, .depth_multiplier = 2 },
                                 &l[n++]));
    OK(rf_layer_prelu(NULL, &l[n++]));
    OK(rf_layer_upsample2d(NULL, RF_INTERPOLATION_BILINEAR, &l[n++]));
    OK(rf_layer_separable_conv2d(&(rf_separable_conv2d_params){ .filters = 3, .kernel_size = { 2 } }, &l[n++]));
    OK(rf_layer_leaky_relu(0, &l[n++]));
    OK(rf_layer_upsample2d((const int32_t[]){ 3, 1 }, RF_INTERPOLATION_NEAREST, &l[n++]));
    OK(rf_layer_global_max_pool2d(&l[n++]));
    OK(rf_model_create_sequential(strategy, l, n, &RF_SHAPE(5, 4, 2), &model));
    return model;
}

static rf_model *sequence_model(rf_strategy *strategy)
{
    rf_layer *l[5];
    rf_model *model;
    uint32_t n = 0;
    OK(rf_layer_conv1d(
        &(rf_conv1d_layer_params){ .filters = 4, .kernel_size = 3, .causal = true, .activation = RF_ACTIVATION_SELU },
        &l[n++]));
    OK(rf_layer_max_pool1d(NULL, &l[n++]));
    OK(rf_layer_conv1d(&(rf_conv1d_layer_params){ .filters = 4, .kernel_size = 2, .groups = 2 }, &l[n++]));
    OK(rf_layer_avg_pool1d(NULL, &l[n++]));
    OK(rf_layer_global_avg_pool1d(&l[n++]));
    OK(rf_model_create_sequential(strategy, l, n, &RF_SHAPE(11, 3), &model));
    return model;
}

/* Recurrent layers as one operation each, both ways, but step by step where the last cell state is read. */
static rf_model *recurrent_model(rf_strategy *strategy)
{
    rf_layer *gru, *both, *lstm, *sum;
    rf_model_builder *b;
    rf_model *model;
    const rf_symbol no_mask = { 0 };
    rf_symbol states[3];
    OK(rf_model_builder_create(strategy, &b));
    OK(rf_layer_rnn(&(rf_rnn_layer_params){ .kind = RF_RNN_GRU, .units = 3, .return_sequences = true }, &gru));
    OK(rf_layer_bidirectional(gru, RF_MERGE_CONCATENATE, NULL, &both));
    OK(rf_layer_rnn(&(rf_rnn_layer_params){ .kind = RF_RNN_LSTM, .units = 5, .return_sequences = true }, &lstm));
    rf_symbol x = rf_model_builder_input(b, RF_F32, RF_SHAPE(6, 4), "input");
    x = rf_model_builder_call(b, both, x);
    x = rf_model_builder_call(b, lstm, x);
    OK(rf_layer_rnn(&(rf_rnn_layer_params){ .kind = RF_RNN_LSTM, .units = 2, .go_backwards = true }, &lstm));
    OK(rf_layer_add(&sum));
    OK(rf_model_builder_apply(b, lstm, &x, 1, no_mask, states, 3));
    OK(rf_model_builder_apply(b, sum, &states[1], 2, no_mask, &x, 1));
    OK(rf_model_builder_finish(&b, &x, 1, NULL, &model));
    return model;
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
    snprintf(path, sizeof(path), "%s/several.onnx", folder);
    OK(rf_model_export_onnx(model, path));
    list_model("several.onnx", in, in_names, 2, out, out_names, 2, 1e-4, 1e-5, "\"Add\":2,\"Mul\":1,\"MatMul\":1");
    for (uint32_t i = 0; i < 2; i++) rf_array_free(&out[i]);
    rf_dataset_destroy(&raw);
    rf_dataset_destroy(&data);
    rf_model_destroy(&model);
}

/* Attention with heads of its own for keys, turned by their places, over tokens and a mask; the table's own head. */
static rf_result build_language(rf_strategy *strategy, rf_model **model)
{
    enum { TOKENS = 9, LENGTH = 6, WIDTH = 8 };
    rf_layer *padding, *table, *places, *norm, *look, *add, *root, *head, *count, *counted, *first;
    rf_model_builder *b;
    rf_symbol y;
    OK(rf_layer_not_equal(0, &padding));
    OK(rf_layer_embedding(&(rf_embedding_params){ .input_dim = TOKENS, .output_dim = WIDTH }, &table));
    OK(rf_layer_position_embedding(LENGTH, NULL, NULL, &places));
    OK(rf_layer_token_positions(0, &count));
    OK(rf_layer_embedding(&(rf_embedding_params){ .input_dim = LENGTH + 1, .output_dim = WIDTH }, &counted));
    OK(rf_layer_class_token(&(rf_initializer){ .kind = RF_INIT_RANDOM_NORMAL }, NULL, &first));
    OK(rf_layer_layer_norm(NULL, &norm));
    OK(rf_layer_multi_head_attention(
        &(rf_multi_head_attention_params){
            .num_heads = 4, .key_dim = 2, .num_key_value_heads = 2, .causal = true, .rotary_base = 10000 },
        &look));
    OK(rf_layer_add(&add));
    OK(rf_layer_rms_norm(NULL, &root));
    OK(rf_layer_embedding_head(table, RF_WITH_BIAS, NULL, &head));
    OK(rf_model_builder_create(strategy, &b));
    const rf_symbol tokens = rf_model_builder_input(b, RF_I32, RF_SHAPE(LENGTH), "tokens");
    const rf_symbol mask = rf_model_builder_call(b, padding, tokens);
    const rf_symbol number = rf_model_builder_call(b, counted, rf_model_builder_call(b, count, tokens));
    const rf_symbol embedded = rf_model_builder_call(b, places, rf_model_builder_call(b, table, tokens));
    const rf_symbol x = rf_model_builder_call_many(b, add, (rf_symbol[]){ embedded, number }, 2);
    const rf_symbol normed = rf_model_builder_call(b, norm, x);
    (void)rf_model_builder_apply(b, look, &normed, 1, mask, &y, 1);
    y = rf_model_builder_call_many(b, add, (rf_symbol[]){ x, y }, 2);
    y = rf_model_builder_call(b, first, rf_model_builder_call(b, root, y));
    y = rf_model_builder_call(b, head, y);
    return rf_model_builder_finish(&b, &y, 1, NULL, model);
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
    snprintf(path, sizeof(path), "%s/language.onnx", folder);
    OK(rf_model_export_onnx(model, path));
    list_model("language.onnx", &in, &in_name, 1, &out, &out_name, 1, 1e-4, 1e-5, "\"Softmax\":1");
    rf_array_free(&out);
    rf_dataset_destroy(&raw);
    rf_dataset_destroy(&data);
    rf_model_destroy(&model);
}

/* Tokens of any length: attention among all of them, a recurrent layer, and both a row for each step and one for all.
 */
static rf_result build_open(rf_strategy *strategy, rf_model **model)
{
    rf_layer *table, *norm, *look, *add, *turn, *head, *pool, *last;
    rf_model_builder *b;
    OK(rf_layer_embedding(&(rf_embedding_params){ .input_dim = 9, .output_dim = 8 }, &table));
    OK(rf_layer_layer_norm(NULL, &norm));
    OK(rf_layer_multi_head_attention(&(rf_multi_head_attention_params){ .num_heads = 2, .key_dim = 4 }, &look));
    OK(rf_layer_add(&add));
    OK(rf_layer_rnn(&(rf_rnn_layer_params){ .units = 5, .return_sequences = true }, &turn));
    OK(rf_layer_dense(&(rf_dense_params){ .units = 3 }, &head));
    OK(rf_layer_global_avg_pool1d(&pool));
    OK(rf_layer_dense(&(rf_dense_params){ .units = 2, .activation = RF_ACTIVATION_SOFTMAX }, &last));
    OK(rf_model_builder_create(strategy, &b));
    const rf_symbol tokens = rf_model_builder_input(b, RF_I32, RF_SHAPE(-1), "tokens");
    const rf_symbol x = rf_model_builder_call(b, table, tokens);
    const rf_symbol both[] = { x, rf_model_builder_call(b, look, rf_model_builder_call(b, norm, x)) };
    const rf_symbol y = rf_model_builder_call(b, turn, rf_model_builder_call_many(b, add, both, 2));
    const rf_symbol out[] = { rf_model_builder_call(b, head, y),
                              rf_model_builder_call(b, last, rf_model_builder_call(b, pool, y)) };
    return rf_model_builder_finish(&b, out, 2, NULL, model);
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
        snprintf(path, sizeof(path), "%s/%s", folder, name);
        OK(rf_model_export_onnx(model, path));
        list_model(name, &in, &in_name, 1, out, out_names, 2, 1e-4, 1e-5, "\"GRU\":1,\"Softmax\":2");
        for (int k = 0; k < 2; k++) rf_array_free(&out[k]);
        rf_dataset_destroy(&raw);
        rf_dataset_destroy(&data);
    }
    rf_model_destroy(&model);
}

/* An image is enlarged, and its copies meet again; and layers over the steps of a sequence. */
static rf_model *branches_of_images(rf_strategy *strategy)
{
    rf_layer *large, *groups, *join, *times, *highest, *steps, *dense;
    rf_model_builder *b;
    rf_model *model;
    OK(rf_layer_conv2d_transpose(
        &(rf_conv2d_layer_params){
            .filters = 4, .kernel_size = { 3 }, .conv = { .stride = { 2, 2 }, .padding = RF_PADDING_SAME } },
        &large));
    OK(rf_layer_group_norm(&(rf_group_norm_params){ .groups = 2 }, &groups));
    OK(rf_layer_multiply(&times));
    OK(rf_layer_maximum(&highest));
    OK(rf_layer_concatenate(0, &join));
    OK(rf_layer_dense(&(rf_dense_params){ .units = 3 }, &dense));
    OK(rf_layer_time_distributed(dense, NULL, &steps));
    OK(rf_model_builder_create(strategy, &b));
    const rf_symbol x = rf_model_builder_call(b, large, rf_model_builder_input(b, RF_F32, RF_SHAPE(3, 2, 2), "input"));
    const rf_symbol both[] = { x, rf_model_builder_call(b, groups, x) };
    const rf_symbol twice[] = { rf_model_builder_call_many(b, times, both, 2),
                                rf_model_builder_call_many(b, highest, both, 2) };
    const rf_symbol y = rf_model_builder_call(b, steps, rf_model_builder_call_many(b, join, twice, 2));
    OK(rf_model_builder_finish(&b, &y, 1, NULL, &model));
    return model;
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
    parts p;
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
    snprintf(name, sizeof(name), "%s_%u.onnx", op->name, num_models);
    snprintf(path, sizeof(path), "%s/%s", folder, name);
    const rf_result r = rf_onnx_write(&g, &rf_system_file_ops, path);
    const bool has_form = !(op->flags & RF_OP_NO_ONNX);
    if (has_form && r < 0) fail_msg("%s/%s: %s", op->name, c->name, rf_error_message());
    if (!has_form) {
        if (r != RF_ERROR_UNSUPPORTED || !strstr(rf_error_message(), op->name)) fail_msg("%s is written", op->name);
    } else {
        const rf_array y = { data.call.out[0].dtype, data.call.out[0].shape, data.out[0] };
        list_model(name, in, in_names, c->n_in, &y, &out_name, 1, c->rtol + 1e-5, c->atol + 1e-6, "");
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
    char path[200], command[900];
    if (argc != 2) return 2;
    scratch(folder);
    snprintf(path, sizeof(path), "%s/manifest.json", folder);
    manifest = fopen(path, "w");
    if (!manifest) return 1;
    fputs("[", manifest);
    int failed = room_tests_run(own_tests, NULL, NULL);
    fputs("]", manifest);
    fclose(manifest);
    fflush(stdout);
    snprintf(command, sizeof(command), "'%s' '%s' %s '%s'", PYTHON, ONNX_CHECKER, argv[1], folder);
    if (failed == 0) {
        const int status = system(command);
        failed = WIFEXITED(status) ? WEXITSTATUS(status) : 1;
    }
    scratch_remove(folder);
    return failed;
}
