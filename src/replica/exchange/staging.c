/* SPDX-License-Identifier: Apache-2.0 */
#include "replica/exchange/staging.h"

static rf_result stage(rf_strategy *s, rf_flat *flat, rf_gpu_memory memory, uint64_t capacity)
{
    rf_flat grown = { .name = flat->name,
                      .buffers = RF_NEW_ARRAY(rf_gpu_buffer *, s->num_local),
                      .capacity = capacity };
    if (!grown.buffers) return RF_ERROR_OUT_OF_HOST_MEMORY;
    for (uint32_t i = 0; i < s->num_local; i++) {
        if (!s->replicas[i].staged) continue;
        const rf_result r = rf_gpu_buffer_create(s->replicas[i].device, memory, capacity * sizeof(float), flat->name,
                                                 &grown.buffers[i]);
        if (r < 0) {
            rf_flat_free(s, &grown);
            return rf_error_context(r, "%s", flat->name);
        }
    }
    rf_flat_free(s, flat);
    *flat = grown;
    return RF_OK;
}

rf_result rf_staging_ensure(rf_strategy *s)
{
    const uint64_t capacity = s->trainable.values.capacity;
    if (s->num_replicas == 1 || (s->download.capacity == capacity && s->upload.capacity == capacity)) return RF_OK;
    RF_TRY(stage(s, &s->download, RF_GPU_MEMORY_READBACK, capacity));
    return stage(s, &s->upload, RF_GPU_MEMORY_UPLOAD, capacity);
}
