/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Copies between the host and memory that it cannot map, through a buffer of two halves: while the device copies one,
 * the host fills or empties the other.
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
    rf_gpu_record_host_barrier(rec);
    RF_TRY(rf_gpu_recording_end(rec));
    return rf_gpu_queue_submit(buffer->device, &rec, 1, ticket);
}

rf_result rf_gpu_staged_write(rf_gpu_buffer *buffer, uint64_t offset, const void *data, uint64_t size)
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

rf_result rf_gpu_staged_read(rf_gpu_buffer *buffer, uint64_t offset, void *data, uint64_t size)
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
