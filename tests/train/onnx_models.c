/* SPDX-License-Identifier: Apache-2.0 */
#include "onnx_models.h"

#include "run_state.h"
#include "tests/room.h"

/* Odd sizes, so that SAME pads unevenly; layers and activations. */
rf_model *image_model(rf_strategy *strategy)
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
rf_model *pooled_model(rf_strategy *strategy)
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

static rf_tensor call_branches(rf_trace *t, rf_model *model, rf_tensor x, rf_mode mode, void *user)
{
    static const int32_t channels[] = { 3 }, places[] = { 1, -2 }, rows[] = { 1 }, back[] = { 0, 2, 1, 3 };
    static float offsets[] = { 0.5f, -0.25f, 0.125f, 1 };
    const branched_parts *p = user;
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

rf_model *branched_model(rf_strategy *strategy, branched_parts *p)
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
rf_model *normalized_model(rf_strategy *strategy, bool turned)
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

/* Depthwise, enlarged, with slopes; and sequences, whose kernels are reshaped. */
rf_model *windows_model(rf_strategy *strategy)
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

rf_model *sequence_model(rf_strategy *strategy)
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
rf_model *recurrent_model(rf_strategy *strategy)
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

/* Attention with heads of its own for keys, turned by their places, over tokens and a mask; the table's own head. */
rf_result build_language(rf_strategy *strategy, rf_model **model)
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

/* Tokens of any length: attention among all of them, a recurrent layer, and both a row for each step and one for all.
 */
rf_result build_open(rf_strategy *strategy, rf_model **model)
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

/* An image is enlarged, and its copies meet again; and layers over the steps of a sequence. */
rf_model *branches_of_images(rf_strategy *strategy)
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
