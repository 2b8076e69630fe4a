/* SPDX-License-Identifier: Apache-2.0 */
#include "replica/exchange/staging.h"

static rf_result create_staging(rf_strategy *s, rf_flat *flat, rf_gpu_memory memory, uint64_t capacity)
{
    rf_flat grown = { .name = flat->name,
                      .buffers = RF_NEW_ARRAY(rf_gpu_buffer *, s->members.num_local),
                      .capacity = capacity };
    if (!grown.buffers) return RF_ERROR_OUT_OF_HOST_MEMORY;
    for (uint32_t i = 0; i < s->members.num_local; i++) {
        if (!s->members.replicas[i].staged) continue;
        const rf_result r = rf_gpu_buffer_create(s->members.replicas[i].device, memory, capacity * sizeof(float),
                                                 flat->name, &grown.buffers[i]);
        if (r < 0) {
            rf_flat_free(s, &grown);
            return rf_error_context(r, "%s", flat->name);
        }
    }
    rf_flat_free(s, flat);
    *flat = grown;
    return RF_OK;
}

static rf_result staging_ensure(rf_strategy *s, uint64_t capacity, rf_flat *download, rf_flat *upload)
{
    if (s->members.num_replicas == 1 || (download->capacity == capacity && upload->capacity == capacity)) return RF_OK;
    RF_TRY(create_staging(s, download, RF_GPU_MEMORY_READBACK, capacity));
    return create_staging(s, upload, RF_GPU_MEMORY_UPLOAD, capacity);
}

rf_result rf_staging_ensure(rf_strategy *s)
{
    return staging_ensure(s, s->store.trainable.values.capacity, &s->exchange.download, &s->exchange.upload);
}

rf_result rf_staging_ensure_fixed(rf_strategy *s)
{
    return staging_ensure(s, s->store.fixed.values.capacity, &s->exchange.fixed_download, &s->exchange.fixed_upload);
}

rf_result rf_staging_ensure_sums(rf_strategy *s)
{
    return staging_ensure(s, s->store.sums.capacity, &s->exchange.sum_download, &s->exchange.sum_upload);
}
