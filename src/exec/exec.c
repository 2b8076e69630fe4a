/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <string.h>

#include "base/platform.h"
#include "exec/internal.h"

/* All but the first `kept` of the slab's. */
static void drop_segments(rf_exec *exec, uint32_t kept)
{
    while (exec->slab.count > kept) rf_gpu_buffer_destroy(&exec->slab.items[--exec->slab.count]);
}

rf_result rf_exec_create(const rf_exec_params *params, rf_exec **out)
{
    *out = NULL;
    RF_REQUIRE(params && params->device, "rf_exec_create: params->device is missing");
    rf_exec *exec = RF_NEW(rf_exec);
    if (!exec) return RF_ERROR_OUT_OF_HOST_MEMORY;
    exec->device = params->device;
    exec->frames = RF_FRAMES_PER_INSTANCE;
    exec->caps = *rf_gpu_caps(params->device);
    if (params->force_staging) exec->caps.host_visible = false;
    const char *tune = rf_env("RINGFIRE_TUNE");
    exec->tune_unknown = tune && strcmp(tune, "0") != 0;
#if defined(__linux__) && !defined(__ANDROID__)
    const bool on_linux = true;
#else
    const bool on_linux = false;
#endif
    const uint64_t limit = params->segment_size ? params->segment_size : exec->caps.max_allocation;
    exec->segment_size = limit / exec->caps.buffer_alignment * exec->caps.buffer_alignment;
    exec->split_policy = rf_split_policy_of(rf_gpu_info(params->device)->type, on_linux);
    const rf_result r = rf_tuning_create(exec, params->cache_directory, params->cache_read_only, &exec->tuning);
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
    drop_segments(e, 0);
    rf_free(e->slab.items);
    rf_gpu_buffer_destroy(&e->counters);
    rf_tuning_destroy(&e->tuning);
    rf_free(e->logged.items);
    rf_free(e);
    *exec = NULL;
}

rf_gpu_device *rf_exec_device(const rf_exec *exec)
{
    return exec->device;
}

static rf_result add_segment(rf_exec *exec, uint64_t size)
{
    RF_TRY(RF_VEC_GROW(&exec->slab));
    rf_gpu_buffer **segment = &exec->slab.items[exec->slab.count];
    RF_TRY(rf_gpu_buffer_create(exec->device, RF_GPU_MEMORY_DEVICE, size, "activations", segment));
    exec->slab.count++;
    exec->slab_size += size;
    return RF_OK;
}

rf_result rf_exec_reserve_slab(rf_exec *exec, uint64_t size)
{
    if (size <= exec->slab_size) return RF_OK;
    if (exec->last_ticket) RF_TRY(rf_gpu_wait(exec->device, exec->last_ticket, RF_GPU_TIMEOUT_NS));
    /* The last segment, which may be a short one, goes first: both at once may not fit. Recordings made for it become
     * stale through the generation. */
    const uint64_t whole = exec->slab_size / exec->segment_size;
    drop_segments(exec, (uint32_t)whole);
    exec->slab_size = whole * exec->segment_size;
    exec->slab_generation++;
    while (exec->slab_size < size) {
        const uint64_t left = size - exec->slab_size;
        const rf_result r = add_segment(exec, left < exec->segment_size ? left : exec->segment_size);
        if (r < 0)
            return rf_error_context(
                r, "memory for intermediate results (%" PRIu64 " bytes; a smaller batch needs less)", size);
    }
    return RF_OK;
}

rf_span rf_exec_slab_span(const rf_exec *exec, uint64_t offset, uint64_t size)
{
    const uint64_t segment = offset / exec->segment_size;
    return (rf_span){ .buffer = segment < exec->slab.count ? exec->slab.items[segment] : NULL,
                      .offset = offset % exec->segment_size,
                      .size = size };
}
