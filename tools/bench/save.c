/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/save.h"

#include "clock.h"
#include "net.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { LEAST_LAYERS = 15, MOST_LAYERS = 4096, STEPS = 3 };
static const uint64_t largest_layer = 64u << 20; /* bytes: a descriptor of every device spans it */

typedef struct saver {
    bench_net net;
    rf_checkpoint *checkpoint;
} saver;

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
    if (r >= 0) r = rf_model_create_sequential(b->net.strategy, layers, (uint32_t)count, &input, &b->net.model);
    free(layers);
    return r;
}

static rf_result saver_create(saver *b, const bench_save_params *p)
{
    int32_t width;
    TRY(rf_strategy_create_one_device(&(rf_one_device_params){ .device = p->device }, &b->net.strategy));
    TRY(create_model(b, p->bytes, &width));
    TRY(rf_optimizer_create(b->net.strategy, &(rf_optimizer_params){ .kind = RF_OPTIMIZER_SGD, .learning_rate = 1e-4 },
                            &b->net.optimizer));
    TRY(bench_net_create_step(&b->net));
    TRY(rf_checkpoint_create(b->net.strategy, &b->checkpoint));
    TRY(rf_checkpoint_add_model(b->checkpoint, "model", b->net.model));
    TRY(rf_checkpoint_add_optimizer(b->checkpoint, "optimizer", b->net.optimizer));
    TRY(rf_checkpoint_add_function(b->checkpoint, "step", b->net.step));
    return bench_net_make_batch(&b->net, p->batch, RF_SHAPE(-1, width), (uint32_t)width);
}

static void saver_destroy(saver *b)
{
    rf_checkpoint_destroy(&b->checkpoint);
    bench_net_destroy(&b->net);
}

static rf_result saver_train(saver *b, uint32_t steps, double *seconds)
{
    rf_per_replica *results[1];
    float loss;
    const double start = clock_seconds();
    for (uint32_t i = 0; i < steps; i++) {
        TRY(rf_strategy_run(b->net.strategy, b->net.step, &b->net.batch, results));
        TRY(rf_strategy_reduce(b->net.strategy, RF_REDUCE_SUM, results[0], &loss));
    }
    TRY(rf_strategy_synchronize(b->net.strategy)); /* the update, too */
    *seconds = (clock_seconds() - start) / steps;
    return RF_OK;
}

static rf_result save_blocking(saver *b, const bench_save_params *p, bench_save_round *out)
{
    rf_save_params save = p->save;
    const double start = clock_seconds();
    save.async = false;
    TRY(rf_checkpoint_save(b->checkpoint, p->path, &save));
    out->blocking = clock_seconds() - start;
    return saver_train(b, STEPS, &out->step);
}

static rf_result save_behind(saver *b, const bench_save_params *p, bench_save_round *out)
{
    rf_save_params save = p->save;
    double rest;
    const double start = clock_seconds();
    save.async = true;
    TRY(rf_checkpoint_save(b->checkpoint, p->path, &save));
    out->call = clock_seconds() - start;
    TRY(saver_train(b, 1, &out->next));
    TRY(saver_train(b, STEPS, &rest));
    TRY(rf_checkpoint_wait(b->checkpoint));
    out->written = clock_seconds() - start;
    return saver_train(b, 1, &rest); /* what the save has left in caches */
}

static rf_result run_saver(saver *b, const bench_save_params *p, bench_save_result *out)
{
    double warm;
    TRY(saver_create(b, p));
    snprintf(out->device, sizeof(out->device), "%s", rf_strategy_device_name(b->net.strategy, 0));
    out->bytes = (uint64_t)rf_model_num_params(b->net.model) * sizeof(float);
    TRY(saver_train(b, 2, &warm));
    for (uint32_t i = 0; i < p->rounds; i++) TRY(save_blocking(b, p, &out->rounds[i]));
    /* One after another, as in a training: the memory of the copy is kept between them. */
    for (uint32_t i = 0; i < p->rounds; i++) TRY(save_behind(b, p, &out->rounds[i]));
    return RF_OK;
}

rf_result bench_save_run(const bench_save_params *params, bench_save_result *result)
{
    saver b = { 0 };
    const rf_result r = run_saver(&b, params, result);
    saver_destroy(&b);
    unlink(params->path);
    return r;
}
