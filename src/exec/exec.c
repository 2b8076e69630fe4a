/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <string.h>

#include "base/platform.h"
#include "exec/internal.h"

rf_result rf_exec_create(const rf_exec_params *params, rf_exec **out)
{
    *out = NULL;
    RF_REQUIRE(params && params->device, "rf_exec_create: params->device is missing");
    rf_exec *exec = RF_NEW(rf_exec);
    if (!exec) return RF_ERROR_OUT_OF_HOST_MEMORY;
    exec->device = params->device;
    exec->caps = *rf_gpu_caps(params->device);
    if (params->force_staging) exec->caps.host_visible = false;
    const char *tune = rf_env("RINGFIRE_TUNE");
    exec->tune_unknown = tune && strcmp(tune, "0") != 0;
#if defined(__linux__) && !defined(__ANDROID__)
    const bool on_linux = true;
#else
    const bool on_linux = false;
#endif
    exec->cuts = rf_cut_policy_of(rf_gpu_info(params->device)->type, on_linux);
    const rf_result r = rf_tuning_create(exec, params->cache_directory, &exec->tuning);
    if (r < 0) {
        rf_exec_destroy(&exec);
        return r;
    }
    *out = exec;
    return RF_OK;
}

void rf_exec_destroy(rf_exec **exec)
{
    if (!exec || !*exec) return;
    rf_exec *e = *exec;
    /* After a lost device there is nothing to wait for: the result does not matter, the buffer goes either way. */
    if (e->last_ticket) (void)rf_gpu_wait(e->device, e->last_ticket, RF_GPU_TIMEOUT_NS);
    rf_gpu_buffer_destroy(&e->slab);
    rf_gpu_buffer_destroy(&e->counters);
    rf_tuning_destroy(&e->tuning);
    rf_free(e->announced.items);
    rf_free(e);
    *exec = NULL;
}

rf_gpu_device *rf_exec_device(const rf_exec *exec)
{
    return exec->device;
}

rf_result rf_exec_reserve_slab(rf_exec *exec, uint64_t size)
{
    if (size <= exec->slab_size) return RF_OK;
    if (exec->last_ticket) RF_TRY(rf_gpu_wait(exec->device, exec->last_ticket, RF_GPU_TIMEOUT_NS));
    /* The old one goes first: both at once may not fit. Recordings made for it become stale through the generation. */
    rf_gpu_buffer_destroy(&exec->slab);
    exec->slab_size = 0;
    exec->slab_generation++;
    const rf_result r = rf_gpu_buffer_create(exec->device, RF_GPU_MEMORY_DEVICE, size, "slab", &exec->slab);
    if (r < 0)
        return rf_error_context(r, "memory for intermediate results (%" PRIu64 " bytes; a smaller batch needs less)",
                                size);
    exec->slab_size = size;
    return RF_OK;
}
