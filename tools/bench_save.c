/* SPDX-License-Identifier: Apache-2.0 */
#include "bench_save.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "clock.h"

enum { LEAST_LAYERS = 15, MOST_LAYERS = 4096, STEPS = 3 };
static const uint64_t largest_layer = 64u << 20; /* bytes: a descriptor of every device spans it */

typedef struct saver {
    rf_strategy *strategy;
    rf_model *model;
    rf_optimizer *optimizer;
    rf_function *step;
    rf_checkpoint *checkpoint;
    float *inputs;
    int32_t *labels;
    rf_element batch;
} saver;

#define TRY(expression)                                                                                                \
    do {                                                                                                               \
        const rf_result try_result = (expression);                                                                     \
        if (try_result < 0) return try_result;                                                                         \
    } while (0)

static rf_result train_step(rf_trace *t, const rf_tensor *in, rf_tensor *out, void *user)
{
    const saver *b = user;
    const rf_tensor logits = rf_model_call(t, b->model, in[0], RF_TRAINING);
    out[0] = rf_compute_average_loss(t, rf_sparse_categorical_crossentropy(t, in[1], logits, true), NULL);
    rf_optimizer_minimize(t, b->optimizer, out[0], rf_model_variables(b->model));
    return rf_trace_status(t);
}

/* Square matrices one after the other. */
static rf_result create_model(saver *b, uint64_t bytes, int32_t *width)
{
    uint64_t count = (bytes + largest_layer - 1) / largest_layer;
    if (count < LEAST_LAYERS) count = LEAST_LAYERS;
    if (count > MOST_LAYERS) count = MOST_LAYERS;
    *width = (int32_t)(sqrt((double)bytes / (double)count / sizeof(float)) / 16) * 16;
    if (*width < 16) *width = 16;
    rf_layer **layers = calloc(count, sizeof(layers[0]));
    if (!layers) return RF_ERROR_OUT_OF_HOST_MEMORY;
    rf_result r = RF_OK;
    for (uint64_t i = 0; r >= 0 && i < count; i++) {
        const rf_dense_params dense = { .units = *width, .activation = i + 1 < count ? RF_ACTIVATION_RELU : 0 };
        r = rf_layer_dense(&dense, &layers[i]);
    }
    const rf_shape input = RF_SHAPE(*width);
    if (r >= 0) r = rf_model_create_sequential(b->strategy, layers, (uint32_t)count, &input, &b->model);
    free(layers);
    return r;
}

static rf_result make_batch(saver *b, uint32_t count, int32_t width)
{
    const size_t total = (size_t)count * (size_t)width;
    b->inputs = malloc(total * sizeof(float));
    b->labels = malloc(count * sizeof(int32_t));
    if (!b->inputs || !b->labels) return RF_ERROR_OUT_OF_HOST_MEMORY;
    uint32_t noise = 1;
    for (size_t i = 0; i < total; i++) {
        noise = noise * 1664525u + 1013904223u;
        b->inputs[i] = (float)(noise >> 8) * 0x1p-24f;
    }
    for (uint32_t i = 0; i < count; i++) b->labels[i] = (int32_t)i % width;
    b->batch = (rf_element){ .num_components = 2,
                             .component = { { RF_F32, RF_SHAPE((int64_t)count, width), b->inputs },
                                            { RF_I32, RF_SHAPE((int64_t)count), b->labels } } };
    return RF_OK;
}

static rf_result create(saver *b, const bench_save_params *p)
{
    int32_t width;
    TRY(rf_strategy_create_one_device(&(rf_one_device_params){ .device = p->device }, &b->strategy));
    TRY(create_model(b, p->bytes, &width));
    TRY(rf_optimizer_create(b->strategy, &(rf_optimizer_params){ .kind = RF_OPTIMIZER_SGD, .learning_rate = 1e-4 },
                            &b->optimizer));
    TRY(rf_function_create(
        b->strategy,
        &(rf_function_params){
            .step = train_step, .user = b, .num_outputs = 1, .training = true, .name = "train_step" },
        &b->step));
    TRY(rf_checkpoint_create(b->strategy, &b->checkpoint));
    TRY(rf_checkpoint_add_model(b->checkpoint, "model", b->model));
    TRY(rf_checkpoint_add_optimizer(b->checkpoint, "optimizer", b->optimizer));
    TRY(rf_checkpoint_add_function(b->checkpoint, "step", b->step));
    return make_batch(b, p->batch, width);
}

static void destroy(saver *b)
{
    rf_checkpoint_destroy(&b->checkpoint);
    rf_function_destroy(&b->step);
    rf_optimizer_destroy(&b->optimizer);
    rf_model_destroy(&b->model);
    rf_strategy_destroy(&b->strategy);
    free(b->inputs);
    free(b->labels);
}

static rf_result train(saver *b, uint32_t steps, double *seconds)
{
    rf_per_replica *results[1];
    float loss;
    const double start = now();
    for (uint32_t i = 0; i < steps; i++) {
        TRY(rf_strategy_run(b->strategy, b->step, &b->batch, results));
        TRY(rf_strategy_reduce(b->strategy, RF_REDUCE_SUM, results[0], &loss));
    }
    TRY(rf_strategy_synchronize(b->strategy)); /* the update, too */
    *seconds = (now() - start) / steps;
    return RF_OK;
}

static rf_result save_blocking(saver *b, const bench_save_params *p, bench_save_round *out)
{
    rf_save_params save = p->save;
    const double start = now();
    save.async = false;
    TRY(rf_checkpoint_save(b->checkpoint, p->path, &save));
    out->blocking = now() - start;
    return train(b, STEPS, &out->step);
}

static rf_result save_behind(saver *b, const bench_save_params *p, bench_save_round *out)
{
    rf_save_params save = p->save;
    double rest;
    const double start = now();
    save.async = true;
    TRY(rf_checkpoint_save(b->checkpoint, p->path, &save));
    out->call = now() - start;
    TRY(train(b, 1, &out->next));
    TRY(train(b, STEPS, &rest));
    TRY(rf_checkpoint_wait(b->checkpoint));
    out->written = now() - start;
    return train(b, 1, &rest); /* what the save has left in caches */
}

static rf_result run(saver *b, const bench_save_params *p, bench_save_result *out)
{
    double warm;
    TRY(create(b, p));
    snprintf(out->device, sizeof(out->device), "%s", rf_strategy_device_name(b->strategy, 0));
    out->bytes = (uint64_t)rf_model_count_params(b->model) * sizeof(float);
    TRY(train(b, 2, &warm));
    for (uint32_t i = 0; i < p->rounds; i++) TRY(save_blocking(b, p, &out->rounds[i]));
    /* One after another, as in a training: the memory of the copy is kept between them. */
    for (uint32_t i = 0; i < p->rounds; i++) TRY(save_behind(b, p, &out->rounds[i]));
    return RF_OK;
}

rf_result bench_save_run(const bench_save_params *params, bench_save_result *result)
{
    saver b = { 0 };
    const rf_result r = run(&b, params, result);
    destroy(&b);
    unlink(params->path);
    return r;
}
