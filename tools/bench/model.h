/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RINGFIRE_BENCH_MODEL_H
#define RINGFIRE_BENCH_MODEL_H

#include <ringfire/ringfire.h>

typedef struct bench_model_params {
    const char *device;
    uint32_t batch;
    double seconds;
    bool profile;
    rf_dtype mixed; /* 0: f32 */
    uint32_t steps_per_execution;
} bench_model_params;

typedef struct bench_model_result {
    char device[256];
    double images_per_second, step_seconds, first_step_seconds, first_step_since_start;
    double step_cpu_seconds; /* that the processor takes for a step, all threads together */
    rf_bench_node *nodes;
    uint32_t num_nodes;
    rf_bench_commands commands;
} bench_model_result;

rf_result bench_model_run(const bench_model_params *params, bench_model_result *out);
void bench_model_free(bench_model_result *result);

#endif
