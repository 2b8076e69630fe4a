/* SPDX-License-Identifier: Apache-2.0 */
/* Training speed of the CNN of the custom-loop example, on made-up images. */
#include "bench/model.h"

#include "bench/net.h"
#include "clock.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static double boot_seconds(void)
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

static rf_result net_create(const bench_model_params *params, bench_net *n)
{
    const rf_shape image = RF_SHAPE(BENCH_SIDE, BENCH_SIDE, 1);
    rf_layer *layers[BENCH_CNN_LAYERS] = { NULL };
    n->steps_per_execution = params->steps_per_execution;
    TRY(bench_net_create_strategy(n, params->device, params->mixed));
    TRY(bench_cnn_layers(layers));
    TRY(rf_model_create_sequential(n->strategy, layers, BENCH_CNN_LAYERS, &image, &n->model));
    TRY(bench_net_create_optimizer(n, &(rf_optimizer_params){ .kind = RF_OPTIMIZER_ADAM }, params->mixed));
    TRY(rf_metric_create(n->strategy, RF_METRIC_SPARSE_CATEGORICAL_ACCURACY, "accuracy", &n->accuracy));
    TRY(bench_net_create_step(n));
    return bench_net_make_batch(n, params->batch, RF_SHAPE(-1, BENCH_SIDE, BENCH_SIDE, 1), BENCH_CLASSES);
}

/* Steps for about `seconds`; the best of five slices, so that a busy moment of the machine does not count. */
static rf_result net_measure(const bench_model_params *params, bench_net *n, bench_model_result *out)
{
    rf_per_replica *results[1];
    float loss;
    double best = 0;
    for (int slice = 0; slice < 5; slice++) {
        uint32_t steps = 0;
        const double start = boot_seconds(), cpu_start = clock_processor_seconds();
        do {
            TRY(rf_strategy_run(n->strategy, n->step, &n->batch, results));
            steps++;
        } while (boot_seconds() - start < params->seconds / 5);
        TRY(rf_strategy_reduce(n->strategy, RF_REDUCE_SUM, results[0], &loss));
        const double seconds = (boot_seconds() - start) / steps, cpu = (clock_processor_seconds() - cpu_start) / steps;
        if (slice == 0 || seconds < best) best = seconds;
        if (slice == 0 || cpu < out->step_cpu_seconds) out->step_cpu_seconds = cpu;
    }
    out->step_seconds = best;
    out->images_per_second = params->batch / best;
    return RF_OK;
}

static rf_result run_model(const bench_model_params *params, bench_net *n, bench_model_result *out)
{
    const double began = boot_seconds();
    TRY(net_create(params, n));
    snprintf(out->device, sizeof(out->device), "%s", rf_strategy_device_name(n->strategy, 0));
    rf_per_replica *results[1];
    float loss;
    TRY(rf_strategy_run(n->strategy, n->step, &n->batch, results));
    TRY(rf_strategy_reduce(n->strategy, RF_REDUCE_SUM, results[0], &loss));
    out->first_step_seconds = boot_seconds() - began;
    out->first_step_since_start = boot_seconds() - process_start(began);
    TRY(net_measure(params, n, out));
    TRY(rf_bench_count_commands(n->step, params->batch, &out->commands));
    return params->profile ? rf_bench_function(n->step, params->batch, &out->nodes, &out->num_nodes) : RF_OK;
}

rf_result bench_model_run(const bench_model_params *params, bench_model_result *out)
{
    bench_net n = { 0 };
    memset(out, 0, sizeof(*out));
    const rf_result r = run_model(params, &n, out);
    bench_net_destroy(&n);
    return r;
}

void bench_model_free(bench_model_result *result)
{
    rf_bench_nodes_free(result->nodes);
    result->nodes = NULL;
    result->num_nodes = 0;
}
