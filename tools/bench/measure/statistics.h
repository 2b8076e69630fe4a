/* SPDX-License-Identifier: Apache-2.0 */
/* Statistics of pipelines by compilers: asking for them, and reading them. The readers are pure functions, tested with
 * what drivers said. */
#ifndef BENCH_MEASURE_STATISTICS_H
#define BENCH_MEASURE_STATISTICS_H

#include "bench/measure/measure.h"
#include "gpu/gpu.h"

/* A number that the driver's compiler tells of a pipeline. */
typedef struct rf_gpu_statistic {
    char name[256]; /* the driver's */
    double value;
} rf_gpu_statistic;
typedef struct rf_gpu_explanation {
    rf_gpu_statistic *statistics;
    uint32_t num_statistics, subgroup_size; /* 0: not known */
    char *code;                             /* machine code as text; NULL: not to be had */
} rf_gpu_explanation;
/* Empty where the device was not opened to `explain`, or its driver cannot. To be freed after a failure, too. */
rf_result rf_gpu_pipeline_explain(rf_gpu_device *device, const rf_gpu_pipeline *pipeline, rf_gpu_explanation *out);
void rf_gpu_explanation_free(rf_gpu_explanation *explanation);

/* The drivers' names and units brought to the same ones. */
void rf_gpu_statistics_read(const rf_gpu_explanation *explanation, rf_kernel_statistics *out);
/* Counts what stands in the loop that multiplies and adds most, without loops inside it; zero where there is none.
 * `code` may be NULL. Knows the text of RADV, NVK, Turnip and ANV. */
void rf_gpu_code_loop(const char *code, rf_kernel_loop *out);

#endif
