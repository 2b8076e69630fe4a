/* SPDX-License-Identifier: Apache-2.0 */
#include "net.h"

#include <string.h>

rf_dtype bench_narrow_type(struct argp_state *state, const char *option, const char *text)
{
    if (strcmp(text, "f16") == 0) return RF_F16;
    if (strcmp(text, "bf16") == 0) return RF_BF16;
    argp_error(state, "%s %s: possible are f16 and bf16", option, text);
    return RF_F32;
}

rf_result bench_net_create_strategy(bench_net *net, const char *device, rf_dtype mixed)
{
    TRY(rf_strategy_create_one_device(&(rf_one_device_params){ .device = device }, &net->strategy));
    return rf_strategy_set_dtype_policy(net->strategy, &(rf_dtype_policy){ .compute = mixed });
}

rf_result bench_net_create_optimizer(bench_net *net, const rf_optimizer_params *params, rf_dtype mixed)
{
    static const rf_loss_scale_params scale = { 0 };
    rf_optimizer_params scaled = *params;
    if (mixed == RF_F16) scaled.loss_scale = &scale;
    return rf_optimizer_create(net->strategy, &scaled, &net->optimizer);
}

rf_result bench_cnn_layers(rf_layer *layers[BENCH_CNN_LAYERS])
{
    const rf_conv2d_layer_params first = { .filters = 32, .kernel_size = { 3 }, .activation = RF_ACTIVATION_RELU };
    const rf_conv2d_layer_params second = { .filters = 64, .kernel_size = { 3 }, .activation = RF_ACTIVATION_RELU };
    TRY(rf_layer_conv2d(&first, &layers[0]));
    TRY(rf_layer_max_pool2d(NULL, &layers[1]));
    TRY(rf_layer_conv2d(&second, &layers[2]));
    TRY(rf_layer_max_pool2d(NULL, &layers[3]));
    TRY(rf_layer_flatten(&layers[4]));
    TRY(rf_layer_dense(&(rf_dense_params){ .units = 64, .activation = RF_ACTIVATION_RELU }, &layers[5]));
    return rf_layer_dense(&(rf_dense_params){ .units = BENCH_CLASSES }, &layers[6]);
}

rf_result bench_net_create_cnn(bench_net *n, uint32_t count, rf_dtype mixed)
{
    const rf_shape image = RF_SHAPE(BENCH_SIDE, BENCH_SIDE, 1);
    rf_layer *layers[BENCH_CNN_LAYERS] = { NULL };
    TRY(bench_cnn_layers(layers));
    TRY(rf_model_create_sequential(n->strategy, layers, BENCH_CNN_LAYERS, &image, &n->model));
    TRY(bench_net_create_optimizer(n, &(rf_optimizer_params){ .kind = RF_OPTIMIZER_ADAM }, mixed));
    TRY(rf_metric_create(n->strategy,
                         &(rf_metric_params){ .kind = RF_METRIC_SPARSE_CATEGORICAL_ACCURACY, .name = "accuracy" },
                         &n->accuracy));
    TRY(bench_net_create_step(n));
    return bench_net_make_batch(n, count, RF_SHAPE(-1, BENCH_SIDE, BENCH_SIDE, 1), BENCH_CLASSES);
}

static rf_result train_step(rf_trace *t, const rf_tensor *in, rf_tensor *out, void *user)
{
    const bench_net *n = user;
    const rf_tensor logits = rf_model_call(t, n->model, in[0], RF_TRAINING);
    out[0] = rf_compute_average_loss(t, rf_sparse_categorical_crossentropy(t, in[1], logits, RF_LOGITS), NULL);
    rf_optimizer_minimize(t, n->optimizer, out[0], rf_model_variables(n->model));
    if (n->accuracy) rf_metric_update(t, n->accuracy, in[1], logits, (rf_tensor){ 0 });
    return rf_trace_status(t);
}

rf_result bench_net_create_step(bench_net *n)
{
    const rf_function_params params = { .step = train_step,
                                        .user = n,
                                        .num_outputs = 1,
                                        .training = true,
                                        .name = "train_step",
                                        .steps_per_execution = n->steps_per_execution };
    return rf_function_create(n->strategy, &params, &n->step);
}

rf_result bench_net_make_batch(bench_net *n, uint32_t count, rf_shape input, uint32_t classes)
{
    input.dim[0] = count;
    const size_t total = (size_t)rf_shape_count(input);
    n->inputs = malloc(total * sizeof(float));
    n->labels = malloc(count * sizeof(int32_t));
    if (!n->inputs || !n->labels) return RF_ERROR_OUT_OF_HOST_MEMORY;
    uint32_t noise = 1;
    for (size_t i = 0; i < total; i++) {
        noise = noise * 1664525u + 1013904223u;
        n->inputs[i] = (float)(noise >> 8) * 0x1p-24f;
    }
    for (uint32_t i = 0; i < count; i++) n->labels[i] = (int32_t)(i % classes);
    n->batch = (rf_element){ 2, { { RF_F32, input, n->inputs }, { RF_I32, RF_SHAPE((int64_t)count), n->labels } } };
    return RF_OK;
}

void bench_net_destroy(bench_net *n)
{
    rf_function_destroy(&n->step);
    rf_metric_destroy(&n->accuracy);
    rf_model_destroy(&n->model);
    rf_optimizer_destroy(&n->optimizer);
    rf_strategy_destroy(&n->strategy);
    free(n->inputs);
    free(n->labels);
}
