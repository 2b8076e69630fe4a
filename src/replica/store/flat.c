/* SPDX-License-Identifier: Apache-2.0 */
/* Arrays of floats that every replica has, in one layout. */
#include "replica/store/flat.h"

#include "replica/internal.h"

enum { PIECE = 1 << 20 }; /* elements that are written at once, where the host has none of them */

void rf_flat_free(const rf_strategy *s, rf_flat *flat)
{
    for (uint32_t r = 0; flat->buffers && r < s->members.num_local; r++) rf_gpu_buffer_destroy(&flat->buffers[r]);
    rf_free(flat->buffers);
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

rf_result rf_flat_read_local(const rf_strategy *s, const rf_flat *flat, uint64_t offset, uint64_t count, float *values)
{
    for (uint32_t r = 0; r < s->members.num_local; r++)
        RF_TRY(rf_flat_read(flat, r, offset, count, values + r * count));
    return RF_OK;
}

rf_result rf_flat_gather(rf_strategy *s, const char *name, const rf_flat *flat, uint64_t offset, uint64_t count,
                         float *values)
{
    float *mine = RF_NEW_ARRAY(float, s->members.num_local *count);
    rf_result r = mine ? rf_flat_read_local(s, flat, offset, count, mine) : RF_ERROR_OUT_OF_HOST_MEMORY;
    rf_strategy_fail_in_job(s, r);
    if (r >= 0) r = rf_world_gather_replicas(&s->members.world, name, mine, values, (size_t)count * sizeof(float));
    rf_free(mine);
    return r;
}

rf_result rf_flat_write_same(const rf_strategy *s, const rf_flat *flat, uint64_t offset, uint64_t count,
                             const float *values)
{
    for (uint32_t r = 0; r < s->members.num_local; r++)
        RF_TRY(rf_replica_context(s, r, rf_flat_write(flat, r, offset, count, values)));
    return RF_OK;
}

rf_result rf_flat_clear(const rf_strategy *s, const rf_flat *flat, uint64_t offset, uint64_t count)
{
    const uint64_t most = count < PIECE ? count : PIECE;
    float *zeros = RF_NEW_ARRAY(float, most);
    rf_result r = zeros ? RF_OK : RF_ERROR_OUT_OF_HOST_MEMORY;
    for (uint64_t done = 0; r >= 0 && done < count; done += most)
        r = rf_flat_write_same(s, flat, offset + done, count - done < most ? count - done : most, zeros);
    rf_free(zeros);
    return r;
}

/* Staging: only where a replica is staged. */
static rf_result create_buffers(const rf_strategy *s, rf_gpu_memory memory, const rf_flat *flat)
{
    if (!flat->buffers) return RF_ERROR_OUT_OF_HOST_MEMORY;
    for (uint32_t r = 0; r < s->members.num_local; r++)
        if (memory == RF_GPU_MEMORY_DEVICE || s->members.replicas[r].staged)
            RF_TRY(rf_gpu_buffer_create(s->members.replicas[r].device, memory, flat->capacity * sizeof(float),
                                        flat->name, &flat->buffers[r]));
    return RF_OK;
}

static rf_result copy_values(const rf_strategy *s, const rf_flat *from, const rf_flat *to, uint64_t count)
{
    float *values = RF_NEW_ARRAY(float, count);
    rf_result r = values ? RF_OK : RF_ERROR_OUT_OF_HOST_MEMORY;
    for (uint32_t i = 0; r >= 0 && count > 0 && i < s->members.num_local; i++) {
        r = rf_flat_read(from, i, 0, count, values);
        if (r >= 0) r = rf_flat_write(to, i, 0, count, values);
    }
    rf_free(values);
    return r;
}

static rf_result replace_buffers(rf_strategy *s, rf_flat *flat, rf_gpu_memory memory, uint64_t capacity, uint64_t used)
{
    rf_flat grown = { .name = flat->name,
                      .buffers = RF_NEW_ARRAY(rf_gpu_buffer *, s->members.num_local),
                      .capacity = capacity };
    rf_result r = create_buffers(s, memory, &grown);
    if (r >= 0) r = copy_values(s, flat, &grown, used);
    if (r < 0) {
        rf_flat_free(s, &grown);
        return rf_error_context(r, "%s", flat->name);
    }
    rf_flat_free(s, flat);
    *flat = grown;
    return RF_OK;
}

rf_result rf_flat_grow(rf_strategy *s, rf_flat *flat, uint64_t capacity, uint64_t used)
{
    const uint64_t most = capacity < flat->capacity ? capacity : flat->capacity, copied = used < most ? used : most;
    return replace_buffers(s, flat, RF_GPU_MEMORY_DEVICE, capacity, copied);
}

rf_result rf_flat_fit(rf_strategy *s, rf_flat *flat, uint64_t capacity)
{
    if (flat->capacity == capacity) return RF_OK;
    RF_TRY(rf_strategy_wait(s));
    return rf_flat_grow(s, flat, capacity, flat->capacity);
}

rf_result rf_staging_ensure(rf_strategy *s, rf_staging *staging, uint64_t capacity)
{
    if (s->members.num_replicas == 1) return RF_OK;
    if (staging->down.capacity == capacity && staging->up.capacity == capacity) return RF_OK;
    RF_TRY(replace_buffers(s, &staging->down, RF_GPU_MEMORY_READBACK, capacity, 0));
    return replace_buffers(s, &staging->up, RF_GPU_MEMORY_UPLOAD, capacity, 0);
}
