/* SPDX-License-Identifier: Apache-2.0 */
/* Training speed of the CNN of the custom-loop example, on made-up images. */
#include "bench_model.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

typedef struct bench_state {
    rf_strategy *strategy;
    rf_model *model;
    rf_optimizer *optimizer;
    rf_metric *accuracy;
    rf_function *step;
    float *images;
    int32_t *labels;
} bench_state;

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_BOOTTIME, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* When this process began, on the same clock: field 22 of /proc/self/stat, in clock ticks since boot. */
static double process_start(double fallback)
{
    char text[1024];
    FILE *f = fopen("/proc/self/stat", "r");
    if (!f) return fallback;
    const size_t n = fread(text, 1, sizeof(text) - 1, f);
    fclose(f);
    text[n] = '\0';
    const char *p = strrchr(text, ')');
    unsigned long long ticks = 0;
    for (int field = 2; p && field < 22; field++) p = strchr(p + 1, ' ');
    if (!p || sscanf(p, " %llu", &ticks) != 1) return fallback;
    return (double)ticks / (double)sysconf(_SC_CLK_TCK);
}

static rf_result train_step(rf_trace *t, const rf_tensor *in, rf_tensor *out, void *user)
{
    const bench_state *b = user;
    const rf_tensor logits = rf_model_call(t, b->model, in[0], RF_TRAINING);
    const rf_tensor losses = rf_sparse_categorical_crossentropy(t, in[1], logits, true);
    out[0] = rf_compute_average_loss(t, losses, NULL);
    rf_optimizer_minimize(t, b->optimizer, out[0], rf_model_variables(b->model));
    rf_metric_update(t, b->accuracy, in[1], logits, (rf_tensor){ 0 });
    return rf_trace_status(t);
}

#define TRY(expression)                                                                                                \
    do {                                                                                                               \
        const rf_result try_result = (expression);                                                                     \
        if (try_result < 0) return try_result;                                                                         \
    } while (0)

static rf_result create(const bench_model_params *params, bench_state *b)
{
    const rf_shape image = RF_SHAPE(28, 28, 1);
    rf_layer *layers[7] = { NULL };
    TRY(rf_strategy_create_one_device(&(rf_one_device_params){ .device = params->device }, &b->strategy));
    TRY(rf_layer_conv2d(
        &(rf_conv2d_layer_params){ .filters = 32, .kernel_size = { 3 }, .activation = RF_ACTIVATION_RELU },
        &layers[0]));
    TRY(rf_layer_max_pool2d(NULL, &layers[1]));
    TRY(rf_layer_conv2d(
        &(rf_conv2d_layer_params){ .filters = 64, .kernel_size = { 3 }, .activation = RF_ACTIVATION_RELU },
        &layers[2]));
    TRY(rf_layer_max_pool2d(NULL, &layers[3]));
    TRY(rf_layer_flatten(&layers[4]));
    TRY(rf_layer_dense(&(rf_dense_params){ .units = 64, .activation = RF_ACTIVATION_RELU }, &layers[5]));
    TRY(rf_layer_dense(&(rf_dense_params){ .units = 10 }, &layers[6]));
    TRY(rf_model_create_sequential(b->strategy, layers, 7, &image, &b->model));
    TRY(rf_optimizer_create(b->strategy, &(rf_optimizer_params){ .kind = RF_OPTIMIZER_ADAM }, &b->optimizer));
    TRY(rf_metric_create(b->strategy, RF_METRIC_SPARSE_CATEGORICAL_ACCURACY, "accuracy", &b->accuracy));
    return rf_function_create(
        b->strategy,
        &(rf_function_params){
            .step = train_step, .user = b, .num_outputs = 1, .training = true, .name = "train_step" },
        &b->step);
}

static void destroy(bench_state *b)
{
    rf_function_destroy(&b->step);
    rf_metric_destroy(&b->accuracy);
    rf_optimizer_destroy(&b->optimizer);
    rf_model_destroy(&b->model);
    rf_strategy_destroy(&b->strategy);
    free(b->images);
    free(b->labels);
}

/* Steps for about `seconds`; the best of five slices, so that a busy moment of the machine does not count. */
static rf_result measure(const bench_model_params *params, bench_state *b, const rf_element *batch,
                         bench_model_result *out)
{
    rf_per_replica *results[1];
    float loss;
    double best = 0;
    for (int slice = 0; slice < 5; slice++) {
        uint32_t steps = 0;
        const double start = now();
        do {
            TRY(rf_strategy_run(b->strategy, b->step, batch, results));
            steps++;
        } while (now() - start < params->seconds / 5);
        TRY(rf_strategy_reduce(b->strategy, RF_REDUCE_SUM, results[0], &loss));
        const double seconds = (now() - start) / steps;
        if (slice == 0 || seconds < best) best = seconds;
    }
    out->step_seconds = best;
    out->images_per_second = params->batch / best;
    return RF_OK;
}

static rf_result run(const bench_model_params *params, bench_state *b, bench_model_result *out)
{
    const double began = now();
    TRY(create(params, b));
    snprintf(out->device, sizeof(out->device), "%s", rf_strategy_device_name(b->strategy, 0));
    const size_t pixels = (size_t)params->batch * 28 * 28;
    b->images = malloc(pixels * sizeof(float));
    b->labels = malloc(params->batch * sizeof(int32_t));
    if (!b->images || !b->labels) return RF_ERROR_OUT_OF_HOST_MEMORY;
    uint32_t noise = 1;
    for (size_t i = 0; i < pixels; i++) {
        noise = noise * 1664525u + 1013904223u;
        b->images[i] = (float)(noise >> 8) * 0x1p-24f;
    }
    for (uint32_t i = 0; i < params->batch; i++) b->labels[i] = (int32_t)(i % 10);
    const rf_element batch = { 2,
                               { { RF_F32, { 4, { params->batch, 28, 28, 1 } }, b->images },
                                 { RF_I32, { 1, { params->batch } }, b->labels } } };
    rf_per_replica *results[1];
    float loss;
    TRY(rf_strategy_run(b->strategy, b->step, &batch, results));
    TRY(rf_strategy_reduce(b->strategy, RF_REDUCE_SUM, results[0], &loss));
    out->first_step_seconds = now() - began;
    out->first_step_since_start = now() - process_start(began);
    TRY(measure(params, b, &batch, out));
    return params->profile ? rf_bench_function(b->step, params->batch, &out->nodes, &out->num_nodes) : RF_OK;
}

rf_result bench_model_run(const bench_model_params *params, bench_model_result *out)
{
    bench_state b = { 0 };
    memset(out, 0, sizeof(*out));
    const rf_result r = run(params, &b, out);
    destroy(&b);
    return r;
}

void bench_model_free(bench_model_result *result)
{
    rf_bench_nodes_free(result->nodes);
    result->nodes = NULL;
    result->num_nodes = 0;
}
