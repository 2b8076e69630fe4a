/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Blocking copies between the host and buffers. Memory that the host cannot map is copied through a buffer of two
 * halves: while the device copies one, the host fills or empties the other.
 */
#include <string.h>

#include "gpu/internal.h"

#define HALF ((uint64_t)4 << 20)

static rf_result need_staging(rf_gpu_device *device)
{
    rf_gpu_staging *s = &device->staging;
    if (!s->buffer) RF_TRY(rf_gpu_buffer_create(device, RF_GPU_MEMORY_READBACK, 2 * HALF, "staging", &s->buffer));
    for (int half = 0; half < 2; half++) {
        if (s->copies[half]) continue;
        RF_TRY(rf_gpu_recording_begin(device, "staged copy", &s->copies[half]));
        RF_TRY(rf_gpu_recording_end(s->copies[half]));
    }
    return RF_OK;
}

void rf_gpu_staging_teardown(rf_gpu_device *device)
{
    for (int half = 0; half < 2; half++) rf_gpu_recording_destroy(&device->staging.copies[half]);
    rf_gpu_buffer_destroy(&device->staging.buffer);
}

/* Part number `index` of a copy. */
typedef struct part {
    uint64_t done, size; /* bytes before it, and its own */
    uint32_t half;
    char *host; /* its half */
} part;

static part part_of(const rf_gpu_device *device, uint64_t index, uint64_t size)
{
    const uint64_t done = index * HALF, left = size - done;
    const uint32_t half = (uint32_t)(index % 2);
    return (part){ done, left < HALF ? left : HALF, half, (char *)device->staging.buffer->mapped + half * HALF };
}

/* The device's side of a part; `ticket` says when it is over. */
static rf_result part_submit(const part *p, rf_gpu_buffer *buffer, uint64_t offset, bool to_device, uint64_t *ticket)
{
    rf_gpu_staging *s = &buffer->device->staging;
    rf_gpu_recording *rec = s->copies[p->half];
    RF_TRY(rf_gpu_recording_restart(rec));
    if (to_device)
        RF_TRY(rf_gpu_record_copy(rec, s->buffer, p->half * HALF, buffer, offset + p->done, p->size));
    else
        RF_TRY(rf_gpu_record_copy(rec, buffer, offset + p->done, s->buffer, p->half * HALF, p->size));
    RF_TRY(rf_gpu_recording_end(rec));
    return rf_gpu_queue_submit(buffer->device, &rec, 1, ticket);
}

static rf_result staged_write(rf_gpu_buffer *buffer, uint64_t offset, const void *data, uint64_t size)
{
    rf_gpu_device *device = buffer->device;
    uint64_t tickets[2] = { 0 };
    RF_TRY(need_staging(device));
    const uint64_t count = (size + HALF - 1) / HALF;
    for (uint64_t i = 0; i < count; i++) {
        const part p = part_of(device, i, size);
        if (i >= 2) RF_TRY(rf_gpu_wait(device, tickets[p.half], RF_GPU_TIMEOUT_NS));
        memcpy(p.host, (const char *)data + p.done, p.size);
        RF_TRY(rf_gpu_memory_flush_buffer(device->staging.buffer));
        RF_TRY(part_submit(&p, buffer, offset, true, &tickets[p.half]));
    }
    return rf_gpu_wait(device, tickets[(count - 1) % 2], RF_GPU_TIMEOUT_NS);
}

static rf_result staged_read(rf_gpu_buffer *buffer, uint64_t offset, void *data, uint64_t size)
{
    rf_gpu_device *device = buffer->device;
    uint64_t tickets[2] = { 0 };
    RF_TRY(need_staging(device));
    const uint64_t count = (size + HALF - 1) / HALF;
    for (uint64_t i = 0; i <= count; i++) {
        if (i < count) {
            const part next = part_of(device, i, size);
            RF_TRY(part_submit(&next, buffer, offset, false, &tickets[next.half]));
        }
        if (i == 0) continue;
        const part p = part_of(device, i - 1, size);
        RF_TRY(rf_gpu_wait(device, tickets[p.half], RF_GPU_TIMEOUT_NS));
        memcpy((char *)data + p.done, p.host, p.size);
    }
    return RF_OK;
}

/* ---- any buffer ---- */

static rf_result check_range(const rf_gpu_buffer *buffer, uint64_t offset, const void *data, uint64_t size)
{
    RF_REQUIRE(buffer, "buffer is NULL");
    RF_REQUIRE(data || size == 0, "buffer '%s': data is NULL", buffer->name);
    RF_REQUIRE(offset <= buffer->size && size <= buffer->size - offset,
               "buffer '%s': %llu bytes at %llu go beyond its %llu bytes", buffer->name, (unsigned long long)size,
               (unsigned long long)offset, (unsigned long long)buffer->size);
    return RF_OK;
}

rf_result rf_gpu_buffer_write(rf_gpu_buffer *buffer, uint64_t offset, const void *data, uint64_t size)
{
    RF_TRY(check_range(buffer, offset, data, size));
    rf_gpu_device *device = buffer->device;
    RF_TRY(rf_gpu_check_lost(device));
    if (size == 0) return RF_OK;
    if (buffer->mapped) {
        RF_TRY(rf_gpu_wait_all(device));
        memcpy((char *)buffer->mapped + offset, data, size);
        return rf_gpu_memory_flush_buffer(buffer);
    }
    return staged_write(buffer, offset, data, size);
}

rf_result rf_gpu_buffer_read(rf_gpu_buffer *buffer, uint64_t offset, void *data, uint64_t size)
{
    RF_TRY(check_range(buffer, offset, data, size));
    rf_gpu_device *device = buffer->device;
    RF_TRY(rf_gpu_check_lost(device));
    if (size == 0) return RF_OK;
    if (buffer->mapped) {
        RF_TRY(rf_gpu_flush_to_host(device));
        memcpy(data, (const char *)buffer->mapped + offset, size);
        return RF_OK;
    }
    return staged_read(buffer, offset, data, size);
}
