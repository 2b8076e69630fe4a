/* SPDX-License-Identifier: Apache-2.0 */
/* Arrays of floats that every replica has, in one layout. */
#include "replica/store/flat.h"

#include "replica/internal.h"

static void free_buffers(rf_gpu_buffer **buffers, uint32_t count)
{
    for (uint32_t r = 0; buffers && r < count; r++) rf_gpu_buffer_destroy(&buffers[r]);
    rf_free(buffers);
}

void rf_flat_free(const rf_strategy *s, rf_flat *flat)
{
    free_buffers(flat->buffers, s->members.num_local);
    flat->buffers = NULL;
    flat->capacity = 0;
}

rf_result rf_flat_read(const rf_flat *flat, uint32_t index, uint64_t offset, uint64_t count, float *values)
{
    return rf_gpu_buffer_read(flat->buffers[index], offset * sizeof(float), values, count * sizeof(float));
}

rf_result rf_flat_write(const rf_flat *flat, uint32_t index, uint64_t offset, uint64_t count, const float *values)
{
    return rf_gpu_buffer_write(flat->buffers[index], offset * sizeof(float), values, count * sizeof(float));
}

static rf_result fill_new(const rf_strategy *s, const rf_flat *from, rf_flat *to, uint64_t used)
{
    float *values = RF_NEW_ARRAY(float, used);
    if (!values) return RF_ERROR_OUT_OF_HOST_MEMORY;
    rf_result r = RF_OK;
    for (uint32_t i = 0; r >= 0 && i < s->members.num_local; i++) {
        r = rf_gpu_buffer_create(s->members.replicas[i].device, RF_GPU_MEMORY_DEVICE, to->capacity * sizeof(float),
                                 to->name, &to->buffers[i]);
        if (r >= 0 && used > 0) r = rf_flat_read(from, i, 0, used, values);
        if (r >= 0 && used > 0) r = rf_flat_write(to, i, 0, used, values);
    }
    rf_free(values);
    return r;
}

rf_result rf_flat_grow(rf_strategy *s, rf_flat *flat, uint64_t capacity, uint64_t used)
{
    if (used > flat->capacity) used = flat->capacity;
    rf_flat grown = { .name = flat->name, .capacity = capacity };
    grown.buffers = RF_NEW_ARRAY(rf_gpu_buffer *, s->members.num_local);
    if (!grown.buffers) return RF_ERROR_OUT_OF_HOST_MEMORY;
    const rf_result r = fill_new(s, flat, &grown, used);
    if (r < 0) {
        rf_flat_free(s, &grown);
        return rf_error_context(r, "%s", flat->name);
    }
    rf_flat_free(s, flat);
    *flat = grown;
    return RF_OK;
}
