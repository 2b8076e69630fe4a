/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/measure/open.h"

#include "base/error.h"
#include "base/memory.h"
#include "base/platform.h"

rf_result rf_bench_device_open(const rf_bench_open_params *params, rf_bench_device *out)
{
    *out = (rf_bench_device){ 0 };
    const rf_device_options *options = params->options;
    RF_TRY(rf_gpu_create(&(rf_gpu_params){ .validation = options->validation }, &out->gpu));
    uint32_t index;
    RF_TRY(rf_gpu_choose_one(out->gpu, params->device, &index));
    if (!options->no_cache && !params->explain)
        RF_TRY(rf_cache_open(options->cache_directory, params->must_cache, &out->cache));
    const rf_gpu_device_params device = {
        .index = index,
        .clamp_limits = options->clamp_limits,
        .cache_directory = out->cache.directory,
        .cache_read_only = out->cache.read_only,
        .explain = params->explain,
    };
    RF_TRY(rf_gpu_device_open(out->gpu, &device, &out->device));
    const rf_exec_params exec = { .device = out->device,
                                  .cache_directory = out->cache.directory,
                                  .cache_read_only = out->cache.read_only };
    return rf_exec_create(&exec, &out->exec);
}

void rf_bench_device_close(rf_bench_device *device)
{
    rf_exec_destroy(&device->exec);
    rf_gpu_device_close(&device->device);
    rf_gpu_destroy(&device->gpu);
    rf_free(device->cache.directory);
    device->cache.directory = NULL;
}

rf_result rf_bench_device_check(const rf_bench_device *device)
{
    const char *first;
    if (rf_gpu_validation_messages(device->gpu, &first) > 0)
        return RF_FAIL(RF_ERROR_INTERNAL, "the validation layer reports: %s", first);
    return RF_OK;
}
