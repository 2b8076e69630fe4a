/* SPDX-License-Identifier: Apache-2.0 */
/* The device that a benchmark runs on. */
#ifndef BENCH_MEASURE_OPEN_H
#define BENCH_MEASURE_OPEN_H

#include "base/platform.h"
#include "exec/exec.h"
#include <ringfire/strategy.h>

typedef struct rf_bench_device {
    rf_gpu *gpu;
    rf_gpu_device *device;
    rf_exec *exec;
    rf_cache cache;
} rf_bench_device;

typedef struct rf_bench_open_params {
    const char *device; /* NULL: RINGFIRE_DEVICES, else the first usable one */
    const rf_device_options *options;
    bool must_cache; /* a cache that cannot be written is a failure */
    bool explain;    /* as rf_gpu_device_params; without any cache */
} rf_bench_open_params;
/* To be closed after a failure, too. */
rf_result rf_bench_device_open(const rf_bench_open_params *params, rf_bench_device *out);
void rf_bench_device_close(rf_bench_device *device);
/* A failure where the validation layer has reported something. */
rf_result rf_bench_device_check(const rf_bench_device *device);

#endif
